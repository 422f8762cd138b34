//! Whom a node knew before: shown, looked for, and found again.

use rumord::member::{Remembered, Status};
use rumord::protocol::{Config, EventKind};
use rumord_sim::world::{AddressChoice, NodeIdChoice};
use rumord_sim::{Options, ProcessId, Restart, World};

use crate::stage::{deaths, seconds, settled};

const RETENTION: f64 = 120.0;

/// A cluster that lists its dead for a short time only.
fn forgetful(seed: u64, count: usize) -> (World, Vec<ProcessId>) {
    let config = Config {
        dead_retention: seconds(RETENTION),
        ..Config::lan()
    };
    let mut world = World::new(Options {
        config,
        ..Options::seeded(seed)
    });
    let nodes = world.start_cluster(count);
    world.run_for(seconds(30.0));
    (world, nodes)
}

fn stored(world: &World, id: ProcessId) -> Vec<Remembered> {
    let process = world.process(id);
    let local = process.clock.local(world.now());
    let remembered = process.node.remembered(local);
    remembered.filter(|member| member.stored).collect()
}

/// How many members `id` lists.
fn listed(world: &World, id: ProcessId) -> usize {
    world.process(id).node.records().count()
}

/// hashicorp/consul#924: after a full stop, members that were not back yet had vanished.
#[test]
fn after_a_full_stop_who_is_missing_is_shown_until_it_is_heard_of_or_its_time_is_over() {
    for seed in 1..=3 {
        let (mut world, nodes) = forgetful(seed, 3);
        nodes.iter().for_each(|&node| world.crash(node));
        world.run_for(seconds(5.0));
        let since = world.now();
        let back: Vec<_> = nodes[..2]
            .iter()
            .map(|&node| world.restart_through(node, Restart::default(), Vec::new()))
            .collect();
        let together = world.run_until(seconds(20.0), World::all_alive);
        assert!(together.is_some(), "seed {seed}: {:?}", world.matrix());
        for &node in &back {
            let shown = stored(&world, node);
            assert_eq!(shown.len(), 1, "seed {seed}: {shown:?}");
            assert_eq!(shown[0].name.as_str(), "n3");
            assert!(shown[0].silence >= seconds(5.0), "{shown:?}");
            assert_eq!(listed(&world, node), 2, "shown, and not told");
        }
        assert_eq!(deaths(&world, since), [""; 0], "seed {seed}");
        let [one, other] = [back[0], back[1]].map(|id| world.process(id).node.fingerprint());
        assert_eq!(one, other, "seed {seed}");
        match seed {
            1 => {
                world.run_for(seconds(RETENTION));
                assert_eq!(stored(&world, back[0]), [], "its time is over");
            }
            _ => {
                world.restart_through(nodes[2], Restart::default(), Vec::new());
                let together = world.run_until(seconds(20.0), World::all_alive);
                assert!(together.is_some(), "seed {seed}: {:?}", world.matrix());
                world.run_for(seconds(2.0));
                assert_eq!(stored(&world, back[0]), [], "it was heard of");
            }
        }
    }
}

/// hashicorp/serf#333, hashicorp/consul#1271: only those were remembered that were alive at the
/// end, so after an outage of one after the other the last one knew nobody.
#[test]
fn who_failed_one_after_the_other_finds_the_others_again() {
    for seed in 1..=4 {
        let (mut world, nodes) = settled(seed, 5);
        for &node in &nodes {
            world.crash(node);
            world.run_for(seconds(12.0));
        }
        for &node in nodes.iter().rev() {
            world.restart_through(node, Restart::default(), Vec::new());
            world.run_for(seconds(0.2));
        }
        let together = world.run_until(seconds(20.0), World::all_alive);
        assert!(together.is_some(), "seed {seed}: {:?}", world.matrix());
    }
}

