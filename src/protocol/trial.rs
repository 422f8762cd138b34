//! Whether a member loses so many packets that it is better evicted: a binomial test.
//!
//! A case asks whether a member is silent. One that loses four packets of five answers now and
//! then, which closes every case against it. Whoever suspects it, or closes a case after more
//! silence than the network explains, therefore tries it: relays ask it again and again, and their
//! results are counted. Failures count only from times in which it did answer, so that somebody who
//! stood still is not taken for lossy.

use std::collections::VecDeque;
use std::time::Duration;

use crate::member::NameHash;
use crate::time::Instant;
use crate::wire::{ProbeSeq, Target};

/// Time from one round of questions to the next.
pub const ROUND: Duration = Duration::from_millis(200);
/// Relays asked in a round while the member answers, and while it is silent.
const RELAYS: usize = 32;
const RELAYS_OF_SILENT: usize = 2;
/// A result waits so long before it counts, a failure in case that an answer comes late. It counts
/// if the member answered somebody in time within so long before, and within so long after.
const MATURITY: Duration = Duration::from_millis(1500);
/// A trial that proves nothing ends.
const LENGTH_MAX: Duration = Duration::from_secs(30);
/// Relays whose own share of misses is not below this one say nothing about the member.
pub const RELAY_MISSES_MAX: f64 = 0.3;
/// The share of answers below which a member is lossy: so much where nothing else is lost, and so
/// much of what this node itself gets.
const LOSSY_SHARE: f64 = 0.42;
const LOSSY_OF_USUAL: f64 = 0.6;
/// Decades by which a share of answers above it must be ruled out.
const DECADES: f64 = 9.0;
/// Distinct relays that must have failed to get an answer.
const WITNESSES: usize = 3;
/// Results before a trial may end for the better.
const RESULTS_MIN: usize = 8;
/// A closed case begins a trial when so few answers would be rarer than this in a healthy member.
const CLOSED_CASE_DECADES: f64 = 2.5;
/// Results that wait; a trial asks fewer in that time.
const PENDING_MAX: usize = 512;

/// What a trial amounts to so far.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Finding {
    /// Nothing yet.
    Open,
    /// The member answers well enough, or nothing can be proved.
    Cleared,
    /// It loses too much.
    Lossy,
}

/// The trial of one member, in one life of it.
#[derive(Debug)]
pub struct Trial {
    /// Whom, and which life.
    pub target: Target,
    began: Instant,
    answers: usize,
    failures: usize,
    witnesses: Vec<NameHash>,
    /// Results that wait, oldest first.
    pending: VecDeque<Outcome>,
    /// When the member answered in time, as far back as it matters, oldest first.
    answered: VecDeque<Instant>,
}

/// What one relay got.
#[derive(Clone, Copy, Debug)]
struct Outcome {
    seq: ProbeSeq,
    at: Instant,
    /// Who got no answer; `None` for an answer.
    failed: Option<NameHash>,
}

impl Trial {
    /// A trial that begins now.
    #[must_use]
    pub fn new(target: Target, now: Instant) -> Self {
        Trial {
            target,
            began: now,
            answers: 0,
            failures: 0,
            witnesses: Vec::new(),
            pending: VecDeque::new(),
            answered: VecDeque::new(),
        }
    }

    /// Relays to ask in this round. While the member is silent a case, if `open`, asks enough.
    #[must_use]
    pub fn relays(&self, now: Instant, open: bool) -> usize {
        let answering = self.answered.back();
        match answering {
            Some(&at) if now.since(at) <= MATURITY => RELAYS,
            _ if open => 0,
            _ => RELAYS_OF_SILENT,
        }
    }

    /// The member answered a relay in time.
    pub fn answered(&mut self, seq: ProbeSeq, now: Instant) {
        if self.answered.len() == PENDING_MAX {
            self.answered.pop_front();
        }
        self.answered.push_back(now);
        self.wait(seq, None, now);
    }

    /// The member answered late, after the relay had said that it did not: slow is not lossy.
    pub fn answered_late(&mut self, seq: ProbeSeq) {
        let result = self.pending.iter_mut().find(|result| result.seq == seq);
        if let Some(result) = result {
            result.failed = None;
        }
    }

