//! The log of what happened: one ordered list, whose numbers only grow.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use tokio::sync::watch;

use crate::member::{Generation, NodeName, UserEvent};
use crate::protocol::MemberEvent;

/// Most entries kept; the oldest make room.
pub const EVENTS_MAX: usize = 16_384;
/// Most bytes of payloads kept; the oldest entries make room.
pub const EVENT_BYTES_MAX: usize = 32 * 1024 * 1024;
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
    /// An event that a client sent, through this node or another.
    User(Arc<UserEvent>),
    /// Two events under one key say different things, and this node logged the one that does not
    /// count.
    Conflict(KeyConflict),
}

/// One key, two events.
#[derive(Clone, Debug, PartialEq)]
pub struct KeyConflict {
    /// The one that counts.
    pub event: Arc<UserEvent>,
    /// The number of the other one in this log.
    pub overruled: u64,
    /// Who took the other one from its client.
    pub origin: NodeName,
    /// In which life.
    pub generation: Generation,
    /// As which number.
    pub sequence: u64,
}

impl Logged {
    /// Bytes of the payload that a client sent, which count against [`EVENT_BYTES_MAX`].
    #[must_use]
    pub fn payload_bytes(&self) -> usize {
        match self {
            Logged::Member(_) => 0,
            Logged::User(event) | Logged::Conflict(KeyConflict { event, .. }) => {
                event.payload.len()
            }
        }
    }
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
    /// Of the payloads of `entries`.
    bytes: usize,
    /// What came while the next numbers were reserved.
    aside: Option<Aside>,
}

#[derive(Debug, Default)]
struct Aside {
    waiting: VecDeque<(SystemTime, Logged)>,
    /// Older ones that would have left the log by now.
    lost: u64,
}

/// The next numbers of a log, held back for entries that are being made durable: whatever else
/// happens meanwhile is numbered after them. Dropped, it gives the numbers back.
#[derive(Debug)]
pub struct Reservation {
    log: EventLog,
    first: u64,
}

impl EventLog {
    /// A log that goes on after `held`, which is sorted by id, with `next` as its next id; without
    /// one with the first of `generation`.
    #[must_use]
    pub fn new(generation: Generation, held: Vec<LogEntry>, next: Option<u64>) -> Self {
        let first = generation.0.saturating_mul(IDS_PER_GENERATION) + 1;
        let after_held = held.last().map_or(0, |entry| entry.id + 1);
        let head = next.unwrap_or(first).max(after_held).max(1) - 1;
        let mut ring = Ring {
            entries: VecDeque::new(),
            head,
            bytes: 0,
            aside: None,
        };
        held.into_iter().for_each(|entry| ring.push(entry));
        EventLog(Arc::new(Shared {
            ring: Mutex::new(ring),
            head: watch::channel(head).0,
        }))
    }

    /// Adds what happened at `time`, and returns its id; none yet while the next ids are reserved.
    pub fn append(&self, time: SystemTime, what: Logged) -> Option<u64> {
        let mut ring = self.ring();
        if let Some(aside) = &mut ring.aside {
            aside.keep(time, what);
            return None;
        }
        let id = ring.number(time, what);
        self.tell(&ring);
        Some(id)
    }

    /// Holds back the next ids; `None` while they are held back already.
    #[must_use]
    pub fn reserve(&self) -> Option<Reservation> {
        let mut ring = self.ring();
        if ring.aside.is_some() {
            return None;
        }
        ring.aside = Some(Aside::default());
        Some(Reservation {
            log: self.clone(),
            first: ring.head + 1,
        })
    }

    fn settle(&self, entries: Vec<(SystemTime, Logged)>) {
        let mut ring = self.ring();
        let Some(aside) = ring.aside.take() else {
            return;
        };
        for (time, what) in entries {
            ring.number(time, what);
        }
        ring.head += aside.lost;
        for (time, what) in aside.waiting {
            ring.number(time, what);
        }
        self.tell(&ring);
    }

    /// Under the lock, so that the head that readers wait for never goes backwards.
    fn tell(&self, ring: &Ring) {
        self.0.head.send_if_modified(|head| {
            let grown = *head != ring.head;
            *head = ring.head;
            grown
        });
    }

    /// Drops what is older than its time at `now`.
    pub fn expire(&self, now: SystemTime) {
        let mut ring = self.ring();
        let old = |entry: &Arc<LogEntry>| {
            let age = now.duration_since(entry.time);
            age.is_ok_and(|age| age > EVENT_AGE_MAX)
        };
        while ring.entries.front().is_some_and(old) {
            ring.drop_oldest();
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

impl Ring {
    fn number(&mut self, time: SystemTime, what: Logged) -> u64 {
        self.head += 1;
        let id = self.head;
        self.push(LogEntry { id, time, what });
        id
    }

    fn push(&mut self, entry: LogEntry) {
        self.bytes += entry.what.payload_bytes();
        self.entries.push_back(Arc::new(entry));
        while self.entries.len() > EVENTS_MAX || self.bytes > EVENT_BYTES_MAX {
            self.drop_oldest();
        }
    }

    fn drop_oldest(&mut self) {
        if let Some(entry) = self.entries.pop_front() {
            self.bytes -= entry.what.payload_bytes();
        }
    }
}

impl Aside {
    fn keep(&mut self, time: SystemTime, what: Logged) {
        if self.waiting.len() >= EVENTS_MAX {
            self.waiting.pop_front();
            self.lost += 1;
        }
        self.waiting.push_back((time, what));
    }
}

impl Reservation {
    /// The first of the ids.
    #[must_use]
    pub fn first(&self) -> u64 {
        self.first
    }

    /// Adds `entries`, which are durable now, from [`Reservation::first`] on, and behind them what
    /// came meanwhile.
    pub fn fill(self, entries: Vec<(SystemTime, Logged)>) {
        self.log.settle(entries);
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        // Nothing is left to settle once it was filled.
        self.log.settle(Vec::new());
    }
}

#[cfg(test)]
mod tests;
