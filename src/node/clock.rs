//! The driver's clocks: a monotonic one for the protocol, the wall clock for people.

use std::io;
use std::time::{Duration, SystemTime};

use rustix::time::{ClockId, Timespec, clock_gettime};

use super::options::StartError;
use crate::time::Instant;

/// Counts the time in which the machine was suspended too: a laptop that slept for an hour must
/// know that it did.
#[cfg(target_os = "linux")]
const CLOCK: ClockId = ClockId::Boottime;
#[cfg(not(target_os = "linux"))]
const CLOCK: ClockId = ClockId::Monotonic;

/// Reads both clocks.
#[derive(Debug)]
pub(super) struct Clock {
    /// The wall clock's time at the origin of the monotonic one.
    origin: SystemTime,
}

/// How the wall clock has moved against the monotonic one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum WallClock {
    /// As expected.
    Steady,
    /// It was set.
    Stepped,
}

/// Smaller differences are the slewing of a clock that is being disciplined.
const STEP_MIN: Duration = Duration::from_secs(1);

impl Clock {
    /// Starts with the present difference of the two clocks.
    pub(super) fn start() -> Result<Self, StartError> {
        let now = read();
        if now.as_nanos() == 0 {
            return Err(StartError::Clock(io::Error::other("it reads zero")));
        }
        Ok(Clock {
            origin: origin_at(now),
        })
    }

    /// The protocol's now.
    pub(super) fn now(&self) -> Instant {
        read()
    }

    /// What the wall clock showed, or would have shown, at `instant`. Steps of the wall clock do
    /// not move it until they are noticed, so that it is the same each time it is asked.
    pub(super) fn wall_time(&self, instant: Instant) -> SystemTime {
        self.origin + Duration::from_nanos(instant.as_nanos())
    }

    /// What the wall clock shows now.
    pub(super) fn wall_now(&self) -> SystemTime {
        self.wall_time(self.now())
    }

    /// Since the unix epoch, now.
    pub(super) fn since_epoch(&self) -> Duration {
        SystemTime::now()
            .duration_since(SystemTime::UNIX_EPOCH)
            .unwrap_or_default()
    }

    /// Looks whether the wall clock was set, and follows it.
    pub(super) fn check_wall_clock(&mut self) -> WallClock {
        let origin = origin_at(read());
        let apart = match origin.duration_since(self.origin) {
            Ok(ahead) => ahead,
            Err(behind) => behind.duration(),
        };
        if apart < STEP_MIN {
            return WallClock::Steady;
        }
        self.origin = origin;
        WallClock::Stepped
    }
}

fn read() -> Instant {
    let Timespec { tv_sec, tv_nsec } = clock_gettime(CLOCK);
    let seconds = u64::try_from(tv_sec).unwrap_or(0);
    let nanos = u64::try_from(tv_nsec).unwrap_or(0);
    Instant::from_nanos(seconds.saturating_mul(1_000_000_000).saturating_add(nanos))
}

fn origin_at(now: Instant) -> SystemTime {
    let since_origin = Duration::from_nanos(now.as_nanos());
    SystemTime::now()
        .checked_sub(since_origin)
        .unwrap_or(SystemTime::UNIX_EPOCH)
}
