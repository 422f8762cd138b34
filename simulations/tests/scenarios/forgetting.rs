//! Members that an operator removes for good: what all nodes then show, and what the removed learn.

use rumord::member::{Generation, NodeName, Status};
use rumord::protocol::{Event, EventKind, Forgetting};
use rumord::time::Instant;
use rumord_sim::trace::Tracing;
use rumord_sim::{Options, ProcessId, Restart, Start, World};

use crate::stage::{assert_each_said, deaths, seconds, settled};

fn name(world: &World, id: ProcessId) -> NodeName {
    world.process(id).name.clone()
}

/// Asks `asked` to forget `whom`; how far it has come.
fn forget(world: &mut World, asked: ProcessId, whom: ProcessId) -> Forgetting {
    let name = name(world, whom);
    world.forget(asked, &name);
    world.process(asked).node.forgetting(&name)
}

/// Whether nobody who is a member lists `whom`.
fn is_gone(world: &World, whom: ProcessId) -> bool {
    let name = &world.process(whom).name;
    world
        .up()
        .filter(|observer| observer.name != *name && !observer.node.state().forgotten)
        .all(|observer| observer.node.status_of(name).is_none())
}

/// Ends `whom` and waits until all have buried it.
fn bury(world: &mut World, whom: ProcessId) {
    world.crash(whom);
    let buried = world.run_until(seconds(20.0), |world| world.everyone_buries(whom));
    assert!(buried.is_some(), "{:?}", world.matrix());
}

fn knows(known: usize, alive: usize) -> Forgetting {
    Forgetting::Spreading { known, alive }
}

/// grafana/mimir#3340, loki#14847: the page still showed the member when another replica answered,
/// and a second press of the button was a cryptic error.
#[test]
fn a_dead_member_is_forgotten_everywhere_and_every_repeat_says_so() {
    for (seed, count) in [(1, 3), (2, 5), (3, 30)] {
        let (mut world, nodes) = settled(seed, count);
        bury(&mut world, nodes[2]);
        let since = world.now();
        assert_eq!(forget(&mut world, nodes[0], nodes[2]), knows(1, count - 1));
        let gone = world.run_until(seconds(1.0), |world| is_gone(world, nodes[2]));
        assert!(gone.is_some(), "{:?}", world.matrix());
        world.run_for(seconds(1.0));
        for &other in nodes.iter().filter(|&&other| other != nodes[2]) {
            let repeat = forget(&mut world, other, nodes[2]);
            assert!(matches!(repeat, Forgetting::Spreading { .. }), "{repeat:?}");
        }
        world.run_for(seconds(1.0));
        for &other in nodes.iter().filter(|&&other| other != nodes[2]) {
            let repeat = forget(&mut world, other, nodes[2]);
            assert_eq!(repeat, knows(count - 1, count - 1), "{other}");
        }
        world.run_for(seconds(30.0));
        assert_each_said(&world, nodes[2], EventKind::MemberForgotten, 1, since);
        assert_each_said(&world, nodes[2], EventKind::MemberUp, 0, since);
    }
}

/// The progress is what the members themselves have said, also where much is lost.
#[test]
fn the_progress_counts_those_who_acknowledged() {
    for seed in 1..=5 {
        let (mut world, nodes) = settled(seed, 12);
        bury(&mut world, nodes[4]);
        world.pause(nodes[7], seconds(3.0));
        world.set_usual_link(rumord_sim::Link::LAN.losing(0.2));
        forget(&mut world, nodes[0], nodes[4]);
        world.run_for(seconds(2.5));
        let late = forget(&mut world, nodes[0], nodes[4]);
        assert_eq!(late, knows(10, 11), "one stands still");
        world.run_for(seconds(3.0));
        assert_eq!(forget(&mut world, nodes[0], nodes[4]), knows(11, 11));
    }
}

