//! The table beside a plain map, under histories drawn at random.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::entry::record_hash;
use super::*;
use crate::member::{Generation, Incarnation, NodeId, NodeName, Standing};
use crate::wire::Age;

const HOUR: Duration = Duration::from_secs(3600);
const RETENTION: Duration = Duration::from_secs(10 * 3600);

#[derive(Clone, Debug)]
enum Step {
    /// Who, what, and hours since it was decided.
    Tell(usize, Standing, u32),
    /// So many hours later.
    Sweep(u32),
    Verdict(usize, bool),
    DropActive,
}

/// A member in the plain map.
#[derive(Clone, Debug, PartialEq)]
struct Held {
    record: Record,
    since: Instant,
    listed: bool,
    verdict: bool,
}

impl Held {
    fn is_active(&self) -> bool {
        self.record.standing.status.is_active()
    }

    fn is_listed_dead(&self) -> bool {
        self.listed && self.record.standing.status == Status::Dead
    }

    /// Takes a claim in that was decided then; whether that changed anything.
    fn join(&mut self, told: &Record, now: Instant, decided: Instant) -> bool {
        let before = self.record.clone();
        self.record.merge(told);
        let (was, is) = (before.standing, self.record.standing);
        let another_end = !self.is_active() && is != was;
        if is.status != was.status || is.instance() != was.instance() || another_end {
            self.since = if self.is_active() { now } else { decided };
            self.listed = self.is_active() || now.since(decided) < RETENTION;
        } else if !self.is_active() && told.standing == is {
            self.since = self.since.min(decided);
        }
        let changed = self.record != before;
        self.verdict &= !changed;
        changed
    }
}

/// The table under test, and the plain map.
struct Pair {
    names: Vec<NodeName>,
    now: Instant,
    table: Table<()>,
    map: BTreeMap<NameHash, Held>,
}

impl Pair {
    /// Both know the first of `names`, the local member.
    fn new(names: Vec<NodeName>) -> Self {
        let now = Instant::ORIGIN + 1000 * HOUR;
        let table = Table::new(names[0].hash(), RETENTION, now);
        let map = BTreeMap::new();
        let mut pair = Pair {
            names,
            now,
            table,
            map,
        };
        pair.tell(0, Standing::alive(Generation(1), NodeId(1)), 0);
        pair
    }

    fn take(&mut self, step: &Step) {
        match *step {
            Step::Tell(who, standing, hours) => self.tell(who, standing, hours),
            Step::Sweep(hours) => self.sweep(hours),
            Step::DropActive => {
                self.table.drop_active(self.now);
                let local = self.names[0].hash();
                self.map
                    .retain(|&member, held| member == local || !held.is_active());
            }
            Step::Verdict(who, verdict) => {
                let member = self.names[who % self.names.len()].hash();
                self.table.set_isolated_verdict(member, verdict);
                if let Some(held) = self.map.get_mut(&member) {
                    held.verdict = verdict;
                }
            }
        }
    }

    fn tell(&mut self, who: usize, standing: Standing, hours: u32) {
        let record = Record {
            name: self.names[who % self.names.len()].clone(),
            standing,
            metadata: None,
        };
        let told = RecordUpdate {
            record: record.clone().into(),
            version: Version(1),
            age: Age(hours * 3600),
            lease_left: Duration::ZERO,
        };
        let (now, decided) = (self.now, self.now.before(hours * HOUR));
        let change = self.table.merge(now, &told, || ());
        let changed = match self.map.get_mut(&record.name.hash()) {
            Some(held) => held.join(&record, now, decided),
            None => self.learn(record, decided),
        };
        assert_eq!(change.is_some(), changed);
    }

    fn learn(&mut self, record: Record, decided: Instant) -> bool {
        let active = record.standing.status.is_active();
        let since = if active { self.now } else { decided };
        let held = Held {
            record,
            since,
            listed: true,
            verdict: false,
        };
        let known = self.now.since(since) < RETENTION;
        if known {
            self.map.insert(held.record.name.hash(), held);
        }
        known
    }

