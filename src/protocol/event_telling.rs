//! Which events are told next: own ones and those passed on, in the order in which they came.

use std::collections::VecDeque;
use std::time::Duration;

use crate::member::{Delivery, NameHash};
use crate::time::Instant;
use crate::wire::{self, ToldEvent, ToldWhat};

/// Events of others that wait to be passed on; further ones are not passed on.
const PASSED_ON_MAX: usize = 8192;
/// Bytes of them.
const PASSED_ON_BYTES_MAX: usize = 8 << 20;
/// Own events that wait; further ones are told by answering those who ask.
const OWN_MAX: usize = 16_384;

/// An event to be told.
#[derive(Clone, Debug)]
pub struct Telling {
    /// What is said.
    pub told: ToldEvent,
    /// Whether this node sent it.
    pub own: bool,
    /// Who told it, and needs not be told.
    pub heard_from: Option<NameHash>,
    /// Rounds that it is told in.
    pub rounds: usize,
    /// Rounds that it has been told in.
    pub round: usize,
    due: Instant,
    bytes: usize,
}

impl Telling {
    /// An event to be told in so many rounds, the first at `due`.
    #[must_use]
    pub fn new(told: ToldEvent, heard_from: Option<NameHash>, rounds: usize, due: Instant) -> Self {
        Telling {
            bytes: wire::told_event_bytes(&told),
            own: heard_from.is_none(),
            told,
            heard_from,
            rounds,
            round: 0,
            due,
        }
    }

    fn payload(&self) -> usize {
        match &self.told.what {
            ToldWhat::Whole(event) => event.payload.len(),
            ToldWhat::Announced(_) => 0,
        }
    }
}

/// What waits.
#[derive(Debug, Default)]
pub struct EventTelling {
    /// For the first round.
    first: VecDeque<Telling>,
    /// For a later one, in the order in which they are due.
    later: VecDeque<Telling>,
    own: usize,
    own_bytes: usize,
    passed_on_bytes: usize,
}

impl EventTelling {
    /// An event is to be told; false when too many wait already.
    pub fn push(&mut self, telling: Telling) -> bool {
        let passed_on = self.first.len() - self.own;
        let room = if telling.own {
            self.own < OWN_MAX
        } else {
            passed_on < PASSED_ON_MAX && self.passed_on_bytes < PASSED_ON_BYTES_MAX
        };
        if room {
            self.count_in(&telling);
            self.first.push_back(telling);
        }
        room
    }

    fn count_in(&mut self, telling: &Telling) {
        if telling.own {
            self.own += 1;
            self.own_bytes += telling.payload();
        } else {
            self.passed_on_bytes += telling.bytes;
        }
    }

    fn count_out(&mut self, telling: &Telling) {
        if telling.own {
            self.own -= 1;
            self.own_bytes -= telling.payload();
        } else {
            self.passed_on_bytes -= telling.bytes;
        }
    }

    /// When something is next to be told.
    #[must_use]
    pub fn next_due(&self) -> Option<Instant> {
        let due = |queue: &VecDeque<Telling>| queue.front().map(|telling| telling.due);
        due(&self.first).into_iter().chain(due(&self.later)).min()
    }

    /// What is due up to `until` and fits `room` bytes, at most `max` events of one round; empty
    /// when nothing is due. The first comes even if it does not fit.
    pub fn take(&mut self, until: Instant, room: usize, max: usize) -> Vec<Telling> {
        let due = |queue: &VecDeque<Telling>| queue.front().is_some_and(|it| it.due <= until);
        let is_first = due(&self.first);
        let mut taken: Vec<Telling> = Vec::new();
        let mut bytes = 0;
        loop {
            let queue = if is_first {
                &mut self.first
            } else {
                &mut self.later
            };
            let fits = queue.front().is_some_and(|next| {
                let same = taken.first().is_none_or(|it| it.round == next.round);
                let small = taken.is_empty() || bytes + next.bytes <= room;
                next.due <= until && same && small && taken.len() < max
            });
            if !fits {
                return taken;
            }
            let Some(next) = queue.pop_front() else {
                return taken;
            };
            if is_first {
                self.count_out(&next);
            }
            bytes += next.bytes;
            taken.push(next);
        }
    }

