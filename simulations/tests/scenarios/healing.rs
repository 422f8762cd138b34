//! Partitions that heal without burying the living: what each side is told of itself.

use std::time::Duration;

use rumord::member::Status;
use rumord::protocol::{Config, EventKind};
use rumord::time::Instant;
use rumord_sim::{Link, Options, ProcessId, RuleId, World};

use crate::stage::{checking, other_deaths, seconds, summary};

/// The two sides of a cut, and when it was healed.
struct Cut<'a> {
    sides: [&'a [ProcessId]; 2],
    rules: [RuleId; 2],
}

/// Cuts the cluster in two and runs until each side holds all of the other dead.
fn cut<'a>(world: &mut World, nodes: &'a [ProcessId], left: usize) -> Cut<'a> {
    let (left, right) = nodes.split_at(left);
    let rules = world.partition(left);
    let buried = |world: &World, observers: &[ProcessId], others: &[ProcessId]| {
        observers.iter().all(|&observer| {
            others
                .iter()
                .all(|&other| world.status(observer, other) == Some(Status::Dead))
        })
    };
    within(world, seconds(600.0), |world| {
        buried(world, left, right) && buried(world, right, left)
    })
    .expect("each side buries the other");
    world.run_for(seconds(1.0));
    Cut {
        sides: [left, right],
        rules,
    }
}

/// How long it takes until `holds`. In a large cluster the question itself takes long, and is asked
/// at every hundredth of a second only.
fn within(
    world: &mut World,
    bound: Duration,
    mut holds: impl FnMut(&World) -> bool,
) -> Option<Duration> {
    if world.up().count() <= 100 {
        return world.run_until(bound, holds);
    }
    let start = world.now();
    while world.now().since(start) < bound {
        if holds(world) {
            return Some(world.now().since(start));
        }
        world.run_for(Duration::from_millis(10));
    }
    None
}

fn heal(world: &mut World, cut: &Cut) -> Instant {
    for rule in cut.rules {
        world.lift(rule);
    }
    world.now()
}

/// (observer, member) pairs of one side in which the observer reported the member dead.
fn false_deaths(world: &World, cut: &Cut, since: Instant) -> usize {
    let of = |side: &[ProcessId]| {
        let names: std::collections::BTreeSet<_> = side
            .iter()
            .map(|&id| world.process(id).name.clone())
            .collect();
        let said = world.news().filter(|news| {
            news.at >= since
                && news.event.kind == EventKind::MemberDead
                && side.contains(&news.observer)
                && names.contains(&news.event.member)
        });
        said.count()
    };
    cut.sides.iter().map(|side| of(side)).sum()
}

/// Heals halves of `count` at this loss; how long until all see all alive, and the share of pairs
/// that were falsely dead on the way.
fn halves(seed: u64, count: usize, loss: f64, config: Config) -> (Duration, f64) {
    let usual = if config == Config::wan() {
        Link::WAN
    } else {
        Link::LAN
    };
    let mut world = World::new(Options {
        link: usual.losing(loss),
        config,
        checking: checking(count),
        ..Options::seeded(seed)
    });
    let nodes = world.start_full(count);
    world.run_for(seconds(30.0));
    let cut = cut(&mut world, &nodes, count / 2);
    let healed = heal(&mut world, &cut);
    let took = within(&mut world, seconds(30.0), World::all_alive)
        .unwrap_or_else(|| panic!("seed {seed}: not healed"));
    world.run_for(seconds(20.0));
    assert!(world.all_alive(), "seed {seed}");
    let pairs = (count * (count - 1)) as f64;
    (took, false_deaths(&world, &cut, healed) as f64 / pairs)
}

/// The smallest cluster in which a side has somebody to lose, and larger ones: nobody is ever
/// reported dead by its own side, though each side holds the other dead when they meet again.
#[test]
fn no_side_buries_its_own_when_a_partition_heals() {
    for (count, seeds) in [(4, 20), (10, 10), (40, 2)] {
        for loss in [0.0, 0.1] {
            let mut times = Vec::new();
            for seed in 1..=seeds {
                let (took, falsely) = halves(seed, count, loss, Config::lan());
                assert_eq!(falsely, 0.0, "seed {seed}: {count} at loss {loss}");
                assert!(
                    took <= seconds(2.0),
                    "seed {seed}: {count} at {loss}: {took:?}"
                );
                times.push(took);
            }
            println!(
                "{count} in halves at loss {loss}: healed after {}",
                summary(times)
            );
        }
    }
}

/// Between sites everything takes longer, also to refute.
#[test]
fn a_wide_cluster_heals_as_well() {
    for seed in 1..=5 {
        let (took, falsely) = halves(seed, 10, 0.02, Config::wan());
        assert_eq!(falsely, 0.0, "seed {seed}");
        assert!(took <= seconds(4.0), "seed {seed}: {took:?}");
    }
}

/// A hundred, and a thousand, in halves: `cargo test --release -p rumord-sim --test scenarios
/// large_halves -- --ignored --nocapture`.
#[test]
#[ignore = "takes a quarter of an hour in a release build"]
fn large_halves_heal_within_two_seconds() {
    for (count, seeds) in [(100, 10), (1000, 2)] {
        for loss in [0.0, 0.1] {
            for seed in 1..=seeds {
                let (took, falsely) = halves(seed, count, loss, Config::lan());
                println!(
                    "{count} at loss {loss}, seed {seed}: {took:?}, falsely dead {:.4} %",
                    falsely * 100.0
                );
                assert!(took <= seconds(2.0) && falsely < 0.01);
            }
        }
    }
}

/// Who really died on the other side during the partition is buried on this side too, a moment
/// after the healing, and nobody else is.
#[test]
fn real_deaths_are_learnt_when_a_partition_heals() {
    for seed in 1..=10 {
        let mut world = World::new(Options::seeded(seed));
        let nodes = world.start_cluster(12);
        world.run_for(seconds(20.0));
        let cut = cut(&mut world, &nodes, 6);
        let healed = heal(&mut world, &cut);
        // These end as the two sides begin to talk: each side still holds its own alive.
        for gone in [nodes[5], nodes[11]] {
            world.crash(gone);
        }
        let known = world.run_until(seconds(20.0), |world| {
            let buried = [nodes[5], nodes[11]];
            buried.iter().all(|&gone| world.everyone_buries(gone)) && world.all_alive()
        });
        assert!(known.is_some(), "seed {seed}: {:?}", world.matrix());
        let wrong = other_deaths(&world, healed, &[nodes[5], nodes[11]]);
        assert_eq!(wrong, [""; 0], "seed {seed}");
    }
}

/// Verdicts from across are kept aside for as long as it takes to refute them, and none is left.
#[test]
fn what_is_held_is_settled() {
    for seed in 1..=10 {
        let mut world = World::new(Options::seeded(seed));
        let nodes = world.start_cluster(8);
        world.run_for(seconds(20.0));
        let cut = cut(&mut world, &nodes, 4);
        heal(&mut world, &cut);
        let held = world.run_until(seconds(5.0), |world| {
            let verdicts = |id: &ProcessId| world.process(*id).node.state().held_verdicts;
            nodes.iter().any(|id| verdicts(id) > 0)
        });
        assert!(held.is_some(), "seed {seed}");
        let left_over = world.run_until(seconds(3.0), |world| {
            let verdicts = |id: &ProcessId| world.process(*id).node.state().held_verdicts;
            nodes.iter().all(|id| verdicts(id) == 0) && world.all_alive()
        });
        assert!(left_over.is_some(), "seed {seed}: {:?}", world.matrix());
    }
}
