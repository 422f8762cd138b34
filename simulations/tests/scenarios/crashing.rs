//! A crash is found in time, once, and nobody else is accused.

use std::time::Duration;

use rumord::protocol::{Config, EventKind, Schedule};
use rumord::time::Instant;
use rumord_sim::{Options, ProcessId, Restart, World};

use crate::stage::{other_deaths, seconds, settled, summary, views};

/// All know this much after the first verdict.
const KNOWN_LATEST: Duration = Duration::from_secs(1);

/// What a schedule promises: a verdict so long after the pause tolerance.
struct Promise {
    schedule: Schedule,
    mean: Duration,
    latest: Duration,
}

/// Each member is probed once in each of its periods.
const SLOTS: Promise = Promise {
    schedule: Schedule::Slots,
    mean: Duration::from_millis(900),
    latest: Duration::from_millis(1500),
};
/// Each member is probed once a period in the mean, at random: one in 3,000 waits for eight.
const ROUND_ROBIN: Promise = Promise {
    schedule: Schedule::RoundRobin,
    mean: Duration::from_millis(1500),
    latest: Duration::from_secs(9),
};

#[test]
fn a_crash_is_found_in_clusters_of_every_size() {
    for promise in [SLOTS, ROUND_ROBIN] {
        for (count, seeds) in [(2, 40), (3, 40), (5, 40), (20, 20), (128, 6)] {
            find_crashes(&promise, count, seeds);
        }
    }
}

fn find_crashes(promise: &Promise, count: usize, seeds: u64) {
    let mut found = Found::default();
    for seed in 1..=seeds {
        crash_one(promise, seed, count, &mut found);
    }
    let mean = found.dead.iter().sum::<Duration>() / found.dead.len() as u32;
    let title = format!("{}: crash of one in {count}", promise.schedule.as_str());
    println!("{title}: first suspect {}", summary(found.suspect));
    println!("{title}: first dead    {}", summary(found.dead));
    println!("{title}: all know after {}", summary(found.known));
    assert!(
        mean <= Config::lan().pause_tolerance + promise.mean,
        "{title}: {mean:?}"
    );
}

#[derive(Default)]
struct Found {
    suspect: Vec<Duration>,
    dead: Vec<Duration>,
    known: Vec<Duration>,
}

fn crash_one(promise: &Promise, seed: u64, count: usize, found: &mut Found) {
    let config = Config {
        schedule: promise.schedule,
        ..Config::lan()
    };
    let mut world = World::new(Options {
        config,
        ..Options::seeded(seed)
    });
    let nodes = world.start_cluster(count);
    // Crashes at all points of a probe period.
    world.run_for(seconds(60.0) + Duration::from_millis(seed * 137 % 1000));
    let victim = nodes[seed as usize % count];
    let crashed = world.now();
    world.crash(victim);
    let tolerance = Config::lan().pause_tolerance;
    world
        .run_until(tolerance + promise.latest, |world| {
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

/// A member in a crash loop: what its earlier lives did not answer is no loss, and must not teach
/// the others that the network is bad.
#[test]
fn the_tenth_crash_of_a_member_is_found_as_soon_as_the_first() {
    for count in [3, 20] {
        let (mut world, nodes) = settled(1, count);
        let mut victim = nodes[1];
        for crash in 1..=10 {
            let crashed = world.now();
            world.crash(victim);
            let buried = world.run_until(seconds(6.5), |world| world.everyone_buries(victim));
            assert!(
                buried.is_some(),
                "crash {crash} of one in {count}: {:?}",
                world.matrix()
            );
            victim = world.restart(victim, Restart::default());
            world.run_for(seconds(3.5));
            assert_eq!(other_deaths(&world, crashed, &[victim]), [""; 0]);
        }
    }
}

/// It had joined, and died before it had answered a single ping: nobody has any experience of it.
#[test]
fn a_member_that_never_answered_is_buried_too() {
    for count in [2, 3, 4, 20] {
        for seed in 1..=10 {
            let mut world = World::new(Options::seeded(seed));
            let nodes = world.start_cluster(count);
            let victim = nodes[count - 1];
            world.crash(victim);
            let buried = world.run_until(seconds(12.0), |world| world.everyone_buries(victim));
            assert!(
                buried.is_some(),
                "seed {seed}, N = {count}: {:?}",
                world.matrix()
            );
            assert_eq!(other_deaths(&world, Instant::ORIGIN, &[victim]), [""; 0]);
        }
    }
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
