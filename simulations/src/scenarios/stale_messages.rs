//! Everything one member sent is kept back, and arrives fifteen seconds late.

use super::Scenario;
use super::stage::{Stage, seconds};
use crate::process::ProcessId;
use crate::rules::{Carried, Effect, Hosts, Rule};
use crate::world::{Restart, World};

pub(super) const SCENARIO: Scenario = Scenario {
    name: "stale-messages",
    story: "datagrams from one of 20 members arrive 15 s late, after its restart: no effect",
    play,
};

fn play(stage: &mut Stage) -> Result<(), String> {
    let nodes = stage.settled(20);
    let (deaf, restarted, since) = (nodes[4], nodes[9], stage.world.now());
    let rule = stage.world.lay(Rule {
        from: Hosts::one(stage.world.address(restarted)),
        to: Hosts::one(stage.world.address(deaf)),
        carried: Carried::Datagrams,
        effect: Effect::Hold,
    });
    stage.world.run_for(seconds(5));
    stage.world.crash(restarted);
    let back: ProcessId = stage.world.restart(restarted, Restart::default());
    stage.within("its new life is known after", seconds(5), |world| {
        world.everyone_sees_life(back)
    })?;
    stage.world.run_for(seconds(10));
    stage.tell("datagrams kept back", stage.world.held());
    stage.world.lift(rule);
    stage.world.run_for(seconds(5));
    stage.within("all alive after they came", seconds(1), World::all_alive)?;
    stage.nobody_else_dies(since, &[])
}
