//! What all measures have in common.

use std::collections::BTreeSet;
use std::time::Duration;

use rand::RngExt;
use rand::rngs::Xoshiro256PlusPlus;
use rumord::protocol::Schedule;
use rumord::time::Instant;

use super::contender::{Change, Contender, Member, Setting, View};
use super::lifeguard::Settings;
use super::{FocaWorld, LifeguardWorld, RumordWorld};
use crate::detect::mistakes::{Ledger, Mistakes};
use crate::forks::{Consumer, fork};

/// How long a cluster runs before anything happens: all have been probed, and were heard.
const WARM_UP: Duration = Duration::from_secs(15);
/// How often it is looked whether something holds, at first.
const LOOK: Duration = Duration::from_millis(1);
/// Later it is looked after this part of the time that has passed: what is measured is exact to a
/// thousandth.
const LOOKS: u32 = 1000;

/// A protocol that is simulated.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Protocol {
    /// Our own core.
    Rumord,
    /// The same with SWIM's shuffled round-robin for a probe schedule.
    RoundRobin,
    /// foca 2.0.
    Foca,
    /// Lifeguard with the settings of memberlist.
    Lifeguard,
    /// SWIM.
    Swim,
}

impl Protocol {
    /// Those whose measures are compared, in the order of the tables.
    pub const ALL: [Protocol; 4] = [
        Protocol::Rumord,
        Protocol::Foca,
        Protocol::Lifeguard,
        Protocol::Swim,
    ];

    /// Those whose detection is measured, by the words for them.
    pub const DETECTORS: [(&'static str, Protocol); 5] = [
        ("slots", Protocol::Rumord),
        ("round-robin", Protocol::RoundRobin),
        ("lifeguard", Protocol::Lifeguard),
        ("swim", Protocol::Swim),
        ("foca", Protocol::Foca),
    ];

    /// Its name.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Protocol::Rumord => "rumord",
            Protocol::RoundRobin => "rumord, round-robin",
            Protocol::Foca => "foca",
            Protocol::Lifeguard => "Lifeguard",
            Protocol::Swim => "SWIM",
        }
    }

    /// The word for it where detection is measured.
    #[must_use]
    pub fn word(self) -> &'static str {
        let found = Self::DETECTORS.iter().find(|(_, it)| *it == self);
        found.map_or("", |(word, _)| word)
    }

    /// An empty world of it.
    #[must_use]
    pub fn empty(self, setting: &Setting) -> Box<dyn Contender> {
        match self {
            Protocol::Rumord => Box::new(RumordWorld::empty(setting)),
            Protocol::RoundRobin => Box::new(RumordWorld::scheduled(setting, Schedule::RoundRobin)),
            Protocol::Foca => Box::new(FocaWorld::empty(setting)),
            Protocol::Lifeguard => Box::new(LifeguardWorld::empty(setting)),
            Protocol::Swim => {
                let settings = Settings::swim(setting.profile);
                Box::new(LifeguardWorld::with(setting, settings))
            }
        }
    }
}

/// Where a measure is taken.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Trial {
    /// Members, 4 or more.
    pub nodes: usize,
    /// Share of datagrams that is lost, 0 to 1.
    pub loss: f64,
    /// The seed.
    pub seed: u64,
}

/// How a figure is written, and how those of several runs are put together.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unit {
    /// Seconds: the median and the longest of the runs.
    Seconds,
    /// A count: the sum of the runs.
    Count,
    /// A rate: the median and the highest of the runs.
    Rate,
    /// A small share: the median and the highest of the runs.
    Share,
}

/// One line of the table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Figure {
    /// What it says.
    pub what: &'static str,
    /// How.
    pub unit: Unit,
}

impl Figure {
    /// A figure in seconds.
    #[must_use]
    pub const fn seconds(what: &'static str) -> Self {
        let unit = Unit::Seconds;
        Figure { what, unit }
    }

    /// A count.
    #[must_use]
    pub const fn count(what: &'static str) -> Self {
        let unit = Unit::Count;
        Figure { what, unit }
    }

    /// A share.
    #[must_use]
    pub const fn share(what: &'static str) -> Self {
        let unit = Unit::Share;
        Figure { what, unit }
    }

    /// A rate.
    #[must_use]
    pub const fn rate(what: &'static str) -> Self {
        let unit = Unit::Rate;
        Figure { what, unit }
    }
}

/// Values of a measure's figures, in their order; `None` for what did not happen in time, and of a
/// formula for what there is none for.
pub type Values = Vec<Option<f64>>;