    fn sweep(&mut self, hours: u32) {
        self.now = self.now + hours * HOUR;
        let (now, local) = (self.now, self.names[0].hash());
        let age = |held: &Held| now.since(held.since);
        let gone = |member: NameHash, held: &Held| member != local && !held.is_active();
        let mut purged = Vec::new();
        for (&member, held) in self.map.iter_mut().filter(|(m, held)| gone(**m, held)) {
            held.listed &= age(held) < RETENTION;
            if age(held) >= 2 * RETENTION {
                purged.push(member);
            }
        }
        self.map.retain(|member, _| !purged.contains(member));
        assert_eq!(self.table.sweep(now), purged);
    }

    fn others(&self, wanted: impl Fn(&Held) -> bool) -> Vec<NameHash> {
        let others = self.map.iter().filter(|(m, _)| **m != self.names[0].hash());
        others
            .filter(|(_, held)| wanted(held))
            .map(|(&m, _)| m)
            .collect()
    }

    /// Everything that the table tells follows from the map.
    fn check(&self) {
        let held = |entry: &Entry<()>| Held {
            record: (*entry.record).clone(),
            since: entry.since,
            listed: entry.listed,
            verdict: entry.isolated_verdict,
        };
        let all: BTreeMap<_, _> = self.table.iter().map(|(m, it)| (m, held(it))).collect();
        assert_eq!(all, self.map);
        assert!(self.table.iter().is_sorted_by_key(|(member, _)| member));
        let active = self.others(Held::is_active);
        assert_eq!(self.table.active(), active);
        assert_eq!(self.table.dead(), self.others(Held::is_listed_dead));
        let listed = self.map.values().filter(|held| held.listed);
        let sum = listed.fold(0u64, |sum, it| sum.wrapping_add(record_hash(&it.record)));
        assert_eq!(self.table.fingerprint(), sum);
        for member in self.names.iter().map(NodeName::hash) {
            assert_eq!(self.table.get(member).map(held), all.get(&member).cloned());
            assert_eq!(self.table.is_active(member), active.contains(&member));
            let after = active.partition_point(|&other| other <= member);
            assert_eq!(self.table.ring_after(member), after);
        }
        for (position, &member) in active.iter().enumerate() {
            let (found, entry) = self.table.active_at(position);
            assert_eq!((found, held(entry)), (member, all[&member].clone()));
        }
    }
}

/// Names whose hashes begin with these `bits` bits.
fn names(count: usize, bits: u32, begin: u64) -> Vec<NodeName> {
    let lies = |name: &NodeName| {
        let hash = u64::from_be_bytes(name.hash().to_wire());
        hash.checked_shr(64 - bits).unwrap_or(0) == begin
    };
    let all = (0..).map(|n| format!("n{n}").parse().expect("valid"));
    all.filter(lies).take(count).collect()
}

fn steps(names: usize, most: usize) -> impl Strategy<Value = Vec<Step>> {
    let statuses = vec![Status::Alive, Status::Suspect, Status::Dead, Status::Left];
    let standing = (1..4u64, 0..3u32, prop::sample::select(statuses));
    let standing = (standing, prop::bool::weighted(0.1));
    let standing = standing.prop_map(|((generation, incarnation, status), forgotten)| {
        let told = Standing {
            incarnation: Incarnation(incarnation),
            status,
            ..Standing::alive(Generation(generation), NodeId(1))
        };
        if forgotten { told.forgotten() } else { told }
    });
    let hours = prop::sample::select(&[0u32, 0, 0, 3, 9, 10, 25][..]);
    let step = prop_oneof![
        12 => (0..names, standing, hours).prop_map(|(who, what, old)| Step::Tell(who, what, old)),
        2 => (0..8u32).prop_map(Step::Sweep),
        1 => Just(Step::DropActive),
        1 => (0..names, any::<bool>()).prop_map(|(who, verdict)| Step::Verdict(who, verdict)),
    ];
    prop::collection::vec(step, 1..most)
}

proptest! {
    #[test]
    fn a_few_members_are_as_in_a_plain_map(steps in steps(5, 120)) {
        let mut pair = Pair::new(names(5, 0, 0));
        for step in &steps {
            pair.take(step);
            pair.check();
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(20))]

    /// Evenly spread hashes, and names chosen so that they lie close together.
    #[test]
    fn many_members_are_as_in_a_plain_map(
        steps in steps(150, 1500),
        (bits, begin) in prop::sample::select(&[(0, 0), (7, 0), (7, 50), (7, 127)][..]),
    ) {
        let mut pair = Pair::new(names(150, bits, begin));
        steps.iter().for_each(|step| pair.take(step));
        pair.check();
    }
}
