//! Merging what others say into the table, and what follows from a change.

use std::time::Duration;

use super::dissemination::{Form, Urgency};
use super::stats::SuspicionOutcome;
use super::table::{Change, Entry};
use super::{
    ArrivalWindow, Event, EventKind, Evidence, Life, MemberEvent, Node, Outbox, Rejection, Timer,
};
use crate::member::{HeartbeatState, Incarnation, NameHash, Record, Standing, Status, Version};
use crate::wire::{Age, RecordUpdate, Sender, StatusUpdate, Update};

/// Largest heartbeat version taken from a member not known before.
const VERSION_FIRST_MAX: u64 = 1 << 32;

/// Where a record came from; it decides whether it is news.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Source {
    /// Told by a peer: passed on.
    Told,
    /// Part of the table that a joiner is given: everybody else has it.
    JoinTable,
}

impl Node {
    /// Merges updates in order; returns how many changed the table.
    pub(super) fn adopt_all<'a>(
        &mut self,
        updates: impl IntoIterator<Item = &'a Update>,
        out: &mut Outbox,
    ) -> usize {
        updates
            .into_iter()
            .filter(|update| match update {
                Update::Record(told) => self.adopt_record(told, Source::Told, out),
                Update::Status(told) => self.adopt_status(told, out),
                Update::Announced(told) => self.adopt_announcement(told, out),
            })
            .count()
    }

    fn adopt_status(&mut self, told: &StatusUpdate, out: &mut Outbox) -> bool {
        let Some(entry) = self.table.get(told.member) else {
            // Somebody unknown: the fingerprints differ, and that will bring the record.
            return false;
        };
        let Some(standing) = told.standing(&entry.record.standing) else {
            return false;
        };
        let held = entry.record.standing;
        if !held.incarnation.accepts(standing.incarnation) || !held.accepts_strikes(standing) {
            self.reject(Rejection::Incarnation);
            return false;
        }
        let nothing_new = standing < held || (standing == held && held.status.is_active());
        if nothing_new && told.member != self.local.hash {
            self.note_accusation(told.member, standing);
            return false;
        }
        let record = Record {
            name: entry.record.name.clone(),
            standing,
            metadata: None,
        };
        let told = RecordUpdate {
            record: record.into(),
            version: Version::default(),
            age: told.age,
            lease_left: Duration::ZERO,
        };
        self.merge_told(&told, Source::Told, out)
    }

    /// Merges a whole record; whether it changed the table.
    pub(super) fn adopt_record(
        &mut self,
        told: &RecordUpdate,
        source: Source,
        out: &mut Outbox,
    ) -> bool {
        if self.life == Life::Forgotten {
            return false;
        }
        if let Err(reason) = self.check_record(&told.record) {
            self.stats.rejected.add(reason, 1);
            return false;
        }
        let beat = HeartbeatState {
            generation: told.record.standing.generation,
            version: told.version,
        };
        let plausible = match self.table.get(told.record.name.hash()) {
            Some(entry) => entry.heartbeat().accepts(beat),
            None => beat.version.0 <= VERSION_FIRST_MAX,
        };
        if plausible {
            return self.merge_told(told, source, out);
        }
        let told = RecordUpdate {
            version: Version::default(),
            ..told.clone()
        };
        self.merge_told(&told, source, out)
    }

    /// What a peer may not claim, whoever it is about.
    pub(super) fn check_record(&self, record: &Record) -> Result<(), Rejection> {
        if self.wall.is_ahead(self.now, record.standing.generation) {
            return Err(Rejection::FutureGeneration);
        }
        let held = self.table.get(record.name.hash());
        let claimed = record.standing;
        let plausible = match held.map(|entry| entry.record.standing) {
            Some(held) if held.instance() == claimed.instance() => {
                held.incarnation.accepts(claimed.incarnation) && held.accepts_strikes(claimed)
            }
            _ => {
                claimed.incarnation <= Incarnation::FIRST_MAX
                    && claimed.strikes <= Standing::STRIKES_FIRST_MAX
            }
        };
        if !plausible {
            return Err(Rejection::Incarnation);
        }
        let other_name = |held: &str| !held.eq_ignore_ascii_case(record.name.as_str());
        if held.is_some_and(|entry| other_name(entry.record.name.as_str())) {
            return Err(Rejection::NameCollision);
        }
        match &record.metadata {
            Some(metadata) if metadata.check().is_err() => Err(Rejection::Metadata),
            _ => Ok(()),
        }
    }

    /// Merges into the table, and nothing more.
    pub(super) fn merge(&mut self, told: &RecordUpdate) -> Option<Change> {
        let no_arrivals = || ArrivalWindow::new(self.config.probe_period);
        let change = self.table.merge(self.now, told, no_arrivals);
        self.note_description(told);
        change
    }

    fn merge_told(&mut self, told: &RecordUpdate, source: Source, out: &mut Outbox) -> bool {
        let member = told.record.name.hash();
        if member == self.local.hash {
            self.note_accuser(told.record.standing);
            if self.hears_of_removal(told.record.standing, out) {
                return false;
            }
            return self.hear_of_self(&told.record, out);
        }
        self.note_accusation(member, told.record.standing);
        if self.holds_back(member, told) {
            return false;
        }
        self.note_metadata_conflict(member, &told.record);
        let Some(change) = self.merge(told) else {
            self.answer_with_fence(member, told, out);
            return false;
        };
        let now = self.now;
        if change.after.status == Status::Suspect {
            let wait = self.config.pause_tolerance + 2 * self.config.probe_period;
            self.timers.set(Timer::ForeignSuspicion(member), now, wait);
        }
        let evidence = self.hear_say(member, &change);
        self.follow_change(member, &change, source, Some(evidence), out);
        true
    }

    /// This node's own claim about another member.
    pub(super) fn assert_status(
        &mut self,
        member: NameHash,
        status: Status,
        evidence: Evidence,
        out: &mut Outbox,
    ) {
        let Some(entry) = self.table.get(member) else {
            return;
        };
        let standing = entry.record.standing.with_status(status);
        self.assert_standing(member, standing, evidence, out);
    }

    /// The same with a whole standing.
    pub(super) fn assert_standing(
        &mut self,
        member: NameHash,
        standing: Standing,
        evidence: Evidence,
        out: &mut Outbox,
    ) {
        let Some(entry) = self.table.get(member) else {
            return;
        };
        let told = restated(entry, standing);
        if let Some(change) = self.merge(&told) {
            self.note_verdict(member, change.after, &evidence);
            self.follow_change(member, &change, Source::Told, Some(evidence), out);
        }
    }

    /// Replaces the own standing, and tells it.
    pub(super) fn set_own_standing(&mut self, standing: Standing, form: Form) -> Option<Change> {
        self.bump_version();
        let told = restated(self.table.get(self.local.hash)?, standing);
        let change = self.merge(&told);
        self.news.publish(
            self.local.hash,
            form,
            Urgency::First,
            self.now + self.config.push_delay,
        );
        change
    }

    /// Somebody speaks of this node. Nothing is adopted; an accusation is refuted, in one jump.
    fn hear_of_self(&mut self, told: &Record, out: &mut Outbox) -> bool {
        if self.hear_of_rival(told, out) {
            return false;
        }
        let (own, claim) = (self.own_standing(), told.standing);
        let other_instance = claim.instance() != own.instance();
        let accused = !other_instance && !claim.forgotten && claim > own;
        if !accused || matches!(self.life, Life::Leaving | Life::Silent) {
            return false;
        }
        if claim.status == Status::Dead && claim.strikes > own.strikes {
            self.note_own_accusation(claim);
            let incarnation = claim.incarnation.max(own.incarnation);
            let evicted = Standing {
                incarnation,
                ..claim
            };
            self.enter_quarantine(evicted, out);
            return true;
        }
        self.stats.refutations += 1;
        let refuted = Standing {
            incarnation: claim.incarnation.past(),
            status: Status::Alive,
            strikes: claim.strikes.max(own.strikes),
            ..own
        };
        self.note_own_refutation(claim, refuted);
        self.set_own_standing(refuted, Form::Status);
        true
    }

    /// What follows from a changed record: probing, cases, news, events.
    pub(super) fn follow_change(
        &mut self,
        member: NameHash,
        change: &Change,
        source: Source,
        evidence: Option<Evidence>,
        out: &mut Outbox,
    ) {
        let after = change.after;
        self.note_lifted(member, change, out);
        self.hold.settle(member, after);
        let new_life = change
            .before
            .is_none_or(|before| before.instance() != after.instance());
        if let Some(before) = change.before
            && before.status == Status::Dead
        {
            self.hold.note_return(member, self.now);
            if !new_life && before.strikes == after.strikes && after.status.is_active() {
                self.evictions.patience.survived(member, self.now);
            }
        }
        let was_active = change
            .before
            .is_some_and(|before| before.status.is_active());
        if new_life {
            self.evictions.patience.forget(member);
            self.contacts.remove(&member);
            self.slots.heard(member, None);
            if let Some(entry) = self.table.get_mut(member) {
                entry.arrivals = ArrivalWindow::new(self.config.probe_period);
                entry.counted_at = self.now;
            }
        }
        if new_life || after.status != Status::Suspect {
            self.timers.cancel(Timer::ForeignSuspicion(member));
            let dead = after.status == Status::Dead;
            let outcome = if dead {
                SuspicionOutcome::Confirmed
            } else {
                SuspicionOutcome::Refuted
            };
            self.drop_case(member, outcome);
        }
        if new_life || !after.status.is_active() {
            self.drop_trial(member);
        }
        if after.status.is_active() && (new_life || !was_active) {
            self.round_robin.insert(member, &mut self.rngs.schedule);
        }
        if was_active != after.status.is_active() {
            self.on_members_changed();
        }
        if source == Source::Told {
            let form = if new_life || change.metadata {
                Form::Record
            } else {
                Form::Status
            };
            let urgency = urgency(change);
            self.news
                .publish(member, form, urgency, self.now + self.config.push_delay);
        }
        self.emit_change(member, change, evidence, out);
    }

    pub(super) fn emit_change(
        &mut self,
        member: NameHash,
        change: &Change,
        evidence: Option<Evidence>,
        out: &mut Outbox,
    ) {
        let (Some(kind), Some(entry)) = (event_kind(change), self.table.get(member)) else {
            return;
        };
        let verdict = matches!(kind, EventKind::MemberSuspect | EventKind::MemberDead);
        out.events.push(Event::Member(MemberEvent {
            kind,
            member: entry.record.name.clone(),
            address: self.address_of(member),
            rival: None,
            generation: change.after.generation,
            incarnation: change.after.incarnation,
            from: change.before.map(|before| before.status),
            to: change.after.status,
            evidence: evidence.filter(|_| verdict),
        }));
    }

    /// Records what a message shows of its sender's heartbeat.
    pub(super) fn hear_sender(&mut self, sender: &Sender) {
        self.teller = Some(sender.member);
        self.hear_heartbeat(sender.member, sender.heartbeat(), Duration::ZERO);
    }
}

