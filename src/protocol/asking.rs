//! The pace of a case: whom it asks, and when.

use std::time::Duration;

use rand::seq::IndexedRandom;

use super::case::{Case, FEW, Phase, SMALL_CLUSTER};
use super::health::Punctuality;
use super::loss;
use super::probe::Purpose;
use super::relays::{self, Candidate};
use super::slots;
use super::{Node, Outbox, Timer};
use crate::member::NameHash;
use crate::time::Instant;

/// Relays asked by the stages of an open case, in units of a sixth of `relays`: more at each, until
/// loss explains the silence no longer. Where little is lost, hardly any of those first missed are
/// in trouble, and the first stage asks one.
const STAGES: [usize; 5] = [6, 12, 24, 48, 48];
const STAGES_OF_CALM: [usize; 5] = [2, 6, 18, 48, 48];
/// Up to this share of misses, of which a loss of 13 % makes as much, a network is calm.
const CALM: f64 = 0.25;
/// The same unit for each stage after these, one per period.
const LATER_STAGE: usize = 24;
const STAGE_UNIT: usize = 6;
/// In small clusters few relays exist, and each is asked again sooner and more often.
const SMALL_CLUSTER_GAP: Duration = Duration::from_millis(110);
const SMALL_CLUSTER_STAGES: usize = 40;
/// Pace of the rounds while a suspicion waits for the pause tolerance; where hardly anybody can be
/// asked, they are asked more often.
const ROUND: Duration = Duration::from_millis(500);
const ROUND_OF_FEW: Duration = Duration::from_millis(250);
/// Pace of the pings while an announced maintenance runs, which may be long.
const EXCUSED_ROUND: Duration = Duration::from_secs(10);
/// Relays asked per such round.
const ROUND_RELAYS: usize = 2;
/// At this stage, and then so many rounds apart, the accused is asked over a stream as well: where
/// only its datagrams are blocked, it answers there.
const STREAM_STAGE: usize = 2;
const STREAM_ROUNDS: u32 = 4;
/// Rounds of the late window in quick succession, and most relays in one.
const QUICK_FINAL_ROUNDS: u32 = 3;
const FINAL_RELAYS_MAX: usize = 32;
/// Members looked at for one that is to be asked, and at least so many.
const CANDIDATES_PER_RELAY: usize = 3;
const CANDIDATES_MIN: usize = 32;
/// Clusters up to this size hear of every heartbeat soon; and the most that their absence says.
const HEARTBEAT_CLUSTER_MAX: usize = 20;
const HEARTBEAT_DECADES_MAX: f64 = 2.0;
/// Relays that a zone must have for its word about a member of it to suffice.
const BESIDE_MIN: usize = 3;
/// Added to the pause tolerance, so that a pause of just that length passes.
const FINAL_MARGIN: Duration = Duration::from_millis(5);
/// The tag by which members say where they stand.
const ZONE_TAG: &str = "zone";

impl Node {
    /// The next stage of an open case: more relays, and one more direct ping.
    pub(super) fn ask_stage(&mut self, member: NameHash, out: &mut Outbox) {
        let calm = self.misses.share() < CALM;
        let Some(case) = self.cases.get_mut(&member) else {
            return;
        };
        let plan = if calm { STAGES_OF_CALM } else { STAGES };
        let units = plan.get(case.stages).copied().unwrap_or(LATER_STAGE);
        case.stages += 1;
        let stages = case.stages;
        let relays = (self.config.relays * units / STAGE_UNIT).max(1);
        self.ask_relays(member, relays, out);
        self.ping(member, Purpose::Case, out);
        let blocked = self.sight.paths.is_blocked(member);
        if stages == if blocked { 1 } else { STREAM_STAGE } {
            self.ping_by_stream(member, out);
        }
        let small = self.table.size() <= SMALL_CLUSTER;
        let gap = if stages <= plan.len() && (!small || self.has_fresh_relays(member)) {
            self.config.relay_timeout
        } else if stages <= SMALL_CLUSTER_STAGES && small {
            SMALL_CLUSTER_GAP
        } else {
            self.config.probe_period
        };
        self.timers.set(Timer::Case(member), self.now, gap);
    }

    /// Asks `wanted` relays, the likeliest to know first.
    pub(super) fn ask_relays(&mut self, member: NameHash, wanted: usize, out: &mut Outbox) {
        for relay in self.choose_relays(member, wanted) {
            if let Some(case) = self.cases.get_mut(&member) {
                case.note_asked(relay);
            }
            self.ping_through(relay, member, out);
        }
    }

    /// Asks `wanted` relays that stand beside `member`, in its own zone, or any where that has too
    /// few: loss on the way to another place is not the member's.
    pub(super) fn ask_relays_beside(&mut self, member: NameHash, wanted: usize, out: &mut Outbox) {
        let mut beside: Vec<NameHash> = Vec::new();
        if let Some(zone) = self.zone_of(member) {
            let usable = |&other: &NameHash| self.can_relay(other, member);
            let active = self.table.active().iter().copied().filter(usable);
            beside = active
                .filter(|&other| self.zone_of(other) == Some(zone))
                .collect();
        }
        if beside.len() < BESIDE_MIN {
            self.ask_relays(member, wanted, out);
            return;
        }
        let chosen = beside.sample(&mut self.rngs.relays, wanted);
        for relay in chosen.copied().collect::<Vec<_>>() {
            self.ping_through(relay, member, out);
        }
    }

