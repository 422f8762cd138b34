//! How far the events of every member are known, so that none is taken twice.

use std::collections::BTreeMap;

use crate::member::{Delivery, EventRef, Generation, NameHash};
use crate::protocol::EventMark;

/// Lives of one member that are told apart; events of older ones count as known.
pub const MARK_GENERATIONS_MAX: usize = 4;
/// Members of which marks are kept, each counted for both deliveries; those that were silent for
/// longest make room.
const ORIGINS_MAX: usize = 32_768;

/// The marks of all origins.
#[derive(Clone, Debug, Default)]
pub struct Marks {
    origins: BTreeMap<(NameHash, Delivery), Lives>,
    /// Counts the changes, to tell which origin was silent for longest.
    changes: u64,
}

#[derive(Clone, Debug, Default)]
struct Lives {
    upto: BTreeMap<Generation, u64>,
    changed: u64,
}

impl Marks {
    /// These marks.
    #[must_use]
    pub fn of(marks: &[EventMark]) -> Self {
        let mut all = Marks::default();
        marks.iter().for_each(|mark| all.advance(&mark.upto));
        all
    }

    /// Whether `event` has been here, or need not come.
    #[must_use]
    pub fn know(&self, event: &EventRef) -> bool {
        let Some(lives) = self.origins.get(&(event.origin, event.delivery)) else {
            return false;
        };
        match lives.upto.get(&event.generation) {
            Some(&upto) => event.sequence <= upto,
            None => event.generation < lives.oldest(),
        }
    }

    /// `event` and those before it are known from now on.
    pub fn advance(&mut self, event: &EventRef) {
        if self.know(event) {
            return;
        }
        self.changes += 1;
        let key = (event.origin, event.delivery);
        if self.origins.len() >= ORIGINS_MAX && !self.origins.contains_key(&key) {
            self.drop_the_most_silent();
        }
        let lives = self.origins.entry(key).or_default();
        lives.changed = self.changes;
        lives.upto.insert(event.generation, event.sequence);
        if lives.upto.len() > MARK_GENERATIONS_MAX {
            lives.upto.pop_first();
        }
    }

    /// The number up to which the events of `event`'s life and delivery are known.
    #[must_use]
    pub fn upto(&self, event: &EventRef) -> u64 {
        let lives = self.origins.get(&(event.origin, event.delivery));
        let upto = lives.and_then(|lives| lives.upto.get(&event.generation));
        upto.copied().unwrap_or(0)
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = EventMark> {
        self.origins
            .iter()
            .flat_map(|(&(origin, delivery), lives)| {
                lives.upto.iter().map(move |(&generation, &sequence)| {
                    let upto = EventRef {
                        origin,
                        generation,
                        delivery,
                        sequence,
                    };
                    EventMark { upto }
                })
            })
    }

    fn drop_the_most_silent(&mut self) {
        let silent = self.origins.iter().min_by_key(|(_, lives)| lives.changed);
        if let Some(key) = silent.map(|(key, _)| *key) {
            self.origins.remove(&key);
        }
    }
}

impl Lives {
    fn oldest(&self) -> Generation {
        match self.upto.first_key_value() {
            Some((&oldest, _)) if self.upto.len() >= MARK_GENERATIONS_MAX => oldest,
            _ => Generation(0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::member::NodeName;

    fn event(origin: &str, generation: u64, sequence: u64) -> EventRef {
        let origin: NodeName = origin.parse().expect("valid");
        EventRef {
            origin: origin.hash(),
            generation: Generation(generation),
            delivery: Delivery::AtLeastOnce,
            sequence,
        }
    }

    #[test]
    fn what_came_before_is_known_for_four_lives_and_for_older_ones_always() {
        let mut marks = Marks::default();
        assert!(!marks.know(&event("n1", 1, 1)));
        for generation in 1..=5 {
            marks.advance(&event("n1", generation, 7));
            marks.advance(&event("n1", generation, 3));
        }
        assert_eq!(marks.iter().count(), MARK_GENERATIONS_MAX);
        assert!(marks.know(&event("n1", 2, 7)) && !marks.know(&event("n1", 2, 8)));
        assert!(marks.know(&event("n1", 1, 99)), "of a life long over");
        assert!(!marks.know(&event("n1", 6, 1)) && !marks.know(&event("n2", 1, 1)));
        let most = EventRef {
            delivery: Delivery::AtMostOnce,
            ..event("n1", 5, 1)
        };
        assert!(!marks.know(&most), "each delivery counts by itself");
        let again = Marks::of(&marks.iter().collect::<Vec<_>>());
        assert!(again.know(&event("n1", 5, 7)) && !again.know(&event("n1", 5, 8)));
    }

    #[test]
    fn the_number_of_origins_is_bounded() {
        let mut marks = Marks::default();
        for n in 0..ORIGINS_MAX + 1 {
            marks.advance(&event(&format!("n{n}"), 1, 1));
        }
        assert_eq!(marks.iter().count(), ORIGINS_MAX);
        assert!(!marks.know(&event("n0", 1, 1)), "silent for longest");
    }
}
