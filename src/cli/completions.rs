//! `rumord completions`: what a shell needs to complete commands and flags.

use clap::CommandFactory;
use clap_complete::Shell;

use super::{Cli, Failure, print};

/// Prints the completion script of `shell`.
///
/// # Errors
/// 1 where standard output cannot be written.
pub fn run(shell: Shell) -> Result<(), Failure> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "rumord", &mut script);
    print(&String::from_utf8_lossy(&script))
}
