//! A crash is found in time, once, and nobody else is accused.

use std::time::Duration;

use rumord::protocol::{Config, EventKind};
use rumord::time::Instant;
use rumord_sim::{ProcessId, Restart, World};

use crate::stage::{other_deaths, seconds, settled, summary, views};

/// A verdict comes at most this much after the pause tolerance. Each member is probed by somebody
/// once a period in the mean, and at random: one in 3,000 waits for eight.
const VERDICT_LATEST: Duration = Duration::from_secs(9);
/// In the mean it comes this much after the pause tolerance.
const VERDICT_MEAN: Duration = Duration::from_millis(1300);
/// All know this much after the first verdict.
const KNOWN_LATEST: Duration = Duration::from_secs(1);

#[test]
fn a_crash_is_found_in_clusters_of_every_size() {
    for (count, seeds) in [(2, 40), (3, 40), (5, 40), (20, 20), (128, 12)] {
        let mut found = Found::default();
        for seed in 1..=seeds {
            crash_one(seed, count, &mut found);
        }
        let mean = found.dead.iter().sum::<Duration>() / found.dead.len() as u32;
        let latest = Config::lan().pause_tolerance + VERDICT_MEAN;
        assert!(mean < latest, "N = {count}: {mean:?}");
        println!(
            "crash of one in {count}: first suspect {}",
            summary(found.suspect)
        );
        println!(
            "crash of one in {count}: first dead    {}",
            summary(found.dead)
        );
        println!(
            "crash of one in {count}: all know after {}",
            summary(found.known)
        );
    }
}

#[derive(Default)]
struct Found {
    suspect: Vec<Duration>,
    dead: Vec<Duration>,
    known: Vec<Duration>,
}

fn crash_one(seed: u64, count: usize, found: &mut Found) {
    let (mut world, nodes) = settled(seed, count);
    // Crashes at all points of a probe period.
    world.run_for(Duration::from_millis(seed * 137 % 1000));
    let victim = nodes[seed as usize % count];
    let crashed = world.now();
    world.crash(victim);
    let tolerance = Config::lan().pause_tolerance;
    world
        .run_until(tolerance + VERDICT_LATEST, |world| {
            first(world, victim, EventKind::MemberDead, crashed).is_some()
        })
        .unwrap_or_else(|| panic!("seed {seed}, N = {count}: no verdict"));
    let known = world.run_until(KNOWN_LATEST, |world| world.everyone_buries(victim));
    found
        .known
        .push(known.unwrap_or_else(|| panic!("seed {seed}, N = {count}: {:?}", world.matrix())));
    world.run_for(seconds(10.0));
    let said = |kind| first(&world, victim, kind, crashed).unwrap_or(Instant::FAR_FUTURE);
    let (suspect, dead) = (said(EventKind::MemberSuspect), said(EventKind::MemberDead));
    assert!(suspect < dead, "seed {seed}, N = {count}");
    assert_eq!(other_deaths(&world, Instant::ORIGIN, &[victim]), [""; 0]);
    found.suspect.push(suspect.since(crashed));
    found.dead.push(dead.since(crashed));
}

/// When somebody first said `kind` of `subject`.
fn first(world: &World, subject: ProcessId, kind: EventKind, since: Instant) -> Option<Instant> {
    world
        .news_of(subject, kind, since)
        .map(|news| news.at)
        .min()
}

/// The survivor of three has no witness left: what it concludes is its own, and taken back.
#[test]
fn the_last_of_three_concludes_for_itself() {
    for seed in 1..=10 {
        let (mut world, nodes) = settled(seed, 3);
        let [survivor, one, other] = nodes[..] else {
            panic!("three nodes");
        };
        let crashed = world.now();
        world.crash(one);
        world.crash(other);
        let alone = world.run_until(seconds(16.0), |world| {
            [one, other].iter().all(|&id| world.everyone_buries(id))
        });
        let alone = alone
            .unwrap_or_else(|| panic!("seed {seed}: {:?}", views(&world, survivor, &[one, other])));
        assert!(alone >= seconds(10.0), "seed {seed}: {alone:?}");
        assert!(world.process(survivor).node.state().isolated);
        assert_eq!(other_deaths(&world, crashed, &[]), [""; 0], "told nobody");
        let back = [one, other].map(|id| world.restart(id, Restart::default()));
        let together = world.run_until(seconds(5.0), World::all_alive);
        assert!(
            together.is_some(),
            "seed {seed}: {:?}",
            views(&world, survivor, &back)
        );
        let regained = world.run_until(seconds(3.0), |world| {
            !world.process(survivor).node.state().isolated
        });
        assert!(regained.is_some(), "seed {seed}: still isolated");
    }
}

/// A quarter of the cluster at once.
#[test]
fn a_quarter_of_the_cluster_crashes() {
    let (mut world, nodes) = settled(1, 40);
    let crashed = world.now();
    let victims = &nodes[..10];
    for &victim in victims {
        world.crash(victim);
    }
    let buried = world.run_until(seconds(20.0), |world| {
        victims.iter().all(|&victim| world.everyone_buries(victim))
    });
    let buried = buried.unwrap_or_else(|| panic!("{:?}", world.matrix()));
    println!("10 of 40 crash: all dead everywhere after {buried:?}");
    assert_eq!(other_deaths(&world, crashed, victims), [""; 0]);
}
