//! Every machine runs too many processes: all timers are late.

use rumord::protocol::EventKind;

use super::Scenario;
use super::stage::{Stage, seconds};
use crate::process::Lateness;
use std::time::Duration;

pub(super) const SCENARIO: Scenario = Scenario {
    name: "late-timers",
    story: "all timers of all 50 members are 100 ms late in the mean: a crash is found, no other",
    play,
};

fn play(stage: &mut Stage) -> Result<(), String> {
    let nodes = stage.settled(50);
    let since = stage.world.now();
    for &node in &nodes {
        stage
            .world
            .delay_timers(node, Lateness::Mean(Duration::from_millis(100)));
    }
    stage.world.run_for(seconds(120));
    stage.nobody_else_dies(since, &[])?;
    let (victim, crashed) = (nodes[37], stage.world.now());
    stage.world.crash(victim);
    stage.within("dead everywhere after", seconds(15), |world| {
        world.everyone_buries(victim)
    })?;
    stage.first(
        "first declared dead after",
        victim,
        EventKind::MemberDead,
        crashed,
    );
    stage.world.run_for(seconds(20));
    stage.nobody_else_dies(since, &[victim])
}
