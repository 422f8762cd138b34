//! Events on both sides of a partition.

use super::Scenario;
use super::delivered::{each_has, send, within};
use super::stage::{Stage, seconds};
use crate::world::World;

pub(super) const SCENARIO: Scenario = Scenario {
    name: "event-partition",
    story: "20 members are cut into halves for 30 s; events of both sides reach all in the end",
    play,
};

fn play(stage: &mut Stage) -> Result<(), String> {
    let nodes = stage.settled(20);
    let (left, right) = nodes.split_at(10);
    let rules = stage.world.partition(left);
    stage.world.run_for(seconds(5));
    let early = send(stage, left[3], (4, 300))?;
    stage.world.run_for(seconds(20));
    let late = send(stage, right[3], (2, 300))?;
    stage.world.run_for(seconds(5));
    if stage.world.everyone_has(&early) || stage.world.sender_knows(left[3], &early) {
        return Err("the partition let events through".to_owned());
    }
    let owed = stage.world.process(left[3]).node.delivery(&early);
    let owed = owed.map_or(0, |state| state.owed.len());
    stage.tell("members owed an event across", owed);
    if owed != right.len() {
        return Err(format!(
            "{owed} members are owed it, {} lack it",
            right.len()
        ));
    }
    for rule in rules {
        stage.world.lift(rule);
    }
    stage.within("one cluster again after", seconds(10), World::all_alive)?;
    within(stage, "of one side", (left[3], &early), seconds(5))?;
    within(stage, "of the other", (right[3], &late), seconds(5))?;
    stage.world.run_for(seconds(10));
    each_has(stage, &nodes, 6)
}
