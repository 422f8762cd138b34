//! A cluster falls into two halves, and they find each other again.

use super::Scenario;
use super::stage::{Stage, seconds};
use crate::world::World;

pub(super) const SCENARIO: Scenario = Scenario {
    name: "partition",
    story: "60 members are cut into halves for a minute; each buries the other; then they reunite",
    play,
};

fn play(stage: &mut Stage) -> Result<(), String> {
    let nodes = stage.settled(60);
    let (left, right) = nodes.split_at(30);
    let rules = stage.world.partition(left);
    stage.within(
        "each half has buried the other after",
        seconds(30),
        |world| {
            let buries = |observers: &[_], others: &[_]| {
                observers.iter().all(|&observer| {
                    let gone = |&other| {
                        world
                            .status(observer, other)
                            .is_some_and(|s| !s.is_active())
                    };
                    others.iter().all(gone)
                })
            };
            buries(left, right) && buries(right, left)
        },
    )?;
    stage.world.run_for(seconds(30));
    let healed = stage.world.now();
    for rule in rules {
        stage.world.lift(rule);
    }
    stage.within("one cluster again after", seconds(10), World::all_alive)?;
    stage.world.run_for(seconds(1));
    let settled = stage.world.now();
    stage.world.run_for(seconds(20));
    stage.nobody_else_dies(settled.max(healed), &[])
}
