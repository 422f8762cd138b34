//! Links that carry only one way, or only streams.

use rumord::protocol::EventKind;
use rumord::time::Instant;
use rumord_sim::{Carried, Effect, Hosts, ProcessId, Rule, World};

use crate::stage::{datagrams_per_second, deaths, other_deaths, seconds, settled};

/// A broken link costs a few questions per probe that meets it, and no more: a case that a proof of
/// life has closed is not opened again by the pings that were sent for it.
fn assert_calm(datagrams_per_second: f64) {
    assert!(datagrams_per_second < 8.0, "{datagrams_per_second}");
}

/// Breaks the links of a settled cluster, and demands two minutes of peace.
fn assert_bridged(count: usize, break_links: impl Fn(&mut World, &[ProcessId])) {
    for seed in 1..=5 {
        let (mut world, nodes) = settled(seed, count);
        break_links(&mut world, &nodes);
        assert_calm(datagrams_per_second(&mut world, seconds(120.0)));
        let dead = deaths(&world, Instant::ORIGIN);
        assert_eq!(dead, [""; 0], "seed {seed}, N = {count}");
        assert!(world.all_alive(), "seed {seed}: {:?}", world.matrix());
    }
}

#[test]
fn one_direction_between_two_is_bridged() {
    for count in [3, 5] {
        assert_bridged(count, |world, nodes| {
            world.cut(nodes[0], nodes[1], Carried::Datagrams);
        });
    }
}

#[test]
fn two_that_cannot_reach_each_other_live() {
    for carried in [Carried::Datagrams, Carried::Everything] {
        assert_bridged(5, |world, nodes| {
            world.cut(nodes[0], nodes[1], carried);
            world.cut(nodes[1], nodes[0], carried);
        });
    }
}

#[test]
fn streams_prove_life_where_datagrams_are_blocked() {
    for count in [2, 3, 5] {
        assert_bridged(count, |world, nodes| {
            world.deafen(nodes[1], Carried::Datagrams);
            world.mute(nodes[1], Carried::Datagrams);
        });
    }
}

/// It hears nothing and goes on pinging: that is no proof that it can be reached.
#[test]
fn a_deaf_node_is_declared_and_declares_nobody() {
    for count in [5, 20] {
        for seed in 1..=5 {
            let (mut world, nodes) = settled(seed, count);
            let (deaf, since) = (nodes[2], world.now());
            world.deafen(deaf, Carried::Everything);
            let buried = world.run_until(seconds(10.0), |world| world.everyone_buries(deaf));
            assert!(buried.is_some(), "seed {seed}: {:?}", world.matrix());
            world.run_for(seconds(60.0));
            assert_eq!(other_deaths(&world, since, &[deaf]), [""; 0], "seed {seed}");
            assert!(world.process(deaf).node.state().isolated);
        }
    }
}

/// The same in the other direction: it hears everybody and nobody hears it.
#[test]
fn a_mute_node_is_declared_and_declares_nobody() {
    for seed in 1..=5 {
        let (mut world, nodes) = settled(seed, 20);
        let (mute, since) = (nodes[2], world.now());
        world.mute(mute, Carried::Everything);
        let buried = world.run_until(seconds(10.0), |world| world.everyone_buries(mute));
        assert!(buried.is_some(), "seed {seed}: {:?}", world.matrix());
        world.run_for(seconds(60.0));
        assert_eq!(other_deaths(&world, since, &[mute]), [""; 0], "seed {seed}");
    }
}

/// Everything is held back for three seconds and then arrives at once.
#[test]
fn held_datagrams_that_arrive_late_accuse_nobody() {
    for seed in 1..=5 {
        let (mut world, nodes) = settled(seed, 10);
        let hold = world.lay(Rule {
            from: Hosts::All,
            to: Hosts::one(world.address(nodes[4])),
            carried: Carried::Datagrams,
            effect: Effect::Hold,
        });
        world.run_for(seconds(3.0));
        world.lift(hold);
        world.run_for(seconds(20.0));
        assert_eq!(deaths(&world, Instant::ORIGIN), [""; 0], "seed {seed}");
        assert!(world.all_alive());
        let restarted = world.news_of(nodes[4], EventKind::MemberRestarted, Instant::ORIGIN);
        assert_eq!(restarted.count(), 0);
    }
}
