//! What readers see: an immutable picture of the table, replaced as a whole.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use super::quality::Quality;
use super::store::{Remembered, StoreCondition};
use crate::member::{
    Generation, Incarnation, Metadata, NameHash, NodeId, NodeName, Status, Version,
};
use crate::protocol::{AgreementState, EventBacklog, Explanation, Reach, ReachCause, Rival, Stats};

/// One consistent picture of the node and its table.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// The cluster's name.
    pub cluster: String,
    /// This node's name.
    pub local: NodeName,
    /// Counts changes of name, address, status, generation, incarnation, tags, services and
    /// maintenance. Never goes backwards, also across restarts: it starts at the generation times
    /// 2^20.
    pub index: u64,
    /// Equal on two nodes exactly when their tables are equal (suspect counted as alive).
    pub fingerprint: u64,
    /// How far the members are known to agree on this table.
    pub agreement: AgreementState,
    /// Which members do not reach which, as far as this node was told, sorted by both names.
    pub unreached: Vec<UnreachedView>,
    /// When this picture was made, by a clock that nobody sets.
    pub made: std::time::Instant,
    /// All listed members, this node included, sorted by name.
    pub members: Vec<MemberView>,
    /// Members of earlier times that the table does not list, sorted by name: their addresses are
    /// still looked at. Those of an earlier run are also among `members`, as `stored`.
    pub remembered: Vec<Remembered>,
    /// What is known of members beyond the table: of those this node deals with, of those lately
    /// suspected or declared dead, and of those whose status others told last.
    pub explanations: Arc<BTreeMap<NameHash, Arc<Explained>>>,
    /// This node itself.
    pub node: NodeView,
}

/// Everything that is known of one member, and as of when.
#[derive(Clone, Debug, PartialEq)]
pub struct Explained {
    /// The times in the explanation are before this.
    pub at: SystemTime,
    /// What is known.
    pub what: Explanation,
}

impl Snapshot {
    /// How many members have `status`.
    #[must_use]
    pub fn count(&self, status: Status) -> usize {
        self.members
            .iter()
            .filter(|member| member.status == status)
            .count()
    }

    /// Pairs of which the observer does not reach the subject by datagram, or not by the largest.
    #[must_use]
    pub fn unreached_by_datagram(&self) -> usize {
        let lost = |pair: &&UnreachedView| pair.datagram != Reach::Reachable;
        self.unreached.iter().filter(lost).count()
    }

    /// Pairs of which the observer does not reach the subject by stream.
    #[must_use]
    pub fn unreached_by_stream(&self) -> usize {
        let lost = |pair: &&UnreachedView| pair.stream == Reach::Unreachable;
        self.unreached.iter().filter(lost).count()
    }

    /// What is known of `member` beyond its row; `None` where nothing is kept.
    #[must_use]
    pub fn explanation(&self, member: &NodeName) -> Option<&Arc<Explained>> {
        self.explanations.get(&member.hash())
    }

    /// For how long the own table has been the same by now.
    #[must_use]
    pub fn stable_for(&self) -> Duration {
        self.agreement.stable_for + self.made.elapsed()
    }

    /// The member of this name, ignoring case.
    #[must_use]
    pub fn member(&self, name: &str) -> Option<&MemberView> {
        self.members
            .iter()
            .find(|member| member.name.as_str().eq_ignore_ascii_case(name))
    }
}

/// One row of the table.
#[derive(Clone, Debug, PartialEq)]
pub struct MemberView {
    /// Name.
    pub name: NodeName,
    /// Gossip address; unknown until the member's own record has arrived.
    pub address: Option<SocketAddr>,
    /// Status in this node's view.
    pub status: Status,
    /// Whether it is this node.
    pub local: bool,
    /// Which process holds the name.
    pub node_id: NodeId,
    /// Restart number.
    pub generation: Generation,
    /// Heartbeat version; a sample.
    pub version: Version,
    /// Refutation counter.
    pub incarnation: Incarnation,
    /// Decades of evidence against it: of the open case, else of the silence of its heartbeats; a
    /// sample, 0 to 1e6.
    pub phi: f64,
    /// Smoothed round trip; a sample; unknown before the first answer.
    pub rtt: Option<Duration>,
    /// When this node learnt of the present status.
    pub since: SystemTime,
    /// Tags, services and wire versions.
    pub metadata: Option<Arc<Metadata>>,
    /// When the maintenance that it announced ends; `None` without one or after its end. The
    /// metadata has the reason.
    pub maintenance_until: Option<SystemTime>,
    /// Whether the verdict is this node's alone, reached without contact to anybody, and not told.
    pub isolated_verdict: bool,
    /// Whether an earlier run knew it and this one has not heard of it yet: it is shown as dead
    /// since it was last seen, in this node's view alone.
    pub stored: bool,
}