    /// A relay got no answer from the member.
    pub fn failed(&mut self, seq: ProbeSeq, relay: NameHash, now: Instant) {
        self.wait(seq, Some(relay), now);
    }

    fn wait(&mut self, seq: ProbeSeq, failed: Option<NameHash>, at: Instant) {
        if self.pending.len() < PENDING_MAX {
            self.pending.push_back(Outcome { seq, at, failed });
        }
    }

    /// This node stood still itself: what waits says nothing.
    pub fn excuse(&mut self) {
        self.pending.clear();
    }

    /// Counts what has waited long enough, and says what it all amounts to when this node's own
    /// questions go unanswered with probability `misses`.
    pub fn judge(&mut self, now: Instant, misses: f64) -> Finding {
        self.settle(now);
        let usual = 1.0 - misses;
        let lossy = LOSSY_SHARE.min(LOSSY_OF_USUAL * usual);
        if self.witnesses.len() >= WITNESSES
            && rarity(self.answers + self.failures, self.answers, lossy) >= DECADES
        {
            return Finding::Lossy;
        }
        let results = self.answers + self.failures + self.pending.len();
        let waiting = self.pending.iter().filter(|it| it.failed.is_none());
        let share = (self.answers + waiting.count()) as f64 / results.max(1) as f64;
        let well = results >= RESULTS_MIN && share > 0.45 * (lossy + usual);
        if well || now.since(self.began) >= LENGTH_MAX {
            return Finding::Cleared;
        }
        Finding::Open
    }

    fn settle(&mut self, now: Instant) {
        while let Some(&Outcome { at, failed, .. }) = self.pending.front() {
            if now.since(at) < MATURITY {
                break;
            }
            self.pending.pop_front();
            let Some(relay) = failed else {
                self.answers += 1;
                continue;
            };
            let near = |&&answer: &&Instant| answer.since(at).max(at.since(answer)) <= MATURITY;
            let before = self
                .answered
                .iter()
                .filter(near)
                .any(|&answer| answer <= at);
            let after = self
                .answered
                .iter()
                .filter(near)
                .any(|&answer| answer >= at);
            if before && after {
                self.failures += 1;
                if !self.witnesses.contains(&relay) {
                    self.witnesses.push(relay);
                }
            }
        }
        while self
            .answered
            .front()
            .is_some_and(|&at| now.since(at) > 3 * MATURITY)
        {
            self.answered.pop_front();
        }
    }

    /// Answers, failures counted, and decades against its answering as a healthy member does.
    #[must_use]
    pub fn evidence(&self, misses: f64) -> (usize, usize, f64) {
        let lossy = LOSSY_SHARE.min(LOSSY_OF_USUAL * (1.0 - misses));
        let decades = rarity(self.answers + self.failures, self.answers, lossy);
        (self.answers, self.failures, decades)
    }

    /// Distinct relays whose failures counted.
    #[must_use]
    pub fn witnesses(&self) -> usize {
        self.witnesses.len()
    }
}

/// Whether a case that closed after `results` results, with `answers` answers among them, shows a
/// member that answers worse than one whose answers go missing with probability `misses`.
#[must_use]
pub fn is_odd(results: usize, answers: usize, misses: f64) -> bool {
    rarity(results, answers, 1.0 - misses) >= CLOSED_CASE_DECADES
}

