//! Wall clocks that are set, forth and back, by seconds to years.

use super::Scenario;
use super::stage::{Stage, seconds};
use crate::process::ProcessId;
use crate::world::{AddressChoice, GenerationChoice, NodeIdChoice, Restart, World};

/// A node without a data directory starts again on its host.
const BY_THE_CLOCK: Restart = Restart {
    generation: GenerationChoice::Clock,
    node_id: NodeIdChoice::Fresh,
    address: AddressChoice::Kept,
};
const HOUR: i64 = 3600;
const YEAR: i64 = 365 * 24 * HOUR;
/// Steps within a day of each other, after which a restarted node is a member again.
const SMALL: [i64; 6] = [1, -1, 600, -600, 10 * HOUR, -10 * HOUR];
/// Steps after which it waits until its clock is right.
const LARGE: [i64; 3] = [-YEAR, -30 * YEAR, YEAR];

pub(super) const SCENARIO: Scenario = Scenario {
    name: "clock-step",
    story: "nine of 30 wall clocks are set by seconds to years, their nodes restarted: all return",
    play,
};

fn play(stage: &mut Stage) -> Result<(), String> {
    // More than a day after the release: who is years behind takes all others for years ahead.
    stage.world.run_for(seconds(10));
    let nodes = stage.settled(30);
    let since = stage.world.now();
    // Not the first ones: all join through those.
    let (rest, far) = nodes.split_at(nodes.len() - LARGE.len());
    let back = set_and_restart(stage, &rest[rest.len() - SMALL.len()..], &SMALL)?;
    stage.within("set by less than a day, back after", seconds(5), |world| {
        back.iter().all(|&node| world.everyone_sees_life(node))
    })?;
    let wrong = set_and_restart(stage, far, &LARGE)?;
    stage.world.run_for(seconds(60));
    stage.nobody_else_dies(since, &wrong)?;
    let ahead = wrong[2];
    stage.tell(
        "a year ahead, refused and told so",
        told_why(&stage.world, ahead)?,
    );
    for &node in back.iter().chain(&wrong) {
        stage.world.correct_wall_clock(node);
    }
    restart(&mut stage.world, ahead);
    stage.within(
        "clocks right, all alive after",
        seconds(45),
        World::all_alive,
    )?;
    stage.nobody_else_dies(since, &wrong)
}

/// Sets the clocks of `nodes`, lets a minute pass, and restarts the nodes.
fn set_and_restart(
    stage: &mut Stage,
    nodes: &[ProcessId],
    steps: &[i64],
) -> Result<Vec<ProcessId>, String> {
    let since = stage.world.now();
    for (&node, &step) in nodes.iter().zip(steps) {
        stage.world.step_wall_clock(node, step);
    }
    stage.world.run_for(seconds(60));
    stage.nobody_else_dies(since, &[])?;
    let restarted = nodes.iter().map(|&node| restart(&mut stage.world, node));
    Ok(restarted.collect())
}

fn restart(world: &mut World, node: ProcessId) -> ProcessId {
    world.crash(node);
    world.run_for(seconds(1));
    world.restart(node, BY_THE_CLOCK)
}

fn told_why(world: &World, ahead: ProcessId) -> Result<&'static str, String> {
    let state = world.process(ahead).node.state();
    match state.clock_ahead && !state.ready {
        true => Ok("yes"),
        false => Err(format!("it shows {state:?}")),
    }
}
