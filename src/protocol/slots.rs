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

/// The observers of `member`: its nearest predecessor on each ring. In a small cluster, everybody.
#[must_use]
pub fn observers(member: NameHash, active: &[NameHash]) -> Vec<NameHash> {
    let others = active.iter().copied().filter(|&other| other != member);
    if active.len() <= usize::from(RINGS) {
        return others.collect();
    }
    let own: [u64; RINGS as usize] = std::array::from_fn(|ring| place(member, ring as u16));
    let mut nearest = [(u64::MAX, member); RINGS as usize];
    for other in others {
        for (ring, best) in nearest.iter_mut().enumerate() {
            let distance = own[ring].wrapping_sub(place(other, ring as u16));
            if distance < best.0 {
                *best = (distance, other);
            }
        }
    }
    let mut observers: Vec<NameHash> = nearest.into_iter().map(|(_, other)| other).collect();
    observers.sort_unstable();
    observers.dedup();
    observers
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
mod tests;
