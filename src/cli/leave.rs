//! `rumord leave`: leaves the cluster and stops the daemon.

use std::time::Duration;

use clap::Args;
use serde_json::{Value, json};

use super::client::Target;
use super::{EXIT_FAILED, Failure, print};

/// Longer than any sensible leave timeout of a daemon.
const LEAVE_WAIT: Duration = Duration::from_secs(120);

/// Arguments of `rumord leave`.
#[derive(Args, Debug)]
pub(super) struct Arguments {
    #[command(flatten)]
    target: Target,
}

/// Leaves, and says how many members know.
pub(super) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let answer = arguments
        .target
        .client()?
        .post("/v1/leave", &json!({}), LEAVE_WAIT)?
        .done()?;
    let number = |field: &str| answer.body.get(field).and_then(Value::as_u64).unwrap_or(0);
    let (acknowledged, expected) = (number("acknowledged"), number("expected"));
    print(&format!(
        "left; {acknowledged} of {expected} members know\n"
    ))?;
    if acknowledged < expected {
        let message = format!(
            "{} members have not acknowledged; they learn it from others, or take this node for \
             dead",
            expected - acknowledged
        );
        return Err(Failure::new(EXIT_FAILED, message));
    }
    Ok(())
}