/// redis/redis#1410, valkey-io/valkey#2788, hashicorp/serf#359, #604: a running node that was
/// removed came back after a minute, or was "leaving" for days on some nodes.
#[test]
fn a_running_member_answers_and_stays_and_the_repeat_says_refused() {
    for (seed, count) in [(1, 2), (2, 5), (3, 30)] {
        let (mut world, nodes) = settled(seed, count);
        let since = world.now();
        let first = forget(&mut world, nodes[0], nodes[1]);
        assert!(matches!(first, Forgetting::Asking { .. }), "{first:?}");
        world.run_for(seconds(0.5));
        let repeat = forget(&mut world, nodes[0], nodes[1]);
        assert!(matches!(repeat, Forgetting::Refused { .. }), "{repeat:?}");
        world.run_for(seconds(120.0));
        assert!(world.all_alive(), "{:?}", world.matrix());
        assert_each_said(&world, nodes[1], EventKind::MemberForgotten, 0, since);
        assert_each_said(&world, nodes[1], EventKind::MemberLeft, 0, since);
        assert_eq!(deaths(&world, since), [""; 0]);
        let anew = forget(&mut world, nodes[0], nodes[1]);
        assert!(matches!(anew, Forgetting::Asking { .. }), "{anew:?}");
    }
}

/// The accused has the pause tolerance and a second to answer: one that stands still for less
/// stays, one that does not answer is forgotten though it was held alive when that was asked.
#[test]
fn silence_within_the_tolerance_is_no_answer_and_beyond_it_is_one() {
    for seed in 1..=5 {
        let (mut world, nodes) = settled(seed, 6);
        world.pause(nodes[3], seconds(4.5));
        world.run_for(seconds(0.01));
        forget(&mut world, nodes[0], nodes[3]);
        world.run_for(seconds(10.0));
        let answer = forget(&mut world, nodes[0], nodes[3]);
        assert!(matches!(answer, Forgetting::Refused { .. }), "{answer:?}");
        assert!(world.all_alive(), "{:?}", world.matrix());
        world.crash(nodes[4]);
        let asked = forget(&mut world, nodes[0], nodes[4]);
        assert!(matches!(asked, Forgetting::Asking { .. }), "{asked:?}");
        let gone = world.run_until(seconds(6.5), |world| is_gone(world, nodes[4]));
        assert!(gone.is_some(), "{:?}", world.matrix());
    }
}

/// A node that hears nobody does not remove those that it cannot ask.
#[test]
fn a_deaf_node_forgets_nobody() {
    for seed in 1..=5 {
        let (mut world, nodes) = settled(seed, 6);
        let rule = world.deafen(nodes[0], rumord_sim::Carried::Everything);
        forget(&mut world, nodes[0], nodes[3]);
        world.run_for(seconds(60.0));
        assert!(matches!(
            forget(&mut world, nodes[0], nodes[3]),
            Forgetting::Asking { .. }
        ));
        world.lift(rule);
        world.run_for(seconds(30.0));
        assert!(world.all_alive(), "{:?}", world.matrix());
        let answer = forget(&mut world, nodes[0], nodes[3]);
        assert!(matches!(answer, Forgetting::Refused { .. }), "{answer:?}");
    }
}

/// cortexproject/cortex#4461: an entry whose time was ahead of the local clock could not be
/// removed, and came back from every peer.
#[test]
fn a_member_whose_clock_is_ahead_is_forgotten_all_the_same() {
    for (seed, ahead) in [(1, 30), (2, 3600), (3, 80_000)] {
        let (mut world, mut nodes) = settled(seed, 5);
        let start = Start {
            wall_ahead: ahead,
            ..Start::named("ahead").joining([world.address(nodes[0])])
        };
        nodes.push(world.start(start));
        world.run_for(seconds(30.0));
        assert!(world.all_alive());
        bury(&mut world, nodes[5]);
        let since = world.now();
        forget(&mut world, nodes[1], nodes[5]);
        world.run_for(seconds(30.0));
        assert!(is_gone(&world, nodes[5]), "{:?}", world.matrix());
        assert_each_said(&world, nodes[5], EventKind::MemberForgotten, 1, since);
    }
}

