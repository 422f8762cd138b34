//! What is entered into the ledger, while the protocol goes its way.

use super::case::Phase;
use super::ledger::{AccusationNote, PhiNote, ProbeNote, RefutationNote};
use super::probe::{Probe, Purpose};
use super::probing::probe_kind;
use super::table::Change;
use super::{Event, Evidence, Node, Outbox, ProbeOutcome, ProbeWay, Refutation};
use crate::member::{NameHash, Standing, Status};

impl Node {
    /// A question has ended: it is counted under its outcome, and entered.
    pub(super) fn count_probe(&mut self, probe: &Probe, outcome: ProbeOutcome) {
        self.stats
            .probes
            .add((probe_kind(probe.purpose), outcome), 1);
        self.note_probe(probe, outcome);
    }

    /// Enters a question that has ended. One that timed out before is entered already.
    pub(super) fn note_probe(&mut self, probe: &Probe, outcome: ProbeOutcome) {
        let (way, other) = match probe.purpose {
            // Not asked of a member as one.
            Purpose::Remembered { .. } | Purpose::Admission(_) => return,
            Purpose::Relayed { relay, .. } => (ProbeWay::Relayed, relay),
            Purpose::Relay { asker, .. } => (ProbeWay::AskedFor, asker),
            Purpose::Stream(_) => (ProbeWay::Stream, self.local.hash),
            _ => (ProbeWay::Direct, self.local.hash),
        };
        let answered = !matches!(outcome, ProbeOutcome::Missed | ProbeOutcome::Void);
        let round_trip = match answered {
            true => self.now.since(probe.sent_at).as_micros().max(1),
            false => 0,
        };
        let note = ProbeNote {
            sent_at: probe.sent_at,
            other,
            round_trip: u32::try_from(round_trip).unwrap_or(u32::MAX),
            way,
            outcome,
        };
        let amended = probe.timed_out && answered;
        self.ledgers.note_probe(probe.target.member, note, amended);
    }

    /// Enters what `witness` says of `member`.
    pub(super) fn note_witness(&mut self, witness: NameHash, member: NameHash, miss_rate: f64) {
        if let Some(case) = self.cases.get(&member) {
            let times = (case.began, self.now);
            self.ledgers.note_witness(member, witness, miss_rate, times);
        }
    }

    /// Enters phi of an open case, once a second.
    pub(super) fn sample_phi(&mut self, member: NameHash) {
        if self.ledgers.is_phi_due(member, self.now) {
            self.note_phi(member);
        }
    }

    fn note_phi(&mut self, member: NameHash) {
        let Some(case) = self.cases.get(&member) else {
            return;
        };
        let (own_misses, witnessed) = self.parts(member, case);
        let note = PhiNote {
            at: self.now,
            phi: case.phi(),
            own_misses,
            witnessed,
            late_phi: case.late_phi(),
            heartbeat_phi: self.heartbeat_phi(member),
            witnesses: u32::try_from(case.witnesses()).unwrap_or(u32::MAX),
        };
        self.ledgers.note_phi(member, note);
    }

    /// Enters an own verdict with its evidence.
    pub(super) fn note_verdict(
        &mut self,
        member: NameHash,
        standing: Standing,
        evidence: &Evidence,
    ) {
        self.note_phi(member);
        self.ledgers
            .note_verdict(member, standing, evidence.clone(), self.now);
    }

    /// Enters the verdict of an isolated node, once.
    pub(super) fn note_isolated_verdict(&mut self, member: NameHash) {
        let Some(entry) = self.table.get(member).filter(|it| !it.isolated_verdict) else {
            return;
        };
        let standing = entry.record.standing.with_status(Status::Dead);
        let evidence = self.evidence("isolated", member);
        self.note_verdict(member, standing, &evidence);
    }

    /// Enters what others say of `member`: that it is suspect or dead.
    pub(super) fn note_accusation(&mut self, member: NameHash, claim: Standing) {
        let note = AccusationNote::of(self.teller, claim, self.now);
        self.ledgers.note_accusation(member, note);
    }

