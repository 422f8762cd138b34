//! Explaining a status: what is read out of the ledger.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::time::Duration;

use super::case::{Case, Phase};
use super::evicting::RULE;
use super::ledger::{
    AccusationNote, Doubt, Ledger, PhiNote, ProbeNote, RefutationNote, VerdictNote, WitnessNote,
};
use super::table::Entry;
use super::{
    Accusation, ArrivalWindow, CasePhase, CaseReport, Evidence, Explanation, HeartbeatReport, Node,
    OwnReport, PHI_MAX, PhiSample, ProbeReport, ProbeWay, RefutationReport, Thresholds,
    VerdictReport, WitnessReport,
};
use crate::member::{NameHash, NodeName, Status};
use crate::time::Instant;

/// Questions in the report of a case, the latest.
const REPORTED_PROBES_MAX: usize = 16;
/// Witnesses in it, the weightiest.
const REPORTED_WITNESSES_MAX: usize = 12;

impl Node {
    /// What the evidence for a verdict about `member` is by now.
    pub(super) fn evidence(&self, rule: &'static str, member: NameHash) -> Evidence {
        let silence = self.silence_of(member);
        let Some(case) = self.cases.get(&member) else {
            return Evidence::new(rule, silence);
        };
        Evidence {
            phi: case.phi().min(PHI_MAX),
            witnesses: case.witnesses(),
            report: Some(self.report(member, case, self.now).into()),
            ..Evidence::new(rule, silence)
        }
    }

    /// Everything that this node keeps about `name` and the reason for its status; `None` for a
    /// member that it does not list.
    #[must_use]
    pub fn explain(&self, name: &NodeName, now: Instant) -> Option<Explanation> {
        self.explain_member(name.hash(), now)
    }

    /// Counts what has been entered about members.
    #[must_use]
    pub fn evidence_revision(&self) -> u64 {
        self.ledgers.revision()
    }

