//! The sender of an event crashes before all have it.

use super::Scenario;
use super::delivered::{each_has, send, within};
use super::stage::{Stage, milliseconds, seconds};
use crate::world::Restart;

pub(super) const SCENARIO: Scenario = Scenario {
    name: "sender-restarts",
    story: "a sender crashes before it told an event, or while some were cut off, and comes back",
    play,
};

fn play(stage: &mut Stage) -> Result<(), String> {
    let nodes = stage.settled(20);
    // It has promised the event to its client, and told nobody.
    let untold = send(stage, nodes[0], (3, 100))?;
    stage.world.crash(nodes[0]);
    stage.world.run_for(seconds(3));
    let back = stage.world.restart(nodes[0], Restart::default());
    within(stage, "never told", (back, &untold), seconds(5))?;
    // Some are cut off while it tells, and it crashes before they are back.
    let rules = stage.world.partition(&nodes[15..]);
    let half = send(stage, nodes[1], (2, 100))?;
    stage.world.run_for(milliseconds(200));
    stage.world.crash(nodes[1]);
    stage.world.run_for(seconds(20));
    let restarted = stage.world.restart(nodes[1], Restart::default());
    stage.world.run_for(seconds(3));
    for rule in rules {
        stage.world.lift(rule);
    }
    within(stage, "told to some", (restarted, &half), seconds(15))?;
    let later = send(stage, restarted, (1, 100))?;
    within(stage, "of the new life", (restarted, &later), seconds(5))?;
    let mut all = nodes[2..].to_vec();
    all.extend([back, restarted]);
    each_has(stage, &all, 6)
}
