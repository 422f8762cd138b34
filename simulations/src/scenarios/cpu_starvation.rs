//! Members on machines whose processor time is used up.

use rumord::protocol::SuspicionOutcome;

use super::Scenario;
use super::stage::{Stage, seconds};
use crate::world::World;

/// How many are starved.
const STARVED: usize = 8;

pub(super) const SCENARIO: Scenario = Scenario {
    name: "cpu-starvation",
    story: "8 of 128 members run 50 ms and wait 400 ms in turn for 300 s: nobody is declared dead",
    play,
};

fn play(stage: &mut Stage) -> Result<(), String> {
    let nodes = stage.full(128);
    let since = stage.world.now();
    for &node in &nodes[..STARVED] {
        stage.world.starve(node, seconds(300));
    }
    stage.world.run_for(seconds(300));
    let raised =
        |world: &World| world.total(|stats| stats.suspicions.get(SuspicionOutcome::Raised));
    stage.tell("suspicions raised", raised(&stage.world));
    stage.within("all alive afterwards", seconds(5), World::all_alive)?;
    stage.world.run_for(seconds(20));
    stage.nobody_else_dies(since, &[])
}