/// A member that another does not reach, though it is alive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnreachedView {
    /// Who does not reach.
    pub observer: NodeName,
    /// Whom.
    pub subject: NodeName,
    /// By datagram.
    pub datagram: Reach,
    /// By stream.
    pub stream: Reach,
    /// Whether datagrams of the subject arrive at the observer.
    pub heard: bool,
    /// Since when.
    pub since: SystemTime,
    /// The likely cause.
    pub cause: ReachCause,
}

/// This node's own state.
#[derive(Clone, Debug)]
pub struct NodeView {
    /// Tells a restart from a stranger with the same name.
    pub node_id: NodeId,
    /// Where the gossip socket is bound.
    pub bound: SocketAddr,
    /// Whether it serves its purpose.
    pub readiness: Readiness,
    /// Another process that is known to run under this node's name.
    pub rival: Option<Rival>,
    /// How many seconds its wall clock is ahead of the middle one of all members' that it heard of;
    /// negative when it is behind.
    pub clock_skew: i32,
    /// Whether it has lost contact with everybody.
    pub isolated: bool,
    /// 0 = healthy, to 8 = its own timers are always late.
    pub local_health: u32,
    /// Share of its own probes of live members that went unanswered in time, 0 to 1.
    pub miss_rate: f64,
    /// When a stream that this node opened was last answered; `None` before the first.
    pub stream_answered: Option<SystemTime>,
    /// When the process started the node.
    pub started: SystemTime,
    /// Updates waiting to be pushed.
    pub queued_updates: usize,
    /// Events of clients waiting to be told; a sample.
    pub backlog: EventBacklog,
    /// How the store is; a sample.
    pub store: StoreCondition,
    /// How well its detector has done.
    pub quality: Quality,
    /// Counters.
    pub stats: Stats,
}

/// Whether a node is of use to its clients.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Readiness {
    /// Has not yet exchanged tables with any join address; keeps trying.
    Joining,
    /// Every join address refused this node's generation as ahead of the clock.
    ClockAhead,
    /// Another process holds this node's name: it is silent, or not admitted.
    Conflict,
    /// Serves.
    Ready,
    /// Leaves, or has left.
    Leaving,
    /// Was removed from the cluster, and keeps silent until it is told to join, or restarted.
    Forgotten,
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// Of a node that is alone.
    pub(in crate::node) fn empty() -> Snapshot {
        Snapshot {
            cluster: "default".into(),
            local: "n1".parse().expect("valid"),
            index: 0,
            fingerprint: 0,
            agreement: AgreementState {
                fingerprint: 0,
                alive: 1,
                agree: 1,
                laggards: Vec::new(),
                converged: true,
                stable_for: Duration::ZERO,
            },
            unreached: Vec::new(),
            made: std::time::Instant::now(),
            members: Vec::new(),
            remembered: Vec::new(),
            explanations: Arc::default(),
            node: NodeView {
                node_id: NodeId(1),
                bound: SocketAddr::from(([127, 0, 0, 1], 7480)),
                readiness: Readiness::Ready,
                rival: None,
                clock_skew: 0,
                isolated: false,
                local_health: 0,
                miss_rate: 0.0,
                stream_answered: None,
                started: SystemTime::UNIX_EPOCH,
                queued_updates: 0,
                backlog: EventBacklog::default(),
                store: StoreCondition::default(),
                quality: Quality::default(),
                stats: Stats::default(),
            },
        }
    }
}
