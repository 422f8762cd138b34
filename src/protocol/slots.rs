//! Whom to probe next, and when: each member is probed once per period, by its observers in turn.
//!
//! A random choice of targets leaves gaps: the time to the first probe of a crashed member is
//! exponential, with a mean of one period and a 99.9th percentile of seven. No schedule of one
//! probe per member and period has a mean below half a period, which evenly spaced probes reach
//! (the mean residual of a renewal process is least for constant spacing).
//!
//! Members are ordered on [`RINGS`] pseudo-random rings. Observer r of a member is its nearest
//! active predecessor on ring r, and probes it at the start of those of the member's *own* periods
//! whose number is r modulo the number of rings. Members tell where they stand in their periods
//! with every ping and ack, so observers agree without a common clock, and views need not be
//! equal: where they differ, a member gets no probe or two in some period.

use std::time::Duration;

use crate::member::NameHash;
use crate::time::{Instant, nanos};

/// Rings, and so observers of a member. Fewer leave a member unobserved when observers die.
pub const RINGS: u16 = 8;

/// When a member was heard to begin a period of its own, in this node's time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PeriodStart {
    /// When it began.
    pub at: Instant,
    /// Its number, modulo 2^16.
    pub number: u16,
}

/// A member to be observed: it is this node's turn in every `turns`-th of its periods.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Duty {
    /// The member.
    pub member: NameHash,
    /// Which of its periods, and the ring on which this node precedes it.
    pub turn: u16,
    turns: u16,
}

/// A duty, and when it falls due.
#[derive(Debug)]
struct Slot {
    duty: Duty,
    /// When the member was last probed as a duty.
    done: Option<Instant>,
    /// When its present period began.
    start: Option<PeriodStart>,
    /// When the duty next falls due.
    next: Instant,
}

/// The members that this node observes.
#[derive(Debug)]
pub struct Slots {
    local: NameHash,
    /// Length of a period, in nanoseconds: a slot is computed anew with each message of its member.
    period: u64,
    slots: Vec<Slot>,
    stale: bool,
    done_until: Instant,
}

impl Slots {
    /// Nobody to observe yet.
    #[must_use]
    pub fn new(local: NameHash, period: Duration, now: Instant) -> Self {
        Slots {
            local,
            period: nanos(period).max(1),
            slots: Vec::new(),
            stale: true,
            done_until: now,
        }
    }

    /// Members have come or gone: the duties are worked out anew when they are next asked for.
    pub fn members_changed(&mut self) {
        self.stale = true;
    }

    /// `member` was heard to begin a period; or it is another life of it, not heard yet.
    pub fn heard(&mut self, member: NameHash, start: Option<PeriodStart>) {
        let (period, done_until) = (self.period, self.done_until);
        let slots = self.slots.iter_mut();
        for slot in slots.filter(|slot| slot.duty.member == member) {
            let before = std::mem::replace(&mut slot.start, start);
            let next = slot.next_after(done_until, period);
            // A start that is heard a little earlier than the last time can put the slot just
            // behind what is done: the duty is still to be done, not a whole cycle later.
            let slipped =
                before.is_some() && start.is_some() && next > later(slot.next, period / 2);
            slot.next = if slipped { slot.next } else { next };
        }
    }

    /// The members to be observed.
    pub fn observed(
        &mut self,
        active: &[NameHash],
        start: impl Fn(NameHash) -> Option<PeriodStart>,
    ) -> Vec<NameHash> {
        self.refresh(active, start);
        self.slots.iter().map(|slot| slot.duty.member).collect()
    }

    /// When the next duty falls due; `None` with nobody to observe. `start` says when a member was
    /// heard to begin a period.
    pub fn next_due(
        &mut self,
        active: &[NameHash],
        start: impl Fn(NameHash) -> Option<PeriodStart>,
    ) -> Option<Instant> {
        self.refresh(active, start);
        self.slots.iter().map(|slot| slot.next).min()
    }

