//! Processes stand still for less than the tolerance.

use super::Scenario;
use super::stage::{Stage, seconds};
use crate::world::World;
use std::time::Duration;

pub(super) const SCENARIO: Scenario = Scenario {
    name: "pause",
    story: "half of 40 members stand still together for 4.5 s, less than the tolerance: all live",
    play,
};

fn play(stage: &mut Stage) -> Result<(), String> {
    let nodes = stage.settled(40);
    let since = stage.world.now();
    for &node in &nodes[..20] {
        stage.world.pause(node, Duration::from_millis(4500));
    }
    stage.world.run_for(Duration::from_millis(4500));
    stage.within("all alive after their waking", seconds(5), World::all_alive)?;
    stage.world.run_for(seconds(30));
    stage.nobody_else_dies(since, &[])
}
