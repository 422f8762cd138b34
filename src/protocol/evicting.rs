//! Members that lose too much: the trial of others, and the quarantine of this node itself.

use std::collections::BTreeMap;

use rand::seq::IndexedRandom;

use super::dissemination::Form;
use super::health::Punctuality;
use super::patience::Patience;
use super::probe::Purpose;
use super::quarantine::{Quarantine, Step};
use super::trial::{self, Finding, RELAY_MISSES_MAX, Trial};
use super::{Evidence, Life, Node, Outbox, Timer};
use crate::member::{NameHash, Standing, Status};
use crate::time::Instant;
use crate::wire::{Nack, ProbeSeq};

/// Trials at a time; a further one begins when its reason comes again.
const TRIALS_MAX: usize = 4;
/// The rule by which a lossy member is declared dead.
pub(super) const RULE: &str = super::ledger::DEGRADED;

/// What a node keeps about members that lost or stood still more than others, itself among them.
#[derive(Debug, Default)]
pub(super) struct Evictions {
    trials: BTreeMap<NameHash, Trial>,
    /// Who has survived being declared dead.
    pub patience: Patience,
    /// This node itself was evicted.
    pub quarantine: Option<Quarantine>,
}

impl Node {
    /// A case against `member` was closed by an answer, after so many relays had got none, whose
    /// own questions go unanswered with probability `misses`.
    pub(super) fn try_odd(&mut self, member: NameHash, nacks: usize, misses: f64) {
        if trial::is_odd(nacks + 1, 1, misses) {
            self.begin_trial(member);
        }
    }

    /// Looks whether `member` loses too much.
    pub(super) fn begin_trial(&mut self, member: NameHash) {
        let trials = &self.evictions.trials;
        let full = trials.len() >= TRIALS_MAX || trials.contains_key(&member);
        let (Some(target), false) = (self.target(member), full) else {
            return;
        };
        // Where much is lost no relay counts.
        if self.misses.share() >= RELAY_MISSES_MAX || !self.table.is_active(member) {
            return;
        }
        self.evictions
            .trials
            .insert(member, Trial::new(target, self.now));
        self.timers
            .set(Timer::Trial(member), self.now, trial::ROUND);
    }

    /// The member has gone, or lives anew.
    pub(super) fn drop_trial(&mut self, member: NameHash) {
        if self.evictions.trials.remove(&member).is_some() {
            self.timers.cancel(Timer::Trial(member));
        }
    }

    /// A relay got no answer from `member`.
    pub(super) fn note_trial_failure(&mut self, member: NameHash, nack: &Nack) {
        if let Some(trial) = self.evictions.trials.get_mut(&member)
            && nack.miss_rate.share() < RELAY_MISSES_MAX
        {
            trial.failed(nack.seq, nack.sender.member, self.now);
        }
    }

    /// A relay got an answer from `member`; late when it had said before that there was none.
    pub(super) fn note_trial_answer(&mut self, member: NameHash, seq: ProbeSeq, late: bool) {
        if let Some(trial) = self.evictions.trials.get_mut(&member) {
            if late {
                trial.answered_late(seq);
            } else {
                trial.answered(seq, self.now);
            }
        }
    }

    /// The next round of a trial.
    pub(super) fn on_trial_step(
        &mut self,
        member: NameHash,
        punctuality: Punctuality,
        out: &mut Outbox,
    ) {
        let (now, misses) = (self.now, self.misses.share());
        let Some(trial) = self.evictions.trials.get_mut(&member) else {
            return;
        };
        if punctuality == Punctuality::Late {
            trial.excuse();
        }
        let relays = trial.relays(now, self.cases.contains_key(&member));
        match trial.judge(now, misses) {
            Finding::Open => {
                self.ask_relays_beside(member, relays, out);
                self.timers.set(Timer::Trial(member), now, trial::ROUND);
            }
            Finding::Cleared => self.drop_trial(member),
            // Somebody announced that it may be absent, and is not judged meanwhile.
            Finding::Lossy if self.is_excused(member) => self.drop_trial(member),
            Finding::Lossy => self.evict(member, out),
        }
    }

    fn evict(&mut self, member: NameHash, out: &mut Outbox) {
        let misses = self.misses.share();
        let (Some(entry), Some(trial)) =
            (self.table.get(member), self.evictions.trials.get(&member))
        else {
            return;
        };
        let held = entry.record.standing;
        if (member, held.generation) != (trial.target.member, trial.target.generation) {
            self.drop_trial(member);
            return;
        }
        let evidence = Evidence {
            phi: trial.evidence(misses).2,
            witnesses: trial.witnesses(),
            ..Evidence::new(RULE, self.silence_of(member))
        };
        let standing = Standing {
            strikes: held.strikes.saturating_add(1),
            status: Status::Dead,
            ..held
        };
        self.stats.evictions += 1;
        self.assert_standing(member, standing, evidence, out);
        self.send_accusation(member, out);
    }

    /// Others have evicted this node for losing packets: it agrees for now.
    pub(super) fn enter_quarantine(&mut self, claim: Standing, out: &mut Outbox) {
        self.evictions.quarantine = Some(Quarantine::new(claim.strikes, self.now));
        self.cases.clear();
        self.claim_standing(claim, out);
    }

    /// Once per period: whether the quarantine is over, and then whether this node is well again.
    pub(super) fn serve_quarantine(&mut self, out: &mut Outbox) {
        let Some(quarantine) = &mut self.evictions.quarantine else {
            return;
        };
        match quarantine.step(self.now) {
            Step::Wait => {}
            Step::Ask(questions) => {
                let active = self.table.active();
                let asked = active.sample(&mut self.rngs.relays, questions);
                for member in asked.copied().collect::<Vec<_>>() {
                    self.ping(member, Purpose::Try, out);
                }
            }
            Step::Return => self.leave_quarantine(out),
        }
    }

    /// A member has answered a question of the try.
    pub(super) fn note_try_answered(&mut self) {
        if let Some(quarantine) = &mut self.evictions.quarantine {
            quarantine.answered();
        }
    }

    fn leave_quarantine(&mut self, out: &mut Outbox) {
        self.evictions.quarantine = None;
        let own = self.own_standing();
        let back = Standing {
            incarnation: own.incarnation.past(),
            status: Status::Alive,
            ..own
        };
        self.stats.refutations += 1;
        self.claim_standing(back, out);
    }

    /// Says of itself that its standing is this, and tells readers.
    fn claim_standing(&mut self, standing: Standing, out: &mut Outbox) {
        if let Some(change) = self.set_own_standing(standing, Form::Status) {
            let silence = self.now.since(self.contact_at);
            let evidence = Evidence::new(RULE, silence);
            self.emit_change(self.local.hash, &change, Some(evidence), out);
        }
    }

    /// When the quarantine of this node ends; `None` without one.
    pub(super) fn quarantine_ends(&self) -> Option<Instant> {
        let quarantine = self.evictions.quarantine.as_ref()?;
        Some(quarantine.ends())
    }

    /// Whether this node was evicted and has not come back.
    pub(super) fn is_evicted(&self) -> bool {
        self.life == Life::Ready && self.evictions.quarantine.is_some()
    }
}
