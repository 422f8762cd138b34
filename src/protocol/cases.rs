//! The course of a case: from the first unanswered ping to a verdict, or to its being dropped.

use std::time::Duration;

use super::case::{Case, Circumstances, Phase, Verdict};
use super::config::Spreading;
use super::loss;
use super::probe::{Probe, Purpose};
use super::stats::SuspicionOutcome;
use super::{Node, Outbox, Timer};
use crate::member::{NameHash, Status};

/// Most cases at a time; a further miss waits for its next probe.
const CASES_MAX: usize = 64;
/// Most cases beside these against members whose maintenance runs: planned absences of many,
/// however long, must not keep others from being looked after.
const EXCUSED_CASES_MAX: usize = 1024;
/// Counting reachable members stops here.
const REACHABLE_ENOUGH: usize = 3;
/// Expected false deaths of a whole cluster: one a year, at one decision per member and second.
const SECONDS_PER_YEAR: f64 = 3.15e7;

impl Node {
    /// A ping of this node went unanswered.
    pub(super) fn on_miss(&mut self, probe: &Probe, out: &mut Outbox) {
        let member = probe.target.member;
        if self.target(member) != Some(probe.target) {
            return;
        }
        let opened = !self.cases.contains_key(&member);
        if opened && probe.purpose == Purpose::Case {
            // The case it was sent for is closed. The member's next answer counts it as lost.
            return;
        }
        if opened && !self.open_case(member, probe) {
            return;
        }
        let circumstances = self.circumstances(member);
        let share = self.misses.share().max(self.health.miss_floor(self.now));
        let (own, times) = (self.local.hash, (self.now, self.contact_at));
        if let Some(case) = self.cases.get_mut(&member) {
            let decades = loss::decades(share.max(case.unheard_share()));
            case.missed(own, probe.sent_at, decades, times, &circumstances);
        }
        if opened {
            self.ask_stage(member, out);
        }
        self.judge(member, out);
    }

    fn open_case(&mut self, member: NameHash, probe: &Probe) -> bool {
        if !self.table.is_active(member)
            || self.config.spreading == Spreading::Infection
            || !self.has_room_for_case(member)
            || self.is_silent()
            || self.is_evicted()
            || !self.knows_the_cluster(member)
        {
            return false;
        }
        let awake = self.health.awake(self.now);
        self.cases.insert(member, Case::new(probe.sent_at, awake));
        true
    }

    fn has_room_for_case(&self, accused: NameHash) -> bool {
        if self.metadata.leases.is_empty() {
            return self.cases.len() < CASES_MAX;
        }
        let excused = self.cases.keys().filter(|&&member| self.is_excused(member));
        let excused = excused.count();
        if self.is_excused(accused) {
            excused < EXCUSED_CASES_MAX
        } else {
            self.cases.len() - excused < CASES_MAX
        }
    }

    /// Whether enough members beside the accused have answered this node for its word to mean
    /// anything: a newcomer whose packets nobody answers must not accuse the cluster.
    fn knows_the_cluster(&self, accused: NameHash) -> bool {
        let others = self.table.active().len() - usize::from(self.table.is_active(accused));
        let needed = others.min(2);
        let answered = self.contacts.iter().filter(|&(&member, contact)| {
            member != accused && contact.answered_at.is_some() && self.table.is_active(member)
        });
        answered.take(needed).count() == needed
    }

    /// What this node knows of its own standing in judging `member`.
    pub(super) fn circumstances(&self, member: NameHash) -> Circumstances {
        let cluster = self.table.size();
        let recent = self.config.pause_tolerance / 2 + self.config.probe_period;
        let reachable = self.contacts.iter().filter(|&(&other, contact)| {
            let answered = contact.answered_at;
            other != member
                && answered.is_some_and(|at| self.now.since(at) <= recent)
                && !self.cases.contains_key(&other)
                && self.table.is_active(other)
        });
        Circumstances {
            cluster,
            reachable: reachable.take(REACHABLE_ENOUGH).count(),
            phi_suspect: self.config.phi_suspect,
            phi_late: self.config.phi_late,
            phi_dead: self
                .config
                .phi_dead
                .max(libm::log10(cluster as f64 * SECONDS_PER_YEAR)),
        }
    }

    /// A relay says that `member` does not answer it.
    pub(super) fn on_witness(
        &mut self,
        witness: NameHash,
        member: NameHash,
        miss_rate: f64,
        out: &mut Outbox,
    ) {
        self.note_witness(witness, member, miss_rate);
        let circumstances = self.circumstances(member);
        if let Some(case) = self.cases.get_mut(&member) {
            let decades = loss::decades(miss_rate.max(case.unheard_share()));
            case.witnessed(witness, decades, self.now, &circumstances);
            case.note_witness_misses(miss_rate);
            self.judge(member, out);
        }
    }

