//! Whom to probe next, by turns drawn at random: SWIM's schedule.

use rand::RngExt;
use rand::rngs::Xoshiro256PlusPlus;
use rand::seq::SliceRandom;

use crate::member::NameHash;

/// Shuffled round-robin (SWIM section 4.3): every member once per pass, in an order that is drawn
/// anew for each pass, so that a member waits at most two passes for its next probe.
#[derive(Debug, Default)]
pub struct RoundRobin {
    pass: Vec<NameHash>,
    next: usize,
}

impl RoundRobin {
    /// The next member to probe. `active` are all that may be probed; members that are not among
    /// them any more are passed over.
    pub fn next(&mut self, active: &[NameHash], rng: &mut Xoshiro256PlusPlus) -> Option<NameHash> {
        if let Some(target) = self.next_in_pass(active) {
            return Some(target);
        }
        self.pass.clear();
        self.pass.extend_from_slice(active);
        self.pass.shuffle(rng);
        self.next = 0;
        self.next_in_pass(active)
    }

    fn next_in_pass(&mut self, active: &[NameHash]) -> Option<NameHash> {
        while let Some(&target) = self.pass.get(self.next) {
            self.next += 1;
            if active.binary_search(&target).is_ok() {
                return Some(target);
            }
        }
        None
    }

    /// A member has come: it takes a random place in the rest of the pass, so that newcomers are
    /// not probed by everybody at once.
    pub fn insert(&mut self, member: NameHash, rng: &mut Xoshiro256PlusPlus) {
        if !self.pass[self.next..].contains(&member) {
            let place = rng.random_range(self.next..=self.pass.len());
            self.pass.insert(place, member);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use rand::SeedableRng;

    use super::*;

    fn members(count: u64) -> Vec<NameHash> {
        (1..=count)
            .map(|n| NameHash::from_wire(n.to_be_bytes()))
            .collect()
    }

    #[test]
    fn every_pass_probes_everybody_once() {
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(1);
        let active = members(50);
        let mut schedule = RoundRobin::default();
        for _ in 0..3 {
            let pass: BTreeSet<_> = (0..50)
                .filter_map(|_| schedule.next(&active, &mut rng))
                .collect();
            assert_eq!(pass.len(), 50);
        }
    }

    #[test]
    fn the_departed_are_passed_over_and_newcomers_get_their_turn() {
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(2);
        let mut schedule = RoundRobin::default();
        assert_eq!(schedule.next(&[], &mut rng), None);
        let all = members(10);
        schedule.next(&all, &mut rng);
        let rest = &all[..5];
        for _ in 0..20 {
            let target = schedule.next(rest, &mut rng).expect("members remain");
            assert!(rest.contains(&target));
        }
        let newcomer = members(11)[10];
        schedule.insert(newcomer, &mut rng);
        schedule.insert(newcomer, &mut rng);
        let mut active = rest.to_vec();
        active.push(newcomer);
        let seen: Vec<_> = (0..6)
            .filter_map(|_| schedule.next(&active, &mut rng))
            .collect();
        assert!(seen.contains(&newcomer), "{seen:?}");
    }
}
