//! The protocol core: a state machine without IO, clock or global randomness.
//!
//! [`Node`] is the hub. Its children `receive`, `updates`, `spreading`, `probing`, `cases`,
//! `joining`, `streams`, `leaving` and `periodic` hold control flow, each one part of the protocol.
//! The other modules are leaves: arithmetic and bookkeeping that know no other leaf and can be
//! tested with numbers alone.

mod accrual;
mod case;
mod cases;
mod config;
mod dissemination;
mod health;
mod join_book;
mod joining;
mod leaving;
mod loss;
mod outbox;
mod periodic;
mod probe;
mod probing;
mod receive;
mod repair;
mod round_trip;
mod schedule;
mod spreading;
mod stats;
mod streams;
mod table;
mod timers;
mod updates;
mod view;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use rand::rngs::Xoshiro256PlusPlus;
use rand::{Rng, SeedableRng};
use thiserror::Error;

use crate::member::{
    Generation, HeartbeatState, Metadata, MetadataError, NameHash, NodeId, NodeName, Record,
    Service, Standing, Tags, Version, WireRange,
};
use crate::time::Instant;
use crate::wire::{self, Age, ClusterTag};

pub use accrual::{ArrivalWindow, PHI_MAX, phi_loss_aware, phi_normal};
pub use config::{Config, ConfigError};
pub use outbox::{
    Event, EventKind, Evidence, ExchangeId, JoinOutcome, MemberEvent, Outbox, RefusalReason,
    StreamId, Transmit,
};
pub use stats::{
    Counts, Direction, ProbeKind, ProbeOutcome, Rejection, Stats, SuspicionOutcome, Transport,
};
pub use view::{MemberState, NodeState};

use case::Case;
use dissemination::{ByteBucket, Dissemination};
use health::Health;
use join_book::JoinBook;
use joining::Admission;
use leaving::Leaving;
use loss::MissEstimate;
use probe::ProbeBook;
use repair::Repair;
use round_trip::RoundTrip;
use schedule::RoundRobin;
use streams::Exchange;
use table::Table;
use timers::{Timer, Timers};

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
    /// Tell everybody that this node leaves.
    Leave {
        /// How long to wait for acknowledgements.
        timeout: Duration,
    },
    /// What the wall clock shows; at the start and after each step of it.
    WallClock {
        /// Since the unix epoch.
        since_epoch: Duration,
    },
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

/// Where a node is in its life.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Life {
    /// No join address has answered yet.
    Joining,
    /// Part of the cluster.
    Ready,
    /// Leaves, or has left.
    Leaving,
}

/// What a node keeps about a peer beside its record: 40 bytes.
#[derive(Debug)]
struct Peer {
    window: ArrivalWindow,
    round_trip: RoundTrip,
    /// When it last answered a question of this node; the origin when it never has.
    answered_at: Instant,
}

/// One node of the cluster.
///
/// # Contract
/// - [`handle`](Node::handle) is the only door: it changes the node and appends to the outbox. It
///   is total. Hostile bytes become a counted rejection.
/// - `now` never decreases (asserted).
/// - Only [`Input::Deadline`] fires timers, so evidence of life that is already in hand always
///   beats a timeout: hand over everything received before the deadline. An early deadline does
///   nothing; a late one is legal, and its lateness tells the node that it is itself slow.
/// - After a deadline, [`next_deadline`](Node::next_deadline) lies in the future (asserted).
/// - Nothing waits inside to be drained: what one call causes, it has put into the outbox.
/// - Equal configuration, seed and sequence of inputs give equal bytes, on every machine.
/// - Every queue, list and loop has a named limit.
///
/// # Example
/// ```
/// use std::time::Duration;
/// use rumord::member::{Generation, NodeId};
/// use rumord::protocol::{Bootstrap, Config, Identity, Input, Node, Outbox};
/// use rumord::time::Instant;
///
/// let identity = Identity {
///     name: "n1".parse()?,
///     cluster: "default".into(),
///     generation: Generation(1),
///     node_id: NodeId(7),
///     address: "127.0.0.1:7480".parse()?,
///     tags: Default::default(),
///     services: Vec::new(),
/// };
/// let start = Instant::ORIGIN;
/// let mut node = Node::new(identity, Config::lan(), Bootstrap::Alone, 42, start)?;
/// let mut outbox = Outbox::new();
/// let later = node.next_deadline();
/// node.handle(later, Input::Deadline, &mut outbox);
/// assert!(outbox.transmits.is_empty(), "alone, it has nobody to ping");
/// assert!(node.next_deadline() > later);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Node {
    config: Config,
    cluster: ClusterTag,
    local: Local,
    life: Life,
    now: Instant,
    table: Table<Peer>,
    timers: Timers,
    // Detection.
    schedule: RoundRobin,
    probes: ProbeBook,
    cases: BTreeMap<NameHash, Case>,
    misses: MissEstimate,
    health: Health,
    /// The latest answer from anybody to a question of this node.
    contact_at: Instant,
    isolated: bool,
    // Spreading.
    news: Dissemination,
    push_budget: ByteBucket,
    pushed_at: Instant,
    heartbeat_cursor: NameHash,
    // Streams.
    exchanges: BTreeMap<ExchangeId, Exchange>,
    next_exchange: u64,
    repair: Repair,
    joins: JoinBook,
    admissions: BTreeMap<StreamId, Admission>,
    leaving: Option<Leaving>,
    rngs: Rngs,
    wall: WallClock,
    stats: Stats,
}

