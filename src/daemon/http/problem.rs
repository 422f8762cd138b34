//! Errors of the HTTP API as problem documents (RFC 9457).

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;

use super::super::store::Answer;
use super::view::JoinJson;

/// The media type of all of them.
const KIND: &str = "application/problem+json";

/// An error answer. Its text says what is wrong, where, and what to do.
#[derive(Debug)]
pub(super) struct Problem {
    status: StatusCode,
    detail: String,
    state: Option<&'static str>,
    results: Vec<JoinJson>,
    retry_after: Option<u32>,
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
            retry_after: None,
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

    /// The same problem with when to ask again, in seconds.
    pub(super) fn with_retry_after(self, seconds: u32) -> Self {
        Problem {
            retry_after: Some(seconds),
            ..self
        }
    }

    /// The same as an answer that can be remembered.
    pub(super) fn into_answer(self) -> Answer {
        let kind = ("content-type".to_owned(), KIND.to_owned());
        let retry = self
            .retry_after
            .map(|seconds| ("retry-after".to_owned(), seconds.to_string()));
        Answer {
            status: self.status.as_u16(),
            headers: [kind].into_iter().chain(retry).collect(),
            body: self.document(),
        }
    }

    fn document(&self) -> Vec<u8> {
        let document = Document {
            kind: "about:blank",
            title: self.status.canonical_reason().unwrap_or("Error"),
            status: self.status.as_u16(),
            detail: &self.detail,
            state: self.state,
            results: &self.results,
        };
        // Strings and integers always serialize.
        serde_json::to_vec(&document).unwrap_or_default()
    }

    /// The same problem with the result of every join address.
    pub(super) fn with_results(self, results: Vec<JoinJson>) -> Self {
        Problem { results, ..self }
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let body = self.document();
        let kind = [(header::CONTENT_TYPE, HeaderValue::from_static(KIND))];
        let retry = self
            .retry_after
            .map(|seconds| [(header::RETRY_AFTER, HeaderValue::from(seconds))]);
        (self.status, kind, retry, body).into_response()
    }
}
