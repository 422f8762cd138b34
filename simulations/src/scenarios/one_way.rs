//! A link works in one direction only.

use super::Scenario;
use super::stage::{Stage, seconds};
use crate::rules::Carried;

pub(super) const SCENARIO: Scenario = Scenario {
    name: "one-way",
    story: "nothing passes from one of 20 members to another for two minutes: nobody dies of it",
    play,
};

fn play(stage: &mut Stage) -> Result<(), String> {
    let nodes = stage.settled(20);
    let since = stage.world.now();
    let rule = stage.world.cut(nodes[3], nodes[11], Carried::Everything);
    stage.world.run_for(seconds(120));
    stage.world.lift(rule);
    stage.within("all alive again after the repair", seconds(10), |world| {
        world.all_alive()
    })?;
    stage.nobody_else_dies(since, &[])
}
