//! What a node keeps beyond its process, and where.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::SystemTime;

use arc_swap::ArcSwap;
use thiserror::Error;
use tokio::sync::{mpsc, oneshot};

use super::backlog::Place;
use super::event_log::{EventLog, LogEntry};
use super::snapshot::Snapshot;
use crate::member::{
    self, Delivery, EventKey, EventName, EventRef, Generation, NodeId, NodeName, Uid, UserEvent,
};
use crate::protocol::EventMark;

/// Keeps what must survive the process, and orders what happens: an event that a client sent is in
/// the log, and told to others, only when it is durable.
///
/// No call but `persist_generation` may wait for a medium: they come from the protocol's task.
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

    /// Takes an event of this node: numbers it, makes it durable, appends it to the log, hands it
    /// back as [`Durable::Own`], and then answers. Nothing of it is seen where that fails.
    fn accept(&self, offer: Offer);

    /// Takes what came of others, in this order: makes it durable, appends it to the log unless an
    /// event of the same uid is there, and hands it back as [`Durable::Received`].
    fn receive(&self, arrivals: Vec<Arrival>);

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

/// An event as a client gives it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Draft {
    /// What is to be promised.
    pub delivery: Delivery,
    /// The client's idempotency key: events of the same key are one event, whichever nodes took
    /// them.
    pub key: Option<EventKey>,
    /// What it is called.
    pub name: EventName,
    /// What it says.
    pub payload: Vec<u8>,
}

impl Draft {
    /// The event that it becomes.
    #[must_use]
    pub fn into_event(
        self,
        origin: NodeName,
        generation: Generation,
        sequence: u64,
        unix_ms: u64,
    ) -> UserEvent {
        UserEvent {
            origin,
            generation,
            delivery: self.delivery,
            sequence,
            key: self.key,
            unix_ms,
            name: self.name,
            payload: self.payload,
        }
    }
}

/// An event that is to be accepted.
#[derive(Debug)]
pub struct Offer {
    /// The event.
    pub draft: Draft,
    /// Its place among those that are not told yet.
    pub place: Place,
    /// Where the answer goes.
    pub reply: oneshot::Sender<Result<Accepted, AcceptError>>,
}

/// What became of an event of a client.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Accepted {
    /// Its number in this node's log.
    pub id: u64,
    /// What it is logged once for.
    pub uid: Uid,
    /// The member that took it: another one, if it came here under the same key before.
    pub origin: NodeName,
    /// In which life.
    pub generation: Generation,
    /// As which number.
    pub sequence: u64,
}

impl Accepted {
    /// `event`, which has the number `id` in the log.
    #[must_use]
    pub fn new(id: u64, event: &UserEvent) -> Self {
        Accepted {
            id,
            uid: event.uid(),
            origin: event.origin.clone(),
            generation: event.generation,
            sequence: event.sequence,
        }
    }
}

/// Why an event was not accepted. Nothing of it was kept.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum AcceptError {
    /// The client's fault.
    #[error("this key was used for another event; take a new key for a new event")]
    KeyReused,
    /// More is asked of the store than it can take.
    #[error("too many events are being stored; send this one again in a second")]
    Busy,
    /// The medium's fault.
    #[error("the event cannot be stored ({0}); see the log of the agent, and send it again then")]
    Failed(String),
}

/// What came of the events of another member.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Arrival {
    /// One of them.
    Event(Arc<UserEvent>),
    /// That number and those before it need not come any more.
    Missed(EventRef),
}

/// What has become durable.
#[derive(Debug)]
pub enum Durable {
    /// Events of this node, in the order of their numbers, with their places: they may be told.
    Own(Vec<(Arc<UserEvent>, Place)>),
    /// Events of others: they may be acknowledged.
    Received(Vec<EventRef>),
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
    /// Events of clients that are still kept, in the order of their numbers.
    pub user_events: Vec<Arc<UserEvent>>,
    /// How far every origin is known.
    pub marks: Vec<EventMark>,
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
    /// This node's name.
    pub local: NodeName,
    /// This node's life, until another one is persisted.
    pub generation: Generation,
    /// Where to say what has become durable. No more waits in it than places were given out, and
    /// events received.
    pub durable: mpsc::UnboundedSender<Durable>,
}

impl Kept {
    /// Says what has become durable.
    pub fn tell(&self, durable: Durable) {
        // An error means that the node has stopped.
        let _ = self.durable.send(durable);
    }
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
    /// Events of others that are not written yet.
    pub unsaved_arrivals: u64,
    /// Idempotency keys that are remembered.
    pub keys: u64,
}
