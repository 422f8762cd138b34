//! `rumord wait`: blocks until enough members are alive, or all agree, or both.

use std::thread;
use std::time::{Duration, Instant};

use clap::Args;

use super::api::{Agreement, Counts};
use super::client::{Client, Target};
use super::output::visible;
use super::{EXIT_FAILED, EXIT_UNREACHABLE, Failure, print};

/// Pause before a daemon that was not reachable is asked again.
const RETRY_PAUSE: Duration = Duration::from_millis(200);

/// How long one blocking read waits before it is renewed.
const READ_WAIT: Duration = Duration::from_secs(60);
/// Longest timeout; longer ones are cut to this.
const TIMEOUT_MAX: Duration = Duration::from_secs(365 * 24 * 3600);
/// Members named when the time is over; the rest are counted.
const LAGGARDS_NAMED: usize = 20;

/// Arguments of `rumord wait`.
#[derive(Args, Debug)]
#[group(id = "condition", required = true, multiple = true, args = ["alive", "converged"])]
pub(super) struct Arguments {
    #[command(flatten)]
    target: Target,
    /// How many members must be alive, at least
    #[arg(long, value_name = "N")]
    alive: Option<usize>,
    /// Wait until every member that this node calls alive is known to hold the same table
    #[arg(long)]
    converged: bool,
    /// How long to wait, like 500ms, 30s or 5m
    #[arg(long, value_name = "DURATION", default_value = "30s")]
    #[arg(value_parser = humantime::parse_duration)]
    timeout: Duration,
}

/// What a daemon shows of what is waited for.
#[derive(Default)]
struct Seen {
    index: u64,
    counts: Option<Counts>,
    agreement: Option<Agreement>,
}

/// Waits, also for a daemon that does not run yet.
pub(super) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let client = arguments.target.client()?;
    let deadline = Instant::now() + arguments.timeout.min(TIMEOUT_MAX);
    let mut seen = Seen::default();
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let looked = seen.look(&client, arguments, left.min(READ_WAIT));
        match &looked {
            Ok(()) if seen.holds(arguments) => return print(&seen.done(arguments)),
            Ok(()) => {}
            Err(failure) if failure.code == EXIT_UNREACHABLE => {
                seen = Seen::default();
                thread::sleep(RETRY_PAUSE.min(left));
            }
            Err(failure) => return Err(failure.clone()),
        }
        if left.is_zero() {
            return Err(timed_out(arguments, looked.map(|()| seen)));
        }
    }
}

impl Seen {
    /// Asks for what does not hold yet, and waits for it up to `wait`.
    fn look(&mut self, client: &Client, wanted: &Arguments, wait: Duration) -> Result<(), Failure> {
        let few = self.counts.is_none_or(|counts| !enough(wanted, counts));
        if wanted.alive.is_some() && few {
            self.look_at_table(client, self.index, wait)?;
        } else if wanted.converged {
            self.agreement = Some(client.agreement(wait)?);
            // What was enough before may have died meanwhile.
            self.look_at_table(client, 0, Duration::ZERO)?;
        }
        Ok(())
    }

    fn look_at_table(
        &mut self,
        client: &Client,
        after: u64,
        wait: Duration,
    ) -> Result<(), Failure> {
        let table = client.table(after, wait)?;
        self.index = table.index;
        self.counts = Some(table.counts);
        Ok(())
    }

    fn holds(&self, wanted: &Arguments) -> bool {
        let agreed = |agreement: &Agreement| agreement.converged;
        self.counts.is_some_and(|counts| enough(wanted, counts))
            && (!wanted.converged || self.agreement.as_ref().is_some_and(agreed))
    }

    fn done(&self, wanted: &Arguments) -> String {
        let alive = self.counts.map_or(0, |counts| counts.alive);
        match &self.agreement {
            Some(agreement) if wanted.converged => {
                let (agree, table) = (agreement.agree, visible(&agreement.fingerprint));
                format!("{agree} members agree on table {table}\n")
            }
            _ => format!("{alive} members are alive\n"),
        }
    }
}

fn enough(wanted: &Arguments, counts: Counts) -> bool {
    wanted.alive.is_none_or(|alive| counts.alive >= alive)
}

fn timed_out(arguments: &Arguments, last: Result<Seen, Failure>) -> Failure {
    let timeout = humantime::format_duration(arguments.timeout);
    let reason = match last {
        Ok(seen) => seen.missing(arguments),
        Err(failure) => failure.message,
    };
    Failure::new(EXIT_FAILED, format!("timed out after {timeout}: {reason}"))
}

impl Seen {
    /// What does not hold, in words.
    fn missing(&self, wanted: &Arguments) -> String {
        let mut reasons = Vec::new();
        if let (Some(counts), Some(alive)) = (self.counts, wanted.alive)
            && !enough(wanted, counts)
        {
            let total = counts.total();
            let held = counts.alive;
            reasons.push(format!(
                "{held} of the {alive} wanted members are alive ({total} listed)"
            ));
        }
        if let Some(agreement) = self.agreement.as_ref().filter(|seen| !seen.converged) {
            reasons.push(lagging(agreement));
        }
        reasons.join("; ")
    }
}

fn lagging(agreement: &Agreement) -> String {
    let (agree, alive) = (agreement.agree, agreement.alive);
    if agreement.laggards.is_empty() {
        return format!("{agree} of {alive} members agree, but this node is not ready");
    }
    let named = agreement.laggards.iter().take(LAGGARDS_NAMED);
    let names: Vec<String> = named.map(|name| visible(name)).collect();
    let more = match agreement.laggards.len().saturating_sub(LAGGARDS_NAMED) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let names = names.join(", ");
    format!("{agree} of {alive} members agree, not known to: {names}{more}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_laggards_are_named_and_the_rest_counted() {
        let agreement = |laggards: usize| Agreement {
            alive: 90,
            agree: 90 - laggards,
            laggards: (0..laggards).map(|n| format!("n{n:02}")).collect(),
            converged: false,
            fingerprint: "9f86d081884c7d65".into(),
        };
        let expected = "87 of 90 members agree, not known to: n00, n01, n02";
        assert_eq!(lagging(&agreement(3)), expected);
        let many = lagging(&agreement(50));
        assert!(many.ends_with("n18, n19 and 30 more"), "{many}");
        assert!(lagging(&agreement(0)).ends_with("this node is not ready"));
    }
}
