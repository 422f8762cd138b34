//! Request bodies: JSON, small, and sent without dawdling.

use std::time::Duration;

use axum::body::Bytes;
use axum::extract::{FromRequest, Request};
use axum::http::{HeaderMap, StatusCode, header};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use super::problem::Problem;

/// Largest request body, in bytes.
pub(super) const BODY_BYTES_MAX: usize = 64 * 1024;
/// How long a client may take to send its body.
const BODY_TIMEOUT: Duration = Duration::from_secs(10);

/// A JSON body; an empty one stands for `{}`.
pub(super) struct JsonBody<T>(pub(super) T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequest<S> for JsonBody<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, state: &S) -> Result<Self, Problem> {
        let is_json = is_json(request.headers());
        let read = tokio::time::timeout(BODY_TIMEOUT, Bytes::from_request(request, state));
        let bytes = read
            .await
            .map_err(|_| slow())?
            .map_err(|error| unread(error.status()))?;
        if bytes.is_empty() {
            return parse(b"{}");
        }
        if !is_json {
            let detail = "the body must be JSON; send it with Content-Type: application/json";
            return Err(Problem::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, detail));
        }
        parse(&bytes)
    }
}

fn parse<T: DeserializeOwned>(bytes: &[u8]) -> Result<JsonBody<T>, Problem> {
    // By way of a map: a plain list would also pass for the fields in order.
    let object = serde_json::from_slice::<Map<String, Value>>(bytes).map_err(refuse)?;
    serde_json::from_value(object.into())
        .map(JsonBody)
        .map_err(refuse)
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

fn unread(status: StatusCode) -> Problem {
    let detail = match status {
        StatusCode::PAYLOAD_TOO_LARGE => {
            format!("the body is larger than {BODY_BYTES_MAX} bytes; send less")
        }
        _ => "the body ended early; send it again".into(),
    };
    Problem::new(status, detail)
}
