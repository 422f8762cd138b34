//! Nodes that come back again and again, with too low numbers, or not at all.

use rumord::member::{Generation, Status};
use rumord::protocol::EventKind;
use rumord_sim::trace::Tracing;
use rumord_sim::world::{GenerationChoice, NodeIdChoice};
use rumord_sim::{Options, Restart, World};

use crate::stage::{assert_each_said, other_deaths, seconds, settled};

/// caio/foca#25: a node came back with a number not above the one declared dead, and two nodes told
/// each other "you are down" for ever. It is told once, takes the next, and is back.
#[test]
fn a_generation_that_was_declared_dead_is_superseded_once() {
    for (seed, below) in (1..).zip([0, 1, 50]) {
        for node_id in [NodeIdChoice::Kept, NodeIdChoice::Fresh] {
            let (mut world, nodes) = settled(seed, 5);
            world.crash(nodes[1]);
            let buried = world.run_until(seconds(10.0), |world| world.everyone_buries(nodes[1]));
            assert!(buried.is_some());
            world.run_for(seconds(1.0));
            let (dead, since) = (world.process(nodes[1]).generation, world.now());
            let way = Restart {
                generation: GenerationChoice::Exactly(Generation(dead.0 - below)),
                node_id,
                ..Restart::default()
            };
            let back = world.restart(nodes[1], way);
            let seen = world.run_until(seconds(3.0), World::all_alive);
            assert!(seen.is_some(), "{way}: {:?}", world.matrix());
            world.run_for(seconds(60.0));
            assert!(world.all_alive(), "{way}: {:?}", world.matrix());
            assert_each_said(&world, back, EventKind::MemberUp, 1, since);
            assert_each_said(&world, back, EventKind::MemberDead, 0, since);
        }
    }
}

/// habitat-sh/habitat#5436, prometheus/alertmanager#2775: members that had left were contacted for
/// hours.
#[test]
fn who_has_left_is_not_contacted_any_more() {
    let mut world = World::new(Options {
        tracing: Tracing::On,
        ..Options::seeded(1)
    });
    let nodes = world.start_cluster(6);
    world.run_for(seconds(30.0));
    let address = world.address(nodes[3]).to_string();
    world.leave(nodes[3], seconds(1.0));
    world.run_for(seconds(2.0));
    world.crash(nodes[3]);
    world.run_for(seconds(10.0));
    assert!(world.everyone_sees(nodes[3], Status::Left));
    let sent_to = |world: &World| {
        let to = |line: &&str| line.contains(" send ") && line.ends_with(&address);
        world.trace().lines().filter(to).count()
    };
    let before = sent_to(&world);
    assert!(before > 0, "it was a member");
    world.run_for(seconds(600.0));
    assert_eq!(sent_to(&world), before);
}

/// caio/foca#31, moby/swarmkit#1323: every restart under a new identity left one more member.
#[test]
fn many_lives_of_one_name_are_one_member() {
    let (mut world, mut nodes) = settled(1, 20);
    let way = Restart {
        node_id: NodeIdChoice::Fresh,
        ..Restart::default()
    };
    for round in 0..10 {
        for node in nodes.iter_mut().skip(round % 2).step_by(2) {
            world.crash(*node);
            world.run_for(seconds(0.3));
            *node = world.restart(*node, way);
        }
    }
    let together = world.run_until(seconds(10.0), World::all_alive);
    assert!(together.is_some(), "{:?}", world.matrix());
    for process in world.up() {
        assert_eq!(process.node.records().count(), 20, "{}", process.name);
    }
}

/// akka/akka-core#29983, #25361: the first seed came back, heard nobody within its short timeout,
/// and made a cluster of its own.
#[test]
fn a_seed_that_hears_nobody_at_first_makes_no_cluster_of_its_own() {
    for seed in 1..=4 {
        let (mut world, nodes) = settled(seed, 5);
        let since = world.now();
        world.crash(nodes[0]);
        world.run_for(seconds(0.5));
        let rules = world.partition(&nodes[..1]);
        let back = world.restart(nodes[0], Restart::default());
        world.run_for(seconds(8.0));
        assert!(!world.process(back).node.state().ready, "seed {seed}");
        for rule in rules {
            world.lift(rule);
        }
        let together = world.run_until(seconds(30.0), World::all_alive);
        assert!(together.is_some(), "seed {seed}: {:?}", world.matrix());
        world.run_for(seconds(20.0));
        assert_eq!(other_deaths(&world, since, &[back]), [""; 0], "seed {seed}");
    }
}