/// hashicorp/serf PR#504: removing a name that does not exist was a success.
#[test]
fn an_unknown_name_and_oneself_are_told_apart_and_change_nothing() {
    let (mut world, nodes) = settled(1, 3);
    let before = world.process(nodes[0]).node.revision();
    for (text, expected) in [
        ("nosuch", Forgetting::Unknown),
        ("n1", Forgetting::Itself),
        ("N1", Forgetting::Itself),
    ] {
        let name: NodeName = text.parse().expect("valid");
        world.forget(nodes[0], &name);
        assert_eq!(world.process(nodes[0]).node.forgetting(&name), expected);
    }
    assert_eq!(world.process(nodes[0]).node.revision(), before);
}

/// scylladb/scylladb#14991: a removed node left quarantine on one peer while another still told of
/// it. Who restarts in between learns the fence from the first table it is given, and refuses the
/// removed life like all others.
#[test]
fn who_restarts_meanwhile_learns_the_fence() {
    for seed in 1..=5 {
        let (mut world, nodes) = settled(seed, 5);
        world.pause(nodes[4], seconds(60.0));
        let buried = world.run_until(seconds(20.0), |world| world.everyone_buries(nodes[4]));
        assert!(buried.is_some());
        forget(&mut world, nodes[0], nodes[4]);
        world.run_for(seconds(2.0));
        world.crash(nodes[1]);
        let back = world.restart(nodes[1], Restart::default());
        world.run_for(seconds(5.0));
        let answer = forget(&mut world, back, nodes[4]);
        assert!(matches!(answer, Forgetting::Spreading { .. }), "{answer:?}");
        let since = world.now();
        world.run_for(seconds(120.0));
        assert!(is_gone(&world, nodes[4]), "{:?}", world.matrix());
        assert_each_said(&world, nodes[4], EventKind::MemberUp, 0, since);
    }
}

/// valkey-io/valkey PR#4090: a node that was forgotten while it could not hear it was never told.
#[test]
fn a_forgotten_process_that_returns_falls_silent_and_comes_back_as_a_new_life() {
    for seed in 1..=10 {
        let (mut world, nodes) = settled(seed, 6);
        world.pause(nodes[3], seconds(30.0));
        let buried = world.run_until(seconds(20.0), |world| world.everyone_buries(nodes[3]));
        assert!(buried.is_some());
        forget(&mut world, nodes[1], nodes[3]);
        world.run_for(seconds(30.0));
        let state = world.process(nodes[3]).node.state();
        assert!(state.forgotten && !state.ready, "seed {seed}: {state:?}");
        assert!(is_gone(&world, nodes[3]), "{:?}", world.matrix());
        let told = |(_, event): &&(Instant, Event)| match event {
            Event::Member(event) => event.kind == EventKind::MemberForgotten,
            _ => false,
        };
        let process = world.process(nodes[3]);
        assert_eq!(process.events.iter().filter(told).count(), 1);
        let sent = world.process(nodes[3]).node.stats().clone();
        world.run_for(seconds(60.0));
        let quiet = world.process(nodes[3]).node.stats();
        assert_eq!(
            quiet.messages, sent.messages,
            "seed {seed}: it announces nothing"
        );
        let join = [world.address(nodes[0])];
        world.rejoin(nodes[3], &join);
        let back = world.run_until(seconds(2.0), World::all_alive);
        assert!(back.is_some(), "seed {seed}: {:?}", world.matrix());
        let generation = world.process(nodes[3]).node.state().generation;
        assert!(generation > world.process(nodes[3]).generation);
        world.run_for(seconds(60.0));
        assert!(world.all_alive());
    }
}

