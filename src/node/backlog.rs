//! How many events wait to be told: where there are too many, further ones are turned away before
//! anything is stored.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::protocol::EventBacklog;

/// Events that may be accepted and not yet told to anybody.
pub const BACKLOG_EVENTS_MAX: usize = 4096;
/// Their payloads, in bytes.
pub const BACKLOG_BYTES_MAX: usize = 4 * 1024 * 1024;

/// What waits to be told, in the store's hands and in the core's. Clones are the same backlog.
#[derive(Clone, Debug, Default)]
pub struct Backlog(Arc<Mutex<Waiting>>);

#[derive(Debug, Default)]
struct Waiting {
    /// Offered, and not yet in the core.
    offered: EventBacklog,
    /// In the core.
    core: EventBacklog,
}

/// An event's place among those that wait: free again when dropped.
#[derive(Debug)]
pub struct Place {
    backlog: Backlog,
    bytes: usize,
}

impl Backlog {
    /// A place for an event with a payload of so many bytes; `None` when too much waits already.
    #[must_use]
    pub fn enter(&self, bytes: usize) -> Option<Place> {
        let mut waiting = self.waiting();
        let held = waiting.total();
        let full = held.events >= BACKLOG_EVENTS_MAX;
        if full || (held.events > 0 && held.bytes + bytes > BACKLOG_BYTES_MAX) {
            return None;
        }
        waiting.offered.events += 1;
        waiting.offered.bytes += bytes;
        drop(waiting);
        Some(Place {
            backlog: self.clone(),
            bytes,
        })
    }

    /// What waits now.
    #[must_use]
    pub fn now(&self) -> EventBacklog {
        self.waiting().total()
    }

    /// The core's share of it.
    pub(super) fn set_core(&self, core: EventBacklog) {
        self.waiting().core = core;
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Waiting {
    fn total(&self) -> EventBacklog {
        EventBacklog {
            events: self.offered.events + self.core.events,
            bytes: self.offered.bytes + self.core.bytes,
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut waiting = self.backlog.waiting();
        waiting.offered.events -= 1;
        waiting.offered.bytes -= self.bytes;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_bounded_by_number_and_bytes_and_free_again() {
        let backlog = Backlog::default();
        let mut places: Vec<Place> = (0..BACKLOG_EVENTS_MAX)
            .filter_map(|_| backlog.enter(10))
            .collect();
        assert_eq!(places.len(), BACKLOG_EVENTS_MAX);
        assert!(backlog.enter(0).is_none());
        places.pop();
        assert_eq!(backlog.now().bytes, 10 * (BACKLOG_EVENTS_MAX - 1));
        assert!(backlog.enter(BACKLOG_BYTES_MAX).is_none(), "too many bytes");
        places.clear();
        let large = backlog.enter(2 * BACKLOG_BYTES_MAX);
        assert!(large.is_some(), "one always has a place");
        assert!(backlog.enter(1).is_none());
        drop(large);
        backlog.set_core(EventBacklog {
            events: BACKLOG_EVENTS_MAX,
            bytes: 0,
        });
        assert!(backlog.enter(1).is_none(), "the core's count too");
        backlog.set_core(EventBacklog::default());
        assert!(backlog.enter(1).is_some());
    }
}
