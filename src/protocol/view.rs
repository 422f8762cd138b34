//! Read-only views of a node, for snapshots, simulators and tests.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use super::case::Case;
use super::loss;
use super::table::Entry;
use super::{ArrivalWindow, Life, Node, PHI_MAX, PeriodStart, Rival, Stats};
use crate::member::{
    Generation, HeartbeatState, Incarnation, Metadata, NameHash, NodeId, NodeName, Record, Status,
};
use crate::time::Instant;

/// One listed member, as this node sees it.
#[derive(Clone, Debug, PartialEq)]
pub struct MemberState {
    /// Name.
    pub name: NodeName,
    /// Status shown to readers.
    pub status: Status,
    /// Whether it is this node.
    pub local: bool,
    /// Which process holds the name.
    pub node_id: NodeId,
    /// Refutation counter.
    pub incarnation: Incarnation,
    /// Restart number.
    pub generation: Generation,
    /// Newest heartbeat.
    pub heartbeat: HeartbeatState,
    /// Self-description, once it has arrived.
    pub metadata: Option<Arc<Metadata>>,
    /// When the maintenance that it announced ends, in this node's time; `None` without one or
    /// after its end. The metadata has the reason.
    pub maintenance_ends: Option<Instant>,
    /// Since when it has its status, in this node's time.
    pub since: Instant,
    /// Evidence against it in decades: of the open case, else of its heartbeats' silence; of a dead
    /// member a lower bound. Finite, at most `PHI_MAX`.
    pub phi: f64,
    /// Smoothed round trip.
    pub round_trip: Option<Duration>,
    /// Whether the verdict is this isolated node's alone.
    pub isolated_verdict: bool,
}

/// This node's own condition.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct NodeState {
    /// Whether it has joined, and is not leaving.
    pub ready: bool,
    /// Whether it leaves or has left.
    pub leaving: bool,
    /// Whether it was removed from the cluster, and keeps silent.
    pub forgotten: bool,
    /// Whether join addresses refuse its generation as ahead of their clocks.
    pub clock_ahead: bool,
    /// Whether it has lost contact with everybody.
    pub isolated: bool,
    /// Set while it is evicted for losing packets: when it begins to try whether it is well again.
    pub quarantine_ends: Option<Instant>,
    /// 0 = healthy, to 8 = its timers are always late.
    pub local_health: u32,
    /// Share of its probes of live members that go unanswered in time.
    pub miss_rate: f64,
    /// When a stream that it opened was last answered.
    pub stream_answered_at: Option<Instant>,
    /// Updates being told.
    pub queued_updates: usize,
    /// User events that wait to be told, again or for the first time.
    pub queued_events: usize,
    /// User events that are kept for members that lack them.
    pub kept_events: usize,
    /// User events that wait for those before them.
    pub held_events: usize,
    /// Members that are asked directly whether they have this node's events.
    pub owed_members: usize,
    /// Verdicts of a healing partition that wait for the accused to refute them.
    pub held_verdicts: usize,
    /// Open cases.
    pub cases: usize,
    /// Its restart number, raised only past a life that does not answer any more, and when it comes
    /// back after having been forgotten.
    pub generation: Generation,
    /// Another process that is known to run under its name.
    pub rival: Option<Rival>,
    /// How many seconds its wall clock is ahead of the middle one of all that it heard of.
    pub clock_skew: i32,
}

