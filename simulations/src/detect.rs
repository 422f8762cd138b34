//! How long a crash takes to be found, and how often somebody is accused wrongly.
//!
//! | module | subject |
//! |---|---|
//! | [`mistakes`] | wrong accusations, how long they last |

pub mod mistakes;

use std::time::Duration;

use rand::RngExt;
use rand::rngs::Xoshiro256PlusPlus;
use rumord::time::Instant;
use serde::{Deserialize, Serialize};

use self::mistakes::Ledger;
pub use self::mistakes::{Mistakes, Wrong};
use crate::compare::contender::{Change, Contender, Member, Profile, Setting, View};
use crate::compare::measure::Protocol;
use crate::forks::{Consumer, fork};
use crate::link::{Bursts, Link, Loss};

/// How long a cluster runs before the first crash.
const WARM_UP: Duration = Duration::from_secs(30);
/// How long a restarted member runs before the next crash, and a random second more.
const SETTLE: Duration = Duration::from_secs(5);
/// How long it may take until all know that it is back.
const RETURN_MAX: Duration = Duration::from_secs(60);
/// How long a cluster is watched after the last crash is known, beyond the pause tolerance.
const REST: Duration = Duration::from_secs(10);
/// A crash that is not known everywhere after so many tolerances was missed.
const MISSED_TOLERANCES: u32 = 24;
/// How often it is looked whether all know.
const LOOK: Duration = Duration::from_millis(1);
/// How often it is looked whether all know that somebody is back.
const LOOK_RETURN: Duration = Duration::from_millis(100);
/// How often accusations are gathered while nobody crashes.
const GATHER: Duration = Duration::from_secs(60);
/// Above so many members invariants are not looked at.
const CHECKED_MAX: usize = 64;

/// What happens in a run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Course {
    /// So many members crash, one after the other; each is back long before the next.
    Crashes(usize),
    /// Nobody crashes for so long.
    Healthy(Duration),
}

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Watchfulness {
    /// Who detects.
    pub protocol: Protocol,
    /// Its parameters, and the latency.
    pub profile: Profile,
    /// Members.
    pub nodes: usize,
    /// Share of datagrams that is lost, 0 to 1.
    pub loss: f64,
    /// Mean length of a burst of loss; independent loss where absent.
    pub burst: Option<Duration>,
    /// What happens.
    pub course: Course,
    /// The seed of this run.
    pub seed: u64,
}

impl Watchfulness {
    fn link(&self) -> Link {
        let loss = match self.burst {
            Some(bad_mean) if self.loss > 0.0 => Loss::Bursty(Bursts {
                share: self.loss,
                bad_mean,
            }),
            _ => Loss::Independent(self.loss),
        };
        Link {
            loss,
            ..self.profile.link()
        }
    }

    fn settled(&self) -> Box<dyn Contender> {
        self.protocol.empty(&Setting {
            nodes: self.nodes,
            profile: self.profile,
            link: self.link(),
            seed: self.seed,
            keeping: true,
            checked: self.nodes <= CHECKED_MAX,
        })
    }
}

/// How one crash was found, in seconds from the crash.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Crash {
    /// Until somebody suspected it.
    pub suspected: Option<f64>,
    /// Until somebody declared it dead: Chen's T_D of the first.
    pub declared: Option<f64>,
    /// Until all had it for dead: T_D of the last.
    pub known: Option<f64>,
}

/// What one run has shown.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Finding {
    /// Every crash.
    pub crashes: Vec<Crash>,
    /// Members that ran and were suspected or declared dead, over the whole run.
    pub suspicions: Mistakes,
    /// Members that ran and were declared dead.
    pub deaths: Mistakes,
    /// Wrong accusations one by one, some of them where there are many.
    pub told: Vec<Wrong>,
    /// Members times the seconds they ran.
    pub member_seconds: f64,
    /// Datagrams that all sent.
    pub datagrams: u64,
    /// Payload bytes that all sent.
    pub bytes: u64,
}

/// One run of a cluster of members that know each other.
#[must_use]
pub fn detect(what: &Watchfulness) -> Finding {
    let mut watch = Watch::begin(what);
    match what.course {
        Course::Healthy(length) => watch.gather_for(length),
        Course::Crashes(count) => watch.crashes(count),
    }
    watch.end()
}

