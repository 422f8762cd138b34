//! `POST /v1/events`: sends an event to all members.

use axum::extract::{Extension, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use base64::Engine;
use base64::prelude::BASE64_STANDARD as BASE64;
use serde::{Deserialize, Serialize};

use super::super::digest::event_key;
use super::super::event::delivery;
use super::super::store::{Answer, Keyed, Outcome, Post, Verdict};
use super::App;
use super::body::GivenBody;
use super::idempotency::{is_final, respond};
use super::problem::Problem;
use super::query::Parameters;
use crate::member::{Delivery, EVENT_PAYLOAD_BYTES_MAX, EventError, EventName};
use crate::node::{Draft, Place, Readiness};

/// When to ask again while too many events wait to be told, in seconds.
const FULL_RETRY_SECONDS: u32 = 1;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct EventBody {
    name: String,
    payload: Option<String>,
    payload_base64: Option<String>,
    delivery: Option<String>,
}

/// What becomes of it.
#[derive(Serialize)]
struct Published<'a> {
    uid: String,
    id: u64,
    origin: &'a str,
    origin_generation: u64,
    sequence: u64,
}

/// Stores the event and answers; it is told to the others then.
pub(super) async fn publish(
    State(app): State<App>,
    query: Result<Parameters, Problem>,
    keyed: Option<Extension<Keyed>>,
    body: Result<GivenBody<EventBody>, Problem>,
) -> Response {
    let keyed = keyed.map(|Extension(keyed)| keyed);
    let given = query.and_then(|query| query.allow(&[])).and(body);
    let draft = given.and_then(|GivenBody(body)| draft(&app, body, keyed.as_ref()));
    let place = match &draft {
        Ok(draft) => place(&app, draft.payload.len()),
        // Needs none.
        Err(_) => Err(not_ready()),
    };
    let is_keyed = keyed.is_some();
    let post = Post {
        keyed,
        draft: draft.map_err(|problem| problem.into_answer()),
        place: place.map_err(|problem| problem.into_answer()),
        render,
    };
    // Without a key nothing of it is remembered.
    if let (false, Err(answer)) = (is_keyed, &post.draft) {
        return respond(&app, Outcome::Done(answer.clone()));
    }
    let outcome = app.store.post(post).await;
    match &outcome {
        Outcome::Done(answer) if is_keyed => app.metrics.keyed(word(answer)),
        Outcome::Full if !is_keyed => return busy().into_response(),
        _ => {}
    }
    respond(&app, outcome)
}

/// What became of a request with a key: one that may succeed later was not remembered.
fn word(answer: &Answer) -> &'static str {
    match StatusCode::from_u16(answer.status).is_ok_and(is_final) {
        true => "executed",
        false => "abandoned",
    }
}

/// What is wrong with a body is known before anything is asked of the store.
fn draft(app: &App, body: EventBody, keyed: Option<&Keyed>) -> Result<Draft, Problem> {
    let wrong = |error: EventError| {
        let status = match error {
            EventError::LargePayload(_) => StatusCode::PAYLOAD_TOO_LARGE,
            _ => StatusCode::BAD_REQUEST,
        };
        Problem::new(status, error.to_string())
    };
    let payload = payload(body.payload, body.payload_base64)?;
    if payload.len() > EVENT_PAYLOAD_BYTES_MAX {
        return Err(wrong(EventError::LargePayload(payload.len())));
    }
    let cluster = &app.node.snapshot().cluster;
    Ok(Draft {
        delivery: match &body.delivery {
            Some(word) => delivery(word).ok_or_else(|| unknown_delivery(word))?,
            None => Delivery::AtLeastOnce,
        },
        key: keyed.map(|keyed| event_key(cluster, &keyed.scope, &keyed.key)),
        name: EventName::new(&body.name).map_err(wrong)?,
        payload,
    })
}

fn payload(text: Option<String>, base64: Option<String>) -> Result<Vec<u8>, Problem> {
    let refuse = |detail: String| Problem::new(StatusCode::BAD_REQUEST, detail);
    match (text, base64) {
        (Some(_), Some(_)) => Err(refuse(
            "payload and payload_base64 are both given; keep one".into(),
        )),
        (Some(text), None) => Ok(text.into()),
        (None, Some(base64)) => BASE64
            .decode(base64)
            .map_err(|error| refuse(format!("payload_base64 is no base64 ({error})"))),
        (None, None) => Ok(Vec::new()),
    }
}

fn unknown_delivery(word: &str) -> Problem {
    let detail = format!("\"delivery\" is {word:?}; give at-least-once or at-most-once");
    Problem::new(StatusCode::BAD_REQUEST, detail)
}

/// A place among the events that wait to be told: where too many do, the client is to wait, before
/// anything is stored.
fn place(app: &App, bytes: usize) -> Result<Place, Problem> {
    if app.node.snapshot().node.readiness != Readiness::Ready {
        return Err(not_ready());
    }
    let place = app.node.backlog().enter(bytes);
    place.ok_or_else(busy)
}

fn busy() -> Problem {
    let detail = "too many events wait to be told; send this one again in a second";
    let problem = Problem::new(StatusCode::TOO_MANY_REQUESTS, detail);
    problem.with_retry_after(FULL_RETRY_SECONDS)
}

fn not_ready() -> Problem {
    let detail = "this node is not part of the cluster; /readyz?verbose says why";
    Problem::new(StatusCode::SERVICE_UNAVAILABLE, detail)
}

/// The answer to a verdict, as it is sent and remembered.
fn render(verdict: &Verdict) -> Answer {
    let accepted = match verdict {
        Verdict::Accepted(accepted) => accepted,
        Verdict::KeyReused => return Answer::key_reused(),
    };
    let published = Published {
        uid: accepted.uid.to_string(),
        id: accepted.id,
        origin: accepted.origin.as_str(),
        origin_generation: accepted.generation.0,
        sequence: accepted.sequence,
    };
    Answer {
        status: StatusCode::CREATED.as_u16(),
        headers: vec![
            ("content-type".into(), "application/json".into()),
            ("location".into(), format!("/v1/events/{}", accepted.id)),
        ],
        // Plain fields always serialize.
        body: serde_json::to_vec(&published).unwrap_or_default(),
    }
}