/// Something that is measured of every protocol in the same way.
#[derive(Clone, Copy)]
pub struct Measure {
    /// Its name.
    pub word: &'static str,
    /// What it tells.
    pub figures: &'static [Figure],
    /// Takes it, once.
    pub take: fn(&mut Stage) -> Values,
    /// What the formulas of SWIM say, for so many members and this share of loss.
    pub formula: fn(usize, f64) -> Values,
}

impl Measure {
    /// Takes it once of `protocol`.
    #[must_use]
    pub fn of(&self, protocol: Protocol, trial: &Trial) -> Values {
        (self.take)(&mut Stage::settled(protocol, trial))
    }
}

/// A settled cluster, and what happens to it.
pub struct Stage {
    /// The protocol in its world.
    pub contender: Box<dyn Contender>,
    /// The members with which it began.
    pub members: Vec<Member>,
    log: Vec<Change>,
    rng: Xoshiro256PlusPlus,
}

impl Stage {
    fn settled(protocol: Protocol, trial: &Trial) -> Self {
        let setting = Setting::lan(trial.nodes, trial.loss, trial.seed);
        let mut contender = protocol.empty(&setting);
        let members = contender.start_full(trial.nodes);
        let mut rng = fork(trial.seed, Consumer::Scenario);
        let moment = Duration::from_micros(rng.random_range(0..1_000_000));
        contender.run_for(WARM_UP + moment);
        Stage {
            contender,
            members,
            log: Vec::new(),
            rng,
        }
    }

    /// All changes of views so far, in the order of time.
    fn log(&mut self) -> &[Change] {
        self.log.append(&mut self.contender.take_changes());
        &self.log
    }

    /// Verdicts of death since `since`.
    fn verdicts(&mut self, since: Instant) -> impl Iterator<Item = &Change> {
        let log = self.log().iter();
        log.filter(move |change| change.to == View::Dead && change.at >= since)
    }

    /// A random member.
    pub fn any(&mut self) -> Member {
        self.members[self.rng.random_range(0..self.members.len())]
    }

    /// So many different members, at random.
    pub fn some(&mut self, count: usize) -> Vec<Member> {
        let mut chosen = BTreeSet::new();
        while chosen.len() < count.min(self.members.len()) {
            chosen.insert(self.any());
        }
        chosen.into_iter().collect()
    }

    /// Waits until `holds`. How long it took, in seconds; `None` if it does not within `limit`.
    pub fn until(
        &mut self,
        limit: Duration,
        mut holds: impl FnMut(&dyn Contender) -> bool,
    ) -> Option<f64> {
        let start = self.contender.now();
        loop {
            let passed = self.contender.now().since(start);
            if holds(self.contender.as_ref()) {
                return Some(passed.as_secs_f64());
            }
            if passed >= limit {
                return None;
            }
            self.contender.run_for(LOOK.max(passed / LOOKS));
        }
    }

    /// From `since` until somebody first held one of `subjects` for dead, in seconds.
    #[must_use]
    pub fn first_verdict(&mut self, since: Instant, subjects: &[Member]) -> Option<f64> {
        let about = |change: &&Change| subjects.contains(&change.subject);
        let first = self.verdicts(since).find(about)?;
        Some(first.at.since(since).as_secs_f64())
    }

    /// Members that somebody held for dead since `since`, those of `except` left out.
    #[must_use]
    pub fn held_dead(&mut self, since: Instant, except: &[Member]) -> f64 {
        let subjects = self.verdicts(since).map(|verdict| verdict.subject);
        let subjects: BTreeSet<Member> = subjects.collect();
        let wrongly = subjects.iter().filter(|subject| !except.contains(subject));
        wrongly.count() as f64
    }

    /// Mistakes since `since`, in which nobody has crashed: suspicions, and deaths.
    #[must_use]
    pub fn mistakes(&mut self, since: Instant) -> [Mistakes; 2] {
        let mut ledger = Ledger::default();
        let log = self.log().iter();
        log.filter(|change| change.at >= since)
            .for_each(|change| ledger.note(change));
        let (suspicions, deaths, _) = ledger.close(self.contender.now());
        [suspicions, deaths]
    }

    /// How often a running member was forced to take a new identity so far.
    #[must_use]
    pub fn forced_rejoins(&self) -> f64 {
        let rejoins = self.contender.rejoins();
        rejoins.iter().map(|(_, times)| *times as f64).sum()
    }
}
