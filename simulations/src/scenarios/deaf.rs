//! A member that receives nothing, one that sends nothing, and one that does neither.

use rumord::protocol::EventKind;

use super::Scenario;
use super::stage::{Stage, milliseconds, seconds, tolerance};
use crate::process::ProcessId;
use crate::rules::{Carried, RuleId};
use crate::world::World;

pub(super) const DEAF: Scenario = Scenario {
    name: "deaf",
    story: "one of 30 members receives nothing for two minutes: it alone is declared dead",
    play: |stage| {
        play(stage, |world, one| {
            vec![world.deafen(one, Carried::Everything)]
        })
    },
};

pub(super) const MUTE: Scenario = Scenario {
    name: "mute",
    story: "nothing that one of 30 members sends arrives for two minutes: it alone is dead",
    play: |stage| {
        play(stage, |world, one| {
            vec![world.mute(one, Carried::Everything)]
        })
    },
};

pub(super) const CUT_OFF: Scenario = Scenario {
    name: "cut-off",
    story: "one of 30 members is cut off for two minutes: it is declared dead and declares nobody",
    play: |stage| play(stage, |world, one| world.partition(&[one]).to_vec()),
};

fn play(
    stage: &mut Stage,
    impair: impl Fn(&mut World, ProcessId) -> Vec<RuleId>,
) -> Result<(), String> {
    let nodes = stage.settled(30);
    let (one, since) = (nodes[11], stage.world.now());
    let rules = impair(&mut stage.world, one);
    stage.within("declared dead everywhere after", seconds(10), |world| {
        world.everyone_buries(one)
    })?;
    let dead = (&[one][..], EventKind::MemberDead, since);
    let bound = tolerance() + milliseconds(1200);
    stage.each_within("first declared dead after", bound, dead)?;
    stage.world.run_for(seconds(110));
    stage.nobody_else_dies(since, &[one])?;
    for rule in rules {
        stage.world.lift(rule);
    }
    stage.within("all alive after the repair", seconds(10), World::all_alive)?;
    stage.world.run_for(seconds(30));
    stage.nobody_else_dies(since, &[one])
}
