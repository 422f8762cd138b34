//! `rumord wait`: blocks until enough members are alive.

use std::thread;
use std::time::{Duration, Instant};

use clap::Args;

use super::api::Counts;
use super::client::Target;
use super::{EXIT_FAILED, EXIT_UNREACHABLE, Failure, print};

/// Pause before a daemon that was not reachable is asked again.
const RETRY_PAUSE: Duration = Duration::from_millis(200);

/// How long one blocking read waits before it is renewed.
const READ_WAIT: Duration = Duration::from_secs(60);
/// Longest timeout; longer ones are cut to this.
const TIMEOUT_MAX: Duration = Duration::from_secs(365 * 24 * 3600);

/// Arguments of `rumord wait`.
#[derive(Args, Debug)]
pub(super) struct Arguments {
    #[command(flatten)]
    target: Target,
    /// How many members must be alive, at least
    #[arg(long, value_name = "N")]
    alive: usize,
    /// How long to wait, like 500ms, 30s or 5m
    #[arg(long, value_name = "DURATION", default_value = "30s")]
    #[arg(value_parser = humantime::parse_duration)]
    timeout: Duration,
}

/// Waits for the members, also for a daemon that does not run yet.
pub(super) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let client = arguments.target.client()?;
    let deadline = Instant::now() + arguments.timeout.min(TIMEOUT_MAX);
    let mut index = 0;
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let answer = client.table(index, left.min(READ_WAIT));
        match &answer {
            Ok(table) if table.counts.alive >= arguments.alive => {
                return print(&format!("{} members are alive\n", table.counts.alive));
            }
            Ok(table) => index = table.index,
            Err(failure) if failure.code == EXIT_UNREACHABLE => {
                index = 0;
                thread::sleep(RETRY_PAUSE.min(left));
            }
            Err(failure) => return Err(failure.clone()),
        }
        if left.is_zero() {
            return Err(timed_out(arguments, answer.map(|table| table.counts)));
        }
    }
}

fn timed_out(arguments: &Arguments, last: Result<Counts, Failure>) -> Failure {
    let timeout = humantime::format_duration(arguments.timeout);
    let message = match last {
        Ok(counts) => format!(
            "timed out after {timeout}: {} of the {} wanted members are alive ({} listed)",
            counts.alive,
            arguments.alive,
            counts.total()
        ),
        Err(failure) => format!("timed out after {timeout}: {}", failure.message),
    };
    Failure::new(EXIT_FAILED, message)
}
