//! `rumord members`: the member table.

use std::io::IsTerminal;
use std::time::Duration;

use clap::{Args, ValueEnum};
use serde_json::Value;

use super::api::blocking;
use super::client::{Client, Target};
use super::{EXIT_FAILED, EXIT_USAGE, Failure, print, table};

/// How long one blocking read of `--watch` waits before it is renewed.
const WATCH_WAIT: Duration = Duration::from_secs(60);
/// Clears the screen and goes to its top left corner.
const CLEAR: &str = "\u{1b}[2J\u{1b}[H";

/// Arguments of `rumord members`.
#[derive(Args, Debug)]
pub(super) struct Arguments {
    #[command(flatten)]
    target: Target,
    /// Only members of these statuses: alive, suspect, dead, left
    #[arg(long, value_name = "STATUS", value_delimiter = ',')]
    status: Vec<Status>,
    /// Only members with this tag; the key alone for any value; repeatable
    #[arg(long, value_name = "K=V")]
    tag: Vec<String>,
    /// Only members that offer this service
    #[arg(long, value_name = "NAME")]
    service: Option<String>,
    /// Show the table again whenever it changes
    #[arg(long)]
    watch: bool,
    /// How to print it
    #[arg(long, value_enum, default_value_t = Format::Table)]
    format: Format,
}

#[derive(ValueEnum, Clone, Copy, Debug)]
enum Status {
    Alive,
    Suspect,
    Dead,
    Left,
}

#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
enum Format {
    /// Aligned columns
    Table,
    /// The API's JSON; one line for each change with --watch
    Json,
}

/// Prints the table, once or whenever it changes.
pub(super) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let client = arguments.target.client()?;
    let filter = arguments.filter()?;
    if !arguments.watch {
        let body = read(&client, &filter, 0)?;
        return print(&render(&body, arguments.format)?);
    }
    let mut shown = 0;
    loop {
        let body = read(&client, &filter, shown)?;
        let index = body.get("index").and_then(Value::as_u64).unwrap_or(0);
        if index != shown {
            print(&redrawn(&body, arguments.format)?)?;
        }
        // A daemon that was restarted without its data may count from lower down again.
        shown = index;
    }
}

impl Arguments {
    fn filter(&self) -> Result<Vec<(&'static str, String)>, Failure> {
        let mut filter = Vec::new();
        for status in self.status.iter().filter_map(ValueEnum::to_possible_value) {
            filter.push(("status", status.get_name().to_owned()));
        }
        for tag in &self.tag {
            if tag.is_empty() || tag.starts_with('=') {
                let message = format!("--tag {tag:?} has no key; give K=V, or K for any value");
                return Err(Failure::new(EXIT_USAGE, message));
            }
            filter.push(("tag", tag.replacen('=', ":", 1)));
        }
        filter.extend(
            self.service
                .iter()
                .map(|service| ("service", service.clone())),
        );
        Ok(filter)
    }
}

fn read(client: &Client, filter: &[(&str, String)], after: u64) -> Result<Value, Failure> {
    let mut query = filter.to_vec();
    query.extend(blocking(after, WATCH_WAIT));
    client.get_blocking("/v1/members", &query, WATCH_WAIT)
}

/// The table for one more change: in place on a terminal, else below the last one.
fn redrawn(body: &Value, format: Format) -> Result<String, Failure> {
    if format == Format::Json {
        return Ok(format!("{body}\n"));
    }
    let text = render(body, format)?;
    if std::io::stdout().is_terminal() {
        return Ok(format!("{CLEAR}{text}"));
    }
    let now = humantime::format_rfc3339_seconds(std::time::SystemTime::now());
    Ok(format!("{now}\n{text}\n"))
}

fn render(body: &Value, format: Format) -> Result<String, Failure> {
    let refuse = |error: serde_json::Error| {
        Failure::new(
            EXIT_FAILED,
            format!("this is no member table ({error}); check --http"),
        )
    };
    match format {
        Format::Json => Ok(format!("{:#}\n", body)),
        Format::Table => {
            let table = serde_json::from_value(body.clone()).map_err(refuse)?;
            Ok(table::members(&table))
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        arguments: Arguments,
    }

    fn filter(line: &[&str]) -> Result<Vec<(&'static str, String)>, Failure> {
        let words = std::iter::once("members").chain(line.iter().copied());
        Line::try_parse_from(words)
            .expect("parses")
            .arguments
            .filter()
    }

    #[test]
    fn flags_become_query_parameters() {
        let line = [
            "--status",
            "alive,dead",
            "--tag",
            "zone=a=b",
            "--tag",
            "rack",
        ];
        let expected = [
            ("status", "alive"),
            ("status", "dead"),
            ("tag", "zone:a=b"),
            ("tag", "rack"),
        ];
        assert_eq!(
            filter(&line),
            Ok(expected.map(|(name, value)| (name, value.into())).to_vec())
        );
        assert_eq!(
            filter(&["--tag", "=x"]).expect_err("no key").code,
            EXIT_USAGE
        );
        assert!(Line::try_parse_from(["members", "--status", "gone"]).is_err());
    }
}
