//! Wall clocks that are wrong, and wall clocks that are set.

use std::time::Duration;

use rumord::protocol::{Event, EventKind, JoinOutcome, RefusalReason};
use rumord::time::Instant;
use rumord_sim::trace::Tracing;
use rumord_sim::world::{AddressChoice, GenerationChoice, NodeIdChoice};
use rumord_sim::{Options, ProcessId, Restart, World};

use crate::stage::{assert_each_said, deaths, other_deaths, seconds, settled};

const MINUTE: i64 = 60;
const HOUR: i64 = 60 * MINUTE;
const YEAR: i64 = 365 * 24 * HOUR;

/// A node without a data directory starts again on its host.
const BY_THE_CLOCK: Restart = Restart {
    generation: GenerationChoice::Clock,
    node_id: NodeIdChoice::Fresh,
    address: AddressChoice::Kept,
};

/// Started more than a day after the release, a settled cluster: who is years behind takes all its
/// generations for impossible ones.
fn late_cluster(seed: u64, count: usize) -> (World, Vec<ProcessId>) {
    let mut world = World::new(Options::seeded(seed));
    world.run_for(seconds(10.0));
    let nodes = world.start_cluster(count);
    world.run_for(seconds(60.0));
    (world, nodes)
}

/// anza-xyz/agave PR#14731: time that had passed was measured with the wall clock, and a step back
/// stopped all periodic work. Here every line of the trace stays as it was.
#[test]
fn a_step_of_the_wall_clock_changes_no_cadence_and_no_status() {
    let trace = |steps: &[i64]| {
        let mut world = World::new(Options {
            tracing: Tracing::On,
            ..Options::seeded(3)
        });
        let nodes = world.start_cluster(5);
        for step in steps {
            world.step_wall_clock(nodes[2], *step);
            world.run_for(seconds(20.0));
        }
        let lines = world
            .trace()
            .lines()
            .filter(|line| !line.contains(" clock ") && !line.contains("ClockSkew"));
        lines.map(str::to_owned).collect::<Vec<_>>()
    };
    let steps = [-10 * MINUTE, 10 * MINUTE, -20 * YEAR, 40 * YEAR];
    let (stepped, steady) = (trace(&steps), trace(&[0; 4]));
    assert!(steady.len() > 1000);
    assert!(stepped == steady, "a step has changed what happens");
}

/// canonical/lxd#7321, kurrent-io/KurrentDB#5436: members with seconds of skew flapped, and nobody
/// saw why, or the log was full of it. One warning on entering and one on leaving, on that host.
#[test]
fn half_a_minute_of_skew_is_no_trouble() {
    for (seed, skew) in [(1, 30), (2, -30)] {
        let (mut world, nodes) = settled(seed, 5);
        world.step_wall_clock(nodes[1], skew);
        world.run_for(seconds(60.0));
        for &node in &nodes {
            let expected = if node == nodes[1] { skew } else { 0 };
            let shown = i64::from(world.process(node).node.state().clock_skew);
            assert!((shown - expected).abs() <= 1, "{node}: {shown}");
        }
        world.crash(nodes[1]);
        let back = world.restart(nodes[1], Restart::default());
        let seen = world.run_until(seconds(2.0), |world| world.everyone_sees_life(back));
        assert!(seen.is_some(), "{skew} s: {:?}", world.matrix());
        world.run_for(seconds(60.0));
        world.correct_wall_clock(back);
        world.run_for(seconds(60.0));
        let turns = |id: ProcessId| {
            let said = world.process(id).events.iter();
            let turn = said.filter_map(|(_, event)| match event {
                Event::ClockSkew { wrong, .. } => Some(*wrong),
                _ => None,
            });
            turn.collect::<Vec<bool>>()
        };
        assert_eq!(
            (turns(nodes[1]), turns(back)),
            (vec![true], vec![true, false]),
            "{skew} s"
        );
        for other in [nodes[0], nodes[2], nodes[3], nodes[4]] {
            assert_eq!(turns(other), [false; 0], "{other}, {skew} s");
        }
        assert!(world.all_alive(), "{skew} s: {:?}", world.matrix());
        assert_eq!(deaths(&world, Instant::ORIGIN), [""; 0], "{skew} s");
    }
}

/// Its new generation is below the one that the cluster knows; it takes the next.
#[test]
fn a_node_whose_clock_was_set_back_within_a_day_comes_back() {
    for (seed, back) in (1..).zip([1, MINUTE, HOUR, 23 * HOUR]) {
        for absence in [0.1, 3.0, 15.0] {
            let (mut world, nodes) = settled(seed, 5);
            world.step_wall_clock(nodes[2], -back);
            let since = world.now();
            let late = come_back(&mut world, nodes[2], seconds(absence), BY_THE_CLOCK);
            let seen = world.run_until(seconds(3.0), |world| world.everyone_sees_life(late));
            assert!(
                seen.is_some(),
                "-{back} s, {absence} s: {:?}",
                world.matrix()
            );
            world.run_for(seconds(30.0));
            assert!(world.all_alive(), "-{back} s, {absence} s");
            let others = other_deaths(&world, since, &[late]);
            assert_eq!(others, [""; 0], "-{back} s, {absence} s");
        }
    }
}

