//! `rumord outbox`: what handlers and webhooks could not be told.

use std::time::Duration;

use clap::Subcommand;
use serde::Deserialize;
use serde_json::{Value, json};

use super::client::Target;
use super::output::visible;
use super::table::align;
use super::{Failure, print};

/// How long the daemon may take to answer.
const REDRIVE_WAIT: Duration = Duration::from_secs(30);

/// What to do with the outbox.
#[derive(Subcommand, Debug)]
pub(super) enum Command {
    /// List the calls that have not succeeded; those that are not tried again come first
    List {
        #[command(flatten)]
        target: Target,
    },
    /// Have a call made again, with all its attempts
    Redrive {
        #[command(flatten)]
        target: Target,
        /// The call's id, as listed
        #[arg(value_name = "ID")]
        id: u64,
    },
}

#[derive(Deserialize)]
struct Calls {
    calls: Vec<Call>,
}

#[derive(Deserialize)]
struct Call {
    id: u64,
    target: String,
    event: u64,
    state: String,
    attempts: u32,
    due: Option<String>,
    error: Option<String>,
}

/// Does it.
pub(super) fn run(command: &Command) -> Result<(), Failure> {
    match command {
        Command::List { target } => {
            let calls: Calls = target.client()?.get("/v1/outbox")?;
            print(&listed(&calls.calls))
        }
        Command::Redrive { target, id } => {
            let path = format!("/v1/outbox/{id}/redrive");
            let answer = target.client()?.post(&path, &json!({}), REDRIVE_WAIT)?;
            let answer = answer.done()?;
            let text = |field: &str| answer.body.get(field).and_then(Value::as_str);
            let name = visible(text("target").unwrap_or_default());
            print(&format!("call {id} of {name} is made again\n"))
        }
    }
}

fn listed(calls: &[Call]) -> String {
    let heading = ["ID", "TARGET", "EVENT", "STATE", "ATTEMPTS", "DUE", "ERROR"];
    let mut rows = vec![heading.map(str::to_owned)];
    let shown = |text: &Option<String>| text.as_deref().map_or("-".into(), visible);
    rows.extend(calls.iter().map(|call| {
        [
            call.id.to_string(),
            visible(&call.target),
            call.event.to_string(),
            visible(&call.state),
            call.attempts.to_string(),
            shown(&call.due),
            shown(&call.error),
        ]
    }));
    align(&rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_listed_with_what_went_wrong() {
        let call = |id, due: Option<&str>| Call {
            id,
            target: "pager".into(),
            event: 17,
            state: if due.is_some() { "waiting" } else { "parked" }.into(),
            attempts: 8,
            due: due.map(str::to_owned),
            error: Some("answered 503\u{1b}".into()),
        };
        let text = listed(&[call(3, None), call(4, Some("2026-12-01T00:00:00.000Z"))]);
        let expected = "\
ID  TARGET  EVENT  STATE    ATTEMPTS  DUE                       ERROR
3   pager   17     parked   8         -                         answered 503\\u{1b}
4   pager   17     waiting  8         2026-12-01T00:00:00.000Z  answered 503\\u{1b}
";
        assert_eq!(text, expected);
    }
}
