//! `GET /v1/events` and `GET /v1/events/{id}`: the log, a page at a time or as a live stream.

use std::time::Duration;

use axum::Json;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;

use super::super::event::EventJson;
use super::App;
use super::event_stream;
use super::members::named;
use super::problem::Problem;
use super::query::Parameters;
use super::wanted::Wanted;
use crate::member::NodeName;
use crate::node::{EventLog, LogEntry, Logged, Lookup, Page, Reset};
use crate::protocol::DeliveryState;

/// Events of one answer when it does not say, and at most.
const LIMIT_DEFAULT: u64 = 100;
const LIMIT_MAX: u64 = 1000;
/// How long a read may wait for something new; longer wishes are cut to this.
const WAIT_MAX: Duration = Duration::from_secs(10 * 60);

/// Names the last event that a stream's reader has seen.
const LAST_EVENT_ID: &str = "last-event-id";

/// One page of the log.
#[derive(Serialize)]
struct PageJson {
    events: Vec<EventJson>,
    /// The cursor to go on with.
    next: u64,
    /// The last id given out.
    head: u64,
    /// `gap` or `ahead` where something is missing before the first event.
    #[serde(skip_serializing_if = "Option::is_none")]
    reset: Option<&'static str>,
}

impl PageJson {
    fn new(page: &Page) -> Self {
        let entries = page.entries.iter();
        PageJson {
            events: entries.map(|entry| EventJson::new(entry)).collect(),
            next: page.next,
            head: page.head,
            reset: page.reset.map(reason),
        }
    }
}

/// What a reset is called.
pub(super) const fn reason(reset: Reset) -> &'static str {
    match reset {
        Reset::Gap => "gap",
        Reset::Ahead => "ahead",
    }
}

/// The events after a cursor, at once, when there are some, or one by one as they come.
pub(super) async fn list(
    State(app): State<App>,
    query: Parameters,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    query.allow(&["after", "limit", "wait", "kind", "name"])?;
    let wanted = Wanted::from_query(&query)?;
    let after = query.integer("after")?;
    let limit = query.integer("limit")?.unwrap_or(LIMIT_DEFAULT);
    let wait = query.duration("wait")?.unwrap_or_default().min(WAIT_MAX);
    if wants_stream(&headers) {
        let after = last_event_id(&headers)?.or(after).unwrap_or(0);
        return event_stream::serve(&app, after, wanted);
    }
    let limit = limit.min(LIMIT_MAX) as usize;
    let page = newer(&app, after.unwrap_or(0), limit, &wanted, wait).await?;
    let fresh = [(header::CACHE_CONTROL, "no-store")];
    Ok((fresh, Json(PageJson::new(&page))).into_response())
}

/// One event.
pub(super) async fn one(
    State(app): State<App>,
    path: Result<Path<String>, PathRejection>,
    query: Parameters,
) -> Result<Response, Problem> {
    query.allow(&[])?;
    let text = named(path)?;
    let log = app.node.events();
    let Ok(id) = text.parse() else {
        let detail = format!("{text:?} is no event id; give an integer, as GET /v1/events lists");
        return Err(Problem::new(StatusCode::BAD_REQUEST, detail));
    };
    match log.get(id) {
        Lookup::Found(entry) => Ok(Json(one_json(&app, &entry).await).into_response()),
        Lookup::Gone => Err(gone(id, &log)),
        Lookup::Unknown => {
            let head = log.head();
            let detail = format!("no event {id} yet: the last id given out is {head}");
            Err(Problem::new(StatusCode::NOT_FOUND, detail))
        }
    }
}

/// An event, and how far it has come where this node knows.
#[derive(Serialize)]
struct OneJson {
    #[serde(flatten)]
    event: EventJson,
    #[serde(flatten)]
    delivery: Option<DeliveryJson>,
}

#[derive(Serialize)]
struct DeliveryJson {
    /// Alive members that have it.
    delivered: Vec<String>,
    /// Alive members that have not said so, and dead ones.
    owed: Vec<String>,
    complete: bool,
}

async fn one_json(app: &App, entry: &LogEntry) -> OneJson {
    let delivery = match &entry.what {
        Logged::User(event) => {
            let delivery = app.node.delivery(event.event_ref()).await;
            // What a stopped node knew is gone.
            delivery.unwrap_or_default().map(DeliveryJson::new)
        }
        _ => None,
    };
    OneJson {
        event: EventJson::new(entry),
        delivery,
    }
}

impl DeliveryJson {
    fn new(state: DeliveryState) -> Self {
        let names = |names: Vec<NodeName>| {
            let mut names: Vec<_> = names.iter().map(NodeName::to_string).collect();
            names.sort();
            names
        };
        DeliveryJson {
            complete: state.owed.is_empty(),
            delivered: names(state.delivered),
            owed: names(state.owed),
        }
    }
}

fn gone(id: u64, log: &EventLog) -> Problem {
    let oldest = log.oldest();
    let detail = match id < oldest {
        true => format!("event {id} is not kept any more: the oldest is {oldest}"),
        false => format!("event {id} was never given out, or lost when the agent crashed"),
    };
    Problem::new(StatusCode::GONE, detail)
}

fn wants_stream(headers: &HeaderMap) -> bool {
    let accepted = headers.get_all(header::ACCEPT).iter();
    let mut kinds = accepted
        .filter_map(|value| value.to_str().ok())
        .flat_map(|list| list.split(','))
        .filter_map(|kind| kind.split(';').next());
    kinds.any(|kind| kind.trim().eq_ignore_ascii_case("text/event-stream"))
}

fn last_event_id(headers: &HeaderMap) -> Result<Option<u64>, Problem> {
    let Some(value) = headers.get(LAST_EVENT_ID) else {
        return Ok(None);
    };
    let text = value.to_str().unwrap_or_default().trim();
    match text.parse() {
        Ok(id) => Ok(Some(id)),
        // What a browser sends that has seen no event yet.
        Err(_) if text.is_empty() => Ok(None),
        Err(_) => {
            let detail = "Last-Event-ID must be the id of an event of this log, an integer";
            Err(Problem::new(StatusCode::BAD_REQUEST, detail))
        }
    }
}

/// The page as soon as it holds something that is wanted or its cursor is void, or whatever there
/// is when `wait` is over or the server stops.
async fn newer(
    app: &App,
    after: u64,
    limit: usize,
    wanted: &Wanted,
    wait: Duration,
) -> Result<Page, Problem> {
    let log = app.node.events();
    let mut page = wanted.read(&log, after, limit);
    if settled(&page, limit) || wait.is_zero() {
        return Ok(page);
    }
    let _place = app
        .blocked
        .try_acquire()
        .map_err(|_| super::members::too_many_blocked("wait"))?;
    let grown = async {
        let mut changes = log.changes();
        while !settled(&page, limit) {
            let seen = page.next;
            // The log outlives this read, so it ends by having grown only.
            let _ = changes.wait_for(|&head| head != seen).await;
            page = wanted.read(&log, seen, limit);
        }
    };
    tokio::select! {
        () = grown => {}
        () = tokio::time::sleep(wait) => {}
        () = app.stopping() => {}
    }
    Ok(page)
}

/// Whether a reader that waits is to be answered.
fn settled(page: &Page, limit: usize) -> bool {
    !page.entries.is_empty() || page.reset.is_some() || (limit == 0 && page.next != page.head)
}
