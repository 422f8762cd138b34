//! Members that were declared dead and came back in the same life: how long they may be silent.
//!
//! Who stood still for longer than the pause tolerance once is likely to do so again. Its tolerance
//! doubles with every death it survives, for a while. That nobody learns from a partition, those
//! that come back in a crowd are not counted.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::member::NameHash;
use crate::time::Instant;

/// How long a survived death is remembered.
const REMEMBERED: Duration = Duration::from_secs(600);
/// Members remembered; while there are more, nothing further is learnt.
const MEMBERS_MAX: usize = 1024;
/// Those that come back within so long of each other are a crowd if they are more than this share
/// of the cluster, and more than one.
const CROWD_WITHIN: Duration = Duration::from_secs(10);
const CROWD_SHARE: usize = 8;

/// What was learnt of one member.
#[derive(Clone, Copy, Debug)]
struct Survivor {
    deaths: u32,
    back_at: Instant,
}

/// All survivors of the last minutes.
#[derive(Debug, Default)]
pub struct Patience {
    survivors: BTreeMap<NameHash, Survivor>,
}

impl Patience {
    /// `member` was dead and is back, in the life it had.
    pub fn survived(&mut self, member: NameHash, now: Instant) {
        self.survivors
            .retain(|_, it| now.since(it.back_at) < REMEMBERED);
        if self.survivors.len() >= MEMBERS_MAX && !self.survivors.contains_key(&member) {
            return;
        }
        let before = self.survivors.get(&member).map_or(0, |it| it.deaths);
        let survivor = Survivor {
            deaths: before.saturating_add(1),
            back_at: now,
        };
        self.survivors.insert(member, survivor);
    }

    /// `member` lives anew: a process that was restarted may do better.
    pub fn forget(&mut self, member: NameHash) {
        self.survivors.remove(&member);
    }

    /// By how much the silence that `member`, one of `cluster`, is granted is longer than usual.
    #[must_use]
    pub fn factor(&self, member: NameHash, now: Instant, cluster: usize) -> u32 {
        let Some(survivor) = self.survivors.get(&member) else {
            return 1;
        };
        let near = |it: &&Survivor| {
            let (one, other) = (it.back_at, survivor.back_at);
            one.since(other).max(other.since(one)) < CROWD_WITHIN
        };
        let crowd = self.survivors.values().filter(near).count();
        let forgotten = now.since(survivor.back_at) >= REMEMBERED;
        if forgotten || crowd > (cluster / CROWD_SHARE).max(1) {
            return 1;
        }
        1_u32.checked_shl(survivor.deaths).unwrap_or(u32::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn who(n: u64) -> NameHash {
        NameHash::from_wire(n.to_be_bytes())
    }

    fn at(seconds: u32) -> Instant {
        Instant::ORIGIN + seconds * SECOND
    }

    #[test]
    fn the_tolerance_doubles_with_every_survived_death_for_ten_minutes() {
        let mut patience = Patience::default();
        let factor = |patience: &Patience, now| patience.factor(who(1), now, 20);
        assert_eq!(factor(&patience, at(0)), 1);
        for (death, expected) in [(1, 2), (2, 4), (3, 8), (4, 16)] {
            patience.survived(who(1), at(100 * death));
            let found = factor(&patience, at(100 * death + 1));
            assert_eq!(found, expected, "death {death}");
        }
        assert_eq!(factor(&patience, at(999)), 16);
        assert_eq!(factor(&patience, at(1000)), 1);
        patience.survived(who(1), at(1000));
        assert_eq!(factor(&patience, at(1001)), 2);
        patience.forget(who(1));
        assert_eq!(factor(&patience, at(1001)), 1);
    }

    #[test]
    fn a_healed_partition_teaches_nothing() {
        let mut patience = Patience::default();
        for member in 0..10 {
            patience.survived(who(member), at(100));
        }
        patience.survived(who(20), at(150));
        for (member, expected) in [(3, 1), (20, 2)] {
            let found = patience.factor(who(member), at(160), 20);
            assert_eq!(found, expected, "{member}");
        }
        assert_eq!(patience.factor(who(20), at(160), 2), 2);
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let mut patience = Patience::default();
        for member in 0..5000 {
            patience.survived(who(member), at(member as u32 / 10));
        }
        assert_eq!(patience.survivors.len(), MEMBERS_MAX);
    }
}
