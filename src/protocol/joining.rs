//! Joining: asking to be admitted, and what the answers mean.

use std::net::SocketAddr;
use std::time::Duration;

use super::dissemination::{Form, Urgency};
use super::join_book::{JoinState, Manner, Origin};
use super::loss::MissEstimate;
use super::slots::PeriodStart;
use super::table::Roster;
use super::{ArrivalWindow, Event, JoinOutcome, Life, Node, Outbox, RefusalReason, Timer};
use crate::member::{Generation, Metadata, NameHash, Standing, Version};
use crate::wire::{Age, Busy, RecordUpdate, RefusalCode, Refused, Target};

impl Node {
    /// Takes the members of `roster` as known already, without news, events or questions, and the
    /// node as ready.
    ///
    /// A hook for simulators, which start large clusters with full tables: that a cluster of
    /// thousands comes together by joining takes longer than what is to be looked at. So that it
    /// goes on as one that came together long ago, the node also knows when the members it observes
    /// began their periods, and which share of its pings goes unanswered.
    ///
    /// # Panics
    /// The node has heard of somebody before.
    pub fn preload(
        &mut self,
        roster: &Roster,
        misses: f64,
        start: impl Fn(NameHash) -> Option<PeriodStart>,
    ) {
        let no_arrivals = ArrivalWindow::new(self.config.probe_period);
        self.table.enrol(self.now, roster, no_arrivals);
        self.misses = MissEstimate::of(misses);
        self.on_members_changed();
        for member in self.slots.observed(self.table.active(), &start) {
            let period_start = start(member);
            if let Some(contact) = self.contact_mut(member) {
                contact.period_start = period_start;
            }
        }
        self.become_ready();
        self.follow_table();
    }

    /// Join through `addresses`.
    pub(super) fn on_join(&mut self, addresses: &[SocketAddr], out: &mut Outbox) {
        let origin = match self.life {
            Life::Joining => Origin::Listed,
            Life::Ready | Life::Silent | Life::Leaving | Life::Forgotten => Origin::Wished,
        };
        for &address in addresses {
            if self.life == Life::Forgotten {
                let refused = JoinOutcome::Refused(RefusalReason::Forgotten);
                self.tell_join(address, refused, out);
            } else if !self.joins.wish(address, self.now, origin) {
                self.drop_for_limit("join");
                self.tell_join(
                    address,
                    JoinOutcome::Refused(RefusalReason::Unavailable),
                    out,
                );
            }
        }
        self.on_join_due(out);
    }

    /// Tries every address that is due.
    pub(super) fn on_join_due(&mut self, out: &mut Outbox) {
        if self.life == Life::Forgotten {
            return;
        }
        loop {
            let manner = self.join_manner();
            let due = self.joins.take_due(self.now, manner, &mut self.rngs.join);
            let Some((address, origin)) = due else {
                break;
            };
            let known = self.active_at(address);
            let belongs = self.local.admitted && !self.is_silent();
            match known.filter(|_| origin == Origin::Listed && belongs) {
                _ if self.life == Life::Leaving => self.joins.settle(address, JoinState::Itself),
                Some(member) => {
                    self.joins.settle(address, JoinState::Joined(member));
                    let members = self.told_records().len();
                    self.tell_join(address, JoinOutcome::Joined { members }, out);
                }
                None => self.ask_to_join(address, address, out),
            }
        }
        self.arm_join();
    }

    /// To join, one table is enough; who belongs to a cluster already asks whom it is told to ask.
    fn join_manner(&self) -> Manner {
        match self.life {
            Life::Joining => Manner::InTurn,
            Life::Ready | Life::Silent | Life::Leaving | Life::Forgotten => Manner::AtOnce,
        }
    }

    /// Somebody at `from` pings `target`. If that is this life, which no join address has admitted,
    /// the cluster lists it all the same: an answer to its join was lost, and the addresses may be
    /// gone since. Who pings it can admit it too.
    pub(super) fn join_through(&mut self, from: SocketAddr, target: Target, out: &mut Outbox) {
        let own = Target {
            member: self.local.hash,
            generation: self.local.generation,
        };
        if self.life == Life::Joining && target == own && self.joins.hear(from, self.now) {
            self.on_join_due(out);
        }
    }

    fn arm_join(&mut self) {
        match self.joins.next_due(self.join_manner()) {
            Some(at) => self.timers.set(Timer::Join, self.now, at.since(self.now)),
            None => self.timers.cancel(Timer::Join),
        }
    }

    fn retry_join(&mut self, address: SocketAddr, out: &mut Outbox) {
        self.joins.retry(address, self.now, &mut self.rngs.join);
        self.on_join_due(out);
    }

    fn tell_join(&self, address: SocketAddr, outcome: JoinOutcome, out: &mut Outbox) {
        out.events.push(Event::Join { address, outcome });
    }

    /// `address` has admitted this node and told its table.
    pub(super) fn on_joined(&mut self, address: SocketAddr, members: usize, out: &mut Outbox) {
        self.wall.ahead = false;
        self.local.admitted = true;
        self.end_conflict();
        self.become_ready();
        // The own record is news here too: the server tells it, and so does the joiner.
        let due = self.now + self.config.push_delay;
        self.news
            .publish(self.local.hash, Form::Record, Urgency::First, due);
        self.tell_join(address, JoinOutcome::Joined { members }, out);
        self.on_join_due(out);
        self.on_admission_ended(out);
    }

