//! A process that stands still is not dead, and accuses nobody when it goes on.

use std::time::Duration;

use rumord::protocol::{EventKind, SuspicionOutcome};
use rumord::time::Instant;
use rumord_sim::{ProcessId, World};

use crate::stage::{deaths, other_deaths, seconds, settled, summary};

/// What a process may suffer for a while.
type Fault = fn(&mut World, ProcessId, Duration);

#[test]
fn whoever_stands_still_for_less_than_the_tolerance_lives() {
    let faults: [(&str, Fault); 3] = [
        ("pause", World::pause),
        ("outage", World::outage),
        ("blocked IO", World::block_io),
    ];
    for (what, fault) in faults {
        for length in [0.5, 2.0, 4.5, 4.9] {
            for (seed, count) in [(1, 2), (2, 3), (3, 5), (4, 20), (5, 20), (6, 5)] {
                let (mut world, nodes) = settled(seed, count);
                world.run_for(Duration::from_millis(seed * 211 % 1000));
                fault(&mut world, nodes[seed as usize % count], seconds(length));
                world.run_for(seconds(30.0));
                let dead = deaths(&world, Instant::ORIGIN);
                assert_eq!(dead, [""; 0], "{what} of {length} s, seed {seed}");
                assert!(world.all_alive(), "{what} of {length} s, seed {seed}");
            }
        }
    }
}

/// Half of the cluster stands still at once, as after a snapshot of the host.
#[test]
fn many_that_stand_still_together_accuse_nobody() {
    for seed in 1..=5 {
        let (mut world, nodes) = settled(seed, 20);
        for &node in &nodes[..10] {
            world.pause(node, seconds(4.5));
        }
        world.run_for(seconds(30.0));
        assert_eq!(deaths(&world, Instant::ORIGIN), [""; 0], "seed {seed}");
        assert!(world.all_alive());
    }
}

#[test]
fn a_minute_is_a_death_that_is_refuted() {
    let mut times = Vec::new();
    for (seed, count) in [(1, 3), (2, 3), (3, 5), (4, 20), (5, 20)] {
        let (mut world, nodes) = settled(seed, count);
        let sleeper = nodes[1];
        let since = world.now();
        world.pause(sleeper, seconds(60.0));
        world.run_for(seconds(59.0));
        assert!(world.up().all(|process| {
            process.id == sleeper
                || world
                    .status(process.id, sleeper)
                    .is_some_and(|s| !s.is_active())
        }));
        world.run_for(seconds(1.0));
        let back = world.run_until(seconds(10.0), World::all_alive);
        times.push(back.unwrap_or_else(|| panic!("seed {seed}: {:?}", world.matrix())));
        world.run_for(seconds(20.0));
        assert_eq!(
            other_deaths(&world, since, &[sleeper]),
            [""; 0],
            "seed {seed}"
        );
        let woke = world.process(sleeper).node.stats();
        assert_eq!(woke.suspicions.get(SuspicionOutcome::Confirmed), 0);
        let twice = world.news_of(sleeper, EventKind::MemberDead, since).count();
        assert_eq!(twice, count - 1, "seed {seed}: once per observer");
    }
    println!("back after a pause of 60 s: {}", summary(times));
}

/// Lifeguard's anomaly: timers run, nothing goes in or out. Whatever it concludes stays with it.
#[test]
fn blocked_io_for_a_minute_harms_nobody_else() {
    for (seed, count) in [(1, 3), (2, 5), (3, 20), (4, 20)] {
        let (mut world, nodes) = settled(seed, count);
        let since = world.now();
        world.block_io(nodes[0], seconds(60.0));
        world.run_for(seconds(60.0));
        let back = world.run_until(seconds(10.0), World::all_alive);
        assert!(back.is_some(), "seed {seed}: {:?}", world.matrix());
        assert_eq!(
            other_deaths(&world, since, &nodes[..1]),
            [""; 0],
            "seed {seed}"
        );
    }
}
