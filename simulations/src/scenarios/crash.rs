//! One of a hundred crashes.

use rumord::protocol::EventKind;

use super::Scenario;
use super::stage::{Stage, seconds};

pub(super) const SCENARIO: Scenario = Scenario {
    name: "crash",
    story: "one of 100 members crashes: it is suspected, then declared dead, everywhere",
    play,
};

fn play(stage: &mut Stage) -> Result<(), String> {
    let nodes = stage.settled(100);
    let (victim, since) = (nodes[37], stage.world.now());
    stage.world.crash(victim);
    stage.within("dead everywhere after", seconds(8), |world| {
        world.everyone_buries(victim)
    })?;
    stage.first(
        "first suspected after",
        victim,
        EventKind::MemberSuspect,
        since,
    );
    stage.first(
        "first declared dead after",
        victim,
        EventKind::MemberDead,
        since,
    );
    stage.world.run_for(seconds(20));
    stage.nobody_else_dies(since, &[victim])
}
