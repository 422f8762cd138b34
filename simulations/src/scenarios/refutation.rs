//! A member is suspected and proves that it lives.

use rumord::member::Status;

use super::Scenario;
use super::stage::{Stage, seconds};

pub(super) const SCENARIO: Scenario = Scenario {
    name: "refutation",
    story: "a member stands still for 3 s, is suspected, wakes and refutes: nobody buries it",
    play,
};

fn play(stage: &mut Stage) -> Result<(), String> {
    let nodes = stage.settled(50);
    let (sleeper, since) = (nodes[7], stage.world.now());
    stage.world.pause(sleeper, seconds(3));
    stage.within("first suspected after", seconds(3), |world| {
        let suspects = |id| world.status(id, sleeper) == Some(Status::Suspect);
        nodes.iter().any(|&id| suspects(id))
    })?;
    let asleep = stage.world.now().since(since);
    stage.world.run_for(seconds(3).saturating_sub(asleep));
    stage.within("alive everywhere after its waking", seconds(2), |world| {
        world.everyone_sees_life(sleeper)
    })?;
    let record = stage
        .world
        .process(nodes[0])
        .node
        .record_of(&stage.world.process(sleeper).name);
    let incarnation = record.map_or(0, |record| record.standing.incarnation.0);
    stage.tell("its incarnation", incarnation);
    stage.world.run_for(seconds(20));
    stage.nobody_else_dies(since, &[])
}
