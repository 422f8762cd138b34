//! The log as server-sent events.
//!
//! A stream keeps a cursor and nothing else: its reader pulls. One that does not read makes its
//! connection wait, which is cut in time, and whatever it then has missed is announced when it
//! comes back. Nothing ever waits for a reader.

use std::convert::Infallible;
use std::fmt::Write as _;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::Body;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use futures_core::Stream;
use tokio::sync::{OwnedSemaphorePermit, mpsc, watch};

use super::super::event::EventJson;
use super::App;
use super::events::reason;
use super::problem::Problem;
use super::wanted::Wanted;
use crate::node::{EventLog, Page};

/// Streams at a time.
pub(super) const STREAMS_MAX: usize = 64;
/// Events that go out in one piece.
const PAGE: usize = 64;
/// An idle stream says this often that it lives.
const KEEP_ALIVE: Duration = Duration::from_secs(10);
/// The first words: how soon a reader that has lost the stream asks again.
const HEAD: &str = ": rumord events\nretry: 2000\n\n";

/// A body that is what comes out of a channel.
struct Pieces(mpsc::Receiver<String>);

impl Stream for Pieces {
    type Item = Result<String, Infallible>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.0.poll_recv(context).map(|piece| piece.map(Ok))
    }
}

/// A stream of the events after `after`.
pub(super) fn serve(app: &App, after: u64, wanted: Wanted) -> Result<Response, Problem> {
    let place = app.streams.clone().try_acquire_owned();
    // A stream keeps its connection, as a blocked read does: some are left for everybody else.
    let connection = app.blocked.clone().try_acquire_owned();
    let (Ok(place), Ok(connection)) = (place, connection) else {
        let detail = "too many event streams are open; close one, or read without streaming";
        return Err(Problem::new(StatusCode::SERVICE_UNAVAILABLE, detail));
    };
    let (pieces, body) = mpsc::channel(1);
    tokio::spawn(feed(
        app.clone(),
        after,
        wanted,
        pieces,
        [place, connection],
    ));
    let head = [
        (
            header::CONTENT_TYPE,
            HeaderValue::from_static("text/event-stream"),
        ),
        (header::CACHE_CONTROL, HeaderValue::from_static("no-store")),
    ];
    Ok((head, Body::from_stream(Pieces(body))).into_response())
}

/// Writes until the reader has gone or the server stops.
async fn feed(
    app: App,
    after: u64,
    wanted: Wanted,
    pieces: mpsc::Sender<String>,
    _places: [OwnedSemaphorePermit; 2],
) {
    let write = async {
        let log = app.node.events();
        let mut changes = log.changes();
        let mut cursor = after;
        let mut piece = HEAD.to_owned();
        // An error means that the reader has gone.
        while pieces.send(piece).await.is_ok() {
            let next = next_page(&log, &wanted, &mut cursor, &mut changes);
            piece = match tokio::time::timeout(KEEP_ALIVE, next).await {
                Ok(page) => text(&page),
                Err(_) => ":\n\n".to_owned(),
            };
        }
    };
    tokio::select! {
        () = write => {}
        () = pieces.closed() => {}
        () = app.stopping() => {}
    }
}

/// The next entries that are wanted, when there are some.
async fn next_page(
    log: &EventLog,
    wanted: &Wanted,
    cursor: &mut u64,
    changes: &mut watch::Receiver<u64>,
) -> Page {
    loop {
        let page = wanted.read(log, *cursor, PAGE);
        *cursor = page.next;
        if !page.entries.is_empty() || page.reset.is_some() {
            return page;
        }
        // The log outlives its streams.
        let _ = changes.wait_for(|&head| head != page.next).await;
    }
}

fn text(page: &Page) -> String {
    let mut text = String::new();
    // Writing to a string cannot fail.
    if let Some(reset) = page.reset {
        let next = page.entries.first().map_or(page.next, |first| first.id - 1);
        let reason = reason(reset);
        let _ = write!(
            text,
            "id: {next}\nevent: reset\ndata: {{\"reason\":\"{reason}\",\"next\":{next}}}\n\n"
        );
    }
    for entry in &page.entries {
        let event = EventJson::new(entry);
        // Plain fields always serialize, on one line.
        let data = serde_json::to_string(&event).unwrap_or_default();
        let (id, kind) = (entry.id, event.kind());
        let _ = write!(text, "id: {id}\nevent: {kind}\ndata: {data}\n\n");
    }
    text
}
