//! The command line: what the commands are, and how their failures end the process.

mod completions;
mod config;
mod man;

use std::io::{self, Write};
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use clap_complete::Shell;

use crate::daemon::settings::{Flags, Settings, SettingsError};

/// A gossip cluster-membership daemon and its client.
#[derive(Debug, Parser)]
#[command(name = "rumord", version, arg_required_else_help = true)]
pub struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run one node in the foreground.
    Agent(Flags),
    /// Check a settings file, or print the defaults.
    #[command(subcommand)]
    Config(config::Command),
    /// Print shell completions.
    Completions {
        /// The shell that they are for.
        shell: Shell,
    },
    /// Print the manual, a page for every command.
    Man,
}

/// Why a command failed: what its process exits with and says.
#[derive(Debug)]
pub struct Failure {
    /// Exit code: 1 failed, 2 usage, 69 daemon not reachable, 78 bad configuration.
    pub code: u8,
    /// One line that says what to do.
    pub message: String,
}

impl From<SettingsError> for Failure {
    fn from(error: SettingsError) -> Self {
        Failure {
            code: error.exit_code(),
            message: error.to_string(),
        }
    }
}

/// Runs the command that the process's arguments name.
#[must_use]
pub fn run() -> ExitCode {
    let result = match Cli::parse().command {
        Command::Agent(flags) => agent(&flags),
        Command::Config(command) => config::run(&command),
        Command::Completions { shell } => completions::run(shell),
        Command::Man => man::run(),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(Failure { code, message }) => {
            eprintln!("rumord: {message}");
            ExitCode::from(code)
        }
    }
}

fn agent(flags: &Flags) -> Result<(), Failure> {
    Settings::load(flags, |name| std::env::var_os(name))?;
    Ok(())
}

/// Writes `text` to stdout. A reader that has seen enough and closed the pipe is no failure.
fn print(text: &str) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            let message = format!("cannot write to standard output ({error}); check where it goes");
            Err(Failure { code: 1, message })
        }
        _ => Ok(()),
    }
}
