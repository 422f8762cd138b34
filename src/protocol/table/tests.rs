//! The table under claims in odd orders, repeated verdicts and old deaths.

use super::*;
use crate::member::{Generation, Incarnation, NodeId, Standing};
use crate::wire::Age;

const HOUR: Duration = Duration::from_secs(3600);

fn record(name: &str, generation: u64, incarnation: u32, status: Status) -> Record {
    let generation = Generation(generation);
    Record {
        name: name.parse().expect("valid"),
        standing: Standing {
            incarnation: Incarnation(incarnation),
            status,
            ..Standing::alive(generation, NodeId(1))
        },
        metadata: None,
    }
}

fn table() -> Table<()> {
    let local: crate::member::NodeName = "local".parse().expect("valid");
    Table::new(local.hash(), 24 * HOUR, Instant::ORIGIN)
}

fn merge(table: &mut Table<()>, now: Instant, record: &Record) -> Option<Change> {
    table.merge(now, &told(record, Age(0)), || ())
}

fn told(record: &Record, age: Age) -> RecordUpdate {
    RecordUpdate {
        record: record.clone().into(),
        version: Version(1),
        age,
        lease_left: Duration::ZERO,
    }
}

#[test]
fn equal_tables_have_equal_fingerprints_whatever_the_order() {
    let now = Instant::ORIGIN;
    let records = [
        record("a", 1, 0, Status::Alive),
        record("b", 1, 0, Status::Dead),
        record("b", 1, 1, Status::Alive),
        record("c", 2, 0, Status::Left),
    ];
    let (mut forth, mut back) = (table(), table());
    records
        .iter()
        .for_each(|record| _ = merge(&mut forth, now, record));
    records
        .iter()
        .rev()
        .for_each(|record| _ = merge(&mut back, now, record));
    assert_eq!(forth.fingerprint(), back.fingerprint());
    assert_ne!(forth.fingerprint(), table().fingerprint());
    assert_eq!(forth.active().len(), 2);
}

#[test]
fn a_suspicion_leaves_the_fingerprint_alone_but_is_a_revision() {
    let mut table = table();
    merge(
        &mut table,
        Instant::ORIGIN,
        &record("a", 1, 0, Status::Alive),
    );
    let (fingerprint, revision) = (table.fingerprint(), table.revision());
    merge(
        &mut table,
        Instant::ORIGIN,
        &record("a", 1, 0, Status::Suspect),
    );
    assert_eq!(table.fingerprint(), fingerprint);
    assert!(table.revision() > revision);
}

/// uber-node/ringpop-node PR#15, quickwit-oss/chitchat#94: stale claims had side effects.
#[test]
fn stale_claims_change_nothing() {
    let mut table = table();
    merge(
        &mut table,
        Instant::ORIGIN,
        &record("a", 2, 1, Status::Suspect),
    );
    for stale in [
        record("a", 2, 0, Status::Dead),
        record("a", 2, 1, Status::Alive),
        record("a", 1, 9, Status::Left),
    ] {
        assert_eq!(merge(&mut table, Instant::ORIGIN, &stale), None);
    }
    assert_eq!(table.iter().count(), 1);
}

/// quickwit-oss/chitchat PR#123: every repeated verdict renewed the time of death.
#[test]
fn repeated_verdicts_keep_the_first_time_of_death() {
    let mut table = table();
    let death = Instant::ORIGIN + 100 * HOUR;
    merge(&mut table, death, &record("a", 1, 0, Status::Alive));
    let dead = record("a", 1, 0, Status::Dead);
    merge(&mut table, death, &dead);
    for later in 1..23 {
        merge(&mut table, death + later * HOUR, &dead);
        table.sweep(death + later * HOUR);
    }
    let member = dead.name.hash();
    assert!(table.get(member).expect("remembered").listed);
    table.sweep(death + 24 * HOUR);
    assert!(!table.get(member).expect("a silent fence").listed);
    assert_eq!(
        merge(
            &mut table,
            death + 25 * HOUR,
            &record("a", 1, 0, Status::Alive)
        ),
        None
    );
    table.sweep(death + 48 * HOUR);
    assert!(table.get(member).is_none());
}

#[test]
fn old_deaths_of_strangers_are_not_learnt() {
    let mut table = table();
    let now = Instant::ORIGIN + 100 * HOUR;
    let dead = record("a", 1, 0, Status::Dead);
    let mut merge = |age| table.merge(now, &told(&dead, Age(age)), || ());
    assert_eq!(merge(24 * 3600), None);
    assert!(merge(24 * 3600 - 1).is_some());
}

#[test]
fn a_fence_lets_a_new_life_pass() {
    let mut table = table();
    let death = Instant::ORIGIN + 100 * HOUR;
    merge(&mut table, death, &record("a", 5, 0, Status::Dead));
    table.sweep(death + 30 * HOUR);
    let change = merge(
        &mut table,
        death + 30 * HOUR,
        &record("a", 6, 0, Status::Alive),
    );
    assert!(change.is_some_and(|change| change.before != Some(change.after)));
    assert!(
        table
            .get(record("a", 6, 0, Status::Alive).name.hash())
            .expect("back")
            .listed
    );
}