    /// The explanations of the members about which something was entered after `revision`, in the
    /// order of their name hashes.
    pub fn explained_since(
        &self,
        revision: u64,
        now: Instant,
    ) -> impl Iterator<Item = (NameHash, Explanation)> + '_ {
        let changed: BTreeSet<NameHash> = self.ledgers.changed_since(revision).collect();
        changed
            .into_iter()
            .filter_map(move |member| Some((member, self.explain_member(member, now)?)))
    }

    fn explain_member(&self, member: NameHash, now: Instant) -> Option<Explanation> {
        let entry = self.table.get(member).filter(|entry| entry.is_shown())?;
        let (rule, rule_at, told_by) = self.reason(member, entry);
        let ledger = self.ledgers.get(member);
        let doubt = ledger.and_then(|ledger| ledger.doubt.as_deref());
        let case = self.cases.get(&member);
        Some(Explanation {
            name: entry.record.name.clone(),
            rule,
            rule_ago: rule_at.map(|at| now.since(at)),
            told_by: told_by.and_then(|teller| self.name_of(teller)),
            case: case.map(|case| self.report(member, case, now)),
            verdict: self.ledgers.verdict(member).map(|it| verdict(it, now)),
            probes: self.probes_of(member, usize::MAX, now),
            phi: doubt.map_or_else(Vec::new, |doubt| samples(doubt, now)),
            accusers: self.accusers(member, now),
            refutations: doubt.map_or_else(Vec::new, |doubt| self.refutations(doubt, now)),
            heartbeats: (member != self.local.hash).then(|| self.heartbeats(member, entry, now)),
            own: self.own_report(now),
            thresholds: self.thresholds(member),
        })
    }

    /// Why `member` has the status that is shown, since when, and who told it.
    fn reason(
        &self,
        member: NameHash,
        entry: &Entry<ArrivalWindow>,
    ) -> (Cow<'static, str>, Option<Instant>, Option<NameHash>) {
        let standing = entry.record.standing;
        if member == self.local.hash {
            let rule = if self.is_evicted() { RULE } else { "self" };
            return (rule.into(), None, None);
        }
        let verdict = self.ledgers.verdict(member);
        let shown = standing.with_status(entry.shown_status());
        if let Some(verdict) = verdict.filter(|verdict| verdict.standing == shown) {
            return (verdict.evidence.rule.clone(), Some(verdict.at), None);
        }
        if entry.isolated_verdict {
            return ("isolated".into(), None, None);
        }
        let answered_at = self.answered_at(member);
        if let (Status::Alive, Some(at)) = (standing.status, answered_at) {
            return ("answered".into(), Some(at), None);
        }
        let hearsay = self.ledgers.hearsay(member);
        let at = hearsay.map(|told| told.at);
        ("told".into(), at, hearsay.and_then(|told| told.by))
    }

    fn report(&self, member: NameHash, case: &Case, now: Instant) -> CaseReport {
        let ledger = self.ledgers.get(member);
        let (own_misses, witnessed) = self.parts(member, case);
        let phi = case.phi().min(PHI_MAX);
        let awake = self.health.awake(now);
        let (phase, since) = match case.phase {
            Phase::Open => (CasePhase::Open, None),
            Phase::Suspect { since } => (CasePhase::Suspect, Some(since)),
            Phase::Final { since, .. } => (CasePhase::Final, Some(since)),
        };
        let circumstances = self.circumstances(member);
        let late = self.ledgers.lateness();
        let late = late.filter(|&(at, _)| at >= case.began);
        CaseReport {
            phase,
            began: now.since(case.began),
            suspected: since.map(|since| awake.since(since)),
            phi,
            own_misses,
            witnessed,
            heartbeats: (phi - own_misses - witnessed).max(0.0),
            late_phi: case.late_phi(),
            witness_count: case.witnesses(),
            witnesses: self.witnesses_of(member, case, ledger, now),
            reachable: circumstances.reachable,
            cluster: circumstances.cluster,
            lateness: late.map(|(_, length)| length).sum(),
            contact: now.since(self.contact_at),
            thresholds: self.thresholds(member),
            probes: self.probes_of(member, REPORTED_PROBES_MAX, now),
        }
    }

    /// The decades of own misses and those of witnesses.
    pub(super) fn parts(&self, member: NameHash, case: &Case) -> (f64, f64) {
        let (mut own, mut witnessed) = (0.0, 0.0);
        for (observer, decades) in case.tallies() {
            if observer == self.local.hash {
                own += decades;
            } else if observer != member {
                witnessed += decades;
            }
        }
        (own, witnessed)
    }

    fn witnesses_of(
        &self,
        member: NameHash,
        case: &Case,
        ledger: Option<&Ledger>,
        now: Instant,
    ) -> Vec<WitnessReport> {
        let doubt = ledger.and_then(|ledger| ledger.doubt.as_deref());
        let notes = doubt.map_or(&[][..], |doubt| doubt.witnesses(case.began));
        let counted = |note: &WitnessNote| {
            let mut tallies = case.tallies();
            tallies.find(|&(observer, _)| observer == note.witness && observer != member)
        };
        let mut reports: Vec<WitnessReport> = notes
            .iter()
            .map(|note| WitnessReport {
                name: self.name_of(note.witness),
                decades: counted(note).map_or(0.0, |(_, decades)| decades),
                answers: note.answers,
                miss_rate: note.miss_rate,
                ago: now.since(note.at),
            })
            .collect();
        reports.sort_by(|one, other| other.decades.total_cmp(&one.decades));
        reports.truncate(REPORTED_WITNESSES_MAX);
        reports
    }

    /// The latest questions about `member`, at most `limit`.
    fn probes_of(&self, member: NameHash, limit: usize, now: Instant) -> Vec<ProbeReport> {
        let notes = self.ledgers.probes(member);
        let surplus = notes.len().saturating_sub(limit);
        let notes = notes.into_iter().skip(surplus);
        notes.map(|note| self.probe_report(&note, now)).collect()
    }

    fn probe_report(&self, note: &ProbeNote, now: Instant) -> ProbeReport {
        let other = self.name_of(note.other);
        let own = self.name_of(self.local.hash);
        let (observer, asked_by) = match note.way {
            ProbeWay::Relayed => (other, None),
            ProbeWay::AskedFor => (own, other),
            ProbeWay::Direct | ProbeWay::Stream => (own, None),
        };
        ProbeReport {
            way: note.way,
            observer,
            asked_by,
            ago: now.since(note.sent_at),
            outcome: note.outcome,
            round_trip: (note.round_trip > 0)
                .then(|| Duration::from_micros(note.round_trip.into())),
        }
    }

    fn accusers(&self, member: NameHash, now: Instant) -> Vec<Accusation> {
        let notes = self.ledgers.accusations(member).into_iter();
        let report = |note: AccusationNote| Accusation {
            by: note.by.and_then(|teller| self.name_of(teller)),
            status: note.status,
            incarnation: note.incarnation,
            ago: now.since(note.at),
        };
        notes.map(report).collect()
    }

    fn refutations(&self, doubt: &Doubt, now: Instant) -> Vec<RefutationReport> {
        let notes = doubt.refutations.iter();
        let report = |note: &RefutationNote| RefutationReport {
            how: note.how,
            by: note.by.and_then(|bringer| self.name_of(bringer)),
            lifted: note.lifted,
            incarnation: note.incarnation,
            ago: now.since(note.at),
        };
        notes.map(report).collect()
    }

    fn heartbeats(
        &self,
        member: NameHash,
        entry: &Entry<ArrivalWindow>,
        now: Instant,
    ) -> HeartbeatReport {
        let (mean, deviation) = entry.arrivals.intervals();
        HeartbeatReport {
            ago: now.since(entry.counted_at),
            mean,
            deviation,
            phi: self.heartbeat_phi_at(member, now),
        }
    }

    fn own_report(&self, now: Instant) -> OwnReport {
        let contact = (self.contact_at > Instant::ORIGIN).then(|| now.since(self.contact_at));
        let lateness = self.ledgers.lateness();
        OwnReport {
            isolated: self.isolated,
            local_health: self.health.score(),
            miss_rate: self.misses.share(),
            contact,
            lateness: lateness.map(|(at, by)| (now.since(at), by)).collect(),
        }
    }

    fn thresholds(&self, member: NameHash) -> Thresholds {
        let circumstances = self.circumstances(member);
        Thresholds {
            phi_suspect: circumstances.phi_suspect,
            phi_late: circumstances.phi_late,
            phi_dead: circumstances.phi_dead,
            pause_tolerance: self.tolerance(member),
        }
    }

    pub(super) fn name_of(&self, member: NameHash) -> Option<NodeName> {
        let entry = self.table.get(member)?;
        Some(entry.record.name.clone())
    }
}

fn verdict(note: &VerdictNote, now: Instant) -> VerdictReport {
    VerdictReport {
        status: note.standing.status,
        generation: note.standing.generation,
        ago: now.since(note.at),
        evidence: note.evidence.clone(),
    }
}

fn samples(doubt: &Doubt, now: Instant) -> Vec<PhiSample> {
    let sample = |note: &PhiNote| PhiSample {
        ago: now.since(note.at),
        phi: note.phi.min(PHI_MAX),
        own_misses: note.own_misses,
        witnessed: note.witnessed,
        heartbeats: (note.phi - note.own_misses - note.witnessed).max(0.0),
        late_phi: note.late_phi,
        witnesses: note.witnesses,
        heartbeat_phi: note.heartbeat_phi,
    };
    doubt.phi.iter().map(sample).collect()
}
