//! Two clusters that pass their addresses to each other.

use super::Scenario;
use super::recycled_address::{of_green, strangers};
use super::stage::{Stage, seconds};
use crate::process::ProcessId;
use crate::world::{Start, World};

/// Members of each.
const MEMBERS: usize = 20;
/// How many of each change places with one of the other.
const SWAPS: usize = 8;

pub(super) const SCENARIO: Scenario = Scenario {
    name: "two-clusters",
    story: "eight of 20 members of each of two clusters restart at one another's addresses",
    play,
};

fn play(stage: &mut Stage) -> Result<(), String> {
    let mut blue = stage.settled(MEMBERS);
    let mut green = vec![stage.world.start(of_green("g1"))];
    for number in 2..=MEMBERS {
        let join = [stage.world.address(green[0])];
        let start = of_green(&format!("g{number}")).joining(join);
        green.push(stage.world.start(start));
    }
    stage.world.run_for(seconds(30));
    let since = stage.world.now();
    for pair in (1..).take(SWAPS) {
        swap(&mut stage.world, pair, (&mut blue, &mut green));
        stage.world.run_for(seconds(7));
        let strangers = strangers(&stage.world);
        if strangers > 0 {
            return Err(format!(
                "{strangers} members are listed by the other cluster"
            ));
        }
    }
    stage.tell("members listed by the other cluster", 0);
    stage.within("all alive after the last", seconds(10), World::all_alive)?;
    stage.world.run_for(seconds(60));
    stage.tell("strangers a minute later", strangers(&stage.world));
    if strangers(&stage.world) > 0 || !stage.world.all_alive() {
        return Err("the clusters have merged, or lost somebody".to_owned());
    }
    stage.nobody_else_dies(since, &[])
}

/// One of each ends, and a second later starts again where the other was.
fn swap(world: &mut World, pair: usize, (blue, green): (&mut [ProcessId], &mut [ProcessId])) {
    let (one, other) = (blue[pair], green[pair]);
    let moves = [(one, other, blue[0]), (other, one, green[0])];
    world.crash(one);
    world.crash(other);
    world.run_for(seconds(1));
    let [moved, other_moved] = moves.map(|(old, place, first)| {
        let (join, address) = (world.address(first), world.address(place));
        let old = world.process(old);
        world.start(Start {
            cluster: old.cluster.clone(),
            node_id: Some(old.node_id),
            address: Some(address),
            ..Start::named(old.name.as_str()).joining([join])
        })
    });
    (blue[pair], green[pair]) = (moved, other_moved);
}
