//! Timers run, and nothing goes in or out.

use super::Scenario;
use super::stage::{Stage, seconds};
use crate::world::World;
use std::time::Duration;

pub(super) const SCENARIO: Scenario = Scenario {
    name: "blocked-io",
    story: "IO of 4 of 40 members is blocked for 4.5 s, then for a minute: no other dies",
    play,
};

fn play(stage: &mut Stage) -> Result<(), String> {
    let nodes = stage.settled(40);
    let (blocked, since) = (&nodes[..4], stage.world.now());
    let short = Duration::from_millis(4500);
    block(&mut stage.world, blocked, short);
    stage.world.run_for(short);
    stage.within("all alive after 4.5 s of it", seconds(5), World::all_alive)?;
    stage.world.run_for(seconds(20));
    stage.nobody_else_dies(since, &[])?;
    block(&mut stage.world, blocked, seconds(60));
    stage.world.run_for(seconds(60));
    stage.within(
        "all alive after a minute of it",
        seconds(10),
        World::all_alive,
    )?;
    stage.world.run_for(seconds(20));
    stage.nobody_else_dies(since, blocked)
}

fn block(world: &mut World, nodes: &[crate::process::ProcessId], length: Duration) {
    for &node in nodes {
        world.block_io(node, length);
    }
}
