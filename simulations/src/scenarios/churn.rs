//! Members come and go all the time.

use super::Scenario;
use super::stage::{Stage, seconds};
use crate::process::ProcessId;
use crate::world::{Restart, World};

pub(super) const SCENARIO: Scenario = Scenario {
    name: "churn",
    story: "for two minutes one of 50 members crashes and one leaves every 5 s, and others return",
    play,
};

fn play(stage: &mut Stage) -> Result<(), String> {
    let mut nodes = stage.settled(50);
    let since = stage.world.now();
    let mut gone: Vec<usize> = Vec::new();
    let mut crashed: Vec<ProcessId> = Vec::new();
    for round in 0..24 {
        let (one, other) = (1 + 2 * round % 48, 2 + 2 * round % 48);
        crashed.push(nodes[one]);
        stage.world.crash(nodes[one]);
        stage.world.leave(nodes[other], seconds(1));
        stage.world.run_for(seconds(2));
        stage.world.crash(nodes[other]);
        gone.extend([one, other]);
        stage.world.run_for(seconds(3));
        if round >= 2 {
            for slot in gone.drain(..2) {
                nodes[slot] = stage.world.restart(nodes[slot], Restart::default());
            }
        }
    }
    for slot in gone {
        nodes[slot] = stage.world.restart(nodes[slot], Restart::default());
    }
    stage.within(
        "all alive after the last return",
        seconds(10),
        World::all_alive,
    )?;
    stage.world.run_for(seconds(10));
    stage.nobody_else_dies(since, &crashed)
}
