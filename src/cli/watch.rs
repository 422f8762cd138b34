//! `rumord watch`: follows membership changes and events.

use std::thread;
use std::time::Duration;

use clap::{Args, ValueEnum};
use serde::Deserialize;
use serde_json::{Value, json};

use super::client::{Client, Target};
use super::output::visible;
use super::{EXIT_FAILED, EXIT_UNREACHABLE, Failure, print};

/// How long one read waits for something new before it is renewed.
const READ_WAIT: Duration = Duration::from_secs(30);
/// Events of one read.
const PAGE: u64 = 1000;
/// Characters of a payload that are shown on a line.
const PAYLOAD_SHOWN: usize = 80;
/// Pause before an agent that has gone is asked again.
const RETRY_PAUSE: Duration = Duration::from_millis(300);

/// Arguments of `rumord watch`.
#[derive(Args, Debug)]
pub(super) struct Arguments {
    #[command(flatten)]
    target: Target,
    /// Begin after this event; 0 for all that the agent still holds; without it only what is new
    #[arg(long, value_name = "ID")]
    after: Option<u64>,
    /// How to print an event
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
}

#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
enum Format {
    /// One line to read
    Text,
    /// The API's JSON, one line for each event
    Json,
}

/// One page of the log, as the API answers.
#[derive(Deserialize)]
struct Page {
    events: Vec<Value>,
    next: u64,
    head: u64,
    reset: Option<String>,
}

/// Prints what happens until it is ended; an agent that restarts is found again.
pub(super) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let client = arguments.target.client()?;
    let mut after = match arguments.after {
        Some(after) => after,
        None => read(&client, 0, 0, Duration::ZERO)?.head,
    };
    let mut lost = false;
    let mut wait = Duration::ZERO;
    loop {
        match read(&client, after, PAGE, wait) {
            Ok(page) => {
                if std::mem::take(&mut lost) {
                    eprintln!("rumord: the daemon answers again");
                }
                print(&shown(&page, arguments.format)?)?;
                after = page.next;
                wait = READ_WAIT;
            }
            // It was there before: it may come back.
            Err(failure) if failure.code == EXIT_UNREACHABLE && !wait.is_zero() => {
                if !std::mem::replace(&mut lost, true) {
                    eprintln!("rumord: {}; trying again", failure.message);
                }
                thread::sleep(RETRY_PAUSE);
            }
            Err(failure) => return Err(failure),
        }
    }
}

fn read(client: &Client, after: u64, limit: u64, wait: Duration) -> Result<Page, Failure> {
    let query = [
        ("after", after.to_string()),
        ("limit", limit.to_string()),
        ("wait", format!("{}ms", wait.as_millis())),
    ];
    client.get_blocking("/v1/events", &query, wait)
}

fn shown(page: &Page, format: Format) -> Result<String, Failure> {
    let mut text = String::new();
    if let Some(reason) = &page.reset {
        text.push_str(&reset_line(reason, page.next, format));
    }
    for event in &page.events {
        match format {
            Format::Json => text.push_str(&event.to_string()),
            Format::Text => text.push_str(&line(event)?),
        }
        text.push('\n');
    }
    Ok(text)
}

fn reset_line(reason: &str, next: u64, format: Format) -> String {
    let reason = visible(reason);
    match format {
        Format::Json => format!(
            "{}\n",
            json!({"kind": "reset", "reason": reason, "next": next})
        ),
        Format::Text => format!(
            "-- reset ({reason}): events are missing here; `rumord members` shows what is\n"
        ),
    }
}

/// `2026-11-30T15:20:04.512Z 17 member-dead n3 127.0.0.1:7493 suspect -> dead phi=9.8 rule=own`
fn line(event: &Value) -> Result<String, Failure> {
    let text = |field: &str| event.get(field).and_then(Value::as_str);
    let (Some(id), Some(time), Some(kind)) = (event["id"].as_u64(), text("time"), text("kind"))
    else {
        let message = "this is no event; check --http";
        return Err(Failure::new(EXIT_FAILED, message));
    };
    let mut line = format!("{} {id} {:<16}", visible(time), visible(kind));
    for field in ["member", "address"].into_iter().filter_map(text) {
        line.push(' ');
        line.push_str(&visible(field));
    }
    if let Some(to) = text("to") {
        let from = text("from").unwrap_or("new");
        let change = match from == to {
            true => format!(" {to}"),
            false => format!(" {from} -> {to}"),
        };
        line.push_str(&visible(&change));
    }
    line.push_str(&sent(event));
    if let Some(evidence) = event.get("evidence") {
        let rule = evidence["rule"].as_str().unwrap_or("unknown");
        line.push_str(&format!(" phi={} rule={}", evidence["phi"], visible(rule)));
        if let Some(teller) = evidence["told_by"].as_str() {
            line.push_str(&format!(" told-by={}", visible(teller)));
        }
        if evidence["phase"].is_string() {
            let (witnesses, silence) = (&evidence["witnesses"], &evidence["silence_ms"]);
            line.push_str(&format!(" witnesses={witnesses} silence={silence}ms"));
        }
    }
    Ok(line)
}