    /// These were told; those with further rounds are told again `gap` later.
    pub fn told(&mut self, tellings: Vec<Telling>, now: Instant, gap: Duration) {
        for mut telling in tellings {
            telling.round += 1;
            telling.due = now + gap;
            // Only the first copy collects: later ones come when that is over.
            telling.told.collects = false;
            if telling.round < telling.rounds && self.later.len() < PASSED_ON_MAX {
                self.later.push_back(telling);
            }
        }
    }

    /// Own events that wait for their first round, and the bytes of their payloads.
    #[must_use]
    pub fn backlog(&self) -> (usize, usize) {
        (self.own, self.own_bytes)
    }

    /// Whether own events that are sent at least once wait.
    #[must_use]
    pub fn has_own_durable(&self) -> bool {
        self.own > 0
            && self.first.iter().any(|telling| {
                telling.own && telling.told.what.event_ref().delivery == Delivery::AtLeastOnce
            })
    }

    /// Everything that waits.
    #[must_use]
    pub fn len(&self) -> usize {
        self.first.len() + self.later.len()
    }

    /// Nothing of others is passed on any more, and nothing is repeated.
    pub fn drop_passed_on(&mut self) {
        self.later.clear();
        self.first.retain(|telling| telling.own);
        self.passed_on_bytes = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::member::{EventRef, Generation};

    const MS: Duration = Duration::from_millis(1);

    fn announced(sequence: u64) -> ToldEvent {
        ToldEvent {
            hop: 1,
            collects: true,
            what: ToldWhat::Announced(EventRef {
                origin: NameHash::from_wire([1; 8]),
                generation: Generation(1),
                delivery: Delivery::AtLeastOnce,
                sequence,
            }),
        }
    }

    fn numbers(taken: &[Telling]) -> Vec<(usize, u64)> {
        let number = |it: &Telling| (it.round, it.told.what.event_ref().sequence);
        taken.iter().map(number).collect()
    }

    #[test]
    fn events_are_told_in_order_as_many_as_fit_and_again_in_their_rounds() {
        let (mut telling, now) = (EventTelling::default(), Instant::ORIGIN);
        for number in 1..=3 {
            assert!(telling.push(Telling::new(announced(number), None, 2, now)));
        }
        assert_eq!(telling.backlog(), (3, 0));
        let bytes = wire::told_event_bytes(&announced(1));
        let first = telling.take(now, 2 * bytes, 9);
        assert_eq!(numbers(&first), [(0, 1), (0, 2)]);
        telling.told(first, now, 100 * MS);
        let rest = telling.take(now, 0, 9);
        assert_eq!(numbers(&rest), [(0, 3)], "even if it does not fit");
        telling.told(rest, now + MS, 100 * MS);
        assert_eq!((telling.backlog().0, telling.len()), (0, 3));
        assert_eq!(telling.next_due(), Some(now + 100 * MS));
        let again = telling.take(now + 101 * MS, 9000, 9);
        assert_eq!(numbers(&again), [(1, 1), (1, 2), (1, 3)]);
        assert!(again.iter().all(|it| !it.told.collects));
        telling.told(again, now, MS);
        assert_eq!(telling.len(), 0);
    }

    #[test]
    fn what_is_passed_on_has_a_limit_and_makes_no_backlog() {
        let (mut telling, now) = (EventTelling::default(), Instant::ORIGIN);
        let from = Some(NameHash::from_wire([2; 8]));
        let passed = |telling: &mut EventTelling, number: u64| {
            telling.push(Telling::new(announced(number), from, 1, now))
        };
        let taken = (0..2 * PASSED_ON_MAX as u64).filter(|&number| passed(&mut telling, number));
        assert_eq!(taken.count(), PASSED_ON_MAX);
        assert_eq!(telling.backlog(), (0, 0));
        assert!(telling.push(Telling::new(announced(1), None, 1, now)));
        telling.drop_passed_on();
        assert_eq!((telling.len(), telling.backlog().0), (1, 1));
    }
}
