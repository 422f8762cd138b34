//! `/v1/outbox`: which handlers and webhooks are still to be told of which events.

use axum::Json;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;

use super::super::event::timestamp;
use super::App;
use super::members::named;
use super::problem::Problem;
use super::query::Parameters;
use crate::daemon::outbox::{CallView, Calls, Redriven};

/// Calls in one answer unless fewer are asked for.
const LIMIT_MAX: u64 = 1000;

#[derive(Serialize)]
struct CallsJson {
    calls: Vec<CallJson>,
}

/// One call that has not succeeded yet.
#[derive(Serialize)]
struct CallJson {
    id: u64,
    target: String,
    /// The event's id in the log.
    event: u64,
    /// `waiting`, or `parked` when it is not tried again by itself.
    state: &'static str,
    /// Attempts that have failed.
    attempts: u32,
    /// When it is tried next; absent for one that is parked.
    #[serde(skip_serializing_if = "Option::is_none")]
    due: Option<String>,
    /// What went wrong last.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    created: String,
}

impl From<CallView> for CallJson {
    fn from(call: CallView) -> Self {
        CallJson {
            id: call.id,
            target: call.target,
            event: call.event,
            state: if call.parked { "parked" } else { "waiting" },
            attempts: call.attempts,
            due: (!call.parked).then(|| timestamp(call.due)),
            error: call.error,
            created: timestamp(call.created),
        }
    }
}

/// The calls that have not succeeded, those that are parked first.
pub(super) async fn list(State(app): State<App>, query: Parameters) -> Result<Response, Problem> {
    query.allow(&["limit"])?;
    let limit = query.integer("limit")?.unwrap_or(LIMIT_MAX).min(LIMIT_MAX);
    let calls = app.store.list_calls(limit as usize).await;
    let calls = calls.map_err(|_| no_store())?;
    let json = CallsJson {
        calls: calls.into_iter().map(CallJson::from).collect(),
    };
    Ok(([(header::CACHE_CONTROL, "no-store")], Json(json)).into_response())
}

/// Has a call made again, with all its attempts.
pub(super) async fn redrive(
    State(app): State<App>,
    path: Result<Path<String>, PathRejection>,
    query: Parameters,
) -> Result<Response, Problem> {
    query.allow(&[])?;
    let text = named(path)?;
    let Ok(id) = text.parse() else {
        let detail = format!("{text:?} is no call; give its id, as GET /v1/outbox lists it");
        return Err(Problem::new(StatusCode::BAD_REQUEST, detail));
    };
    tracing::info!(call = id, "redrive asked for over HTTP");
    match app.store.redrive_call(id).await.map_err(|_| no_store())? {
        Redriven::Again(call) => {
            Ok((StatusCode::ACCEPTED, Json(CallJson::from(call))).into_response())
        }
        Redriven::Unknown => {
            let detail = format!("no call {id} waits; GET /v1/outbox lists those that do");
            Err(Problem::new(StatusCode::NOT_FOUND, detail))
        }
        Redriven::NoTarget(target) => {
            let detail = format!(
                "call {id} is for {target:?}, which the configuration does not have any more; add \
                 it, and restart the agent"
            );
            Err(Problem::new(StatusCode::CONFLICT, detail))
        }
    }
}

fn no_store() -> Problem {
    let detail = "the store cannot be used now; /readyz?verbose says why";
    Problem::new(StatusCode::SERVICE_UNAVAILABLE, detail)
}
