//! How long one change takes until all know it, against the size of the cluster.

use std::time::Duration;

use rand::RngExt;
use rumord::protocol::Config;
use serde::{Deserialize, Serialize};

use crate::forks::{Consumer, fork};
use crate::link::Link;
use crate::world::{Checking, Keeping, Options, World};

/// How long a cluster runs before the first change: all have been probed, and were heard.
const WARM_UP: Duration = Duration::from_secs(3);
/// Time between the end of a change and the next one: all its rounds are over.
const GAP: Duration = Duration::from_millis(500);
/// A change that is not known after this has been lost.
const KNOWN_LATEST: Duration = Duration::from_secs(30);
/// How often it is looked whether all know. What is measured is exact.
const LOOK: Duration = Duration::from_millis(20);
/// Changes of one run in a small cluster, and the product of size and changes in a large one.
const CHANGES_MAX: usize = 50;
/// See [`CHANGES_MAX`].
const CHANGES_TIMES_SIZE: usize = 4096;

/// One run: a cluster of its own, and changes in it.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Trial {
    /// Members.
    pub nodes: usize,
    /// Share of datagrams that is lost, 0 to 1.
    pub loss: f64,
    /// The seed of this run.
    pub seed: u64,
}

impl Trial {
    /// How many changes it measures.
    #[must_use]
    pub fn changes(&self) -> usize {
        (CHANGES_TIMES_SIZE / self.nodes.max(1)).clamp(1, CHANGES_MAX)
    }
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

/// Runs one trial: members that know each other from the start, and one change after another,
/// each a refutation by a random member.
#[must_use]
pub fn converge(trial: &Trial) -> Times {
    let seed = trial.seed ^ (trial.nodes as u64).rotate_left(32) ^ trial.loss.to_bits();
    let mut world = World::new(Options {
        config: Config::lan(),
        link: Link::LAN.losing(trial.loss),
        keeping: Keeping::Nothing,
        checking: Checking::Nothing,
        ..Options::seeded(seed)
    });
    let nodes = world.start_full(trial.nodes);
    world.run_for(WARM_UP);
    let mut rng = fork(seed, Consumer::Scenario);
    let (mut milliseconds, mut lost) = (Vec::new(), 0);
    let before = world.tally().sent;
    for _ in 0..trial.changes() {
        let subject = rng.random_range(0..nodes.len());
        let accuser = (subject + rng.random_range(1..nodes.len())) % nodes.len();
        world.run_for(Duration::from_micros(rng.random_range(0..1_000_000)));
        let known = world
            .accuse(nodes[accuser], nodes[subject])
            .and_then(|watch| {
                let end = world.now() + KNOWN_LATEST;
                while world.known_after(watch).is_none() && world.now() < end {
                    world.run_for(LOOK);
                }
                world.known_after(watch)
            });
        match known {
            Some(length) => milliseconds.push(length.as_secs_f64() * 1000.0),
            None => lost += 1,
        }
        world.run_for(GAP);
    }
    Times {
        milliseconds,
        lost,
        datagrams: world.tally().sent - before,
    }
}
