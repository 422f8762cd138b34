//! A rolling deployment: every member restarts, a few at a time.

use std::time::Duration;

use rumord::protocol::EventKind;

use super::Scenario;
use super::stage::{Stage, seconds};
use crate::world::{Restart, World};

pub(super) const SCENARIO: Scenario = Scenario {
    name: "mass-restart",
    story: "all 60 members are restarted, five every two seconds: nobody is declared dead",
    play,
};

fn play(stage: &mut Stage) -> Result<(), String> {
    let nodes = stage.settled(60);
    let since = stage.world.now();
    for batch in nodes.chunks(5) {
        for &node in batch {
            stage.world.crash(node);
        }
        stage.world.run_for(Duration::from_millis(500));
        for &node in batch {
            stage.world.restart(node, Restart::default());
        }
        stage.world.run_for(Duration::from_millis(1500));
    }
    stage.within("all alive after the last", seconds(5), World::all_alive)?;
    let restarts = stage
        .world
        .news()
        .filter(|news| news.at >= since && news.event.kind == EventKind::MemberRestarted);
    let restarts = restarts.count();
    stage.tell("restarts seen", restarts);
    stage.nobody_else_dies(since, &[])
}
