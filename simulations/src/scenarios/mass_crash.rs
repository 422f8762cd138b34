//! A quarter of the cluster crashes at once.

use super::Scenario;
use super::stage::{Stage, seconds};

pub(super) const SCENARIO: Scenario = Scenario {
    name: "mass-crash",
    story: "25 of 100 members crash at once: all are declared dead, and nobody else",
    play,
};

fn play(stage: &mut Stage) -> Result<(), String> {
    let nodes = stage.settled(100);
    let (victims, since) = (&nodes[..25], stage.world.now());
    for &victim in victims {
        stage.world.crash(victim);
    }
    stage.within("all dead everywhere after", seconds(20), |world| {
        victims.iter().all(|&victim| world.everyone_buries(victim))
    })?;
    stage.world.run_for(seconds(20));
    stage.nobody_else_dies(since, victims)
}
