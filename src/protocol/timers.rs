//! The core's deadlines: one slot per timer, kept in order.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::member::NameHash;
use crate::time::Instant;
use crate::wire::ProbeSeq;

use super::outbox::StreamId;

/// What a deadline is for. The order decides between equal deadlines.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Timer {
    /// A ping or ping-req has waited long enough.
    Probe(ProbeSeq),
    /// The next step of a case.
    Case(NameHash),
    /// A suspicion raised by others has stood too long.
    ForeignSuspicion(NameHash),
    /// The next question to the instance whose name somebody else wants.
    Admission(StreamId),
    /// News is due to be pushed.
    Push,
    /// A join address is due to be tried.
    Join,
    /// The next round of asking who knows that this node leaves.
    Leave,
    /// The next duty of the slotted schedule.
    Slot,
    /// The own probe period.
    Period,
}

/// Which timer is due when. Setting replaces, cancelling removes: nothing in here is ever stale.
#[derive(Default, Debug)]
pub struct Timers {
    slots: BTreeMap<Timer, Instant>,
    order: BTreeSet<(Instant, Timer)>,
}

impl Timers {
    /// Sets `timer` to fire `length` after `now`, and at the earliest a microsecond later, so that
    /// firing timers always comes to an end.
    pub fn set(&mut self, timer: Timer, now: Instant, length: Duration) {
        self.cancel(timer);
        let deadline = now + length.max(Duration::from_micros(1));
        self.slots.insert(timer, deadline);
        self.order.insert((deadline, timer));
    }

    /// Removes `timer`, if set.
    pub fn cancel(&mut self, timer: Timer) {
        if let Some(deadline) = self.slots.remove(&timer) {
            self.order.remove(&(deadline, timer));
        }
    }

    /// When `timer` is due, if set.
    #[must_use]
    pub fn deadline(&self, timer: Timer) -> Option<Instant> {
        self.slots.get(&timer).copied()
    }

    /// The earliest deadline.
    #[must_use]
    pub fn next(&self) -> Option<Instant> {
        self.order.first().map(|&(deadline, _)| deadline)
    }

    /// Takes the earliest timer that is due at `now`, with its deadline.
    pub fn pop_due(&mut self, now: Instant) -> Option<(Instant, Timer)> {
        let &(deadline, timer) = self.order.first()?;
        if deadline > now {
            return None;
        }
        self.cancel(timer);
        Some((deadline, timer))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn timers_fire_in_order_and_once() {
        let mut timers = Timers::default();
        let now = Instant::ORIGIN;
        timers.set(Timer::Period, now, 5 * MS);
        timers.set(Timer::Push, now, 5 * MS);
        timers.set(Timer::Join, now, 2 * MS);
        timers.set(Timer::Join, now, 9 * MS);
        assert_eq!(timers.next(), Some(now + 5 * MS));
        let due = now + 6 * MS;
        assert_eq!(timers.pop_due(due), Some((now + 5 * MS, Timer::Push)));
        assert_eq!(timers.pop_due(due), Some((now + 5 * MS, Timer::Period)));
        assert_eq!(timers.pop_due(due), None);
        timers.cancel(Timer::Join);
        assert_eq!(timers.next(), None);
    }
}
