//! `GET /v1/members` and `GET /v1/members/{name}`: the table, whole or filtered, now or when it
//! has changed.

use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};

use super::App;
use super::filter::Filter;
use super::problem::Problem;
use super::query::Parameters;
use super::view::{MemberJson, TableJson};
use crate::node::{MemberView, Snapshot};

/// How long a blocking read waits when it does not say.
const WAIT_DEFAULT: Duration = Duration::from_secs(5 * 60);
/// How long a blocking read may wait; longer wishes are cut to this.
const WAIT_MAX: Duration = Duration::from_secs(10 * 60);
/// Carries the snapshot's index.
const INDEX_HEADER: HeaderName = HeaderName::from_static("x-rumord-index");

/// The member table.
pub(super) async fn list(
    State(app): State<App>,
    query: Parameters,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let [status, tag, service, name] = Filter::PARAMETERS;
    query.allow(&[status, tag, service, name, "index", "wait"])?;
    let filter = Filter::from_query(&query)?;
    let after = query.integer("index")?.unwrap_or(0);
    let wait = query
        .duration("wait")?
        .unwrap_or(WAIT_DEFAULT)
        .min(WAIT_MAX);
    let snapshot = newer(&app, after, wait).await?;
    let tag = entity_tag(&snapshot, &filter);
    let head = [
        (header::ETAG, text(&tag)),
        (header::CACHE_CONTROL, HeaderValue::from_static("no-cache")),
        (INDEX_HEADER, HeaderValue::from(snapshot.index)),
    ];
    if is_held(&headers, &tag) {
        return Ok((StatusCode::NOT_MODIFIED, head).into_response());
    }
    Ok((head, Json(TableJson::new(&snapshot, &filter))).into_response())
}

/// One member.
pub(super) async fn one(
    State(app): State<App>,
    path: Result<Path<String>, PathRejection>,
    query: Parameters,
) -> Result<Response, Problem> {
    query.allow(&[])?;
    let snapshot = app.node.snapshot();
    let member = listed(&snapshot, path)?;
    let index = [(INDEX_HEADER, HeaderValue::from(snapshot.index))];
    Ok((index, Json(MemberJson::new(member))).into_response())
}

/// The name in the path.
pub(super) fn named(path: Result<Path<String>, PathRejection>) -> Result<String, Problem> {
    let Path(name) = path.map_err(|error| Problem::new(error.status(), error.body_text()))?;
    Ok(name)
}

/// The member of the name in the path.
pub(super) fn listed(
    snapshot: &Snapshot,
    path: Result<Path<String>, PathRejection>,
) -> Result<&MemberView, Problem> {
    let name = named(path)?;
    let member = snapshot.member(&name);
    member.ok_or_else(|| unknown(&name, snapshot))
}

/// Nobody is called `name`.
pub(super) fn unknown(name: &str, snapshot: &Snapshot) -> Problem {
    let cluster = &snapshot.cluster;
    let detail = format!("no member {name:?} in cluster {cluster:?}; GET /v1/members lists them");
    Problem::new(StatusCode::NOT_FOUND, detail)
}

/// The snapshot once its index is above `after`, or whatever there is when `wait` is over, the
/// node has stopped or the server stops. An index of 0 never waits.
async fn newer(app: &App, after: u64, wait: Duration) -> Result<Arc<Snapshot>, Problem> {
    if after > 0 && app.node.snapshot().index <= after {
        let _place = app
            .blocked
            .try_acquire()
            .map_err(|_| too_many_blocked("index"))?;
        let mut changes = app.node.changes();
        let grown = async {
            while app.node.snapshot().index <= after && changes.changed().await.is_ok() {}
        };
        tokio::select! {
            () = grown => {}
            () = tokio::time::sleep(wait) => {}
            () = app.stopping() => {}
        }
    }
    Ok(app.node.snapshot())
}

/// No place is left for a read that waits as `parameter` says.
pub(super) fn too_many_blocked(parameter: &str) -> Problem {
    let detail = format!("too many reads wait for a change; ask later, or without {parameter}");
    Problem::new(StatusCode::SERVICE_UNAVAILABLE, detail)
}

/// Weak, because the samples in the answer (phi, round trips) move without it.
fn entity_tag(snapshot: &Snapshot, filter: &Filter) -> String {
    format!("W/\"{:x}-{:x}\"", snapshot.index, filter.hash())
}

fn text(tag: &str) -> HeaderValue {
    HeaderValue::from_str(tag).unwrap_or(HeaderValue::from_static("W/\"\""))
}

/// Whether the client holds the representation `tag` names, compared weakly (RFC 9110 13.1.2).
fn is_held(headers: &HeaderMap, tag: &str) -> bool {
    let opaque = |tag: &str| tag.trim().trim_start_matches("W/").to_owned();
    headers
        .get_all(header::IF_NONE_MATCH)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|list| list.split(','))
        .any(|held| held.trim() == "*" || opaque(held) == opaque(tag))
}
