//! A rolling deployment of containers: each member leaves, and its successor has its name only.

use rumord::protocol::EventKind;

use super::Scenario;
use super::stage::{Stage, seconds};
use crate::world::{AddressChoice, GenerationChoice, NodeIdChoice, Restart, World};

/// Nothing was kept but the name.
const REPLACED: Restart = Restart {
    generation: GenerationChoice::Clock,
    node_id: NodeIdChoice::Fresh,
    address: AddressChoice::Fresh,
};

pub(super) const SCENARIO: Scenario = Scenario {
    name: "rolling-deploy",
    story: "all 50 members leave, one every 2 s, and return elsewhere with their names only",
    play,
};

fn play(stage: &mut Stage) -> Result<(), String> {
    let nodes = stage.settled(50);
    let since = stage.world.now();
    let mut slowest = std::time::Duration::ZERO;
    for &node in &nodes {
        stage.world.leave(node, seconds(1));
        stage.world.run_for(seconds(1));
        stage.world.crash(node);
        let back = stage.world.restart(node, REPLACED);
        let seen = |world: &World| world.everyone_sees_life(back);
        let seen = stage.world.run_until(seconds(1), seen);
        slowest = slowest.max(seen.ok_or("a successor is not known after a second")?);
        stage.world.run_for(seconds(1));
    }
    stage.tell(
        "slowest successor known after",
        format!("{:.3} s", slowest.as_secs_f64()),
    );
    stage.within("all alive after the last", seconds(5), World::all_alive)?;
    stage.world.run_for(seconds(20));
    for kind in [
        EventKind::MemberLeft,
        EventKind::MemberUp,
        EventKind::MemberRestarted,
    ] {
        let said = stage
            .world
            .news()
            .filter(|news| news.at >= since && news.event.kind == kind);
        let said = said.count();
        stage.tell(&format!("announced as {}", kind.as_str()), said);
    }
    stage.nobody_else_dies(since, &[])
}
