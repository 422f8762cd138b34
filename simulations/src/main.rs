//! `rumord-sim`: what the protocol does in virtual time, from the command line.

use std::io::Write;
use std::process::ExitCode;

use clap::Parser;
use rumord_sim::commands::{CommandLine, Trouble, run};

fn main() -> ExitCode {
    let command_line = CommandLine::parse();
    let mut out = std::io::stdout().lock();
    let result = run(&command_line, &mut out).and_then(|()| Ok(out.flush()?));
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(Trouble::Broken(what)) => {
            eprintln!("rumord-sim: {what}");
            ExitCode::FAILURE
        }
        Err(trouble) => {
            eprintln!("rumord-sim: {trouble}");
            ExitCode::from(2)
        }
    }
}
