//! The round trip to one member, and how long to wait for its answer.

use std::time::Duration;

/// Weight of one sample in the mean (RFC 6298: 1/8) and in the deviation (1/4).
const MEAN_SHIFT: u32 = 3;
const DEVIATION_SHIFT: u32 = 2;

/// Smoothed round trip in microseconds: eight bytes a member.
#[derive(Clone, Copy, Debug, Default)]
pub struct RoundTrip {
    mean: u32,
    deviation: u32,
}

impl RoundTrip {
    /// Records one round trip.
    pub fn record(&mut self, sample: Duration) {
        let sample = u32::try_from(sample.as_micros())
            .unwrap_or(u32::MAX)
            .clamp(1, 60_000_000);
        if self.mean == 0 {
            *self = RoundTrip {
                mean: sample,
                deviation: sample / 2,
            };
            return;
        }
        let error = sample.abs_diff(self.mean);
        let smooth = |old: u32, new: u32, shift: u32| {
            (old - (old >> shift)).saturating_add(new >> shift).max(1)
        };
        self.deviation = smooth(self.deviation, error, DEVIATION_SHIFT);
        self.mean = smooth(self.mean, sample, MEAN_SHIFT);
    }

    /// The smoothed round trip; `None` before the first sample.
    #[must_use]
    pub fn mean(&self) -> Option<Duration> {
        (self.mean > 0).then(|| Duration::from_micros(self.mean.into()))
    }

    /// How long to wait for an answer: 1.5 times the round trip's 99.9th percentile, estimated as
    /// mean plus four deviations, and at least `floor`.
    #[must_use]
    pub fn timeout(&self, floor: Duration, ceiling: Duration) -> Duration {
        let tail = u64::from(self.mean) + 4 * u64::from(self.deviation);
        Duration::from_micros(tail + tail / 2).clamp(floor, ceiling.max(floor))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn the_timeout_follows_a_slow_member_between_its_bounds() {
        let mut round_trip = RoundTrip::default();
        assert_eq!(round_trip.mean(), None);
        assert_eq!(round_trip.timeout(20 * MS, 500 * MS), 20 * MS);
        for _ in 0..100 {
            round_trip.record(80 * MS);
        }
        let mean = round_trip.mean().expect("measured");
        assert!(mean > 75 * MS && mean < 85 * MS, "{mean:?}");
        let timeout = round_trip.timeout(20 * MS, 500 * MS);
        assert!(timeout >= 115 * MS && timeout < 160 * MS, "{timeout:?}");
        round_trip.record(Duration::MAX);
        assert_eq!(round_trip.timeout(20 * MS, 500 * MS), 500 * MS);
    }
}
