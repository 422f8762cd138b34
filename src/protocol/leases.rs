//! When the maintenances that members have announced end, counted by this node's clock.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::member::{Generation, NameHash, NodeId};
use crate::time::Instant;

/// The announcement a lease belongs to: the life, and its metadata version.
type Announcement = (Generation, NodeId, u32);

#[derive(Clone, Copy, Debug)]
struct Running {
    announced: Announcement,
    ends_at: Instant,
    /// Whether readers have been told that it is over.
    over: bool,
}

/// One lease for each member whose record holds a maintenance, over or not.
#[derive(Debug, Default)]
pub struct Leases {
    leases: BTreeMap<NameHash, Running>,
}

impl Leases {
    /// Whether nobody has announced any.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.leases.is_empty()
    }

    /// `member` announced a maintenance under `announced`; by what was told it ends at `ends_at`.
    /// Of two tellings of one announcement the earlier end is the truer one: time under way makes
    /// it look later, never earlier.
    pub fn learn(&mut self, member: NameHash, announced: Announcement, ends_at: Instant) {
        let held = self.leases.get(&member);
        let ends_at = match held {
            Some(held) if held.announced > announced => return,
            Some(held) if held.announced == announced => held.ends_at.min(ends_at),
            _ => ends_at,
        };
        let over = held.is_some_and(|held| held.announced == announced && held.over);
        let running = Running {
            announced,
            ends_at,
            over,
        };
        self.leases.insert(member, running);
    }

    /// `member` has no maintenance any more, or has itself gone.
    pub fn drop(&mut self, member: NameHash) {
        self.leases.remove(&member);
    }

    /// When the maintenance of `member` ends; `None` without one or when it is over.
    #[must_use]
    pub fn ends_at(&self, member: NameHash, now: Instant) -> Option<Instant> {
        let ends_at = self.leases.get(&member)?.ends_at;
        (ends_at > now).then_some(ends_at)
    }

    /// How much of the maintenance of `member` is left.
    #[must_use]
    pub fn left(&self, member: NameHash, now: Instant) -> Duration {
        let ends_at = self.ends_at(member, now);
        ends_at.map_or(Duration::ZERO, |ends_at| ends_at.since(now))
    }

    /// Whether one has ended since this was asked last.
    pub fn take_ended(&mut self, now: Instant) -> bool {
        let mut ended = false;
        for lease in self.leases.values_mut() {
            let over = lease.ends_at <= now;
            ended |= over && !lease.over;
            lease.over = over;
        }
        ended
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn who() -> NameHash {
        NameHash::from_wire([7; 8])
    }

    fn announced(generation: u64, version: u32) -> Announcement {
        (Generation(generation), NodeId(1), version)
    }

    #[test]
    fn of_two_tellings_the_earlier_end_counts_and_a_newer_announcement_replaces() {
        let mut leases = Leases::default();
        let now = Instant::ORIGIN;
        leases.learn(who(), announced(1, 2), now + 60 * SECOND);
        leases.learn(who(), announced(1, 2), now + 61 * SECOND);
        assert_eq!(leases.left(who(), now), 60 * SECOND);
        leases.learn(who(), announced(1, 2), now + 59 * SECOND);
        assert_eq!(leases.left(who(), now), 59 * SECOND);
        leases.learn(who(), announced(1, 3), now + 90 * SECOND);
        leases.learn(who(), announced(1, 2), now + SECOND);
        assert_eq!(leases.left(who(), now), 90 * SECOND);
    }

    #[test]
    fn an_end_is_noted_once_and_does_not_come_back() {
        let mut leases = Leases::default();
        let now = Instant::ORIGIN;
        leases.learn(who(), announced(1, 2), now + 60 * SECOND);
        assert!(!leases.take_ended(now + 59 * SECOND));
        assert!(leases.take_ended(now + 60 * SECOND));
        assert!(!leases.take_ended(now + 61 * SECOND));
        // Somebody who heard of it later still counts.
        leases.learn(who(), announced(1, 2), now + 62 * SECOND);
        assert_eq!(leases.ends_at(who(), now + 61 * SECOND), None);
        leases.drop(who());
        assert!(leases.is_empty());
    }
}
