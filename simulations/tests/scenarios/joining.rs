//! Nodes come together, in whatever order they start.

use std::net::SocketAddr;
use std::time::Duration;

use rumord::member::{Generation, Status};
use rumord_sim::rules::Carried;
use rumord_sim::{Options, ProcessId, Start, World};

use crate::stage::{cluster, seconds, summary};

#[test]
fn all_join_through_one() {
    for count in [3, 20, 100] {
        let times: Vec<Duration> = (1..=5).map(|seed| join_through_one(seed, count)).collect();
        println!("join of {count} through one: {}", summary(times));
    }
}

fn join_through_one(seed: u64, count: usize) -> Duration {
    let mut world = World::new(Options::seeded(seed));
    let first = world.start(Start::named("n1"));
    world.run_for(seconds(1.0));
    for n in 2..=count {
        world.start(Start::named(&format!("n{n}")).joining([world.address(first)]));
    }
    world
        .run_until(seconds(30.0), World::all_alive)
        .unwrap_or_else(|| panic!("seed {seed}: {:?}", world.matrix()))
}

/// hashicorp/consul#2868, grafana/agent#4465: every node has the same list, itself included.
#[test]
fn three_with_one_list_come_together_in_every_order() {
    let orders = [
        [0, 1, 2],
        [0, 2, 1],
        [1, 0, 2],
        [1, 2, 0],
        [2, 0, 1],
        [2, 1, 0],
    ];
    for (seed, order) in (1..).zip(orders) {
        for gap in [0.0, 0.0004, 0.2, 3.0, 90.0] {
            start_in_order(seed, order, seconds(gap));
        }
    }
}

fn start_in_order(seed: u64, order: [u16; 3], gap: Duration) {
    let address = |n: u16| SocketAddr::from(([10, 1, 0, 1], 7000 + n));
    let mut world = World::new(Options::seeded(seed));
    for n in order {
        let start = Start {
            address: Some(address(n)),
            ..Start::named(&format!("n{n}"))
        };
        world.start(start.joining([0, 1, 2].map(address)));
        world.run_for(gap);
    }
    let together = world.run_until(seconds(20.0), |world| {
        world.all_alive() && world.up().all(|process| process.node.state().ready)
    });
    assert!(
        together.is_some(),
        "{order:?} after {gap:?}: {:?}",
        world.matrix()
    );
}

#[test]
fn fifty_that_start_at_one_instant_come_together() {
    let mut times = Vec::new();
    for seed in 1..=5 {
        let address = |n: u16| SocketAddr::from(([10, 1, 0, 1], 7000 + n));
        let mut world = World::new(Options::seeded(seed));
        for n in 0..50 {
            let start = Start {
                address: Some(address(n)),
                ..Start::named(&format!("n{n}"))
            };
            world.start(start.joining([0, 1, 2].map(address)));
        }
        let together = world.run_until(seconds(20.0), World::all_alive);
        times.push(together.unwrap_or_else(|| panic!("seed {seed}: apart")));
    }
    println!("50 at one instant with one list: {}", summary(times));
}

/// Their clocks run apart by a second a day, and nobody minds.
#[test]
fn clocks_that_drift_accuse_nobody() {
    let (mut world, nodes) = cluster(3, 5);
    for (n, drift_ppm) in [(6, 100_000), (7, -100_000), (8, 12)] {
        let start = Start {
            drift_ppm,
            ..Start::named(&format!("n{n}"))
        };
        world.start(start.joining([world.address(nodes[0])]));
    }
    world.run_for(seconds(300.0));
    assert!(world.all_alive());
    assert_eq!(
        crate::stage::deaths(&world, rumord::time::Instant::ORIGIN),
        [""; 0]
    );
}

/// A restarted node hears no streams, and then its only join address is gone for good: everybody
/// lists its new life, which answered their pings for the old one, and only it does not know.
#[test]
fn who_is_listed_without_knowing_joins_through_who_pings_it() {
    for seed in 1..=10 {
        let (mut world, nodes) = cluster(seed, 4);
        let (seed_node, before) = (nodes[0], world.process(nodes[3]));
        let again = Start {
            generation: Some(Generation(before.generation.0 + 1)),
            node_id: Some(before.node_id),
            address: Some(before.address),
            ..Start::named(before.name.as_str())
        };
        let again = again.joining([world.address(seed_node)]);
        world.crash(nodes[3]);
        let back = world.start(again);
        let deaf = world.deafen(back, Carried::Streams);
        let listed = |world: &World| nodes[..3].iter().all(|&node| lists(world, node, back));
        let listed = world.run_until(seconds(8.0), listed);
        assert!(listed.is_some(), "seed {seed}");
        assert!(!world.process(back).node.state().ready);
        world.crash(seed_node);
        world.run_for(seconds(1.0));
        world.lift(deaf);
        let ready = world.run_until(seconds(15.0), |world| {
            world.process(back).node.state().ready
        });
        assert!(ready.is_some(), "seed {seed}");
    }
}

/// Whether `observer` holds the present life of `subject` for alive.
fn lists(world: &World, observer: ProcessId, subject: ProcessId) -> bool {
    let subject = world.process(subject);
    let held = world.process(observer).node.record_of(&subject.name);
    held.is_some_and(|held| {
        let standing = held.standing;
        standing.status == Status::Alive && standing.generation == subject.generation
    })
}
