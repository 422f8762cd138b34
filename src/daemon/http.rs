//! The HTTP API: reads from the published snapshot, never waiting for the protocol; joins and
//! leaves through the node's handle.

mod agreement;
mod body;
mod connections;
mod control;
mod event_stream;
mod events;
mod explain;
mod filter;
mod forget;
mod guard;
mod health;
mod idempotency;
mod maintenance;
mod members;
mod metadata;
mod outbox;
mod problem;
mod publish;
mod query;
mod reachability;
mod this_node;
mod view;
mod wanted;

#[cfg(test)]
pub(in crate::daemon) mod tests;

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::http::{HeaderValue, StatusCode, Uri, header};
use axum::middleware::from_fn_with_state;
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodRouter, delete, get, post, put};
use tokio::net::TcpListener;
use tokio::sync::{RwLock, Semaphore, watch};

use self::body::{BODY_BYTES_MAX, EVENT_BODY_BYTES_MAX, METADATA_BODY_BYTES_MAX};
use self::connections::{Activity, Bounded, CONNECTIONS_MAX};
use self::event_stream::STREAMS_MAX;
use self::guard::{Hosts, admit, admit_write};
use self::idempotency::{Once, Rule, once};
use self::problem::Problem;
use super::store::SqliteStore;
use super::telemetry::Metrics;
use crate::member::{EventRef, NodeName};
use crate::node::{
    Backlog, DescribeError, Described, EventLog, Expected, JoinResult, LeaveReport, Node, Snapshot,
    Stopped,
};
use crate::protocol::{DeliveryState, Forgetting, MetadataChange};

pub(crate) use self::control::refusal;
pub use self::guard::Writes;

/// How long answers under way may take when the server stops.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(2);

const TAGS: &str = "/v1/self/tags";
const SERVICE: &str = "/v1/self/services/{name}";

const OPENAPI: &str = include_str!("http/openapi.json");

/// An answer that is being worked on.
pub type Pending<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// What the API needs of a node.
pub trait Membership: Send + Sync + 'static {
    /// The newest picture of the table. Never waits.
    fn snapshot(&self) -> Arc<Snapshot>;
    /// Wakes when the snapshot's index has grown; `Err` when the node has stopped.
    fn changes(&self) -> watch::Receiver<u64>;
    /// Has the members tell more often, for `length`, who agrees; follows whether all do.
    fn await_agreement(
        &self,
        length: Duration,
        pause: Duration,
    ) -> Pending<Result<watch::Receiver<bool>, Stopped>>;
    /// The log of what happened.
    fn events(&self) -> EventLog;
    /// What waits to be told.
    fn backlog(&self) -> Backlog;
    /// How far an event of this node has come; `None` for those of others.
    fn delivery(&self, event: EventRef) -> Pending<Result<Option<DeliveryState>, Stopped>>;
    /// Contacts `addresses` and waits for every one's answer.
    fn join(&self, addresses: Vec<String>) -> Pending<Result<Vec<JoinResult>, Stopped>>;
    /// Removes a member for good, and says how far that has come.
    fn forget(&self, name: NodeName) -> Pending<Result<Forgetting, Stopped>>;
    /// Leaves, and stops the node.
    fn leave(&self) -> Pending<Result<LeaveReport, Stopped>>;
    /// Changes what the node says of itself.
    fn describe(
        &self,
        change: MetadataChange,
        expected: Expected,
    ) -> Pending<Result<Described, DescribeError>>;
}

impl Membership for Node {
    fn snapshot(&self) -> Arc<Snapshot> {
        Node::snapshot(self)
    }

    fn changes(&self) -> watch::Receiver<u64> {
        Node::changes(self)
    }

    fn await_agreement(
        &self,
        length: Duration,
        pause: Duration,
    ) -> Pending<Result<watch::Receiver<bool>, Stopped>> {
        let node = self.clone();
        Box::pin(async move { node.await_agreement(length, pause).await })
    }

    fn events(&self) -> EventLog {
        Node::events(self).clone()
    }

    fn backlog(&self) -> Backlog {
        Node::backlog(self).clone()
    }

