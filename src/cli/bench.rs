//! `rumord bench`: loads on a running daemon.

mod charge;
mod connection;
mod tally;

use clap::Subcommand;

use super::Failure;

/// Commands below `rumord bench`.
#[derive(Subcommand, Debug)]
pub(super) enum Command {
    /// Send events as fast as they are answered, with one idempotency key, one each, or none
    Charge(charge::Arguments),
}

/// Runs the load, and says how it went.
pub(super) fn run(command: &Command) -> Result<(), Failure> {
    match command {
        Command::Charge(arguments) => charge::run(arguments),
    }
}
