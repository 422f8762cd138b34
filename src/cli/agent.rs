//! `rumord agent`: runs one node in the foreground.

use std::time::Duration;

use clap::Args;

use super::{EXIT_FAILED, Failure};
use crate::daemon::settings::{Flags, Settings};
use crate::daemon::{self, StdinRole};

/// The protocol is one task; the second thread keeps HTTP from standing in its way.
const WORKER_THREADS: usize = 2;
/// How long tasks that are still busy may hold up the process's end.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_millis(200);

/// Arguments of `rumord agent`.
#[derive(Args, Debug)]
pub(super) struct Arguments {
    #[command(flatten)]
    flags: Flags,
    /// Leave when stdin ends
    #[arg(long, hide = true)]
    stop_on_stdin_eof: bool,
}

/// Runs the agent until it has left.
pub(super) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let stdin = match arguments.stop_on_stdin_eof {
        true => StdinRole::Leash,
        false => StdinRole::Ignored,
    };
    let settings = Settings::load(&arguments.flags, |name| std::env::var_os(name))?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(WORKER_THREADS)
        .enable_all()
        .build()
        .map_err(|error| Failure::new(EXIT_FAILED, format!("cannot start threads ({error})")))?;
    let outcome = runtime.block_on(daemon::run(settings, stdin));
    runtime.shutdown_timeout(SHUTDOWN_TIMEOUT);
    Ok(outcome?)
}