/// -log10 of the probability that of `results` at most `answers` are answers, each being one with
/// probability `share`.
fn rarity(results: usize, answers: usize, share: f64) -> f64 {
    let share = share.clamp(1e-6, 1.0 - 1e-6);
    let (n, k) = (results as f64, answers as f64);
    if k >= n * share {
        return 0.0;
    }
    let ln_term = libm::lgamma(n + 1.0) - libm::lgamma(k + 1.0) - libm::lgamma(n - k + 1.0)
        + k * libm::log(share)
        + (n - k) * libm::log1p(-share);
    // Downwards each term is the one above times k / (n - k + 1) * (1 - share) / share < 1.
    let (mut sum, mut term) = (1.0, 1.0);
    for answers in (1..=answers).rev() {
        let answers = answers as f64;
        term *= answers / (n - answers + 1.0) * (1.0 - share) / share;
        sum += term;
    }
    -(ln_term + libm::log(sum)) / std::f64::consts::LN_10
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::member::Generation;

    const MS: Duration = Duration::from_millis(1);

    fn who(n: u64) -> NameHash {
        NameHash::from_wire(n.to_be_bytes())
    }

    fn at(ms: u32) -> Instant {
        Instant::ORIGIN + ms * MS
    }

    fn trial() -> Trial {
        let target = Target {
            member: who(9),
            generation: Generation(1),
        };
        Trial::new(target, at(0))
    }

    /// Every 10 ms one result; every `answers`-th is an answer, until `end`.
    fn run(trial: &mut Trial, answers: u32, end: u32) -> Option<(u32, Finding)> {
        for step in 0..end / 10 {
            let now = 10 * step;
            if step % answers == 0 {
                trial.answered(ProbeSeq(step), at(now));
            } else {
                trial.failed(ProbeSeq(step), who(u64::from(step % 7)), at(now));
            }
            if now % 200 == 190 {
                let finding = trial.judge(at(now), 0.02);
                if finding != Finding::Open {
                    return Some((now, finding));
                }
            }
        }
        None
    }

    /// Exact values by summing the binomial distribution in rational numbers.
    #[test]
    fn rarity_is_the_binomial_tail() {
        for (results, answers, share, expected) in [
            (10, 0, 0.5, 3.010_299_956_639_812),
            (10, 3, 0.5, 0.764_787_288_825_662_5),
            (5, 1, 0.98, 6.103_914_914_576_715),
            (200, 40, 0.42, 10.430_740_932_637_285),
            (10, 9, 0.5, 0.0),
        ] {
            let found = rarity(results, answers, share);
            assert!(
                (found - expected).abs() < 1e-9,
                "{results} {answers}: {found}"
            );
        }
    }

    #[test]
    fn who_answers_one_question_of_five_is_lossy_and_who_answers_four_is_not() {
        let (when, finding) = run(&mut trial(), 5, 30_000).expect("it ends");
        assert_eq!(finding, Finding::Lossy);
        assert!(when < 6000, "{when} ms");
        let mut healthy = trial();
        for step in 0..40 {
            if step % 5 == 4 {
                healthy.failed(ProbeSeq(step), who(1), at(10 * step));
            } else {
                healthy.answered(ProbeSeq(step), at(10 * step));
            }
        }
        assert_eq!(healthy.judge(at(400), 0.02), Finding::Cleared);
    }

    /// Somebody stands still for four seconds: all relays fail, and nothing of it counts.
    #[test]
    fn a_pause_is_not_loss() {
        let mut paused = trial();
        paused.answered(ProbeSeq(0), at(0));
        for step in 1..400 {
            paused.failed(
                ProbeSeq(step),
                who(u64::from(step % 7)),
                at(100 + 10 * step),
            );
            assert_ne!(paused.judge(at(100 + 10 * step), 0.02), Finding::Lossy);
        }
        assert_eq!(paused.relays(at(4100), false), RELAYS_OF_SILENT);
        paused.answered(ProbeSeq(999), at(4200));
        let counted = paused.evidence(0.02).1;
        // Only the edges of the pause lie near answers on both sides, and it has none.
        assert_eq!(counted, 0);
        paused.judge(at(6000), 0.02);
        assert_eq!(paused.evidence(0.02).1, 0);
    }

    #[test]
    fn late_answers_are_answers() {
        let mut slow = trial();
        slow.answered(ProbeSeq(99), at(0));
        for step in 0..20 {
            slow.failed(ProbeSeq(step), who(1), at(10 * step));
            slow.answered_late(ProbeSeq(step));
            slow.answered_late(ProbeSeq(step));
        }
        assert_eq!(slow.judge(at(200), 0.02), Finding::Cleared);
        slow.judge(at(2000), 0.02);
        assert_eq!(slow.evidence(0.02), (21, 0, 0.0));
    }

    #[test]
    fn failures_of_one_relay_alone_evict_nobody() {
        let mut trial = trial();
        for step in 0..2000 {
            if step % 10 == 0 {
                trial.answered(ProbeSeq(step), at(10 * step));
            } else {
                trial.failed(ProbeSeq(step), who(1), at(10 * step));
            }
            assert_ne!(trial.judge(at(10 * step), 0.02), Finding::Lossy);
        }
    }
}
