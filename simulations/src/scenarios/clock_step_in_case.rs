//! Wall clocks are set while a member is accused.

use rumord::protocol::EventKind;

use super::Scenario;
use super::stage::{Stage, milliseconds, seconds, tolerance};
use crate::world::World;

const HOUR: i64 = 3600;
/// By how much clocks are set, in seconds.
const STEPS: [i64; 4] = [1, -1, 10 * HOUR, -10 * HOUR];

pub(super) const SCENARIO: Scenario = Scenario {
    name: "clock-step-in-case",
    story: "one of 40 crashes, one stands still, and half of all wall clocks are set: no effect",
    play,
};

fn play(stage: &mut Stage) -> Result<(), String> {
    let nodes = stage.settled(40);
    let (victim, paused) = (nodes[3], nodes[25]);
    let since = stage.world.now();
    stage.world.crash(victim);
    stage.world.pause(paused, tolerance() - milliseconds(500));
    // Both are suspects by then.
    stage.world.run_for(seconds(2));
    let (mut steps, others) = (
        STEPS.iter().cycle(),
        nodes.iter().filter(|&&id| id != victim),
    );
    for (&node, &step) in others.step_by(2).zip(&mut steps) {
        stage.world.step_wall_clock(node, step);
    }
    stage.world.step_wall_clock(paused, HOUR);
    stage.world.run_for(seconds(10));
    let bound = tolerance() + milliseconds(1200);
    let dead = (&[victim][..], EventKind::MemberDead, since);
    stage.each_within("declared dead after", bound, dead)?;
    stage.within("all others alive", seconds(5), World::all_alive)?;
    stage.world.run_for(seconds(30));
    stage.nobody_else_dies(since, &[victim])
}
