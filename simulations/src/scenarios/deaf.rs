//! A member sends, and receives nothing.

use super::Scenario;
use super::stage::{Stage, seconds};
use crate::rules::Carried;
use crate::world::World;

pub(super) const SCENARIO: Scenario = Scenario {
    name: "deaf",
    story: "one of 30 members receives nothing for two minutes: it alone is declared dead",
    play,
};

fn play(stage: &mut Stage) -> Result<(), String> {
    let nodes = stage.settled(30);
    let (deaf, since) = (nodes[11], stage.world.now());
    let rule = stage.world.deafen(deaf, Carried::Everything);
    stage.within("declared dead everywhere after", seconds(10), |world| {
        world.everyone_buries(deaf)
    })?;
    stage.world.run_for(seconds(110));
    stage.nobody_else_dies(since, &[deaf])?;
    stage.world.lift(rule);
    stage.within("all alive after the repair", seconds(10), World::all_alive)?;
    stage.world.run_for(seconds(30));
    stage.nobody_else_dies(since, &[deaf])
}
