//! What a node is started with.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use thiserror::Error;

use super::memory_store::MemoryStore;
use super::store::Store;
use crate::member::{Generation, MetadataError, NodeId, NodeName, Service, Tags};
use crate::protocol::{Config, ConfigError, Event};

/// Port used where an address is given without one.
pub const DEFAULT_GOSSIP_PORT: u16 = 7480;

/// Everything a node needs to start. Start from [`Options::new`] and change what differs.
pub struct Options {
    /// The member's name.
    pub name: NodeName,
    /// The cluster's name; nodes of another cluster are refused.
    pub cluster: String,
    /// Where to listen, UDP and TCP on the same port; port 0 takes any free one.
    pub bind: SocketAddr,
    /// What others are told; detected where absent.
    pub advertise: Option<SocketAddr>,
    /// Addresses or DNS names to join through, `host[:port]`, or the names of services (SRV), which
    /// begin with `_`; retried for ever, re-resolved.
    pub join: Vec<String>,
    /// Labels of this member.
    pub tags: Tags,
    /// Services of this member.
    pub services: Vec<Service>,
    /// Restart number of this run; larger than that of every earlier run.
    pub generation: Generation,
    /// Tells a restart from a stranger.
    pub node_id: NodeId,
    /// Protocol parameters.
    pub config: Config,
    /// How long leaving may take.
    pub leave_timeout: Duration,
    /// Where the generation, the members and the log are kept beyond the process.
    pub store: Arc<dyn Store>,
    /// Is shown every event of the core, on the protocol's task: it must be quick.
    pub observer: Arc<dyn Observer>,
}

impl Options {
    /// Options of a node that persists nothing, on any free loopback port.
    #[must_use]
    pub fn new(name: NodeName, generation: Generation, node_id: NodeId) -> Self {
        Options {
            name,
            cluster: "default".into(),
            bind: SocketAddr::from(([127, 0, 0, 1], 0)),
            advertise: None,
            join: Vec::new(),
            tags: Tags::new(),
            services: Vec::new(),
            generation,
            node_id,
            config: Config::lan(),
            leave_timeout: Duration::from_secs(5),
            store: Arc::new(MemoryStore::default()),
            observer: Arc::new(()),
        }
    }
}

/// Sees every event of the core as it happens.
pub trait Observer: Send + Sync {
    /// Called on the protocol's task.
    fn event(&self, event: &Event);
}

impl Observer for () {
    fn event(&self, _event: &Event) {}
}

/// Why a node did not start. Nothing is left behind.
#[derive(Debug, Error)]
pub enum StartError {
    /// The gossip address is taken or not of this host.
    #[error("cannot listen on {address} ({source}); free the port or choose another with --bind")]
    Bind {
        /// The address asked for.
        address: SocketAddr,
        /// What the system said.
        source: io::Error,
    },
    /// No address that others could reach was found.
    #[error("no address of this host can be told to others; name one with --advertise")]
    NoAddress,
    /// The system's interfaces could not be read.
    #[error("cannot list the network interfaces ({0}); name an address with --advertise")]
    Interfaces(io::Error),
    /// The protocol parameters contradict each other.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The own address, tags or services break a rule.
    #[error(transparent)]
    Metadata(#[from] MetadataError),
    /// The system gave no random numbers.
    #[error("the system's random number generator failed ({0})")]
    Random(String),
    /// The suspend-aware clock cannot be read.
    #[error("cannot read the monotonic clock ({0})")]
    Clock(io::Error),
}
