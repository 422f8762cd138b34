//! An address passes from one member of a cluster to another.

use std::net::SocketAddr;

use rumord::member::{Generation, Status};
use rumord::time::Instant;
use rumord_sim::{ProcessId, Start, World};

use crate::stage::{other_deaths, seconds, settled};

/// hashicorp/serf#116, scalecube/scalecube-cluster#132: a process was started under another name
/// where one had ended, and the former one stayed listed, although its address was another's.
#[test]
fn the_former_owner_of_an_address_is_no_ghost() {
    for (seed, count) in [(1, 3), (2, 5), (3, 20)] {
        for absence in [0.1, 2.0] {
            let (mut world, nodes) = settled(seed, count);
            let (former, since) = (nodes[1], world.now());
            world.crash(former);
            world.run_for(seconds(absence));
            let heir = Start {
                address: Some(world.address(former)),
                ..Start::named("heir")
            };
            let heir = world.start(heir.joining([world.address(nodes[0])]));
            let seen = world.run_until(seconds(2.0), |world| world.everyone_sees_life(heir));
            assert!(seen.is_some(), "{count}, {absence} s: {:?}", world.matrix());
            let gone = |world: &World| world.everyone_sees(former, Status::Dead);
            let buried = world.run_until(seconds(12.0), gone);
            assert!(
                buried.is_some(),
                "{count}, {absence} s: {:?}",
                world.matrix()
            );
            world.run_for(seconds(60.0));
            assert!(
                world.all_alive(),
                "{count}, {absence} s: {:?}",
                world.matrix()
            );
            assert!(gone(&world), "{count}, {absence} s: {:?}", world.matrix());
            let others = other_deaths(&world, since, &[former]);
            assert_eq!(others, [""; 0], "{count}, {absence} s");
        }
    }
}

/// moby/moby PR#53688: of two names at one address the wrong one was evicted, because gossip about
/// the former owner came late. Who answers there is asked, whatever came first.
#[test]
fn late_gossip_about_the_former_owner_evicts_nobody() {
    use rumord_sim::{Carried, Effect, Hosts, Rule};
    for seed in 1..=5 {
        let (mut world, nodes) = settled(seed, 6);
        let (former, since) = (nodes[1], world.now());
        let rule = world.lay(Rule {
            from: Hosts::one(world.address(former)),
            to: Hosts::All,
            carried: Carried::Datagrams,
            effect: Effect::Hold,
        });
        world.run_for(seconds(1.0));
        world.crash(former);
        let address = world.address(former);
        let heir = Start {
            address: Some(address),
            ..Start::named("heir")
        };
        let heir = world.start(heir.joining([world.address(nodes[0])]));
        world.run_for(seconds(1.0));
        assert!(world.held() > 0);
        world.lift(rule);
        world.run_for(seconds(60.0));
        assert!(
            world.everyone_sees_life(heir),
            "seed {seed}: {:?}",
            world.matrix()
        );
        assert!(
            world.everyone_buries(former),
            "seed {seed}: {:?}",
            world.matrix()
        );
        let others = other_deaths(&world, since, &[former]);
        assert_eq!(others, [""; 0], "seed {seed}");
    }
}

/// Starts the member of `old` again, in its next life, at `address`.
fn move_to(world: &mut World, old: ProcessId, address: SocketAddr) -> ProcessId {
    let earlier = world.process(old);
    let start = Start {
        node_id: Some(earlier.node_id),
        generation: Some(Generation(earlier.node.state().generation.0 + 100)),
        address: Some(address),
        ..Start::named(earlier.name.as_str())
    };
    let contact = world.up().find(|process| process.name != start.name);
    let join = [contact.expect("others run").address];
    world.start(start.joining(join))
}

fn assert_whole(world: &mut World, what: &str, since: Instant) {
    let together = world.run_until(seconds(5.0), World::all_alive);
    assert!(together.is_some(), "{what}: {:?}", world.matrix());
    world.run_for(seconds(60.0));
    assert!(world.all_alive(), "{what}: {:?}", world.matrix());
    let (matrix, count) = (world.matrix(), world.up().count());
    assert!(
        matrix.iter().all(|(_, row)| row.len() == count),
        "{what}: {matrix:?}"
    );
    assert_eq!(other_deaths(world, since, &[]), [""; 0], "{what}");
}

/// Two members come back, each at the address of the other: pings for one reach the other one, and
/// neither may answer for the other.
#[test]
fn two_members_swap_their_addresses() {
    for seed in 1..=5 {
        for gap in [0.0, 0.7, 3.0] {
            let (mut world, nodes) = settled(seed, 6);
            let since = world.now();
            let [one, other] = [world.address(nodes[1]), world.address(nodes[2])];
            world.crash(nodes[1]);
            world.crash(nodes[2]);
            move_to(&mut world, nodes[1], other);
            world.run_for(seconds(gap));
            move_to(&mut world, nodes[2], one);
            assert_whole(&mut world, &format!("seed {seed}, {gap} s"), since);
        }
    }
}

/// hashicorp/consul#733, #4879: a node that came back at another address was refused, for as long
/// as anybody told of its old one.
#[test]
fn a_member_comes_back_at_another_address() {
    for seed in 1..=5 {
        for absence in [0.0, 2.0] {
            let (mut world, nodes) = settled(seed, 5);
            let since = world.now();
            world.crash(nodes[1]);
            world.run_for(seconds(absence));
            move_to(&mut world, nodes[1], ([10, 77, 0, 1], 7480).into());
            assert_whole(&mut world, &format!("seed {seed}, {absence} s"), since);
        }
    }
}

/// The address that it had belongs to a newcomer by then, which is asked for it meanwhile.
#[test]
fn a_member_comes_back_elsewhere_because_its_address_is_taken() {
    for seed in 1..=5 {
        for absence in [0.2, 2.0] {
            let (mut world, nodes) = settled(seed, 5);
            let (old, since) = (world.address(nodes[1]), world.now());
            world.crash(nodes[1]);
            let newcomer = Start {
                address: Some(old),
                ..Start::named("newcomer")
            };
            let join = [world.address(nodes[0])];
            world.start(newcomer.joining(join));
            world.run_for(seconds(absence));
            move_to(&mut world, nodes[1], ([10, 77, 0, 1], 7480).into());
            assert_whole(&mut world, &format!("seed {seed}, {absence} s"), since);
        }
    }
}
