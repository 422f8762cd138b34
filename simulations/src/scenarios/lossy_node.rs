//! One member's network card loses most of its packets.

use rumord::member::Status;

use super::Scenario;
use super::stage::{Stage, seconds};
use crate::world::World;

pub(super) const SCENARIO: Scenario = Scenario {
    name: "lossy-node",
    story: "one of 60 members loses 80 % of its packets both ways for 5 minutes: the others live",
    play,
};

fn play(stage: &mut Stage) -> Result<(), String> {
    let nodes = stage.settled(60);
    let (victim, since) = (nodes[5], stage.world.now());
    let rules = stage.world.lose(victim, 0.8);
    stage.world.run_for(seconds(300));
    let shown = nodes
        .iter()
        .filter(|&&node| stage.world.status(node, victim) == Some(Status::Alive))
        .count();
    stage.tell("members that show it alive after 300 s", shown);
    for rule in rules {
        stage.world.lift(rule);
    }
    stage.within("all alive after the repair", seconds(30), World::all_alive)?;
    stage.nobody_else_dies(since, &[victim])
}
