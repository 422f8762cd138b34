//! Joining: asking to be admitted, and admitting others without giving a name away twice.

use std::net::SocketAddr;
use std::time::Duration;

use rand::seq::IndexedRandom;

use super::dissemination::{Form, Urgency};
use super::join_book::{JoinState, Manner, Origin};
use super::loss::MissEstimate;
use super::probe::Purpose;
use super::slots::PeriodStart;
use super::table::Roster;
use super::updates::Source;
use super::{
    ArrivalWindow, Event, JoinOutcome, Life, Node, Outbox, RefusalReason, Rejection, StreamId,
    Timer,
};
use crate::member::{Generation, Metadata, NameHash, Record, Standing, Version};
use crate::time::Instant;
use crate::wire::{
    Age, Busy, List, Message, RecordUpdate, RefusalCode, Refused, Superseded, Target,
};

/// Joins that wait for an answer of the recorded holder of their name.
const ADMISSIONS_MAX: usize = 64;
/// Members named to a joiner that is sent elsewhere.
const REDIRECTS: usize = List::<(), 8>::MAX;
/// Pause between two questions to the recorded holder.
const ADMISSION_PAUSE: Duration = Duration::from_millis(300);

/// A newcomer whose name is held by another instance, which is being asked whether it runs.
#[derive(Debug)]
pub(super) struct Admission {
    record: RecordUpdate,
    /// When silence admits the newcomer: a holder may stand still for the pause tolerance.
    until: Instant,
}

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
            Life::Ready | Life::Silent | Life::Leaving => Origin::Wished,
        };
        for &address in addresses {
            if !self.joins.wish(address, self.now, origin) {
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
            Life::Ready | Life::Silent | Life::Leaving => Manner::AtOnce,
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
    }

    /// Tables were exchanged, or there is nobody to exchange with.
    pub(super) fn become_ready(&mut self) {
        if self.life == Life::Joining {
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
        let may_raise =
            !self.local.admitted && !self.local.raised && !self.wall.is_ahead(self.now, generation);
        if !may_raise {
            self.on_join_refused(address, RefusalReason::NameConflict, out);
            return;
        }
        self.raise_generation(Generation(generation.0 + 1));
        out.events
            .push(Event::GenerationRaised(self.local.generation));
        self.joins.settle(address, JoinState::Waiting(self.now));
        self.on_join_due(out);
    }

    fn raise_generation(&mut self, generation: Generation) {
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

    /// Somebody asks to be admitted.
    pub(super) fn on_join_request(
        &mut self,
        stream: StreamId,
        joiner: RecordUpdate,
        out: &mut Outbox,
    ) {
        let member = joiner.record.name.hash();
        if let Err(reason) = self.check_record(&joiner.record) {
            self.reject(reason);
            let code = match reason {
                Rejection::FutureGeneration => RefusalCode::FUTURE_GENERATION,
                Rejection::NameCollision => RefusalCode::NAME_CONFLICT,
                _ => RefusalCode::RECORD,
            };
            self.refuse(stream, code, None, out);
        } else if member == self.local.hash {
            self.refuse(stream, RefusalCode::NAME_CONFLICT, Some(member), out);
        } else if self.life == Life::Leaving {
            self.refuse(stream, RefusalCode::UNAVAILABLE, None, out);
        } else if self.must_redirect() {
            self.redirect_joiner(stream, member, out);
        } else if self.must_ask_holder(member, &joiner) {
            self.ask_holder(stream, member, joiner, out);
        } else {
            self.admit(stream, &joiner, out);
        }
    }

    /// Whether so many have joined through this node in the last second that others are to take
    /// part, if there are any.
    fn must_redirect(&self) -> bool {
        !self.serving.joins.wait(self.now).is_zero() && !self.table.active().is_empty()
    }

    /// Sends `joiner` to others, drawn at random.
    fn redirect_joiner(&mut self, stream: StreamId, joiner: NameHash, out: &mut Outbox) {
        let active = self.table.active();
        let drawn: Vec<NameHash> = active
            .sample(&mut self.rngs.join, REDIRECTS + 1)
            .copied()
            .filter(|&member| member != joiner)
            .collect();
        let others = drawn.into_iter().filter(|&member| !self.is_suspect(member));
        let others = others.filter_map(|member| self.address_of(member));
        let others = others.take(REDIRECTS).collect();
        self.say_busy(stream, others, out);
    }

    fn supersede(&mut self, stream: StreamId, generation: Generation, out: &mut Outbox) {
        let superseded = Superseded { generation };
        self.answer(stream, &[Message::Superseded(superseded)], out);
    }

    /// Whether another instance that may be running holds the name.
    fn must_ask_holder(&self, member: NameHash, joiner: &RecordUpdate) -> bool {
        self.table.get(member).is_some_and(|held| {
            let (standing, claimed) = (held.record.standing, joiner.record.standing);
            // With the same node id a later life is a restart. What is not later and elsewhere is a
            // copy of the same identity.
            let copied = claimed.generation <= standing.generation
                && is_elsewhere(&held.record, &joiner.record);
            standing.status.is_active() && (standing.node_id != claimed.node_id || copied)
        })
    }

    /// Asks the recorded holder of the name whether it runs: who holds a name is settled by a
    /// probe, not by the order in which claims arrive (moby/moby PR#53688).
    fn ask_holder(
        &mut self,
        stream: StreamId,
        member: NameHash,
        record: RecordUpdate,
        out: &mut Outbox,
    ) {
        let claimed = record.record.standing.generation;
        let held = self.table.get(member);
        let elsewhere = held.is_some_and(|held| is_elsewhere(&held.record, &record.record));
        if !elsewhere && self.target(member).map(|target| target.generation) == Some(claimed) {
            // A ping names a life by its generation: the newcomer, at the holder's address, would
            // answer for the holder. It has to take another one first.
            self.supersede(stream, claimed, out);
            return;
        }
        if self.admissions.len() >= ADMISSIONS_MAX {
            self.drop_for_limit("admission");
            self.refuse(stream, RefusalCode::UNAVAILABLE, None, out);
            return;
        }
        let until = self.now + self.config.pause_tolerance;
        self.admissions.insert(stream, Admission { record, until });
        self.ask_holder_by_stream(stream, member, out);
        self.ping_holder(stream, member, out);
    }

    fn ping_holder(&mut self, stream: StreamId, member: NameHash, out: &mut Outbox) {
        self.ping(member, Purpose::Admission(stream), out);
        let pause = self.ack_timeout(member).max(ADMISSION_PAUSE);
        self.timers.set(Timer::Admission(stream), self.now, pause);
    }

    /// Nobody listens at the holder's address: a datagram under way may still be answered, and
    /// then there is nothing more to wait for.
    pub(super) fn on_holder_unheard(&mut self, stream: StreamId) {
        if let Some(admission) = self.admissions.get_mut(&stream) {
            admission.until = self.now;
            let member = admission.record.record.name.hash();
            let wait = self.ack_timeout(member);
            self.timers.set(Timer::Admission(stream), self.now, wait);
        }
    }

    /// The holder has not answered yet: ask again, or admit.
    pub(super) fn on_admission_step(&mut self, stream: StreamId, out: &mut Outbox) {
        let Some(admission) = self.admissions.get(&stream) else {
            return;
        };
        let member = admission.record.record.name.hash();
        if self.now < admission.until && self.must_ask_holder(member, &admission.record) {
            self.ping_holder(stream, member, out);
        } else {
            self.admit_pending(stream, out);
        }
    }

    /// The holder answers: the newcomer is a stranger with a taken name.
    pub(super) fn refuse_admission(
        &mut self,
        stream: StreamId,
        holder: NameHash,
        out: &mut Outbox,
    ) {
        if self.admissions.remove(&stream).is_some() {
            self.timers.cancel(Timer::Admission(stream));
            self.refuse(stream, RefusalCode::NAME_CONFLICT, Some(holder), out);
        }
    }

    /// The holder does not run: the newcomer replaces it.
    pub(super) fn admit_pending(&mut self, stream: StreamId, out: &mut Outbox) {
        if let Some(admission) = self.admissions.remove(&stream) {
            self.timers.cancel(Timer::Admission(stream));
            self.admit(stream, &admission.record, out);
        }
    }

    fn admit(&mut self, stream: StreamId, joiner: &RecordUpdate, out: &mut Outbox) {
        let member = joiner.record.name.hash();
        let claimed = joiner.record.standing;
        if let Some(held) = self.table.get(member) {
            let elsewhere = is_elsewhere(&held.record, &joiner.record);
            let held = held.record.standing;
            let same_life = held.instance() == claimed.instance() && !held.forgotten && !elsewhere;
            if held.generation >= claimed.generation && !same_life {
                self.supersede(stream, held.generation, out);
                return;
            }
        }
        if !self.may_serve(stream) {
            return self.redirect_joiner(stream, member, out);
        }
        self.serving.joins.take(self.now, 1);
        self.adopt_record(joiner, Source::Told, out);
        // Serving a join is an exchange of tables too; but a life that is years ahead of all clocks
        // is listed by nobody, and must not take itself for a member.
        if !self.wall.ahead {
            self.become_ready();
        }
        self.answer_table(stream, out);
    }
}

/// Whether two records about one name are of processes at different addresses.
fn is_elsewhere(one: &Record, other: &Record) -> bool {
    let address = |record: &Record| record.current_metadata().map(|metadata| metadata.address);
    match (address(one), address(other)) {
        (Some(one), Some(other)) => one != other,
        _ => false,
    }
}
