//! Hundreds join through one member at the same instant.

use super::Scenario;
use super::stage::{Stage, seconds};
use crate::world::{Start, World};

/// How many join.
const JOINERS: usize = 500;

pub(super) const SCENARIO: Scenario = Scenario {
    name: "join-storm",
    story: "500 nodes join through one member at one instant: all know all within seconds",
    play,
};

fn play(stage: &mut Stage) -> Result<(), String> {
    let first = stage.world.start(Start::named("n1"));
    stage.world.run_for(seconds(5));
    let since = stage.world.now();
    let join = [stage.world.address(first)];
    for number in 2..=JOINERS + 1 {
        let start = Start::named(&format!("n{number}")).joining(join);
        stage.world.start(start);
    }
    let mut all = None;
    for _ in 0..600 {
        stage.world.run_for(seconds(1) / 20);
        if stage.world.all_alive() {
            all = Some(stage.world.now().since(since));
            break;
        }
    }
    let all = all.ok_or("not all know all after 30 s")?;
    stage.tell("all know all after", format!("{:.2} s", all.as_secs_f64()));
    let ready = |world: &World| world.up().all(|process| process.node.state().ready);
    stage.within("all ready after another", seconds(5), ready)?;
    stage.nobody_else_dies(since, &[])
}
