//! The messages. This file is the protocol document: what is sent, when, and what answers it.
//!
//! ```text
//!  probe      A --Ping--------> B      one member per period
//!             A <--Ack--------- B
//!
//!  relayed    A --PingReq-----> H      B did not answer A in time
//!                               H --Ping--> B
//!                               H <--Ack--- B
//!             A <--RelayedAck-- H      B lives
//!             A <--Nack-------- H      "you reach me, I do not reach B either": evidence
//!
//!  mistaken   A --Ping(B)-----> C      another node or another life has B's address
//!             A <--WrongTarget- C      a miss for the probe, and C's record
//!
//!  push       A --News--------> some   changes, in rounds; not answered
//!
//!  stream     A --Ping--------> B      where datagrams fail; also once a minute
//!             A <--Ack--------- B
//!
//!  join       A --Join--------> B      (stream) A's own record
//!             A <--Table.. ---- B      admitted: all records, in frames
//!             A <--Refused----- B      or why not
//!             A <--Superseded-- B      or: an earlier life had that generation, take a larger one
//!             A <--Busy-------- B      or: too many at once, go on with one of these
//!
//!  exchange   A --Digest-------> B     tables differ though both were quiet; see `exchange`
//!             A <--Difference..- B     (or Busy, where it is a stream)
//!             A --Delta..------> B
//!             A <--Difference..- B
//!
//!  large      A --News--------> B      an announcement: metadata too large for a datagram
//!             B --Pull--------> A      (stream) once per member and version
//!             B <--Values------ A
//!
//!  events     A --Events------> some   user events, in rounds; how they are acknowledged,
//!                                      compared and pulled, `event` says
//! ```
//!
//! Ping, PingReq, Ack and News carry [`Gossip`]: the sender's table fingerprint, updates, and who
//! holds that table.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bincode::{Decode, Encode};

use super::codec;
use super::event::{EventAcks, EventHeads, EventPull, EventValues, Events};
use super::exchange::{Delta, Difference, Digest};
use super::extension::Extension;
use super::holders::Holders;
use super::large::{Announcement, Pull, Values};
use super::list::List;
use super::values::{
    Age, Centiseconds, Fingerprint, Flags, GenerationLow, MissRate, NameHashHigh, NodeIdLow,
    PeriodPhase, ProbeSeq, RefusalCode, VersionLow,
};
use super::{Carrier, DecodeError};
use crate::member::{
    Generation, HeartbeatState, Incarnation, NameHash, Record, Standing, Status, Version,
};

/// Who sends: the instance and its newest heartbeat.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Encode, Decode)]
pub struct Sender {
    /// Name hash.
    pub member: NameHash,
    /// Restart number.
    pub generation: Generation,
    /// Heartbeat version: with the generation, the sender's `HeartbeatState`.
    pub version: Version,
}

impl Sender {
    /// The sender's heartbeat.
    #[must_use]
    pub fn heartbeat(&self) -> HeartbeatState {
        HeartbeatState {
            generation: self.generation,
            version: self.version,
        }
    }
}

/// Whom a probe is for. Nobody else may answer it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Encode, Decode)]
pub struct Target {
    /// Name hash.
    pub member: NameHash,
    /// The life that is meant.
    pub generation: Generation,
}

/// What rides on probes and pushes.
#[derive(Clone, PartialEq, Debug, Default, Encode, Decode)]
pub struct Gossip {
    /// The sender's table as a number.
    pub fingerprint: Fingerprint,
    /// Facts about the sender's table.
    pub flags: Flags,
    /// Changes, most urgent first.
    pub updates: List<Update, 128>,
    /// Heartbeats of other members.
    pub heartbeats: List<HeartbeatEntry, 32>,
    /// Who else is known to hold the sender's table.
    pub holders: Holders,
    /// What later versions add; skipped by those that do not know the tag.
    pub extensions: List<Extension, 16>,
}

/// A heartbeat passed on, with the time it has been under way.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HeartbeatEntry {
    /// Whose.
    pub member: NameHashHigh,
    /// Of which life.
    pub generation: GenerationLow,
    /// Its version.
    pub version: VersionLow,
    /// Time since the owner counted it, summed over all holders.
    pub age: Centiseconds,
}

/// "Are you alive?"
#[derive(Clone, PartialEq, Debug, Encode, Decode)]
pub struct Ping {
    /// Who asks.
    pub sender: Sender,
    /// To be echoed.
    pub seq: ProbeSeq,
    /// Who is asked.
    pub target: Target,
    /// The asker's place in its periods.
    pub period: PeriodPhase,
    /// News.
    pub gossip: Gossip,
}

