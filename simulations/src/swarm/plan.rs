//! A plan: everything about one run of a swarm, drawn from its seed before it begins.

use std::collections::BTreeSet;
use std::fmt;
use std::time::Duration;

use rand::RngExt;
use rand::rngs::Xoshiro256PlusPlus;
use rand::seq::IndexedRandom;
use rumord::protocol::{Config, Schedule};

use super::draw::draw_faults;
use super::fault::{Fault, Slot, name};
use super::saying::{Saying, draw_sayings};
use super::sending::{Sending, draw_sendings};
use crate::forks::{Consumer, fork};
use crate::link::{Bursts, Latency, Link, Loss};

/// Most nodes of a run.
const NODES_MAX: usize = 24;
/// Most join addresses of a node.
const JOINS_MAX: usize = 4;
/// Within which all nodes are started.
const STARTS_WITHIN_MS: u64 = 4000;
/// So short a memory of the dead that they are forgotten, and long sleeps found, within a run.
const SHORT_RETENTION: Duration = Duration::from_secs(60);
/// How much too fast or too slow a clock may run, in millionths.
const DRIFT_PPM_MAX: i32 = 200;

/// How one node is started.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StartPlan {
    /// When.
    pub at: Duration,
    /// Whose addresses it is given.
    pub join: Vec<Slot>,
    /// How much too fast its clock runs, in millionths.
    pub drift_ppm: i32,
}

/// A fault and its time.
#[derive(Clone, PartialEq, Debug)]
pub struct Planned {
    /// When, since the run began.
    pub at: Duration,
    /// What.
    pub fault: Fault,
}

/// One run.
#[derive(Clone, PartialEq, Debug)]
pub struct Plan {
    /// Everything follows from it.
    pub seed: u64,
    /// The word of the parameters' preset.
    pub profile: &'static str,
    /// The protocol's parameters.
    pub config: Config,
    /// Every link while faults happen.
    pub link: Link,
    /// The nodes.
    pub starts: Vec<StartPlan>,
    /// What goes wrong, in the order of time.
    pub faults: Vec<Planned>,
    /// What nodes say of themselves meanwhile, in the order of time.
    pub sayings: Vec<Saying>,
    /// What clients send meanwhile, in the order of time.
    pub sendings: Vec<Sending>,
    /// When all faults end.
    pub ends: Duration,
    /// The nodes that must agree in the end; the others are down then.
    pub core: BTreeSet<Slot>,
}

impl Plan {
    /// The plan that follows from `seed`.
    #[must_use]
    pub fn draw(seed: u64) -> Self {
        let mut rng = fork(seed, Consumer::Scenario);
        let nodes = rng.random_range(2..=NODES_MAX);
        let (profile, mut config) = draw_config(&mut rng);
        if rng.random_bool(0.3) {
            config.dead_retention = SHORT_RETENTION;
        }
        if rng.random_bool(0.3) {
            config.schedule = Schedule::RoundRobin;
        }
        let link = draw_link(profile, &mut rng);
        let starts = (0..nodes).map(|slot| draw_start(slot, nodes, &mut rng));
        let starts: Vec<_> = starts.collect();
        let begin = if rng.random_bool(0.3) { 0 } else { 30 };
        let begin = Duration::from_secs(begin);
        let faults = draw_faults(nodes, begin, config.pause_tolerance, &mut rng);
        let last = faults.last().map_or(begin, |planned| planned.at);
        let rest = Duration::from_millis(rng.random_range(100..20_000));
        let ends = last.max(Duration::from_millis(STARTS_WITHIN_MS)) + rest;
        Plan {
            seed,
            profile,
            config,
            link,
            starts,
            faults,
            sayings: draw_sayings(seed, nodes, ends),
            sendings: draw_sendings(seed, nodes, ends),
            ends,
            core: draw_core(nodes, &mut rng),
        }
    }

    /// The same with these faults only, by their numbers from 0.
    #[must_use]
    pub fn keeping(&self, kept: &BTreeSet<usize>) -> Self {
        let faults = self.faults.iter().enumerate();
        let faults = faults.filter(|(number, _)| kept.contains(number));
        Plan {
            faults: faults.map(|(_, planned)| planned.clone()).collect(),
            ..self.clone()
        }
    }