    /// Tables were exchanged, or there is nobody to exchange with.
    pub(super) fn become_ready(&mut self) {
        if self.life == Life::Joining {
            self.events.begun = true;
            self.life = Life::Ready;
        }
    }

    /// `address` did not answer, or whom it named instead.
    pub(super) fn on_join_failed(&mut self, address: SocketAddr, out: &mut Outbox) {
        match self.joins.detour(address, self.now) {
            Some(other) => self.ask_to_join(address, other, out),
            None => {
                self.tell_join(address, JoinOutcome::Unreachable, out);
                self.retry_join(address, out);
            }
        }
    }

    /// `address`, or whom it named, has too much to do, and names others.
    pub(super) fn on_join_busy(&mut self, address: SocketAddr, busy: &Busy, out: &mut Outbox) {
        let own = self.address_of(self.local.hash);
        let others = busy.others.iter().copied();
        let others = others.filter(|&other| Some(other) != own).collect();
        match self.joins.redirect(address, others, self.now) {
            Some(other) => self.ask_to_join(address, other, out),
            None => self.on_join_refused(address, RefusalReason::Unavailable, out),
        }
    }

    /// `address` said no.
    pub(super) fn on_refused(
        &mut self,
        (address, asked): (SocketAddr, SocketAddr),
        refused: &Refused,
        out: &mut Outbox,
    ) {
        if refused.reason == RefusalCode::FORGOTTEN
            && let Some(fence) = refused.holder.iter().next()
        {
            self.on_removed(address, fence.record.standing.generation, out);
            return;
        }
        let itself = |holder: &RecordUpdate| self.is_own_process(&holder.record);
        if refused.holder.iter().any(itself) {
            if asked != address {
                return self.on_join_failed(address, out);
            }
            self.joins.settle(address, JoinState::Itself);
            if self.joins.is_alone() {
                self.become_ready();
            }
            self.tell_join(address, JoinOutcome::Itself, out);
            return;
        }
        let reason = match refused.reason {
            RefusalCode::CLUSTER => RefusalReason::Cluster,
            RefusalCode::NAME_CONFLICT => {
                let held = |holder: &&RecordUpdate| {
                    holder.record.name.hash() == self.local.hash
                        && self.check_record(&holder.record).is_ok()
                };
                if let Some(holder) = refused.holder.iter().find(held) {
                    self.meet_holder(&holder.record, out);
                }
                RefusalReason::NameConflict
            }
            RefusalCode::FUTURE_GENERATION => RefusalReason::FutureGeneration,
            RefusalCode::RECORD => RefusalReason::Record,
            _ => RefusalReason::Unavailable,
        };
        self.on_join_refused(address, reason, out);
    }

    /// `address` said no, for `reason`.
    pub(super) fn on_join_refused(
        &mut self,
        address: SocketAddr,
        reason: RefusalReason,
        out: &mut Outbox,
    ) {
        self.wall.ahead = reason == RefusalReason::FutureGeneration;
        self.tell_join(address, JoinOutcome::Refused(reason), out);
        self.retry_join(address, out);
    }

    /// The cluster remembers a life of this name with `generation`, not below the one asked for.
    /// Before it was ever admitted, a node takes the next, once; afterwards never, or two nodes
    /// with one name would raise numbers against each other for ever. To have served a join is not
    /// to be admitted: members ask at the address of an earlier life before this one has got
    /// through to anybody.
    pub(super) fn on_superseded(
        &mut self,
        address: SocketAddr,
        generation: Generation,
        out: &mut Outbox,
    ) {
        if generation < self.local.generation {
            // An answer to a question from before it was raised.
            self.joins.settle(address, JoinState::Waiting(self.now));
            self.on_join_due(out);
            return;
        }
        if !self.may_raise_past(generation) {
            self.on_join_refused(address, RefusalReason::NameConflict, out);
            return;
        }
        self.raise_generation(Generation(generation.0 + 1));
        out.events
            .push(Event::GenerationRaised(self.local.generation));
        self.joins.settle(address, JoinState::Waiting(self.now));
        self.on_join_due(out);
    }

    fn may_raise_past(&self, generation: Generation) -> bool {
        !self.local.admitted && !self.local.raised && !self.wall.is_ahead(self.now, generation)
    }

    /// Lives of this name up to `fence` were removed from the cluster. A life that was part of it
    /// falls silent; one that asks for the first time takes a later generation.
    fn on_removed(&mut self, address: SocketAddr, fence: Generation, out: &mut Outbox) {
        if fence < self.local.generation || self.may_raise_past(fence) {
            self.on_superseded(address, fence, out);
        } else {
            self.on_join_refused(address, RefusalReason::Forgotten, out);
            self.become_forgotten(fence, out);
        }
    }

    pub(super) fn raise_generation(&mut self, generation: Generation) {
        self.local.raised = true;
        self.local.generation = generation;
        let Some(entry) = self.table.get(self.local.hash) else {
            return;
        };
        let mut record = (*entry.record).clone();
        record.standing = Standing::alive(generation, self.local.node_id);
        record.metadata = record.metadata.map(|metadata| {
            Metadata {
                generation,
                // A maintenance ends with the life that announced it.
                maintenance: None,
                ..(*metadata).clone()
            }
            .into()
        });
        self.merge(&RecordUpdate {
            record: record.into(),
            version: Version(self.local.version),
            age: Age(0),
            lease_left: Duration::ZERO,
        });
    }
}