/// "I am." Answers a ping.
#[derive(Clone, PartialEq, Debug, Encode, Decode)]
pub struct Ack {
    /// Who answers.
    pub sender: Sender,
    /// The ping's.
    pub seq: ProbeSeq,
    /// The answerer's place in its periods.
    pub period: PeriodPhase,
    /// News.
    pub gossip: Gossip,
}

/// "Ping this member for me."
#[derive(Clone, PartialEq, Debug, Encode, Decode)]
pub struct PingReq {
    /// Who asks.
    pub sender: Sender,
    /// To be echoed.
    pub seq: ProbeSeq,
    /// Whom to ping.
    pub target: Target,
    /// News.
    pub gossip: Gossip,
}

/// "I asked, and got no answer."
#[derive(Clone, PartialEq, Debug, Encode, Decode)]
pub struct Nack {
    /// Who answers.
    pub sender: Sender,
    /// The ping-req's.
    pub seq: ProbeSeq,
    /// How often the relay's own probes of live members go unanswered: what its word is worth.
    pub miss_rate: MissRate,
    /// How long ago the member last answered the relay.
    pub answered: Centiseconds,
    /// Left empty by this version.
    pub extensions: List<Extension, 16>,
}

/// "It answered me."
#[derive(Clone, PartialEq, Debug, Encode, Decode)]
pub struct RelayedAck {
    /// Who answers: the relay.
    pub sender: Sender,
    /// The ping-req's.
    pub seq: ProbeSeq,
    /// Left empty by this version.
    pub extensions: List<Extension, 16>,
}

/// "That is not me." Answers a ping for another member or another life.
#[derive(Clone, PartialEq, Debug, Encode, Decode)]
pub struct WrongTarget {
    /// Who answers.
    pub sender: Sender,
    /// The ping's.
    pub seq: ProbeSeq,
    /// The answerer's record, when it fits the size of the ping.
    pub updates: List<Update, 1>,
}

/// Changes, pushed.
#[derive(Clone, PartialEq, Debug, Encode, Decode)]
pub struct News {
    /// Who pushes.
    pub sender: Sender,
    /// The news.
    pub gossip: Gossip,
}

/// "Admit me." Opens a stream.
#[derive(Clone, PartialEq, Debug, Encode, Decode)]
pub struct Join {
    /// The joiner's own record.
    pub record: RecordUpdate,
    /// Left empty by this version.
    pub extensions: List<Extension, 16>,
}

/// Part of a table: answers a join.
#[derive(Clone, PartialEq, Debug, Encode, Decode)]
pub struct Table {
    /// Who sends it.
    pub sender: Sender,
    /// Some records.
    pub records: List<RecordUpdate, 4096>,
    /// Whether this is the last part.
    pub last: bool,
}

/// "Too much to do." Answers a join or the stream of an exchange.
#[derive(Clone, PartialEq, Eq, Debug, Encode, Decode)]
pub struct Busy {
    /// Where alive members listen, drawn at random.
    pub others: List<SocketAddr, 8>,
    /// Left empty by this version.
    pub extensions: List<Extension, 16>,
}

/// "Not admitted", and why.
#[derive(Clone, PartialEq, Debug, Encode, Decode)]
pub struct Refused {
    /// The reason.
    pub reason: RefusalCode,
    /// The record that stands in the way, for a name conflict.
    pub holder: List<RecordUpdate, 1>,
}

/// "An earlier life of yours had this generation; take a larger one and ask again."
#[derive(Clone, PartialEq, Debug, Encode, Decode)]
pub struct Superseded {
    /// The generation that is remembered.
    pub generation: Generation,
}

/// One assertion about a member.
#[derive(Clone, PartialEq, Debug, Encode, Decode)]
pub enum Update {
    /// Everything that is known, for members the receiver may not know.
    Record(RecordUpdate),
    /// Only the status, for members it knows.
    Status(StatusUpdate),
    /// All but tags and services, which are too large for a datagram.
    Announced(Announcement),
}

/// A whole record.
#[derive(Clone, PartialEq, Debug)]
pub struct RecordUpdate {
    /// The record; of the metadata only what the standing's instance said is told.
    pub record: Arc<Record>,
    /// The newest heartbeat of the life that the standing speaks of; 0 for none.
    pub version: Version,
    /// For dead, left and forgotten members: seconds since that was decided.
    pub age: Age,
    /// How much of the announced maintenance is left, in whole milliseconds; zero without one. It
    /// is no part of the record, because everybody counts it from another instant.
    pub lease_left: Duration,
}

/// A status without name and metadata.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StatusUpdate {
    /// Whose.
    pub member: NameHash,
    /// Which life.
    pub generation: Generation,
    /// Which process, where two chose one generation.
    pub node_id: NodeIdLow,
    /// The owner's refutation counter.
    pub incarnation: Incarnation,
    /// Evictions of this life.
    pub strikes: u16,
    /// The claim.
    pub status: Status,
    /// Removed for good.
    pub forgotten: bool,
    /// For dead, left and forgotten members: seconds since that was decided.
    pub age: Age,
}

