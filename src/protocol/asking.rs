//! The pace of a case: whom it asks, and when.

use std::time::Duration;

use rand::seq::SliceRandom;

use super::case::Phase;
use super::health::Punctuality;
use super::loss;
use super::probe::Purpose;
use super::{Node, Outbox, Timer};
use crate::member::NameHash;
use crate::time::Instant;

/// Stages of asking relays before the pace slows to one per period.
const STAGES: usize = 2;
/// In clusters up to this size few relays exist, and each is asked again sooner and more often.
const SMALL_CLUSTER: usize = 9;
const SMALL_CLUSTER_GAP: Duration = Duration::from_millis(110);
const SMALL_CLUSTER_STAGES: usize = 10;
/// Pace of the rounds while a suspicion waits for the pause tolerance.
pub(super) const ROUND: Duration = Duration::from_millis(500);
/// Pace of the pings while an announced maintenance runs, which may be long.
const EXCUSED_ROUND: Duration = Duration::from_secs(10);
/// Relays asked per such round.
const ROUND_RELAYS: usize = 2;
/// Rounds of the late window in quick succession, and most relays in one.
const QUICK_FINAL_ROUNDS: u32 = 3;
const FINAL_RELAYS_MAX: usize = 32;
/// Added to the pause tolerance, so that a pause of just that length passes.
const FINAL_MARGIN: Duration = Duration::from_millis(20);

impl Node {
    /// The next stage of an open case: more relays, and one more direct ping.
    pub(super) fn ask_stage(&mut self, member: NameHash, out: &mut Outbox) {
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
}