/// A run, and what was seen of it so far.
struct Watch {
    contender: Box<dyn Contender>,
    members: Vec<Member>,
    tolerance: Duration,
    rng: Xoshiro256PlusPlus,
    ledger: Ledger,
    crashes: Vec<Crash>,
    /// Seconds that members were down.
    down: f64,
}

impl Watch {
    fn begin(what: &Watchfulness) -> Self {
        let mut contender = what.settled();
        Watch {
            members: contender.start_full(what.nodes),
            contender,
            tolerance: what.profile.config().pause_tolerance,
            rng: fork(what.seed, Consumer::Scenario),
            ledger: Ledger::default(),
            crashes: Vec::new(),
            down: 0.0,
        }
    }

    /// Hands what was said meanwhile to the ledger; returns it.
    fn gather(&mut self) -> Vec<Change> {
        let changes = self.contender.take_changes();
        for change in &changes {
            self.ledger.note(change);
        }
        changes
    }

    /// Time passes, and nothing that is said in it is kept.
    fn gather_for(&mut self, length: Duration) {
        let end = self.contender.now() + length;
        while self.contender.now() < end {
            let left = end.since(self.contender.now());
            self.contender.run_for(left.min(GATHER));
            self.gather();
        }
    }

    fn moment(&mut self, longest: Duration) -> Duration {
        longest.mul_f64(self.rng.random::<f64>())
    }

    fn crashes(&mut self, count: usize) {
        let moment = self.moment(Duration::from_secs(2));
        self.gather_for(WARM_UP + moment);
        for number in 1..=count {
            let victim = self.members[self.rng.random_range(0..self.members.len())];
            let crash = self.crash(victim);
            self.crashes.push(crash);
            if number < count {
                self.bring_back(victim);
                let rest = SETTLE + self.moment(Duration::from_secs(1));
                self.gather_for(rest);
            }
        }
        let rest = self.tolerance + REST;
        self.gather_for(rest);
        self.down += rest.as_secs_f64();
    }

    /// One member ends, and it is waited until all know.
    fn crash(&mut self, victim: Member) -> Crash {
        self.gather();
        let crashed = self.contender.now();
        self.contender.crash(victim);
        self.ledger.crashed(victim, crashed);
        let known = self.wait_until_known(victim);
        self.down += self.contender.now().since(crashed).as_secs_f64();
        let changes = self.gather();
        let first = |view: View| {
            let about = |change: &&Change| change.subject == victim && change.to >= view;
            let first = changes.iter().find(about)?;
            Some(first.at.since(crashed).as_secs_f64())
        };
        Crash {
            suspected: first(View::Suspect),
            declared: first(View::Dead),
            known,
        }
    }

    fn wait_until_known(&mut self, victim: Member) -> Option<f64> {
        let crashed = self.contender.now();
        // Nobody can be sure earlier; looking costs time.
        self.contender.run_for(self.tolerance.mul_f64(0.8));
        while self.contender.now().since(crashed) < MISSED_TOLERANCES * self.tolerance {
            if self.contender.is_held_dead(victim) {
                return Some(self.contender.now().since(crashed).as_secs_f64());
            }
            self.contender.run_for(LOOK);
        }
        None
    }

    /// The member begins a new life, and it is waited until all know that.
    fn bring_back(&mut self, victim: Member) {
        self.contender.restart(victim);
        let bound = self.contender.now() + RETURN_MAX;
        while self.contender.now() < bound && !self.contender.is_shown_alive(victim) {
            self.contender.run_for(LOOK_RETURN);
        }
        self.gather();
        self.ledger.returned();
    }

    fn end(mut self) -> Finding {
        self.gather();
        let now = self.contender.now();
        let lived = now.since(Instant::ORIGIN).as_secs_f64() * self.members.len() as f64;
        let sent = self.contender.sent();
        let (suspicions, deaths, told) = self.ledger.close(now);
        Finding {
            crashes: self.crashes,
            suspicions,
            deaths,
            told,
            member_seconds: lived - self.down,
            datagrams: sent.datagrams,
            bytes: sent.bytes,
        }
    }
}
