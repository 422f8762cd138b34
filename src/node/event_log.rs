//! The log of what happened: one ordered list, whose numbers only grow.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use tokio::sync::watch;

use crate::member::Generation;
use crate::protocol::MemberEvent;

/// Most entries kept; the oldest make room.
pub const EVENTS_MAX: usize = 16_384;
/// How long an entry is kept.
pub const EVENT_AGE_MAX: Duration = Duration::from_secs(7 * 24 * 3600);
/// Without an older log ids start at the generation times this, and so does the log of a process
/// that cannot know how far an earlier one came: a second that hands out a million ids is unheard
/// of, so they never go backwards.
pub const IDS_PER_GENERATION: u64 = 1 << 20;

/// One thing that happened.
#[derive(Clone, Debug, PartialEq)]
pub struct LogEntry {
    /// Its number in this node's log.
    pub id: u64,
    /// When this node noticed.
    pub time: SystemTime,
    /// What it was.
    pub what: Logged,
}

/// What an entry tells.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Logged {
    /// A change of the member table.
    Member(MemberEvent),
}

/// Why a reader cannot go on exactly where it stopped.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reset {
    /// Entries after its cursor are not held any more, or were lost in a crash.
    Gap,
    /// Its cursor is beyond everything this log has numbered: it belongs to another log.
    Ahead,
}

/// Entries of one read.
#[derive(Clone, Debug, PartialEq)]
pub struct Page {
    /// In the order of their ids.
    pub entries: Vec<Arc<LogEntry>>,
    /// The cursor to go on with.
    pub next: u64,
    /// Set where something is missing between the cursor and the first entry.
    pub reset: Option<Reset>,
    /// The last id given out.
    pub head: u64,
}

/// What became of an id.
#[derive(Clone, Debug, PartialEq)]
pub enum Lookup {
    /// Here it is.
    Found(Arc<LogEntry>),
    /// It is not held any more, or was lost in a crash.
    Gone,
    /// It has not been given out.
    Unknown,
}

/// The log of one node. Cheap to clone: all clones are the same log. No call ever waits.
#[derive(Clone, Debug)]
pub struct EventLog(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    ring: Mutex<Ring>,
    head: watch::Sender<u64>,
}

#[derive(Debug)]
struct Ring {
    /// Sorted by id; ids may be missing where a crash lost them.
    entries: VecDeque<Arc<LogEntry>>,
    head: u64,
}

impl EventLog {
    /// A log that goes on after `held`, which is sorted by id, with `next` as its next id; without
    /// one with the first of `generation`.
    #[must_use]
    pub fn new(generation: Generation, held: Vec<LogEntry>, next: Option<u64>) -> Self {
        let first = generation.0.saturating_mul(IDS_PER_GENERATION) + 1;
        let after_held = held.last().map_or(0, |entry| entry.id + 1);
        let head = next.unwrap_or(first).max(after_held).max(1) - 1;
        let surplus = held.len().saturating_sub(EVENTS_MAX);
        let entries = held.into_iter().skip(surplus).map(Arc::new).collect();
        EventLog(Arc::new(Shared {
            ring: Mutex::new(Ring { entries, head }),
            head: watch::channel(head).0,
        }))
    }

    /// Adds what happened at `time`, and returns its id.
    pub fn append(&self, time: SystemTime, what: Logged) -> u64 {
        let mut ring = self.ring();
        ring.head += 1;
        let id = ring.head;
        if ring.entries.len() >= EVENTS_MAX {
            ring.entries.pop_front();
        }
        ring.entries
            .push_back(Arc::new(LogEntry { id, time, what }));
        // Under the lock, so that the head that readers wait for never goes backwards.
        self.0.head.send_replace(id);
        id
    }

    /// Drops what is older than its time at `now`.
    pub fn expire(&self, now: SystemTime) {
        let mut ring = self.ring();
        let old = |entry: &Arc<LogEntry>| {
            let age = now.duration_since(entry.time);
            age.is_ok_and(|age| age > EVENT_AGE_MAX)
        };
        while ring.entries.front().is_some_and(old) {
            ring.entries.pop_front();
        }
    }

    /// Up to `limit` entries after the cursor `after`; from the oldest on for 0.
    #[must_use]
    pub fn read(&self, after: u64, limit: usize) -> Page {
        let ring = self.ring();
        let ahead = after > ring.head;
        let from = if ahead { 0 } else { after };
        let start = ring.entries.partition_point(|entry| entry.id <= from);
        let taken = ring.entries.range(start..).take(limit);
        let entries: Vec<_> = taken.cloned().collect();
        let following = ring
            .entries
            .get(start)
            .map_or(ring.head + 1, |entry| entry.id);
        let reset = match ahead {
            true => Some(Reset::Ahead),
            false if after > 0 && following > after + 1 => Some(Reset::Gap),
            false => None,
        };
        let all = start + entries.len() == ring.entries.len();
        let next = match entries.last() {
            Some(last) => last.id,
            None if all => ring.head,
            None => following - 1,
        };
        Page {
            entries,
            next,
            reset,
            head: ring.head,
        }
    }

    /// The entry of this id.
    #[must_use]
    pub fn get(&self, id: u64) -> Lookup {
        let ring = self.ring();
        match ring.entries.binary_search_by_key(&id, |entry| entry.id) {
            Ok(place) => Lookup::Found(Arc::clone(&ring.entries[place])),
            Err(_) if id > ring.head || id == 0 => Lookup::Unknown,
            Err(_) => Lookup::Gone,
        }
    }

    /// The oldest id held, or the next to be given out.
    #[must_use]
    pub fn oldest(&self) -> u64 {
        let ring = self.ring();
        ring.entries.front().map_or(ring.head + 1, |entry| entry.id)
    }

    /// The last id given out.
    #[must_use]
    pub fn head(&self) -> u64 {
        self.ring().head
    }

    /// Follows the head: the receiver wakes when something was added.
    #[must_use]
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.0.head.subscribe()
    }

    fn ring(&self) -> MutexGuard<'_, Ring> {
        self.0.ring.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::member::{Incarnation, Status};
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
            assert_eq!(log.append(SystemTime::now(), up()), base + n);
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
        assert_eq!(clean.append(SystemTime::now(), up()), 7);
        assert_eq!(clean.read(6, 10).reset, None);
        let crashed = EventLog::new(Generation(1), held(), None);
        let id = crashed.append(SystemTime::now(), up());
        assert_eq!(id, (1 << 20) + 1);
        let page = crashed.read(6, 10);
        assert_eq!((ids(&page), page.reset), (vec![id], Some(Reset::Gap)));
        assert_eq!(crashed.get(7), Lookup::Gone);
        assert_eq!(crashed.get(id + 1), Lookup::Unknown);
        assert_eq!(crashed.read(5, 1).reset, None);
        // Never backwards, whatever is claimed.
        let lied = EventLog::new(Generation(0), held(), Some(2));
        assert_eq!(lied.append(SystemTime::now(), up()), 7);
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
}
