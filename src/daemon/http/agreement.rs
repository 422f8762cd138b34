//! `GET /v1/agreement`: whether all members hold this node's table, now or after a wait.

use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;

use super::App;
use super::problem::Problem;
use super::query::Parameters;
use super::view::fingerprint;
use crate::node::Snapshot;

/// How long an answer may be waited for; longer wishes are cut to this.
const WAIT_MAX: Duration = Duration::from_secs(10 * 60);
/// The pause between two messages of a member while somebody waits.
const PAUSE_DEFAULT: Duration = Duration::from_millis(200);
/// The shortest and the longest pause that may be asked for.
const PAUSE_MIN: Duration = Duration::from_millis(50);
const PAUSE_MAX: Duration = Duration::from_secs(1);

#[derive(Serialize)]
pub(super) struct AgreementJson<'a> {
    /// Members that this node calls alive or suspect, itself included.
    alive: usize,
    /// Those of them that are known to have held this node's table.
    agree: usize,
    /// The names of the others, sorted.
    laggards: Vec<&'a str>,
    /// Whether there are no others, and this node is ready.
    converged: bool,
    /// For how long this node's own table has been the same.
    stable_for_ms: u64,
    /// The table that all this is about.
    fingerprint: String,
    /// For each laggard, how long ago it last told this node itself which table it holds.
    laggard_ages: Vec<LaggardJson<'a>>,
}

#[derive(Serialize)]
struct LaggardJson<'a> {
    name: &'a str,
    /// Null when it never did.
    heard_ms_ago: Option<u64>,
}

/// Whether all members agree; with `wait`, as soon as they do.
pub(super) async fn show(State(app): State<App>, query: Parameters) -> Result<Response, Problem> {
    query.allow(&["wait", "pause"])?;
    let pause = query.duration("pause")?.unwrap_or(PAUSE_DEFAULT);
    if !(PAUSE_MIN..=PAUSE_MAX).contains(&pause) {
        return Err(Problem::parameter("pause", "must be from 50ms to 1s"));
    }
    let snapshot = match query.duration("wait")? {
        Some(wait) => converged(&app, wait.min(WAIT_MAX), pause).await?,
        None => app.node.snapshot(),
    };
    let head = [(header::CACHE_CONTROL, HeaderValue::from_static("no-store"))];
    Ok((head, Json(AgreementJson::new(&snapshot))).into_response())
}

/// The snapshot once all agree, or as it is when `wait` is over, the node has stopped or the server
/// stops.
async fn converged(app: &App, wait: Duration, pause: Duration) -> Result<Arc<Snapshot>, Problem> {
    if app.node.snapshot().agreement.converged || wait.is_zero() {
        return Ok(app.node.snapshot());
    }
    let _place = app.blocked.try_acquire().map_err(|_| too_many_waiting())?;
    let agreed = async {
        if let Ok(mut converged) = app.node.await_agreement(wait, pause).await {
            // An error means that the node has stopped.
            let _ = converged.wait_for(|converged| *converged).await;
        }
    };
    tokio::select! {
        () = agreed => {}
        () = tokio::time::sleep(wait) => {}
        () = app.stopping() => {}
    }
    Ok(app.node.snapshot())
}

fn too_many_waiting() -> Problem {
    let detail = "too many reads wait; ask again later, or without wait";
    Problem::new(StatusCode::SERVICE_UNAVAILABLE, detail)
}

impl<'a> AgreementJson<'a> {
    /// What `snapshot` shows.
    pub(super) fn new(snapshot: &'a Snapshot) -> Self {
        let agreement = &snapshot.agreement;
        let laggards = || agreement.laggards.iter();
        AgreementJson {
            alive: agreement.alive,
            agree: agreement.agree,
            laggards: laggards().map(|laggard| laggard.name.as_str()).collect(),
            converged: agreement.converged,
            stable_for_ms: milliseconds(snapshot.stable_for()),
            fingerprint: fingerprint(snapshot),
            laggard_ages: laggards()
                .map(|laggard| LaggardJson {
                    name: laggard.name.as_str(),
                    heard_ms_ago: laggard.heard.map(milliseconds),
                })
                .collect(),
        }
    }
}

/// Whole milliseconds.
fn milliseconds(length: Duration) -> u64 {
    u64::try_from(length.as_millis()).unwrap_or(u64::MAX)
}
