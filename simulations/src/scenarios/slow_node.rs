//! Lifeguard's interval experiment (Dadgar, Phillips and Currey, "Lifeguard: Local Health
//! Awareness for More Accurate Failure Detection", DSN 2018).
//!
//! Some of 128 members are blocked again and again: their timers run, and nothing goes in or out.
//! The authors ran a grid of counts, lengths and intervals, and give sums over it: SWIM declared
//! members dead wrongly 339,002 times, 1,326 times at members that were not blocked; Lifeguard
//! 5,193 and 25 times, with 110.6 % of the messages and 98.0 % of the bytes.

use std::time::Duration;

use rumord::protocol::{Direction, EventKind, Transport};
use rumord::time::Instant;

use super::Scenario;
use super::stage::Stage;
use crate::process::ProcessId;
use crate::world::World;

/// How many members.
const MEMBERS: usize = 128;
/// How long one combination runs.
const LENGTH: Duration = Duration::from_secs(60);
/// How long it is then watched.
const AFTERWARDS: Duration = Duration::from_secs(20);
/// How many are blocked, for how long, and how long they run in between; in milliseconds.
const COMBINATIONS: [(usize, u64, u64); 3] = [(4, 512, 64), (16, 2048, 64), (32, 8192, 4096)];

pub(super) const SCENARIO: Scenario = Scenario {
    name: "slow-node",
    story: "Lifeguard's experiment: some of 128 members are blocked on and off: no other dies",
    play,
};

/// Wrong deaths of one combination, and its cost.
struct Count {
    /// Announcements that a member is dead that was never blocked.
    healthy: usize,
    /// Announcements that a blocked member is dead, by all.
    blocked: usize,
    /// Those by members that were not blocked.
    blocked_at_healthy: usize,
    load: (u64, u64),
}

fn play(stage: &mut Stage) -> Result<(), String> {
    let calm = run(stage, 0, Duration::ZERO, LENGTH);
    tell_load(stage, "nobody blocked", calm.load, calm.load);
    let mut healthy = 0;
    for (count, blocked, between) in COMBINATIONS {
        let [length, interval] = [blocked, between].map(Duration::from_millis);
        let seen = run(stage, count, length, interval);
        let what = format!("{count} blocked {blocked} ms, not {between} ms");
        let (all, at) = (seen.blocked, seen.blocked_at_healthy);
        let figure = format!(
            "{} others dead; blocked {all}, at others {at}",
            seen.healthy
        );
        stage.tell(&what, figure);
        tell_load(stage, "  its load", seen.load, calm.load);
        healthy += seen.healthy;
    }
    stage.tell(
        "paper, whole grid: SWIM",
        "339,002 wrong deaths, 1,326 at others",
    );
    stage.tell(
        "paper, whole grid: Lifeguard",
        "5,193 wrong deaths, 25 at others",
    );
    stage.tell("  its load", "110.6 % messages, 98.0 % bytes of SWIM's");
    match healthy {
        0 => Ok(()),
        some => Err(format!(
            "{some} wrong announcements that a healthy member is dead"
        )),
    }
}

fn run(stage: &mut Stage, count: usize, length: Duration, interval: Duration) -> Count {
    let nodes = stage.full(MEMBERS);
    let (slow, since, before) = (&nodes[..count], stage.world.now(), load(&stage.world));
    let world = &mut stage.world;
    while world.now().since(since) < LENGTH {
        for &node in slow {
            world.block_io(node, length);
        }
        world.run_for(length + interval);
    }
    world.run_for(AFTERWARDS);
    let (after, length) = (load(world), world.now().since(since));
    let share = LENGTH.as_secs_f64() / length.as_secs_f64();
    let scaled = |sent: u64| (sent as f64 * share) as u64;
    Count {
        load: (scaled(after.0 - before.0), scaled(after.1 - before.1)),
        ..deaths(world, slow, since)
    }
}

fn deaths(world: &World, slow: &[ProcessId], since: Instant) -> Count {
    let names: Vec<_> = slow.iter().map(|&id| &world.process(id).name).collect();
    let (mut healthy, mut blocked, mut blocked_at_healthy) = (0, 0, 0);
    for news in world.news() {
        if news.at < since || news.event.kind != EventKind::MemberDead {
            continue;
        }
        if names.contains(&&news.event.member) {
            blocked += 1;
            blocked_at_healthy += usize::from(!slow.contains(&news.observer));
        } else {
            healthy += 1;
        }
    }
    Count {
        healthy,
        blocked,
        blocked_at_healthy,
        load: (0, 0),
    }
}

/// Datagrams sent by all, and the bytes of their payload.
fn load(world: &World) -> (u64, u64) {
    let datagrams = (Direction::Sent, Transport::Datagram);
    let bytes = world.total(|stats| stats.bytes.get(datagrams));
    (world.tally().sent, bytes)
}

fn tell_load(stage: &mut Stage, what: &str, load: (u64, u64), calm: (u64, u64)) {
    let per_member = |sent: u64| sent as f64 / (MEMBERS as f64 * LENGTH.as_secs_f64());
    let percent = |part: u64, whole: u64| 100.0 * part as f64 / whole.max(1) as f64;
    let (messages, bytes) = (per_member(load.0), per_member(load.1));
    let [more, larger] = [(load.0, calm.0), (load.1, calm.1)].map(|(a, b)| percent(a, b));
    let figure = format!(
        "{messages:.1} datagrams, {bytes:.0} B per member-second ({more:.0} %, {larger:.0} %)"
    );
    stage.tell(what, figure);
}