/// What a node knows of itself beside its record.
struct Local {
    name: NodeName,
    hash: NameHash,
    generation: Generation,
    node_id: NodeId,
    /// Whether the generation was raised once already past an earlier life.
    raised: bool,
    /// Start of the first probe period.
    first_period: Instant,
    periods: u64,
    version: u64,
    conflict_at: Option<Instant>,
}

/// One generator per consumer, so that a draw added in one place does not shift all others.
struct Rngs {
    schedule: Xoshiro256PlusPlus,
    relays: Xoshiro256PlusPlus,
    spread: Xoshiro256PlusPlus,
    contact: Xoshiro256PlusPlus,
    join: Xoshiro256PlusPlus,
}

/// The wall clock as last told, used only to judge generations.
struct WallClock {
    since_epoch: Duration,
    told_at: Instant,
    /// Every answer to a join said that the own generation is ahead of the clock.
    ahead: bool,
}

impl Node {
    /// A node that starts at `now`. All its random choices follow from `rng_seed`.
    ///
    /// # Errors
    /// The configuration or the identity breaks a rule.
    pub fn new(
        identity: Identity,
        config: Config,
        bootstrap: Bootstrap,
        rng_seed: u64,
        now: Instant,
    ) -> Result<Self, NodeError> {
        config.check()?;
        let record = own_record(&identity);
        if let Some(metadata) = &record.metadata {
            metadata.check()?;
        }
        let mut rngs = Rngs::new(rng_seed);
        let hash = identity.name.hash();
        let mut table = Table::new(hash, config.dead_retention, now);
        table.merge(now, &record, Age(0), || Peer::new(now, &config));
        let first_period = now + config.probe_period.mul_f64(rngs.share());
        let mut timers = Timers::default();
        timers.set(Timer::Period, now, first_period.since(now));
        Ok(Node {
            cluster: ClusterTag::of(&identity.cluster),
            life: match bootstrap {
                Bootstrap::Alone => Life::Ready,
                Bootstrap::Join => Life::Joining,
            },
            local: Local {
                name: identity.name,
                hash,
                generation: identity.generation,
                node_id: identity.node_id,
                raised: false,
                first_period,
                periods: 0,
                version: 1,
                conflict_at: None,
            },
            now,
            table,
            timers,
            schedule: RoundRobin::default(),
            probes: ProbeBook::new(rngs.relays.next_u32()),
            cases: BTreeMap::new(),
            misses: MissEstimate::default(),
            health: Health::new(config.late_threshold, 2 * config.probe_period),
            contact_at: Instant::ORIGIN,
            isolated: false,
            news: Dissemination::default(),
            push_budget: ByteBucket::new(config.push_rate, config.push_burst, now),
            pushed_at: Instant::ORIGIN,
            heartbeat_cursor: NameHash::MIN,
            exchanges: BTreeMap::new(),
            next_exchange: 0,
            repair: Repair::new(config.mismatch_timeout),
            joins: JoinBook::new(config.join_retry),
            admissions: BTreeMap::new(),
            leaving: None,
            rngs,
            wall: WallClock {
                since_epoch: Duration::ZERO,
                told_at: now,
                ahead: false,
            },
            stats: Stats::default(),
            config,
        })
    }

