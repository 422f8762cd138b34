//! Events of clients: durable before they are seen, numbered without gaps, and never taken twice.

use std::time::SystemTime;

use super::keeping::Fed;
use super::*;
use crate::daemon::event::tests::death;
use crate::member::{Delivery, EventKey, EventName, EventRef, NodeName, Uid, UserEvent};
use crate::node::{
    AcceptError, Accepted, Backlog, Draft, Durable, EVENT_BYTES_MAX, LogEntry, Logged,
};

pub(super) fn draft(key: Option<u8>, payload: &str) -> Draft {
    Draft {
        delivery: Delivery::AtLeastOnce,
        key: key.map(|byte| EventKey([byte; 16])),
        name: EventName::new("deploy").expect("valid"),
        payload: payload.into(),
    }
}

pub(super) fn accept(fed: &Fed, draft: Draft) -> oneshot::Receiver<Result<Accepted, AcceptError>> {
    let (reply, answer) = oneshot::channel();
    let place = Backlog::default().enter(draft.payload.len());
    fed.store.accept(Offer {
        draft,
        place: place.expect("there is room"),
        reply,
    });
    answer
}

pub(super) fn accepted(fed: &Fed, key: Option<u8>, payload: &str) -> Result<Accepted, AcceptError> {
    let answer = accept(fed, draft(key, payload));
    answer.blocking_recv().expect("answered")
}

fn foreign(sequence: u64, key: Option<u8>, unix_ms: u64, payload: &str) -> Arrival {
    Arrival::Event(Arc::new(draft(key, payload).into_event(
        "n2".parse().expect("valid"),
        Generation(9),
        sequence,
        unix_ms,
    )))
}

/// Hands arrivals over, and waits until they are acknowledged.
fn receive(fed: &mut Fed, arrivals: Vec<Arrival>) -> Vec<EventRef> {
    let events = |arrival: &&Arrival| matches!(arrival, Arrival::Event(_));
    let wanted = arrivals.iter().filter(events).count();
    fed.store.receive(arrivals);
    let mut received = Vec::new();
    while received.len() < wanted {
        if let Some(Durable::Received(events)) = fed.durable.blocking_recv() {
            received.extend(events);
        }
    }
    received
}

fn entries(fed: &Fed) -> Vec<Arc<LogEntry>> {
    fed.kept.events.read(0, 1000).entries
}

fn users(entries: &[Arc<LogEntry>]) -> Vec<Arc<UserEvent>> {
    let user = |entry: &Arc<LogEntry>| match &entry.what {
        Logged::User(event) => Some(Arc::clone(event)),
        _ => None,
    };
    entries.iter().filter_map(user).collect()
}

#[test]
fn an_event_is_on_the_disk_when_it_is_answered_and_comes_back() {
    let dir = TestDir::new();
    let (mut fed, _) = Fed::open(&dir, "default", NOW);
    fed.append(2);
    let first = accepted(&fed, None, "a").expect("accepted");
    let second = accepted(&fed, Some(1), "b").expect("accepted");
    let base = NOW << 20;
    assert_eq!((first.id, first.sequence), (base + 3, 1));
    assert_eq!((second.id, second.sequence), (base + 4, 2));
    assert_eq!(second.uid, Uid::Keyed(EventKey([1; 16])));
    let Some(Durable::Own(told)) = fed.durable.blocking_recv() else {
        panic!("nothing is durable");
    };
    assert_eq!(told[0].0.payload, b"a");
    // Without an orderly end: as after kill -9.
    drop(fed);
    let (fed, restored) = Fed::open(&dir, "default", NOW);
    let ids: Vec<u64> = restored.events.iter().map(|entry| entry.id).collect();
    assert_eq!(ids, [base + 1, base + 2, base + 3, base + 4]);
    let payloads: Vec<_> = restored
        .user_events
        .iter()
        .map(|it| &it.payload[..])
        .collect();
    assert_eq!(payloads, [b"a", b"b"]);
    assert_eq!(restored.user_events[1].key, Some(EventKey([1; 16])));
    assert_eq!(restored.marks.len(), 1);
    assert_eq!(restored.marks[0].upto.sequence, 2);
    // A new life begins new numbers; the key is still the same event.
    let next = accepted(&fed, None, "c").expect("accepted");
    assert_eq!((next.generation, next.sequence), (Generation(NOW + 1), 1));
    assert_eq!(accepted(&fed, Some(1), "b"), Ok(second));
    assert_eq!(accepted(&fed, Some(1), "x"), Err(AcceptError::KeyReused));
}

