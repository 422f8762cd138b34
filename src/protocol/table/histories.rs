//! Whether the dead stay dead: tables under random histories of a member that ends for good.
//!
//! Five nodes know a sixth, which ends. They tell each other of it over messages that take their
//! time, by clocks that drift, while one of them is cut off or stands still for longer than a
//! tombstone lives. Beside the rules as they are, each is broken on purpose: a test that cannot see
//! a broken rule says nothing about the right one.

use std::collections::BTreeMap;

use rand::rngs::Xoshiro256PlusPlus;
use rand::{RngExt, SeedableRng};

use super::*;
use crate::member::{Generation, NodeId, NodeName, Standing};
use crate::wire::Age;

const NODES: usize = 5;
/// All times are in units of this.
const UNIT: Duration = Duration::from_secs(60);
/// The life of a tombstone, in units.
const LIFE: u64 = 100;
/// After which time the end is looked at.
const END: u64 = 8 * LIFE;
/// How long a running detector takes.
const DETECTION: u64 = 3;
const SWEEP: u64 = 20;
const DELAY_MAX: u64 = 2;
/// What a socket holds: the oldest, for a full one drops what comes.
const BACKLOG_MAX: usize = 4;
const DRIFT_MAX: f64 = 0.01;

/// What happens to one of the nodes meanwhile.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Trouble {
    /// Nothing reaches it, and nothing it sends arrives; its detector runs.
    Cut,
    /// The same, and it concludes nothing, or nothing for longer than a quarter of a life.
    Braked { released: bool },
    /// It stands still, and what is sent to it waits.
    Frozen(Waking),
}

/// What a node does that stood still.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Waking {
    GoesOn,
    DropsTable,
    DropsTableAndBacklog,
}

/// How ages are dealt with.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Ages {
    /// Carried, and told in the first half of a life.
    Carried,
    /// Carried, and told until the end.
    ToldUntilTheEnd,
    /// Begun anew by everybody who learns, and told until the end.
    Restarted,
}

/// What became of the dead in one history, or in how many histories.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Seen {
    /// Alive at a node that had forgotten it.
    risen: usize,
    /// Dead at a node that had forgotten it.
    back: usize,
    /// Known to somebody at the end.
    immortal: usize,
}

struct Node {
    table: Table<()>,
    /// Its clock against the true one.
    rate: f64,
    offset: u64,
    sweeps_at: u64,
    had_purged: bool,
    backlog: Vec<RecordUpdate>,
}

impl Node {
    fn clock(&self, at: u64) -> Instant {
        let passed = UNIT.mul_f64(at as f64 * self.rate);
        Instant::ORIGIN + UNIT * self.offset as u32 + passed
    }
}

struct History {
    rng: Xoshiro256PlusPlus,
    nodes: Vec<Node>,
    dead: NameHash,
    record: Record,
    ages: Ages,
    trouble: Trouble,
    /// Who is in trouble, from when, until when.
    victim: usize,
    since: u64,
    until: u64,
    ends_at: u64,
    /// By the time of arrival: to whom, and what.
    flying: BTreeMap<u64, Vec<(usize, RecordUpdate)>>,
    seen: Seen,
}

