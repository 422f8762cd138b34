//! Processes start, restart, crash and leave.

use std::collections::BTreeMap;
use std::fmt;
use std::net::SocketAddr;
use std::time::Duration;

use rand::{Rng, RngExt};
use rumord::member::{Generation, NameHash, NodeId, NodeName};
use rumord::protocol::{Bootstrap, Identity, Input, Node, PeriodStart, Roster};
use rumord::time::Instant;

use super::World;
use crate::process::{Clock, Condition, Lateness, Process, ProcessId};
use crate::store::EventStore;

/// The port of every node that is not given an address.
const PORT: u16 = 7480;
/// Join addresses of a restarted node.
const JOIN_ADDRESSES: usize = 3;
/// Members that join at a time in [`World::start_cluster`].
const START_BATCH: usize = 50;
/// How often it is looked whether they have come together.
const START_POLL: Duration = Duration::from_millis(10);
/// What a clock may show when its process starts.
const CLOCK_ORIGIN_SECONDS_MAX: u64 = 10_000_000;

/// How a node is started. Begin with [`Start::named`].
#[derive(Clone, Debug)]
pub struct Start {
    /// The member's name.
    pub name: NodeName,
    /// The cluster's name.
    pub cluster: String,
    /// Its generation; the clock's seconds where absent.
    pub generation: Option<Generation>,
    /// Which process holds the name; random where absent.
    pub node_id: Option<NodeId>,
    /// Where it listens; an unused address where absent.
    pub address: Option<SocketAddr>,
    /// Where it joins.
    pub join: Vec<SocketAddr>,
    /// How much too fast its clock runs, in millionths.
    pub drift_ppm: i32,
    /// How far its host's wall clock is ahead of the true time, in seconds; it may be behind.
    pub wall_ahead: i64,
}

impl Start {
    /// A node of the cluster `default` that joins nobody.
    ///
    /// # Panics
    /// `name` is not a member name.
    #[must_use]
    pub fn named(name: &str) -> Self {
        let name = match name.parse() {
            Ok(name) => name,
            Err(error) => panic!("{name:?}: {error}"),
        };
        Start {
            name,
            cluster: "default".into(),
            generation: None,
            node_id: None,
            address: None,
            join: Vec::new(),
            drift_ppm: 0,
            wall_ahead: 0,
        }
    }

    /// The same, joining through `addresses`.
    #[must_use]
    pub fn joining(self, addresses: impl IntoIterator<Item = SocketAddr>) -> Self {
        let join = addresses.into_iter().collect();
        Start { join, ..self }
    }
}

/// The generation of a restarted node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum GenerationChoice {
    /// Above the last one and not below the clock, as a node with a data directory does it.
    Next,
    /// The clock's seconds, as a node without one does it.
    Clock,
    /// This one.
    Exactly(Generation),
}

/// The node id of a restarted node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NodeIdChoice {
    /// The same: it has a data directory, and with it the members that it knew.
    Kept,
    /// Another: it has none, or it is another machine.
    Fresh,
}

/// The address of a restarted node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AddressChoice {
    /// The same.
    Kept,
    /// One that was never used.
    Fresh,
}

/// What is the same after a restart, and what is not.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Restart {
    /// Its generation.
    pub generation: GenerationChoice,
    /// Its node id.
    pub node_id: NodeIdChoice,
    /// Its address.
    pub address: AddressChoice,
}

impl fmt::Display for Restart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.address {
            AddressChoice::Kept => "at its address",
            AddressChoice::Fresh => "at another address",
        })?;
        f.write_str(match self.node_id {
            NodeIdChoice::Kept => " with its node id",
            NodeIdChoice::Fresh => " with another node id",
        })?;
        match self.generation {
            GenerationChoice::Next => f.write_str(" and the next generation"),
            GenerationChoice::Clock => f.write_str(" and the clock's generation"),
            GenerationChoice::Exactly(generation) => write!(f, " and generation {generation}"),
        }
    }
}

impl Default for Restart {
    /// A node with a data directory on the same machine.
    fn default() -> Self {
        Restart {
            generation: GenerationChoice::Next,
            node_id: NodeIdChoice::Kept,
            address: AddressChoice::Kept,
        }
    }
}

impl World {
    /// Starts a node.
    ///
    /// # Panics
    /// Somebody listens at the address already, or the node cannot be made.
    pub fn start(&mut self, start: Start) -> ProcessId {
        let id = ProcessId(self.processes.len());
        let address = start.address.unwrap_or_else(|| unused_address(id));
        assert!(!self.listeners.contains_key(&address), "{address} is taken");
        let wall = self.wall_clock(start.wall_ahead);
        let generation = start.generation.unwrap_or(Generation(wall.as_secs()));
        let node_id = start.node_id.unwrap_or(NodeId(self.nodes_rng.next_u64()));
        let identity = Identity {
            name: start.name,
            cluster: start.cluster,
            generation,
            node_id,
            address,
            tags: BTreeMap::new(),
            services: Vec::new(),
        };
        let mut process = self.new_process(id, identity, &start.join, start.drift_ppm);
        process.wall_ahead = start.wall_ahead;
        self.trace.note(
            self.now,
            Some(&process),
            "start",
            format_args!("{address} {generation} {node_id}"),
        );
        self.processes.push(process);
        self.listeners.insert(address, id);
        self.changes += 1;
        self.feed(id, Input::WallClock { since_epoch: wall });
        if !start.join.is_empty() {
            self.join(id, &start.join);
        }
        id
    }