#[test]
fn a_restart_brings_a_forgotten_member_back() {
    for seed in 1..=5 {
        let (mut world, nodes) = settled(seed, 5);
        bury(&mut world, nodes[2]);
        forget(&mut world, nodes[0], nodes[2]);
        world.run_for(seconds(2.0));
        let since = world.now();
        let back = world.restart(nodes[2], Restart::default());
        let seen = world.run_until(seconds(2.0), World::all_alive);
        assert!(seen.is_some(), "{:?}", world.matrix());
        world.run_for(seconds(20.0));
        assert_each_said(&world, back, EventKind::MemberUp, 1, since);
    }
}

/// Whoever has the forgotten generation still, because its clock stood still or ran back, is told
/// so when it joins, and takes a later one.
#[test]
fn a_joiner_with_the_forgotten_generation_takes_the_next() {
    use rumord_sim::world::GenerationChoice;
    for (seed, below) in [(1, 0), (2, 1), (3, 1000)] {
        let (mut world, nodes) = settled(seed, 5);
        bury(&mut world, nodes[2]);
        let fence = world.process(nodes[2]).generation;
        forget(&mut world, nodes[0], nodes[2]);
        world.run_for(seconds(2.0));
        let back = world.restart(
            nodes[2],
            Restart {
                generation: GenerationChoice::Exactly(Generation(fence.0 - below)),
                ..Restart::default()
            },
        );
        let seen = world.run_until(seconds(3.0), World::all_alive);
        assert!(seen.is_some(), "{:?}", world.matrix());
        assert!(world.process(back).node.state().generation > fence);
    }
}

/// A removal on one side of a partition is one on both when it heals: of a member that is dead on
/// both, and of one that ran on the other side, which is told.
#[test]
fn a_fence_made_on_one_side_holds_on_both_when_the_partition_heals() {
    for seed in 1..=10 {
        let (mut world, nodes) = settled(seed, 8);
        bury(&mut world, nodes[7]);
        let (left, right) = (&nodes[..4], &nodes[4..7]);
        let rules = world.partition(left);
        world.run_for(seconds(30.0));
        forget(&mut world, left[0], nodes[7]);
        forget(&mut world, left[1], right[0]);
        world.run_for(seconds(5.0));
        assert_eq!(world.status(right[1], nodes[7]), Some(Status::Dead));
        for rule in rules {
            world.lift(rule);
        }
        let since = world.now();
        world.run_for(seconds(10.0));
        for gone in [nodes[7], right[0]] {
            assert!(is_gone(&world, gone), "seed {seed}: {:?}", world.matrix());
        }
        assert!(world.process(right[0]).node.state().forgotten);
        world.crash(right[0]);
        world.run_for(seconds(20.0));
        assert!(world.all_alive(), "seed {seed}: {:?}", world.matrix());
        assert_each_said(&world, right[0], EventKind::MemberUp, 0, since);
    }
}

/// prometheus/alertmanager#2775, habitat-sh/habitat#5436: members that were gone for good were
/// contacted for hours.
#[test]
fn who_is_forgotten_is_not_contacted_any_more() {
    let mut world = World::new(Options {
        tracing: Tracing::On,
        ..Options::seeded(1)
    });
    let nodes = world.start_cluster(6);
    world.run_for(seconds(30.0));
    bury(&mut world, nodes[3]);
    let address = world.address(nodes[3]).to_string();
    let sent_to = |world: &World| {
        let to = |line: &&str| line.contains(" send ") && line.ends_with(&address);
        world.trace().lines().filter(to).count()
    };
    let before = sent_to(&world);
    world.run_for(seconds(60.0));
    assert!(sent_to(&world) > before, "the dead are contacted");
    forget(&mut world, nodes[0], nodes[3]);
    world.run_for(seconds(1.0));
    let before = sent_to(&world);
    world.run_for(seconds(600.0));
    assert_eq!(sent_to(&world), before);
}