/// Another standing for an entry; its self-description stays what it is.
pub(super) fn restated(entry: &Entry<ArrivalWindow>, standing: Standing) -> RecordUpdate {
    let record = Record {
        name: entry.record.name.clone(),
        standing,
        metadata: None,
    };
    RecordUpdate {
        record: record.into(),
        version: entry.version,
        age: Age(0),
        lease_left: Duration::ZERO,
    }
}

/// How eagerly a change is told.
fn urgency(change: &Change) -> Urgency {
    let before = change.before.map(|before| before.status);
    match (before, change.after.status) {
        (_, Status::Suspect) => Urgency::Narrow,
        (_, Status::Dead | Status::Left) => Urgency::Verdict,
        (Some(Status::Suspect | Status::Dead), Status::Alive) => Urgency::First,
        (_, Status::Alive) => Urgency::Normal,
    }
}

/// The event a change is, if readers should see one.
fn event_kind(change: &Change) -> Option<EventKind> {
    let after = change.after;
    if after.forgotten {
        let shown = change.before.is_some_and(|before| !before.forgotten);
        return shown.then_some(EventKind::MemberForgotten);
    }
    let Some(before) = change.before else {
        return match after.status {
            Status::Alive => Some(EventKind::MemberUp),
            Status::Suspect => Some(EventKind::MemberSuspect),
            Status::Dead | Status::Left => None,
        };
    };
    let new_life = before.instance() != after.instance();
    match (before.status, after.status) {
        (Status::Alive | Status::Suspect, Status::Alive | Status::Suspect) if new_life => {
            Some(EventKind::MemberRestarted)
        }
        (Status::Dead | Status::Left, Status::Alive) => Some(EventKind::MemberUp),
        (from, to) if from == to && !new_life => {
            change.metadata.then_some(EventKind::MemberUpdated)
        }
        (_, Status::Suspect) => Some(EventKind::MemberSuspect),
        (_, Status::Dead) => Some(EventKind::MemberDead),
        (_, Status::Left) => Some(EventKind::MemberLeft),
        (Status::Alive | Status::Suspect, Status::Alive) => Some(EventKind::MemberUpdated),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::member::{Generation, Incarnation, NodeId};
    use crate::time::Instant;

    fn change(before: Option<(u64, Status)>, after: (u64, Status)) -> Change {
        let standing = |(generation, status)| {
            Standing::alive(Generation(generation), NodeId(1)).with_status(status)
        };
        Change {
            before: before.map(standing),
            after: standing(after),
            metadata: false,
            since: Instant::ORIGIN,
        }
    }

    /// weaveworks/mesh#13, akkadotnet/akka.net#2419: a quick restart was seen as a mere update.
    #[test]
    fn each_change_is_one_event() {
        use EventKind::{
            MemberDead, MemberLeft, MemberRestarted, MemberSuspect, MemberUp, MemberUpdated,
        };
        use Status::{Alive, Dead, Left, Suspect};
        let table = [
            (None, (1, Alive), Some(MemberUp)),
            (None, (1, Dead), None),
            (None, (1, Left), None),
            (Some((1, Alive)), (1, Suspect), Some(MemberSuspect)),
            (Some((1, Suspect)), (1, Alive), Some(MemberUpdated)),
            (Some((1, Suspect)), (1, Dead), Some(MemberDead)),
            (Some((1, Dead)), (1, Alive), Some(MemberUp)),
            (Some((1, Dead)), (1, Left), Some(MemberLeft)),
            (Some((1, Alive)), (1, Left), Some(MemberLeft)),
            (Some((1, Alive)), (2, Alive), Some(MemberRestarted)),
            (Some((1, Suspect)), (2, Alive), Some(MemberRestarted)),
            (Some((1, Dead)), (2, Alive), Some(MemberUp)),
            (Some((1, Left)), (2, Alive), Some(MemberUp)),
            (Some((1, Alive)), (1, Alive), None),
        ];
        for (before, after, expected) in table {
            assert_eq!(
                event_kind(&change(before, after)),
                expected,
                "{before:?} to {after:?}"
            );
        }
        let mut retagged = change(Some((1, Alive)), (1, Alive));
        retagged.metadata = true;
        retagged.after.incarnation = Incarnation(1);
        assert_eq!(event_kind(&retagged), Some(MemberUpdated));
    }
}