    /// Somebody answered this node: its misses of others than `except` count from now on.
    pub(super) fn vouch_for_misses(&mut self, except: NameHash, out: &mut Outbox) {
        let members: Vec<NameHash> = self
            .cases
            .keys()
            .copied()
            .filter(|&member| member != except)
            .collect();
        for member in members {
            let circumstances = self.circumstances(member);
            if let Some(case) = self.cases.get_mut(&member) {
                case.vouched(self.local.hash, self.now, &circumstances);
            }
            self.judge(member, out);
        }
    }

    /// Draws the conclusion that the evidence allows.
    fn judge(&mut self, member: NameHash, out: &mut Outbox) {
        self.sample_phi(member);
        let circumstances = self.circumstances(member);
        let Some(case) = self.cases.get(&member) else {
            return;
        };
        match case.verdict(&circumstances) {
            Verdict::Undecided => {}
            Verdict::Suspect => self.suspect(member, out),
            // A maintenance of which this node heard only now.
            Verdict::Dead if self.is_excused(member) => {}
            Verdict::Dead => self.declare_dead(member, out),
        }
    }

    fn suspect(&mut self, member: NameHash, out: &mut Outbox) {
        let evidence = self.evidence("own", member);
        let (awake, accused) = (self.health.awake(self.now), self.is_suspect(member));
        if let Some(case) = self.cases.get_mut(&member) {
            case.suspect(self.now, awake);
            case.seconds_others = accused;
        }
        self.stats.suspicions.add(SuspicionOutcome::Raised, 1);
        self.assert_status(member, Status::Suspect, evidence, out);
        if !accused {
            self.begin_trial(member);
            self.look_after_wards(member, out);
        }
        self.send_accusation(member, out);
        self.timers.set(
            Timer::Case(member),
            self.now,
            self.round().min(self.config.pause_tolerance),
        );
    }

    fn declare_dead(&mut self, member: NameHash, out: &mut Outbox) {
        let evidence = self.evidence("own", member);
        self.assert_status(member, Status::Dead, evidence, out);
        self.send_accusation(member, out);
    }

    /// How long ago `member` last gave proof of life: an answer to this node, or a heartbeat from
    /// before the case against it. What it sends by itself later proves nothing: it may be deaf.
    pub(super) fn silence_of(&self, member: NameHash) -> Duration {
        self.table.get(member).map_or(Duration::ZERO, |entry| {
            let answered_at = self.answered_at(member).unwrap_or_default();
            let sign = entry.counted_at.max(answered_at);
            let case = self.cases.get(&member);
            self.now
                .since(case.map_or(sign, |case| sign.min(case.began)))
        })
    }

    /// The member has answered: the case is closed. Its status changes only by its refutation,
    /// which its answer brings.
    pub(super) fn acquit(&mut self, member: NameHash, out: &mut Outbox) {
        self.note_acquittal(member);
        if let Some(case) = self.cases.get(&member) {
            let (nacks, misses) = (case.nacks(), case.witness_misses());
            self.drop_case(member, SuspicionOutcome::Refuted);
            self.try_odd(member, nacks, misses);
        }
        let Some(entry) = self.table.get(member) else {
            return;
        };
        if entry.isolated_verdict {
            self.end_isolation(out);
        } else if entry.record.standing.status == Status::Suspect {
            // Its refutation may have been lost: ask for it until it comes.
            self.timers.set(
                Timer::ForeignSuspicion(member),
                self.now,
                self.config.probe_period,
            );
        }
    }

    /// Closes the case against `member`, if there is one.
    pub(super) fn drop_case(&mut self, member: NameHash, outcome: SuspicionOutcome) {
        self.timers.cancel(Timer::Case(member));
        if self
            .cases
            .remove(&member)
            .is_some_and(|case| case.phase != Phase::Open)
        {
            self.stats.suspicions.add(outcome, 1);
        }
    }

    /// A suspicion of others has stood for longer than a verdict takes: ask the member.
    pub(super) fn on_foreign_suspicion(&mut self, member: NameHash, out: &mut Outbox) {
        if self.is_suspect(member) && !self.is_silent() && !self.cases.contains_key(&member) {
            self.ping(member, Purpose::Scheduled, out);
            self.timers.set(
                Timer::ForeignSuspicion(member),
                self.now,
                self.config.probe_period,
            );
        }
    }
}
