//! A server for one test, and the smallest HTTP client that can also misbehave.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;

use super::fake::FakeNode;
use crate::daemon::http::connections::Bounded;
use crate::daemon::http::{Membership, State, Writes, serve_on};
use crate::daemon::store::SqliteStore;
use crate::daemon::telemetry::Metrics;
use crate::member::{Generation, NodeId};
use crate::node::{Durable, Kept, Snapshot, Store};

/// A bound for everything that happens at once on a healthy machine.
pub(super) const SOON: Duration = Duration::from_secs(20);

/// A server and the node it shows.
pub(super) struct Api {
    pub(super) node: Arc<FakeNode>,
    pub(super) store: Arc<SqliteStore>,
    /// What the store says is durable; nobody tells it to anybody.
    pub(super) durable: mpsc::UnboundedReceiver<Durable>,
    pub(super) address: SocketAddr,
    stop: oneshot::Sender<()>,
    task: JoinHandle<()>,
}

/// An answer, taken apart.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) status: u16,
    head: String,
    pub(super) body: String,
}

impl Api {
    /// Serves `snapshot`.
    pub(super) async fn serve(snapshot: Snapshot) -> Self {
        Self::serve_with(snapshot, Writes::On, |listener| listener).await
    }

    /// Serves `snapshot` with other rules or limits.
    pub(super) async fn serve_with(
        snapshot: Snapshot,
        writes: Writes,
        adjust: impl FnOnce(Bounded) -> Bounded,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("loopback");
        let address = listener.local_addr().expect("bound");
        let node = FakeNode::new(snapshot);
        let (store, durable) = store(&node);
        let metrics = Arc::new(Metrics::new());
        store.count_in(&metrics);
        let state = State {
            node: node.clone(),
            store: store.clone(),
            metrics,
            writes,
        };
        let (stop, stopped) = oneshot::channel();
        let shutdown = async {
            let _ = stopped.await;
        };
        let bounded = adjust(Bounded::new(listener, 8));
        let task = tokio::spawn(serve_on(bounded, state, shutdown));
        Api {
            node,
            store,
            durable,
            address,
            stop,
            task,
        }
    }

    /// Reads `target`.
    pub(super) async fn get(&self, target: &str) -> Answer {
        self.send("GET", target, &[], "").await
    }

    /// Posts a JSON body.
    pub(super) async fn post(&self, target: &str, body: &str) -> Answer {
        self.send("POST", target, &["Content-Type: application/json"], body)
            .await
    }

    /// Sends one request with further header lines.
    pub(super) async fn send(
        &self,
        method: &str,
        target: &str,
        headers: &[&str],
        body: &str,
    ) -> Answer {
        let mut lines = vec![format!("{method} {target} HTTP/1.1")];
        if !headers.iter().any(|line| line.starts_with("Host:")) {
            lines.push(format!("Host: {}", self.address));
        }
        lines.extend(headers.iter().map(|line| line.to_string()));
        lines.push(format!(
            "Content-Length: {}\r\nConnection: close\r\n\r\n",
            body.len()
        ));
        self.exchange(&format!("{}{body}", lines.join("\r\n")))
            .await
    }

    /// Sends raw text and reads until the server closes.
    pub(super) async fn exchange(&self, request: &str) -> Answer {
        let mut stream = TcpStream::connect(self.address).await.expect("connects");
        // The server may answer and close before it has read everything.
        let _ = stream.write_all(request.as_bytes()).await;
        let mut bytes = Vec::new();
        let read = stream.read_to_end(&mut bytes);
        let _ = tokio::time::timeout(SOON, read)
            .await
            .expect("an answer in time");
        Answer::parse(&String::from_utf8_lossy(&bytes))
    }

    /// Stops the server; it must end soon.
    pub(super) async fn stop(self) {
        let _ = self.stop.send(());
        tokio::time::timeout(SOON, self.task)
            .await
            .expect("ends in time")
            .expect("no panic");
    }
}

/// A store in memory of the node's log.
pub(super) fn store(node: &FakeNode) -> (Arc<SqliteStore>, mpsc::UnboundedReceiver<Durable>) {
    let generation = Generation(1_764_516_000);
    let store = SqliteStore::in_memory("default", generation, NodeId(1)).expect("memory");
    let (sender, durable) = mpsc::unbounded_channel();
    let snapshot = node.snapshot();
    store.follow(Kept {
        events: node.log.clone(),
        local: snapshot.local.clone(),
        snapshot: Arc::new(ArcSwap::new(snapshot)),
        generation,
        durable: sender,
    });
    (Arc::new(store), durable)
}

impl Answer {
    fn parse(text: &str) -> Self {
        let (head, body) = text.split_once("\r\n\r\n").unwrap_or((text, ""));
        let status = head
            .split(' ')
            .nth(1)
            .and_then(|word| word.parse().ok())
            .unwrap_or(0);
        Answer {
            status,
            head: head.to_owned(),
            body: body.to_owned(),
        }
    }

    /// The value of a header.
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().skip(1).find_map(|line| {
            let (key, value) = line.split_once(':')?;
            key.eq_ignore_ascii_case(name).then(|| value.trim())
        })
    }

    /// The body as JSON.
    pub(super) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|_| panic!("no JSON: {self:?}"))
    }

    /// The names of the members in the body.
    pub(super) fn names(&self) -> Vec<String> {
        let json = self.json();
        let members = json["members"].as_array().expect("members");
        members
            .iter()
            .map(|member| member["name"].as_str().expect("name").to_owned())
            .collect()
    }

    /// Checks that this is a problem document of `status`, and gives its detail.
    pub(super) fn problem(&self, status: u16) -> String {
        assert_eq!(self.status, status, "{self:?}");
        assert_eq!(
            self.header("content-type"),
            Some("application/problem+json"),
            "{self:?}"
        );
        let json = self.json();
        assert_eq!(json["type"], "about:blank");
        assert_eq!(json["status"], status);
        assert!(json["title"].is_string());
        json["detail"].as_str().expect("detail").to_owned()
    }
}
