//! Members and events across restarts, and while the disk fails.

use std::time::{Duration, Instant, SystemTime};

use arc_swap::ArcSwap;
use tokio::sync::mpsc;

use super::*;
use crate::daemon::event::tests::death;
use crate::daemon::http::tests::snapshot;
use crate::member::Status;
use crate::node::{Durable, EVENTS_MAX, EventLog, Logged, Remembered, Snapshot};

const SOON: Duration = Duration::from_secs(30);

/// A node whose table and log a test writes.
pub(super) struct Fed {
    pub(super) store: SqliteStore,
    pub(super) kept: Kept,
    /// What the store says is durable.
    pub(super) durable: mpsc::UnboundedReceiver<Durable>,
}

impl Fed {
    pub(super) fn open(dir: &TestDir, cluster: &str, now: u64) -> (Self, Restored) {
        let store = SqliteStore::open(&dir.data(), cluster, now, || 0xabcd).expect("opened");
        let restored = store.load();
        let log = restored.clone();
        let events = EventLog::new(store.generation(), log.events, log.next_event_id);
        let (sender, durable) = mpsc::unbounded_channel();
        let kept = Kept {
            events,
            snapshot: Arc::new(ArcSwap::from_pointee(snapshot())),
            local: "n1".parse().expect("valid"),
            generation: store.generation(),
            durable: sender,
        };
        store.follow(kept.clone());
        let fed = Fed {
            store,
            kept,
            durable,
        };
        (fed, restored)
    }

    fn show(&self, change: impl FnOnce(&mut Snapshot)) {
        let mut next = Snapshot::clone(&self.kept.snapshot.load());
        next.index += 1;
        change(&mut next);
        self.kept.snapshot.store(next.into());
        self.store.wake();
    }

    pub(super) fn append(&self, count: usize) -> u64 {
        let mut last = 0;
        for _ in 0..count {
            let id = self.kept.events.append(SystemTime::now(), what());
            last = id.unwrap_or(last);
            self.store.wake();
        }
        last
    }

