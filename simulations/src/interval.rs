//! Lifeguard's interval experiment (Dadgar, Phillips and Currey, "Lifeguard: Local Health Awareness
//! for More Accurate Failure Detection", DSN 2018): some members are slow again and again, and one
//! that is not crashes.

use std::collections::BTreeSet;
use std::time::Duration;

use rand::RngExt;
use rumord::time::Instant;
use serde::{Deserialize, Serialize};

use crate::compare::contender::{Change, Contender, Member, Setting, View};
use crate::compare::measure::Protocol;
use crate::forks::{Consumer, fork};

/// How long a cluster runs before the first anomaly.
const WARM_UP: Duration = Duration::from_secs(30);
/// How long it is watched after the last.
const AFTERWARDS: Duration = Duration::from_secs(20);
/// The crash comes in this part of the experiment.
const CRASH_WITHIN: f64 = 0.5;

/// In what way a member is slow.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Anomaly {
    /// It stands still; then it handles what has come, then its timers.
    Pause,
    /// Its timers run, but nothing goes in or out; then all at once: as the authors did it.
    Blocked,
}

impl Anomaly {
    /// All, as written on a command line.
    pub const WORDS: [&'static str; 2] = ["pause", "blocked"];

    /// The word of this anomaly.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        Self::WORDS[self as usize]
    }

    /// The anomaly of a word.
    #[must_use]
    pub fn from_word(word: &str) -> Option<Self> {
        let all = [Anomaly::Pause, Anomaly::Blocked];
        all.into_iter().find(|anomaly| anomaly.as_str() == word)
    }
}

/// One run.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Experiment {
    /// Who detects.
    pub protocol: Protocol,
    /// In what way members are slow.
    pub anomaly: Anomaly,
    /// Members.
    pub nodes: usize,
    /// Those that are slow; fewer than all but two.
    pub slow: usize,
    /// How long each time: D.
    pub length: Duration,
    /// How long they run in between: I.
    pub between: Duration,
    /// How long it goes on.
    pub lasting: Duration,
    /// Whether each begins at a moment of its own, or all together.
    pub apart: bool,
    /// The seed of this run.
    pub seed: u64,
}

/// What one run has shown.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Finding {
    /// Verdicts of death about members that ran, by their deciders' own evidence: FP.
    pub wrong: u64,
    /// Those about members that were never slow: FP-.
    pub wrong_healthy: u64,
    /// How often any member held one for dead that was never slow, also where others had told it.
    pub held_healthy: u64,
    /// Suspicions of members that were never slow, by their deciders' own evidence.
    pub suspected_healthy: u64,
    /// From the crash until somebody declared it dead, in seconds.
    pub declared: Option<f64>,
    /// Members times the seconds of the experiment.
    pub member_seconds: f64,
    /// Datagrams that all sent during it.
    pub datagrams: u64,
    /// Payload bytes of all during it.
    pub bytes: u64,
}

/// Makes one run.
///
/// # Panics
/// Fewer than two members are left that are not slow.
#[must_use]
pub fn interval(what: &Experiment) -> Finding {
    assert!(what.slow + 2 <= what.nodes, "{} are slow", what.slow);
    let setting = Setting::lan(what.nodes, 0.0, what.seed);
    let mut contender = what.protocol.empty(&setting);
    let members = contender.start_full(what.nodes);
    contender.run_for(WARM_UP);
    contender.take_changes();
    let mut rng = fork(what.seed, Consumer::Scenario);
    let victim = members[rng.random_range(what.slow..members.len())];
    let crash_after = what.lasting.mul_f64(CRASH_WITHIN * rng.random::<f64>());
    let mut begins: BTreeSet<(Duration, Member)> = BTreeSet::new();
    for &member in &members[..what.slow] {
        let whole = what.length + what.between;
        let phase = if what.apart { rng.random::<f64>() } else { 0.0 };
        begins.insert((whole.mul_f64(phase), member));
    }
    let (since, sent) = (contender.now(), contender.sent());
    let mut crashed = None;
    while let Some((begin, member)) = begins.pop_first() {
        if crashed.is_none() && begin >= crash_after {
            crashed = Some(crash(contender.as_mut(), victim, since + crash_after));
        }
        if begin >= what.lasting {
            continue;
        }
        run_to(contender.as_mut(), since + begin);
        match what.anomaly {
            Anomaly::Pause => contender.pause(member, what.length),
            Anomaly::Blocked => contender.block_io(member, what.length),
        }
        begins.insert((begin + what.length + what.between, member));
    }
    let crashed = crashed.unwrap_or_else(|| crash(contender.as_mut(), victim, since + crash_after));
    run_to(contender.as_mut(), since + what.lasting);
    let load = contender.sent();
    contender.run_for(AFTERWARDS);
    let changes = contender.take_changes();
    Finding {
        member_seconds: what.nodes as f64 * what.lasting.as_secs_f64(),
        datagrams: load.datagrams - sent.datagrams,
        bytes: load.bytes - sent.bytes,
        ..judge(&changes, what.slow, victim, crashed)
    }
}

fn run_to(contender: &mut dyn Contender, at: Instant) {
    let left = at.since(contender.now());
    if left > Duration::ZERO {
        contender.run_for(left);
    }
}

fn crash(contender: &mut dyn Contender, victim: Member, at: Instant) -> Instant {
    run_to(contender, at);
    contender.crash(victim);
    contender.now()
}

/// Counts what was said; the first `slow` members were slow.
fn judge(changes: &[Change], slow: usize, victim: Member, crashed: Instant) -> Finding {
    let mut found = Finding::default();
    for change in changes {
        let Change { at, subject, .. } = *change;
        let (dead, own) = (change.to == View::Dead, change.why.is_some());
        if subject == victim && at >= crashed {
            if dead && found.declared.is_none() {
                found.declared = Some(at.since(crashed).as_secs_f64());
            }
            continue;
        }
        let healthy = subject.0 >= slow;
        found.wrong += u64::from(dead && own);
        found.wrong_healthy += u64::from(dead && own && healthy);
        found.held_healthy += u64::from(dead && healthy);
        found.suspected_healthy += u64::from(change.to == View::Suspect && own && healthy);
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn verdicts_are_counted_by_whom_they_are_about_and_who_decided() {
        let change = |seconds: u64, subject, to, own: bool| Change {
            at: Instant::from_nanos(seconds * 1_000_000_000),
            observer: Member(9),
            subject: Member(subject),
            to,
            why: own.then(String::new),
        };
        let changes = [
            change(1, 0, View::Dead, true),
            change(1, 0, View::Dead, false),
            change(2, 4, View::Suspect, true),
            change(3, 4, View::Dead, true),
            change(4, 4, View::Dead, false),
            change(5, 7, View::Dead, true),
            change(10, 7, View::Dead, true),
            change(11, 7, View::Dead, false),
        ];
        let crashed = Instant::from_nanos(8_000_000_000);
        let found = judge(&changes, 2, Member(7), crashed);
        assert_eq!(
            (found.wrong, found.wrong_healthy, found.held_healthy),
            (3, 2, 3)
        );
        assert_eq!(found.suspected_healthy, 1);
        assert_eq!(found.declared, Some(2.0));
    }
}
