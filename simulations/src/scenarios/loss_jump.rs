//! A network without loss begins to lose most of everything, for a while.

use super::Scenario;
use super::stage::{Stage, seconds};
use crate::link::Link;
use crate::world::World;

/// How many members.
const MEMBERS: usize = 128;
/// What is lost, and how often it happens.
const JUMPS: [(f64, u32); 2] = [(0.5, 5), (0.7, 5)];

pub(super) const SCENARIO: Scenario = Scenario {
    name: "loss-jump",
    story: "loss jumps from none to 50 %, then 70 %, for 20 s, five times each: nobody dies",
    play,
};

fn play(stage: &mut Stage) -> Result<(), String> {
    stage.full(MEMBERS);
    stage.world.run_for(seconds(30));
    let since = stage.world.now();
    for (loss, times) in JUMPS {
        for _ in 0..times {
            stage.world.set_usual_link(Link::LAN.losing(loss));
            stage.world.run_for(seconds(20));
            stage.world.set_usual_link(Link::LAN);
            stage.world.run_for(seconds(60));
        }
        let percent = loss * 100.0;
        stage.tell(&format!("jumps to {percent} %"), times);
        stage.nobody_else_dies(since, &[])?;
    }
    stage.within("all alive in the end", seconds(10), World::all_alive)?;
    Ok(())
}
