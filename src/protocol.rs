//! The protocol core: a state machine without IO, clock or global randomness.
//!
//! [`Node`] is the hub. Its children `receive`, `updates`, `spreading`, `agreeing`, `probing`,
//! `cases`, `asking`, `isolation`, `noting`, `explaining`, `exchanging`, `serving`, `admitting`,
//! `joining`, `remembering`, `conflict`, `streams`, `leaving`, `reachability`, `unreached`,
//! `periodic`, and of user events `eventing`, `event_taking`, `acknowledging`, `event_asking`,
//! `event_repair` and `event_pulling`, hold control flow. The others are leaves, which know no
//! other leaf.

mod accrual;
mod acknowledging;
mod admitting;
mod agreeing;
mod agreement;
mod asking;
mod case;
mod cases;
mod config;
mod conflict;
mod describing;
mod digest;
mod dissemination;
mod event_asking;
mod event_book;
mod event_keep;
mod event_owing;
mod event_pulling;
mod event_pulls;
mod event_repair;
mod event_taking;
mod event_telling;
mod eventing;
mod evicting;
mod exchange;
mod exchanging;
mod explaining;
mod forgetting;
mod healing;
mod health;
mod heartbeats;
mod hold;
mod input;
mod isolation;
mod join_book;
mod joining;
mod leases;
mod leaving;
mod ledger;
mod life;
mod local;
mod loss;
mod noting;
mod outbox;
mod paths;
mod patience;
mod periodic;
mod probe;
mod probing;
mod pulling;
mod pulls;
mod quarantine;
mod reach_reports;
mod reachability;
mod receive;
mod relays;
mod remembered;
mod remembering;
mod repair;
mod rngs;
mod round_robin;
mod round_trip;
mod scheduling;
mod serving;
mod settle;
mod skew;
mod slots;
mod spreading;
mod stats;
mod stream_watch;
mod streams;
mod table;
mod timers;
mod trial;
mod unreached;
mod updates;
mod view;
mod waking;
mod wall_clock;

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::time::Duration;

use rand::Rng;

use crate::member::{HeartbeatState, NameHash, Standing, Version};
use crate::time::Instant;
use crate::wire::ClusterTag;

pub use accrual::{ArrivalWindow, PHI_MAX, phi_loss_aware, phi_normal};
pub use agreeing::{AgreementState, Laggard};
pub use config::{Config, ConfigError, Schedule, Spreading};
pub use conflict::Rival;
pub use eventing::{DeliveryState, EventBacklog};
pub use forgetting::Forgetting;
pub use input::{Bootstrap, EventMark, Identity, Input, MetadataChange, NodeError};
pub use life::Life;
pub use outbox::{
    Accusation, CasePhase, CaseReport, Event, EventKind, Evidence, ExchangeId, Explanation,
    HeartbeatReport, JoinOutcome, MemberEvent, MetadataOutcome, Outbox, OwnReport, PhiSample,
    ProbeReport, ProbeWay, RefusalReason, Refutation, RefutationReport, StreamId, Thresholds,
    Transmit, VerdictReport, WitnessReport,
};
pub use stats::{
    Counts, Direction, EventCount, ProbeKind, ProbeOutcome, Rejection, Stats, SuspicionOutcome,
    Transport,
};
pub use unreached::{Reach, ReachCause, UnreachedPair};
pub use view::{MemberState, NodeState};
pub use wall_clock::RELEASE_UNIX_SECONDS;

use admitting::Admission;
use agreement::Agreement;
use case::Case;
use conflict::Conflict;
use dissemination::{ByteBucket, Dissemination};
use eventing::EventState;
use evicting::Evictions;
use exchange::Running;
use forgetting::Removals;
use health::Health;
use hold::Hold;
use join_book::JoinBook;
use leaving::Leaving;
use ledger::LedgerBook;
use local::Local;
use loss::MissEstimate;
use probe::ProbeBook;
use pulling::MetadataBook;
use reachability::Sight;
use remembered::MemoryBook;
use repair::Repair;
use rngs::Rngs;
use round_robin::RoundRobin;
use round_trip::RoundTrip;
use serving::Serving;
use settle::Settle;
use skew::Skew;
pub use slots::PeriodStart;
use slots::Slots;
use streams::Exchange;
use table::Table;
pub use table::{MEMBERS_MAX, Roster};
use timers::{Timer, Timers};
use wall_clock::WallClock;

