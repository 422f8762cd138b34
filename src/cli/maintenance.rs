//! `rumord maintenance`: announces a planned absence.

use std::time::Duration;

use clap::{Args, Subcommand};
use serde_json::{Value, json};

use super::client::Target;
use super::output::visible;
use super::{Failure, print};

/// How long the daemon may take.
const WAIT: Duration = Duration::from_secs(30);

/// Commands below `rumord maintenance`.
#[derive(Subcommand, Debug)]
pub(super) enum Command {
    /// Announce an absence: until it is over, others do not take this node's silence for death
    On(OnArguments),
    /// End it before its time
    Off(OffArguments),
}

/// Arguments of `rumord maintenance on`.
#[derive(Args, Debug)]
pub(super) struct OnArguments {
    #[command(flatten)]
    target: Target,
    /// How long, like 60s or 2h; at most 24h. A restart of the daemon ends it, too
    #[arg(long = "for", value_name = "DURATION", value_parser = humantime::parse_duration)]
    length: Duration,
    /// Why, for readers of the table
    #[arg(long, default_value = "")]
    reason: String,
}

/// Arguments of `rumord maintenance off`.
#[derive(Args, Debug)]
pub(super) struct OffArguments {
    #[command(flatten)]
    target: Target,
}

/// Begins or ends the maintenance and says so.
pub(super) fn run(command: &Command) -> Result<(), Failure> {
    const PATH: &str = "/v1/maintenance";
    match command {
        Command::On(arguments) => {
            let length = humantime::format_duration(arguments.length).to_string();
            let body = json!({ "for": length, "reason": arguments.reason });
            let client = arguments.target.client()?;
            let answer = client.post(PATH, &body, WAIT)?.done()?;
            let until = answer.body.get("until").and_then(Value::as_str);
            let until = visible(until.unwrap_or("its end"));
            print(&format!("maintenance until {until}\n"))
        }
        Command::Off(arguments) => {
            let client = arguments.target.client()?;
            client.delete(PATH, WAIT)?.done()?;
            print("maintenance ended\n")
        }
    }
}