impl History {
    fn new(seed: u64, trouble: Trouble, longest: f64, ages: Ages) -> Self {
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
        let name: NodeName = "x".parse().expect("valid");
        let record = Record {
            name: name.clone(),
            standing: Standing::alive(Generation(1), NodeId(1)),
            metadata: None,
        };
        // Listed for half a life, unless the rule is broken.
        let retention = UNIT * LIFE as u32 / if ages == Ages::Carried { 2 } else { 1 };
        let node = |n: usize, rng: &mut Xoshiro256PlusPlus| {
            let own: NodeName = format!("n{n}").parse().expect("valid");
            let mut node = Node {
                table: Table::new(own.hash(), retention, Instant::ORIGIN),
                rate: 1.0 + rng.random_range(-DRIFT_MAX..DRIFT_MAX),
                offset: rng.random_range(1000..10_000),
                sweeps_at: rng.random_range(0..SWEEP),
                had_purged: false,
                backlog: Vec::new(),
            };
            let own = Record {
                name: own,
                ..record.clone()
            };
            let now = node.clock(0);
            for known in [&own, &record] {
                node.table.merge(now, &told(known, 0), || ());
            }
            node
        };
        let nodes = (0..NODES).map(|n| node(n, &mut rng)).collect();
        let since = rng.random_range(1..2 * LIFE);
        let length = rng.random_range(1..=(longest * LIFE as f64) as u64);
        History {
            nodes,
            dead: name.hash(),
            record,
            ages,
            trouble,
            victim: rng.random_range(0..NODES),
            since,
            until: since + length,
            ends_at: rng.random_range(1..2 * LIFE),
            flying: BTreeMap::new(),
            seen: Seen::default(),
            rng,
        }
    }

    fn play(mut self) -> Seen {
        for at in 0..END {
            self.arrive(at);
            if at == self.until {
                self.wake(at);
            }
            for n in 0..NODES {
                if !self.stands_still(n, at) {
                    self.run(n, at);
                }
            }
        }
        let known = |node: &Node| node.table.get(self.dead).is_some();
        self.seen.immortal = usize::from(self.nodes.iter().any(known));
        self.seen
    }

    fn in_trouble(&self, n: usize, at: u64) -> bool {
        n == self.victim && (self.since..self.until).contains(&at)
    }

    fn stands_still(&self, n: usize, at: u64) -> bool {
        matches!(self.trouble, Trouble::Frozen(_)) && self.in_trouble(n, at)
    }

    /// Whether a node's detector has run for long enough to conclude something.
    fn concludes(&self, n: usize, at: u64) -> bool {
        let braked_until = match self.trouble {
            Trouble::Cut => self.since,
            Trouble::Braked { released: true } => self.until.min(self.since + LIFE / 4),
            Trouble::Braked { released: false } | Trouble::Frozen(_) => self.until + DETECTION,
        };
        n != self.victim || !(self.since..braked_until).contains(&at)
    }

    fn arrive(&mut self, at: u64) {
        for (n, update) in self.flying.remove(&at).unwrap_or_default() {
            if self.stands_still(n, at) {
                let backlog = &mut self.nodes[n].backlog;
                if backlog.len() < BACKLOG_MAX {
                    backlog.push(update);
                }
            } else if !self.in_trouble(n, at) {
                self.take(n, at, update);
            }
        }
    }

    fn take(&mut self, n: usize, at: u64, mut update: RecordUpdate) {
        if self.ages == Ages::Restarted {
            update.age = Age(0);
        }
        let node = &mut self.nodes[n];
        let now = node.clock(at);
        let change = node.table.merge(now, &update, || ());
        let risen = change.is_some_and(|change| change.after.status.is_active());
        if node.had_purged && risen {
            self.seen.risen = 1;
        } else if node.had_purged && change.is_some() {
            self.seen.back = 1;
        }
    }

    /// The trouble is over.
    fn wake(&mut self, at: u64) {
        let Trouble::Frozen(waking) = self.trouble else {
            return;
        };
        let backlog = std::mem::take(&mut self.nodes[self.victim].backlog);
        let long = self.until - self.since > LIFE / 4;
        if long && waking != Waking::GoesOn {
            let node = &mut self.nodes[self.victim];
            node.table.drop_active(node.clock(at));
        }
        if long && waking == Waking::DropsTableAndBacklog {
            return;
        }
        for update in backlog {
            self.take(self.victim, at, update);
        }
    }

