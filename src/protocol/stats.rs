//! Counters of the core: plain numbers under closed label sets, for any exporter to read.

use std::collections::BTreeMap;
use std::marker::PhantomData;

use crate::wire::MessageKind;

/// Declares an enum of label values with the word each is exported as.
macro_rules! labels {
    (
        $(#[$doc:meta])*
        $name:ident { $($(#[$variant_doc:meta])* $variant:ident = $word:literal,)+ }
    ) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
        pub enum $name { $($(#[$variant_doc])* $variant,)+ }

        impl $name {
            /// Every value, in order.
            pub const ALL: &'static [$name] = &[$($name::$variant,)+];

            /// The word this value is exported as.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self { $($name::$variant => $word,)+ }
            }
        }

        impl $crate::protocol::stats::Label for $name {
            const COUNT: usize = $name::ALL.len();

            fn index(self) -> usize {
                self as usize
            }

            fn at(index: usize) -> Self {
                $name::ALL[index]
            }
        }
    };
}
pub(crate) use labels;

labels! {
    /// Which way a message went.
    Direction {
        /// From this node.
        Sent = "sent",
        /// To this node.
        Received = "received",
    }
}

labels! {
    /// What carried a message.
    Transport {
        /// A UDP datagram.
        Datagram = "datagram",
        /// A TCP stream.
        Stream = "stream",
    }
}

labels! {
    /// How a member was asked whether it lives.
    ProbeKind {
        /// A ping straight to the member.
        Direct = "direct",
        /// A ping-req through a relay.
        Relayed = "relayed",
        /// A ping over a stream.
        Stream = "stream",
    }
}

labels! {
    /// How a probe ended.
    ProbeOutcome {
        /// The member answered in time.
        Acked = "acked",
        /// The member answered after the timeout.
        Late = "late",
        /// No answer within the timeout.
        Missed = "missed",
        /// The relay said that the member does not answer it.
        Nacked = "nacked",
        /// Somebody else answered at the member's address.
        WrongTarget = "wrong-target",
        /// This node was late itself, so the silence says nothing.
        Void = "void",
    }
}

labels! {
    /// What became of a suspicion that this node raised.
    SuspicionOutcome {
        /// Raised.
        Raised = "raised",
        /// The member proved that it lives.
        Refuted = "refuted",
        /// The member was declared dead.
        Confirmed = "confirmed",
    }
}

labels! {
    /// What happened to user events, and because of them.
    EventCount {
        /// Events that clients sent through this node.
        Published = "published",
        /// Copies of events sent to other members in rounds.
        Told = "told",
        /// Events of others that came out, in order.
        Delivered = "delivered",
        /// Copies that had come before.
        Duplicate = "duplicate",
        /// Events that waited for those before them.
        Held = "held",
        /// Events sent at most once, dropped because later ones had come out.
        Late = "late",
        /// Events too far ahead of the last one to be held.
        Beyond = "beyond",
        /// Events of lives too old to be told apart.
        Old = "old",
        /// Questions straight to members that had not acknowledged.
        Asked = "asked",
        /// Messages received that acknowledge events, or say who has them.
        Acks = "acks",
        /// Comparisons of heads begun.
        Compared = "compared",
        /// Events that came because they were asked for.
        Pulled = "pulled",
        /// Events that are kept nowhere any more.
        Missed = "missed",
        /// Events that are not kept any more, by age or number.
        Expired = "expired",
    }
}

labels! {
    /// Why received bytes were dropped. Nothing else happens to them.
    Rejection {
        /// Shorter than a frame, or not of this protocol.
        NotOurs = "not-ours",
        /// A wire version this node does not speak.
        Version = "version",
        /// A frame of another cluster.
        Cluster = "cluster",
        /// Sealed with a key this node does not hold, or not sealed as required.
        Sealing = "sealing",
        /// A message type this node does not know.
        UnknownType = "unknown-type",
        /// A body that does not decode, is too long, or has trailing bytes.
        Malformed = "malformed",
        /// A probe for another node or another life of this one.
        WrongTarget = "wrong-target",
        /// A message that makes sense only over the other transport.
        WrongTransport = "wrong-transport",
        /// An answer to a question this node did not ask.
        Unsolicited = "unsolicited",
        /// A generation more than a day ahead of the clock.
        FutureGeneration = "future-generation",
        /// An incarnation, or a number of evictions, too far beyond the last one seen to be true.
        Incarnation = "incarnation",
        /// A heartbeat that is stale or implausibly far ahead.
        Heartbeat = "heartbeat",
        /// Metadata that breaks the rules.
        Metadata = "metadata",
        /// A name whose hash another name holds.
        NameCollision = "name-collision",
        /// Who holds a table, told in a way that contradicts the table.
        Agreement = "agreement",
        /// A user event, or who has it, told by somebody or of somebody that cannot be.
        Event = "event",
        /// Left over in a socket from before this node slept for long.
        Stale = "stale",
        /// To a node that was removed from the cluster.
        Forgotten = "forgotten",
        /// A request beyond a stated limit.
        Limit = "limit",
    }
}

/// Counters, one for each value of a closed label set: an array, because counting happens for
/// every message.
#[derive(Clone, Debug, PartialEq)]
pub struct Counts<L> {
    counts: Vec<u64>,
    labels: PhantomData<L>,
}

/// A closed set of values, numbered from 0.
pub trait Label: Copy {
    /// How many values there are.
    const COUNT: usize;

    /// The number of this value.
    fn index(self) -> usize;

    /// The value of this number, which is below [`COUNT`](Label::COUNT).
    fn at(index: usize) -> Self;
}

impl<L: Label> Counts<L> {
    /// The count of one value.
    #[must_use]
    pub fn get(&self, label: L) -> u64 {
        self.counts[label.index()]
    }

    /// Adds `amount` to the count of one value.
    pub fn add(&mut self, label: L, amount: u64) {
        self.counts[label.index()] += amount;
    }

    /// All counts above 0, in the order of the values.
    pub fn iter(&self) -> impl Iterator<Item = (L, u64)> {
        let counts = self.counts.iter().enumerate();
        counts
            .filter(|&(_, &count)| count > 0)
            .map(|(index, &count)| (L::at(index), count))
    }
}

impl<L: Label> Default for Counts<L> {
    fn default() -> Self {
        Counts {
            counts: vec![0; L::COUNT],
            labels: PhantomData,
        }
    }
}

impl Label for MessageKind {
    const COUNT: usize = MessageKind::ALL.len();

    fn index(self) -> usize {
        // The common kinds come first.
        let place = Self::ALL.iter().position(|&kind| kind == self);
        place.unwrap_or_default()
    }

    fn at(index: usize) -> Self {
        MessageKind::ALL[index]
    }
}

impl<A: Label, B: Label> Label for (A, B) {
    const COUNT: usize = A::COUNT * B::COUNT;

    fn index(self) -> usize {
        self.0.index() * B::COUNT + self.1.index()
    }

    fn at(index: usize) -> Self {
        (A::at(index / B::COUNT), B::at(index % B::COUNT))
    }
}

impl<A: Label, B: Label, C: Label> Label for (A, B, C) {
    const COUNT: usize = A::COUNT * B::COUNT * C::COUNT;

    fn index(self) -> usize {
        (self.0, (self.1, self.2)).index()
    }

    fn at(index: usize) -> Self {
        let (first, (second, third)) = Label::at(index);
        (first, second, third)
    }
}

/// Everything the core counts since it was made. Grows only in the numbers: every label is one of
/// a closed set, none comes from a peer.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Stats {
    /// Messages by direction, kind and transport.
    pub messages: Counts<(Direction, MessageKind, Transport)>,
    /// Payload bytes (without IP, UDP and TCP headers) by direction and transport.
    pub bytes: Counts<(Direction, Transport)>,
    /// Dropped input by reason.
    pub rejected: Counts<Rejection>,
    /// Ended probes by kind and outcome.
    pub probes: Counts<(ProbeKind, ProbeOutcome)>,
    /// Suspicions this node raised, by what became of them.
    pub suspicions: Counts<SuspicionOutcome>,
    /// Members that this node showed as dead and that came back in the same life.
    pub false_deaths: u64,
    /// How often this node refuted an accusation against itself.
    pub refutations: u64,
    /// How many members this node evicted because they lost too much.
    pub evictions: u64,
    /// Streams this node opened that ended without an answer.
    pub streams_failed: u64,
    /// Table exchanges started.
    pub exchanges: u64,
    /// Table exchanges that were completed and moved nothing: two repairs met, or two tables were
    /// just becoming equal.
    pub exchanges_needless: u64,
    /// Table exchanges that were given up: no answer, or the other had too much to do.
    pub exchanges_failed: u64,
    /// Records that table exchanges moved, in either direction.
    pub exchanged_records: u64,
    /// Joins and exchanges sent elsewhere because too many were served.
    pub busy: u64,
    /// What happened to user events.
    pub events: Counts<EventCount>,
    /// Two different self-descriptions seen under one version.
    pub metadata_conflicts: u64,
    /// Updates dropped because a queue was full, by queue.
    pub dropped: BTreeMap<&'static str, u64>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_has_a_count_of_its_own() {
        type Key = (Direction, MessageKind, Transport);
        let mut counts = Counts::<Key>::default();
        let all: Vec<Key> = (0..Key::COUNT).map(Label::at).collect();
        for (amount, &key) in (1..).zip(&all) {
            counts.add(key, amount);
        }
        let counted: Vec<_> = counts.iter().collect();
        let expected: Vec<_> = all.iter().copied().zip(1..).collect();
        assert_eq!(counted, expected);
        assert_eq!(all.len(), 2 * MessageKind::ALL.len() * 2);
        assert_eq!(counts.get(all[7]), 8);
    }
}
