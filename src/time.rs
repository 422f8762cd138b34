//! The core's own clock reading: an integer that the caller supplies.
//!
//! Nothing in this module can read a clock. A driver converts its clock, a simulator invents one;
//! both start wherever they like, because only differences matter. The standard library's
//! `Instant` cannot be built from a number, so a run that used it could not be replayed.

use std::fmt;
use std::ops::Add;
use std::time::Duration;

/// A point on the caller's monotonic time line, in nanoseconds since an arbitrary origin.
///
/// Arithmetic saturates: a deadline can lie in the past and a duration can be huge without a panic.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Instant(u64);

impl Instant {
    /// The origin of the time line.
    pub const ORIGIN: Instant = Instant(0);
    /// Later than every deadline; 584 years after the origin.
    pub const FAR_FUTURE: Instant = Instant(u64::MAX);

    /// The instant `nanos` nanoseconds after the origin.
    #[must_use]
    pub const fn from_nanos(nanos: u64) -> Self {
        Instant(nanos)
    }

    /// Nanoseconds since the origin.
    #[must_use]
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// How long after `earlier` this instant lies; zero when it lies before it.
    #[must_use]
    pub const fn since(self, earlier: Instant) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }

    /// The instant `length` earlier; the origin when that would lie before it.
    #[must_use]
    pub fn before(self, length: Duration) -> Instant {
        Instant(self.0.saturating_sub(nanos(length)))
    }
}

impl Add<Duration> for Instant {
    type Output = Instant;

    fn add(self, length: Duration) -> Instant {
        Instant(self.0.saturating_add(nanos(length)))
    }
}

impl fmt::Debug for Instant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}.{:09}s",
            self.0 / 1_000_000_000,
            self.0 % 1_000_000_000
        )
    }
}

/// `length` in nanoseconds; 584 years at most.
pub(crate) fn nanos(length: Duration) -> u64 {
    u64::try_from(length.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arithmetic_saturates_at_both_ends() {
        let early = Instant::from_nanos(5);
        assert_eq!(early.before(Duration::from_secs(1)), Instant::ORIGIN);
        assert_eq!(early.since(Instant::from_nanos(9)), Duration::ZERO);
        assert_eq!(
            Instant::FAR_FUTURE + Duration::from_secs(1),
            Instant::FAR_FUTURE
        );
        assert_eq!(early + Duration::MAX, Instant::FAR_FUTURE);
    }

    #[test]
    fn differences_are_exact() {
        let start = Instant::from_nanos(1_500_000_000);
        let end = start + Duration::from_millis(250);
        assert_eq!(end.since(start), Duration::from_millis(250));
        assert_eq!(format!("{end:?}"), "1.750000000s");
    }
}
