//! `rumord join`: joins through addresses.

use std::time::Duration;

use clap::Args;
use serde::Deserialize;
use serde_json::{Value, json};

use super::client::Target;
use super::output::visible;
use super::table::align;
use super::{EXIT_FAILED, Failure, print};

/// How long the daemon may take to hear from every address.
const JOIN_WAIT: Duration = Duration::from_secs(90);

/// Arguments of `rumord join`.
#[derive(Args, Debug)]
pub(super) struct Arguments {
    #[command(flatten)]
    target: Target,
    /// Members to join through, HOST[:PORT] or _SRV name; one that answers is enough
    #[arg(required = true, value_name = "ADDRESS")]
    addresses: Vec<String>,
}

#[derive(Deserialize)]
struct JoinResult {
    address: String,
    outcome: String,
    detail: Option<String>,
    members: Option<usize>,
}

/// Joins and prints how each address answered.
pub(super) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let body = json!({ "addresses": arguments.addresses });
    let answer = arguments
        .target
        .client()?
        .post("/v1/join", &body, JOIN_WAIT)?;
    let results = answer.body.get("results").cloned().unwrap_or(Value::Null);
    // Also a failed join says how each address answered.
    if let Ok(results) = serde_json::from_value::<Vec<JoinResult>>(results) {
        print(&align(&results.iter().map(row).collect::<Vec<_>>()))?;
        if answer.status >= 300 {
            let message = "no address admitted this node; see the reasons above";
            return Err(Failure::new(EXIT_FAILED, message));
        }
    }
    answer.done().map(drop)
}

fn row(result: &JoinResult) -> [String; 3] {
    let detail = match (result.members, &result.detail) {
        (Some(members), _) => format!("{members} members"),
        (None, Some(detail)) => visible(detail),
        (None, None) => String::new(),
    };
    [visible(&result.address), visible(&result.outcome), detail]
}
