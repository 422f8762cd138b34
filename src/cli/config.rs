//! `rumord config`: checks a settings file, prints the defaults.

use std::path::PathBuf;

use clap::{Subcommand, ValueHint};

use crate::daemon::settings::{check_file, default_file};

use super::{Failure, print};

/// What to do with settings.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Check a settings file; exits with 78 and names the line if it is wrong.
    Check {
        /// The file.
        #[arg(value_hint = ValueHint::FilePath)]
        file: PathBuf,
    },
    /// Print a settings file with every key at its default.
    Default,
}

/// Runs `rumord config`.
///
/// # Errors
/// 78 with the first wrong line; 1 where standard output cannot be written.
pub fn run(command: &Command) -> Result<(), Failure> {
    match command {
        Command::Check { file } => {
            check_file(file)?;
            print(&format!("{}: ok\n", file.display()))
        }
        Command::Default => print(&default_file()),
    }
}