// With its twelve bytes in the index a known member costs 60 bytes beside its record.
const _: () = assert!(size_of::<table::Entry<ArrivalWindow>>() <= 48);

/// What a node keeps about a member that it has exchanged messages with, beside its entry in the
/// table. With the slotted schedule that is a small part of a large cluster.
#[derive(Debug, Default)]
struct Contact {
    round_trip: RoundTrip,
    /// When it last answered a question of this node.
    answered_at: Option<Instant>,
    /// When it was heard to begin a period.
    period_start: Option<PeriodStart>,
    /// When it last told this node itself which table it holds.
    table_at: Option<Instant>,
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
    table: Table<ArrivalWindow>,
    contacts: BTreeMap<NameHash, Contact>,
    timers: Timers,
    // Detection.
    round_robin: RoundRobin,
    slots: Slots,
    probes: ProbeBook,
    cases: BTreeMap<NameHash, Case>,
    misses: MissEstimate,
    health: Health,
    ledgers: LedgerBook,
    /// The latest answer from anybody to a question of this node.
    contact_at: Instant,
    isolated: bool,
    evictions: Evictions,
    sight: Sight,
    // Spreading.
    news: Dissemination,
    push_budget: ByteBucket,
    pushed_at: Instant,
    heartbeat_cursor: NameHash,
    agreement: Agreement,
    metadata: MetadataBook,
    events: EventState,
    // Streams.
    exchanges: BTreeMap<ExchangeId, Exchange>,
    next_exchange: u64,
    serving: Serving,
    // Exchanges of tables.
    repair: Repair,
    running: Option<Running>,
    settle: Settle,
    // Joining and leaving.
    joins: JoinBook,
    remembered: MemoryBook,
    admissions: BTreeMap<StreamId, Admission>,
    conflict: Conflict,
    leaving: Option<Leaving>,
    // Removals.
    removals: Removals,
    // Partitions that heal.
    /// Who sent the message that is being handled.
    teller: Option<NameHash>,
    hold: Hold,
    rngs: Rngs,
    wall: WallClock,
    skew: Skew,
    stats: Stats,
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
        let told = identity.record()?;
        let mut rngs = Rngs::new(rng_seed);
        let hash = identity.name.hash();
        let mut table = Table::new(hash, config.dead_retention, now);
        table.merge(now, &told, || ArrivalWindow::new(config.probe_period));
        let first_period = now + config.probe_period.mul_f64(rngs.share());
        let timers = Timers::beginning_with(Timer::Period, now, first_period.since(now));
        let mut node = Node {
            cluster: ClusterTag::of(&identity.cluster),
            life: Life::at_start(bootstrap == Bootstrap::Join),
            local: Local::new(
                identity.name,
                identity.generation,
                identity.node_id,
                first_period,
            ),
            now,
            table,
            contacts: BTreeMap::new(),
            timers,
            round_robin: RoundRobin::default(),
            slots: Slots::new(hash, config.probe_period, now),
            probes: ProbeBook::new(rngs.first_seq()),
            cases: BTreeMap::new(),
            misses: MissEstimate::default(),
            health: Health::new(config.late_threshold, config.probe_period),
            ledgers: LedgerBook::default(),
            contact_at: Instant::ORIGIN,
            isolated: false,
            evictions: Evictions::default(),
            sight: Sight::new(hash, now),
            news: Dissemination::new(config.spreading),
            push_budget: ByteBucket::new(config.push_rate, config.push_burst, now),
            pushed_at: Instant::ORIGIN,
            heartbeat_cursor: NameHash::MIN,
            agreement: Agreement::default(),
            metadata: MetadataBook::new(now),
            events: EventState::new(&config, now),
            exchanges: BTreeMap::new(),
            next_exchange: 0,
            serving: Serving::new(rngs.exchange.next_u64(), now),
            repair: Repair::new(config.mismatch_timeout),
            running: None,
            settle: Settle::default(),
            joins: JoinBook::new(config.join_retry),
            remembered: MemoryBook::default(),
            admissions: BTreeMap::new(),
            conflict: Conflict::default(),
            leaving: None,
            removals: Removals::default(),
            teller: None,
            hold: Hold::new(hash, config.heal_hold),
            rngs,
            wall: WallClock::new(now),
            skew: Skew::default(),
            stats: Stats::default(),
            config,
        };
        node.follow_table();
        Ok(node)
    }

    /// Takes one input in at `now` and appends its consequences to `outbox`.
    pub fn handle(&mut self, now: Instant, input: Input<'_>, outbox: &mut Outbox) {
        assert!(
            now >= self.now,
            "time went back from {:?} to {now:?}",
            self.now
        );
        let overslept = self.has_overslept(now).then(|| now.since(self.now));
        self.now = now;
        self.teller = None;
        if let Some(slept) = overslept {
            self.wake_up(slept, outbox);
        }
        match input {
            Input::Datagram { .. } | Input::Request { .. } if self.is_closed().is_some() => {
                self.turn_away(&input, outbox);
            }
            Input::Datagram { from, payload } => self.on_datagram(from, payload, outbox),
            Input::Request { stream, frame, .. } => self.on_request(stream, frame, outbox),
            Input::Reply { exchange, frame } => self.on_reply(exchange, frame, outbox),
            Input::StreamClosed { stream } => self.on_stream_closed(stream),
            Input::Forget { name } => self.on_forget(name, outbox),
            Input::Return => self.on_return(outbox),
            Input::ExchangeEnded { exchange } => self.on_exchange_ended(exchange, outbox),
            Input::Deadline => return self.on_deadline(outbox),
            Input::Join { addresses } => self.on_join(addresses, outbox),
            Input::Remember { members } => self.on_remember(members),
            Input::Leave { timeout } => self.on_leave(timeout, outbox),
            Input::Describe { change } => self.on_describe(change, outbox),
            Input::Publish { events } => self.on_publish(events),
            Input::Stored { events } => self.on_stored(events, outbox),
            Input::RestoreEvents { events, marks } => self.on_restore_events(events, marks),
            Input::WallClock { since_epoch } => self.on_wall_clock(since_epoch),
            Input::AwaitAgreement { length, pause } => self.on_await_agreement(length, pause),
        }
        self.arm_timers();
    }

    /// When [`Input::Deadline`] is next wanted. There always is a next deadline.
    #[must_use]
    pub fn next_deadline(&self) -> Instant {
        self.timers.next().unwrap_or(Instant::FAR_FUTURE)
    }

    fn on_wall_clock(&mut self, since_epoch: Duration) {
        self.wall.tell(self.now, since_epoch);
        self.skew.forget();
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
        let version = Version(self.local.version);
        if let Some(entry) = self.table.get_mut(self.local.hash) {
            entry.version = version;
        }
    }

    /// What is known of the exchanges with `member`.
    fn contact(&self, member: NameHash) -> Option<&Contact> {
        self.contacts.get(&member)
    }

    /// The same, to be changed; begun for a member of the table.
    fn contact_mut(&mut self, member: NameHash) -> Option<&mut Contact> {
        match self.contacts.entry(member) {
            Entry::Occupied(entry) => Some(entry.into_mut()),
            Entry::Vacant(entry) => {
                self.table.get(member)?;
                Some(entry.insert(Contact::default()))
            }
        }
    }

    /// `member` has answered a question of `asked_at`; what is known of it, if it is in the table.
    /// An answer that was long under way says that it lived then, and no more.
    fn note_answer(&mut self, member: NameHash, asked_at: Instant) -> Option<&mut Contact> {
        let lived_at = match self.is_stale(asked_at) {
            true => asked_at,
            false => self.now,
        };
        let contact = self.contact_mut(member)?;
        contact.answered_at = contact.answered_at.max(Some(lived_at));
        Some(contact)
    }

    /// When `member` last answered a question of this node.
    fn answered_at(&self, member: NameHash) -> Option<Instant> {
        self.contact(member)?.answered_at
    }

    /// The own standing.
    fn own_standing(&self) -> Standing {
        match self.table.get(self.local.hash) {
            Some(entry) => entry.record.standing,
            None => Standing::alive(self.local.generation, self.local.node_id),
        }
    }
}
