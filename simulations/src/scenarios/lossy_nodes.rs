//! Ten of a thousand members lose most of what they send, or of what is sent to them.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::time::Duration;

use rumord::protocol::EventKind;

use super::Scenario;
use super::stage::{Stage, seconds};
use crate::process::ProcessId;
use crate::rules::{Carried, Effect, Hosts, Rule};
use crate::world::World;

/// How many members.
const MEMBERS: usize = 1000;
/// How many of them are lossy.
const LOSSY: usize = 10;
/// What they lose.
const SHARE: f64 = 0.8;
/// How long it is watched after the last was evicted.
const AFTERWARDS: Duration = Duration::from_secs(600);

pub(super) const BOTH: Scenario = Scenario {
    name: "lossy-nodes",
    story: "ten of 1,000 members lose 80 % both ways: these are evicted, once, and nobody else",
    play: |stage| play(stage, &[Way::In, Way::Out], seconds(10)),
};

pub(super) const INCOMING: Scenario = Scenario {
    name: "lossy-nodes-in",
    story: "ten of 1,000 members lose 80 % of what is sent to them: these are evicted, once",
    play: |stage| play(stage, &[Way::In], seconds(20)),
};

pub(super) const OUTGOING: Scenario = Scenario {
    name: "lossy-nodes-out",
    story: "ten of 1,000 members lose 80 % of what they send: these are evicted, once",
    play: |stage| play(stage, &[Way::Out], seconds(20)),
};

#[derive(Clone, Copy)]
enum Way {
    In,
    Out,
}

fn play(stage: &mut Stage, ways: &[Way], bound: Duration) -> Result<(), String> {
    let nodes = stage.full(MEMBERS);
    stage.world.run_for(seconds(30));
    let (lossy, healthy) = nodes.split_at(LOSSY);
    let since = stage.world.now();
    for &way in ways {
        lay(&mut stage.world, lossy, way);
    }
    stage.world.run_for(bound);
    stage.each_within(
        "evicted after",
        bound,
        (lossy, EventKind::MemberDead, since),
    )?;
    stage.nobody_else_dies(since, lossy)?;
    stage.world.run_for(AFTERWARDS);
    let most = evictions(&stage.world, lossy, healthy);
    stage.tell("evictions of one, seen by a healthy one", most);
    stage.nobody_else_dies(since, lossy)?;
    let buried = lossy.iter().all(|&one| buries(&stage.world, healthy, one));
    match (most, buried) {
        (1, true) => Ok(()),
        (1, false) => Err("a lossy member is not dead everywhere in the end".to_owned()),
        (times, _) => Err(format!("a lossy member was evicted {times} times")),
    }
}

/// Streams suffer like datagrams.
fn lay(world: &mut World, lossy: &[ProcessId], way: Way) {
    let addresses = lossy.iter().map(|&one| world.address(one));
    let lossy = Hosts::Only(addresses.collect::<BTreeSet<SocketAddr>>());
    let (from, to) = match way {
        Way::In => (Hosts::All, lossy),
        Way::Out => (lossy, Hosts::All),
    };
    world.lay(Rule {
        from,
        to,
        carried: Carried::Everything,
        effect: Effect::Lose(SHARE),
    });
}

/// How often the same healthy member has said that the same lossy one is dead, at most.
fn evictions(world: &World, lossy: &[ProcessId], healthy: &[ProcessId]) -> usize {
    let names: Vec<_> = lossy.iter().map(|&one| &world.process(one).name).collect();
    let mut counts = std::collections::BTreeMap::new();
    for news in world.news() {
        let dead = news.event.kind == EventKind::MemberDead;
        if dead && names.contains(&&news.event.member) && healthy.contains(&news.observer) {
            *counts
                .entry((news.observer, &news.event.member))
                .or_insert(0) += 1;
        }
    }
    counts.into_values().max().unwrap_or(0)
}

/// Whether all of `observers` show `subject` as dead.
fn buries(world: &World, observers: &[ProcessId], subject: ProcessId) -> bool {
    let dead = |&observer: &ProcessId| {
        let status = world.status(observer, subject);
        status.is_some_and(|status| !status.is_active())
    };
    observers.iter().all(dead)
}