    /// The duties that have fallen due since the last call, at most one for each member.
    pub fn take_due(
        &mut self,
        now: Instant,
        active: &[NameHash],
        start: impl Fn(NameHash) -> Option<PeriodStart>,
    ) -> Vec<Duty> {
        self.refresh(active, start);
        let due = self.slots.iter().filter(|slot| slot.next <= now);
        let mut due: Vec<Duty> = due.map(|slot| slot.duty).collect();
        due.sort_unstable_by_key(|duty| (duty.member, duty.turn));
        due.dedup_by_key(|duty| duty.member);
        for slot in &mut self.slots {
            if due.iter().any(|duty| duty.member == slot.duty.member) {
                slot.done = Some(now);
                slot.next = slot.next_after(now, self.period);
            }
        }
        self.done_until = now;
        due
    }

    fn refresh(&mut self, active: &[NameHash], start: impl Fn(NameHash) -> Option<PeriodStart>) {
        if !std::mem::take(&mut self.stale) {
            return;
        }
        let duties = if active.len() <= usize::from(RINGS) {
            everybody(self.local, active)
        } else {
            successors(self.local, active)
        };
        let before = std::mem::take(&mut self.slots);
        let done = |member| before.iter().find(|slot| slot.duty.member == member)?.done;
        let (period, done_until) = (self.period, self.done_until);
        let slot = |duty: Duty| {
            let mut slot = Slot {
                duty,
                done: done(duty.member),
                start: start(duty.member),
                next: done_until,
            };
            slot.next = slot.next_after(done_until, period);
            slot
        };
        self.slots = duties.into_iter().map(slot).collect();
    }
}

impl Slot {
    /// When the duty first falls due after `done_until`, up to where all is done. The start of a
    /// period is heard with some jitter: a slot that has been used does not come again a moment
    /// later. A member that was not heard yet is probed at once, and once a period until its ack
    /// says where it stands.
    fn next_after(&self, done_until: Instant, period: u64) -> Instant {
        let Some(start) = self.start else {
            return self.done.map_or(done_until, |at| later(at, period));
        };
        let spared = self.done.map_or(done_until, |at| later(at, period / 2));
        let after = spared.max(done_until);
        let Duty { turn, turns, .. } = self.duty;
        let wait = (turn + turns - start.number % turns) % turns;
        let first = later(start.at, period.saturating_mul(u64::from(wait)));
        if first > after {
            return first;
        }
        let cycle = period.saturating_mul(u64::from(turns));
        let passed = (after.as_nanos() - first.as_nanos()) / cycle;
        later(first, cycle.saturating_mul(passed.saturating_add(1)))
    }
}

/// In a small cluster every member observes every other: on one ring, observer r of a member is
/// its (r+1)-th predecessor.
fn everybody(local: NameHash, active: &[NameHash]) -> Vec<Duty> {
    let mut ring = active.to_vec();
    ring.sort_by_key(|&member| distance(local, member, 0));
    let turns = u16::try_from(ring.len()).unwrap_or(RINGS);
    (0..)
        .zip(ring)
        .map(|(turn, member)| Duty {
            member,
            turn,
            turns,
        })
        .collect()
}

/// On each ring this node observes its nearest successor. One pass over the members: in a cluster
/// of thousands this is most of what a change of members costs.
fn successors(local: NameHash, active: &[NameHash]) -> Vec<Duty> {
    let own: [u64; RINGS as usize] = std::array::from_fn(|ring| place(local, ring as u16));
    let mut nearest = [(u64::MAX, None); RINGS as usize];
    for &other in active.iter().filter(|&&other| other != local) {
        for (ring, best) in nearest.iter_mut().enumerate() {
            let distance = place(other, ring as u16).wrapping_sub(own[ring]);
            if best.1.is_none() || distance < best.0 {
                *best = (distance, Some(other));
            }
        }
    }
    let duty = |(turn, (_, member)): (u16, (u64, Option<NameHash>))| {
        Some(Duty {
            member: member?,
            turn,
            turns: RINGS,
        })
    };
    (0..).zip(nearest).filter_map(duty).collect()
}

