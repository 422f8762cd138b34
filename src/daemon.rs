//! The agent: one node with its HTTP API, log and metrics, from start to orderly end.

mod digest;
mod event;
mod evidence;
pub mod http;
pub mod outbox;
pub mod ready;
pub mod settings;
mod signals;
pub mod store;
pub mod telemetry;

use std::io::{self, Write};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use thiserror::Error;
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

pub use self::signals::StdinRole;

use self::http::{State, Writes};
use self::outbox::Calls;
use self::ready::Ready;
use self::settings::{HttpWrites, Settings};
use self::signals::{Request, Requests};
use self::store::{SqliteStore, StoreError};
use self::telemetry::{LoggingError, Telemetry};
use crate::member::{Generation, NodeId};
use crate::node::{self, Node, Options, Readiness, StartError, Store};

/// How much longer than its own bound a leave is waited for.
const LEAVE_MARGIN: Duration = Duration::from_secs(1);

/// Why an agent ended otherwise than by leaving.
#[derive(Debug, Error)]
pub enum RunError {
    /// Logging cannot start.
    #[error(transparent)]
    Logging(#[from] LoggingError),
    /// The data directory cannot be used.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The HTTP address is taken or not of this host.
    #[error(
        "cannot serve HTTP on {address} ({source}); free the port or choose another with --http"
    )]
    HttpBind {
        /// The address asked for.
        address: SocketAddr,
        /// What the system said.
        source: io::Error,
    },
    /// Anybody who reaches the address could change the node.
    #[error("--http-writes on needs a loopback --http, not {0}; use auto, or bind 127.0.0.1")]
    OpenWrites(SocketAddr),
    /// The node did not start.
    #[error(transparent)]
    Start(#[from] StartError),
    /// The system refused a thread or a signal handler.
    #[error("cannot start ({0}); check the process's limits")]
    System(io::Error),
    /// The node stopped without having been asked to.
    #[error("the node stopped unexpectedly; see the log, and start it again")]
    NodeStopped,
    /// A second signal cut the orderly end short.
    #[error("ended at once by {cause}; members will take this node for dead")]
    Cut {
        /// The signal.
        cause: &'static str,
        /// 128 plus its number.
        code: u8,
    },
}

impl RunError {
    /// The process's exit code: 78 for a bad configuration, 1 for other failures, 128 plus the
    /// signal's number when a second signal ended the agent.
    #[must_use]
    pub fn exit_code(&self) -> u8 {
        match self {
            RunError::Logging(LoggingError::Level(_)) | RunError::OpenWrites(_) => 78,
            RunError::Store(error) => error.exit_code(),
            RunError::Start(StartError::Bind { .. }) => 1,
            RunError::Start(_) => 78,
            RunError::Cut { code, .. } => *code,
            RunError::Logging(_)
            | RunError::HttpBind { .. }
            | RunError::System(_)
            | RunError::NodeStopped => 1,
        }
    }
}

/// Runs an agent until it has left: asked by a signal, over HTTP or by the end of its stdin.
///
/// # Errors
/// Why it did not start, or did not end in order.
pub async fn run(settings: Settings, stdin: StdinRole) -> Result<(), RunError> {
    let mut requests = Requests::listen(stdin).map_err(RunError::System)?;
    let _log = telemetry::init_logging(settings.log_format, &settings.log_level)?;
    check_writes(&settings)?;
    let store = open_store(&settings)?;
    let options = options(&settings, &store);
    let listener = bind_http(settings.http).await?;
    let telemetry = Arc::new(Telemetry::start().map_err(RunError::System)?);
    let metrics = telemetry.metrics();
    store.count_in(&metrics);
    store.tell(settings.targets.clone());
    let node = node::start(Options {
        observer: telemetry,
        ..options
    })
    .await?;
    tokio::spawn(telemetry::upkeep(metrics.clone()));
    let calls: Arc<dyn Calls> = store.clone();
    let _callers = outbox::start(&settings.targets, &calls);
    let state = |address| State {
        node: Arc::new(node.clone()),
        store: Arc::clone(&store),
        metrics,
        writes: Writes::decide(settings.http_writes, address),
    };
    let server =
        listener.map(|(listener, address)| Server::start(listener, address, state(address)));
    announce(&node, server.as_ref().map(|server| server.address));
    let outcome = serve_until_asked(&node, &mut requests, settings.leave_timeout).await;
    if let Some(server) = server {
        server.stop().await;
    }
    store.close();
    outcome
}

/// A running HTTP server.
struct Server {
    address: SocketAddr,
    stop: oneshot::Sender<()>,
    task: JoinHandle<()>,
}

impl Server {
    fn start(listener: TcpListener, address: SocketAddr, state: State) -> Self {
        let (stop, stopped) = oneshot::channel();
        let shutdown = async {
            let _ = stopped.await;
        };
        Server {
            address,
            stop,
            task: tokio::spawn(http::serve(listener, state, shutdown)),
        }
    }