impl Node {
    /// All listed members, the local one included, in the order of their name hashes.
    pub fn members(&self, now: Instant) -> impl Iterator<Item = MemberState> + '_ {
        self.table
            .iter()
            .filter(|(_, entry)| entry.is_shown())
            .map(move |(member, entry)| {
                let local = member == self.local.hash;
                MemberState {
                    name: entry.record.name.clone(),
                    status: entry.shown_status(),
                    local,
                    node_id: entry.record.standing.node_id,
                    incarnation: entry.record.standing.incarnation,
                    generation: entry.record.standing.generation,
                    heartbeat: entry.heartbeat(),
                    metadata: entry.record.current_metadata().cloned(),
                    maintenance_ends: self.metadata.leases.ends_at(member, now),
                    since: entry.since,
                    phi: if local { 0.0 } else { self.phi(member, now) },
                    round_trip: self
                        .contact(member)
                        .and_then(|contact| contact.round_trip.mean()),
                    isolated_verdict: entry.isolated_verdict,
                }
            })
    }

    /// The records of all listed members, the local one included, and of those forgotten, in the
    /// order of their name hashes: what is told, without evidence and without the verdicts of an
    /// isolated node.
    pub fn records(&self) -> impl Iterator<Item = &Arc<Record>> + '_ {
        self.table
            .iter()
            .filter(|(_, entry)| entry.listed)
            .map(|(_, entry)| &entry.record)
    }

    /// The record this node holds of `name`; `None` for a member it does not list.
    #[must_use]
    pub fn record_of(&self, name: &NodeName) -> Option<&Arc<Record>> {
        let entry = self
            .table
            .get(name.hash())
            .filter(|entry| entry.is_shown())?;
        Some(&entry.record)
    }

    /// The status this node shows for `name`; `None` for a member it does not list.
    #[must_use]
    pub fn status_of(&self, name: &NodeName) -> Option<Status> {
        let entry = self
            .table
            .get(name.hash())
            .filter(|entry| entry.is_shown())?;
        Some(entry.shown_status())
    }

    fn phi(&self, member: NameHash, now: Instant) -> f64 {
        if let Some(case) = self.cases.get(&member) {
            return case.phi().min(PHI_MAX);
        }
        let dead = |entry: &&Entry<ArrivalWindow>| entry.record.standing.status == Status::Dead;
        match self.table.get(member).filter(dead) {
            Some(entry) => {
                let silence = now.since(entry.counted_at);
                let decades = loss::decades(self.misses.share());
                entry.arrivals.phi_far(silence, decades)
            }
            None => self.heartbeat_phi_at(member, now),
        }
    }

    /// How improbable the silence of an active member's heartbeats is, in decades.
    pub(super) fn heartbeat_phi(&self, member: NameHash) -> f64 {
        self.heartbeat_phi_at(member, self.now)
    }

    pub(super) fn heartbeat_phi_at(&self, member: NameHash, now: Instant) -> f64 {
        self.table
            .get(member)
            .filter(|entry| entry.record.standing.status.is_active())
            .map_or(0.0, |entry| {
                let silence = now.since(entry.counted_at);
                entry.arrivals.phi(silence, self.misses.share())
            })
    }

    /// Evidence against `name` in an open case, in decades; `None` without one.
    #[must_use]
    pub fn case_phi(&self, name: &NodeName) -> Option<f64> {
        self.cases.get(&name.hash()).map(Case::phi)
    }

    /// When its first probe period begins, in this node's time.
    #[must_use]
    pub fn first_period(&self) -> PeriodStart {
        PeriodStart {
            at: self.local.first_period,
            number: 0,
        }
    }

    /// This node's own condition.
    #[must_use]
    pub fn state(&self) -> NodeState {
        NodeState {
            ready: self.life == Life::Ready,
            leaving: self.life == Life::Leaving,
            forgotten: self.life == Life::Forgotten,
            clock_ahead: self.life == Life::Joining && self.wall.ahead,
            isolated: self.isolated,
            quarantine_ends: self.quarantine_ends(),
            local_health: self.health.score(),
            miss_rate: self.misses.share(),
            stream_answered_at: self.sight.streams.answered_at(),
            queued_updates: self.news.len(),
            queued_events: self.events.telling.len(),
            kept_events: self.events.keep.len(),
            held_events: self.events.book.held(),
            owed_members: self.events.owing.asking(),
            held_verdicts: self.hold.len(),
            cases: self.cases.len(),
            generation: self.local.generation,
            rival: self.rival(),
            clock_skew: self.skew.seconds(),
        }
    }

    /// Equal on two nodes exactly when their tables are equal, suspect counted as alive.
    #[must_use]
    pub fn fingerprint(&self) -> u64 {
        self.table.fingerprint()
    }

    /// Grows with every change that a reader of the table sees.
    #[must_use]
    pub fn revision(&self) -> u64 {
        self.table.revision() + self.remembered.revision()
    }

    /// Counters since the start.
    #[must_use]
    pub fn stats(&self) -> &Stats {
        &self.stats
    }

    /// Where `member` is reached; `None` before its record has come.
    pub(super) fn address_of(&self, member: NameHash) -> Option<SocketAddr> {
        let record = &self.table.get(member)?.record;
        let said = record.current_metadata();
        let announced = || {
            self.metadata
                .pulls
                .address(member, record.standing.instance())
        };
        said.map(|metadata| metadata.address).or_else(announced)
    }

    /// Whether an active member, not given up by an isolated node, is reached at `address`:
    /// `probably` this one, which is looked at before all others.
    pub(super) fn has_active_at(&self, address: SocketAddr, probably: NameHash) -> bool {
        (self.table.is_active(probably) && self.has_at(probably, address))
            || self.active_at(address).is_some()
    }

    fn has_at(&self, member: NameHash, address: SocketAddr) -> bool {
        let entry = self.table.get(member);
        let given_up = entry.is_none_or(|entry| entry.isolated_verdict);
        self.address_of(member) == Some(address) && !given_up
    }

    /// The active member with the address `address`, unless this node alone holds it for dead.
    pub(super) fn active_at(&self, address: SocketAddr) -> Option<NameHash> {
        let mut active = self.table.active().iter().copied();
        active.find(|&member| self.has_at(member, address))
    }
}