/// The nearest member after `member` on a ring.
#[must_use]
pub fn successor(member: NameHash, active: &[NameHash], ring: u16) -> Option<NameHash> {
    let others = active.iter().copied().filter(|&other| other != member);
    others.min_by_key(|&other| distance(member, other, ring))
}

/// How far `to` lies after `from` on a ring.
fn distance(from: NameHash, to: NameHash, ring: u16) -> u64 {
    place(to, ring).wrapping_sub(place(from, ring))
}

/// Where a member stands on a ring: its name hash, read from another byte on. Name hashes are keyed
/// already, so their bytes are independent, and each ring orders the members anew.
fn place(member: NameHash, ring: u16) -> u64 {
    u64::from_be_bytes(member.to_wire()).rotate_left(8 * u32::from(ring))
}

/// `nanos` nanoseconds after `at`.
fn later(at: Instant, nanos: u64) -> Instant {
    Instant::from_nanos(at.as_nanos().saturating_add(nanos))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    const PERIOD: Duration = Duration::from_secs(1);

    fn members(count: u64) -> Vec<NameHash> {
        let name = |n: u64| crate::member::keyed_hash(1, &n.to_be_bytes()).to_be_bytes();
        let mut members: Vec<_> = (0..count).map(|n| NameHash::from_wire(name(n))).collect();
        members.sort();
        members
    }

    /// Every member begins its periods at a phase of its own.
    fn start(member: NameHash) -> Option<PeriodStart> {
        let phase = u64::from_be_bytes(member.to_wire()) % 1_000_000_000;
        let number = (phase % 1000) as u16;
        Some(PeriodStart {
            at: Instant::from_nanos(phase),
            number,
        })
    }

    /// All probes of `cluster` in `seconds`, by target.
    fn probes(cluster: &[NameHash], seconds: u64) -> BTreeMap<NameHash, Vec<Instant>> {
        let end = Instant::from_nanos(seconds * 1_000_000_000);
        let mut probes: BTreeMap<NameHash, Vec<Instant>> = BTreeMap::new();
        for &observer in cluster {
            let others: Vec<_> = cluster.iter().copied().filter(|&m| m != observer).collect();
            let mut slots = Slots::new(observer, PERIOD, Instant::ORIGIN + PERIOD);
            while let Some(due) = slots.next_due(&others, start).filter(|&due| due < end) {
                for target in slots.take_due(due, &others, start) {
                    probes.entry(target.member).or_default().push(due);
                }
            }
        }
        probes.values_mut().for_each(|times| times.sort());
        probes
    }

    #[test]
    fn every_member_is_probed_once_in_each_of_its_periods() {
        for size in [2, 3, 5, 9, 10, 20, 128] {
            let cluster = members(size);
            let probes = probes(&cluster, 42);
            assert_eq!(
                probes.len(),
                cluster.len(),
                "somebody of {size} is not observed"
            );
            for (target, times) in &probes {
                for pair in times.windows(2) {
                    assert_eq!(pair[1].since(pair[0]), PERIOD, "{target:?} of {size}");
                }
                assert!(times.len() >= 39, "{} probes of {size}", times.len());
            }
        }
    }

    #[test]
    fn each_node_probes_about_one_member_per_period() {
        let cluster = members(128);
        let observer = cluster[7];
        let others: Vec<_> = cluster.iter().copied().filter(|&m| m != observer).collect();
        let mut slots = Slots::new(observer, PERIOD, Instant::ORIGIN);
        let mut count = 0;
        while let Some(due) = slots
            .next_due(&others, start)
            .filter(|d| d.as_nanos() < 80e9 as u64)
        {
            count += slots.take_due(due, &others, start).len();
        }
        assert!((70..=90).contains(&count), "{count} probes in 80 periods");
    }

    /// The start of a period is heard a little earlier or later with every message.
    #[test]
    fn a_period_start_heard_with_jitter_does_not_repeat_or_skip_a_probe() {
        let cluster = members(20);
        let others = &cluster[1..];
        let mut slots = Slots::new(cluster[0], PERIOD, Instant::ORIGIN);
        let mut times: BTreeMap<NameHash, Vec<Instant>> = BTreeMap::new();
        let mut step = 0;
        loop {
            step += 1;
            let jitter = Duration::from_millis(step % 7);
            let heard = |member| {
                let start = start(member)?;
                Some(PeriodStart {
                    at: start.at + jitter,
                    ..start
                })
            };
            let due = slots.next_due(others, heard).expect("others exist");
            if due.as_nanos() > 100_000_000_000 {
                break;
            }
            for &member in others {
                slots.heard(member, heard(member));
            }
            let due = slots.next_due(others, heard).expect("others exist");
            for duty in slots.take_due(due, others, heard) {
                times.entry(duty.member).or_default().push(due);
            }
        }
        for pair in times.values().flat_map(|times| times.windows(2)) {
            assert!(
                pair[1].since(pair[0]) > PERIOD - Duration::from_millis(10),
                "{pair:?}"
            );
        }
        let probes: usize = times.values().map(Vec::len).sum();
        assert!(
            (90..=110).contains(&probes),
            "{probes} probes in 100 periods"
        );
    }

    /// The start is heard later, the slot is looked at in vain, and then it is heard earlier.
    #[test]
    fn a_start_that_moves_around_its_slot_does_not_lose_the_duty() {
        let cluster = members(20);
        let others = &cluster[1..];
        let mut slots = Slots::new(cluster[0], PERIOD, Instant::ORIGIN);
        let due = slots.next_due(others, start).expect("others exist");
        let moved = |member, later| {
            let start = start(member)?;
            let at = start.at + Duration::from_millis(later);
            Some(PeriodStart { at, ..start })
        };
        for &member in others {
            slots.heard(member, moved(member, 5));
        }
        assert!(slots.take_due(due, others, start).is_empty());
        for &member in others {
            slots.heard(member, moved(member, 0));
        }
        let again = slots.next_due(others, start).expect("others exist");
        assert!(again.since(due) <= Duration::from_millis(5), "{again:?}");
    }

    #[test]
    fn a_member_not_heard_yet_is_probed_at_once_and_once_a_period() {
        let cluster = members(20);
        let others = &cluster[1..];
        let now = Instant::ORIGIN + 5 * PERIOD;
        let mut slots = Slots::new(cluster[0], PERIOD, now);
        let observed = slots.take_due(now, others, |_| None).len();
        assert!(observed > 0);
        assert!(slots.take_due(now, others, |_| None).is_empty());
        assert_eq!(slots.next_due(others, |_| None), Some(now + PERIOD));
        let again = slots.take_due(now + PERIOD, others, |_| None).len();
        assert_eq!(again, observed);
    }

    #[test]
    fn slots_slept_through_are_not_made_up_for() {
        let cluster = members(20);
        let others = &cluster[1..];
        let mut slots = Slots::new(cluster[0], PERIOD, Instant::ORIGIN);
        let late = Instant::ORIGIN + 100 * PERIOD;
        assert!(slots.take_due(late, others, start).len() <= usize::from(RINGS));
        assert!(slots.next_due(others, start).is_some_and(|due| due > late));
        assert!(slots.take_due(late, others, start).is_empty());
    }

    #[test]
    fn duties_follow_the_members() {
        let cluster = members(20);
        let mut slots = Slots::new(cluster[0], PERIOD, Instant::ORIGIN);
        assert_eq!(slots.next_due(&[], start), None);
        slots.members_changed();
        let gone = successor(cluster[0], &cluster[1..], 3).expect("others exist");
        let rest: Vec<_> = cluster[1..]
            .iter()
            .copied()
            .filter(|&m| m != gone)
            .collect();
        for _ in 0..200 {
            let due = slots.next_due(&rest, start).expect("others exist");
            let duties = slots.take_due(due, &rest, start);
            assert!(duties.iter().all(|duty| duty.member != gone));
        }
    }
}
