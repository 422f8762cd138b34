//! The course of a case: from the first unanswered ping to a verdict, or to its being dropped.

use std::time::Duration;

use rand::seq::SliceRandom;

use super::case::{Case, Circumstances, Phase, Verdict};
use super::config::Spreading;
use super::health::Punctuality;
use super::loss;
use super::probe::{Probe, Purpose};
use super::stats::SuspicionOutcome;
use super::{EventKind, Evidence, Node, Outbox, Timer};
use crate::member::{NameHash, Status};
use crate::time::Instant;

/// Most cases at a time; a further miss waits for its next probe.
const CASES_MAX: usize = 64;
/// Most cases beside these against members whose maintenance runs: planned absences of many,
/// however long, must not keep others from being looked after.
const EXCUSED_CASES_MAX: usize = 1024;
/// Stages of asking relays before the pace slows to one per period.
const STAGES: usize = 2;
/// In clusters up to this size few relays exist, and each is asked again sooner and more often.
const SMALL_CLUSTER: usize = 9;
const SMALL_CLUSTER_GAP: Duration = Duration::from_millis(110);
const SMALL_CLUSTER_STAGES: usize = 10;
/// Pace of the rounds while a suspicion waits for the pause tolerance.
const ROUND: Duration = Duration::from_millis(500);
/// Pace of the pings while an announced maintenance runs, which may be long.
const EXCUSED_ROUND: Duration = Duration::from_secs(10);
/// Relays asked per such round.
const ROUND_RELAYS: usize = 2;
/// Rounds of the late window in quick succession, and most relays in one.
const QUICK_FINAL_ROUNDS: u32 = 3;
const FINAL_RELAYS_MAX: usize = 32;
/// Added to the pause tolerance, so that a pause of just that length passes.
const FINAL_MARGIN: Duration = Duration::from_millis(20);
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
            // The case it was sent for is closed: by a proof of life, and then it was lost, or by a
            // death, which says nothing about the network.
            if self.table.is_active(member) {
                self.misses.missed();
            }
            return;
        }
        if opened && !self.open_case(member, probe) {
            return;
        }
        let circumstances = self.circumstances(member);
        let share = self.misses.share().max(self.health.miss_floor(self.now));
        let decades = loss::decades(share);
        let (own, times) = (self.local.hash, (self.now, self.contact_at));
        if let Some(case) = self.cases.get_mut(&member) {
            case.missed(own, probe.sent_at, decades, times, &circumstances);
        }
        if opened {
            self.ping_by_stream(member, out);
            self.ask_stage(member, out);
        }
        self.judge(member, out);
    }

    fn open_case(&mut self, member: NameHash, probe: &Probe) -> bool {
        if !self.table.is_active(member)
            || self.config.spreading == Spreading::Infection
            || !self.has_room_for_case(member)
            || self.is_silent()
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
    fn circumstances(&self, member: NameHash) -> Circumstances {
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

    /// The next stage of an open case: more relays, and one more direct ping.
    fn ask_stage(&mut self, member: NameHash, out: &mut Outbox) {
        let Some(case) = self.cases.get_mut(&member) else {
            return;
        };
        let relays = self.config.relays * if case.stages == 0 { 1 } else { 2 };
        case.stages += 1;
        let (small, stages) = (self.table.size() <= SMALL_CLUSTER, case.stages);
        self.ask_relays(member, relays, out);
        self.ping(member, Purpose::Case, out);
        let gap = match (small, stages) {
            (true, ..=SMALL_CLUSTER_STAGES) => SMALL_CLUSTER_GAP,
            (false, ..=STAGES) => self.config.relay_timeout,
            _ => self.config.probe_period,
        };
        self.timers.set(Timer::Case(member), self.now, gap);
    }

    /// Asks `wanted` relays, first those not asked in this case.
    fn ask_relays(&mut self, member: NameHash, wanted: usize, out: &mut Outbox) {
        let Some(case) = self.cases.get(&member) else {
            return;
        };
        let candidate = |other: &&NameHash| **other != member && !self.cases.contains_key(other);
        let mut relays: Vec<NameHash> = self
            .table
            .active()
            .iter()
            .filter(candidate)
            .copied()
            .collect();
        relays.shuffle(&mut self.rngs.relays);
        relays.sort_by_key(|&relay| case.has_asked(relay));
        relays.truncate(wanted);
        for relay in relays {
            if let Some(case) = self.cases.get_mut(&member) {
                case.note_asked(relay);
            }
            self.ping_through(relay, member, out);
        }
    }

    /// The next step of a case is due.
    pub(super) fn on_case_step(
        &mut self,
        member: NameHash,
        punctuality: Punctuality,
        out: &mut Outbox,
    ) {
        let Some(case) = self.cases.get_mut(&member) else {
            return;
        };
        if punctuality == Punctuality::Late {
            case.fall_back();
            self.timers
                .set(Timer::Case(member), self.now, self.config.relay_timeout);
            return;
        }
        let phase = case.phase;
        match phase {
            Phase::Open => self.ask_stage(member, out),
            Phase::Suspect { since } if self.health.awake(self.now) < self.final_at(since) => {
                self.wait_round(member, since, out);
            }
            Phase::Suspect { .. } | Phase::Final { .. } if self.is_excused(member) => {
                self.wait_for_lease(member, out);
            }
            Phase::Suspect { .. } | Phase::Final { .. } => self.final_round(member, out),
        }
        self.judge_isolated(member, out);
    }

    fn final_at(&self, since: Instant) -> Instant {
        since + self.config.pause_tolerance + FINAL_MARGIN
    }

    /// While the pause tolerance runs: one ping, and two relays.
    fn wait_round(&mut self, member: NameHash, since: Instant, out: &mut Outbox) {
        self.ping(member, Purpose::Case, out);
        self.ask_relays(member, ROUND_RELAYS, out);
        let left = self.final_at(since).since(self.health.awake(self.now));
        self.timers
            .set(Timer::Case(member), self.now, left.min(ROUND));
    }

    /// While its announced maintenance runs, nobody is declared dead: one ping now and then. A
    /// return shows by its own pings; afterwards it is silent like any other.
    fn wait_for_lease(&mut self, member: NameHash, out: &mut Outbox) {
        if let Some(case) = self.cases.get_mut(&member) {
            case.fall_back();
        }
        self.ping(member, Purpose::Case, out);
        let left = self.metadata.leases.left(member, self.now);
        self.timers
            .set(Timer::Case(member), self.now, left.min(EXCUSED_ROUND));
    }

    /// After it: as many witnesses as the verdict still needs.
    fn final_round(&mut self, member: NameHash, out: &mut Outbox) {
        let circumstances = self.circumstances(member);
        let share = self.misses.share();
        let Some(case) = self.cases.get_mut(&member) else {
            return;
        };
        case.begin_final_round();
        let decades = loss::decades(share);
        let relays = case.relays_needed(&circumstances, decades, share, FINAL_RELAYS_MAX);
        let quick = matches!(
            case.phase,
            Phase::Final {
                rounds: ..=QUICK_FINAL_ROUNDS,
                ..
            }
        );
        self.ping(member, Purpose::Case, out);
        self.ask_relays(member, relays, out);
        let gap = if quick {
            self.config.relay_timeout
        } else {
            ROUND
        };
        self.timers.set(Timer::Case(member), self.now, gap);
    }

    /// A relay says that `member` does not answer it.
    pub(super) fn on_witness(
        &mut self,
        witness: NameHash,
        member: NameHash,
        miss_rate: f64,
        out: &mut Outbox,
    ) {
        let circumstances = self.circumstances(member);
        if let Some(case) = self.cases.get_mut(&member) {
            case.witnessed(witness, loss::decades(miss_rate), self.now, &circumstances);
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
        let awake = self.health.awake(self.now);
        if let Some(case) = self.cases.get_mut(&member) {
            case.suspect(awake);
        }
        self.stats.suspicions.add(SuspicionOutcome::Raised, 1);
        self.assert_status(member, Status::Suspect, evidence, out);
        self.send_accusation(member, out);
        self.timers.set(
            Timer::Case(member),
            self.now,
            ROUND.min(self.config.pause_tolerance),
        );
    }

    fn declare_dead(&mut self, member: NameHash, out: &mut Outbox) {
        let evidence = self.evidence("own", member);
        self.assert_status(member, Status::Dead, evidence, out);
        self.send_accusation(member, out);
    }

    pub(super) fn evidence(&self, rule: &'static str, member: NameHash) -> Evidence {
        let case = self.cases.get(&member);
        Evidence {
            rule: rule.into(),
            phi: case.map_or(0.0, Case::phi),
            witnesses: case.map_or(0, Case::witnesses),
            silence: self.silence_of(member),
        }
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
        self.drop_case(member, SuspicionOutcome::Refuted);
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

    /// Without contact to anybody a verdict is this node's alone: shown, not told, and lifted by
    /// the first answer.
    fn judge_isolated(&mut self, member: NameHash, out: &mut Outbox) {
        let circumstances = self.circumstances(member);
        let Some(case) = self.cases.get(&member) else {
            return;
        };
        let age = self.health.awake(self.now).since(case.opened);
        let old = age >= 2 * self.config.pause_tolerance;
        if circumstances.reachable > 0 || circumstances.cluster <= 2 || !old {
            return;
        }
        self.table.set_isolated_verdict(member, true);
        if !self.isolated {
            self.isolated = true;
            self.emit_isolation("contact-lost", out);
        }
    }

    /// Somebody has answered again.
    pub(super) fn end_isolation(&mut self, out: &mut Outbox) {
        if !self.isolated {
            return;
        }
        self.isolated = false;
        let members: Vec<NameHash> = self
            .table
            .iter()
            .filter(|(_, entry)| entry.isolated_verdict)
            .map(|(member, _)| member)
            .collect();
        for member in members {
            self.table.set_isolated_verdict(member, false);
            self.hold.note_return(member, self.now);
        }
        self.emit_isolation("contact-regained", out);
    }

    fn emit_isolation(&self, rule: &'static str, out: &mut Outbox) {
        let evidence = Evidence {
            rule: rule.into(),
            phi: 0.0,
            witnesses: 0,
            silence: self.now.since(self.contact_at),
        };
        let event = self.own_event(EventKind::Isolated, None, Some(evidence));
        out.events.push(event);
    }
}
