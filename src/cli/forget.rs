//! `rumord forget`: removes a member for good.

use std::thread;
use std::time::{Duration, Instant};

use clap::Args;
use serde_json::Value;

use super::client::{Answer, Client, Target, in_path};
use super::output::visible;
use super::{EXIT_FAILED, Failure, print};

/// How long the daemon may take to answer.
const FORGET_WAIT: Duration = Duration::from_secs(30);
/// Pause between two looks at the progress.
const LOOK_PAUSE: Duration = Duration::from_millis(200);

/// Arguments of `rumord forget`.
#[derive(Args, Debug)]
pub(super) struct Arguments {
    #[command(flatten)]
    target: Target,
    /// The member's name
    #[arg(value_name = "NAME")]
    name: String,
    /// Wait until all alive members have forgotten it, or it was refused
    #[arg(long)]
    wait: bool,
    /// How long to wait with --wait, like 500ms, 30s or 5m
    #[arg(long, value_name = "DURATION", default_value = "30s")]
    #[arg(value_parser = humantime::parse_duration)]
    timeout: Duration,
}

/// Forgets the member, and says how far that has come.
pub(super) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let client = arguments.target.client()?;
    let asked = Instant::now();
    loop {
        let answer = ask(&client, &arguments.name)?;
        if !arguments.wait || is_complete(&answer) {
            return print(&format!("{}\n", describe(&answer)));
        }
        if asked.elapsed() >= arguments.timeout {
            let timeout = humantime::format_duration(arguments.timeout);
            let message = format!("timed out after {timeout}: {}", describe(&answer));
            return Err(Failure::new(EXIT_FAILED, message));
        }
        thread::sleep(LOOK_PAUSE);
    }
}

fn ask(client: &Client, name: &str) -> Result<Answer, Failure> {
    let path = format!("/v1/members/{}", in_path(name));
    client.delete(&path, FORGET_WAIT)?.done()
}

fn is_complete(answer: &Answer) -> bool {
    answer.body.get("complete").and_then(Value::as_bool) == Some(true)
}

fn describe(answer: &Answer) -> String {
    let text = |field: &str| answer.body.get(field).and_then(Value::as_str);
    let number = |field: &str| answer.body.get(field).and_then(Value::as_u64).unwrap_or(0);
    let name = visible(text("name").unwrap_or_default());
    match text("state") {
        Some("asking") => format!(
            "{name} may be running and is asked; it stays if it answers within {:.1} s, repeat \
             the command to see",
            number("answer_within_ms") as f64 / 1000.0
        ),
        _ => format!(
            "{name} is forgotten; {} of {} alive members know",
            number("known"),
            number("alive")
        ),
    }
}
