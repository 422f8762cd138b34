//! `/v1/maintenance`: an absence that is planned, and no failure.

use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde::Deserialize;

use super::App;
use super::body::GivenBody;
use super::metadata::describe;
use super::problem::Problem;
use super::query::Parameters;
use super::view::MaintenanceJson;
use crate::member::Lease;
use crate::node::Expected;
use crate::protocol::MetadataChange;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct MaintenanceBody {
    #[serde(rename = "for")]
    length: String,
    #[serde(default)]
    reason: String,
}

/// Begins a maintenance, or replaces the running one.
pub(super) async fn begin(
    State(app): State<App>,
    query: Parameters,
    GivenBody(body): GivenBody<MaintenanceBody>,
) -> Result<Response, Problem> {
    query.allow(&[])?;
    let lease = Lease {
        length: length(&body.length)?,
        reason: body.reason,
    };
    tracing::info!(length = ?lease.length, reason = %lease.reason, "maintenance begun over HTTP");
    describe(&app, MetadataChange::BeginMaintenance(lease), Expected::Any).await?;
    let snapshot = app.node.snapshot();
    let own = snapshot.members.iter().find(|member| member.local);
    // Absent only if it has been ended again meanwhile.
    Ok(Json(own.and_then(MaintenanceJson::new)).into_response())
}

/// Ends the maintenance; also when none runs.
pub(super) async fn end(State(app): State<App>, query: Parameters) -> Result<Response, Problem> {
    query.allow(&[])?;
    tracing::info!("maintenance ended over HTTP");
    describe(&app, MetadataChange::EndMaintenance, Expected::Any).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

fn length(text: &str) -> Result<Duration, Problem> {
    humantime::parse_duration(text).map_err(|_| {
        let detail = format!("\"for\" is {text:?}; give a duration like 60s, 5m or 2h");
        Problem::new(StatusCode::BAD_REQUEST, detail)
    })
}
