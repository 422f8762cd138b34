//! The dead stay dead: after long cuts, long sleeps, by drifting clocks; nothing is kept for ever.

use std::time::Duration;

use rumord::member::Status;
use rumord::protocol::{Config, Event, EventKind};
use rumord::time::Instant;
use rumord_sim::{Link, Options, ProcessId, Start, World};

use crate::stage::{assert_each_said, seconds};

/// Tombstones are told for a minute and held for two; a quarter of that is half a minute.
const RETENTION: f64 = 60.0;

fn world(seed: u64) -> World {
    World::new(Options {
        config: Config {
            dead_retention: seconds(RETENTION),
            ..Config::lan()
        },
        ..Options::seeded(seed)
    })
}

fn settled(seed: u64, count: usize) -> (World, Vec<ProcessId>) {
    let mut world = world(seed);
    let nodes = world.start_cluster(count);
    world.run_for(seconds(30.0));
    (world, nodes)
}

/// How many said since `since` that `whom` is alive.
fn risings(world: &World, whom: ProcessId, since: Instant) -> usize {
    world.news_of(whom, EventKind::MemberUp, since).count()
}

fn is_listed(world: &World, whom: ProcessId) -> bool {
    let name = &world.process(whom).name;
    let mut up = world.up();
    up.any(|observer| observer.node.status_of(name).is_some())
}

fn started_over(world: &World, id: ProcessId) -> bool {
    let events = &world.process(id).events;
    let said = |event: &Event| matches!(event, Event::StartedOver { .. });
    events.iter().any(|(_, event)| said(event))
}

/// The dead are listed for their retention, and nobody knows them after twice that, however often
/// the table is exchanged: no adoption makes a death younger.
#[test]
fn a_death_ages_on_whoever_learns_it() {
    for seed in 1..=5 {
        let (mut world, nodes) = settled(seed, 5);
        world.crash(nodes[4]);
        world.run_until(seconds(20.0), |world| world.everyone_buries(nodes[4]));
        // Somebody joins every ten seconds and is given the tombstone.
        let mut newcomers = Vec::new();
        for n in 0..8 {
            let start = Start::named(&format!("late{n}")).joining([world.address(nodes[0])]);
            newcomers.push(world.start(start));
            world.run_for(seconds(10.0));
        }
        assert!(
            !is_listed(&world, nodes[4]),
            "seed {seed}: {:?}",
            world.matrix()
        );
        let since = world.now();
        world.run_for(seconds(3.0 * RETENTION));
        assert!(!is_listed(&world, nodes[4]));
        assert_each_said(&world, nodes[4], EventKind::MemberDead, 0, since);
    }
}

/// A node stands still for longer than a tombstone lives, with the last words of the dead in its
/// socket: its table goes, what waited goes, and it joins again.
#[test]
fn a_frozen_node_wakes_with_an_empty_table_and_a_deaf_ear() {
    for seed in 1..=5 {
        let (mut world, nodes) = settled(seed, 5);
        world.pause(nodes[2], seconds(2.5 * RETENTION));
        world.run_for(seconds(2.0));
        world.crash(nodes[4]);
        world.run_for(seconds(2.5 * RETENTION - 3.0));
        let since = world.now();
        world.run_for(seconds(5.0));
        assert!(started_over(&world, nodes[2]));
        assert!(world.all_alive(), "seed {seed}: {:?}", world.matrix());
        world.run_for(seconds(2.0 * RETENTION));
        assert!(world.all_alive(), "seed {seed}: {:?}", world.matrix());
        for observer in [nodes[0], nodes[1], nodes[3]] {
            assert_eq!(world.status(observer, nodes[4]), None, "seed {seed}");
        }
        assert_eq!(risings(&world, nodes[4], since), 0, "seed {seed}");
    }
}

