//! A member comes back as a new life while its old one is accused.

use rumord::protocol::EventKind;
use rumord::time::Instant;

use super::Scenario;
use super::stage::{Stage, milliseconds, seconds};
use crate::process::ProcessId;
use crate::world::{Restart, World};

/// How long it was gone: in the case's beginning, while it is suspected, and around the last
/// questions; in milliseconds.
const AWAY: [u64; 6] = [300, 1500, 3000, 4900, 5100, 5400];

pub(super) const SCENARIO: Scenario = Scenario {
    name: "restart-when-accused",
    story: "one of 40 members restarts while its old life is accused: its new one is no suspect",
    play,
};

fn play(stage: &mut Stage) -> Result<(), String> {
    let nodes = stage.settled(40);
    let mut one = nodes[11];
    let start = stage.world.now();
    for away in AWAY {
        stage.world.crash(one);
        stage.world.run_for(milliseconds(away));
        one = stage.world.restart(one, Restart::default());
        let since = stage.world.now();
        let what = format!("gone for {away} ms: its new life is known after");
        stage.within(&what, seconds(5), |world| world.everyone_sees_life(one))?;
        stage.world.run_for(seconds(30));
        not_accused(&stage.world, one, since)?;
        stage.nobody_else_dies(start, &[one])?;
        stage.within("  and all are alive", seconds(1), World::all_alive)?;
    }
    Ok(())
}

/// Demands that nobody suspected the present life of `one`, or declared it dead.
fn not_accused(world: &World, one: ProcessId, since: Instant) -> Result<(), String> {
    let generation = world.process(one).generation;
    for kind in [EventKind::MemberSuspect, EventKind::MemberDead] {
        let mut news = world.news_of(one, kind, since);
        if let Some(news) = news.find(|news| news.event.generation >= generation) {
            return Err(format!("{} said {:?}", news.observer, news.event));
        }
    }
    Ok(())
}
