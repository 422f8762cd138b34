//! When tables that differ are exchanged: rarely, because prompt push makes them equal.

use std::time::Duration;

use crate::member::NameHash;
use crate::time::Instant;

/// Differing acks in a row before a difference under steady change counts.
const MISMATCHES_MIN: u32 = 3;
/// Shortest time between two exchanges of one node.
const SPACING: Duration = Duration::from_millis(100);
/// Exchanges in a row that moved nothing before they are spaced further.
const FRUITLESS_MAX: u32 = 4;
/// Longest spacing.
const BACKOFF_MAX: Duration = Duration::from_secs(8);

/// How an ack's fingerprint compares with the own one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Comparison {
    /// The tables are equal.
    Equal,
    /// They differ, and one of the two had changed a moment ago: news may be under way.
    Unsettled,
    /// They differ, and neither had changed for a while: an update was missed.
    Missed,
}

/// Decides about exchanges. A difference counts at once when both sides had been quiet, and under
/// steady change when it has lasted `mismatch_timeout`.
#[derive(Debug)]
pub struct Repair {
    /// With whom the next exchange follows at once, and how many more may.
    pub follow_up: Option<(NameHash, u8)>,
    mismatch_timeout: Duration,
    differing_since: Option<Instant>,
    differing: u32,
    running: bool,
    not_before: Instant,
    fruitless: u32,
}

impl Repair {
    /// No difference seen yet.
    #[must_use]
    pub fn new(mismatch_timeout: Duration) -> Self {
        Repair {
            follow_up: None,
            mismatch_timeout,
            differing_since: None,
            differing: 0,
            running: false,
            not_before: Instant::ORIGIN,
            fruitless: 0,
        }
    }

    /// An ack was compared; whether to start an exchange with its sender.
    pub fn compared(&mut self, now: Instant, comparison: Comparison) -> bool {
        if comparison == Comparison::Equal {
            self.differing_since = None;
            self.differing = 0;
            return false;
        }
        self.differing += 1;
        let since = *self.differing_since.get_or_insert(now);
        let lasting = self.differing >= MISMATCHES_MIN && now.since(since) >= self.mismatch_timeout;
        let start = !self.running
            && now >= self.not_before
            && (comparison == Comparison::Missed || lasting);
        self.running |= start;
        start
    }

    /// Starts an exchange whatever the last comparison was; false while one runs.
    pub fn begin(&mut self) -> bool {
        let start = !self.running;
        self.running = true;
        start
    }

    /// Whether the last comparison found a difference.
    #[must_use]
    pub fn differs(&self) -> bool {
        self.differing > 0
    }

    /// The exchange ended and moved so many records.
    pub fn ended(&mut self, now: Instant, moved: usize) {
        self.running = false;
        self.fruitless = if moved == 0 { self.fruitless + 1 } else { 0 };
        // Two repairs may race, and the loser finds nothing: only a row of such is a sign.
        let doublings = self.fruitless.saturating_sub(FRUITLESS_MAX).min(4);
        let spacing = if self.fruitless < FRUITLESS_MAX {
            SPACING
        } else {
            Duration::from_secs(1 << doublings).min(BACKOFF_MAX)
        };
        self.not_before = now + spacing;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn a_missed_update_is_exchanged_at_once_and_once() {
        let mut repair = Repair::new(2000 * MS);
        let now = Instant::ORIGIN + 1000 * MS;
        assert!(!repair.compared(now, Comparison::Equal));
        assert!(repair.compared(now, Comparison::Missed));
        assert!(!repair.compared(now, Comparison::Missed), "one at a time");
        repair.ended(now, 5);
        assert!(!repair.compared(now + 99 * MS, Comparison::Missed));
        assert!(repair.compared(now + 100 * MS, Comparison::Missed));
    }

    #[test]
    fn under_steady_change_a_difference_must_last() {
        let mut repair = Repair::new(2000 * MS);
        let now = Instant::ORIGIN + 1000 * MS;
        assert!(!repair.compared(now, Comparison::Unsettled));
        assert!(!repair.compared(now + 1999 * MS, Comparison::Unsettled));
        assert!(repair.compared(now + 2000 * MS, Comparison::Unsettled));
    }

    /// Two repairs race, and the loser must not back off while others are still missing.
    #[test]
    fn only_a_row_of_fruitless_exchanges_backs_off() {
        let mut repair = Repair::new(2000 * MS);
        let mut now = Instant::ORIGIN + 1000 * MS;
        let mut waits = Vec::new();
        for _ in 0..9 {
            assert!(repair.compared(now, Comparison::Missed));
            repair.ended(now, 0);
            waits.push(repair.not_before.since(now).as_millis());
            now = repair.not_before;
        }
        assert_eq!(waits, [100, 100, 100, 1000, 2000, 4000, 8000, 8000, 8000]);
    }
}
