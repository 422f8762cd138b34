//! What the wall clock says of generations.

use std::time::Duration;

use crate::member::Generation;
use crate::time::Instant;

/// Generations may lie this far ahead of the clock.
const GENERATION_AHEAD_MAX: u64 = 24 * 3600;
/// The wall clock is at least here: when this version was made. A machine that starts without a
/// clock would otherwise refuse everybody.
pub const RELEASE_UNIX_SECONDS: u64 = 1_795_996_800;

/// The wall clock as last told, used only to judge generations.
#[derive(Debug)]
pub struct WallClock {
    since_epoch: Duration,
    told_at: Instant,
    /// Every answer to a join said that the own generation is ahead of the clock.
    pub ahead: bool,
}

impl WallClock {
    /// A clock that has not been told yet: it stands at the release.
    #[must_use]
    pub fn new(now: Instant) -> Self {
        WallClock {
            since_epoch: Duration::ZERO,
            told_at: now,
            ahead: false,
        }
    }

    /// It shows `since_epoch` at `now`.
    pub fn tell(&mut self, now: Instant, since_epoch: Duration) {
        self.since_epoch = since_epoch;
        self.told_at = now;
    }

    /// What it shows, in seconds since the unix epoch; `None` before it was first told.
    #[must_use]
    pub fn seconds(&self, now: Instant) -> Option<u64> {
        let known = self.since_epoch > Duration::ZERO;
        known.then(|| (self.since_epoch + now.since(self.told_at)).as_secs())
    }

    /// Whether a generation is so far ahead of the clock that it must be a mistake; measured from
    /// the clock and not from a stored generation, which may be years old (scylladb/scylladb#5164).
    #[must_use]
    pub fn is_ahead(&self, now: Instant, generation: Generation) -> bool {
        let seconds = (self.since_epoch + now.since(self.told_at)).as_secs();
        generation.0 > seconds.max(RELEASE_UNIX_SECONDS) + GENERATION_AHEAD_MAX
    }
}