/// rqlite/rqlite#1293: with all addresses changed one stayed out. A node's own address comes from
/// its settings, and the join addresses go before what is remembered.
#[test]
fn with_new_addresses_the_join_addresses_lead_back() {
    let way = Restart {
        address: AddressChoice::Fresh,
        ..Restart::default()
    };
    for seed in 1..=4 {
        let (mut world, nodes) = settled(seed, 5);
        nodes.iter().for_each(|&node| world.crash(node));
        world.run_for(seconds(5.0));
        let first = world.restart_through(nodes[0], way, Vec::new());
        let join = vec![world.address(first)];
        for &node in &nodes[1..] {
            world.restart_through(node, way, join.clone());
        }
        let together = world.run_until(seconds(20.0), World::all_alive);
        assert!(together.is_some(), "seed {seed}: {:?}", world.matrix());
        world.run_for(seconds(30.0));
        assert!(world.all_alive(), "seed {seed}: {:?}", world.matrix());
    }
}

/// A node at a new address, whose join addresses are gone and whom nobody knows there.
#[test]
fn who_moved_and_has_no_join_address_left_finds_the_cluster_by_memory() {
    for seed in 1..=4 {
        let (mut world, nodes) = settled(seed, 5);
        world.crash(nodes[4]);
        world.run_for(seconds(15.0));
        let way = Restart {
            address: AddressChoice::Fresh,
            ..Restart::default()
        };
        let gone = vec![([10, 200, 0, 1], 7480).into()];
        let back = world.restart_through(nodes[4], way, gone);
        let together = world.run_until(seconds(20.0), World::all_alive);
        assert!(together.is_some(), "seed {seed}: {:?}", world.matrix());
        assert!(world.process(back).node.state().ready);
    }
}

/// akka/akka-core#25361: two islands stayed apart for good, because neither side listed anybody of
/// the other any more.
#[test]
fn islands_that_have_forgotten_each_other_become_one_cluster() {
    for seed in 1..=4 {
        let (mut world, nodes) = forgetful(seed, 6);
        let rules = world.partition(&nodes[..3]);
        world.run_for(seconds(3.0 * RETENTION));
        for &node in &nodes {
            assert_eq!(
                listed(&world, node),
                3,
                "seed {seed}: nothing is left in the table"
            );
        }
        rules.into_iter().for_each(|rule| world.lift(rule));
        let together = world.run_until(seconds(30.0), World::all_alive);
        assert!(together.is_some(), "seed {seed}: {:?}", world.matrix());
    }
}

/// The same where one side was restarted meanwhile, with its data directories.
#[test]
fn islands_remember_each_other_across_restarts() {
    let (mut world, nodes) = forgetful(1, 6);
    let rules = world.partition(&nodes[..3]);
    world.run_for(seconds(3.0 * RETENTION));
    for &node in &nodes[..3] {
        world.crash(node);
        world.restart_through(node, Restart::default(), Vec::new());
    }
    world.run_for(seconds(30.0));
    rules.into_iter().for_each(|rule| world.lift(rule));
    let together = world.run_until(seconds(30.0), World::all_alive);
    assert!(together.is_some(), "{:?}", world.matrix());
}

/// A member that left, and one without a data directory, leave nothing to be looked for.
#[test]
fn who_has_left_is_not_remembered_and_who_keeps_nothing_remembers_nobody() {
    let (mut world, nodes) = forgetful(1, 4);
    world.leave(nodes[3], seconds(1.0));
    world.run_for(seconds(2.0));
    nodes.iter().for_each(|&node| world.crash(node));
    let since = world.now();
    let kept = world.restart_through(nodes[0], Restart::default(), Vec::new());
    let names: Vec<_> = stored(&world, kept)
        .into_iter()
        .map(|member| member.name.to_string())
        .collect();
    assert_eq!(names.len(), 2, "{names:?}");
    assert!(!names.contains(&"n4".to_owned()), "{names:?}");
    let way = Restart {
        node_id: NodeIdChoice::Fresh,
        ..Restart::default()
    };
    let fresh = world.restart_through(nodes[1], way, Vec::new());
    assert_eq!(stored(&world, fresh), []);
    // The first finds it where the second was.
    let together = world.run_until(seconds(20.0), World::all_alive);
    assert!(together.is_some(), "{:?}", world.matrix());
    assert_eq!(world.status(kept, fresh), Some(Status::Alive));
    let ups = world.news_of(fresh, EventKind::MemberUp, since).count();
    assert_eq!(ups, 1, "it was heard of, not restarted");
}