fn come_back(world: &mut World, node: ProcessId, absence: Duration, way: Restart) -> ProcessId {
    world.crash(node);
    world.run_for(absence);
    world.restart(node, way)
}

/// Years behind, it takes all others for years ahead. It harms nobody, and once its clock is right
/// nobody has to do anything.
#[test]
fn a_node_years_behind_comes_back_when_its_clock_is_right() {
    for (seed, way) in [(1, BY_THE_CLOCK), (2, Restart::default())] {
        let (mut world, nodes) = late_cluster(seed, 5);
        let since = world.now();
        world.step_wall_clock(nodes[2], -10 * YEAR);
        let back = come_back(&mut world, nodes[2], seconds(15.0), way);
        world.run_for(seconds(60.0));
        assert_eq!(other_deaths(&world, since, &[back]), [""; 0], "{way}");
        world.correct_wall_clock(back);
        let seen = world.run_until(seconds(45.0), World::all_alive);
        assert!(seen.is_some(), "{way}: {:?}", world.matrix());
        assert_eq!(other_deaths(&world, since, &[back]), [""; 0], "{way}");
    }
}

/// The Last Pickle, "Anatomy of a Cassandra Partition" (2011): a node whose clock had once been 14
/// years ahead saw all others up, and they saw it down. Here it is told why it may not join, shows
/// it, and nobody lists its generation; that others join at its address makes it no member.
#[test]
fn a_generation_years_ahead_is_refused_and_the_reason_is_shown() {
    for (seed, way) in [(1, BY_THE_CLOCK), (2, Restart::default())] {
        let (mut world, nodes) = settled(seed, 5);
        let address = world.address(nodes[2]);
        world.join(nodes[0], &[address]);
        let since = world.now();
        world.step_wall_clock(nodes[2], 14 * YEAR);
        let ahead = come_back(&mut world, nodes[2], seconds(15.0), way);
        world.run_for(seconds(20.0));
        let refused = JoinOutcome::Refused(RefusalReason::FutureGeneration);
        let said = &world.process(ahead).events;
        let told =
            |event: &Event| matches!(event, Event::Join { outcome, .. } if *outcome == refused);
        assert!(said.iter().any(|(_, event)| told(event)), "{way}: {said:?}");
        let state = world.process(ahead).node.state();
        assert!(state.clock_ahead && !state.ready, "{way}: {state:?}");
        let name = world.process(ahead).name.clone();
        for process in world.up().filter(|process| process.id != ahead) {
            let held = process.node.record_of(&name).expect("its earlier life");
            assert!(held.standing.generation < state.generation, "{way}");
        }
        world.correct_wall_clock(ahead);
        let back = come_back(&mut world, ahead, seconds(1.1), BY_THE_CLOCK);
        let seen = world.run_until(seconds(3.0), World::all_alive);
        assert!(seen.is_some(), "{way}: {:?}", world.matrix());
        assert_each_said(&world, back, EventKind::MemberUp, 1, since);
        assert_eq!(other_deaths(&world, since, &[back]), [""; 0], "{way}");
    }
}

/// Ahead by less than a day it is admitted; when the clock is right again, the next life goes on
/// from there.
#[test]
fn a_node_hours_ahead_is_admitted_and_so_is_its_next_life() {
    for seed in 1..=3 {
        let (mut world, nodes) = settled(seed, 5);
        world.step_wall_clock(nodes[2], 20 * HOUR);
        let ahead = come_back(&mut world, nodes[2], seconds(1.0), BY_THE_CLOCK);
        let seen = world.run_until(seconds(2.0), |world| world.everyone_sees_life(ahead));
        assert!(seen.is_some(), "seed {seed}: {:?}", world.matrix());
        world.run_for(seconds(10.0));
        world.correct_wall_clock(ahead);
        let back = come_back(&mut world, ahead, seconds(1.0), BY_THE_CLOCK);
        let seen = world.run_until(seconds(3.0), World::all_alive);
        assert!(seen.is_some(), "seed {seed}: {:?}", world.matrix());
        let raised = world.process(back).node.state().generation;
        assert!(raised > world.process(ahead).generation, "seed {seed}");
        world.run_for(seconds(20.0));
        assert_eq!(deaths(&world, Instant::ORIGIN), [""; 0], "seed {seed}");
    }
}
