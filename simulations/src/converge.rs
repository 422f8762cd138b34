//! How long one change takes until all know it, against the size of the cluster.

use std::time::Duration;

use rand::RngExt;
use rand::rngs::Xoshiro256PlusPlus;
use rumord::protocol::{Config, Schedule, Spreading};
use serde::{Deserialize, Serialize};

use crate::forks::{Consumer, fork};
use crate::link::Link;
use crate::process::ProcessId;
use crate::world::{Checking, Keeping, Options, WatchId, World};

/// How long a cluster runs before the first change: all have been probed.
const WARM_UP: Duration = Duration::from_secs(1);
/// Time between the end of a change and the next one: all its rounds are over.
const GAP: Duration = Duration::from_millis(500);
/// A change that is not known after this has been lost.
pub const KNOWN_LATEST: Duration = Duration::from_secs(60);
/// It is first looked after so long whether all know, and then after ever longer times up to
/// [`LOOK_MAX`]. What is measured is exact.
const LOOK_MIN: Duration = Duration::from_millis(10);
/// See [`LOOK_MIN`].
const LOOK_MAX: Duration = Duration::from_millis(640);

/// What spreads the changes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Spreader {
    /// The product with its defaults.
    Product,
    /// The same core, but only pings and acks in SWIM's order carry news, and each carries all.
    Infection,
}

impl Spreader {
    fn config(self) -> Config {
        match self {
            Spreader::Product => Config::lan(),
            Spreader::Infection => Config {
                schedule: Schedule::RoundRobin,
                spreading: Spreading::Infection,
                ..Config::lan()
            },
        }
    }
}

/// One run: a cluster of its own, and changes in it.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Trial {
    /// Members.
    pub nodes: usize,
    /// Share of datagrams that is lost, 0 to 1.
    pub loss: f64,
    /// How many changes it measures.
    pub changes: usize,
    /// How many of them start at a time; at most half of the members have one.
    pub together: usize,
    /// What spreads them.
    pub spreader: Spreader,
    /// The seed of this run.
    pub seed: u64,
}

/// What one trial has shown.
#[derive(Clone, Default, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Times {
    /// Until all knew, in milliseconds, for each change.
    pub milliseconds: Vec<f64>,
    /// Changes that somebody had not heard of in time.
    pub lost: usize,
    /// Datagrams that all members sent in the time of all changes, their pings included.
    pub datagrams: u64,
}

/// Runs one trial: members that know each other from the start, and changes, each a refutation by
/// a random member.
#[must_use]
pub fn converge(trial: &Trial) -> Times {
    let seed = trial.seed ^ (trial.nodes as u64).rotate_left(32) ^ trial.loss.to_bits();
    let mut world = World::new(Options {
        config: trial.spreader.config(),
        link: Link::LAN.losing(trial.loss),
        keeping: Keeping::Nothing,
        checking: Checking::Nothing,
        ..Options::seeded(seed)
    });
    let nodes = world.start_full(trial.nodes);
    world.run_for(WARM_UP);
    let mut rng = fork(seed, Consumer::Scenario);
    let before = world.tally().sent;
    let mut times = Times::default();
    let mut left = trial.changes;
    loop {
        let count = left.min(trial.together).min(nodes.len() / 2).max(1);
        let watches = change(&mut world, &nodes, count, &mut rng);
        times.take(&mut world, &watches);
        left = left.saturating_sub(count);
        if left == 0 {
            break;
        }
        world.run_for(GAP + Duration::from_micros(rng.random_range(0..1_000_000)));
    }
    times.datagrams = world.tally().sent - before;
    times
}

/// Starts `count` changes, each at a member of its own.
fn change(
    world: &mut World,
    nodes: &[ProcessId],
    count: usize,
    rng: &mut Xoshiro256PlusPlus,
) -> Vec<WatchId> {
    let subjects = rand::seq::index::sample(rng, nodes.len(), count);
    let watched = subjects.iter().filter_map(|subject| {
        let accuser = (subject + rng.random_range(1..nodes.len())) % nodes.len();
        world.accuse(nodes[accuser], nodes[subject])
    });
    watched.collect()
}

impl Times {
    /// Waits until all know of all, and notes how long each took.
    fn take(&mut self, world: &mut World, watches: &[WatchId]) {
        let end = world.now() + KNOWN_LATEST;
        let missing = |world: &World| watches.iter().any(|&id| world.known_after(id).is_none());
        let mut look = LOOK_MIN;
        while missing(world) && world.now() < end {
            world.run_for(look);
            look = (2 * look).min(LOOK_MAX);
        }
        for &watch in watches {
            match world.known_after(watch) {
                Some(length) => self.milliseconds.push(length.as_secs_f64() * 1000.0),
                None => self.lost += 1,
            }
        }
    }
}