#[test]
fn a_raised_generation_begins_new_numbers() {
    let dir = TestDir::new();
    let (fed, _) = Fed::open(&dir, "default", NOW);
    accepted(&fed, None, "a").expect("accepted");
    fed.store
        .persist_generation(Generation(NOW + 7))
        .expect("written");
    let next = accepted(&fed, None, "b").expect("accepted");
    assert_eq!((next.generation, next.sequence), (Generation(NOW + 7), 1));
    assert_eq!(next.id, (NOW << 20) + 2, "one log");
}

/// hashicorp/serf#465, #692: a node that restarted got old events again.
#[test]
fn an_event_of_another_is_taken_once_also_after_a_restart() {
    let dir = TestDir::new();
    let (mut fed, _) = Fed::open(&dir, "default", NOW);
    let twenty: Vec<_> = (1..=20).map(|n| foreign(n, None, 5, "x")).collect();
    assert_eq!(receive(&mut fed, twenty.clone()).len(), 20);
    assert_eq!(receive(&mut fed, twenty.clone()).len(), 20, "acknowledged");
    assert_eq!(users(&entries(&fed)).len(), 20);
    drop(fed);
    let (mut fed, restored) = Fed::open(&dir, "default", NOW);
    assert_eq!(restored.user_events.len(), 20);
    receive(&mut fed, twenty);
    receive(&mut fed, vec![foreign(21, None, 5, "y")]);
    let all = users(&entries(&fed));
    let numbers: Vec<u64> = all.iter().map(|event| event.sequence).collect();
    assert_eq!(numbers, (1..=21).collect::<Vec<_>>());
    // What is said to be kept nowhere is not waited for.
    let missed = EventRef {
        sequence: 30,
        ..all[0].event_ref()
    };
    receive(
        &mut fed,
        vec![Arrival::Missed(missed), foreign(30, None, 5, "z")],
    );
    assert_eq!(users(&entries(&fed)).len(), 21);
    drop(fed);
    let (_, restored) = Fed::open(&dir, "default", NOW);
    assert_eq!(restored.marks[0].upto, missed);
}

#[test]
fn only_the_newest_lives_of_an_origin_keep_their_marks() {
    let dir = TestDir::new();
    let (mut fed, _) = Fed::open(&dir, "default", NOW);
    for generation in 1..=7 {
        let origin: NodeName = "n2".parse().expect("valid");
        let event = draft(None, "x").into_event(origin, Generation(generation), 1, 5);
        receive(&mut fed, vec![Arrival::Event(event.into())]);
    }
    drop(fed);
    let (_, restored) = Fed::open(&dir, "default", NOW);
    let lives: Vec<u64> = restored
        .marks
        .iter()
        .map(|it| it.upto.generation.0)
        .collect();
    assert_eq!(lives, [4, 5, 6, 7]);
}

#[test]
fn a_copy_under_a_key_is_not_logged_and_one_that_counts_more_is_told() {
    let dir = TestDir::new();
    let (mut fed, _) = Fed::open(&dir, "default", NOW);
    let own = accepted(&fed, Some(1), "own").expect("accepted");
    let same = foreign(1, Some(1), 5, "own");
    let late = foreign(2, Some(1), u64::from(u32::MAX) << 20, "late");
    let early = foreign(3, Some(1), 4, "early");
    receive(&mut fed, vec![same, late]);
    assert_eq!(fed.kept.events.head(), own.id, "neither is logged");
    receive(&mut fed, vec![early]);
    let all = entries(&fed);
    let Logged::Conflict(conflict) = &all[1].what else {
        panic!("{all:?}");
    };
    assert_eq!(conflict.overruled, own.id);
    assert_eq!((conflict.origin.as_str(), conflict.sequence), ("n1", 1));
    assert_eq!(conflict.event.payload, b"early");
    assert_eq!(accepted(&fed, Some(1), "own"), Err(AcceptError::KeyReused));
    let counts = accepted(&fed, Some(1), "early").expect("the one that counts");
    assert_eq!(
        (counts.id, counts.origin.as_str(), counts.sequence),
        (own.id + 1, "n2", 3)
    );
    drop(fed);
    let (_, restored) = Fed::open(&dir, "default", NOW);
    assert_eq!(restored.events.len(), 2);
    assert_eq!(restored.user_events.len(), 4, "all are kept for others");
}

