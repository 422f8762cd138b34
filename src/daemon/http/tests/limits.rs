//! Clients that dawdle, and too many of them.

use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::api::{Api, SOON};
use super::snapshot;
use crate::daemon::http::Writes;

const SHORT: Duration = Duration::from_millis(150);

async fn impatient() -> Api {
    Api::serve_with(snapshot(), Writes::On, |listener| {
        listener.with_patience(SHORT)
    })
    .await
}

/// Reads until the server closes.
async fn drained(mut stream: TcpStream) -> String {
    let mut bytes = Vec::new();
    let read = stream.read_to_end(&mut bytes);
    let _ = tokio::time::timeout(SOON, read)
        .await
        .expect("closed in time");
    String::from_utf8_lossy(&bytes).into_owned()
}

#[tokio::test]
async fn a_head_that_never_ends_is_cut_off() {
    let api = impatient().await;
    let mut stream = TcpStream::connect(api.address).await.expect("connects");
    let (mut reader, mut writer) = stream.split();
    let trickle = async {
        // Each byte is progress, but not enough of it.
        while writer.write_all(b"G").await.is_ok() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    let closed = async {
        let mut bytes = Vec::new();
        let _ = reader.read_to_end(&mut bytes).await;
    };
    let cut = async {
        tokio::select! {
            () = trickle => {}
            () = closed => {}
        }
    };
    tokio::time::timeout(SOON, cut)
        .await
        .expect("cut off in time");
}

#[tokio::test]
async fn an_idle_connection_is_closed_and_a_blocked_read_is_not() {
    let api = impatient().await;
    let mut stream = TcpStream::connect(api.address).await.expect("connects");
    let wait = 4 * SHORT.as_millis();
    let request = format!(
        "GET /v1/members?index=42&wait={wait}ms HTTP/1.1\r\nHost: {}\r\n\r\n",
        api.address
    );
    stream.write_all(request.as_bytes()).await.expect("sent");
    // The answer comes after patience would have run out; then the idle connection is closed.
    let text = drained(stream).await;
    assert!(text.starts_with("HTTP/1.1 200 OK"), "{text}");
    assert!(text.contains("\"index\":42"), "{text}");
}

#[tokio::test]
async fn one_connection_too_many_waits_for_a_place() {
    let api = impatient().await;
    let mut idle = Vec::new();
    for _ in 0..8 {
        idle.push(TcpStream::connect(api.address).await.expect("connects"));
    }
    // All places are taken by connections that say nothing, until patience with one runs out.
    assert_eq!(api.get("/livez").await.status, 200);
}

#[tokio::test]
async fn clients_that_hold_connections_open_do_not_hold_the_stop_up() {
    let api = Api::serve(snapshot()).await;
    let idle = TcpStream::connect(api.address).await.expect("connects");
    let mut half = TcpStream::connect(api.address).await.expect("connects");
    half.write_all(b"POST /v1/join HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\n{")
        .await
        .expect("sent");
    api.stop().await;
    drop((idle, half));
}
