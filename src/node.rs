//! The tokio driver around the protocol core: sockets, clock, streams, and the published snapshot.
//!
//! One task owns the core and its sockets. Readers load an immutable [`Snapshot`] and never wait
//! for it; commands go to it through a channel. Each wake-up handles what has been received before
//! it fires timers, and the clock, not the sleep, decides whether a deadline has come.

mod advertise;
mod backlog;
mod clock;
mod driver;
mod event_log;
mod handle;
mod inbound;
mod joins;
mod marks;
mod memory_store;
mod options;
mod outbound;
mod publish;
mod quality;
mod resolv_conf;
mod resolve;
mod snapshot;
mod sockets;
mod srv;
mod store;

use std::sync::Arc;

use tokio::sync::{mpsc, watch};

use crate::protocol::{self, Bootstrap, Identity, Input, NodeError, Outbox};

pub use backlog::{BACKLOG_BYTES_MAX, BACKLOG_EVENTS_MAX, Backlog, Place};
pub use event_log::{
    EVENT_AGE_MAX, EVENT_BYTES_MAX, EVENTS_MAX, EventLog, IDS_PER_GENERATION, KeyConflict,
    LogEntry, Logged, Lookup, Page, Reservation, Reset,
};
pub use handle::{
    DescribeError, Described, Expected, JoinResult, LeaveReport, MetadataVersion, Node,
    PublishError, ResolveError, Stopped,
};
pub use marks::{MARK_GENERATIONS_MAX, Marks};
pub use memory_store::MemoryStore;
pub use options::{DEFAULT_GOSSIP_PORT, Observer, Options, StartError};
pub use quality::{Mistake, Quality};
pub use snapshot::{Explained, MemberView, NodeView, Readiness, Snapshot, UnreachedView};
pub use store::{
    AcceptError, Accepted, Arrival, Draft, Durable, Kept, Offer, Remembered, Restored, Store,
    StoreCondition,
};

use clock::Clock;
use driver::{Driver, Parts};
use publish::Publisher;
use sockets::Sockets;

/// Commands that may wait for the driver.
const COMMANDS_MAX: usize = 64;

/// Binds the sockets, starts the node on the current tokio runtime and returns once it serves.
///
/// # Errors
/// Says which socket could not be had or which option is unusable.
pub async fn start(options: Options) -> Result<Node, StartError> {
    let sockets = Sockets::bind(options.bind)?;
    let bound = sockets.address;
    let address = match options.advertise {
        Some(address) => address,
        None => advertise::detect(bound)?,
    };
    if bound.ip().is_unspecified() && address.ip().is_loopback() {
        tracing::warn!(
            %address,
            "other hosts cannot reach the advertised address, and no better one was found for \
             this version of IP; choose with --advertise or --bind"
        );
    }
    let clock = Clock::start()?;
    let identity = Identity {
        name: options.name.clone(),
        cluster: options.cluster.clone(),
        generation: options.generation,
        node_id: options.node_id,
        address,
        tags: options.tags.clone(),
        services: options.services.clone(),
    };
    let restored = options.store.load();
    let rng_seed = random_seed()?;
    tracing::debug!(rng_seed, %bound, %address, "the node starts");
    let core = core(identity, &options, &restored, rng_seed, &clock)?;
    let publisher = Publisher::new(&core, &options, bound, &clock);
    let events = EventLog::new(options.generation, restored.events, restored.next_event_id);
    let (durable, made_durable) = mpsc::unbounded_channel();
    options.store.follow(Kept {
        events: events.clone(),
        snapshot: Arc::clone(publisher.slot()),
        local: options.name.clone(),
        generation: options.generation,
        durable,
    });
    let backlog = publisher.backlog().clone();
    let (commands, requests) = mpsc::channel(COMMANDS_MAX);
    let (changed, changes) = watch::channel(publisher.index());
    let node = Node {
        snapshot: Arc::clone(publisher.slot()),
        changes,
        converged: publisher.converged(),
        commands,
        events: events.clone(),
        store: Arc::clone(&options.store),
        backlog: backlog.clone(),
    };
    let parts = Parts {
        core,
        clock,
        sockets,
        publisher,
        changed,
        events,
        durable: made_durable,
        backlog,
        marks: Marks::of(&restored.marks),
    };
    let driver = Driver::new(parts, options);
    tokio::spawn(driver.run(requests));
    Ok(node)
}

/// A core that knows what earlier runs left.
fn core(
    identity: Identity,
    options: &Options,
    restored: &Restored,
    rng_seed: u64,
    clock: &Clock,
) -> Result<protocol::Node, StartError> {
    let bootstrap = if options.join.is_empty() {
        Bootstrap::Alone
    } else {
        Bootstrap::Join
    };
    let now = clock.now();
    let mut core = protocol::Node::new(identity, options.config.clone(), bootstrap, rng_seed, now)
        .map_err(|error| match error {
            NodeError::Config(error) => StartError::Config(error),
            NodeError::Metadata(error) => StartError::Metadata(error),
        })?;
    // Nothing comes out of it before the first deadline.
    let mut outbox = Outbox::new();
    // A node without a past begins with what its cluster says now.
    if *restored != Restored::default() {
        let known = Input::RestoreEvents {
            events: &restored.user_events,
            marks: &restored.marks,
        };
        core.handle(now, known, &mut outbox);
    }
    let members = store::remembered(&restored.members, clock.wall_now());
    core.handle(now, Input::Remember { members: &members }, &mut outbox);
    Ok(core)
}

fn random_seed() -> Result<u64, StartError> {
    let mut bytes = [0; 8];
    getrandom::fill(&mut bytes).map_err(|error| StartError::Random(error.to_string()))?;
    Ok(u64::from_le_bytes(bytes))
}
