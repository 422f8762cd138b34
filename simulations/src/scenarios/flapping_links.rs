//! Links that fail and work again, again and again.

use std::collections::BTreeMap;
use std::time::Duration;

use rand::RngExt;

use super::Scenario;
use super::stage::{Stage, seconds};
use crate::process::ProcessId;
use crate::rules::{Carried, RuleId};
use crate::world::World;

/// How many members.
const MEMBERS: usize = 40;
/// Pairs of members whose links flap.
const PAIRS: usize = 60;
/// Members whose every link flaps at once, shorter than a pause may be.
const UPLINKS: usize = 4;
/// How long an uplink is down, and then up.
const DOWN: Duration = Duration::from_secs(3);
const UP: Duration = Duration::from_secs(3);
/// How long it goes on.
const LENGTH: Duration = Duration::from_secs(180);
/// Time passes in steps of this length.
const STEP: Duration = Duration::from_millis(250);
/// Probability that the link of a pair fails, or works again, in one step.
const TURN: f64 = 0.05;

pub(super) const SCENARIO: Scenario = Scenario {
    name: "flapping-links",
    story: "links of 60 pairs, and all of 4 members, fail and work again for 3 minutes: all live",
    play,
};

fn play(stage: &mut Stage) -> Result<(), String> {
    let nodes = stage.settled(MEMBERS);
    let (mut rng, since) = (stage.rng(), stage.world.now());
    let pairs: Vec<(ProcessId, ProcessId)> = (0..PAIRS)
        .map(|_| {
            let one = rng.random_range(0..MEMBERS);
            let other = (one + rng.random_range(1..MEMBERS)) % MEMBERS;
            (nodes[one], nodes[other])
        })
        .collect();
    let mut cuts: BTreeMap<usize, [RuleId; 2]> = BTreeMap::new();
    let mut uplinks: BTreeMap<usize, [RuleId; 2]> = BTreeMap::new();
    let mut failures = 0;
    while stage.world.now().since(since) < LENGTH {
        let world = &mut stage.world;
        for (place, &(one, other)) in pairs.iter().enumerate() {
            if !rng.random_bool(TURN) {
                continue;
            }
            match cuts.remove(&place) {
                Some(rules) => repair(world, rules),
                None => {
                    let both = [(one, other), (other, one)];
                    let rules = both.map(|(from, to)| world.cut(from, to, Carried::Everything));
                    cuts.insert(place, rules);
                    failures += 1;
                }
            }
        }
        for (place, &node) in nodes.iter().take(UPLINKS).enumerate() {
            let phase = world.now().since(since).as_millis() + 1500 * place as u128;
            let down = phase % (DOWN + UP).as_millis() < DOWN.as_millis();
            if down && !uplinks.contains_key(&place) {
                uplinks.insert(place, world.partition(&[node]));
                failures += 1;
            } else if !down && let Some(rules) = uplinks.remove(&place) {
                repair(world, rules);
            }
        }
        world.run_for(STEP);
    }
    stage.tell("failures", failures);
    for rules in cuts.into_values().chain(uplinks.into_values()) {
        repair(&mut stage.world, rules);
    }
    stage.within("all alive after the repair", seconds(10), World::all_alive)?;
    stage.nobody_else_dies(since, &[])
}

fn repair(world: &mut World, rules: [RuleId; 2]) {
    for rule in rules {
        world.lift(rule);
    }
}
