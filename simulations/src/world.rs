//! The loop that hands everything to the cores, and everything that can be done to them.

mod connecting;
mod delivering;
mod describing;
mod faults;
mod hosts;
mod lifecycle;
mod memory;
mod publishing;
mod questions;
mod tampering;
mod watching;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use rand::rngs::Xoshiro256PlusPlus;
use rumord::member::EventRef;
use rumord::protocol::{Config, Event, EventCount, Input, Node, Outbox, RELEASE_UNIX_SECONDS};
use rumord::time::Instant;

pub use lifecycle::{AddressChoice, GenerationChoice, NodeIdChoice, Restart, Start};
pub use questions::MemberNews;
pub use tampering::{TAMPERING_WORDS, Tampering};
pub use watching::WatchId;

use crate::checker::{Checker, Violation};
use crate::forks::{Consumer, fork};
use crate::link::Link;
use crate::network::{Network, Packet};
use crate::process::{Process, ProcessId};
use crate::queue::{Class, Queue};
use crate::store::Published;
use crate::streams::{ConnectionId, Connections, Step};
use crate::trace::{Trace, Tracing};

/// What the wall clock shows when a run begins: a day after the release, in whole seconds.
const EPOCH: Duration = Duration::from_secs(RELEASE_UNIX_SECONDS + 24 * 3600);
/// Things handled at one instant before a run is taken to be stuck.
const STEPS_PER_INSTANT_MAX: usize = 10_000_000;

/// What to do when an invariant does not hold.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OnViolation {
    /// Panic, with the seed and the instant.
    Panic,
    /// Keep it, and go on.
    Keep,
}

/// Which events of the nodes are kept.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Keeping {
    /// All but the noise of single probes.
    Events,
    /// None: a thousand nodes that join say a million things.
    Nothing,
}

/// Whether the invariants are looked at.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Checking {
    /// After every event.
    Everything,
    /// Never: in a cluster of thousands looking takes longer than the run.
    Nothing,
}

/// How a run is made.
#[derive(Clone, Debug)]
pub struct Options {
    /// Everything random follows from it.
    pub seed: u64,
    /// The protocol's parameters, for every node.
    pub config: Config,
    /// Every link, unless said otherwise.
    pub link: Link,
    /// Whether to write a trace.
    pub tracing: Tracing,
    /// Which events to keep.
    pub keeping: Keeping,
    /// Whether to look at the invariants.
    pub checking: Checking,
    /// What to do when an invariant does not hold.
    pub on_violation: OnViolation,
    /// How the nodes are broken on purpose.
    pub tampering: Tampering,
}

impl Options {
    /// The default parameters on a flawless LAN.
    #[must_use]
    pub fn seeded(seed: u64) -> Self {
        Options {
            seed,
            config: Config::lan(),
            link: Link::LAN,
            tracing: Tracing::Off,
            keeping: Keeping::Events,
            checking: Checking::Everything,
            on_violation: OnViolation::Panic,
            tampering: Tampering::None,
        }
    }
}

/// Something that is due.
#[derive(Debug)]
enum Happening {
    /// A datagram reaches an address.
    Datagram(Packet),
    /// Something happens to a connection.
    Stream(ConnectionId, Step),
    /// A process is itself again, unless its condition has changed since.
    Resume(ProcessId, u64),
    /// A starved process stands still again, unless its condition has changed since.
    Stall(ProcessId, u64),
    /// A process looks whether its wall clock was set.
    LookAtWallClock(ProcessId),
    /// A process's clock reaches its deadline.
    Deadline(ProcessId),
}

/// Real cores in virtual time.
pub struct World {
    options: Options,
    now: Instant,
    queue: Queue<Happening>,
    network: Network,
    connections: Connections,
    processes: Vec<Process>,
    listeners: BTreeMap<SocketAddr, ProcessId>,
    outbox: Outbox,
    checker: Checker,
    /// Every event that clients sent.
    published: Published,
    watches: Vec<watching::Watch>,
    trace: Trace,
    nodes_rng: Xoshiro256PlusPlus,
    hosts_rng: Xoshiro256PlusPlus,
    /// Counts what a question about the cluster may depend on.
    changes: u64,
    /// Things handled at the present instant.
    handled: u64,
    /// Things handled in all.
    events: u64,
}

impl World {
    /// An empty world.
    #[must_use]
    pub fn new(options: Options) -> Self {
        World {
            now: Instant::ORIGIN,
            queue: Queue::new(),
            network: Network::new(options.seed, options.link),
            connections: Connections::default(),
            processes: Vec::new(),
            listeners: BTreeMap::new(),
            outbox: Outbox::new(),
            checker: Checker::default(),
            published: Published::new(),
            watches: Vec::new(),
            trace: Trace::new(options.tracing),
            nodes_rng: fork(options.seed, Consumer::Nodes),
            hosts_rng: fork(options.seed, Consumer::Hosts),
            changes: 0,
            handled: 0,
            events: 0,
            options,
        }
    }

    /// Time passes.
    pub fn run_for(&mut self, length: Duration) {
        let end = self.now + length;
        while self.step_until(end) {}
        self.check_books();
    }

    /// Time passes until `holds`, or for `bound`. How long it took; `None` if it does not hold
    /// then. The question is asked whenever an answer may have changed.
    pub fn run_until(
        &mut self,
        bound: Duration,
        mut holds: impl FnMut(&World) -> bool,
    ) -> Option<Duration> {
        let start = self.now;
        let end = start + bound;
        let mut asked = None;
        loop {
            if asked != Some(self.changes) {
                asked = Some(self.changes);
                if holds(self) {
                    self.check_books();
                    return Some(self.now.since(start));
                }
            }
            if !self.step_until(end) {
                self.check_books();
                return None;
            }
        }
    }

