//! The tokio driver around the protocol core: sockets, clock, streams, and the published snapshot.
//!
//! One task owns the core and its sockets. Readers load an immutable [`Snapshot`] and never wait
//! for it; commands go to it through a channel. Each wake-up handles what has been received before
//! it fires timers, and the clock, not the sleep, decides whether a deadline has come.

mod advertise;
mod clock;
mod driver;
mod handle;
mod inbound;
mod joins;
mod options;
mod outbound;
mod publish;
mod resolv_conf;
mod resolve;
mod snapshot;
mod sockets;
mod srv;

use std::sync::Arc;

use tokio::sync::{mpsc, watch};

use crate::protocol::{self, Bootstrap, Identity, NodeError};

pub use handle::{
    DescribeError, Described, Expected, JoinResult, LeaveReport, MetadataVersion, Node,
    ResolveError, Stopped,
};
pub use options::{DEFAULT_GOSSIP_PORT, MemoryStore, Observer, Options, StartError, Store};
pub use snapshot::{MemberView, NodeView, Readiness, Snapshot};

use clock::Clock;
use driver::Driver;
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
    let bootstrap = if options.join.is_empty() {
        Bootstrap::Alone
    } else {
        Bootstrap::Join
    };
    let rng_seed = random_seed()?;
    tracing::debug!(rng_seed, %bound, %address, "the node starts");
    let now = clock.now();
    let core = protocol::Node::new(identity, options.config.clone(), bootstrap, rng_seed, now)
        .map_err(|error| match error {
            NodeError::Config(error) => StartError::Config(error),
            NodeError::Metadata(error) => StartError::Metadata(error),
        })?;
    let publisher = Publisher::new(&core, &options, bound, &clock);
    let (commands, requests) = mpsc::channel(COMMANDS_MAX);
    let (changed, changes) = watch::channel(publisher.index());
    let node = Node {
        snapshot: Arc::clone(publisher.slot()),
        changes,
        commands,
    };
    let driver = Driver::new(core, clock, sockets, publisher, changed, options);
    tokio::spawn(driver.run(requests));
    Ok(node)
}

fn random_seed() -> Result<u64, StartError> {
    let mut bytes = [0; 8];
    getrandom::fill(&mut bytes).map_err(|error| StartError::Random(error.to_string()))?;
    Ok(u64::from_le_bytes(bytes))
}