    /// Takes one input in at `now` and appends its consequences to `outbox`.
    pub fn handle(&mut self, now: Instant, input: Input<'_>, outbox: &mut Outbox) {
        assert!(
            now >= self.now,
            "time went back from {:?} to {now:?}",
            self.now
        );
        self.now = now;
        match input {
            Input::Datagram { from, payload } => self.on_datagram(from, payload, outbox),
            Input::Request {
                stream,
                from,
                frame,
            } => self.on_request(stream, from, frame, outbox),
            Input::Reply { exchange, frame } => self.on_reply(exchange, frame, outbox),
            Input::ExchangeEnded { exchange } => self.on_exchange_ended(exchange, outbox),
            Input::Deadline => self.on_deadline(outbox),
            Input::Join { addresses } => self.on_join(addresses, outbox),
            Input::Leave { timeout } => self.on_leave(timeout, outbox),
            Input::WallClock { since_epoch } => self.wall.tell(now, since_epoch),
        }
        self.arm_push();
    }

    /// When [`Input::Deadline`] is next wanted. There always is a next deadline.
    #[must_use]
    pub fn next_deadline(&self) -> Instant {
        self.timers.next().unwrap_or(Instant::FAR_FUTURE)
    }

    /// The own heartbeat, larger after every call that changed the own record and every period.
    fn heartbeat(&self) -> HeartbeatState {
        HeartbeatState {
            generation: self.local.generation,
            version: Version(self.local.version),
        }
    }

    /// The own heartbeat counts on, and the own record shows it.
    fn bump_version(&mut self) {
        self.local.version += 1;
        let heartbeat = self.heartbeat();
        if let Some(entry) = self.table.get_mut(self.local.hash) {
            entry.record.heartbeat = heartbeat;
        }
    }

    /// The own standing.
    fn own_standing(&self) -> Standing {
        match self.table.get(self.local.hash) {
            Some(entry) => entry.record.standing,
            None => Standing::alive(self.local.generation, self.local.node_id),
        }
    }
}

/// The record with which a node starts.
fn own_record(identity: &Identity) -> Record {
    let metadata = Metadata {
        generation: identity.generation,
        node_id: identity.node_id,
        version: 0,
        address: identity.address,
        tags: identity.tags.clone(),
        services: identity.services.clone(),
        wire: WireRange {
            min: wire::VERSION,
            max: wire::VERSION,
        },
    };
    Record {
        name: identity.name.clone(),
        standing: Standing::alive(identity.generation, identity.node_id),
        heartbeat: HeartbeatState {
            generation: identity.generation,
            version: Version(1),
        },
        metadata: Some(metadata.into()),
    }
}

impl Peer {
    fn new(now: Instant, config: &Config) -> Self {
        Peer {
            window: ArrivalWindow::new(now, config.probe_period),
            round_trip: RoundTrip::default(),
            answered_at: Instant::ORIGIN,
        }
    }
}

impl Rngs {
    fn new(rng_seed: u64) -> Self {
        let fork = |consumer: u64| {
            Xoshiro256PlusPlus::seed_from_u64(
                rng_seed ^ consumer.wrapping_mul(0x9e37_79b9_7f4a_7c15),
            )
        };
        Rngs {
            schedule: fork(1),
            relays: fork(2),
            spread: fork(3),
            contact: fork(4),
            join: fork(5),
        }
    }

    /// A number from 0 to 1, for the offset of the own periods.
    fn share(&mut self) -> f64 {
        f64::from(self.schedule.next_u32()) / f64::from(u32::MAX)
    }
}

/// Generations may lie this far ahead of the clock.
const GENERATION_AHEAD_MAX: u64 = 24 * 3600;
/// The wall clock is at least here: when this version was made. A machine that starts without a
/// clock would otherwise refuse everybody.
pub const RELEASE_UNIX_SECONDS: u64 = 1_795_996_800;

impl WallClock {
    fn tell(&mut self, now: Instant, since_epoch: Duration) {
        self.since_epoch = since_epoch;
        self.told_at = now;
    }

    /// Whether a generation is so far ahead of the clock that it must be a mistake; measured from
    /// the clock and not from a stored generation, which may be years old (scylladb/scylladb#5164).
    fn is_ahead(&self, now: Instant, generation: Generation) -> bool {
        let seconds = (self.since_epoch + now.since(self.told_at)).as_secs();
        generation.0 > seconds.max(RELEASE_UNIX_SECONDS) + GENERATION_AHEAD_MAX
    }
}