    /// Handles the next thing that is due up to `end`; false, and `end` is reached, when nothing
    /// is.
    fn step_until(&mut self, end: Instant) -> bool {
        let due = self.queue.next_at().filter(|&at| at <= end);
        let Some((at, happening)) = due.and_then(|_| self.queue.pop()) else {
            self.now = end;
            self.handled = 0;
            return false;
        };
        self.handled = if at == self.now { self.handled + 1 } else { 0 };
        assert!(
            self.handled as usize <= STEPS_PER_INSTANT_MAX,
            "time stands still at {at:?}"
        );
        self.now = at;
        self.events += 1;
        match happening {
            Happening::Datagram(packet) => self.arrive(packet),
            Happening::Stream(id, step) => self.on_stream(id, step),
            Happening::Resume(id, change) => self.on_resume(id, change),
            Happening::Stall(id, change) => self.on_stall(id, change),
            Happening::LookAtWallClock(id) => self.look_at_wall_clock(id),
            Happening::Deadline(id) => self.on_deadline(id),
        }
        true
    }

    fn on_deadline(&mut self, id: ProcessId) {
        let process = &mut self.processes[id.0];
        if process.armed != Some(self.now) {
            return;
        }
        process.armed = None;
        if !process.runs() {
            return;
        }
        let local = process.clock.local(self.now);
        let due = process.node.next_deadline();
        if due <= local {
            let late = local.since(due).as_secs_f64();
            let process = Some(&self.processes[id.0]);
            self.trace
                .note(self.now, process, "wake", format_args!("{late:.6}"));
            self.feed(id, Input::Deadline);
            let moved_on = self
                .checker
                .invariant_deadline_moves_on(self.now, &self.processes[id.0]);
            self.report(moved_on);
        } else {
            self.arm(id);
        }
    }

    /// Hands one input to a core, and deals with what comes out.
    fn feed(&mut self, id: ProcessId, input: Input<'_>) {
        let mut outbox = std::mem::take(&mut self.outbox);
        outbox.clear();
        let process = &mut self.processes[id.0];
        let revision = process.node.revision();
        let acks = acks_of(&process.node);
        let local = process.clock.local(self.now);
        process.node.handle(local, input, &mut outbox);
        let told = outbox.events.len();
        let stored: Vec<EventRef> = outbox.events.iter().filter_map(user_event).collect();
        outbox.events.retain(|event| !is_noise(event));
        for event in outbox.events.drain(..) {
            self.on_event(id, event);
        }
        for transmit in outbox.transmits.drain(..) {
            self.transmit(id, transmit);
        }
        let changed = self.processes[id.0].node.revision() != revision;
        if told > 0 || changed || acks_of(&self.processes[id.0].node) != acks {
            self.changes += 1;
        }
        if changed {
            self.look_at_watches(id);
        }
        if self.options.checking == Checking::Everything {
            let sound = self.checker.inspect(self.now, &self.processes[id.0]);
            self.report(sound);
        }
        self.outbox = outbox;
        self.arm(id);
        if !stored.is_empty() {
            self.feed(id, Input::Stored { events: &stored });
        }
    }

    fn on_event(&mut self, id: ProcessId, event: Event) {
        let process = &mut self.processes[id.0];
        let sound = self
            .checker
            .inspect_event(self.now, process, &event, &self.options.config);
        let taken = process.store.take(&event, &self.published);
        let kept = self.checker.invariant_events(self.now, process, taken);
        self.trace
            .note(self.now, Some(process), "event", format_args!("{event:?}"));
        if self.options.keeping == Keeping::Events {
            process.events.push((self.now, event));
        }
        self.report(sound);
        self.report(kept);
    }

    /// Puts the next deadline of a process into the queue, unless an earlier one is there.
    fn arm(&mut self, id: ProcessId) {
        let process = &mut self.processes[id.0];
        if !process.runs() {
            return;
        }
        let due = process.fires_at(&mut self.hosts_rng).max(self.now);
        if process.armed.is_none_or(|armed| armed > due) {
            process.armed = Some(due);
            self.queue
                .push(due, Class::Deadline, Happening::Deadline(id));
        }
    }

    fn report(&mut self, outcome: Result<(), Violation>) {
        let Err(violation) = outcome else { return };
        self.trace
            .note(self.now, None, "violation", format_args!("{violation}"));
        if self.options.on_violation == OnViolation::Panic {
            panic!("seed {}, at {:?}: {violation}", self.options.seed, self.now);
        }
        self.checker.keep(violation);
    }

    /// What must be under way is under way.
    fn check_books(&mut self) {
        let flying = self
            .queue
            .iter()
            .filter(|happening| matches!(happening, Happening::Datagram(_)))
            .count();
        let waiting: usize = self.processes.iter().map(Process::waiting_datagrams).sum();
        let open = (flying + waiting + self.network.held()) as u64;
        let sound =
            self.checker
                .invariant_packets_are_conserved(self.now, self.network.tally(), open);
        self.report(sound);
    }
}

/// The event that comes out, if one does.
fn user_event(event: &Event) -> Option<EventRef> {
    match event {
        Event::User(event) => Some(event.event_ref()),
        _ => None,
    }
}

/// How many messages about who has which events have come: each may change what a sender knows.
fn acks_of(node: &Node) -> u64 {
    node.stats().events.get(EventCount::Acks)
}

/// Whether an event is about a single probe or deadline.
fn is_noise(event: &Event) -> bool {
    matches!(event, Event::ProbeAnswered(_) | Event::Late(_))
}
