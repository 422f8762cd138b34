//! What goes into the core: who it is, and what happens to it.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use thiserror::Error;

use super::config::ConfigError;
use super::outbox::{ExchangeId, StreamId};
use crate::member::{
    EventRef, Generation, Lease, Metadata, MetadataError, NodeId, NodeName, Record, Remembered,
    Service, Standing, Tags, UserEvent, Version, WireRange,
};
use crate::wire::{self, Age, RecordUpdate};

/// Who a node is and what it says of itself.
#[derive(Clone, Debug)]
pub struct Identity {
    /// The member's name.
    pub name: NodeName,
    /// The cluster's name.
    pub cluster: String,
    /// Restart number of this run.
    pub generation: Generation,
    /// Tells a restart from a stranger.
    pub node_id: NodeId,
    /// Where others reach it.
    pub address: SocketAddr,
    /// Labels.
    pub tags: Tags,
    /// Services.
    pub services: Vec<Service>,
}

impl Identity {
    /// The record with which the node starts, if it keeps the rules.
    pub(super) fn record(&self) -> Result<RecordUpdate, NodeError> {
        let metadata = Metadata {
            generation: self.generation,
            node_id: self.node_id,
            version: 0,
            address: self.address,
            tags: self.tags.clone(),
            services: self.services.clone(),
            wire: WireRange {
                min: wire::VERSION,
                max: wire::VERSION,
            },
            maintenance: None,
        };
        metadata.check()?;
        let record = Record {
            name: self.name.clone(),
            standing: Standing::alive(self.generation, self.node_id),
            metadata: Some(metadata.into()),
        };
        Ok(RecordUpdate {
            record: record.into(),
            version: Version(1),
            age: Age(0),
            lease_left: Duration::ZERO,
        })
    }
}

/// How a node comes to belong to a cluster.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Bootstrap {
    /// It is the first, or waits to be found: ready at once.
    Alone,
    /// It has join addresses: ready once one of them has told it the table.
    Join,
}

/// Something that happens to a node.
#[derive(Clone, Copy, Debug)]
pub enum Input<'a> {
    /// A datagram has come.
    Datagram {
        /// From where.
        from: SocketAddr,
        /// Its payload.
        payload: &'a [u8],
    },
    /// A frame has come on a stream that a peer opened.
    Request {
        /// The stream, for the answer.
        stream: StreamId,
        /// From where.
        from: SocketAddr,
        /// The frame, without its length.
        frame: &'a [u8],
    },
    /// A frame has come on a stream that this node opened.
    Reply {
        /// The stream.
        exchange: ExchangeId,
        /// The frame, without its length.
        frame: &'a [u8],
    },
    /// A stream that a peer opened is closed: its answer has arrived, or never will.
    StreamClosed {
        /// The stream.
        stream: StreamId,
    },
    /// A stream that this node opened has ended, well or not.
    ExchangeEnded {
        /// The stream.
        exchange: ExchangeId,
    },
    /// The clock has reached the deadline. The only input that fires timers.
    Deadline,
    /// Join through these addresses.
    Join {
        /// The addresses.
        addresses: &'a [SocketAddr],
    },
    /// Members that an earlier run knew: they are looked for, and shown as dead until they are
    /// heard of. Given before anything else.
    Remember {
        /// The members; beyond as many as a table holds the rest is ignored.
        members: &'a [Remembered],
    },
    /// Tell everybody that this node leaves.
    Leave {
        /// How long to wait for acknowledgements.
        timeout: Duration,
    },
    /// Change what this node says of itself; [`Event::MetadataSet`](super::Event::MetadataSet)
    /// tells how that ended.
    Describe {
        /// The change.
        change: &'a MetadataChange,
    },
    /// Somebody waits here until all members are known to agree: they are asked to tell what they
    /// know more often.
    AwaitAgreement {
        /// How long it is waited for.
        length: Duration,
        /// The pause between two messages of a node; 200 ms are enough, 50 ms to 1 s are used.
        pause: Duration,
    },
    /// Remove a member for good. How far that has come, [`Node::forgetting`] says.
    ///
    /// [`Node::forgetting`]: super::Node::forgetting
    Forget {
        /// Which.
        name: &'a NodeName,
    },
    /// This node, which was forgotten, is to come back with a new generation. Ignored by one that
    /// was not.
    Return,
    /// Events that clients sent through this node, durable and in the order of their numbers: tell
    /// them.
    Publish {
        /// The events.
        events: &'a [Arc<UserEvent>],
    },
    /// Events that came out as [`Event::User`](super::Event::User) are durable here: acknowledge
    /// them.
    Stored {
        /// Which.
        events: &'a [EventRef],
    },
    /// What an earlier run knew of events. Given before anything else.
    RestoreEvents {
        /// Those that are still kept, in the order of their numbers.
        events: &'a [Arc<UserEvent>],
        /// How far every origin was known.
        marks: &'a [EventMark],
    },
    /// What the wall clock shows; at the start and after each step of it.
    WallClock {
        /// Since the unix epoch.
        since_epoch: Duration,
    },
}

/// Up to which number the events of one life of a member are durable here, or need not come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct EventMark {
    /// The last of them: that number in its sequence, and all before it.
    pub upto: EventRef,
}

/// A change of what a node says of itself. It lasts until the next one, or the node's end.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum MetadataChange {
    /// These tags replace all that there were.
    Tags(Tags),
    /// Offer this service; it replaces one of the same name.
    PutService(Service),
    /// Do not offer the service of this name any more.
    RemoveService(NodeName),
    /// Begin a maintenance, or replace the running one.
    BeginMaintenance(Lease),
    /// End the maintenance before its time.
    EndMaintenance,
}

/// Why a node cannot be made. The caller's fault.
#[derive(Debug, Clone, PartialEq, Error)]
pub enum NodeError {
    /// The parameters contradict each other.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The own address, tags or services break a rule.
    #[error(transparent)]
    Metadata(#[from] MetadataError),
}