    /// Ends blocked reads, and waits briefly for the answers under way.
    async fn stop(self) {
        let _ = self.stop.send(());
        if let Err(error) = self.task.await {
            tracing::error!(%error, "the HTTP server failed");
        }
    }
}

fn check_writes(settings: &Settings) -> Result<(), RunError> {
    match settings.http {
        Some(address)
            if settings.http_writes == HttpWrites::On
                && Writes::decide(HttpWrites::Auto, address) == Writes::Off =>
        {
            Err(RunError::OpenWrites(address))
        }
        _ => Ok(()),
    }
}

async fn bind_http(
    address: Option<SocketAddr>,
) -> Result<Option<(TcpListener, SocketAddr)>, RunError> {
    let Some(address) = address else {
        return Ok(None);
    };
    let refuse = |source| RunError::HttpBind { address, source };
    let listener = TcpListener::bind(address).await.map_err(refuse)?;
    let bound = listener.local_addr().map_err(refuse)?;
    Ok(Some((listener, bound)))
}

/// Everything of the node but its observer.
fn options(settings: &Settings, store: &Arc<SqliteStore>) -> Options {
    Options {
        cluster: settings.cluster.clone(),
        bind: settings.bind,
        advertise: settings.advertise,
        join: settings.join.clone(),
        tags: settings.tags.clone(),
        services: settings.services.clone(),
        config: settings.protocol.clone(),
        leave_timeout: settings.leave_timeout,
        store: Arc::clone(store) as Arc<dyn Store>,
        ..Options::new(settings.name.clone(), store.generation(), store.node_id())
    }
}

/// The store in the data directory. Without one it is in memory, the generation comes from the
/// clock, and the node id is random.
fn open_store(settings: &Settings) -> Result<Arc<SqliteStore>, RunError> {
    let (cluster, now) = (&settings.cluster, unix_seconds());
    let random = random()?;
    let store = match &settings.data_dir {
        Some(dir) => SqliteStore::open(dir, cluster, now, || random)?,
        None => SqliteStore::in_memory(cluster, Generation(now), NodeId(random))?,
    };
    Ok(Arc::new(store))
}

fn unix_seconds() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.unwrap_or_default().as_secs()
}

fn random() -> Result<u64, RunError> {
    getrandom::u64().map_err(no_random)
}

fn no_random(error: getrandom::Error) -> RunError {
    RunError::System(io::Error::other(error.to_string()))
}

/// Prints the ready line. A stdout that nobody reads is no reason to stop.
fn announce(node: &Node, http: Option<SocketAddr>) {
    let snapshot = node.snapshot();
    let ready = Ready {
        name: snapshot.local.clone(),
        gossip: snapshot.node.bound,
        http,
    };
    let mut stdout = io::stdout().lock();
    if let Err(error) = writeln!(stdout, "{ready}").and_then(|()| stdout.flush()) {
        tracing::warn!(%error, "cannot print the ready line");
    }
    tracing::info!(
        version = env!("CARGO_PKG_VERSION"), name = %ready.name, cluster = %snapshot.cluster,
        gossip = %ready.gossip, http = ready.http.map(tracing::field::display), "serving"
    );
}

/// Waits until the node has been left, in order or not.
async fn serve_until_asked(
    node: &Node,
    requests: &mut Requests,
    leave_timeout: Duration,
) -> Result<(), RunError> {
    let request = tokio::select! {
        () = node.stopped() => return has_left(node),
        request = requests.next() => request,
    };
    tracing::info!(cause = request.as_str(), "leaving");
    tokio::select! {
        () = leave(node, leave_timeout + LEAVE_MARGIN) => Ok(()),
        second = second_signal(requests) => {
            Err(RunError::Cut { cause: second.as_str(), code: second.exit_code() })
        }
    }
}

/// Waits for a signal; the end of stdin beside a signal asks for nothing more.
async fn second_signal(requests: &mut Requests) -> Request {
    loop {
        match requests.next().await {
            Request::StdinEnded => {}
            signal => return signal,
        }
    }
}

fn has_left(node: &Node) -> Result<(), RunError> {
    match node.snapshot().node.readiness {
        Readiness::Leaving => Ok(()),
        _ => Err(RunError::NodeStopped),
    }
}

async fn leave(node: &Node, limit: Duration) {
    match tokio::time::timeout(limit, node.leave()).await {
        Ok(Ok(report)) if report.acknowledged < report.expected => tracing::warn!(
            acknowledged = report.acknowledged,
            expected = report.expected,
            "left before all members knew"
        ),
        Ok(_) => {}
        Err(_) => tracing::warn!("leaving took too long; members will take this node for dead"),
    }
}
