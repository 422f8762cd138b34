//! Coming together again after a partition: verdicts from across are put to the accused first.

use super::hold::Kept;
use super::updates::{Source, restated};
use super::{Node, Outbox, Timer};
use crate::member::{NameHash, Standing, Status};
use crate::wire::{Age, RecordUpdate, StatusUpdate, Update};

impl Node {
    /// Whether what the present message's sender tells comes from the other side of a partition
    /// that is healing: one of the two held the other dead a moment ago.
    fn hears_from_across(&self) -> bool {
        let Some(teller) = self.teller else {
            return false;
        };
        let held_dead = self.table.get(teller).is_some_and(|entry| {
            entry.record.standing.status == Status::Dead || entry.isolated_verdict
        });
        held_dead || self.hold.is_returning(teller, self.now)
    }

    /// The present message's sender claims `claim` of this node: if it held this node dead, what
    /// it tells of others comes from across.
    pub(super) fn note_accuser(&mut self, claim: Standing) {
        if let Some(teller) = self.teller
            && claim.status == Status::Dead
        {
            self.hold.note_return(teller, self.now);
        }
    }

    /// Keeps a verdict from across aside, if `told` is one; whether it was.
    pub(super) fn holds_back(&mut self, member: NameHash, told: &RecordUpdate) -> bool {
        let Some(entry) = self.table.get(member) else {
            return false;
        };
        let (held, claim) = (entry.record.standing, told.record.standing);
        let verdict = matches!(claim.status, Status::Suspect | Status::Dead)
            && held.status.is_active()
            && claim == held.with_status(claim.status)
            && claim > held;
        if !verdict || !self.hears_from_across() {
            return false;
        }
        let decided = self.now.before(told.age.duration());
        self.hold.keep(member, claim, decided, self.now);
        true
    }

    /// Sets the timer of what is kept aside.
    pub(super) fn arm_hold(&mut self) {
        match self.hold.next_at() {
            Some(at) if self.timers.deadline(Timer::Hold) == Some(at) => {}
            Some(at) => self.timers.set(Timer::Hold, self.now, at.since(self.now)),
            None => self.timers.cancel(Timer::Hold),
        }
    }

    /// Adopts the verdicts that nobody refuted, and asks the next of the accused.
    pub(super) fn on_hold(&mut self, out: &mut Outbox) {
        for (member, kept) in self.hold.take_unrefuted(self.now) {
            self.adopt_unrefuted(member, &kept, out);
        }
        for (member, kept) in self.hold.ask_now(self.now) {
            let age = Age::from_duration(self.now.since(kept.decided));
            let claim = StatusUpdate::of(member, &kept.standing, age);
            self.send_update(member, Update::Status(claim), out);
        }
    }

    fn adopt_unrefuted(&mut self, member: NameHash, kept: &Kept, out: &mut Outbox) {
        let Some(entry) = self.table.get(member) else {
            return;
        };
        let told = RecordUpdate {
            age: Age::from_duration(self.now.since(kept.decided)),
            ..restated(entry, kept.standing)
        };
        if let Some(change) = self.merge(&told) {
            let evidence = self.hear_say(member, &change);
            self.follow_change(member, &change, Source::Told, Some(evidence), out);
        }
    }
}
