//! Verdicts that a healing partition brings, kept aside until the accused has had its say.
//!
//! After a partition each side holds the other dead. Dead beats alive at equal incarnation, so a
//! naive merge of the two tables teaches each side that *itself* is dead. A verdict from across is
//! therefore kept for a moment: it is not told on and not part of the fingerprint, it goes straight
//! to the accused, and it is adopted only if no refutation comes in time.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::time::Duration;

use crate::member::{NameHash, Standing};
use crate::time::Instant;

/// How long somebody that was held dead counts as coming from the other side.
const RETURNING: Duration = Duration::from_secs(10);
/// Verdicts kept at a time; further ones are dropped, and the next exchange brings them again.
const KEPT_MAX: usize = 16_384;
/// Returning members remembered at a time; further ones are taken for members of this side.
const RETURNED_MAX: usize = 65_536;
/// Accused asked at a time, and the pause between: a half of the cluster is asked in a fraction of
/// the patience, without a burst that drops itself.
const ASKED_AT_ONCE: usize = 16;
const PACE: Duration = Duration::from_millis(5);
/// Ways of asking one accused within the patience: the question or its answer may be lost.
const QUESTIONS: u32 = 4;

/// One verdict kept aside.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Kept {
    /// The claim.
    pub standing: Standing,
    /// When it was decided, in this node's time: its age goes on while it is kept.
    pub decided: Instant,
    until: Instant,
    ask_at: Instant,
}

/// What is kept, and from whom verdicts are kept.
#[derive(Debug)]
pub struct Hold {
    local: NameHash,
    patience: Duration,
    kept: BTreeMap<NameHash, Kept>,
    returned: BTreeMap<NameHash, Instant>,
    /// When the accused were last asked.
    asked_at: Instant,
}

impl Hold {
    /// Nothing kept. The accused have `patience` to refute.
    #[must_use]
    pub fn new(local: NameHash, patience: Duration) -> Self {
        Hold {
            local,
            patience,
            kept: BTreeMap::new(),
            returned: BTreeMap::new(),
            asked_at: Instant::ORIGIN,
        }
    }

    /// `member` was held dead, by this node or this node by it, and is not any more.
    pub fn note_return(&mut self, member: NameHash, now: Instant) {
        if self.returned.len() >= RETURNED_MAX {
            self.returned.retain(|_, at| now.since(*at) < RETURNING);
        }
        if self.returned.len() < RETURNED_MAX || self.returned.contains_key(&member) {
            self.returned.insert(member, now);
        }
    }

    /// Whether `member` came back a moment ago.
    #[must_use]
    pub fn is_returning(&self, member: NameHash, now: Instant) -> bool {
        let at = self.returned.get(&member);
        at.is_some_and(|at| now.since(*at) < RETURNING)
    }

    /// Drops what is known of members that came back long ago.
    pub fn expire(&mut self, now: Instant) {
        self.returned.retain(|_, at| now.since(*at) < RETURNING);
    }

    /// Keeps a verdict about `member` that was `decided` then. Hearing it again changes nothing: a
    /// real death is adopted `patience` after it was heard first. False when there is no room.
    pub fn keep(
        &mut self,
        member: NameHash,
        standing: Standing,
        decided: Instant,
        now: Instant,
    ) -> bool {
        if let Some(held) = self.kept.get_mut(&member) {
            if standing > held.standing {
                (held.standing, held.decided) = (standing, decided);
            } else if standing == held.standing {
                held.decided = held.decided.min(decided);
            }
            return true;
        }
        if self.kept.len() >= KEPT_MAX {
            return false;
        }
        let kept = Kept {
            standing,
            decided,
            until: now + self.patience,
            ask_at: now,
        };
        self.kept.insert(member, kept);
        true
    }

    /// `member` is now held in `standing`: a verdict that it beats is void.
    pub fn settle(&mut self, member: NameHash, standing: Standing) {
        if let Some(kept) = self.kept.get(&member)
            && standing >= kept.standing
        {
            self.kept.remove(&member);
        }
    }

    /// Verdicts kept.
    #[must_use]
    pub fn len(&self) -> usize {
        self.kept.len()
    }

    /// Takes out the verdicts that stood unrefuted for the whole patience.
    pub fn take_unrefuted(&mut self, now: Instant) -> Vec<(NameHash, Kept)> {
        let ripe = |kept: &Kept| kept.until <= now;
        if !self.kept.values().any(ripe) {
            return Vec::new();
        }
        let unrefuted = self.kept.iter().filter(|(_, kept)| ripe(kept));
        let unrefuted: Vec<_> = unrefuted.map(|(&member, &kept)| (member, kept)).collect();
        self.kept.retain(|_, kept| !ripe(kept));
        unrefuted
    }

