//! `rumord event`: sends an event to all members.

use std::io::Read;
use std::thread;
use std::time::Duration;

use base64::Engine;
use base64::prelude::BASE64_STANDARD as BASE64;
use clap::{Args, ValueEnum};
use serde_json::{Value, json};

use super::client::{Answer, Client, Target};
use super::output::visible;
use super::{EXIT_FAILED, EXIT_UNREACHABLE, Failure, print};
use crate::member::EVENT_PAYLOAD_BYTES_MAX;

const PATH: &str = "/v1/events";
/// How long the daemon may take.
const WAIT: Duration = Duration::from_secs(10);
/// How often it is tried: with a key, a repeat cannot be another event.
const TRIES_MAX: u32 = 4;
/// Pause before the second try; each later one is twice as long.
const PAUSE: Duration = Duration::from_millis(250);

/// Arguments of `rumord event`.
#[derive(Args, Debug)]
pub(super) struct Arguments {
    #[command(flatten)]
    target: Target,
    /// What the event is called, 1-128 bytes
    name: String,
    /// What it says, at most 64 KiB; `-` reads it from stdin
    payload: Option<String>,
    /// Whether every alive member is to acknowledge it
    #[arg(long, value_enum, default_value_t = Delivery::AtLeastOnce)]
    delivery: Delivery,
    /// Idempotency key: sent again with the same key, through any node, it is the same event
    /// [default: a random one]
    #[arg(long)]
    key: Option<String>,
    /// How to print the answer
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
}

#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
enum Delivery {
    /// It is told a bounded number of times
    AtMostOnce,
    /// It is told until every alive member has it
    AtLeastOnce,
}

#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
enum Format {
    /// One line to read
    Text,
    /// The API's JSON
    Json,
}

/// Sends the event, and says which one it is.
pub(super) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let client = arguments.target.client()?;
    let body = body(arguments)?;
    let key = match &arguments.key {
        Some(key) => quoted(key),
        None => random_key()?,
    };
    let answer = send(&client, &body, &key)?.done()?;
    let text = match arguments.format {
        Format::Json => answer.body.to_string(),
        Format::Text => line(&arguments.name, &answer),
    };
    print(&format!("{text}\n"))
}

fn body(arguments: &Arguments) -> Result<Value, Failure> {
    let delivery = match arguments.delivery {
        Delivery::AtMostOnce => "at-most-once",
        Delivery::AtLeastOnce => "at-least-once",
    };
    let mut body = json!({ "name": arguments.name, "delivery": delivery });
    let payload = match arguments.payload.as_deref() {
        Some("-") => from_stdin()?,
        Some(text) => text.as_bytes().to_vec(),
        None => Vec::new(),
    };
    match String::from_utf8(payload) {
        Ok(text) => body["payload"] = text.into(),
        Err(bytes) => body["payload_base64"] = BASE64.encode(bytes.as_bytes()).into(),
    }
    Ok(body)
}

/// One byte more than fits is enough for the daemon to refuse it.
fn from_stdin() -> Result<Vec<u8>, Failure> {
    let mut payload = Vec::new();
    let mut stdin = std::io::stdin().take(EVENT_PAYLOAD_BYTES_MAX as u64 + 1);
    match stdin.read_to_end(&mut payload) {
        Ok(_) => Ok(payload),
        Err(error) => Err(Failure::new(
            EXIT_FAILED,
            format!("cannot read the payload from stdin ({error})"),
        )),
    }
}

/// The key as a quoted string, which may hold commas.
fn quoted(key: &str) -> String {
    format!("\"{}\"", key.replace('\\', "\\\\").replace('"', "\\\""))
}

fn random_key() -> Result<String, Failure> {
    let failed = |error: getrandom::Error| {
        let message = format!("the system's random number generator failed ({error}); give --key");
        Failure::new(EXIT_FAILED, message)
    };
    let (high, low) = (getrandom::u64(), getrandom::u64());
    let (high, low) = (high.map_err(failed)?, low.map_err(failed)?);
    Ok(format!("{high:016x}{low:016x}"))
}

/// Sends it until there is an answer that a repeat would not change.
fn send(client: &Client, body: &Value, key: &str) -> Result<Answer, Failure> {
    let mut pause = PAUSE;
    for _ in 1..TRIES_MAX {
        match client.post_once(PATH, body, key, WAIT) {
            Ok(answer) if !matches!(answer.status, 409 | 429) => return Ok(answer),
            Err(failure) if failure.code != EXIT_UNREACHABLE => return Err(failure),
            _ => {}
        }
        thread::sleep(pause);
        pause *= 2;
    }
    client.post_once(PATH, body, key, WAIT)
}

/// `deploy is event 17 of this node's log, and 4 of n1 (uid n1/1764516000/4)`
fn line(name: &str, answer: &Answer) -> String {
    let number = |field: &str| answer.body.get(field).and_then(Value::as_u64).unwrap_or(0);
    let text = |field: &str| {
        let text = answer.body.get(field).and_then(Value::as_str);
        visible(text.unwrap_or_default())
    };
    let repeat = match answer.status {
        200 => ", sent before",
        _ => "",
    };
    format!(
        "{} is event {} of this node's log, and {} of {} (uid {}){repeat}",
        visible(name),
        number("id"),
        number("sequence"),
        text("origin"),
        text("uid"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_quoted_and_the_answer_one_line() {
        assert_eq!(quoted(r#"a"b\c,d"#), r#""a\"b\\c,d""#);
        assert_ne!(random_key(), random_key());
        let answer = Answer {
            status: 200,
            body: json!({"uid": "ab", "id": 17, "origin": "n\u{1b}1", "sequence": 4}),
            etag: None,
        };
        assert_eq!(
            line("deploy", &answer),
            "deploy is event 17 of this node's log, and 4 of n\\u{1b}1 (uid ab), sent before"
        );
    }
}
