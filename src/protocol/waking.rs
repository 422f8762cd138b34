//! Starting over: what a node holds of others after it did not run, or heard nobody, for long.
//!
//! A tombstone fences off what is older than itself for its whole life T, twice the retention. An
//! alive record that somebody holds unchecked for longer than that would bring the dead back, so
//! nothing may rest unchecked for more than a quarter of it.

use std::net::SocketAddr;
use std::time::Duration;

use rand::seq::IndexedRandom;

use super::dissemination::Dissemination;
use super::hold::Hold;
use super::join_book::Origin;
use super::probe::ProbeBook;
use super::pulls::Pulls;
use super::repair::Repair;
use super::round_robin::RoundRobin;
use super::slots::Slots;
use super::timers::Timers;
use super::{Event, Input, Life, Node, Outbox, Rejection, Timer};
use crate::member::{NameHash, Status};
use crate::time::Instant;
use crate::wire::RefusalCode;

/// Members whose addresses a node that starts over asks to be admitted, beside its join addresses.
const KNOWN_MAX: usize = 16;
/// For how long after waking nothing that comes is believed: sockets and queues hold what is older
/// than the node's own table was.
const DEAF: Duration = Duration::from_secs(1);

impl Node {
    /// Whether the node, when next called at `now`, will find that it did not run for so long that
    /// it has to start over: for a quarter of the time for which tombstones are held. A driver then
    /// drops what its sockets hold before it goes on.
    #[must_use]
    pub fn has_overslept(&self, now: Instant) -> bool {
        now.since(self.now) > self.check_within() && !self.table.active().is_empty()
    }

    /// Within which time everything that is held of others must be checked: T / 4.
    fn check_within(&self) -> Duration {
        self.config.dead_retention / 2
    }

    /// The node did not run for `slept`: what it holds of others is worth nothing, and what waits
    /// in its sockets is older still.
    pub(super) fn wake_up(&mut self, slept: Duration, out: &mut Outbox) {
        if self.life == Life::Leaving {
            return;
        }
        let known = self.start_over(out);
        self.removals.deaf_until = self.now + DEAF;
        for address in known {
            self.joins.wish(address, self.now, Origin::Wished);
        }
        self.joins.resume(self.now);
        self.on_join_due(out);
        out.events.push(Event::StartedOver { slept });
    }

    /// Why nothing that comes in is taken, if so: it is left over from before a long sleep, or this
    /// node was forgotten.
    pub(super) fn is_closed(&self) -> Option<Rejection> {
        if self.now < self.removals.deaf_until {
            Some(Rejection::Stale)
        } else if self.life == Life::Forgotten {
            Some(Rejection::Forgotten)
        } else {
            None
        }
    }

    /// Counts what is not taken. A stream ends without an answer: its peer asks elsewhere.
    pub(super) fn turn_away(&mut self, input: &Input<'_>, out: &mut Outbox) {
        if let Some(reason) = self.is_closed() {
            self.reject(reason);
        }
        if let Input::Request { stream, .. } = *input {
            self.answer(stream, &[], out);
        }
    }

    /// Drops all that is held of others, tombstones excepted: their age went on. Returns addresses
    /// of some members that were active.
    pub(super) fn start_over(&mut self, out: &mut Outbox) -> Vec<SocketAddr> {
        let some = self.table.active().sample(&mut self.rngs.join, KNOWN_MAX);
        let some: Vec<NameHash> = some.copied().collect();
        let known = some
            .into_iter()
            .filter_map(|member| self.address_of(member))
            .collect();
        for stream in std::mem::take(&mut self.admissions).into_keys() {
            self.refuse(stream, RefusalCode::UNAVAILABLE, None, out);
        }
        let now = self.now;
        self.timers = Timers::default();
        self.timers
            .set(Timer::Period, now, self.next_period().since(now));
        self.end_isolation(out);
        self.contact_at = now;
        self.cases.clear();
        self.contacts.clear();
        self.exchanges.clear();
        self.metadata.pulls = Pulls::default();
        self.events.start_over(&self.config);
        self.running = None;
        self.removals.stages.clear();
        self.probes = ProbeBook::new(self.rngs.first_seq());
        self.round_robin = RoundRobin::default();
        self.slots = Slots::new(self.local.hash, self.config.probe_period, now);
        self.news = Dissemination::new(self.config.spreading);
        self.repair = Repair::new(self.config.mismatch_timeout);
        self.hold = Hold::new(self.local.hash, self.config.heal_hold);
        for &member in self.table.active() {
            self.metadata.leases.drop(member);
            self.metadata.digests.drop(member);
        }
        self.table.drop_active(now);
        self.on_members_changed();
        known
    }

    /// When the next of the own periods begins.
    fn next_period(&self) -> Instant {
        let (first, period) = (self.local.first_period, self.config.probe_period);
        if self.now < first {
            return first;
        }
        let passed = self.now.since(first).as_nanos() % period.as_nanos().max(1);
        self.now + (period - Duration::from_nanos(passed as u64))
    }

    /// A brake on verdicts lets go in time: who answered nobody's question, or whom no verdict was
    /// reached about, for a quarter of a tombstone's life is dead. A cut-off node that kept the
    /// dead alive for longer would bring them back when the others have forgotten them.
    pub(super) fn release_brakes(&mut self, out: &mut Outbox) {
        let limit = self.check_within();
        let contact_at = self.contact_at.max(self.local.first_period);
        let overdue: Vec<NameHash> = if self.now.since(contact_at) > limit {
            self.table.active().to_vec()
        } else {
            let cases = self.cases.iter();
            let old = cases.filter(|(member, case)| {
                let waits = self.metadata.leases.ends_at(**member, self.now).is_some();
                !waits && self.now.since(case.began) > limit
            });
            old.map(|(&member, _)| member).collect()
        };
        for member in overdue {
            // Whom it hears of is not braked, though nobody answers it: the way there is cut.
            if self.silence_of(member) <= limit {
                continue;
            }
            let evidence = self.evidence("own", member);
            self.assert_status(member, Status::Dead, evidence, out);
        }
    }
}
