//! Ids, gaps, bounds and reservations.

use super::*;
use crate::member::{Delivery, EventName, Incarnation, Status};
use crate::protocol::EventKind;

fn up() -> Logged {
    Logged::Member(MemberEvent {
        kind: EventKind::MemberUp,
        member: "n1".parse().expect("valid"),
        address: None,
        rival: None,
        generation: Generation(7),
        incarnation: Incarnation(0),
        from: None,
        to: Status::Alive,
        evidence: None,
    })
}

fn entry(id: u64) -> LogEntry {
    LogEntry {
        id,
        time: SystemTime::UNIX_EPOCH,
        what: up(),
    }
}

fn ids(page: &Page) -> Vec<u64> {
    page.entries.iter().map(|entry| entry.id).collect()
}

#[test]
fn ids_grow_by_one_from_the_generation_on() {
    let log = EventLog::new(Generation(3), Vec::new(), None);
    let base = 3 << 20;
    assert_eq!((log.head(), log.oldest()), (base, base + 1));
    let page = log.read(0, 10);
    assert_eq!((ids(&page), page.next, page.reset), (vec![], base, None));
    for n in 1..=3 {
        assert_eq!(log.append(SystemTime::now(), up()), Some(base + n));
    }
    let page = log.read(base + 1, 1);
    assert_eq!((ids(&page), page.next), (vec![base + 2], base + 2));
    assert_eq!(ids(&log.read(0, 10)).len(), 3);
    assert_eq!(log.read(0, 0).next, base);
    assert_eq!(log.read(base + 3, 10).next, base + 3);
}

#[test]
fn a_restart_goes_on_and_a_crash_leaves_a_gap_that_is_told() {
    let held = || vec![entry(5), entry(6)];
    let clean = EventLog::new(Generation(1), held(), Some(7));
    assert_eq!(clean.append(SystemTime::now(), up()), Some(7));
    assert_eq!(clean.read(6, 10).reset, None);
    let crashed = EventLog::new(Generation(1), held(), None);
    let id = crashed
        .append(SystemTime::now(), up())
        .expect("nothing is reserved");
    assert_eq!(id, (1 << 20) + 1);
    let page = crashed.read(6, 10);
    assert_eq!((ids(&page), page.reset), (vec![id], Some(Reset::Gap)));
    assert_eq!(crashed.get(7), Lookup::Gone);
    assert_eq!(crashed.get(id + 1), Lookup::Unknown);
    assert_eq!(crashed.read(5, 1).reset, None);
    // Never backwards, whatever is claimed.
    let lied = EventLog::new(Generation(0), held(), Some(2));
    assert_eq!(lied.append(SystemTime::now(), up()), Some(7));
}

#[test]
fn a_cursor_of_another_log_is_reset_to_the_oldest() {
    let log = EventLog::new(Generation(0), vec![entry(4)], None);
    let page = log.read(99, 10);
    assert_eq!(
        (ids(&page), page.reset, page.next),
        (vec![4], Some(Reset::Ahead), 4)
    );
}

#[test]
fn the_log_is_bounded_by_number_and_age() {
    let log = EventLog::new(Generation(0), Vec::new(), None);
    for _ in 0..EVENTS_MAX + 10 {
        log.append(SystemTime::UNIX_EPOCH, up());
    }
    assert_eq!(log.oldest(), 11);
    let page = log.read(3, 1);
    assert_eq!((ids(&page), page.reset), (vec![11], Some(Reset::Gap)));
    assert_eq!(log.get(3), Lookup::Gone);
    log.expire(SystemTime::UNIX_EPOCH + EVENT_AGE_MAX);
    assert_eq!(log.oldest(), 11);
    log.expire(SystemTime::UNIX_EPOCH + EVENT_AGE_MAX + Duration::from_secs(1));
    let page = log.read(12, 10);
    let end = EVENTS_MAX as u64 + 10;
    assert_eq!(
        (ids(&page), page.reset, page.next),
        (vec![], Some(Reset::Gap), end)
    );
    assert_eq!(log.oldest(), end + 1);
    assert_eq!(log.read(end, 10).reset, None);
}

fn user(payload: usize) -> Logged {
    Logged::User(Arc::new(UserEvent {
        origin: "n1".parse().expect("valid"),
        generation: Generation(7),
        delivery: Delivery::AtLeastOnce,
        sequence: 1,
        key: None,
        unix_ms: 5,
        name: EventName::new("deploy").expect("valid"),
        payload: vec![0; payload],
    }))
}

/// What is being made durable is not seen before it is, leaves no gap when it fails, and holds up
/// nothing.
#[test]
fn reserved_ids_are_filled_or_given_back_and_appending_never_waits() {
    let log = EventLog::new(Generation(0), vec![entry(1)], None);
    for (filled, ids_then) in [(0, vec![2, 3]), (2, vec![4, 5, 6])] {
        let before = log.head();
        let reservation = log.reserve().expect("the first");
        assert_eq!(reservation.first(), before + 1);
        assert!(log.reserve().is_none());
        let others = ids_then.len() - filled;
        for _ in 0..others {
            assert_eq!(log.append(SystemTime::now(), up()), None);
        }
        assert_eq!((log.head(), ids(&log.read(before, 9))), (before, vec![]));
        let entries: Vec<_> = (0..filled).map(|_| (SystemTime::now(), user(3))).collect();
        match filled {
            0 => drop(reservation),
            _ => reservation.fill(entries),
        }
        let page = log.read(before, 9);
        assert_eq!((ids(&page), page.reset), (ids_then, None));
        let is_user = |entry: &&Arc<LogEntry>| matches!(entry.what, Logged::User(_));
        let first = page.entries.iter().take_while(is_user).count();
        assert_eq!(first, filled, "what was reserved goes first");
    }
}

#[test]
fn waiting_readers_see_a_filled_reservation_and_nothing_before() {
    let log = EventLog::new(Generation(0), Vec::new(), Some(5));
    let mut changes = log.changes();
    let reservation = log.reserve().expect("the first");
    log.append(SystemTime::now(), up());
    assert!(!changes.has_changed().expect("it lives"));
    reservation.fill(vec![(SystemTime::now(), user(1))]);
    assert_eq!(*changes.borrow_and_update(), 6);
}

#[test]
fn more_than_the_log_holds_may_come_during_a_reservation() {
    let log = EventLog::new(Generation(0), Vec::new(), Some(1));
    let reservation = log.reserve().expect("the first");
    for _ in 0..EVENTS_MAX + 5 {
        log.append(SystemTime::now(), up());
    }
    drop(reservation);
    assert_eq!((log.oldest(), log.head()), (6, EVENTS_MAX as u64 + 5));
}

#[test]
fn the_log_is_bounded_by_bytes() {
    let log = EventLog::new(Generation(0), Vec::new(), Some(1));
    let large = 64 * 1024;
    let held = (EVENT_BYTES_MAX / large) as u64;
    for _ in 0..held + 3 {
        log.append(SystemTime::now(), user(large));
    }
    assert_eq!((log.oldest(), log.head()), (4, held + 3));
}
