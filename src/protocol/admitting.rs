//! Admitting others, without giving a name away twice.

use std::time::Duration;

use rand::seq::IndexedRandom;

use super::probe::Purpose;
use super::updates::Source;
use super::{Life, Node, Outbox, Rejection, StreamId, Timer};
use crate::member::{Generation, NameHash, Record};
use crate::time::Instant;
use crate::wire::{List, Message, RecordUpdate, RefusalCode, Superseded};

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
            if held.forgotten && held.generation >= claimed.generation {
                self.refuse(stream, RefusalCode::FORGOTTEN, Some(member), out);
                return;
            }
            let same_life = held.instance() == claimed.instance() && !elsewhere;
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
