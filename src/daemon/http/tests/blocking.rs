//! Reads that wait for a change.

use std::time::Duration;

use super::api::{Answer, Api, SOON};
use super::snapshot;

/// Waits until `count` readers are blocked.
async fn blocked(api: &Api, count: usize) {
    let poll = async {
        while api.node.followers() < count {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    tokio::time::timeout(SOON, poll)
        .await
        .expect("readers block");
}

/// Runs a blocked read of index 42 and `act` once it is blocked.
async fn while_blocked(api: &Api, act: impl FnOnce()) -> Answer {
    let read = api.get("/v1/members?index=42&wait=10m");
    let acted = async {
        blocked(api, 1).await;
        act();
    };
    tokio::join!(read, acted).0
}

#[tokio::test]
async fn a_read_waits_until_the_index_is_above() {
    let api = Api::serve(snapshot()).await;
    let answer = while_blocked(&api, || {
        // A newer sample without a change of the index does not end the wait.
        api.node.change(|snapshot| snapshot.members[0].phi = 1.0);
        api.node.change(|snapshot| snapshot.index = 43);
    })
    .await;
    assert_eq!(answer.status, 200);
    assert_eq!(answer.json()["index"], 43);
    assert_eq!(answer.json()["members"][0]["phi"], 1.0);
}

#[tokio::test]
async fn index_zero_and_an_index_already_passed_answer_at_once() {
    let api = Api::serve(snapshot()).await;
    assert_eq!(
        api.get("/v1/members?index=0&wait=10m").await.json()["index"],
        42
    );
    assert_eq!(
        api.get("/v1/members?index=41&wait=10m").await.json()["index"],
        42
    );
    assert_eq!(api.get("/v1/members?wait=10m").await.json()["index"], 42);
}

#[tokio::test]
async fn when_the_wait_is_over_the_table_comes_as_it_is() {
    let api = Api::serve(snapshot()).await;
    let answer = api.get("/v1/members?index=42&wait=20ms").await;
    assert_eq!(
        (answer.status, answer.json()["index"].as_u64()),
        (200, Some(42))
    );
    let tag = answer.header("etag").expect("etag").to_owned();
    let header = format!("If-None-Match: {tag}");
    let held = api
        .send("GET", "/v1/members?index=42&wait=20ms", &[&header], "")
        .await;
    assert_eq!(held.status, 304);
}

#[tokio::test]
async fn a_stopped_node_ends_the_wait() {
    let api = Api::serve(snapshot()).await;
    let answer = while_blocked(&api, || api.node.stop()).await;
    assert_eq!(
        (answer.status, answer.json()["index"].as_u64()),
        (200, Some(42))
    );
}

#[tokio::test]
async fn a_stopping_server_ends_the_wait_and_delivers_the_answer() {
    let api = Api::serve(snapshot()).await;
    let node = api.node.clone();
    let request = format!(
        "GET /v1/members?index=42&wait=10m HTTP/1.1\r\nHost: {}\r\n\r\n",
        api.address
    );
    let mut stream = tokio::net::TcpStream::connect(api.address)
        .await
        .expect("connects");
    tokio::io::AsyncWriteExt::write_all(&mut stream, request.as_bytes())
        .await
        .expect("sent");
    blocked(&api, 1).await;
    api.stop().await;
    let mut text = String::new();
    tokio::io::AsyncReadExt::read_to_string(&mut stream, &mut text)
        .await
        .expect("answered");
    assert!(text.starts_with("HTTP/1.1 200 OK"), "{text}");
    drop(node);
}

/// Readers that wait for minutes took every connection, and the supervisor's check found none.
#[tokio::test]
async fn one_blocked_read_too_many_is_refused_and_health_checks_go_on() {
    let api = Api::serve(snapshot()).await;
    // The test's server has eight connections.
    let places = 7;
    let request = b"GET /v1/members?index=42&wait=10m HTTP/1.1\r\nHost: localhost\r\n\r\n";
    let mut readers = Vec::new();
    for _ in 0..places {
        let mut stream = tokio::net::TcpStream::connect(api.address)
            .await
            .expect("connects");
        tokio::io::AsyncWriteExt::write_all(&mut stream, request)
            .await
            .expect("sent");
        readers.push(stream);
    }
    blocked(&api, places).await;
    let refused = api.get("/v1/members?index=42&wait=10m").await;
    assert_eq!(refused.status, 503, "{}", refused.body);
    assert_eq!(api.get("/livez").await.status, 200);
    assert_eq!(api.get("/v1/members").await.status, 200);
}