    fn new_process(
        &mut self,
        id: ProcessId,
        identity: Identity,
        join: &[SocketAddr],
        drift_ppm: i32,
    ) -> Process {
        let seconds = self.nodes_rng.random_range(1..CLOCK_ORIGIN_SECONDS_MAX);
        let clock = Clock {
            started: self.now,
            origin: Instant::ORIGIN + Duration::from_secs(seconds),
            drift_ppm,
        };
        let bootstrap = if join.is_empty() {
            Bootstrap::Alone
        } else {
            Bootstrap::Join
        };
        let (config, seed) = (self.options.config.clone(), self.nodes_rng.next_u64());
        let made = Node::new(identity.clone(), config, bootstrap, seed, clock.origin);
        let node = match made {
            Ok(node) => node,
            Err(error) => panic!("{}: {error}", identity.name),
        };
        Process {
            id,
            name: identity.name,
            cluster: identity.cluster,
            generation: identity.generation,
            node_id: identity.node_id,
            address: identity.address,
            condition: Condition::Running,
            node,
            clock,
            wall_ahead: 0,
            lateness: Lateness::None,
            events: Vec::new(),
            store: EventStore::of(id, None),
            sent: BTreeMap::new(),
            ended_at: None,
            changes: 0,
            starved_until: None,
            late: None,
            armed: None,
            inbox: Default::default(),
            unsent: Vec::new(),
        }
    }

    /// Starts `count` nodes called `n1`, `n2` and so on, which join through the first, and waits
    /// until all see all alive.
    ///
    /// # Panics
    /// They do not within ten minutes.
    pub fn start_cluster(&mut self, count: usize) -> Vec<ProcessId> {
        let mut nodes = Vec::new();
        for batch in (1..=count).collect::<Vec<_>>().chunks(START_BATCH) {
            for n in batch {
                let join = nodes.first().map(|&first| self.address(first));
                nodes.push(self.start(Start::named(&format!("n{n}")).joining(join)));
            }
            self.run_for(Duration::from_millis(100));
        }
        let bound = self.now + Duration::from_secs(600);
        while !self.all_alive() {
            assert!(self.now < bound, "{count} nodes did not come together");
            self.run_for(START_POLL);
        }
        nodes
    }

    /// Starts `count` nodes called `n1`, `n2` and so on that know each other from the start, as a
    /// cluster that came together long ago.
    pub fn start_full(&mut self, count: usize) -> Vec<ProcessId> {
        let nodes: Vec<ProcessId> = (1..=count)
            .map(|n| self.start(Start::named(&format!("n{n}"))))
            .collect();
        let own_record = |&id: &ProcessId| {
            let process = &self.processes[id.0];
            process.node.record_of(&process.name).cloned()
        };
        let roster = Roster::new(nodes.iter().filter_map(own_record));
        let begun = self.first_periods(&nodes);
        let answered = 1.0 - self.options.link.loss.share();
        for &id in &nodes {
            let process = &mut self.processes[id.0];
            let start = |member| {
                let &at = begun.get(&member)?;
                let at = process.clock.local(at);
                Some(PeriodStart { at, number: 0 })
            };
            let misses = 1.0 - answered * answered;
            process.node.preload(&roster, misses, start);
            self.arm(id);
        }
        self.changes += 1;
        nodes
    }

    /// When the first period of each begins, in the world's time.
    fn first_periods(&self, nodes: &[ProcessId]) -> BTreeMap<NameHash, Instant> {
        let first = |&id: &ProcessId| {
            let process = &self.processes[id.0];
            let begins = process.node.first_period().at;
            (process.name.hash(), process.clock.reaches(begins))
        };
        nodes.iter().map(first).collect()
    }

    /// Starts the node of a stopped process again. It joins through others that run. At its address
    /// it runs on the same host, by the same wall clock.
    ///
    /// # Panics
    /// The process has not stopped, or its address is taken.
    pub fn restart(&mut self, id: ProcessId, restart: Restart) -> ProcessId {
        let join = self.contacts(&self.processes[id.0].cluster);
        self.restart_through(id, restart, join)
    }