    /// One unit of a node's life: it notices the death, sweeps, and tells one other.
    fn run(&mut self, n: usize, at: u64) {
        let detects = at >= self.ends_at + DETECTION && self.concludes(n, at);
        let (dead, ages) = (self.dead, self.ages);
        let node = &mut self.nodes[n];
        let now = node.clock(at);
        let held = node.table.get(dead).map(|entry| entry.record.standing);
        if let Some(held) = held
            && held.status.is_active()
            && detects
        {
            let mut record = self.record.clone();
            record.standing = held.with_status(Status::Dead);
            node.table.merge(now, &told(&record, 0), || ());
        }
        if at % SWEEP == node.sweeps_at {
            node.had_purged |= node.table.sweep(now).contains(&dead);
            let old = |entry: &Entry<()>| {
                let gone = !entry.record.standing.status.is_active();
                gone && now.since(entry.since) >= UNIT * LIFE as u32
            };
            if ages != Ages::Carried && node.table.get(dead).is_some_and(old) {
                node.table.purge(dead);
                node.had_purged = true;
            }
        }
        let listed = node.table.get(dead).filter(|entry| entry.listed);
        let Some(update) = listed.map(|entry| RecordUpdate {
            record: Arc::clone(&entry.record),
            version: entry.version,
            age: entry.age(now),
            lease_left: Duration::ZERO,
        }) else {
            return;
        };
        let other = (n + self.rng.random_range(1..NODES)) % NODES;
        let arrives = at + self.rng.random_range(1..=DELAY_MAX);
        if !self.in_trouble(n, at) {
            let flying = self.flying.entry(arrives).or_default();
            flying.push((other, update));
        }
    }
}

fn told(record: &Record, age: u32) -> RecordUpdate {
    RecordUpdate {
        record: record.clone().into(),
        version: Version(1),
        age: Age(age),
        lease_left: Duration::ZERO,
    }
}

/// In how many of `count` histories something was seen.
fn histories(count: u64, trouble: Trouble, longest: f64, ages: Ages) -> Seen {
    let mut all = Seen::default();
    for seed in 0..count {
        let seen = History::new(seed, trouble, longest, ages).play();
        all.risen += seen.risen;
        all.back += seen.back;
        all.immortal += seen.immortal;
    }
    all
}

const RIGHT: [(Trouble, f64); 4] = [
    (Trouble::Cut, 0.45),
    (Trouble::Cut, 3.0),
    (Trouble::Braked { released: true }, 3.0),
    (Trouble::Frozen(Waking::DropsTableAndBacklog), 3.0),
];

fn nothing_comes_back(count: u64) {
    for (trouble, longest) in RIGHT {
        let seen = histories(count, trouble, longest, Ages::Carried);
        assert_eq!(seen, Seen::default(), "{trouble:?}");
    }
}

#[test]
fn nothing_comes_back_in_random_histories() {
    nothing_comes_back(100);
}

/// The same at length: `cargo test --release --lib histories -- --ignored`.
#[test]
#[ignore = "takes a minute in a release build"]
fn nothing_comes_back_in_twenty_thousand_histories() {
    nothing_comes_back(20_000);
}

/// An age that begins anew with everybody who learns keeps a tombstone for ever, and one that is
/// told until its end comes back to those who have just forgotten it.
#[test]
fn ages_that_restart_or_are_told_to_the_end_are_caught() {
    let restarted = histories(100, Trouble::Cut, 0.45, Ages::Restarted);
    assert!(restarted.immortal > 10 && restarted.back > 10);
    let told = histories(100, Trouble::Cut, 0.45, Ages::ToldUntilTheEnd);
    assert!(told.back > 10 && told.immortal == 0);
}

/// A brake on verdicts that outlives the fences raises the dead.
#[test]
fn a_brake_that_does_not_let_go_is_caught() {
    let trouble = Trouble::Braked { released: false };
    assert!(histories(100, trouble, 3.0, Ages::Carried).risen > 10);
}

/// So does a table that rested for longer than the fences live, and what waited in its sockets.
#[test]
fn a_frozen_node_that_goes_on_or_reads_its_backlog_is_caught() {
    for waking in [Waking::GoesOn, Waking::DropsTable] {
        let seen = histories(100, Trouble::Frozen(waking), 3.0, Ages::Carried);
        assert!(seen.risen > 10, "{waking:?}: {seen:?}");
    }
}