#[test]
fn an_event_that_cannot_be_written_leaves_no_gap_and_no_ghost() {
    let dir = TestDir::new();
    let (mut fed, _) = Fed::open(&dir, "default", NOW);
    let first = accepted(&fed, None, "a").expect("accepted");
    // Another writer's lock stands in for a disk that takes nothing.
    let other = Connection::open(dir.file()).expect("opened");
    other.execute_batch("begin immediate").expect("locked");
    let answer = accept(&fed, draft(None, "b"));
    fed.kept.events.append(SystemTime::now(), death(1).what);
    fed.store.receive(vec![foreign(1, None, 5, "x")]);
    let refused = answer.blocking_recv().expect("answered");
    assert!(
        matches!(refused, Err(AcceptError::Failed(_))),
        "{refused:?}"
    );
    assert_eq!(fed.kept.events.head(), first.id + 1, "the transition alone");
    other.execute_batch("rollback").expect("unlocked");
    fed.settle("recovered", |condition| {
        condition.failure.is_none() && condition.unsaved_arrivals == 0
    });
    let next = accepted(&fed, None, "b").expect("accepted");
    assert_eq!(next.sequence, 2, "no number is lost");
    assert_eq!(next.id, fed.kept.events.head());
    let kinds: Vec<_> = entries(&fed).iter().map(|entry| entry.id).collect();
    assert_eq!(kinds, (first.id..=next.id).collect::<Vec<_>>());
    assert!(fed.durable.try_recv().is_ok());
    drop(fed);
    let (_, restored) = Fed::open(&dir, "default", NOW);
    assert_eq!(restored.events.len(), 4);
}

/// A commit that failed may be on the disk all the same: it has been answered as failed.
#[test]
fn what_a_failed_commit_may_have_left_is_taken_back() {
    let dir = TestDir::new();
    let (mut fed, _) = Fed::open(&dir, "default", NOW);
    let kept = accepted(&fed, Some(1), "kept").expect("accepted");
    let ghost = accepted(&fed, Some(2), "ghost").expect("accepted");
    receive(&mut fed, vec![foreign(1, Some(1), u64::MAX >> 1, "copy")]);
    drop(fed);
    let mut connection = Connection::open(dir.file()).expect("opened");
    let transaction = connection.transaction().expect("begun");
    let Arrival::Event(copy) = foreign(1, Some(1), 5, "copy") else {
        unreachable!("it is one");
    };
    event_rows::undo(&transaction, ghost.id, &[copy]).expect("undone");
    transaction.commit().expect("written");
    drop(connection);
    let (fed, restored) = Fed::open(&dir, "default", NOW);
    let ids: Vec<u64> = restored.events.iter().map(|entry| entry.id).collect();
    assert_eq!((ids, restored.user_events.len()), (vec![kept.id], 1));
    let again = accepted(&fed, Some(2), "other").expect("the key is free");
    assert_eq!(again.generation, fed.store.generation());
}

#[test]
fn many_events_share_commits_and_all_are_there() {
    let dir = TestDir::new();
    let (fed, _) = Fed::open(&dir, "default", NOW);
    let metrics = Arc::new(Metrics::new());
    fed.store.count_in(&metrics);
    let answers: Vec<_> = (0..500)
        .map(|n| accept(&fed, draft(None, &n.to_string())))
        .collect();
    for (n, answer) in answers.into_iter().enumerate() {
        let accepted = answer.blocking_recv().expect("answered").expect("accepted");
        assert_eq!(accepted.sequence, n as u64 + 1);
    }
    let text = metrics.render(&crate::daemon::http::tests::snapshot());
    let line = |name: &str| {
        let line = text.lines().find(|line| line.starts_with(name));
        let value = line.and_then(|line| line.rsplit(' ').next()?.parse::<f64>().ok());
        value.unwrap_or_else(|| panic!("no {name} in {text}"))
    };
    let commits = line("rumord_store_commit_seconds_count");
    assert!((1.0..250.0).contains(&commits), "{commits} commits");
    assert_eq!(line("rumord_events_total{kind=\"user\"}"), 500.0);
    drop(fed);
    let (_, restored) = Fed::open(&dir, "default", NOW);
    assert_eq!(restored.user_events.len(), 500);
}

