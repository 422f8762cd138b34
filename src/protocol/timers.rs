//! The core's deadlines: one slot per timer, kept in order.

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
    /// The next round of a trial.
    Trial(NameHash),
    /// A suspicion raised by others has stood too long.
    ForeignSuspicion(NameHash),
    /// The next question to the instance whose name somebody else wants.
    Admission(StreamId),
    /// The next step of forgetting a member.
    Forget(NameHash),
    /// News is due to be pushed.
    Push,
    /// Something about user events is due.
    Events,
    /// Somebody waits for agreement, and is to be told how far it is.
    Agreement,
    /// A join address is due to be tried.
    Join,
    /// The next round of asking who knows that this node leaves.
    Leave,
    /// The accused are due to be asked, or a verdict kept aside to be adopted.
    Hold,
    /// The next duty of the slotted schedule.
    Slot,
    /// The partner of an exchange has been silent for long enough.
    Exchange,
    /// The next exchange after one that moved much.
    FollowUp,
    /// A look whether a batch of changes has reached everybody.
    Settle,
    /// The own probe period.
    Period,
}

/// How many timers there is one of each.
const SINGLES: usize = 11;

/// Which timer is due when. Setting replaces, cancelling removes: nothing in here is ever stale.
#[derive(Default, Debug)]
pub struct Timers {
    /// Timers of which there is one each, in the order that decides between equal deadlines.
    singles: [Option<Instant>; SINGLES],
    /// The others, sorted: a few at most times, and then nothing is quicker than a list.
    keyed: Vec<(Instant, Timer)>,
    /// The earliest: it is asked for far more often than it changes.
    first: Option<(Instant, Timer)>,
}

impl Timer {
    const SINGLE: [Timer; SINGLES] = [
        Timer::Push,
        Timer::Events,
        Timer::Agreement,
        Timer::Join,
        Timer::Leave,
        Timer::Hold,
        Timer::Slot,
        Timer::Exchange,
        Timer::FollowUp,
        Timer::Settle,
        Timer::Period,
    ];

    /// Its place among the timers of which there is one each.
    const fn single(self) -> Option<usize> {
        match self {
            Timer::Push => Some(0),
            Timer::Events => Some(1),
            Timer::Agreement => Some(2),
            Timer::Join => Some(3),
            Timer::Leave => Some(4),
            Timer::Hold => Some(5),
            Timer::Slot => Some(6),
            Timer::Exchange => Some(7),
            Timer::FollowUp => Some(8),
            Timer::Settle => Some(9),
            Timer::Period => Some(10),
            _ => None,
        }
    }
}

impl Timers {
    /// The only timer so far is this one, due `after` so long.
    #[must_use]
    pub fn beginning_with(timer: Timer, now: Instant, after: Duration) -> Self {
        let mut timers = Timers::default();
        timers.set(timer, now, after);
        timers
    }

    /// Sets `timer` to fire `length` after `now`, and at the earliest a microsecond later, so that
    /// firing timers always comes to an end.
    pub fn set(&mut self, timer: Timer, now: Instant, length: Duration) {
        let deadline = now + length.max(Duration::from_micros(1));
        if let Some(place) = timer.single() {
            self.singles[place] = Some(deadline);
        } else {
            self.remove_keyed(timer);
            let entry = (deadline, timer);
            let place = self.keyed.partition_point(|&before| before < entry);
            self.keyed.insert(place, entry);
        }
        match self.first {
            Some((_, first)) if first == timer => self.first = self.earliest(),
            Some(first) if first < (deadline, timer) => {}
            _ => self.first = Some((deadline, timer)),
        }
    }

    /// Removes `timer`, if set.
    #[inline]
    pub fn cancel(&mut self, timer: Timer) {
        // After every input those are cancelled that are seldom set.
        let is_unset = timer
            .single()
            .is_some_and(|place| self.singles[place].is_none());
        if !is_unset {
            self.remove(timer);
        }
    }

    fn remove(&mut self, timer: Timer) {
        if let Some(place) = timer.single() {
            self.singles[place] = None;
        } else {
            self.remove_keyed(timer);
        }
        if self.first.is_some_and(|(_, first)| first == timer) {
            self.first = self.earliest();
        }
    }

    fn remove_keyed(&mut self, timer: Timer) {
        if let Some(place) = self.place(timer) {
            self.keyed.remove(place);
        }
    }

    fn place(&self, timer: Timer) -> Option<usize> {
        self.keyed.iter().position(|&(_, held)| held == timer)
    }

    /// When `timer` is due, if set.
    #[must_use]
    pub fn deadline(&self, timer: Timer) -> Option<Instant> {
        match timer.single() {
            Some(place) => self.singles[place],
            None => Some(self.keyed[self.place(timer)?].0),
        }
    }

    /// The earliest deadline.
    #[must_use]
    pub fn next(&self) -> Option<Instant> {
        self.first.map(|(deadline, _)| deadline)
    }

    fn earliest(&self) -> Option<(Instant, Timer)> {
        let mut earliest = self.keyed.first().copied();
        for (timer, deadline) in Timer::SINGLE.into_iter().zip(self.singles) {
            if let Some(deadline) = deadline
                && earliest.is_none_or(|(before, _)| deadline < before)
            {
                earliest = Some((deadline, timer));
            }
        }
        earliest
    }

    /// Takes the earliest timer that is due at `now`, with its deadline.
    pub fn pop_due(&mut self, now: Instant) -> Option<(Instant, Timer)> {
        let (deadline, timer) = self.first?;
        if deadline > now {
            return None;
        }
        self.remove(timer);
        Some((deadline, timer))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

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

    fn timer(n: u8) -> Timer {
        let member = NameHash::from_wire(u64::from(n).to_be_bytes());
        match n {
            0..11 => Timer::SINGLE[usize::from(n)],
            11..13 => Timer::Probe(ProbeSeq(n.into())),
            13..16 => Timer::Case(member),
            16..19 => Timer::ForeignSuspicion(member),
            _ => Timer::Admission(StreamId(n.into())),
        }
    }

    proptest::proptest! {
        #[test]
        fn timers_are_as_in_a_plain_map(
            steps in proptest::collection::vec((0..4u8, 0..20u8, 0..6u64), 1..80),
        ) {
            let (mut timers, mut map) = (Timers::default(), BTreeMap::new());
            let mut now = Instant::ORIGIN;
            for (what, which, length) in steps {
                let (timer, length) = (timer(which), Duration::from_micros(length));
                match what {
                    0 | 1 => {
                        timers.set(timer, now, length);
                        map.insert(timer, now + length.max(Duration::from_micros(1)));
                    }
                    2 => {
                        timers.cancel(timer);
                        map.remove(&timer);
                    }
                    _ => now = now + length,
                }
                let first = map.iter().map(|(&timer, &deadline)| (deadline, timer)).min();
                assert_eq!(timers.next(), first.map(|(deadline, _)| deadline));
                assert_eq!(timers.deadline(timer), map.get(&timer).copied());
                let due = first.filter(|&(deadline, _)| deadline <= now);
                assert_eq!(timers.pop_due(now), due);
                due.map(|(_, timer)| map.remove(&timer));
            }
        }
    }
}