    fn delivery(&self, event: EventRef) -> Pending<Result<Option<DeliveryState>, Stopped>> {
        let node = self.clone();
        Box::pin(async move { node.delivery(event).await })
    }

    fn join(&self, addresses: Vec<String>) -> Pending<Result<Vec<JoinResult>, Stopped>> {
        let node = self.clone();
        Box::pin(async move { node.join(addresses).await })
    }

    fn forget(&self, name: NodeName) -> Pending<Result<Forgetting, Stopped>> {
        let node = self.clone();
        Box::pin(async move { node.forget(name).await })
    }

    fn leave(&self) -> Pending<Result<LeaveReport, Stopped>> {
        let node = self.clone();
        Box::pin(async move { node.leave().await })
    }

    fn describe(
        &self,
        change: MetadataChange,
        expected: Expected,
    ) -> Pending<Result<Described, DescribeError>> {
        let node = self.clone();
        Box::pin(async move { node.describe(change, expected).await })
    }
}

/// What the API serves.
#[derive(Clone)]
pub struct State {
    /// The node.
    pub node: Arc<dyn Membership>,
    /// Where events and idempotency keys are kept.
    pub store: Arc<SqliteStore>,
    /// What `/metrics` shows.
    pub metrics: Arc<Metrics>,
    /// Whether anything may be changed.
    pub writes: Writes,
}

/// What every handler sees.
#[derive(Clone)]
struct App {
    node: Arc<dyn Membership>,
    store: Arc<SqliteStore>,
    metrics: Arc<Metrics>,
    writes: Writes,
    hosts: Hosts,
    /// Places for blocked reads.
    blocked: Arc<Semaphore>,
    /// Places for event streams.
    streams: Arc<Semaphore>,
    /// Held by requests under a key for as long as they are worked on.
    working: Arc<RwLock<()>>,
    /// Closed when the server stops.
    stop: watch::Receiver<()>,
}

impl App {
    /// Waits until the server stops.
    async fn stopping(&self) {
        let mut stop = self.stop.clone();
        while stop.changed().await.is_ok() {}
    }
}

/// Serves the API on `listener` until `shutdown` is over; then ends blocked reads and gives other
/// answers under way two seconds.
pub async fn serve(
    listener: TcpListener,
    state: State,
    shutdown: impl Future<Output = ()> + Send + 'static,
) {
    serve_on(Bounded::new(listener, CONNECTIONS_MAX), state, shutdown).await;
}

async fn serve_on(
    listener: Bounded,
    state: State,
    shutdown: impl Future<Output = ()> + Send + 'static,
) {
    let (stopper, stop) = watch::channel(());
    let app = App {
        node: state.node,
        store: state.store,
        metrics: state.metrics,
        writes: state.writes,
        hosts: axum::serve::Listener::local_addr(&listener).map_or(Hosts::Loopback, Hosts::of),
        blocked: Arc::new(Semaphore::new(listener.blocked_reads_max())),
        streams: Arc::new(Semaphore::new(STREAMS_MAX)),
        working: Arc::default(),
        stop,
    };
    let working = Arc::clone(&app.working);
    let overtime = overtime(app.clone());
    let service = router(app).into_make_service_with_connect_info::<Activity>();
    let server = axum::serve(listener, service).with_graceful_shutdown(async move {
        shutdown.await;
        drop(stopper);
    });
    tokio::select! {
        _ = server.into_future() => {}
        () = overtime => tracing::warn!("gave up on HTTP answers that clients did not take"),
    }
    // What was done is remembered, though its client has hung up.
    if tokio::time::timeout(DRAIN_TIMEOUT, working.write())
        .await
        .is_err()
    {
        tracing::warn!("gave up on requests under a key that take too long");
    }
}

/// Is over some time after the server was told to stop.
async fn overtime(app: App) {
    app.stopping().await;
    tokio::time::sleep(DRAIN_TIMEOUT).await;
}

