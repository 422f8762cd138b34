//! Deadlines: which timer does what, and what happens once per probe period.

use std::time::Duration;

use rand::RngExt;
use rand::seq::IndexedRandom;

use super::health::Punctuality;
use super::join_book::JoinState;
use super::probe::Purpose;
use super::{Event, Life, Node, Outbox, Timer};
use crate::time::Instant;

/// Members that look for the dead, in the whole cluster and per period: enough to heal a partition
/// within a second, and no more.
const CONTACTS_PER_PERIOD: f64 = 6.0;
/// Timers handled at one deadline; what is left fires at the next, at once.
const TIMERS_PER_DEADLINE_MAX: usize = 10_000;

impl Node {
    /// The clock has reached the deadline, or passed it: fires every timer that is due.
    pub(super) fn on_deadline(&mut self, out: &mut Outbox) {
        let due = self.next_deadline();
        if due <= self.now {
            self.fire_since(due, out);
        }
        self.arm_timers();
        debug_assert!(
            self.next_deadline() > self.now,
            "the deadline did not move on"
        );
    }

    /// Fires what has fallen due since `due`.
    fn fire_since(&mut self, due: Instant, out: &mut Outbox) {
        let lateness = self.now.since(due);
        let punctuality = self.health.woke(self.now, lateness);
        if punctuality == Punctuality::Late {
            self.ledgers.note_lateness(self.now, lateness);
        }
        out.events.push(Event::Late(lateness));
        for _ in 0..TIMERS_PER_DEADLINE_MAX {
            let Some((deadline, timer)) = self.timers.pop_due(self.now) else {
                break;
            };
            self.fire(timer, deadline, punctuality, out);
        }
    }

    /// Sets the timers that follow from what the node holds.
    pub(super) fn arm_timers(&mut self) {
        self.arm_push();
        self.arm_agreement();
        self.arm_settle();
        self.arm_hold();
        self.review_owed();
        self.arm_events();
    }

    fn fire(
        &mut self,
        timer: Timer,
        deadline: Instant,
        punctuality: Punctuality,
        out: &mut Outbox,
    ) {
        match timer {
            Timer::Probe(seq) => self.on_probe_timeout(seq, punctuality, out),
            Timer::Case(member) => self.on_case_step(member, punctuality, out),
            Timer::Trial(member) => self.on_trial_step(member, punctuality, out),
            Timer::ForeignSuspicion(member) => self.on_foreign_suspicion(member, out),
            Timer::Admission(stream) => self.on_admission_step(stream, out),
            Timer::Forget(member) => self.on_forget_step(member, punctuality, out),
            Timer::Push => self.on_push(out),
            Timer::Events => self.on_events_due(out),
            Timer::Agreement => self.on_agreement_due(out),
            Timer::Join => self.on_join_due(out),
            Timer::Leave => self.on_leave_round(out),
            Timer::Hold => self.on_hold(out),
            Timer::Slot => self.on_slot(out),
            Timer::Exchange => self.on_exchange_silent(out),
            Timer::FollowUp => self.on_follow_up(out),
            Timer::Settle => self.on_settle(out),
            Timer::Period => self.on_period(deadline, out),
        }
    }

    /// Once per probe period: count on, probe one member, look for one of the dead.
    fn on_period(&mut self, deadline: Instant, out: &mut Outbox) {
        self.arm_next_period(deadline);
        self.bump_version();
        self.health.recover(self.now);
        self.probes
            .expire(self.now, 2 * self.config.pause_tolerance);
        self.look_for_remembered(out);
        for forgotten in self.table.sweep(self.now) {
            self.contacts.remove(&forgotten);
            self.metadata.leases.drop(forgotten);
            self.metadata.pulls.drop(forgotten);
            self.metadata.digests.drop(forgotten);
            self.forget_events_of(forgotten);
        }
        self.end_leases();
        self.metadata.pulls.sweep();
        self.tidy_events();
        self.hold.expire(self.now);
        if self.life == Life::Forgotten {
            return;
        }
        self.resume_joining();
        self.ask_to_return(out);
        // Who has not been admitted asks nobody: its claims would spread past the admission.
        if self.life == Life::Ready {
            self.release_brakes(out);
            self.probe_by_schedule(out);
            // Fixed observers make a difference known to few: one more look, at anybody.
            if self.repair.differs() {
                self.check_random_member(out);
            }
            self.contact_dead(out);
            self.serve_quarantine(out);
            self.watch_streams(out);
            self.watch_paths(out);
        }
    }

    /// Asks the next member over a stream, when it is time. An answer proves life like any other;
    /// that none came accuses nobody, but shows in the counters.
    fn watch_streams(&mut self, out: &mut Outbox) {
        let due = self.sight.streams.take_due(self.table.active(), self.now);
        if let Some(member) = due {
            self.ping_by_stream(member, out);
            self.try_large_datagram(member, out);
        }
    }

    /// The next period begins where it would have without delay; periods slept through are
    /// counted, not made up for.
    fn arm_next_period(&mut self, deadline: Instant) {
        let period = self.config.probe_period;
        let slept = self.now.since(deadline).as_nanos() / period.as_nanos().max(1);
        let periods = u32::try_from(slept).unwrap_or(u32::MAX).saturating_add(1);
        self.local.periods += u64::from(periods);
        let next = deadline + period.saturating_mul(periods);
        self.timers
            .set(Timer::Period, self.now, next.since(self.now));
    }

    /// Dead members are contacted for as long as they are listed, at a constant small rate, so
    /// that a healed partition becomes one cluster by itself (caio/foca#15,
    /// uber-node/ringpop-node#42).
    fn contact_dead(&mut self, out: &mut Outbox) {
        if self.table.dead().is_empty() {
            return;
        }
        let share = CONTACTS_PER_PERIOD / self.table.size() as f64;
        if self.rngs.contact.random::<f64>() < share {
            let chosen = self.table.dead().choose(&mut self.rngs.contact);
            if let Some(&member) = chosen {
                self.ping(member, Purpose::Contact, out);
            }
        }
    }

    /// A join address behind which no member is active any more is tried again: the cluster may
    /// come back there.
    fn resume_joining(&mut self) {
        let lost: Vec<_> = self
            .joins
            .joined()
            .filter(|&(address, member)| !self.has_active_at(address, member))
            .map(|(address, _)| address)
            .collect();
        for address in lost {
            let pause = self.config.join_retry.max(Duration::from_secs(1));
            self.joins
                .settle(address, JoinState::Waiting(self.now + pause));
            self.timers.set(Timer::Join, self.now, pause);
        }
    }
}
