//! Request bodies: JSON, small, and sent without dawdling.

use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::{DefaultBodyLimit, FromRequest, Request};
use axum::http::{HeaderMap, StatusCode, header};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use super::problem::Problem;

/// Largest request body, in bytes.
pub(super) const BODY_BYTES_MAX: usize = 64 * 1024;
/// Largest body that describes this node, in bytes: JSON may spell one byte in six.
pub(super) const METADATA_BODY_BYTES_MAX: usize = 512 * 1024;
/// Largest body with an event, in bytes: for the same reason.
pub(super) const EVENT_BODY_BYTES_MAX: usize = 512 * 1024;
/// How long a client may take to send its body.
const BODY_TIMEOUT: Duration = Duration::from_secs(10);

/// A JSON body; an empty one stands for `{}`.
pub(super) struct JsonBody<T>(pub(super) T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequest<S> for JsonBody<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, state: &S) -> Result<Self, Problem> {
        let bytes = read(request, state, BODY_BYTES_MAX).await?;
        parse(bytes.as_deref().unwrap_or(b"{}")).map(JsonBody)
    }
}

/// A JSON body of a route that describes this node; an empty one is refused, because it would
/// remove what is not named.
pub(super) struct GivenBody<T>(pub(super) T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequest<S> for GivenBody<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, state: &S) -> Result<Self, Problem> {
        let bytes = read(request, state, METADATA_BODY_BYTES_MAX).await?;
        let Some(bytes) = bytes else {
            let detail = "the body is empty; send a JSON object, see /openapi.json";
            return Err(Problem::new(StatusCode::BAD_REQUEST, detail));
        };
        parse(&bytes).map(GivenBody)
    }
}

/// The body as it came; `None` when it is empty. `limit` is what the route's layer allows.
async fn read<S: Send + Sync>(
    request: Request,
    state: &S,
    limit: usize,
) -> Result<Option<Bytes>, Problem> {
    let is_json = is_json(request.headers());
    let read = tokio::time::timeout(BODY_TIMEOUT, Bytes::from_request(request, state));
    let bytes = read
        .await
        .map_err(|_| slow())?
        .map_err(|error| unread(error.status(), limit))?;
    if bytes.is_empty() {
        return Ok(None);
    }
    if !is_json {
        let detail = "the body must be JSON; send it with Content-Type: application/json";
        return Err(Problem::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, detail));
    }
    Ok(Some(bytes))
}

/// The whole of a body of at most `limit` bytes.
pub(super) async fn collect(body: Body, limit: usize) -> Result<Bytes, Problem> {
    let mut request = Request::new(body);
    DefaultBodyLimit::max(limit).apply(&mut request);
    let read = tokio::time::timeout(BODY_TIMEOUT, Bytes::from_request(request, &()));
    read.await
        .map_err(|_| slow())?
        .map_err(|error| unread(error.status(), limit))
}

fn parse<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Problem> {
    // By way of a map: a plain list would also pass for the fields in order.
    let object = serde_json::from_slice::<Map<String, Value>>(bytes).map_err(refuse)?;
    serde_json::from_value(object.into()).map_err(refuse)
}

fn refuse(error: serde_json::Error) -> Problem {
    let detail = format!("the body is not what this route takes: {error}; see /openapi.json");
    Problem::new(StatusCode::BAD_REQUEST, detail)
}

fn is_json(headers: &HeaderMap) -> bool {
    let Some(Ok(value)) = headers
        .get(header::CONTENT_TYPE)
        .map(|value| value.to_str())
    else {
        return false;
    };
    let essence = value.split(';').next().unwrap_or_default();
    essence.trim().eq_ignore_ascii_case("application/json")
}

fn slow() -> Problem {
    let detail = format!("the body did not arrive within {BODY_TIMEOUT:?}; send it at once");
    Problem::new(StatusCode::REQUEST_TIMEOUT, detail)
}

fn unread(status: StatusCode, limit: usize) -> Problem {
    let detail = match status {
        StatusCode::PAYLOAD_TOO_LARGE => {
            format!("the body is larger than {limit} bytes; send less")
        }
        _ => "the body ended early; send it again".into(),
    };
    Problem::new(status, detail)
}
