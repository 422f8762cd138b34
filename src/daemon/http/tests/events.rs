//! The log over HTTP: pages, waiting, and streams.

use std::time::{Duration, SystemTime};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::api::{Api, SOON};
use super::snapshot;
use crate::daemon::event::tests::death;
use crate::daemon::http::Writes;
use crate::daemon::http::connections::Bounded;
use crate::node::EVENTS_MAX;

pub(super) fn append(api: &Api, count: usize) {
    for _ in 0..count {
        api.node.log.append(SystemTime::now(), death(1).what);
    }
}

/// A reader of server-sent events.
struct Reader {
    stream: TcpStream,
    text: String,
}

impl Reader {
    async fn open(api: &Api, target: &str, header: &str) -> Self {
        let mut stream = TcpStream::connect(api.address).await.expect("connects");
        let request = format!(
            "GET {target} HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\n{header}\r\n"
        );
        let sent = stream.write_all(request.as_bytes()).await;
        sent.expect("sent");
        Reader {
            stream,
            text: String::new(),
        }
    }

    /// Reads until the stream has said `wanted`, and returns all that it has said.
    async fn until(&mut self, wanted: &str) -> &str {
        let read = async {
            let mut bytes = [0; 4096];
            while !self.text.contains(wanted) {
                let count = self.stream.read(&mut bytes).await.expect("readable");
                assert!(count > 0, "no {wanted:?} in {:?}", self.text);
                self.text
                    .push_str(&String::from_utf8_lossy(&bytes[..count]));
            }
        };
        let outcome = tokio::time::timeout(SOON, read).await;
        assert!(outcome.is_ok(), "no {wanted:?} in time");
        &self.text
    }
}

#[tokio::test]
async fn pages_go_on_where_the_last_one_ended() {
    let api = Api::serve(snapshot()).await;
    append(&api, 5);
    let page = api.get("/v1/events?limit=2").await.json();
    assert_eq!(
        (page["next"].as_u64(), page["head"].as_u64()),
        (Some(2), Some(5))
    );
    assert_eq!(page["events"][0]["id"], 1);
    assert_eq!(page["events"][0]["kind"], "member-dead");
    assert_eq!(page["events"][0]["evidence"]["phi"], 9.8);
    assert!(page.get("reset").is_none());
    let page = api.get("/v1/events?after=2").await.json();
    assert_eq!(page["events"].as_array().map(Vec::len), Some(3));
    let page = api.get("/v1/events?after=5&limit=0").await.json();
    assert_eq!(
        (page["next"].as_u64(), page["events"][0].is_null()),
        (Some(5), true)
    );
    let page = api.get("/v1/events?after=99").await.json();
    assert_eq!(
        (page["reset"].as_str(), page["events"][0]["id"].as_u64()),
        (Some("ahead"), Some(1))
    );
    for wrong in ["after=x", "limit=-1", "wait=1", "afer=1"] {
        api.get(&format!("/v1/events?{wrong}")).await.problem(400);
    }
}

#[tokio::test]
async fn one_event_is_found_gone_or_not_there_yet() {
    let api = Api::serve(snapshot()).await;
    append(&api, EVENTS_MAX + 3);
    assert_eq!(api.get("/v1/events/4").await.json()["id"], 4);
    let detail = api.get("/v1/events/3").await.problem(410);
    assert!(detail.contains("the oldest is 4"), "{detail}");
    let beyond = format!("/v1/events/{}", EVENTS_MAX + 4);
    let detail = api.get(&beyond).await.problem(404);
    assert!(detail.contains("no event"), "{detail}");
    api.get("/v1/events/0").await.problem(404);
    api.get("/v1/events/x").await.problem(400);
    let page = api.get("/v1/events?after=1&limit=1").await.json();
    assert_eq!(
        (page["reset"].as_str(), page["events"][0]["id"].as_u64()),
        (Some("gap"), Some(4))
    );
}