    pub(super) fn settle(&self, what: &str, holds: impl Fn(&StoreCondition) -> bool) {
        let start = Instant::now();
        while !holds(&self.store.condition()) {
            assert!(
                start.elapsed() < SOON,
                "{what}: {:?}",
                self.store.condition()
            );
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}

fn what() -> Logged {
    death(1).what
}

fn ids(restored: &Restored) -> Vec<u64> {
    restored.events.iter().map(|entry| entry.id).collect()
}

fn names(restored: &Restored) -> Vec<&str> {
    let names = restored.members.iter().map(|member| member.name.as_str());
    names.collect()
}

#[test]
fn an_orderly_end_loses_nothing_and_ids_go_on() {
    let dir = TestDir::new();
    let (run, empty) = Fed::open(&dir, "default", NOW);
    assert_eq!(empty, Restored::default());
    let first = (NOW << 20) + 1;
    assert_eq!(run.append(3), first + 2);
    run.show(|table| {
        table.members[1].status = Status::Dead;
        table.members[1].since = SystemTime::UNIX_EPOCH + Duration::from_secs(77);
        table.members[2].status = Status::Left;
        table.remembered.push(Remembered {
            name: "old".parse().expect("valid"),
            address: "127.0.0.9:1".parse().expect("valid"),
            node_id: NodeId(u64::MAX),
            generation: Generation(3),
            last_seen: SystemTime::UNIX_EPOCH + Duration::from_secs(5),
        });
    });
    run.store.close();
    drop(run);
    let (run, restored) = Fed::open(&dir, "default", NOW);
    assert_eq!(ids(&restored), [first, first + 1, first + 2]);
    assert_eq!(
        names(&restored),
        ["n2", "old"],
        "not itself, and not who left"
    );
    let seen = |n: usize| {
        let since = restored.members[n]
            .last_seen
            .duration_since(SystemTime::UNIX_EPOCH);
        since.expect("after 1970").as_secs()
    };
    assert_eq!((seen(0), seen(1)), (77, 5));
    assert_eq!(restored.members[1].node_id, NodeId(u64::MAX));
    assert_eq!(run.append(1), first + 3);
}

#[test]
fn a_crash_leaves_what_was_written_and_no_id_is_used_twice() {
    let dir = TestDir::new();
    let (run, _) = Fed::open(&dir, "default", NOW);
    let last = run.append(10);
    run.settle("written", |condition| condition.unsaved_events == 0);
    // Without an orderly end: as after kill -9.
    drop(run);
    let (run, restored) = Fed::open(&dir, "default", NOW);
    assert_eq!(ids(&restored).last(), Some(&last));
    let next = run.append(1);
    assert_eq!(next, ((NOW + 1) << 20) + 1);
    let alive = restored
        .members
        .iter()
        .find(|member| member.name.as_str() == "n2");
    let seen = alive.expect("it was alive").last_seen.elapsed();
    assert!(seen.expect("in the past") < SOON, "seen when last written");
}

/// hashicorp/consul#843: members of one cluster came into another with the data directory.
#[test]
fn the_members_of_another_cluster_are_dropped_and_the_generation_is_kept() {
    let dir = TestDir::new();
    let (run, _) = Fed::open(&dir, "a", NOW);
    let last = run.append(2);
    run.store.close();
    let node_id = run.store.node_id();
    drop(run);
    let (run, restored) = Fed::open(&dir, "b", NOW);
    assert_eq!((names(&restored), ids(&restored)), (vec![], vec![]));
    assert_eq!(run.store.generation(), Generation(NOW + 1));
    assert_eq!(run.store.node_id(), node_id);
    assert_eq!(run.append(1), last + 1);
    drop(run);
    let (_, restored) = Fed::open(&dir, "a", NOW);
    assert!(names(&restored).is_empty() || !names(&restored).contains(&"old"));
}

#[test]
fn ten_thousand_events_are_taken_at_once_and_old_ones_leave_the_file_too() {
    let dir = TestDir::new();
    let (run, _) = Fed::open(&dir, "default", NOW);
    let start = Instant::now();
    let last = run.append(EVENTS_MAX + 10_000);
    let taken = start.elapsed();
    // Some 26,000 appends: a commit for each would take minutes.
    assert!(taken < Duration::from_secs(5), "{taken:?}");
    run.settle("written", |condition| condition.unsaved_events == 0);
    run.store.close();
    drop(run);
    let (_, restored) = Fed::open(&dir, "default", NOW);
    assert_eq!(restored.events.len(), EVENTS_MAX);
    assert_eq!(ids(&restored).last(), Some(&last));
}

/// hashicorp/consul#1744, hashicorp/serf PR#428: one failed write, and every later one failed too.
#[test]
fn what_could_not_be_written_is_written_later_with_nothing_missing() {
    let dir = TestDir::new();
    let (run, _) = Fed::open(&dir, "default", NOW);
    run.append(5);
    run.settle("written", |condition| condition.unsaved_events == 0);
    // Another writer's lock stands in for a disk that takes nothing.
    let other = Connection::open(dir.file()).expect("opened");
    other.execute_batch("begin immediate").expect("locked");
    let last = run.append(500);
    run.settle("reported", |condition| {
        condition.failure.is_some() && condition.unsaved_events == 500
    });
    other.execute_batch("rollback").expect("unlocked");
    run.settle("recovered", |condition| {
        condition.failure.is_none() && condition.unsaved_events == 0
    });
    assert!(run.store.condition().failures > 0);
    run.store.close();
    drop(run);
    let (_, restored) = Fed::open(&dir, "default", NOW);
    assert_eq!(restored.events.len(), 505);
    assert_eq!(ids(&restored).last(), Some(&last));
}

#[test]
fn a_database_that_is_damaged_or_removed_under_the_node_is_written_anew() {
    for remove in [false, true] {
        let dir = TestDir::new();
        let (run, _) = Fed::open(&dir, "default", NOW);
        run.append(5);
        run.settle("written", |condition| condition.unsaved_events == 0);
        let (lock, node_id) = (
            Connection::open(dir.file()).expect("opened"),
            run.store.node_id(),
        );
        lock.execute_batch("begin immediate").expect("locked");
        run.append(5);
        run.settle("reported", |condition| condition.failure.is_some());
        for file in ["rumord.db-wal", "rumord.db-shm"] {
            fs::remove_file(dir.data().join(file)).expect("it was there");
        }
        match remove {
            true => fs::remove_file(dir.file()).expect("it was there"),
            false => fs::write(dir.file(), [0x5a; 8192]).expect("written"),
        }
        drop(lock);
        run.settle("recovered", |condition| {
            condition.failure.is_none() && condition.unsaved_events == 0
        });
        run.store.close();
        drop(run);
        let (run, restored) = Fed::open(&dir, "default", NOW);
        assert_eq!((restored.events.len(), run.store.node_id()), (10, node_id));
    }
}
