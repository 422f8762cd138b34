//! Whether this node is itself the slow one: the lateness of its own timers.

use std::time::Duration;

use crate::time::{Instant, nanos};

/// A lateness up to this many times the usual one is usual.
const USUAL_TIMES: u32 = 4;
/// The usual lateness is a moving average with this weight, 1 / n.
const USUAL_WEIGHT: u64 = 32;
/// Worst local health.
const SCORE_MAX: u32 = 8;

/// Whether a timer fired in time, as the node's own health judges it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Punctuality {
    /// In time: what it says about others counts.
    OnTime,
    /// Late: this node stood still, so the silence of others says nothing.
    Late,
}

/// Own lateness (the local health of Dadgar, Phillips and Currey, "Lifeguard", DSN 2018, measured
/// on the clock rather than inferred from missing answers).
///
/// What counts as late is measured against what is usual on this host. Where all timers are late by
/// a tenth of a second, as on a machine with too many processes, a fixed threshold would void every
/// conclusion for ever, and no crash would be found. Nothing is lost by it: what has come while a
/// timer was late is heard before the timer fires.
#[derive(Clone, Debug)]
pub struct Health {
    late_threshold: Duration,
    usual_max: Duration,
    usual: Duration,
    discount: Duration,
    score: u32,
    late_until: Instant,
    asleep: Duration,
}

impl Health {
    /// A healthy node. After a lateness above `late_threshold`, or above a usual one where that is
    /// more, its own misses count for less during two probe periods. Half a period is never usual.
    #[must_use]
    pub fn new(late_threshold: Duration, probe_period: Duration) -> Self {
        let discount = 2 * probe_period;
        Health {
            late_threshold,
            usual_max: (probe_period / 2).max(late_threshold),
            usual: Duration::ZERO,
            discount,
            score: 0,
            late_until: Instant::ORIGIN,
            asleep: Duration::ZERO,
        }
    }

    /// A deadline was handled `lateness` after it was due.
    pub fn woke(&mut self, now: Instant, lateness: Duration) -> Punctuality {
        let threshold = self.threshold();
        // One long stall is not what is usual.
        let sample = lateness.min(2 * threshold);
        let usual = nanos(self.usual) * (USUAL_WEIGHT - 1) + nanos(sample);
        self.usual = Duration::from_nanos(usual / USUAL_WEIGHT);
        if lateness <= threshold {
            return Punctuality::OnTime;
        }
        self.asleep = self.asleep.saturating_add(lateness);
        self.late_until = now + self.discount;
        self.score = (self.score + 1).min(SCORE_MAX);
        Punctuality::Late
    }

    /// From which lateness on this node blames itself.
    fn threshold(&self) -> Duration {
        (self.usual * USUAL_TIMES).clamp(self.late_threshold, self.usual_max)
    }

    /// A whole period passed without lateness.
    pub fn recover(&mut self, now: Instant) {
        if now >= self.late_until {
            self.score = self.score.saturating_sub(1);
        }
    }

    /// The awake clock: time in which this node slept does not count as anybody's silence.
    #[must_use]
    pub fn awake(&self, now: Instant) -> Instant {
        now.before(self.asleep)
    }

    /// Least share of misses to assume of oneself: half, shortly after an own lateness.
    #[must_use]
    pub fn miss_floor(&self, now: Instant) -> f64 {
        if now < self.late_until { 0.5 } else { 0.0 }
    }

    /// 0 = healthy, to 8 = always late.
    #[must_use]
    pub fn score(&self) -> u32 {
        self.score
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn lateness_stops_the_awake_clock_and_heals() {
        let mut health = Health::new(20 * MS, 1000 * MS);
        let now = Instant::ORIGIN + 10_000 * MS;
        assert_eq!(health.woke(now, 20 * MS), Punctuality::OnTime);
        assert_eq!(health.awake(now), now);
        assert_eq!(health.woke(now, 3000 * MS), Punctuality::Late);
        assert_eq!(health.awake(now), now.before(3000 * MS));
        assert_eq!((health.score(), health.miss_floor(now)), (1, 0.5));
        let later = now + 2000 * MS;
        assert_eq!(health.miss_floor(later), 0.0);
        health.recover(later);
        assert_eq!(health.score(), 0);
    }

    #[test]
    fn the_score_saturates() {
        let mut health = Health::new(20 * MS, 1000 * MS);
        for _ in 0..20 {
            health.woke(Instant::ORIGIN, 3000 * MS);
        }
        assert_eq!(health.score(), SCORE_MAX);
    }

    #[test]
    fn what_is_usual_is_not_late_up_to_half_a_period() {
        let mut health = Health::new(20 * MS, 1000 * MS);
        let now = Instant::ORIGIN + 10_000 * MS;
        for _ in 0..500 {
            health.woke(now, 100 * MS);
        }
        assert_eq!(health.woke(now, 390 * MS), Punctuality::OnTime);
        assert_eq!(health.woke(now, 600 * MS), Punctuality::Late);
        for _ in 0..500 {
            health.woke(now, 3000 * MS);
        }
        assert_eq!(health.woke(now, 501 * MS), Punctuality::Late);
        for _ in 0..500 {
            health.woke(now, MS);
        }
        assert_eq!(health.woke(now, 21 * MS), Punctuality::Late);
    }
}