    /// The accused whose turn it is to be asked; each node begins behind itself on the ring of
    /// hashes, so that those that keep the same verdicts ask different ones first.
    pub fn ask_now(&mut self, now: Instant) -> Vec<(NameHash, Kept)> {
        let (local, pause) = (self.local, self.patience / QUESTIONS);
        let mut asked = Vec::new();
        let behind = (Bound::Excluded(local), Bound::Unbounded);
        let before = (Bound::Unbounded, Bound::Included(local));
        for range in [behind, before] {
            for (&member, kept) in self.kept.range_mut(range) {
                if asked.len() < ASKED_AT_ONCE && kept.ask_at <= now {
                    kept.ask_at = now + pause;
                    asked.push((member, *kept));
                }
            }
        }
        if !asked.is_empty() {
            self.asked_at = now;
        }
        asked
    }

    /// When there is something to be asked or adopted.
    #[must_use]
    pub fn next_at(&self) -> Option<Instant> {
        let paced = self.asked_at + PACE;
        let next = |kept: &Kept| kept.until.min(kept.ask_at.max(paced));
        self.kept.values().map(next).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::member::{Generation, NodeId, Status};

    const MS: Duration = Duration::from_millis(1);
    const NOW: Instant = Instant::from_nanos(60_000_000_000);

    fn who(n: u64) -> NameHash {
        NameHash::from_wire(n.to_be_bytes())
    }

    fn dead() -> Standing {
        Standing::alive(Generation(1), NodeId(1)).with_status(Status::Dead)
    }

    fn hold() -> Hold {
        Hold::new(who(3), 1000 * MS)
    }

    #[test]
    fn a_verdict_is_adopted_after_the_patience_and_not_later_for_being_repeated() {
        let mut hold = hold();
        assert!(hold.keep(who(1), dead(), NOW, NOW));
        assert!(hold.take_unrefuted(NOW + 999 * MS).is_empty());
        assert!(hold.keep(who(1), dead(), NOW + 900 * MS, NOW + 900 * MS));
        let unrefuted = hold.take_unrefuted(NOW + 1000 * MS);
        assert_eq!(unrefuted.len(), 1);
        assert_eq!(unrefuted[0].1.decided, NOW, "the death is no younger");
        assert_eq!((hold.len(), hold.next_at()), (0, None));
    }

    #[test]
    fn a_refutation_voids_the_verdict_and_a_lesser_claim_does_not() {
        let mut hold = hold();
        hold.keep(who(1), dead(), NOW, NOW);
        hold.settle(who(1), dead().with_status(Status::Suspect));
        assert_eq!(hold.len(), 1);
        let refuted = Standing {
            incarnation: dead().incarnation.past(),
            ..dead().with_status(Status::Alive)
        };
        hold.settle(who(1), refuted);
        assert_eq!(hold.len(), 0);
    }

    /// Every accused is asked several times within the patience, a few at a time, first those
    /// behind the asker on the ring.
    #[test]
    fn the_accused_are_asked_in_turn_and_again() {
        let mut hold = hold();
        for n in 0..40 {
            hold.keep(who(n), dead(), NOW, NOW);
        }
        let (mut times, mut now) = (BTreeMap::new(), NOW);
        let first: Vec<_> = hold.ask_now(now).into_iter().map(|(who, _)| who).collect();
        assert_eq!(first, (4..20).map(who).collect::<Vec<_>>());
        while now < NOW + 1000 * MS {
            now = hold.next_at().expect("all are kept");
            for (member, _) in hold.ask_now(now) {
                *times.entry(member).or_insert(0) += 1;
            }
        }
        assert_eq!(times.len(), 40);
        assert!(times.values().all(|&times| times >= 3), "{times:?}");
    }

    #[test]
    fn who_came_back_counts_as_returning_for_ten_seconds() {
        let mut hold = hold();
        hold.note_return(who(1), NOW);
        assert!(hold.is_returning(who(1), NOW + 9999 * MS));
        assert!(!hold.is_returning(who(1), NOW + 10_000 * MS));
        assert!(!hold.is_returning(who(2), NOW));
        hold.expire(NOW + 10_000 * MS);
        assert!(hold.returned.is_empty());
    }

    #[test]
    fn what_is_kept_has_a_limit() {
        let mut hold = hold();
        for n in 0..KEPT_MAX as u64 {
            assert!(hold.keep(who(n), dead(), NOW, NOW));
        }
        assert!(!hold.keep(who(u64::MAX), dead(), NOW, NOW));
        for n in 0..2 * RETURNED_MAX as u64 {
            hold.note_return(who(n), NOW);
        }
        assert_eq!(hold.returned.len(), RETURNED_MAX);
    }
}
