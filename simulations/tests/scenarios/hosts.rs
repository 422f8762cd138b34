//! Hosts with too little processor time, and hosts whose timers are late.

use std::time::Duration;

use rumord::protocol::SuspicionOutcome;
use rumord::time::Instant;
use rumord_sim::trace::Tracing;
use rumord_sim::{Lateness, Options, ProcessId, World};

use crate::stage::{deaths, other_deaths, seconds, settled};

/// The tick of a host with coarse timers.
const TICK: Duration = Duration::from_micros(15_625);

/// The lines about `node` with this verb, as (instant, rest), both in seconds where they are such.
fn traced(world: &World, node: ProcessId, verb: &str) -> Vec<(f64, String)> {
    let whose = format!("{}/{node}", world.process(node).name);
    let lines = world.trace().lines().filter_map(|line| {
        let mut parts = line.splitn(4, ' ');
        let (at, who, what) = (parts.next()?, parts.next()?, parts.next()?);
        let rest = parts.next().unwrap_or_default().to_owned();
        (who == whose && what == verb).then(|| (at.parse().expect("seconds"), rest))
    });
    lines.collect()
}

fn traced_cluster(seed: u64, count: usize) -> (World, Vec<ProcessId>) {
    let mut world = World::new(Options {
        tracing: Tracing::On,
        ..Options::seeded(seed)
    });
    let nodes = world.start_cluster(count);
    (world, nodes)
}

/// Of 450 ms it runs for 50, in the mean, and afterwards all the time.
#[test]
fn a_starved_process_runs_a_ninth_of_the_time() {
    let (mut world, nodes) = traced_cluster(1, 3);
    world.starve(nodes[1], seconds(300.0));
    world.run_for(seconds(300.0));
    let stalls = traced(&world, nodes[1], "pause");
    let ends = traced(&world, nodes[1], "resume");
    assert_eq!(stalls.len(), ends.len());
    let still: f64 = (stalls.iter().zip(&ends))
        .map(|((a, _), (b, _))| b - a)
        .sum();
    assert!((0.85..0.92).contains(&(still / 300.0)), "{still} s");
    world.run_for(seconds(60.0));
    assert_eq!(traced(&world, nodes[1], "pause").len(), stalls.len());
}

/// hashicorp/consul#1180, #916: on small machines whose processor time was used up, busy members
/// took healthy ones for failed, because they were late in reading their answers.
#[test]
fn starved_members_live_and_accuse_nobody() {
    for (seed, count, starved) in [(1, 2, 1), (2, 3, 1), (3, 5, 2), (4, 20, 1), (5, 20, 5)] {
        let (mut world, nodes) = settled(seed, count);
        let since = world.now();
        for &node in &nodes[..starved] {
            world.starve(node, seconds(120.0));
        }
        world.run_for(seconds(120.0));
        assert_eq!(deaths(&world, since), [""; 0], "seed {seed}");
        let well = world.run_until(seconds(5.0), World::all_alive);
        assert!(well.is_some(), "seed {seed}: {:?}", world.matrix());
        for &node in &nodes[..starved] {
            let said = &world.process(node).node.stats().suspicions;
            let confirmed = said.get(SuspicionOutcome::Confirmed);
            assert_eq!(confirmed, 0, "seed {seed}");
        }
    }
}

/// The timers of one member, or of all, are late: nobody is accused, and crashes are found.
#[test]
fn late_timers_accuse_nobody_and_find_crashes() {
    let ways = [15.0, 100.0, 300.0].map(|ms| Lateness::Mean(seconds(ms / 1000.0)));
    for (seed, lateness) in (1..).zip(ways.into_iter().chain([Lateness::Grid(TICK)])) {
        for (count, late) in [(3, 1), (3, 3), (20, 1), (20, 20)] {
            let (mut world, nodes) = settled(seed, count);
            let since = world.now();
            for &node in &nodes[..late] {
                world.delay_timers(node, lateness);
            }
            world.run_for(seconds(120.0));
            assert_eq!(deaths(&world, since), [""; 0], "{count}, {late} {lateness}");
            let victim = nodes[count - 1];
            world.crash(victim);
            let found = world.run_until(seconds(30.0), |world| world.everyone_buries(victim));
            assert!(found.is_some(), "{count}, {late} {lateness}");
            world.run_for(seconds(10.0));
            let others = other_deaths(&world, since, &[victim]);
            assert_eq!(others, [""; 0], "{count}, {late} {lateness}");
        }
    }
}

#[test]
fn late_timers_are_late_and_pings_are_answered_at_once() {
    let (mut world, nodes) = traced_cluster(1, 3);
    world.delay_timers(nodes[1], Lateness::Mean(seconds(0.1)));
    let since = world.now().since(Instant::ORIGIN).as_secs_f64();
    world.run_for(seconds(300.0));
    let mut lateness = traced(&world, nodes[1], "wake");
    lateness.retain(|(at, _)| *at > since);
    let total: f64 = lateness
        .iter()
        .map(|(_, late)| late.parse::<f64>().expect("seconds"))
        .sum();
    let mean = total / lateness.len() as f64;
    assert!((0.06..0.12).contains(&mean), "{mean} s in the mean");
    let heard = traced(&world, nodes[1], "hear");
    let acks = traced(&world, nodes[1], "send");
    let acked = |at: f64| {
        acks.iter()
            .any(|(sent, what)| *sent == at && what.starts_with("ack"))
    };
    let pings: Vec<_> = heard
        .iter()
        .filter(|(_, what)| what.starts_with("ping "))
        .collect();
    assert!(pings.len() > 300, "{}", pings.len());
    assert!(pings.iter().all(|(at, _)| acked(*at)));
}

#[test]
fn coarse_timers_fire_at_ticks_only() {
    let (mut world, nodes) = traced_cluster(1, 3);
    world.run_for(seconds(1.0));
    world.delay_timers(nodes[1], Lateness::Grid(TICK));
    let since = world.now().since(Instant::ORIGIN).as_secs_f64();
    world.run_for(seconds(60.0));
    let wakes = traced(&world, nodes[1], "wake");
    let late: Vec<_> = wakes.iter().filter(|(at, _)| *at > since + 0.02).collect();
    assert!(late.len() > 60, "{}", late.len());
    for (at, _) in late {
        let ticks = at / TICK.as_secs_f64();
        assert!((ticks - ticks.round()).abs() < 1e-3, "{at} s is no tick");
    }
}
