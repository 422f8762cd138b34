//! Nodes come together, in whatever order they start.

use std::net::SocketAddr;
use std::time::Duration;

use rumord_sim::{Options, Start, World};

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
