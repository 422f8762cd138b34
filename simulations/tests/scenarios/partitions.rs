//! Clusters that fall apart and come together again by themselves.

use std::time::Duration;

use rumord::protocol::EventKind;
use rumord_sim::{ProcessId, World};

use crate::stage::{other_deaths, seconds, settled, summary};

/// Cuts `side` off for `length`; how long after the healing all see all alive.
fn cut_off(world: &mut World, side: &[ProcessId], length: Duration) -> Duration {
    let rules = world.partition(side);
    world.run_for(length);
    for rule in rules {
        world.lift(rule);
    }
    world
        .run_until(seconds(10.0), World::all_alive)
        .unwrap_or_else(|| panic!("{:?}", world.matrix()))
}

#[test]
fn halves_come_together_again() {
    for (count, length) in [(4, 60.0), (10, 60.0), (10, 600.0), (30, 60.0)] {
        let (mut times, mut wrong) = (Vec::new(), 0);
        for seed in 1..=10 {
            let (mut world, nodes) = settled(seed, count);
            let (left, right) = nodes.split_at(count / 2);
            let since = world.now();
            times.push(cut_off(&mut world, left, seconds(length)));
            world.run_for(seconds(30.0));
            assert!(world.all_alive(), "seed {seed}: {:?}", world.matrix());
            for side in [left, right] {
                wrong += accusations_within(&world, side, since);
            }
        }
        println!(
            "{count} in halves for {length} s: healed after {}",
            summary(times)
        );
        println!("{count} in halves for {length} s: dead on one's own side {wrong}");
    }
}

/// How many members of `side` were reported dead by members of `side`.
fn accusations_within(world: &World, side: &[ProcessId], since: rumord::time::Instant) -> usize {
    let accused = |&subject: &ProcessId| {
        world
            .news_of(subject, EventKind::MemberDead, since)
            .filter(|news| side.contains(&news.observer))
            .count()
    };
    side.iter().map(accused).sum()
}

#[test]
fn one_that_was_cut_off_comes_back() {
    let mut times = Vec::new();
    for seed in 1..=10 {
        let (mut world, nodes) = settled(seed, 20);
        let since = world.now();
        times.push(cut_off(&mut world, &nodes[3..4], seconds(60.0)));
        world.run_for(seconds(30.0));
        assert!(world.all_alive());
        assert_eq!(
            other_deaths(&world, since, &nodes[3..4]),
            [""; 0],
            "seed {seed}"
        );
    }
    println!("1 of 20 cut off for 60 s: healed after {}", summary(times));
}

#[test]
fn a_short_cut_kills_nobody() {
    for seed in 1..=10 {
        let (mut world, nodes) = settled(seed, 10);
        let since = world.now();
        cut_off(&mut world, &nodes[..5], seconds(4.5));
        world.run_for(seconds(30.0));
        assert_eq!(other_deaths(&world, since, &[]), [""; 0], "seed {seed}");
    }
}
