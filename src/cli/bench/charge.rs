//! `rumord bench charge`: many connections send the same charge, or one each.

use std::fmt::Write as _;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use clap::Args;
use serde_json::json;

use super::super::client::Target;
use super::super::{EXIT_FAILED, EXIT_UNREACHABLE, Failure, print};
use super::connection::Connection;
use super::tally::Tally;

/// Pause of a connection that was told that too much waits, or that was lost.
const PAUSE: Duration = Duration::from_millis(10);

/// Arguments of `rumord bench charge`.
#[derive(Args, Debug)]
pub(in crate::cli) struct Arguments {
    #[command(flatten)]
    target: Target,
    /// The idempotency key of every request; without it they have none
    #[arg(long, conflicts_with = "distinct_keys")]
    key: Option<String>,
    /// Give every request a key of its own
    #[arg(long)]
    distinct_keys: bool,
    /// How long to send
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=3600))]
    seconds: u64,
    /// Connections at a time
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u64).range(1..=512))]
    connections: u64,
}

/// How requests are told apart.
enum Keys {
    None,
    One(String),
    /// A key begins with this, which no other run has.
    Distinct(String),
}

/// What the daemon's metrics say.
#[derive(Clone, Copy, Default)]
struct Metered {
    events: f64,
    commits: f64,
    commit_seconds: f64,
}

/// Sends the load and prints how it went.
///
/// # Errors
/// The daemon is not reachable, an answer did not come, or one key was more than one event.
pub(in crate::cli) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let base = arguments.target.client()?.url("");
    let authority = base.trim_start_matches("http://").to_owned();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::new(EXIT_FAILED, format!("cannot start ({error})")))?;
    runtime.block_on(load(arguments, &authority))
}

async fn load(arguments: &Arguments, authority: &str) -> Result<(), Failure> {
    let unreachable = |error: io::Error| {
        let message = format!(
            "no daemon answers at {authority} ({error}); start one with `rumord agent`, or name \
             another with --http"
        );
        Failure::new(EXIT_UNREACHABLE, message)
    };
    let keys = Arc::new(Keys::new(arguments)?);
    let before = metered(authority).await.map_err(unreachable)?;
    let began = Instant::now();
    let end = began + Duration::from_secs(arguments.seconds);
    let tasks: Vec<_> = (0..arguments.connections)
        .map(|number| {
            let (authority, keys) = (authority.to_owned(), Arc::clone(&keys));
            tokio::spawn(async move { send(&authority, &keys, number, end).await })
        })
        .collect();
    let mut tally = Tally::default();
    for task in tasks {
        match task.await {
            Ok(seen) => tally.add(seen),
            Err(error) => tally.fail(&error.to_string()),
        }
    }
    let took = began.elapsed();
    let after = metered(authority).await.map_err(unreachable)?;
    print(&report(arguments, &mut tally, took, (before, after)))?;
    verdict(&keys, &tally, after.events - before.events)
}

impl Keys {
    fn new(arguments: &Arguments) -> Result<Self, Failure> {
        if let Some(key) = &arguments.key {
            return Ok(Keys::One(key.clone()));
        }
        if !arguments.distinct_keys {
            return Ok(Keys::None);
        }
        let run = getrandom::u64().map_err(|error| {
            let message = format!("the system's random number generator failed ({error})");
            Failure::new(EXIT_FAILED, message)
        })?;
        Ok(Keys::Distinct(format!("{run:016x}")))
    }

    fn header(&self, connection: u64, request: u64) -> String {
        match self {
            Keys::None => String::new(),
            Keys::One(key) => format!("Idempotency-Key: {key}\r\n"),
            Keys::Distinct(run) => {
                format!("Idempotency-Key: {run}-{connection}-{request}\r\n")
            }
        }
    }
}

/// One connection's work.
async fn send(authority: &str, keys: &Keys, number: u64, end: Instant) -> Tally {
    let mut tally = Tally::default();
    let body = json!({"name": "charge", "payload": "{\"account\":1,\"amount\":5}"}).to_string();
    let mut connection = None;
    let mut count = 0;
    while Instant::now() < end {
        let open = match connection.take() {
            Some(open) => Ok(open),
            None => Connection::open(authority).await,
        };
        let mut open: Connection = match open {
            Ok(open) => open,
            Err(error) => {
                tally.fail(&error.to_string());
                tokio::time::sleep(PAUSE).await;
                continue;
            }
        };
        count += 1;
        let request = format!(
            "POST /v1/events HTTP/1.1\r\nHost: {authority}\r\nContent-Type: application/json\r\n\
             {}Content-Length: {}\r\n\r\n{body}",
            keys.header(number, count),
            body.len()
        );
        let asked = Instant::now();
        match open.ask(request.as_bytes()).await {
            Ok(answer) => {
                tally.note(&answer, asked.elapsed());
                connection = Some(open);
                if answer.status == 429 {
                    tokio::time::sleep(PAUSE).await;
                }
            }
            Err(error) => tally.fail(&error.to_string()),
        }
    }
    tally
}

