//! An address passes from one member of a cluster to another.

use rumord::member::Status;
use rumord_sim::{Start, World};

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
