//! Requests under an idempotency key: what is asked of the store, and what it answers.

use tokio::sync::oneshot;

use crate::node::{Accepted, Draft, Place};

/// Keys that are remembered; with more in use, a request under a new one is turned away.
pub const KEYS_MAX: u64 = 100_000;
/// What they and their answers may take, in bytes.
pub const KEY_BYTES_MAX: u64 = 64 * 1024 * 1024;
/// Repeats that may wait for the first request at a time; further ones are told that it runs.
pub(super) const PARKED_MAX: usize = 1024;

/// A request that a client gave a key.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Keyed {
    /// Whose key it is: the principal's name; empty while requests are not authenticated.
    pub scope: String,
    /// The key.
    pub key: String,
    /// What the request is: see [`super::super::digest::fingerprint`].
    pub fingerprint: [u8; 32],
}

/// Who works on a request. Another one for each attempt, so that one whose lease is over cannot
/// answer for its successor.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Token(pub u64);

/// An answer, as it is remembered.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Answer {
    /// HTTP status code.
    pub status: u16,
    /// The headers that a repeat gets too.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: Vec<u8>,
}

impl Answer {
    /// A problem document (RFC 9457).
    #[must_use]
    pub fn problem(status: u16, title: &str, detail: &str) -> Self {
        let document = serde_json::json!({
            "type": "about:blank", "title": title, "status": status, "detail": detail,
        });
        Answer {
            status,
            headers: vec![("content-type".into(), "application/problem+json".into())],
            body: document.to_string().into_bytes(),
        }
    }

    /// For an event under a key that stands for another event, here or on another node.
    #[must_use]
    pub fn key_reused() -> Self {
        let detail = "this key stands for another event, here or on another node: its name, \
                      payload or delivery differs; take a new key for a new event";
        Self::problem(422, "Unprocessable Entity", detail)
    }
}

/// What the store says to a request.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// Nobody has worked on it: do so, and complete it with this token.
    Begun(Token),
    /// It is done, just now.
    Done(Answer),
    /// It was done before.
    Replayed(Answer),
    /// The key belongs to another request.
    OtherRequest,
    /// Somebody works on it.
    Running,
    /// No further key can be remembered.
    Full,
    /// The store cannot write; nothing was done.
    Failed(String),
}

/// An event of a client, and what is to be answered.
pub struct Post {
    /// The client's key.
    pub keyed: Option<Keyed>,
    /// The event; else what is wrong with it, which is remembered under the key.
    pub draft: Result<Draft, Answer>,
    /// Its place among those that wait to be told; else why it cannot be taken now, which is not
    /// remembered.
    pub place: Result<Place, Answer>,
    /// Makes the answer.
    pub render: fn(&Verdict) -> Answer,
}

/// What became of a posted event.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// It is in the log.
    Accepted(Accepted),
    /// Another one came under its key before, or counts more.
    KeyReused,
}

/// Where the store's answer goes.
pub(super) type Reply = oneshot::Sender<Outcome>;