    /// Enters a status taken over, and gives the evidence for it.
    pub(super) fn hear_say(&mut self, member: NameHash, change: &Change) -> Evidence {
        if change.before != Some(change.after) {
            let evicted = change.after.status == Status::Dead
                && change
                    .before
                    .is_some_and(|before| before.strikes < change.after.strikes);
            self.ledgers
                .note_hearsay(member, self.teller, (change.after, evicted), self.now);
        }
        let told_by = self.teller.and_then(|teller| self.name_of(teller));
        Evidence {
            told_by,
            ..Evidence::new("told", self.silence_of(member))
        }
    }

    /// Enters that the member has lifted, by an answer, what this node held against it. How it did
    /// is what was entered last.
    pub(super) fn note_acquittal(&mut self, member: NameHash) {
        let Some(entry) = self.table.get(member) else {
            return;
        };
        let doubted = self.cases.get(&member).map(|case| case.phase);
        let lifted = match doubted {
            _ if entry.isolated_verdict => Status::Dead,
            Some(Phase::Suspect { .. } | Phase::Final { .. }) => Status::Suspect,
            _ => return,
        };
        let incarnation = entry.record.standing.incarnation;
        let last = self.ledgers.last_probe(member);
        let (how, by) = match last.map(|note| (note.way, note.outcome, note.other)) {
            Some((ProbeWay::Relayed, ProbeOutcome::Nacked, relay)) => {
                (Refutation::Witnessed, Some(relay))
            }
            Some((ProbeWay::Relayed, ProbeOutcome::Acked | ProbeOutcome::Late, relay)) => {
                (Refutation::Relayed, Some(relay))
            }
            Some((_, ProbeOutcome::Acked | ProbeOutcome::Late, _)) => (Refutation::Answered, None),
            _ => (Refutation::Relaying, None),
        };
        let note = RefutationNote {
            how,
            by,
            at: self.now,
            lifted,
            incarnation,
        };
        self.ledgers.note_refutation(member, note);
    }

    /// A suspicion or a death ends in the same life: it was wrong, for as long as it stood.
    pub(super) fn note_lifted(&mut self, member: NameHash, change: &Change, out: &mut Outbox) {
        let (Some(before), after) = (change.before, change.after) else {
            return;
        };
        let wrong = matches!(before.status, Status::Suspect | Status::Dead)
            && after.status == Status::Alive
            && before.instance() == after.instance();
        let Some(name) = self.name_of(member).filter(|_| wrong) else {
            return;
        };
        // Who loses most packets and was evicted for it was alive; that was no mistake.
        let evicted = self.ledgers.was_evicted(member, before);
        let note = RefutationNote {
            how: Refutation::Incarnation,
            by: self.teller.filter(|&teller| teller != member),
            at: self.now,
            lifted: before.status,
            incarnation: after.incarnation,
        };
        self.ledgers.note_refutation(member, note);
        if evicted {
            return;
        }
        if before.status == Status::Dead {
            self.stats.false_deaths += 1;
        }
        out.events.push(Event::Mistake {
            member: name,
            status: before.status,
            lasted: self.now.since(change.since),
        });
    }

    /// The own name was accused, and this node says that it lives.
    pub(super) fn note_own_refutation(&mut self, claim: Standing, refuted: Standing) {
        let own = self.local.hash;
        self.note_own_accusation(claim);
        let note = RefutationNote {
            how: Refutation::Incarnation,
            by: None,
            at: self.now,
            lifted: claim.status,
            incarnation: refuted.incarnation,
        };
        self.ledgers.note_refutation(own, note);
    }

    /// The own name was accused.
    pub(super) fn note_own_accusation(&mut self, claim: Standing) {
        let note = AccusationNote::of(self.teller, claim, self.now);
        self.ledgers.begin(self.local.hash);
        self.ledgers.note_accusation(self.local.hash, note);
    }
}
