//! The command line.

mod agent;
mod api;
mod bench;
mod client;
mod completions;
mod config;
mod dev;
mod event;
mod explain;
mod forget;
mod info;
mod join;
mod leave;
mod maintenance;
mod man;
mod members;
mod outbox;
mod output;
mod reachability;
mod service;
mod table;
mod tags;
mod wait;
mod watch;

use std::process::ExitCode;

use clap::error::ErrorKind;
use clap::{Parser, Subcommand};
use clap_complete::Shell;

use self::output::print;
use crate::daemon::RunError;
use crate::daemon::settings::SettingsError;

/// The command failed or timed out.
pub const EXIT_FAILED: u8 = 1;
/// The command line is wrong.
pub const EXIT_USAGE: u8 = 2;
/// The daemon is not reachable.
pub const EXIT_UNREACHABLE: u8 = 69;
/// The configuration is wrong.
pub const EXIT_CONFIG: u8 = 78;

/// A gossip cluster-membership daemon and its client.
#[derive(Parser, Debug)]
#[command(
    name = "rumord",
    version,
    propagate_version = true,
    disable_help_subcommand = true
)]
pub struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand, Debug)]
enum Command {
    /// Run one node in the foreground
    Agent(agent::Arguments),
    /// Start a cluster of real nodes on this machine and watch it live
    Dev(dev::Arguments),
    /// Show the member table
    Members(members::Arguments),
    /// Say why a member has its status, with the evidence
    Explain(explain::Arguments),
    /// Show this node: identity, addresses, counters, health
    Info(info::Arguments),
    /// Show who cannot see whom, by datagram and stream, and the likely cause
    Reachability(reachability::Arguments),
    /// Join a cluster through the address of any of its members
    Join(join::Arguments),
    /// Remove a member for good, cluster-wide; one that runs is asked first, and stays
    Forget(forget::Arguments),
    /// Leave the cluster gracefully and stop the daemon
    Leave(leave::Arguments),
    /// Set or remove tags of this node, until the daemon ends
    #[command(subcommand)]
    Tags(tags::Command),
    /// Offer a service on this node, or stop offering it
    #[command(subcommand)]
    Service(service::Command),
    /// Announce a planned absence of this node, which is no failure
    #[command(subcommand)]
    Maintenance(maintenance::Command),
    /// Wait until enough members are alive
    Wait(wait::Arguments),
    /// Send an event to all members
    Event(event::Arguments),
    /// Follow membership changes and events
    Watch(watch::Arguments),
    /// Put a load on a daemon, and see what it does with it
    #[command(subcommand)]
    Bench(bench::Command),
    /// List what handlers and webhooks could not be told, or have it told again
    #[command(subcommand)]
    Outbox(outbox::Command),
    /// Check a settings file, or print the defaults
    #[command(subcommand)]
    Config(config::Command),
    /// Print shell completions
    Completions {
        /// The shell that they are for
        shell: Shell,
    },
    /// Print the manual, a page for every command
    Man,
}

/// Why a command ended without having done its work: an exit code and one line for stderr.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Failure {
    /// The process's exit code.
    pub code: u8,
    /// What is wrong and what to do, in one line; nothing is printed when it is empty.
    pub message: String,
}

impl Failure {
    /// A failure with this exit code.
    #[must_use]
    pub fn new(code: u8, message: impl Into<String>) -> Self {
        Failure {
            code,
            message: message.into(),
        }
    }

    /// The reader of stdout has gone: there is nothing left to do, and nothing wrong.
    const fn reader_gone() -> Self {
        Failure {
            code: 0,
            message: String::new(),
        }
    }
}

impl From<SettingsError> for Failure {
    fn from(error: SettingsError) -> Self {
        Failure::new(error.exit_code(), error.to_string())
    }
}

impl From<RunError> for Failure {
    fn from(error: RunError) -> Self {
        Failure::new(error.exit_code(), error.to_string())
    }
}

/// Parses the process's arguments, runs the command and gives the exit code; wrong usage ends the
/// process with code 2.
#[must_use]
pub fn run() -> ExitCode {
    let outcome = match Cli::try_parse() {
        Ok(cli) => dispatch(cli.command),
        Err(error) if is_help(&error) => error.exit(),
        Err(error) => Err(Failure::new(EXIT_USAGE, one_line(&error))),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            if !failure.message.is_empty() {
                eprintln!("rumord: {}", failure.message);
            }
            ExitCode::from(failure.code)
        }
    }
}

/// Help or the version, whether asked for or for want of a command.
fn is_help(error: &clap::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::DisplayHelp
            | ErrorKind::DisplayVersion
            | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand
    )
}

/// What is wrong with the command line, as one line like every other error.
fn one_line(error: &clap::Error) -> String {
    let text = error.to_string();
    let said = text
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty())
        .filter(|line| !line.starts_with("Usage:") && !line.starts_with("For more information"));
    let words: Vec<&str> = said.chain(["see --help"]).collect();
    let line = words.join("; ").replace(":; ", ": ");
    line.trim_start_matches("error: ").to_owned()
}

fn dispatch(command: Command) -> Result<(), Failure> {
    match command {
        Command::Agent(arguments) => agent::run(&arguments),
        Command::Dev(arguments) => dev::run(&arguments),
        Command::Members(arguments) => members::run(&arguments),
        Command::Explain(arguments) => explain::run(&arguments),
        Command::Info(arguments) => info::run(&arguments),
        Command::Reachability(arguments) => reachability::run(&arguments),
        Command::Join(arguments) => join::run(&arguments),
        Command::Forget(arguments) => forget::run(&arguments),
        Command::Leave(arguments) => leave::run(&arguments),
        Command::Tags(command) => tags::run(&command),
        Command::Service(command) => service::run(&command),
        Command::Maintenance(command) => maintenance::run(&command),
        Command::Wait(arguments) => wait::run(&arguments),
        Command::Event(arguments) => event::run(&arguments),
        Command::Bench(command) => bench::run(&command),
        Command::Watch(arguments) => watch::run(&arguments),
        Command::Outbox(command) => outbox::run(&command),
        Command::Config(command) => config::run(&command),
        Command::Completions { shell } => completions::run(shell),
        Command::Man => man::run(),
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_consistent_and_every_flag_has_help() {
        let mut command = Cli::command();
        command.build();
        command.clone().debug_assert();
        for sub in command.get_subcommands() {
            assert!(sub.get_about().is_some(), "{} has no help", sub.get_name());
            for flag in sub.get_arguments() {
                let name = flag.get_id();
                assert!(
                    flag.get_help().is_some(),
                    "{} {name} has no help",
                    sub.get_name()
                );
            }
        }
    }
}