/// ` deploy from n1 #4 at-least-once: v1`, for an event of a client.
fn sent(event: &Value) -> String {
    let text = |field: &str| event.get(field).and_then(Value::as_str);
    let (Some(name), Some(origin)) = (text("name"), text("origin")) else {
        return String::new();
    };
    let number = event["sequence"].as_u64().unwrap_or(0);
    let delivery = text("delivery").unwrap_or("unknown");
    let mut sent = format!(" {name} from {origin} #{number} {delivery}");
    if let Some(id) = event["overruled"]["id"].as_u64() {
        sent.push_str(&format!(" overrules event {id}"));
    }
    match (text("payload"), text("payload_base64")) {
        (Some(""), _) | (None, None) => {}
        (Some(payload), _) => {
            sent.push_str(": ");
            sent.extend(payload.chars().take(PAYLOAD_SHOWN));
            if payload.chars().count() > PAYLOAD_SHOWN {
                sent.push_str("...");
            }
        }
        (None, Some(bytes)) => {
            let padding = bytes.bytes().rev().take_while(|byte| *byte == b'=').count();
            sent.push_str(&format!(": {} bytes", bytes.len() / 4 * 3 - padding));
        }
    }
    visible(&sent)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page() -> Page {
        let page = json!({
            "events": [
                {"id": 17, "time": "2026-11-30T15:20:04.512Z", "kind": "member-dead",
                 "member": "n3", "address": "127.0.0.1:7493", "generation": 1, "incarnation": 0,
                 "from": "suspect", "to": "dead", "evidence": {"phi": 9.8, "rule": "own"}},
                {"id": 18, "time": "2026-11-30T15:20:05.000Z", "kind": "member-up",
                 "member": "n\u{1b}4", "generation": 1, "incarnation": 0, "to": "alive"},
            ],
            "next": 18, "head": 18, "reset": "gap",
        });
        serde_json::from_value(page).expect("a page")
    }

    #[test]
    fn events_are_lines_and_cannot_drive_the_terminal() {
        let text = shown(&page(), Format::Text).expect("events");
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines[0].starts_with("-- reset (gap)"), "{text}");
        assert_eq!(
            lines[1],
            "2026-11-30T15:20:04.512Z 17 member-dead      n3 127.0.0.1:7493 suspect -> dead \
             phi=9.8 rule=own"
        );
        assert_eq!(
            lines[2],
            "2026-11-30T15:20:05.000Z 18 member-up        n\\u{1b}4 new -> alive"
        );
        assert!(line(&json!({"id": 1})).is_err());
    }

    #[test]
    fn json_is_one_object_for_each_line() {
        let text = shown(&page(), Format::Json).expect("events");
        let lines: Vec<Value> = text
            .lines()
            .map(|line| serde_json::from_str(line).expect("JSON"))
            .collect();
        assert_eq!(
            lines[0],
            json!({"kind": "reset", "reason": "gap", "next": 18})
        );
        assert_eq!((lines[1]["id"].as_u64(), lines.len()), (Some(17), 3));
    }

    #[test]
    fn events_of_clients_show_what_they_say() {
        let event = |more: Value| {
            let mut event = json!({
                "id": 18, "time": "T", "kind": "user", "uid": "n1/7/4", "name": "deploy",
                "origin": "n1", "sequence": 4, "delivery": "at-least-once",
            });
            let fields = more.as_object().expect("fields").clone();
            event.as_object_mut().expect("fields").extend(fields);
            line(&event).expect("an event")
        };
        let head = "T 18 user             deploy from n1 #4 at-least-once";
        assert_eq!(event(json!({"payload": ""})), head);
        assert_eq!(
            event(json!({"payload": "v\n1"})),
            format!("{head}: v\\u{{a}}1")
        );
        let long = event(json!({"payload": "x".repeat(100)}));
        assert_eq!(long, format!("{head}: {}...", "x".repeat(80)));
        assert_eq!(
            event(json!({"payload_base64": "AJ+Slg=="})),
            format!("{head}: 4 bytes")
        );
        let overruled = event(json!({"payload": "a", "overruled": {"id": 17}}));
        assert_eq!(overruled, format!("{head} overrules event 17: a"));
    }
}
