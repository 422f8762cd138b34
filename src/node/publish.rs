//! Making the snapshots that readers see.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use arc_swap::ArcSwap;
use tokio::sync::watch;

use super::backlog::Backlog;
use super::clock::Clock;
use super::options::Options;
use super::quality::{Quality, Record};
use super::snapshot::{Explained, MemberView, NodeView, Readiness, Snapshot, UnreachedView};
use super::store::{Remembered, Store};
use crate::member::{self, Incarnation, NameHash, NodeId, NodeName, Status, Version};
use crate::protocol::{Event, EventBacklog, MemberState, Node, NodeState, Rival, UnreachedPair};
use crate::time::Instant;

/// Samples (phi, round trips, heartbeats, counters) are renewed this often.
const SAMPLE_PERIOD: Duration = Duration::from_secs(1);
/// Explanations kept beyond this are those of members of which nothing is kept any more.
const EXPLANATIONS_MAX: usize = 1024;
/// The index starts at the generation times this, so that it grows across restarts.
const INDEX_PER_GENERATION: u64 = 1 << 20;

/// Builds a snapshot when the table has changed, and once a second for the samples.
pub(super) struct Publisher {
    slot: Arc<ArcSwap<Snapshot>>,
    cluster: String,
    local: NodeName,
    node_id: NodeId,
    bound: SocketAddr,
    started: SystemTime,
    index_base: u64,
    revision: u64,
    shown: NodeState,
    converged: watch::Sender<bool>,
    published_at: Instant,
    store: Arc<dyn Store>,
    explanations: Arc<BTreeMap<NameHash, Arc<Explained>>>,
    /// Up to which entry of the core's ledger they go.
    explained: u64,
    record: Record,
    backlog: Backlog,
}

impl Publisher {
    /// Publishes the first snapshot.
    pub(super) fn new(core: &Node, options: &Options, bound: SocketAddr, clock: &Clock) -> Self {
        let now = clock.now();
        let base = Self::base(core);
        let first = Snapshot {
            cluster: options.cluster.clone(),
            local: options.name.clone(),
            index: base + core.revision(),
            fingerprint: core.fingerprint(),
            agreement: core.agreement(now),
            unreached: Vec::new(),
            made: std::time::Instant::now(),
            members: Vec::new(),
            remembered: Vec::new(),
            explanations: Arc::default(),
            node: NodeView {
                node_id: options.node_id,
                bound,
                readiness: readiness(&core.state()),
                rival: core.rival(),
                clock_skew: 0,
                isolated: false,
                local_health: 0,
                miss_rate: core.state().miss_rate,
                stream_answered: None,
                started: clock.wall_time(now),
                queued_updates: 0,
                backlog: EventBacklog::default(),
                store: options.store.condition(),
                quality: Quality::default(),
                stats: core.stats().clone(),
            },
        };
        let mut publisher = Publisher {
            slot: Arc::new(ArcSwap::from_pointee(first)),
            cluster: options.cluster.clone(),
            local: options.name.clone(),
            node_id: options.node_id,
            bound,
            started: clock.wall_time(now),
            index_base: base,
            revision: core.revision(),
            shown: core.state(),
            converged: watch::channel(false).0,
            published_at: now,
            store: Arc::clone(&options.store),
            explanations: Arc::default(),
            explained: 0,
            record: Record::default(),
            backlog: Backlog::default(),
        };
        publisher.publish(core, now, clock);
        publisher
    }

    fn base(core: &Node) -> u64 {
        core.state()
            .generation
            .0
            .saturating_mul(INDEX_PER_GENERATION)
    }

    /// What the snapshots show as waiting to be told.
    pub(super) fn backlog(&self) -> &Backlog {
        &self.backlog
    }

    /// Where readers find the newest snapshot.
    pub(super) fn slot(&self) -> &Arc<ArcSwap<Snapshot>> {
        &self.slot
    }

    /// Whether the newest snapshot shows that all members agree.
    pub(super) fn converged(&self) -> watch::Receiver<bool> {
        self.converged.subscribe()
    }

    /// The newest snapshot's index.
    pub(super) fn index(&self) -> u64 {
        self.index_base + self.revision
    }

    /// Publishes if there is something to show; the index if it has grown.
    pub(super) fn update(&mut self, core: &Node, now: Instant, clock: &Clock) -> Option<u64> {
        let state = core.state();
        let changed = core.revision() != self.revision;
        let turned = readiness(&state) != readiness(&self.shown)
            || state.isolated != self.shown.isolated
            || state.rival != self.shown.rival;
        let turned = turned || core.has_converged() != *self.converged.borrow();
        if !changed && !turned && now.since(self.published_at) < SAMPLE_PERIOD {
            return None;
        }
        self.index_base = self.index_base.max(Self::base(core));
        self.revision = core.revision();
        self.publish(core, now, clock);
        changed.then(|| self.index())
    }

    /// Takes note of what happened at `now`, for the next snapshot.
    pub(super) fn note(&mut self, event: &Event, now: SystemTime) {
        self.record.note(event, now);
    }

