//! What a node keeps beyond its process, and where.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::SystemTime;

use arc_swap::ArcSwap;

use super::event_log::{EventLog, LogEntry};
use super::snapshot::Snapshot;
use crate::member::{self, Generation, NodeId, NodeName};

/// Keeps what must survive the process. No call but `persist_generation` may wait for a medium:
/// they come from the protocol's task.
pub trait Store: Send + Sync {
    /// What earlier runs left. Called once, before anything is sent.
    fn load(&self) -> Restored {
        Restored::default()
    }

    /// From now on keep what is in `kept`: the log, and the members of the newest snapshot.
    fn follow(&self, kept: Kept) {
        drop(kept);
    }

    /// The log has grown.
    fn wake(&self) {}

    /// Makes `generation` durable before it returns.
    ///
    /// # Errors
    /// What the medium said. It is logged, and the run goes on with the raised generation: the next
    /// start may have to raise it again.
    fn persist_generation(&self, generation: Generation) -> io::Result<()>;

    /// How it is.
    fn condition(&self) -> StoreCondition {
        StoreCondition::default()
    }
}

/// Keeps nothing beyond the process: for nodes whose generation comes from the clock.
#[derive(Debug, Clone, Copy, Default)]
pub struct MemoryStore;

impl Store for MemoryStore {
    fn persist_generation(&self, _generation: Generation) -> io::Result<()> {
        Ok(())
    }
}

/// What earlier runs left.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Restored {
    /// Members that had not left when they were last seen.
    pub members: Vec<Remembered>,
    /// The log, sorted by id.
    pub events: Vec<LogEntry>,
    /// The next id, if the last run ended in order.
    pub next_event_id: Option<u64>,
}

/// A member that is not in the table, or was in the table of an earlier run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Remembered {
    /// Name.
    pub name: NodeName,
    /// Gossip address.
    pub address: SocketAddr,
    /// Which process held the name.
    pub node_id: NodeId,
    /// Restart number.
    pub generation: Generation,
    /// When it was last known to be alive.
    pub last_seen: SystemTime,
}

/// `members` as the core takes them, when the wall clock shows `now`.
pub(super) fn remembered(members: &[Remembered], now: SystemTime) -> Vec<member::Remembered> {
    let one = |member: &Remembered| member::Remembered {
        name: member.name.clone(),
        address: member.address,
        node_id: member.node_id,
        generation: member.generation,
        silence: now.duration_since(member.last_seen).unwrap_or_default(),
        stored: true,
    };
    members.iter().map(one).collect()
}

/// What a store keeps up with.
#[derive(Clone, Debug)]
pub struct Kept {
    /// The log.
    pub events: EventLog,
    /// The newest picture of the table.
    pub snapshot: Arc<ArcSwap<Snapshot>>,
}

/// How a store is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StoreCondition {
    /// What it reports while it cannot write; nothing is lost that memory still holds.
    pub failure: Option<String>,
    /// Writes that failed since the start.
    pub failures: u64,
    /// Entries of the log that are not written yet.
    pub unsaved_events: u64,
}
