//! What one member sent is kept back, and arrives up to fifteen seconds late.

use rumord::protocol::EventKind;

use super::Scenario;
use super::stage::{Stage, seconds, tolerance};
use crate::process::ProcessId;
use crate::rules::{Carried, Effect, Hosts, Rule, RuleId};
use crate::world::{Restart, World};

/// How long the first of them are kept back.
const KEPT: u64 = 15;

pub(super) const SCENARIO: Scenario = Scenario {
    name: "stale-messages",
    story: "datagrams of three of 20 members arrive 15 s late: they revive and delay nothing",
    play,
};

fn play(stage: &mut Stage) -> Result<(), String> {
    let nodes = stage.settled(20);
    after_a_restart(stage, &nodes)?;
    stage.world.run_for(seconds(30));
    // After the verdict; while it is prepared; and shortly before.
    for (victim, early) in [(nodes[2], 8), (nodes[5], 3), (nodes[7], 5)] {
        after_a_crash(stage, &nodes, victim, early)?;
    }
    Ok(())
}

fn after_a_restart(stage: &mut Stage, nodes: &[ProcessId]) -> Result<(), String> {
    let (deaf, restarted, since) = (nodes[4], nodes[9], stage.world.now());
    let rule = hold(&mut stage.world, restarted, &[deaf]);
    stage.world.run_for(seconds(5));
    stage.world.crash(restarted);
    let back: ProcessId = stage.world.restart(restarted, Restart::default());
    stage.within("its new life is known after", seconds(5), |world| {
        world.everyone_sees_life(back)
    })?;
    stage.world.run_for(seconds(10));
    stage.tell("datagrams kept back", stage.world.held());
    stage.world.lift(rule);
    stage.world.run_for(seconds(5));
    stage.within("all alive after they came", seconds(1), World::all_alive)?;
    stage.nobody_else_dies(since, &[])
}

/// What `victim` sent to half of the others arrives so many seconds after its crash.
fn after_a_crash(
    stage: &mut Stage,
    nodes: &[ProcessId],
    victim: ProcessId,
    after: u64,
) -> Result<(), String> {
    let others: Vec<ProcessId> = nodes.iter().copied().filter(|&id| id != victim).collect();
    let rule = hold(&mut stage.world, victim, &others[..others.len() / 2]);
    stage.world.run_for(seconds(KEPT - after));
    let since = stage.world.now();
    stage.world.crash(victim);
    stage.world.run_for(seconds(after));
    let what = format!("kept back until {after} s after a crash");
    stage.tell(&what, stage.world.held());
    stage.world.lift(rule);
    stage.world.run_for(seconds(20));
    let dead = (&[victim][..], EventKind::MemberDead, since);
    // Until the crash half of the members had no answer from it: as where much is lost.
    let bound = tolerance() + seconds(2);
    stage.each_within("  declared dead after", bound, dead)?;
    let revived = stage
        .world
        .news_of(victim, EventKind::MemberUp, since)
        .count();
    if revived > 0 || !stage.world.everyone_buries(victim) {
        return Err(format!("{revived} members have revived the dead"));
    }
    Ok(())
}

fn hold(world: &mut World, from: ProcessId, to: &[ProcessId]) -> RuleId {
    world.lay(Rule {
        from: Hosts::one(world.address(from)),
        to: to.iter().map(|&id| world.address(id)).collect(),
        carried: Carried::Datagrams,
        effect: Effect::Hold,
    })
}
