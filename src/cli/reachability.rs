//! `rumord reachability`: who cannot see whom, and the likely cause.

use clap::{Args, ValueEnum};
use serde::Deserialize;
use serde_json::Value;

use super::client::Target;
use super::output::visible;
use super::table::align;
use super::{EXIT_FAILED, Failure, print};

const NOTHING: &str =
    "every member reaches every other that it has asked, by datagram and stream\n";

/// Arguments of `rumord reachability`.
#[derive(Args, Debug)]
pub(super) struct Arguments {
    #[command(flatten)]
    target: Target,
    /// How to print it
    #[arg(long, value_enum, default_value_t = Format::Table)]
    format: Format,
}

#[derive(ValueEnum, Clone, Copy, Debug)]
enum Format {
    /// A line for each pair, with the likely cause
    Table,
    /// The API's JSON
    Json,
}

#[derive(Deserialize)]
struct Reachability {
    pairs: Vec<Pair>,
}

#[derive(Deserialize)]
struct Pair {
    observer: String,
    subject: String,
    datagram: String,
    stream: String,
    since: String,
    detail: String,
}

/// Prints the pairs of which one does not reach the other. That there are some is no failure.
pub(super) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let body: Value = arguments.target.client()?.get("/v1/reachability")?;
    match arguments.format {
        Format::Json => print(&format!("{body:#}\n")),
        Format::Table => {
            let told = serde_json::from_value(body).map_err(|error| {
                let message = format!("the daemon's answer cannot be read ({error})");
                Failure::new(EXIT_FAILED, message)
            })?;
            print(&text(&told))
        }
    }
}

fn text(told: &Reachability) -> String {
    if told.pairs.is_empty() {
        return NOTHING.to_owned();
    }
    let heading = [
        "OBSERVER",
        "SUBJECT",
        "DATAGRAM",
        "STREAM",
        "SINCE",
        "LIKELY CAUSE",
    ];
    let mut rows = vec![heading.map(str::to_owned)];
    rows.extend(told.pairs.iter().map(|pair| {
        [
            visible(&pair.observer),
            visible(&pair.subject),
            visible(&pair.datagram),
            visible(&pair.stream),
            visible(&pair.since),
            visible(&pair.detail),
        ]
    }));
    align(&rows)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn shown(body: Value) -> String {
        text(&serde_json::from_value(body).expect("pairs"))
    }

    #[test]
    fn pairs_are_named_with_their_cause_and_no_pair_is_said_so() {
        let none = shown(json!({"pairs": []}));
        assert!(
            none.starts_with("every member reaches every other"),
            "{none}"
        );
        let text = shown(json!({"pairs": [{
            "observer": "n1", "subject": "n2", "datagram": "unreachable", "stream": "reachable",
            "heard": false, "since": "2026-01-01T00:00:00.000Z", "cause": "udp-blocked",
            "detail": "UDP blocked: look\u{1b}",
        }]}));
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(
            lines,
            [
                "OBSERVER  SUBJECT  DATAGRAM     STREAM     SINCE                     LIKELY CAUSE",
                "n1        n2       unreachable  reachable  2026-01-01T00:00:00.000Z  \
                 UDP blocked: look\\u{1b}",
            ]
        );
    }
}
