//! Counters of the core: plain numbers under closed label sets, for any exporter to read.

use std::collections::BTreeMap;

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
        /// A heartbeat that is stale or implausibly far ahead.
        Heartbeat = "heartbeat",
        /// Metadata that breaks the rules.
        Metadata = "metadata",
        /// A name whose hash another name holds.
        NameCollision = "name-collision",
        /// A request beyond a stated limit.
        Limit = "limit",
    }
}

/// Counts under a label set.
pub type Counts<K> = BTreeMap<K, u64>;

/// Everything the core counts since it was made. Grows only in the numbers: every label is one of
/// a closed set, none comes from a peer.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Stats {
    /// Messages by direction, kind (see `wire::MessageKind::as_str`) and transport.
    pub messages: Counts<(Direction, &'static str, Transport)>,
    /// Payload bytes (without IP, UDP and TCP headers) by direction and transport.
    pub bytes: Counts<(Direction, Transport)>,
    /// Dropped input by reason.
    pub rejected: Counts<Rejection>,
    /// Ended probes by kind and outcome.
    pub probes: Counts<(ProbeKind, ProbeOutcome)>,
    /// Suspicions this node raised, by what became of them.
    pub suspicions: Counts<SuspicionOutcome>,
    /// How often this node refuted an accusation against itself.
    pub refutations: u64,
    /// Table exchanges started.
    pub exchanges: u64,
    /// Table exchanges that moved nothing.
    pub exchanges_needless: u64,
    /// Two different self-descriptions seen under one version.
    pub metadata_conflicts: u64,
    /// Updates dropped because a queue was full, by queue.
    pub dropped: Counts<&'static str>,
}

/// Adds one under `key`.
pub(crate) fn count<K: Ord>(counts: &mut Counts<K>, key: K) {
    add(counts, key, 1);
}

/// Adds `amount` under `key`.
pub(crate) fn add<K: Ord>(counts: &mut Counts<K>, key: K, amount: u64) {
    *counts.entry(key).or_insert(0) += amount;
}