/// A pause shorter than a quarter of a tombstone's life costs nobody the table.
#[test]
fn a_shorter_sleep_keeps_the_table() {
    for seed in 1..=5 {
        let (mut world, nodes) = settled(seed, 5);
        world.pause(nodes[2], seconds(0.4 * RETENTION));
        world.run_for(seconds(0.4 * RETENTION + 10.0));
        assert!(!started_over(&world, nodes[2]));
        assert!(world.all_alive(), "seed {seed}: {:?}", world.matrix());
    }
}

/// A node that is cut off from everybody concludes nothing that it tells, but not for ever: were it
/// to hold a dead member alive for longer than the others hold the tombstone, it would bring it
/// back.
#[test]
fn a_node_that_was_cut_off_for_longer_than_the_fences_live_raises_nobody() {
    for seed in 1..=5 {
        let (mut world, nodes) = settled(seed, 6);
        let rules = world.partition(&nodes[2..3]);
        world.run_for(seconds(3.0));
        world.crash(nodes[4]);
        world.run_for(seconds(3.0 * RETENTION));
        let since = world.now();
        for rule in rules {
            world.lift(rule);
        }
        let healed = world.run_until(seconds(35.0), World::all_alive);
        assert!(healed.is_some(), "seed {seed}: {:?}", world.matrix());
        world.run_for(seconds(2.0 * RETENTION));
        assert!(world.all_alive(), "seed {seed}: {:?}", world.matrix());
        assert_eq!(risings(&world, nodes[4], since), 0, "seed {seed}");
        assert!(!is_listed(&world, nodes[4]), "seed {seed}");
    }
}

/// caio/foca#15, antrea-io/antrea PR#4491: after an outage longer than the dead are remembered the
/// halves never met again. The join addresses bring them together, and nobody comes back who died
/// meanwhile.
#[test]
fn halves_that_have_forgotten_each_other_merge_and_raise_nobody() {
    for seed in 1..=5 {
        let (mut world, nodes) = settled(seed, 10);
        let (left, right) = nodes.split_at(5);
        let rules = world.partition(left);
        world.run_for(seconds(10.0));
        world.crash(left[4]);
        world.crash(right[4]);
        world.run_for(seconds(3.0 * RETENTION));
        assert_eq!(world.status(left[1], right[1]), None, "nobody remembers");
        let since = world.now();
        for rule in rules {
            world.lift(rule);
        }
        let healed = world.run_until(seconds(60.0), World::all_alive);
        assert!(healed.is_some(), "seed {seed}: {:?}", world.matrix());
        world.run_for(seconds(2.0 * RETENTION));
        assert!(world.all_alive(), "seed {seed}: {:?}", world.matrix());
        for gone in [left[4], right[4]] {
            assert_eq!(risings(&world, gone, since), 0, "seed {seed}");
        }
    }
}

/// Clocks drift, so one node retires a death a moment before another. That is no difference worth
/// an exchange of tables.
#[test]
fn retiring_the_dead_costs_no_exchanges() {
    for seed in 1..=10 {
        let mut world = world(seed);
        let first = world.start(Start {
            drift_ppm: 200,
            ..Start::named("n1")
        });
        let join = [world.address(first)];
        let mut nodes = vec![first];
        for (n, drift_ppm) in [(2, -200), (3, 0), (4, 100), (5, 0), (6, 0)] {
            let start = Start {
                drift_ppm,
                ..Start::named(&format!("n{n}")).joining(join)
            };
            nodes.push(world.start(start));
        }
        world.run_for(seconds(30.0));
        assert!(world.all_alive());
        for &gone in &nodes[3..] {
            world.crash(gone);
            world.run_for(seconds(8.0));
        }
        world.run_for(seconds(15.0));
        assert!(nodes[3..].iter().all(|&gone| world.everyone_buries(gone)));
        let before = world.total(|stats| stats.exchanges);
        world.run_for(seconds(RETENTION));
        assert!(!nodes[3..].iter().any(|&gone| is_listed(&world, gone)));
        let exchanges = world.total(|stats| stats.exchanges) - before;
        assert_eq!(exchanges, 0, "seed {seed}");
    }
}

