//! What each node went through, and whether that excuses a verdict about it.
//!
//! This is the judge's own book, kept from the faults alone. It knows nothing of how the core
//! reaches its verdicts, and errs on the side of the core: what it calls unexcused is a fault.

use std::collections::BTreeSet;
use std::time::Duration;

use rumord::time::Instant;

use super::fault::Slot;

/// Standing still in all for this share of the pause tolerance excuses a verdict.
const STILL_SHARE: f64 = 0.8;
/// Being cut off from this share of the others excuses one.
const CUT_SHARE: f64 = 0.2;

/// Who cannot reach a node, or be reached by it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Peers {
    /// Nobody, or too few.
    All,
    /// One.
    One(Slot),
}

/// A time in which something was the matter.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Interval {
    /// From.
    pub since: Instant,
    /// To.
    pub until: Instant,
}

impl Interval {
    /// How much of it lies within `other`.
    fn within(&self, other: &Interval) -> Duration {
        self.until
            .min(other.until)
            .since(self.since.max(other.since))
    }

    fn meets(&self, other: &Interval) -> bool {
        self.since <= other.until && other.since <= self.until
    }
}

/// All troubles of a run.
#[derive(Debug, Default)]
pub struct Troubles {
    still: Vec<(Slot, Interval)>,
    cut: Vec<(Slot, Peers, Interval)>,
}

impl Troubles {
    /// A node stands still, or is deaf and dumb.
    pub fn stands_still(&mut self, slot: Slot, interval: Interval) {
        self.still.push((slot, interval));
    }

    /// Packets between a node and others do not pass, in one direction at least.
    pub fn is_cut(&mut self, slot: Slot, peers: Peers, interval: Interval) {
        self.cut.push((slot, peers, interval));
    }

    /// Everything ends `now`.
    pub fn end(&mut self, now: Instant) {
        let still = self.still.iter_mut().map(|(_, interval)| interval);
        let cut = self.cut.iter_mut().map(|(_, _, interval)| interval);
        for interval in still.chain(cut) {
            interval.until = interval.until.min(now);
        }
    }

    /// Whether what happened to these within `window` can make somebody declare one of `nodes`
    /// dead: they are that one and, where nobody else was asked, whoever declares it. What one
    /// stood still adds to what the other did.
    #[must_use]
    pub fn excuse(
        &self,
        slots: &[Slot],
        window: &Interval,
        nodes: usize,
        tolerance: Duration,
    ) -> bool {
        let still: Duration = self
            .still
            .iter()
            .filter(|(who, _)| slots.contains(who))
            .map(|(_, interval)| interval.within(window))
            .sum();
        let mut others = BTreeSet::new();
        for (who, peers, interval) in &self.cut {
            if slots.contains(who) && interval.meets(window) {
                match peers {
                    Peers::All => return true,
                    Peers::One(other) => others.insert(*other),
                };
            }
        }
        let few = others.is_empty() || (others.len() as f64) < CUT_SHARE * (nodes - 1) as f64;
        still >= tolerance.mul_f64(STILL_SHARE) || !few
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn interval(since: u64, until: u64) -> Interval {
        let at = |seconds| Instant::ORIGIN + Duration::from_secs(seconds);
        Interval {
            since: at(since),
            until: at(until),
        }
    }

    #[test]
    fn pauses_add_up_within_the_window() {
        let mut troubles = Troubles::default();
        troubles.stands_still(1, interval(0, 3));
        troubles.stands_still(1, interval(10, 13));
        let tolerance = Duration::from_secs(5);
        let excuse = |slots: &[Slot], window| troubles.excuse(slots, &window, 10, tolerance);
        assert!(excuse(&[1], interval(0, 20)));
        assert!(!excuse(&[1], interval(5, 20)));
        assert!(!excuse(&[2], interval(0, 20)));
    }

    #[test]
    fn pauses_of_both_add_up_where_one_judges_the_other_alone() {
        let mut troubles = Troubles::default();
        troubles.stands_still(1, interval(0, 3));
        troubles.stands_still(2, interval(3, 5));
        let tolerance = Duration::from_secs(5);
        let excuse = |slots: &[Slot]| troubles.excuse(slots, &interval(0, 20), 2, tolerance);
        assert!(excuse(&[1, 2]));
        assert!(!excuse(&[1]) && !excuse(&[2]));
    }

    #[test]
    fn one_lost_peer_of_many_is_no_excuse() {
        let mut troubles = Troubles::default();
        troubles.is_cut(1, Peers::One(2), interval(0, 9));
        troubles.is_cut(3, Peers::All, interval(0, 9));
        let tolerance = Duration::from_secs(5);
        let excuse = |slot, nodes| troubles.excuse(&[slot], &interval(5, 20), nodes, tolerance);
        assert!(!excuse(1, 10));
        assert!(excuse(1, 3));
        assert!(excuse(3, 10));
    }
}
