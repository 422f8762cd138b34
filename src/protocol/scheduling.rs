//! When this node probes whom: the two schedules, behind the timers that drive them.

use std::collections::BTreeMap;
use std::time::Duration;

use rand::seq::IndexedRandom;

use super::config::Schedule;
use super::probe::Purpose;
use super::slots::{self, Duty, PeriodStart, RINGS};
use super::{Contact, Life, Node, Outbox, Timer};
use crate::member::{NameHash, Status};
use crate::time::nanos;
use crate::wire::PeriodPhase;

/// With slots, one further ping in so many periods goes to a random member: it finds what wrong
/// rings would hide.
const RANDOM_PING_PERIODS: u64 = 8;
/// After a change of members the duties are worked out anew this soon, so that a burst of changes
/// is one computation.
const SETTLE: Duration = Duration::from_millis(20);
/// Members passed on to when the one to be probed is suspect.
const DUTY_STEPS_MAX: usize = 8;
/// With more cases than this a node has enough to look after.
const WARDED_CASES_MAX: usize = 8;

impl Node {
    /// Once per own period.
    pub(super) fn probe_by_schedule(&mut self, out: &mut Outbox) {
        let chosen = match self.config.schedule {
            Schedule::RoundRobin => self
                .round_robin
                .next(self.table.active(), &mut self.rngs.schedule),
            Schedule::Slots if self.local.periods.is_multiple_of(RANDOM_PING_PERIODS) => {
                self.table.active().choose(&mut self.rngs.schedule).copied()
            }
            Schedule::Slots => None,
        };
        if let Some(member) = chosen {
            self.ping(member, Purpose::Scheduled, out);
        }
    }

    /// Members have come or gone.
    pub(super) fn on_members_changed(&mut self) {
        if self.config.schedule == Schedule::Slots {
            self.slots.members_changed();
            self.timers.set(Timer::Slot, self.now, SETTLE);
        }
    }

    /// A duty is due, or the duties have changed.
    pub(super) fn on_slot(&mut self, out: &mut Outbox) {
        let start = period_start(&self.contacts);
        let due = self.slots.take_due(self.now, self.table.active(), start);
        if self.life == Life::Ready {
            for duty in due {
                self.ping(duty.member, Purpose::Scheduled, out);
                self.pass_duty_on(duty, out);
            }
        }
        self.arm_slot();
    }

    fn arm_slot(&mut self) {
        let start = period_start(&self.contacts);
        if let Some(at) = self.slots.next_due(self.table.active(), start) {
            self.timers.set(Timer::Slot, self.now, at.since(self.now));
        }
    }

    /// A suspect may be dead, and then it does not do its own duty: whom it would observe is
    /// probed too, up to the first that is alive.
    fn pass_duty_on(&mut self, duty: Duty, out: &mut Outbox) {
        let mut at = duty.member;
        for _ in 0..DUTY_STEPS_MAX {
            if self.table.active().len() <= usize::from(RINGS) || !self.is_suspect(at) {
                return;
            }
            let next = slots::successor(at, self.table.active(), duty.turn);
            let Some(next) = next else { return };
            at = next;
            self.ping(at, Purpose::Scheduled, out);
        }
    }

    /// Whom a suspect would observe it may observe no more: they are probed at once. Where many die
    /// together, each of those found leads to others, and none waits for its own observers' turns.
    pub(super) fn look_after_wards(&mut self, suspect: NameHash, out: &mut Outbox) {
        let active = self.table.active();
        let busy = self.cases.len() > WARDED_CASES_MAX;
        if self.config.schedule != Schedule::Slots || active.len() <= usize::from(RINGS) || busy {
            return;
        }
        let next = |ring| slots::successor(suspect, active, ring);
        let mut wards: Vec<NameHash> = (0..RINGS).filter_map(next).collect();
        wards.sort_unstable();
        wards.dedup();
        wards.retain(|ward| !self.cases.contains_key(ward) && !self.is_suspect(*ward));
        for ward in wards {
            self.ping(ward, Purpose::Scheduled, out);
        }
    }

    /// Whether the told status of `member` is Suspect.
    pub(super) fn is_suspect(&self, member: NameHash) -> bool {
        self.table
            .get(member)
            .is_some_and(|entry| entry.record.standing.status == Status::Suspect)
    }

    /// `member` said where it stood in its periods, `under_way` ago.
    pub(super) fn hear_period(
        &mut self,
        member: NameHash,
        place: PeriodPhase,
        under_way: Duration,
    ) {
        let period = nanos(self.config.probe_period);
        let passed = Duration::from_nanos((period * u64::from(place.phase)) >> 16);
        let start = PeriodStart {
            at: self.now.before(passed + under_way),
            number: place.period,
        };
        if let Some(contact) = self.contact_mut(member) {
            contact.period_start = Some(start);
            self.slots.heard(member, Some(start));
        }
    }
}

/// When a member was heard to begin a period.
fn period_start(
    contacts: &BTreeMap<NameHash, Contact>,
) -> impl Fn(NameHash) -> Option<PeriodStart> + '_ {
    |member| contacts.get(&member)?.period_start
}