#[test]
fn large_payloads_leave_the_log_and_the_file() {
    let dir = TestDir::new();
    let (fed, _) = Fed::open(&dir, "default", NOW);
    let large = "x".repeat(64 * 1024);
    let fits = EVENT_BYTES_MAX / large.len();
    let answers: Vec<_> = (0..fits + 10)
        .map(|_| accept(&fed, draft(None, &large)))
        .collect();
    for answer in answers {
        answer.blocking_recv().expect("answered").expect("accepted");
    }
    assert_eq!(entries(&fed).len(), fits);
    fed.store.close();
    drop(fed);
    let (_, restored) = Fed::open(&dir, "default", NOW);
    assert_eq!(
        (restored.events.len(), restored.user_events.len()),
        (fits, fits)
    );
}

#[test]
fn a_database_that_is_written_anew_holds_the_events_and_marks() {
    let dir = TestDir::new();
    let (mut fed, _) = Fed::open(&dir, "default", NOW);
    accepted(&fed, Some(1), "a").expect("accepted");
    receive(&mut fed, vec![foreign(1, None, 5, "x")]);
    let lock = Connection::open(dir.file()).expect("opened");
    lock.execute_batch("begin immediate").expect("locked");
    fed.append(1);
    fed.settle("reported", |condition| condition.failure.is_some());
    for file in ["rumord.db-wal", "rumord.db-shm", "rumord.db"] {
        fs::remove_file(dir.data().join(file)).expect("it was there");
    }
    drop(lock);
    fed.settle("recovered", |condition| {
        condition.failure.is_none() && condition.unsaved_events == 0
    });
    let again = accepted(&fed, Some(1), "a").expect("the same");
    assert_eq!(again.sequence, 1);
    fed.store.close();
    drop(fed);
    let (_, restored) = Fed::open(&dir, "default", NOW);
    assert_eq!((restored.events.len(), restored.user_events.len()), (3, 2));
    assert_eq!(restored.marks.len(), 2);
}

/// As the first version wrote it.
const SCHEMA_1: &str = "
    create table node (
        only integer primary key check (only = 0),
        cluster text not null,
        node_id integer not null,
        generation integer not null,
        seen_ms integer not null,
        next_event_id integer
    ) strict;
    create table member (
        name text primary key,
        address text not null,
        node_id integer not null,
        generation integer not null,
        last_seen_ms integer
    ) strict, without rowid;
    create table event (id integer primary key, body text not null) strict;
";

#[test]
fn a_database_of_schema_1_is_brought_to_the_present_one_in_place() {
    let dir = TestDir::new();
    fs::create_dir(dir.data()).expect("created");
    let old = Connection::open(dir.file()).expect("created");
    old.execute_batch(SCHEMA_1).expect("written");
    old.execute_batch(&format!(
        "pragma application_id = 0x72756d64; pragma user_version = 1;
         insert into node values (0, 'default', 43981, {NOW}, 0, 8);
         insert into member values ('n2', '127.0.0.1:7480', 7, 3, 77000);
         insert into event values (7, '{}');",
        concat!(
            r#"{"id":7,"time":"2026-11-30T15:20:04.512Z","kind":"member-up","#,
            r#""member":"n2","generation":3,"incarnation":0,"to":"alive"}"#
        )
    ))
    .expect("written");
    old.pragma_update(None, "journal_mode", "wal").expect("set");
    drop(old);
    let (fed, restored) = Fed::open(&dir, "default", NOW);
    assert_eq!(restored.members[0].name.as_str(), "n2");
    assert_eq!(
        (restored.events.len(), restored.next_event_id),
        (1, Some(8))
    );
    let first = accepted(&fed, None, "a").expect("accepted");
    assert_eq!(first.id, 8);
    drop(fed);
    let (_, restored) = Fed::open(&dir, "default", NOW);
    assert_eq!((restored.events.len(), restored.user_events.len()), (2, 1));
    let file = Connection::open(dir.file()).expect("opened");
    let schema: u32 = file
        .pragma_query_value(None, "user_version", |row| row.get(0))
        .expect("there");
    assert_eq!(schema, 2);
}
