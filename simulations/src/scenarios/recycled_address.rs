//! An address passes from one cluster to another.

use super::Scenario;
use super::stage::{Stage, seconds};
use crate::world::{Start, World};

pub(super) const SCENARIO: Scenario = Scenario {
    name: "recycled-address",
    story: "a dead member's address is given to a node of another cluster: the two never merge",
    play,
};

fn play(stage: &mut Stage) -> Result<(), String> {
    let blue = stage.settled(10);
    let first = stage.world.start(of_green("g1"));
    let join = [stage.world.address(first)];
    for number in 2..=5 {
        stage
            .world
            .start(of_green(&format!("g{number}")).joining(join));
    }
    stage.world.run_for(seconds(10));
    let (address, since) = (stage.world.address(blue[3]), stage.world.now());
    stage.world.crash(blue[3]);
    stage.world.start(Start {
        address: Some(address),
        ..of_green("g6").joining(join)
    });
    stage.within("the former owner is buried after", seconds(10), |world| {
        world.everyone_buries(blue[3])
    })?;
    stage.world.run_for(seconds(60));
    let strangers = strangers(&stage.world);
    stage.tell("members listed by the other cluster", strangers);
    if strangers > 0 || !stage.world.all_alive() {
        return Err("the clusters have merged, or lost somebody".to_owned());
    }
    stage.nobody_else_dies(since, &[blue[3]])
}

/// Members that a node lists and that are of the other cluster, added up over all nodes.
pub(super) fn strangers(world: &World) -> usize {
    let of = |process: &crate::process::Process| {
        let green = process.cluster == "green";
        let records = process.node.records();
        records
            .filter(|record| record.name.as_str().starts_with('g') != green)
            .count()
    };
    world.up().map(of).sum()
}

/// A node of the other cluster.
pub(super) fn of_green(name: &str) -> Start {
    Start {
        cluster: "green".into(),
        ..Start::named(name)
    }
}