    /// Whether `other` is not in question itself.
    fn can_relay(&self, other: NameHash, member: NameHash) -> bool {
        other != member && !self.cases.contains_key(&other) && !self.is_suspect(other)
    }

    /// Members that are not in question themselves, drawn at random, with the observers of `member`
    /// among them.
    fn choose_relays(&mut self, member: NameHash, wanted: usize) -> Vec<NameHash> {
        let active = self.table.active();
        let observers = slots::observers(member, active);
        let looked_at = (CANDIDATES_PER_RELAY * wanted).max(CANDIDATES_MIN);
        let drawn = active.sample(&mut self.rngs.relays, looked_at);
        let drawn: Vec<NameHash> = drawn.copied().collect();
        let others = drawn.iter().filter(|other| !observers.contains(other));
        let (case, all) = (self.cases.get(&member), observers.iter().chain(others));
        let usable = all.filter(|&&other| self.can_relay(other, member));
        let candidate = |&other: &NameHash| Candidate {
            member: other,
            asked: case.is_some_and(|case| case.has_asked(other)),
            observer: observers.contains(&other),
            zone: self.zone_of(other),
        };
        relays::choose(usable.map(candidate).collect(), wanted)
    }

    /// Whether some members were not asked about `member` yet.
    fn has_fresh_relays(&self, member: NameHash) -> bool {
        let asked = self.cases.get(&member).map_or(0, Case::asked);
        asked + 1 < self.table.active().len()
    }

    fn zone_of(&self, member: NameHash) -> Option<&str> {
        let metadata = self.table.get(member)?.record.current_metadata()?;
        metadata.tags.get(ZONE_TAG).map(String::as_str)
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
            Phase::Suspect { since }
                if self.health.awake(self.now) < self.final_at(member, since) =>
            {
                self.wait_round(member, since, out);
            }
            Phase::Suspect { .. } | Phase::Final { .. } if self.is_excused(member) => {
                self.wait_for_lease(member, out);
            }
            Phase::Suspect { .. } | Phase::Final { .. } => self.final_round(member, out),
        }
        self.judge_isolated(member, out);
    }

    /// Decades of evidence in the silence of a member's heartbeats, as far as it exceeds that of
    /// others. Only where all heartbeats fit into few messages they come often enough to say
    /// something in time; and in a cluster of two they come the same way as the answers.
    fn missed_heartbeats(&self, member: NameHash) -> f64 {
        let active = self.table.active();
        if !(3..=HEARTBEAT_CLUSTER_MAX).contains(&self.table.size()) {
            return 0.0;
        }
        let others = active.iter().filter(|&&other| other != member);
        let mut usual: Vec<f64> = others.map(|&other| self.heartbeat_phi(other)).collect();
        usual.sort_unstable_by(f64::total_cmp);
        let median = usual.get(usual.len() / 2).copied().unwrap_or_default();
        (self.heartbeat_phi(member) - median).clamp(0.0, HEARTBEAT_DECADES_MAX)
    }

    /// Time from one round to the next.
    pub(super) fn round(&self) -> Duration {
        if self.table.size() <= FEW {
            ROUND_OF_FEW
        } else {
            ROUND
        }
    }

    fn final_at(&self, member: NameHash, since: Instant) -> Instant {
        since + self.tolerance(member) + FINAL_MARGIN
    }

    /// How long `member` may be silent.
    pub(super) fn tolerance(&self, member: NameHash) -> Duration {
        let most = self.config.pause_tolerance_factor_max;
        let factor = self
            .evictions
            .patience
            .factor(member, self.now, self.table.size());
        self.config.pause_tolerance.saturating_mul(factor.min(most))
    }

    /// While the pause tolerance runs: one ping, and two relays, unless others have accused the
    /// member before and ask for themselves.
    fn wait_round(&mut self, member: NameHash, since: Instant, out: &mut Outbox) {
        let Some(case) = self.cases.get_mut(&member) else {
            return;
        };
        case.rounds += 1;
        let (rounds, seconded) = (case.rounds, case.seconds_others);
        self.ping(member, Purpose::Case, out);
        if !seconded {
            self.ask_relays(member, ROUND_RELAYS, out);
        }
        if rounds.is_multiple_of(STREAM_ROUNDS) {
            self.ping_by_stream(member, out);
        }
        let left = self
            .final_at(member, since)
            .since(self.health.awake(self.now));
        self.timers
            .set(Timer::Case(member), self.now, left.min(self.round()));
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
        let heartbeats = self.missed_heartbeats(member);
        let Some(case) = self.cases.get_mut(&member) else {
            return;
        };
        let first = matches!(case.phase, Phase::Suspect { .. });
        case.begin_final_round();
        if first {
            case.missed_heartbeats(heartbeats);
        }
        let share = self.misses.share().max(case.unheard_share());
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
            self.round()
        };
        self.timers.set(Timer::Case(member), self.now, gap);
    }
}
