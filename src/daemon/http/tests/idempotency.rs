//! `Idempotency-Key`: requests that are sent again, at the same time, or with something else.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use serde_json::json;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

use super::api::{Answer, Api};
use super::snapshot;
use crate::daemon::http::Writes;
use crate::node::Readiness;

const JSON: &str = "Content-Type: application/json";
const EVENT: &str = r#"{"name": "charge", "payload": "5"}"#;

async fn keyed(api: &Api, method: &str, path: &str, key: &str, body: &str) -> Answer {
    let key = format!("Idempotency-Key: {key}");
    api.send(method, path, &[JSON, &key], body).await
}

/// fullstackhero/dotnet-starter-kit PR#1333, granit-fx/granit-dotnet PR#1151: a replay lost its
/// status, its body or its headers.
#[tokio::test]
async fn a_repeat_gets_the_same_answer_and_says_so() {
    let api = Api::serve(snapshot()).await;
    let first = keyed(&api, "POST", "/v1/events", "k", EVENT).await;
    assert_eq!(
        (first.status, first.header("idempotency-replayed")),
        (201, None)
    );
    for key in ["k", "\"k\""] {
        let again = keyed(&api, "POST", "/v1/events", key, EVENT).await;
        assert_eq!((again.status, &again.body), (200, &first.body));
        assert_eq!(again.header("idempotency-replayed"), Some("true"));
        for header in ["location", "content-type"] {
            assert_eq!(again.header(header), first.header(header), "{header}");
        }
    }
    assert_eq!(api.node.log.head(), 1, "one event");
    // Location, ETag, 204 without a body, and an error.
    let path = "/v1/self/services/api";
    let added = keyed(&api, "PUT", path, "s", r#"{"port": 81}"#).await;
    let again = keyed(&api, "PUT", path, "s", r#"{"port": 81}"#).await;
    assert_eq!((added.status, again.status), (201, 200));
    assert_eq!(again.body, added.body);
    for header in ["etag", "location"] {
        assert_eq!(again.header(header), added.header(header), "{header}");
    }
    let removed = keyed(&api, "DELETE", path, "r", "").await;
    let again = keyed(&api, "DELETE", path, "r", "").await;
    assert_eq!(
        (removed.status, again.status, again.body.as_str()),
        (204, 204, "")
    );
    assert_eq!(again.header("idempotency-replayed"), Some("true"));
    let wrong = keyed(&api, "PUT", path, "w", r#"{"port": 0}"#).await;
    let again = keyed(&api, "PUT", path, "w", r#"{"port": 0}"#).await;
    assert_eq!((wrong.status, again.status), (400, 400));
    assert_eq!(again.body, wrong.body);
    assert_eq!(api.node.changes_made.load(Ordering::Relaxed), 2);
    let text = api.get("/metrics").await.body;
    for line in [
        "rumord_idempotency_total{outcome=\"executed\"} 4",
        "rumord_idempotency_total{outcome=\"replayed\"} 5",
        "rumord_events_total{kind=\"user\"} 1",
    ] {
        assert!(text.lines().any(|held| held == line), "{line} in\n{text}");
    }
}

#[tokio::test]
async fn without_a_key_every_request_is_one_of_its_own() {
    let api = Api::serve(snapshot()).await;
    for id in 1..=3 {
        assert_eq!(api.post("/v1/events", EVENT).await.json()["id"], id);
    }
}

/// idempot-dev/idempot-js PR#186, PR#191: the loser of a race got 503, and another payload got 409
/// while the first request ran.
#[tokio::test]
async fn a_repeat_waits_while_the_first_runs_and_another_request_never_does() {
    let api = Api::serve(snapshot()).await;
    let hold = api.node.hold().await;
    let path = "/v1/members/n3";
    let first = keyed(&api, "DELETE", path, "k", "");
    let others = async {
        api.node.until_begun(1).await;
        let detail = keyed(&api, "DELETE", "/v1/members/n2", "k", "")
            .await
            .problem(422);
        assert!(detail.contains("another request"), "{detail}");
        // Longer than a repeat waits.
        let running = keyed(&api, "DELETE", path, "k", "").await;
        running.problem(409);
        assert_eq!(running.header("retry-after"), Some("1"));
        let waiting = keyed(&api, "DELETE", path, "k", "");
        let release = async {
            tokio::time::sleep(Duration::from_millis(50)).await;
            drop(hold);
        };
        tokio::join!(waiting, release).0
    };
    let (first, waited) = tokio::join!(first, others);
    assert_eq!((first.status, waited.status), (202, 202));
    assert_eq!(waited.body, first.body);
    assert_eq!(waited.header("idempotency-replayed"), Some("true"));
    keyed(&api, "DELETE", "/v1/members/n2", "k", "")
        .await
        .problem(422);
    keyed(&api, "DELETE", path, "k", "{}").await.problem(422);
    assert_eq!(api.node.begun.load(Ordering::Relaxed), 1, "one effect");
    // The same for an event, whose key has its answer at once.
    keyed(&api, "POST", "/v1/events", "e", EVENT).await;
    let other = r#"{"name": "charge", "payload": "6"}"#;
    keyed(&api, "POST", "/v1/events", "e", other)
        .await
        .problem(422);
    keyed(&api, "POST", "/v1/events?x=1", "e", EVENT)
        .await
        .problem(422);
}

/// LabsCrypt/remitlend#1329, ietf-wg-httpapi/idempotency#41: a passing failure was replayed for a
/// day.
#[tokio::test]
async fn what_failed_without_an_effect_is_tried_again() {
    let api = Api::serve(snapshot()).await;
    api.node
        .change(|snapshot| snapshot.node.readiness = Readiness::Joining);
    keyed(&api, "POST", "/v1/events", "k", EVENT)
        .await
        .problem(503);
    api.node
        .change(|snapshot| snapshot.node.readiness = Readiness::Ready);
    assert_eq!(
        keyed(&api, "POST", "/v1/events", "k", EVENT).await.status,
        201
    );
    keyed(&api, "DELETE", "/v1/members/busy", "b", "")
        .await
        .problem(503);
    keyed(&api, "DELETE", "/v1/members/busy", "b", "")
        .await
        .problem(503);
    assert_eq!(api.node.begun.load(Ordering::Relaxed), 2);
    let places: Vec<_> = std::iter::from_fn(|| api.node.backlog.enter(1)).collect();
    keyed(&api, "POST", "/v1/events", "full", EVENT)
        .await
        .problem(429);
    let replayed = keyed(&api, "POST", "/v1/events", "k", EVENT).await;
    assert_eq!(replayed.status, 200, "a repeat needs no place");
    drop(places);
    assert_eq!(
        keyed(&api, "POST", "/v1/events", "full", EVENT)
            .await
            .status,
        201
    );
    // What is wrong stays wrong.
    let wrong = r#"{"name": ""}"#;
    let first = keyed(&api, "POST", "/v1/events", "w", wrong).await;
    let again = keyed(&api, "POST", "/v1/events", "w", wrong).await;
    assert_eq!((first.status, again.status), (400, 400));
    assert_eq!(again.header("idempotency-replayed"), Some("true"));
    keyed(&api, "POST", "/v1/events", "w", EVENT)
        .await
        .problem(422);
    // Forbidden changes are not looked at.
    let closed = Api::serve_with(snapshot(), Writes::Off, |listener| listener).await;
    keyed(&closed, "POST", "/v1/events", "k", EVENT)
        .await
        .problem(403);
}

/// caura-ai/caura PR#1629: the client hung up after the effect and before the record, and the
/// retry had the effect again.
#[tokio::test]
async fn a_client_that_hangs_up_changes_nothing() {
    let api = Api::serve(snapshot()).await;
    for n in 0..10_u64 {
        let hold = api.node.hold().await;
        let key = format!("k{n}");
        let request = format!(
            "DELETE /v1/members/n3 HTTP/1.1\r\nHost: localhost\r\nIdempotency-Key: {key}\r\n\
             Content-Length: 0\r\n\r\n"
        );
        let mut stream = TcpStream::connect(api.address).await.expect("connects");
        stream.write_all(request.as_bytes()).await.expect("sent");
        let begun = n as usize + 1;
        if n % 2 == 0 {
            api.node.until_begun(begun).await;
        }
        tokio::time::sleep(Duration::from_millis(n)).await;
        drop(stream);
        drop(hold);
        let again = keyed(&api, "DELETE", "/v1/members/n3", &key, "").await;
        assert_eq!(again.status, 202);
        assert_eq!(
            api.node.begun.load(Ordering::Relaxed),
            begun,
            "one effect for each key"
        );
    }
}

/// ietf-wg-httpapi/idempotency PR#10, grimurrash/test-task2#73, alphagov/pay-connector PR#4414:
/// blank, long and doubled headers were ignored, or made a third key.
#[tokio::test]
async fn a_malformed_key_is_refused_before_anything_is_done() {
    let api = Api::serve(snapshot()).await;
    let long = "k".repeat(256);
    for key in ["", "   ", &long, "é", "a b", "a, b"] {
        let detail = keyed(&api, "POST", "/v1/events", key, EVENT)
            .await
            .problem(400);
        assert!(detail.contains("Idempotency-Key"), "{detail}");
    }
    let two = |a: &str, b: &str| [a, b].map(|key| format!("Idempotency-Key: {key}"));
    let [a, b] = two("a", "b");
    let answer = api.send("POST", "/v1/events", &[JSON, &a, &b], EVENT).await;
    answer.problem(400);
    assert_eq!(api.node.log.head(), 0);
    let [a, b] = two("a", "\"a\"");
    let answer = api.send("POST", "/v1/events", &[JSON, &a, &b], EVENT).await;
    assert_eq!(answer.status, 201);
    assert_eq!(
        keyed(&api, "POST", "/v1/events", "a", EVENT).await.status,
        200
    );
    let read = keyed(&api, "GET", "/v1/events", "   ", "").await;
    assert_eq!(read.status, 200, "ignored where nothing is changed");
    let fits = "k".repeat(255);
    assert_eq!(
        keyed(&api, "POST", "/v1/events", &fits, EVENT).await.status,
        201
    );
}

/// The gap between a check and a write lets two through; the database does not.
#[tokio::test]
async fn of_many_at_once_exactly_one_is_first() {
    let api = Api::serve(snapshot()).await;
    let api = Arc::new(api);
    let requests: Vec<_> = (0..40)
        .map(|_| {
            let api = Arc::clone(&api);
            tokio::spawn(async move { keyed(&api, "POST", "/v1/events", "k", EVENT).await })
        })
        .collect();
    let (mut first, mut bodies) = (0, BTreeSet::new());
    for request in requests {
        let answer = request.await.expect("no panic");
        assert!(matches!(answer.status, 200 | 201), "{answer:?}");
        first += u32::from(answer.status == 201);
        bodies.insert(answer.body);
    }
    assert_eq!((first, bodies.len(), api.node.log.head()), (1, 1, 1));
}

#[tokio::test]
async fn what_a_body_is_too_large_for_is_known_with_a_key_too() {
    let api = Api::serve(snapshot()).await;
    let tags = json!({ "k": "v".repeat(70_000) }).to_string();
    let answer = keyed(&api, "PUT", "/v1/self/tags", "t", &tags).await;
    let detail = answer.problem(413);
    assert!(detail.contains("at most 65536"), "{detail}");
    let huge = "x".repeat(600_000);
    keyed(&api, "PUT", "/v1/self/tags", "h", &huge)
        .await
        .problem(413);
    keyed(&api, "POST", "/v1/join", "j", &huge[..70_000])
        .await
        .problem(413);
}
