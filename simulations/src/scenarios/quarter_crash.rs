//! A quarter of a thousand members crashes at once.

use rumord::protocol::EventKind;

use super::Scenario;
use super::stage::{Stage, seconds, tolerance};

/// How many members.
const MEMBERS: usize = 1000;
/// How many of them crash.
const VICTIMS: usize = 250;

pub(super) const SCENARIO: Scenario = Scenario {
    name: "quarter-crash",
    story: "250 of 1,000 members crash at once: all are dead everywhere in 9 s, and nobody else",
    play,
};

fn play(stage: &mut Stage) -> Result<(), String> {
    let nodes = stage.full(MEMBERS);
    let (victims, since) = (&nodes[..VICTIMS], stage.world.now());
    for &victim in victims {
        stage.world.crash(victim);
    }
    let bound = tolerance() + seconds(4);
    let mut left = victims.to_vec();
    stage.within("all dead everywhere after", bound, |world| {
        while left.last().is_some_and(|&one| world.everyone_buries(one)) {
            left.pop();
        }
        left.is_empty()
    })?;
    let dead = (victims, EventKind::MemberDead, since);
    stage.each_within("first declared dead after", bound, dead)?;
    stage.world.run_for(seconds(30));
    stage.nobody_else_dies(since, victims)
}