    /// Renews the explanations that have changed.
    fn explain(&mut self, core: &Node, now: Instant, clock: &Clock) {
        let revision = core.evidence_revision();
        if revision == self.explained {
            return;
        }
        let at = clock.wall_time(now);
        let mut all = (*self.explanations).clone();
        let mut since = self.explained;
        if all.len() > EXPLANATIONS_MAX {
            all.clear();
            since = 0;
        }
        let changed = core.explained_since(since, now);
        all.extend(changed.map(|(member, what)| (member, Explained { at, what }.into())));
        self.explained = revision;
        self.explanations = all.into();
    }

    fn publish(&mut self, core: &Node, now: Instant, clock: &Clock) {
        self.shown = core.state();
        self.published_at = now;
        self.explain(core, now, clock);
        let mut members: Vec<MemberView> = core
            .members(now)
            .map(|member| view(member, clock))
            .collect();
        let mut remembered: Vec<Remembered> = Vec::new();
        for member in core.remembered(now) {
            let last_seen = clock.wall_time(now).checked_sub(member.silence);
            let last_seen = last_seen.unwrap_or(SystemTime::UNIX_EPOCH);
            if member.stored {
                members.push(stored(&member, last_seen));
            }
            remembered.push(Remembered {
                name: member.name,
                address: member.address,
                node_id: member.node_id,
                generation: member.generation,
                last_seen,
            });
        }
        members.sort_by(|one, other| one.name.cmp(&other.name));
        remembered.sort_by(|one, other| one.name.cmp(&other.name));
        self.slot.store(Arc::new(Snapshot {
            cluster: self.cluster.clone(),
            local: self.local.clone(),
            index: self.index(),
            fingerprint: core.fingerprint(),
            agreement: core.agreement(now),
            unreached: core
                .unreached()
                .into_iter()
                .map(|pair| unreached(pair, clock))
                .collect(),
            made: std::time::Instant::now(),
            members,
            remembered,
            explanations: Arc::clone(&self.explanations),
            node: NodeView {
                node_id: self.node_id,
                bound: self.bound,
                readiness: readiness(&self.shown),
                rival: self.shown.rival,
                clock_skew: self.shown.clock_skew,
                isolated: self.shown.isolated,
                local_health: self.shown.local_health,
                miss_rate: self.shown.miss_rate,
                stream_answered: self.shown.stream_answered_at.map(|at| clock.wall_time(at)),
                started: self.started,
                queued_updates: self.shown.queued_updates,
                backlog: self.backlog.now(),
                store: self.store.condition(),
                quality: self.record.quality(),
                stats: core.stats().clone(),
            },
        }));
        // After the picture, so that who is woken sees it.
        self.converged.send_replace(core.has_converged());
    }
}

fn readiness(state: &NodeState) -> Readiness {
    match state {
        NodeState { leaving: true, .. } => Readiness::Leaving,
        NodeState {
            forgotten: true, ..
        } => Readiness::Forgotten,
        NodeState { ready: true, .. } => Readiness::Ready,
        NodeState {
            rival: Some(Rival { prevails: true, .. }),
            ..
        } => Readiness::Conflict,
        NodeState {
            clock_ahead: true, ..
        } => Readiness::ClockAhead,
        _ => Readiness::Joining,
    }
}

fn view(member: MemberState, clock: &Clock) -> MemberView {
    let current = member.heartbeat.generation == member.generation;
    MemberView {
        address: member.metadata.as_ref().map(|metadata| metadata.address),
        version: if current {
            member.heartbeat.version
        } else {
            Default::default()
        },
        since: clock.wall_time(member.since),
        maintenance_until: member.maintenance_ends.map(|at| clock.wall_time(at)),
        name: member.name,
        status: member.status,
        local: member.local,
        node_id: member.node_id,
        generation: member.generation,
        incarnation: member.incarnation,
        phi: member.phi,
        rtt: member.round_trip,
        metadata: member.metadata,
        isolated_verdict: member.isolated_verdict,
        stored: false,
    }
}

fn unreached(pair: UnreachedPair, clock: &Clock) -> UnreachedView {
    UnreachedView {
        observer: pair.observer,
        subject: pair.subject,
        datagram: pair.datagram,
        stream: pair.stream,
        heard: pair.heard,
        since: clock.wall_time(pair.since),
        cause: pair.cause,
    }
}

/// A member that only an earlier run has seen.
fn stored(member: &member::Remembered, last_seen: SystemTime) -> MemberView {
    MemberView {
        name: member.name.clone(),
        address: Some(member.address),
        status: Status::Dead,
        local: false,
        node_id: member.node_id,
        generation: member.generation,
        version: Version::default(),
        incarnation: Incarnation::default(),
        phi: 0.0,
        rtt: None,
        since: last_seen,
        metadata: None,
        maintenance_until: None,
        isolated_verdict: false,
        stored: true,
    }
}