    /// The same, but it joins through `join` only.
    ///
    /// # Panics
    /// The process has not stopped, or its address is taken.
    pub fn restart_through(
        &mut self,
        id: ProcessId,
        restart: Restart,
        join: Vec<SocketAddr>,
    ) -> ProcessId {
        let old = &self.processes[id.0];
        let same_host = restart.address == AddressChoice::Kept;
        let wall_ahead = if same_host { old.wall_ahead } else { 0 };
        let wall = self.wall_clock(wall_ahead).as_secs();
        assert!(!old.is_up(), "{} has not stopped", old.name);
        let last = old.node.state().generation.0;
        let start = Start {
            name: old.name.clone(),
            cluster: old.cluster.clone(),
            generation: Some(match restart.generation {
                GenerationChoice::Next => Generation(wall.max(last + 1)),
                GenerationChoice::Clock => Generation(wall),
                GenerationChoice::Exactly(generation) => generation,
            }),
            node_id: (restart.node_id == NodeIdChoice::Kept).then_some(old.node_id),
            address: same_host.then_some(old.address),
            join,
            drift_ppm: old.clock.drift_ppm,
            wall_ahead,
        };
        let restarted = self.start(start);
        if restart.node_id == NodeIdChoice::Kept {
            self.remember(restarted, id);
            self.restore_events(restarted, id);
        }
        restarted
    }

    /// Addresses of some members of `cluster` that run.
    fn contacts(&self, cluster: &str) -> Vec<SocketAddr> {
        self.processes
            .iter()
            .filter(|process| process.is_up() && process.cluster == cluster)
            .map(|process| process.address)
            .take(JOIN_ADDRESSES)
            .collect()
    }

    /// A process joins through `addresses`.
    pub fn join(&mut self, id: ProcessId, addresses: &[SocketAddr]) {
        let process = Some(&self.processes[id.0]);
        self.trace
            .note(self.now, process, "join", format_args!("{addresses:?}"));
        self.feed(id, Input::Join { addresses });
    }

    /// Somebody waits at a process until all are known to agree, for `length`; messages for it are
    /// `pause` apart.
    pub fn await_agreement(&mut self, id: ProcessId, length: Duration, pause: Duration) {
        self.feed(id, Input::AwaitAgreement { length, pause });
    }

    /// A process begins to leave. It goes on running, as the daemon does until all is told.
    pub fn leave(&mut self, id: ProcessId, timeout: Duration) {
        let process = Some(&self.processes[id.0]);
        self.trace
            .note(self.now, process, "leave", format_args!("{timeout:?}"));
        self.feed(id, Input::Leave { timeout });
    }

    /// An operator has a process forget the member `name`.
    pub fn forget(&mut self, id: ProcessId, name: &NodeName) {
        let process = Some(&self.processes[id.0]);
        self.trace
            .note(self.now, process, "forget", format_args!("{name}"));
        self.feed(id, Input::Forget { name });
    }

    /// An operator has a process that was forgotten join again through `addresses`.
    pub fn rejoin(&mut self, id: ProcessId, addresses: &[SocketAddr]) {
        self.feed(id, Input::Return);
        self.join(id, addresses);
    }

    /// A process ends at once, without a word. Its host still refuses connections.
    pub fn crash(&mut self, id: ProcessId) {
        let process = &mut self.processes[id.0];
        if !process.is_up() {
            return;
        }
        process.condition = Condition::Stopped;
        process.ended_at = Some(self.now);
        process.changes += 1;
        process.armed = None;
        process.unsent.clear();
        let (lost, address) = (process.waiting_datagrams(), process.address);
        process.inbox.clear();
        for _ in 0..lost {
            self.network.drop(crate::network::Dropped::NoListener);
        }
        self.listeners.remove(&address);
        self.reset_streams(id);
        self.trace.note(
            self.now,
            Some(&self.processes[id.0]),
            "stop",
            format_args!(""),
        );
        self.changes += 1;
    }

    /// Who listens at `address`. Most often the number in it says so, and nothing is looked up.
    pub(super) fn listener(&self, address: SocketAddr) -> Option<ProcessId> {
        let numbered = owner(address).and_then(|id| self.processes.get(id.0));
        match numbered {
            Some(process) if process.address == address && process.is_up() => Some(process.id),
            _ => self.listeners.get(&address).copied(),
        }
    }
}

/// An address for the process `id` that no other process gets.
fn unused_address(id: ProcessId) -> SocketAddr {
    let number = id.0 as u32 + 1;
    let [_, a, b, c] = number.to_be_bytes();
    ([10, a, b, c], PORT).into()
}

/// The process that has `address` as [`unused_address`] gives them.
fn owner(address: SocketAddr) -> Option<ProcessId> {
    let SocketAddr::V4(address) = address else {
        return None;
    };
    let [_, a, b, c] = address.ip().octets();
    let number = u32::from_be_bytes([0, a, b, c]);
    number.checked_sub(1).map(|place| ProcessId(place as usize))
}
