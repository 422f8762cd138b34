//! `POST /v1/join` and `POST /v1/leave`.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};

use super::App;
use super::body::JsonBody;
use super::problem::Problem;
use super::query::Parameters;
use super::view::JoinJson;
use crate::node::{JoinResult, Snapshot, Stopped};
use crate::protocol::{JoinOutcome, RefusalReason};

/// Most addresses of one join.
const ADDRESSES_MAX: usize = 64;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct JoinBody {
    addresses: Vec<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct LeaveBody {}

#[derive(Serialize)]
struct JoinAnswer {
    results: Vec<JoinJson>,
}

#[derive(Serialize)]
struct LeaveAnswer {
    acknowledged: usize,
    expected: usize,
}

/// Joins through addresses; answers when each has.
pub(super) async fn join(
    State(app): State<App>,
    query: Parameters,
    JsonBody(body): JsonBody<JoinBody>,
) -> Result<Response, Problem> {
    query.allow(&[])?;
    check(&body.addresses)?;
    tracing::info!(addresses = ?body.addresses, "join asked for over HTTP");
    let outcomes = app.node.join(body.addresses).await.map_err(stopped)?;
    let snapshot = app.node.snapshot();
    let results = outcomes
        .into_iter()
        .map(|outcome| result(outcome, &snapshot));
    let results: Vec<JoinJson> = results.collect();
    let has = |word| move |result: &JoinJson| result.outcome == word;
    if results.iter().any(has("joined")) || results.iter().all(has("itself")) {
        return Ok(Json(JoinAnswer { results }).into_response());
    }
    let detail = "no join address admitted this node; results says why for each. \
                  Those that did not answer are retried in the background";
    Err(Problem::new(StatusCode::BAD_GATEWAY, detail).with_results(results))
}

/// Leaves; answers when the members know. The agent then stops.
pub(super) async fn leave(
    State(app): State<App>,
    query: Parameters,
    JsonBody(LeaveBody {}): JsonBody<LeaveBody>,
) -> Result<Response, Problem> {
    query.allow(&[])?;
    tracing::info!("leave asked for over HTTP");
    let report = app.node.leave().await.map_err(stopped)?;
    let answer = LeaveAnswer {
        acknowledged: report.acknowledged,
        expected: report.expected,
    };
    Ok((StatusCode::ACCEPTED, Json(answer)).into_response())
}

fn check(addresses: &[String]) -> Result<(), Problem> {
    let refuse = |detail: &str| Err(Problem::new(StatusCode::BAD_REQUEST, detail));
    if addresses.is_empty() {
        return refuse("addresses is empty; give at least one HOST[:PORT]");
    }
    if addresses.len() > ADDRESSES_MAX {
        return refuse("more than 64 addresses; a few are enough to join");
    }
    if addresses.iter().any(|address| address.trim().is_empty()) {
        return refuse("addresses holds an empty one; give each as HOST[:PORT]");
    }
    Ok(())
}

pub(super) fn stopped(Stopped: Stopped) -> Problem {
    let detail = "the node has stopped; start the agent again";
    Problem::new(StatusCode::SERVICE_UNAVAILABLE, detail)
}

fn result(result: JoinResult, snapshot: &Snapshot) -> JoinJson {
    let (outcome, detail, members) = match result.outcome {
        Ok(JoinOutcome::Joined { members }) => ("joined", None, Some(members)),
        Ok(JoinOutcome::Itself) => (
            "itself",
            Some("this is the node's own address".into()),
            None,
        ),
        Ok(JoinOutcome::Refused(reason)) => ("refused", Some(refused(reason, snapshot)), None),
        Ok(JoinOutcome::Unreachable) => (
            "unreachable",
            Some("no answer; check the address, the port and firewalls".into()),
            None,
        ),
        Err(error) => ("unresolvable", Some(error.to_string()), None),
    };
    JoinJson {
        address: result.address,
        outcome,
        detail,
        members,
    }
}

/// The same with the addresses of both processes, where one name is the reason.
fn refused(reason: RefusalReason, snapshot: &Snapshot) -> String {
    let own = snapshot.members.iter().find(|member| member.local);
    let addresses = (
        own.and_then(|member| member.address),
        snapshot.node.rival.and_then(|rival| rival.address),
    );
    match (reason, addresses) {
        (RefusalReason::NameConflict, (Some(own), Some(other))) => {
            format!(
                "{}; that one runs at {other}, this one at {own}",
                refusal(reason)
            )
        }
        _ => refusal(reason).into(),
    }
}

/// Why a join was refused and what to do, in one line.
pub(crate) const fn refusal(reason: RefusalReason) -> &'static str {
    match reason {
        RefusalReason::Cluster => "it belongs to another cluster; check --cluster on both nodes",
        RefusalReason::NameConflict => {
            "a running node holds this name; choose another with --name, or stop that node"
        }
        RefusalReason::FutureGeneration => {
            "this node's generation is more than a day ahead of its clock; set the clock right"
        }
        RefusalReason::Record => "this node's record breaks a rule there; upgrade the older node",
        RefusalReason::Forgotten => {
            "this node was removed from the cluster; restart it, or run rumord join ADDRESS"
        }
        RefusalReason::Unavailable => "it is leaving or busy; it is tried again",
    }
}
