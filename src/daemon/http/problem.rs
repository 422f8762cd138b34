//! Errors of the HTTP API as problem documents (RFC 9457).

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;

use super::view::JoinJson;

/// An error answer. Its text says what is wrong, where, and what to do.
#[derive(Debug)]
pub(super) struct Problem {
    status: StatusCode,
    detail: String,
    state: Option<&'static str>,
    results: Vec<JoinJson>,
}

#[derive(Serialize)]
struct Document<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    title: &'a str,
    status: u16,
    detail: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    state: Option<&'static str>,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    results: &'a [JoinJson],
}

impl Problem {
    /// A problem of this status.
    pub(super) fn new(status: StatusCode, detail: impl Into<String>) -> Self {
        Problem {
            status,
            detail: detail.into(),
            state: None,
            results: Vec::new(),
        }
    }

    /// A query parameter that cannot be used, and what is allowed.
    pub(super) fn parameter(name: &str, remedy: &str) -> Self {
        Self::new(
            StatusCode::BAD_REQUEST,
            format!("query parameter {name:?}: {remedy}"),
        )
    }

    /// The same problem with the word for what has become of the request.
    pub(super) fn with_state(self, state: &'static str) -> Self {
        Problem {
            state: Some(state),
            ..self
        }
    }

    /// The same problem with the result of every join address.
    pub(super) fn with_results(self, results: Vec<JoinJson>) -> Self {
        Problem { results, ..self }
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let document = Document {
            kind: "about:blank",
            title: self.status.canonical_reason().unwrap_or("Error"),
            status: self.status.as_u16(),
            detail: &self.detail,
            state: self.state,
            results: &self.results,
        };
        // Strings and integers always serialize.
        let body = serde_json::to_vec(&document).unwrap_or_default();
        let kind = HeaderValue::from_static("application/problem+json");
        (self.status, [(header::CONTENT_TYPE, kind)], body).into_response()
    }
}
