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
/// Events that go out in one piece, and their payloads in bytes, beyond the first one's: what a
/// reader that does not read holds.
const PAGE: usize = 64;
const PAGE_BYTES_MAX: usize = 64 * 1024;
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
        let mut page = wanted.read(log, *cursor, PAGE);
        cut(&mut page);
        *cursor = page.next;
        if !page.entries.is_empty() || page.reset.is_some() {
            return page;
        }
        // The log outlives its streams.
        let _ = changes.wait_for(|&head| head != page.next).await;
    }
}

/// Leaves what goes beyond the bytes of a piece for the next one.
fn cut(page: &mut Page) {
    let mut bytes = 0;
    let fitting = page.entries.iter().take_while(|entry| {
        let first = bytes == 0;
        bytes += entry.what.payload_bytes().max(1);
        first || bytes <= PAGE_BYTES_MAX
    });
    let fitting = fitting.count();
    if fitting < page.entries.len() {
        page.entries.truncate(fitting);
        page.next = page.entries.last().map_or(page.next, |last| last.id);
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

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::SystemTime;

    use super::*;
    use crate::member::{Delivery, EventName, Generation, UserEvent};
    use crate::node::Logged;

    fn sized(sequence: u64, bytes: usize) -> Logged {
        Logged::User(Arc::new(UserEvent {
            origin: "n1".parse().expect("valid"),
            generation: Generation(1),
            delivery: Delivery::AtLeastOnce,
            sequence,
            key: None,
            unix_ms: 0,
            name: EventName::new("tick").expect("valid"),
            payload: vec![b'x'; bytes],
        }))
    }

    /// Readers that do not read hold one piece each: it is bounded in bytes, and none is left out.
    #[test]
    fn a_piece_is_bounded_in_bytes_and_the_next_goes_on_behind_it() {
        let log = EventLog::new(Generation(0), Vec::new(), None);
        for (number, bytes) in [10, 60_000, 60_000, 10, 10].into_iter().enumerate() {
            log.append(SystemTime::now(), sized(number as u64 + 1, bytes));
        }
        let mut cursor = 0;
        let mut pieces = Vec::new();
        while cursor < log.head() {
            let mut page = log.read(cursor, PAGE);
            cut(&mut page);
            pieces.push(page.entries.len());
            cursor = page.next;
        }
        assert_eq!(pieces, [2, 3]);
    }
}