async fn metered(authority: &str) -> io::Result<Metered> {
    let mut connection = Connection::open(authority).await?;
    let request = format!("GET /metrics HTTP/1.1\r\nHost: {authority}\r\n\r\n");
    let answer = connection.ask(request.as_bytes()).await?;
    let text = String::from_utf8_lossy(&answer.body);
    let value = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name));
        line.and_then(|rest| rest.trim().parse().ok())
            .unwrap_or(0.0)
    };
    Ok(Metered {
        events: value("rumord_events_total{kind=\"user\"} "),
        commits: value("rumord_store_commit_seconds_count "),
        commit_seconds: value("rumord_store_commit_seconds_sum "),
    })
}

fn report(
    arguments: &Arguments,
    tally: &mut Tally,
    took: Duration,
    (before, after): (Metered, Metered),
) -> String {
    let seconds = took.as_secs_f64();
    let answers = tally.answers();
    let mut text = String::new();
    let keys = match (&arguments.key, arguments.distinct_keys) {
        (Some(_), _) => "one key",
        (None, true) => "a key each",
        (None, false) => "no key",
    };
    // Writing to a string cannot fail.
    let _ = writeln!(
        text,
        "{} connections, {seconds:.1} s, {keys}\nanswers          {answers}, {:.0} a second",
        arguments.connections,
        answers as f64 / seconds
    );
    for (status, count) in &tally.statuses {
        let _ = writeln!(text, "status {status}       {count}");
    }
    let (median, p99) = (tally.percentile(0.5), tally.percentile(0.99));
    let commits = after.commits - before.commits;
    let committing = after.commit_seconds - before.commit_seconds;
    let _ = writeln!(
        text,
        "errors           {}\nlatency          p50 {median:.2} ms, p99 {p99:.2} ms\n\
         distinct bodies  {}\nevents logged    {:.0}\n\
         commits          {commits:.0}, {:.1} % of the time in them",
        tally.errors,
        tally.distinct_bodies(),
        after.events - before.events,
        100.0 * committing / seconds,
    );
    text
}

/// Whether what was promised was kept.
fn verdict(keys: &Keys, tally: &Tally, events: f64) -> Result<(), Failure> {
    let failed = |message: String| Err(Failure::new(EXIT_FAILED, message));
    let created = tally.count(201);
    if tally.errors > 0 {
        let reason = tally.reason.as_deref().unwrap_or("unknown");
        return failed(format!(
            "{} requests got no answer ({reason})",
            tally.errors
        ));
    }
    let wrong = tally.answers() - created - tally.count(200) - tally.count(429);
    if wrong > 0 {
        return failed(format!("{wrong} requests failed; see the statuses"));
    }
    match keys {
        Keys::One(_) if created > 1 => failed(format!("one key, {created} times 201")),
        Keys::One(_) if tally.count(429) == 0 && tally.distinct_bodies() > 1 => {
            let bodies = tally.distinct_bodies();
            failed(format!("one key, {bodies} different answers"))
        }
        Keys::None | Keys::Distinct(_) if (created as f64) > events => {
            failed(format!("{created} times 201, {events} events"))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::super::connection::Answer;
    use super::*;

    fn tally(statuses: &[u16]) -> Tally {
        let mut tally = Tally::default();
        for &status in statuses {
            let body = b"a".to_vec();
            tally.note(&Answer { status, body }, PAUSE);
        }
        tally
    }

    #[test]
    fn more_than_one_creation_under_a_key_is_a_failure() {
        let one = Keys::One("k".into());
        assert_eq!(verdict(&one, &tally(&[201, 200, 200]), 1.0), Ok(()));
        assert_eq!(verdict(&one, &tally(&[200, 200]), 0.0), Ok(()));
        assert!(verdict(&one, &tally(&[201, 201]), 2.0).is_err());
        assert!(verdict(&one, &tally(&[201, 503]), 1.0).is_err());
        let each = Keys::Distinct("r".into());
        assert_eq!(verdict(&each, &tally(&[201, 201, 429]), 2.0), Ok(()));
        assert!(
            verdict(&each, &tally(&[201, 201]), 1.0).is_err(),
            "one is lost"
        );
        let mut lost = tally(&[201]);
        lost.fail("reset");
        assert!(verdict(&Keys::None, &lost, 1.0).is_err());
        assert_ne!(each.header(1, 2), each.header(2, 1));
    }
}