/// Every route: method, path, handler. The API's description lists exactly these.
fn routes(app: &App) -> Vec<(&'static str, &'static str, MethodRouter<App>)> {
    let changing = Changing(app);
    vec![
        ("get", "/v1/members", get(members::list)),
        ("get", "/v1/members/{name}", get(members::one)),
        ("get", "/v1/members/{name}/explain", get(explain::show)),
        (
            "delete",
            "/v1/members/{name}",
            changing.small(delete(forget::forget)),
        ),
        ("get", "/v1/events", get(events::list)),
        ("post", "/v1/events", changing.event(post(publish::publish))),
        ("get", "/v1/events/{id}", get(events::one)),
        ("get", "/v1/self", get(this_node::show)),
        ("get", TAGS, get(metadata::tags)),
        ("put", TAGS, changing.large(put(metadata::put_tags))),
        ("get", SERVICE, get(metadata::service)),
        ("put", SERVICE, changing.large(put(metadata::put_service))),
        (
            "delete",
            SERVICE,
            changing.small(delete(metadata::remove_service)),
        ),
        (
            "post",
            "/v1/maintenance",
            changing.small(post(maintenance::begin)),
        ),
        (
            "delete",
            "/v1/maintenance",
            changing.small(delete(maintenance::end)),
        ),
        ("get", "/v1/outbox", get(outbox::list)),
        (
            "post",
            "/v1/outbox/{id}/redrive",
            changing.small(post(outbox::redrive)),
        ),
        ("get", "/v1/agreement", get(agreement::show)),
        ("get", "/v1/reachability", get(reachability::show)),
        ("post", "/v1/join", changing.small(post(control::join))),
        ("post", "/v1/leave", changing.small(post(control::leave))),
        ("get", "/livez", get(health::live)),
        ("get", "/readyz", get(health::ready)),
        ("get", "/metrics", get(metrics)),
        ("get", "/openapi.json", get(openapi)),
    ]
}

/// Makes the routes that change something: who may use them, how large their bodies may be, and
/// that one with an idempotency key is worked on once.
struct Changing<'a>(&'a App);

impl Changing<'_> {
    fn small(&self, route: MethodRouter<App>) -> MethodRouter<App> {
        self.layered(route, Once::Leased, BODY_BYTES_MAX)
    }

    fn large(&self, route: MethodRouter<App>) -> MethodRouter<App> {
        self.layered(route, Once::Leased, METADATA_BODY_BYTES_MAX)
    }

    fn event(&self, route: MethodRouter<App>) -> MethodRouter<App> {
        self.layered(route, Once::Transacted, EVENT_BODY_BYTES_MAX)
    }

    fn layered(&self, route: MethodRouter<App>, how: Once, body_max: usize) -> MethodRouter<App> {
        let app = self.0.clone();
        let rule = Rule {
            app: app.clone(),
            once: how,
            body_max,
        };
        route
            .layer(DefaultBodyLimit::max(body_max))
            .route_layer(from_fn_with_state(rule, once))
            .route_layer(from_fn_with_state(app, admit_write))
    }
}

fn router(app: App) -> Router {
    routes(&app)
        .into_iter()
        .fold(Router::new(), |router, (_, path, handler)| {
            router.route(path, handler)
        })
        .method_not_allowed_fallback(wrong_method)
        .fallback(unknown_route)
        .layer(DefaultBodyLimit::max(BODY_BYTES_MAX))
        .layer(from_fn_with_state(app.clone(), admit))
        .with_state(app)
}

async fn unknown_route(uri: Uri) -> Problem {
    let detail = format!("no route {:?}; /openapi.json lists them", uri.path());
    Problem::new(StatusCode::NOT_FOUND, detail)
}

async fn wrong_method(uri: Uri) -> Problem {
    let detail = format!(
        "{:?} does not take this method; Allow names those it does",
        uri.path()
    );
    Problem::new(StatusCode::METHOD_NOT_ALLOWED, detail)
}

async fn metrics(axum::extract::State(app): axum::extract::State<App>) -> Response {
    let kind = HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");
    let body = app.metrics.render(&app.node.snapshot());
    ([(header::CONTENT_TYPE, kind)], body).into_response()
}

async fn openapi() -> Response {
    let kind = HeaderValue::from_static("application/json");
    ([(header::CONTENT_TYPE, kind)], OPENAPI).into_response()
}