#[tokio::test]
async fn a_read_waits_for_the_next_event_and_no_longer_than_it_says() {
    let api = Api::serve(snapshot()).await;
    append(&api, 1);
    let read = api.get("/v1/events?after=1&wait=10m");
    let act = async {
        tokio::time::sleep(Duration::from_millis(20)).await;
        append(&api, 1);
    };
    let (answer, ()) = tokio::join!(read, act);
    assert_eq!(answer.json()["events"][0]["id"], 2);
    let empty = api.get("/v1/events?after=2&wait=20ms").await.json();
    assert_eq!(
        (empty["next"].as_u64(), empty["events"][0].is_null()),
        (Some(2), true)
    );
}

#[tokio::test]
async fn a_stream_brings_the_past_then_the_present_and_goes_on_after_an_id() {
    let api = Api::serve(snapshot()).await;
    append(&api, 2);
    let mut reader = Reader::open(&api, "/v1/events", "").await;
    let text = reader.until("id: 2\n").await;
    assert!(text.contains("text/event-stream"), "{text}");
    assert!(
        text.contains("id: 1\nevent: member-dead\ndata: {\"id\":1,"),
        "{text}"
    );
    append(&api, 1);
    reader.until("id: 3\nevent: member-dead\n").await;
    let mut reader = Reader::open(&api, "/v1/events?after=1", "Last-Event-ID: 2\r\n").await;
    let text = reader.until("id: 3\n").await;
    assert!(
        !text.contains("id: 2\n") && !text.contains("reset"),
        "{text}"
    );
}

#[tokio::test]
async fn a_gap_and_a_foreign_cursor_are_announced() {
    let api = Api::serve(snapshot()).await;
    append(&api, EVENTS_MAX + 3);
    let mut reader = Reader::open(&api, "/v1/events", "Last-Event-ID: 1\r\n").await;
    let text = reader.until("id: 4\n").await;
    let reset = "id: 3\nevent: reset\ndata: {\"reason\":\"gap\",\"next\":3}\n\n";
    assert!(text.contains(reset), "{text}");
    let mut reader = Reader::open(&api, "/v1/events", "Last-Event-ID: 99999999\r\n").await;
    reader.until("\"reason\":\"ahead\"").await;
    let wrong = ["Accept: text/event-stream", "Last-Event-ID: abc"];
    let detail = api.send("GET", "/v1/events", &wrong, "").await.problem(400);
    assert!(detail.contains("Last-Event-ID"), "{detail}");
}

/// hashicorp/serf#369, moby#5456: one reader that did not read held up everything.
#[tokio::test]
async fn a_reader_that_does_not_read_is_cut_and_the_log_goes_on() {
    let patience = Duration::from_millis(300);
    let adjust = |listener: Bounded| listener.with_patience(patience);
    let api = Api::serve_with(snapshot(), Writes::On, adjust).await;
    let mut reader = Reader::open(&api, "/v1/events", "").await;
    reader.until("retry:").await;
    // More than the sockets hold: it never reads again.
    let start = std::time::Instant::now();
    append(&api, EVENTS_MAX);
    assert!(
        start.elapsed() < Duration::from_secs(2),
        "appending waits for nobody"
    );
    assert_eq!(api.node.log.head(), EVENTS_MAX as u64);
    let cut = async {
        loop {
            append(&api, 100);
            tokio::time::sleep(Duration::from_millis(10)).await;
            // Reading nothing, it learns of the cut by writing.
            if reader.stream.write_all(b"x").await.is_err() {
                break;
            }
        }
    };
    tokio::time::timeout(SOON, cut).await.expect("cut in time");
    assert_eq!(api.get("/livez").await.status, 200);
}

#[tokio::test]
async fn streams_have_places_and_a_stopping_server_ends_them() {
    let api = Api::serve(snapshot()).await;
    let mut readers = Vec::new();
    // The test's server has eight connections.
    for _ in 0..7 {
        let mut reader = Reader::open(&api, "/v1/events", "").await;
        reader.until("retry:").await;
        readers.push(reader);
    }
    let one_more = ["Accept: text/event-stream"];
    let refused = api.send("GET", "/v1/events", &one_more, "").await;
    refused.problem(503);
    assert_eq!(api.get("/livez").await.status, 200);
    api.stop().await;
    for mut reader in readers {
        let mut rest = Vec::new();
        let ended = reader.stream.read_to_end(&mut rest);
        let ended = tokio::time::timeout(SOON, ended).await;
        assert!(ended.is_ok(), "the server is gone");
    }
}
