//! Half of the members cannot reach one; the others can.

use super::Scenario;
use super::stage::{Stage, seconds};
use crate::process::ProcessId;
use crate::rules::{Carried, RuleId};
use crate::world::World;

/// How many members.
const MEMBERS: usize = 64;

pub(super) const SCENARIO: Scenario = Scenario {
    name: "unreachable-by-half",
    story: "half of 64 members cannot reach one, one way, then both ways, for 2 minutes: it lives",
    play,
};

fn play(stage: &mut Stage) -> Result<(), String> {
    let nodes = stage.settled(MEMBERS);
    let since = stage.world.now();
    // Not the first: the others of a pair are split without regard to the order of starting.
    let subject = nodes[20];
    let half: Vec<ProcessId> = nodes
        .iter()
        .copied()
        .filter(|&id| id != subject)
        .step_by(2)
        .collect();
    for (what, there, back) in [
        ("nothing reaches it", true, false),
        ("nothing reaches them", false, true),
        ("cut both ways", true, true),
    ] {
        let world = &mut stage.world;
        let mut rules = Vec::new();
        for &other in &half {
            rules.extend(there.then(|| world.cut(other, subject, Carried::Everything)));
            rules.extend(back.then(|| world.cut(subject, other, Carried::Everything)));
        }
        stage.world.run_for(seconds(120));
        repair(&mut stage.world, rules);
        let what = format!("{what}: all alive after the repair");
        stage.within(&what, seconds(10), World::all_alive)?;
        stage.nobody_else_dies(since, &[])?;
        stage.world.run_for(seconds(60));
    }
    Ok(())
}

fn repair(world: &mut World, rules: Vec<RuleId>) {
    for rule in rules {
        world.lift(rule);
    }
}