impl StatusUpdate {
    /// The claim of `standing` about `member`.
    #[must_use]
    pub fn of(member: NameHash, standing: &Standing, age: Age) -> Self {
        StatusUpdate {
            member,
            generation: standing.generation,
            node_id: NodeIdLow::of(standing.node_id),
            incarnation: standing.incarnation,
            strikes: standing.strikes,
            status: standing.status,
            forgotten: standing.forgotten,
            age,
        }
    }

    /// The claim as a standing; `None` when it is not about the instance that `held` names.
    #[must_use]
    pub fn standing(&self, held: &Standing) -> Option<Standing> {
        let told = (self.generation, self.node_id);
        let same = told == (held.generation, NodeIdLow::of(held.node_id));
        same.then_some(Standing {
            generation: self.generation,
            forgotten: self.forgotten,
            strikes: self.strikes,
            node_id: held.node_id,
            incarnation: self.incarnation,
            status: self.status,
        })
    }
}

/// Declares the message enum, its type bytes, its words, and the dispatch between them.
macro_rules! messages {
    ($($(#[$doc:meta])* $kind:ident($body:ty) = $byte:literal, $word:literal;)+) => {
        /// Any message.
        #[derive(Clone, PartialEq, Debug)]
        #[allow(clippy::large_enum_variant, reason = "built, sent or handled once, never stored")]
        pub enum Message { $($(#[$doc])* $kind($body),)+ }

        /// The type byte of a message.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
        #[repr(u8)]
        pub enum MessageKind { $($(#[$doc])* $kind = $byte,)+ }

        impl MessageKind {
            /// Every kind.
            pub const ALL: &'static [MessageKind] = &[$(MessageKind::$kind,)+];

            /// The kind with this type byte.
            #[must_use]
            pub const fn from_wire(byte: u8) -> Option<Self> {
                match byte { $($byte => Some(MessageKind::$kind),)+ _ => None }
            }

            /// The word used in metrics and traces.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self { $(MessageKind::$kind => $word,)+ }
            }
        }

        impl Message {
            /// Its kind.
            #[must_use]
            pub const fn kind(&self) -> MessageKind {
                match self { $(Message::$kind(_) => MessageKind::$kind,)+ }
            }

            pub(super) fn encode_body(&self, bytes: &mut Vec<u8>) {
                match self { $(Message::$kind(body) => codec::encode_into(body, bytes),)+ }
            }

            pub(super) fn decode_body(
                kind: MessageKind,
                body: &[u8],
                carrier: Carrier,
            ) -> Result<Self, DecodeError> {
                match kind {
                    $(MessageKind::$kind => codec::decode(body, carrier).map(Message::$kind),)+
                }
            }
        }
    };
}

messages! {
    /// See [`Ping`].
    Ping(Ping) = 1, "ping";
    /// See [`Ack`].
    Ack(Ack) = 2, "ack";
    /// See [`PingReq`].
    PingReq(PingReq) = 3, "ping-req";
    /// See [`Nack`].
    Nack(Nack) = 4, "nack";
    /// See [`RelayedAck`].
    RelayedAck(RelayedAck) = 5, "relayed-ack";
    /// See [`WrongTarget`].
    WrongTarget(WrongTarget) = 6, "wrong-target";
    /// See [`News`].
    News(News) = 7, "news";
    /// See [`Digest`].
    Digest(Digest) = 8, "digest";
    /// See [`Difference`].
    Difference(Difference) = 9, "difference";
    /// See [`Delta`].
    Delta(Delta) = 10, "delta";
    /// See [`Join`].
    Join(Join) = 16, "join";
    /// See [`Table`].
    Table(Table) = 17, "table";
    /// See [`Busy`].
    Busy(Busy) = 18, "busy";
    /// See [`Refused`].
    Refused(Refused) = 19, "refused";
    /// See [`Superseded`].
    Superseded(Superseded) = 20, "superseded";
    /// See [`Pull`].
    Pull(Pull) = 32, "pull";
    /// See [`Values`].
    Values(Values) = 33, "values";
    /// See [`Events`].
    Events(Events) = 40, "events";
    /// See [`EventAcks`].
    EventAcks(EventAcks) = 41, "event-acks";
    /// See [`EventHeads`].
    EventHeads(EventHeads) = 42, "event-heads";
    /// See [`EventPull`].
    EventPull(EventPull) = 43, "event-pull";
    /// See [`EventValues`].
    EventValues(EventValues) = 44, "event-values";
}