    /// Whether bytes are damaged under way: unsealed, damage can say anything, and nothing can be
    /// demanded of what the nodes then believe.
    #[must_use]
    pub fn is_damaging(&self) -> bool {
        self.link.corrupted > 0.0
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let schedule = self.config.schedule.as_str();
        writeln!(
            f,
            "seed {}: {} nodes, {} {schedule}, dead for {:?}, {}",
            self.seed,
            self.starts.len(),
            self.profile,
            self.config.dead_retention,
            LinkText(&self.link)
        )?;
        for (slot, start) in self.starts.iter().enumerate() {
            let join: Vec<_> = start.join.iter().map(|&slot| name(slot)).collect();
            let (name, at, drift) = (name(slot), start.at, start.drift_ppm);
            writeln!(
                f,
                "  {name} starts at {at:?}, joins [{}], drifts {drift} ppm",
                join.join(" ")
            )?;
        }
        for (number, planned) in self.faults.iter().enumerate() {
            writeln!(f, "  #{number} at {:?}: {}", planned.at, planned.fault)?;
        }
        for saying in &self.sayings {
            writeln!(f, "  at {:?}: {saying}", saying.at)?;
        }
        for sending in &self.sendings {
            writeln!(f, "  at {:?}: {sending}", sending.at)?;
        }
        let core: Vec<_> = self.core.iter().map(|&slot| name(slot)).collect();
        write!(f, "  heals at {:?} around {}", self.ends, core.join(" "))
    }
}

struct LinkText<'a>(&'a Link);

impl fmt::Display for LinkText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let link = self.0;
        let percent = |share: f64| (share * 1000.0).round() / 10.0;
        write!(f, "latency {:?}, ", link.latency.median)?;
        match link.loss {
            Loss::Independent(share) => write!(f, "loss {} %", percent(share))?,
            Loss::Bursty(bursts) => write!(
                f,
                "loss {} % in bursts of {:?}",
                percent(bursts.share),
                bursts.bad_mean
            )?,
        }
        write!(
            f,
            ", duplicated {} %, reordered {} % by {:?}, corrupted {} %",
            percent(link.duplicated),
            percent(link.reordered),
            link.reordered_by,
            percent(link.corrupted)
        )
    }
}

fn draw_config(rng: &mut Xoshiro256PlusPlus) -> (&'static str, Config) {
    match rng.random_range(0..4) {
        0 => ("local", Config::local()),
        1 => ("wan", Config::wan()),
        _ => ("lan", Config::lan()),
    }
}

fn draw_link(profile: &str, rng: &mut Xoshiro256PlusPlus) -> Link {
    let latency = if profile == "wan" || rng.random_bool(0.1) {
        Latency::WAN
    } else {
        Latency::LAN
    };
    let loss = match rng.random_range(0..8) {
        0 | 1 => Loss::Independent(rng.random_range(0.01..0.1)),
        2 => Loss::Independent(rng.random_range(0.1..0.25)),
        3 => Loss::Bursty(Bursts {
            share: rng.random_range(0.02..0.1),
            bad_mean: Duration::from_millis(rng.random_range(50..1000)),
        }),
        _ => Loss::Independent(0.0),
    };
    let mut sometimes = |chance: f64, most: f64| {
        let share = rng.random_range(0.0..most);
        if rng.random_bool(chance) { share } else { 0.0 }
    };
    Link {
        latency,
        loss,
        duplicated: sometimes(0.3, 0.2),
        reordered: sometimes(0.3, 0.3),
        corrupted: sometimes(0.08, 0.02),
        reordered_by: Duration::from_millis(rng.random_range(1..300)),
        ..Link::LAN
    }
}

/// Every node but the first is given a node before it, so that all lists together make one
/// cluster; the first is given nobody, or itself and whoever comes.
fn draw_start(slot: Slot, nodes: usize, rng: &mut Xoshiro256PlusPlus) -> StartPlan {
    let mut join = Vec::new();
    if slot > 0 {
        join.push(rng.random_range(0..slot));
    } else if rng.random_bool(0.5) {
        join.push(0);
    }
    if !join.is_empty() {
        for _ in 0..rng.random_range(0..JOINS_MAX) {
            let other = rng.random_range(0..nodes);
            if !join.contains(&other) {
                join.push(other);
            }
        }
    }
    StartPlan {
        at: Duration::from_millis(rng.random_range(0..STARTS_WITHIN_MS)),
        join,
        drift_ppm: rng.random_range(-DRIFT_PPM_MAX..=DRIFT_PPM_MAX),
    }
}

/// Two at least; often all.
fn draw_core(nodes: usize, rng: &mut Xoshiro256PlusPlus) -> BTreeSet<Slot> {
    let all: Vec<Slot> = (0..nodes).collect();
    let size = if rng.random_bool(0.3) {
        nodes
    } else {
        rng.random_range(2..=nodes)
    };
    all.sample(rng, size).copied().collect()
}
