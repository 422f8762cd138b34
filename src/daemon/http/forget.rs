//! `DELETE /v1/members/{name}`: removes a member for good, cluster-wide.

use axum::Json;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde::Serialize;

use super::App;
use super::control::stopped;
use super::members::{named, unknown};
use super::problem::Problem;
use super::query::Parameters;
use crate::member::NodeName;
use crate::protocol::Forgetting;

/// How far it has come. A repeat, through any node, answers how far it has come since.
#[derive(Serialize)]
struct ForgetAnswer<'a> {
    name: &'a str,
    state: &'static str,
    /// Alive members that are known to have forgotten it, of how many.
    #[serde(skip_serializing_if = "Option::is_none")]
    known: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    alive: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    complete: Option<bool>,
    /// How long the member that is asked still has to answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    answer_within_ms: Option<u64>,
}

/// Forgets a member, or says how far that has come.
pub(super) async fn forget(
    State(app): State<App>,
    path: Result<Path<String>, PathRejection>,
    query: Parameters,
) -> Result<Response, Problem> {
    query.allow(&[])?;
    let given = named(path)?;
    let Ok(name) = given.parse::<NodeName>() else {
        return Err(unknown(&given, &app.node.snapshot()));
    };
    tracing::info!(member = %name, "forget asked for over HTTP");
    let progress = app.node.forget(name.clone()).await.map_err(stopped)?;
    let Some(answer) = answer(name.as_str(), progress) else {
        let refused = refuse(name.as_str(), progress);
        return Err(refused.unwrap_or_else(|| unknown(&given, &app.node.snapshot())));
    };
    Ok((StatusCode::ACCEPTED, Json(answer)).into_response())
}

fn answer(name: &str, progress: Forgetting) -> Option<ForgetAnswer<'_>> {
    let nothing = ForgetAnswer {
        name,
        state: "spreading",
        known: None,
        alive: None,
        complete: None,
        answer_within_ms: None,
    };
    match progress {
        Forgetting::Spreading { known, alive } => Some(ForgetAnswer {
            known: Some(known),
            alive: Some(alive),
            complete: Some(known >= alive),
            ..nothing
        }),
        Forgetting::Asking { left } => Some(ForgetAnswer {
            state: "asking",
            answer_within_ms: Some(u64::try_from(left.as_millis()).unwrap_or(u64::MAX)),
            ..nothing
        }),
        _ => None,
    }
}

/// Why it is not forgotten; `None` when nobody has the name.
fn refuse(name: &str, progress: Forgetting) -> Option<Problem> {
    let (status, detail) = match progress {
        Forgetting::Itself => (
            StatusCode::BAD_REQUEST,
            format!("{name} is this node itself; it leaves with POST /v1/leave (rumord leave)"),
        ),
        Forgetting::Refused { ago } => {
            let detail = format!(
                "{name} runs: it answered {} s ago, so it stays a member; stop it, or let it leave \
                 with rumord leave, and forget it then",
                ago.as_secs()
            );
            return Some(Problem::new(StatusCode::CONFLICT, detail).with_state("refused"));
        }
        Forgetting::NotReady => (
            StatusCode::SERVICE_UNAVAILABLE,
            "this node is not part of the cluster; /readyz?verbose says why".into(),
        ),
        Forgetting::Busy => (
            StatusCode::SERVICE_UNAVAILABLE,
            "too many members are being forgotten at once; ask again in some seconds".into(),
        ),
        Forgetting::Unknown | Forgetting::Asking { .. } | Forgetting::Spreading { .. } => {
            return None;
        }
    };
    Some(Problem::new(status, detail))
}
