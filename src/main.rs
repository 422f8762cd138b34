//! The `rumord` binary: hands the process over to the command line.

use std::process::ExitCode;

fn main() -> ExitCode {
    rumord::cli::run()
}
