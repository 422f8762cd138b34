//! The messages of user events: told in rounds, acknowledged by watermarks and sets, compared by
//! their heads, and pulled over a stream.
//!
//! ```text
//!  told       A --Events------> some   in rounds; whoever hears one first tells it on
//!  collected  C --EventAcks---> B,A    who has it, back along the first two links it came by
//!  asked      A --Events------> C      straight from the origin, to who has not acknowledged
//!             A <--EventAcks--- C      up to which number it has all
//!  compared   A --EventHeads--> B      sums on ping and ack differ though both were quiet
//!             A <--EventHeads-- B      where B is ahead; B pulls where A is
//!  pulled     A --EventPull---> B      (stream) what A lacks
//!             A <--EventValues- B      what B keeps of it, and from where on
//! ```

use std::sync::Arc;

use bincode::{Decode, Encode};

use super::holders::Holders;
use super::list::List;
use super::message::Sender;
use super::values::{Fingerprint, GenerationLow};
use crate::member::{Delivery, EventRef, Generation, NameHash, UserEvent};

/// Most events of one message.
pub const EVENTS_PER_MESSAGE_MAX: usize = 1024;
/// Most heads of one message: as many as fit a frame of a stream.
pub const EVENT_HEADS_MAX: usize = 8192;
/// Most spans in one question.
pub const EVENT_SPANS_MAX: usize = 64;

/// Up to which number somebody has the events of one sequence of one life of a member.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Encode, Decode)]
pub struct EventHead {
    /// Who sent them.
    pub origin: NameHash,
    /// In which life.
    pub generation: Generation,
    /// Which of the two sequences counts them.
    pub delivery: Delivery,
    /// The number of the last, with all before it.
    pub upto: u64,
}

impl EventHead {
    /// The head whose last event is this one.
    #[must_use]
    pub fn at(event: &EventRef) -> Self {
        EventHead {
            origin: event.origin,
            generation: event.generation,
            delivery: event.delivery,
            upto: event.sequence,
        }
    }
}

/// Some events in a row.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Encode, Decode)]
pub struct EventSpan {
    /// Who sent them.
    pub origin: NameHash,
    /// In which life.
    pub generation: Generation,
    /// Which of the two sequences counts them.
    pub delivery: Delivery,
    /// The number of the first.
    pub first: u64,
    /// The number of the last.
    pub last: u64,
}

/// One event, as it is told.
#[derive(Clone, PartialEq, Eq, Debug, Encode, Decode)]
pub struct ToldEvent {
    /// How many links it has come by, this one included.
    pub hop: u8,
    /// Whether its origin collects who has it, and all before it.
    pub collects: bool,
    /// The event.
    pub what: ToldWhat,
}

/// An event, or that there is one.
#[derive(Clone, PartialEq, Eq, Debug, Encode, Decode)]
pub enum ToldWhat {
    /// All of it.
    Whole(Arc<UserEvent>),
    /// It is too large for a datagram, or most have it already: who lacks it may pull it.
    Announced(EventRef),
}

impl ToldWhat {
    /// Which event it is.
    #[must_use]
    pub fn event_ref(&self) -> EventRef {
        match self {
            ToldWhat::Whole(event) => event.event_ref(),
            ToldWhat::Announced(event) => *event,
        }
    }
}

/// Events, told in rounds; or by their origin to who has not acknowledged them, and then asked for.
#[derive(Clone, PartialEq, Eq, Debug, Encode, Decode)]
pub struct Events {
    /// Who tells.
    pub sender: Sender,
    /// The sender's own heads that the receiver is to acknowledge to it.
    pub asked: List<EventHead, 4>,
    /// The events.
    pub told: List<ToldEvent, EVENTS_PER_MESSAGE_MAX>,
}

/// "I have all up to here", and "so have these".
#[derive(Clone, PartialEq, Eq, Debug, Encode, Decode)]
pub struct EventAcks {
    /// Who says so.
    pub sender: Sender,
    /// Of the events of the receiver: up to where the sender itself has them.
    pub own: List<EventHead, 8>,
    /// Who else has them, as the sender heard.
    pub sets: List<AckSet, 16>,
}

/// Members that have all events up to a head.
#[derive(Clone, PartialEq, Eq, Debug, Encode, Decode)]
pub struct AckSet {
    /// Up to where.
    pub head: EventHead,
    /// Who.
    pub who: AckHolders,
}

/// Members, in the shorter of two forms that can be used.
#[derive(Clone, PartialEq, Eq, Debug, Encode, Decode)]
pub enum AckHolders {
    /// Places in the list of members that a table calls alive; they mean nothing to who holds
    /// another table.
    Places {
        /// The table.
        table: Fingerprint,
        /// The places.
        holders: Holders,
    },
    /// By name, while tables change.
    Names(List<(NameHash, GenerationLow), 96>),
}

/// Up to where the sender has which events.
#[derive(Clone, PartialEq, Eq, Debug, Encode, Decode)]
pub struct EventHeads {
    /// Who says so.
    pub sender: Sender,
    /// The heads; in an answer those only that are ahead of the question's.
    pub heads: List<EventHead, EVENT_HEADS_MAX>,
    /// Whether the receiver is to answer with its own.
    pub asks: bool,
}

/// "Give me these." Opens a stream.
#[derive(Clone, PartialEq, Eq, Debug, Encode, Decode)]
pub struct EventPull {
    /// Who asks.
    pub sender: Sender,
    /// What is wanted.
    pub wanted: List<EventSpan, EVENT_SPANS_MAX>,
}

/// Answers a pull, in one or several frames.
#[derive(Clone, PartialEq, Eq, Debug, Encode, Decode)]
pub struct EventValues {
    /// Who answers.
    pub sender: Sender,
    /// Events that were asked for, in the order of the question and of their numbers.
    pub events: List<Arc<UserEvent>, EVENTS_PER_MESSAGE_MAX>,
    /// In the last frame, for every span asked for of which the sender knows: what of that sequence
    /// it keeps; where that is nothing, the first number lies after the last.
    pub kept: List<EventSpan, EVENT_SPANS_MAX>,
    /// Whether this is the last frame.
    pub last: bool,
}