/// caio/foca#31, moby/swarmkit#1323: 400 nodes were real and 6000 listed, because every restart was
/// somebody new.
#[test]
fn names_that_come_and_go_do_not_pile_up() {
    for seed in 1..=2 {
        let mut world = world(seed);
        world.set_usual_link(Link::LAN.losing(0.2));
        let mut running = vec![world.start(Start::named("seed"))];
        let join = [world.address(running[0])];
        for round in 0..12 {
            for place in 0..10 {
                if round > 0 {
                    world.crash(running[1 + place]);
                }
                let start = Start::named(&format!("r{round}-{place}")).joining(join);
                let id = world.start(start);
                match round {
                    0 => running.push(id),
                    _ => running[1 + place] = id,
                }
            }
            let brief = Start::named(&format!("brief{round}")).joining(join);
            let brief = world.start(brief);
            world.run_for(seconds(0.1));
            world.crash(brief);
            world.run_for(seconds(15.0));
        }
        // Of each dead name: the time to notice it, its retention, and a sweep.
        let window = seconds(RETENTION + 15.0);
        let listed_at_most = 11 + 11 * window.as_secs() as usize / 15 + 11;
        for process in world.up() {
            let listed = process.node.members(world.now()).count();
            assert!(listed <= listed_at_most, "{}: {listed}", process.name);
        }
        world.run_for(window + seconds(10.0));
        let settled = world.run_until(seconds(30.0), |world| {
            world
                .up()
                .all(|process| process.node.members(world.now()).count() == 11)
        });
        assert!(settled.is_some(), "seed {seed}: {:?}", world.matrix());
    }
}

/// quickwit-oss/quickwit#4562: a node said its last words to one peer and died; the others never
/// learnt them.
#[test]
fn the_last_words_of_the_dead_reach_all_survivors() {
    for seed in 1..=10 {
        let (mut world, nodes) = settled(seed, 5);
        world.set_usual_link(Link::LAN.losing(0.2));
        let start = Start::named("brief").joining([world.address(nodes[0])]);
        let brief = world.start(start);
        let first = world.run_until(seconds(5.0), |world| {
            world.status(nodes[0], brief) == Some(Status::Alive)
        });
        assert!(first.is_some());
        world.crash(brief);
        let known = world.run_until(seconds(20.0), |world| world.everyone_buries(brief));
        assert!(known.is_some(), "seed {seed}: {:?}", world.matrix());
        let words = |id: &ProcessId| {
            let node = &world.process(*id).node;
            let record = node.record_of(&world.process(brief).name);
            record.and_then(|record| record.current_metadata().cloned())
        };
        let first = words(&nodes[0]);
        assert!(first.is_some());
        assert!(nodes.iter().all(|id| words(id) == first), "seed {seed}");
        world.run_for(seconds(RETENTION + 20.0));
        assert!(!is_listed(&world, brief), "seed {seed}");
        world.run_for(Duration::from_secs(120));
        assert!(!is_listed(&world, brief), "seed {seed}");
    }
}

/// moby/moby PR#53142: the data of a failed peer was dropped, and names were unresolved long after
/// it had recovered.
#[test]
fn who_recovers_has_its_data_at_once() {
    for seed in 1..=10 {
        let (mut world, nodes) = settled(seed, 6);
        let rules = world.partition(&nodes[2..3]);
        let buried = world.run_until(seconds(20.0), |world| {
            let others = nodes.iter().filter(|&&other| other != nodes[2]);
            others
                .copied()
                .all(|other| world.status(other, nodes[2]) == Some(Status::Dead))
        });
        assert!(buried.is_some());
        for rule in rules {
            world.lift(rule);
        }
        let complete = |world: &World| {
            world.up().all(|observer| {
                let record = observer.node.record_of(&world.process(nodes[2]).name);
                record.is_some_and(|record| record.current_metadata().is_some())
            })
        };
        let seen = world.run_until(seconds(5.0), |world| {
            assert!(complete(world), "known while dead, and when alive again");
            world.everyone_sees_life(nodes[2])
        });
        assert!(seen.is_some(), "seed {seed}: {:?}", world.matrix());
    }
}
