//! What comes out of the core: transmits and events, in a buffer that the caller owns.

mod evidence;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use crate::member::{
    EventRef, Generation, Incarnation, MetadataError, NodeName, Status, UserEvent,
};

use super::stats::labels;

pub use evidence::{
    Accusation, CasePhase, CaseReport, Evidence, Explanation, HeartbeatReport, OwnReport,
    PhiSample, ProbeReport, ProbeWay, Refutation, RefutationReport, Thresholds, VerdictReport,
    WitnessReport,
};

/// A stream that this node opened, numbered by the core.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
pub struct ExchangeId(pub u64);

/// A stream that a peer opened, numbered by the driver.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
pub struct StreamId(pub u64);

/// Bytes to be sent.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Transmit {
    /// Send one datagram.
    Datagram {
        /// Where to.
        to: SocketAddr,
        /// The whole payload, at most `datagram_bytes_max` long.
        payload: Vec<u8>,
    },
    /// Open a stream, send the frames, and hand every frame that comes back to the core as
    /// `Input::Reply`; report the end as `Input::ExchangeEnded`.
    Open {
        /// Names the stream in the inputs that follow.
        exchange: ExchangeId,
        /// Where to.
        to: SocketAddr,
        /// The request, in order.
        frames: Vec<Vec<u8>>,
        /// How long the whole exchange may take.
        timeout: Duration,
    },
    /// Answer a request that came as `Input::Request`, then close the stream.
    Answer {
        /// The stream the request came by.
        stream: StreamId,
        /// The answer, in order; no frame where the request deserves none.
        frames: Vec<Vec<u8>>,
    },
}

labels! {
    /// What happened to a member.
    EventKind {
        /// A member is alive that was not: new, or back from dead or left.
        MemberUp = "member-up",
        /// A member is suspected.
        MemberSuspect = "member-suspect",
        /// A member is dead.
        MemberDead = "member-dead",
        /// A member announced that it leaves.
        MemberLeft = "member-left",
        /// A member was removed for good; reported by the removed one too, should it run.
        MemberForgotten = "member-forgotten",
        /// A member began a new life before its old one was seen to end.
        MemberRestarted = "member-restarted",
        /// A member's address, tags or services changed, or a suspicion was refuted.
        MemberUpdated = "member-updated",
        /// Two processes claim one name.
        Conflict = "conflict",
        /// This node lost or regained contact with everybody.
        Isolated = "isolated",
    }
}

/// A change in the local membership table.
#[derive(Clone, PartialEq, Debug)]
pub struct MemberEvent {
    /// What happened.
    pub kind: EventKind,
    /// To whom.
    pub member: NodeName,
    /// Its address, when known.
    pub address: Option<SocketAddr>,
    /// For a conflict the address of the other process, when known.
    pub rival: Option<SocketAddr>,
    /// Its present generation.
    pub generation: Generation,
    /// Its present incarnation.
    pub incarnation: Incarnation,
    /// Its status before; `None` for a member not known before.
    pub from: Option<Status>,
    /// Its status now.
    pub to: Status,
    /// Why, for suspect and dead.
    pub evidence: Option<Evidence>,
}

/// How a join address answered.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum JoinOutcome {
    /// It admitted this node and told its table.
    Joined {
        /// Records in the table it sent.
        members: usize,
    },
    /// The address is this node's own.
    Itself,
    /// It refused, and why.
    Refused(RefusalReason),
    /// No answer.
    Unreachable,
}

labels! {
    /// Why a join was refused.
    RefusalReason {
        /// The asked node belongs to another cluster.
        Cluster = "cluster",
        /// A running instance holds the name.
        NameConflict = "name-conflict",
        /// The generation is more than a day ahead of the asked node's clock.
        FutureGeneration = "future-generation",
        /// The record breaks a rule, or no wire version is common.
        Record = "record",
        /// The member was removed from the cluster, and needs a new generation to come back.
        Forgotten = "forgotten",
        /// The asked node is leaving or has too much to do.
        Unavailable = "unavailable",
    }
}

/// What a change of the own metadata did.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MetadataOutcome {
    /// Nothing: it was so already.
    Unchanged,
    /// It added something that was not there.
    Added,
    /// It replaced or removed something.
    Changed,
    /// Nothing: what it was to remove is not there.
    Absent,
}

/// Something the caller may want to know. Nothing depends on its being read.
#[derive(Clone, PartialEq, Debug)]
pub enum Event {
    /// The membership table changed.
    Member(MemberEvent),
    /// A join address answered, or did not.
    Join {
        /// The address.
        address: SocketAddr,
        /// How it ended.
        outcome: JoinOutcome,
    },
    /// A suspicion, or a death, was lifted in the same life: it was wrong.
    Mistake {
        /// About whom.
        member: NodeName,
        /// Suspect or dead.
        status: Status,
        /// How long this node showed it.
        lasted: Duration,
    },
    /// A probe was answered after this time.
    ProbeAnswered(Duration),
    /// A deadline was handled this much after it was due.
    Late(Duration),
    /// The own wall clock has become wrong, judged by those of the other members, or is right
    /// again. Nothing but what is shown depends on it.
    ClockSkew {
        /// How far it is ahead; negative when it is behind.
        seconds: i32,
        /// Whether that is too far.
        wrong: bool,
    },
    /// The own generation was raised past an earlier life that others remember. It must be
    /// persisted before anything from this outbox is sent.
    GenerationRaised(Generation),
    /// How a change of the own metadata ended. Where it is an error, nothing was changed.
    MetadataSet(Result<MetadataOutcome, MetadataError>),
    /// This node did not run for so long that its table was worth nothing: it dropped it, and joins
    /// again.
    StartedOver {
        /// For how long it did not run.
        slept: Duration,
    },
    /// An event of another member has come, in the order of its origin's numbers. It is
    /// acknowledged once it is handed back as [`Input::Stored`](super::Input::Stored).
    User(Arc<UserEvent>),
    /// Events of another member are kept nowhere any more: they will not come.
    UserMissed {
        /// The first of them.
        first: EventRef,
        /// The number of the last.
        last: u64,
    },
    /// Leaving has ended: so many of the members asked have acknowledged.
    LeaveCompleted {
        /// Members that know.
        acknowledged: usize,
        /// Members that were alive.
        expected: usize,
    },
}

/// Outputs of one or more calls of `Node::handle`. The caller empties it and passes it again.
#[derive(Debug, Default)]
pub struct Outbox {
    /// To be sent, in order.
    pub transmits: Vec<Transmit>,
    /// To be told, in order.
    pub events: Vec<Event>,
}

impl Outbox {
    /// An empty outbox.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Empties it, keeping its memory.
    pub fn clear(&mut self) {
        self.transmits.clear();
        self.events.clear();
    }
}
