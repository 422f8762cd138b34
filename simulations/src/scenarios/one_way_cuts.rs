//! Hundreds of links work in one direction only.

use rand::RngExt;
use rumord::protocol::EventKind;

use super::Scenario;
use super::stage::{Stage, seconds};
use crate::rules::Carried;
use crate::world::World;

/// How many members.
const MEMBERS: usize = 128;
/// How many links are cut in one direction.
const CUTS: usize = 400;

pub(super) const SCENARIO: Scenario = Scenario {
    name: "one-way-cuts",
    story: "400 random links among 128 members are cut in one direction for 2 minutes: all live",
    play,
};

fn play(stage: &mut Stage) -> Result<(), String> {
    let nodes = stage.full(MEMBERS);
    let (mut rng, since) = (stage.rng(), stage.world.now());
    let mut rules = Vec::new();
    for _ in 0..CUTS {
        let from = rng.random_range(0..MEMBERS);
        let to = (from + rng.random_range(1..MEMBERS)) % MEMBERS;
        let rule = stage.world.cut(nodes[from], nodes[to], Carried::Everything);
        rules.push(rule);
    }
    stage.world.run_for(seconds(120));
    let suspicions = stage
        .world
        .news()
        .filter(|news| news.event.kind == EventKind::MemberSuspect && news.at >= since);
    let count = suspicions.count();
    stage.tell("suspicions said, by all", count);
    for rule in rules {
        stage.world.lift(rule);
    }
    stage.within("all alive after the repair", seconds(10), World::all_alive)?;
    stage.nobody_else_dies(since, &[])
}
