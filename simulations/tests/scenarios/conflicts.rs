//! Two processes under one name, of one identity or of two: both say so, one of them falls silent,
//! and nobody raises numbers.

use std::net::SocketAddr;

use rumord::member::{Generation, Incarnation, Status};
use rumord::protocol::{Event, EventKind, JoinOutcome, RefusalReason};
use rumord::time::Instant;
use rumord_sim::{ProcessId, Start, World};

use crate::stage::{deaths, other_deaths, seconds, settled};

/// The addresses in the conflicts that `id` has reported, with when.
fn conflicts(
    world: &World,
    id: ProcessId,
) -> Vec<(Instant, Option<SocketAddr>, Option<SocketAddr>)> {
    let said = world.process(id).events.iter();
    let conflict = |(at, event): &(Instant, Event)| match event {
        Event::Member(said) if said.kind == EventKind::Conflict => {
            Some((*at, said.address, said.rival))
        }
        _ => None,
    };
    said.filter_map(conflict).collect()
}

/// Asserts that both have reported the other, with both addresses, at most once a minute.
#[track_caller]
fn assert_both_report(world: &World, one: ProcessId, other: ProcessId) {
    for (id, rival) in [(one, other), (other, one)] {
        let said = conflicts(world, id);
        assert!(!said.is_empty(), "{id} has not noticed {rival}");
        for (_, address, told) in &said {
            assert_eq!(*address, Some(world.address(id)), "{id}");
            assert_eq!(*told, Some(world.address(rival)), "{id}");
        }
        for pair in said.windows(2) {
            assert!(
                pair[1].0.since(pair[0].0) >= seconds(59.0),
                "{id}: {said:?}"
            );
        }
        let shown = world
            .process(id)
            .node
            .rival()
            .and_then(|rival| rival.address);
        assert_eq!(shown, Some(world.address(rival)), "{id}");
    }
}

/// A process with the identity of `original`, elsewhere, that joins through `through`.
fn copy(world: &mut World, original: ProcessId, later: u64, through: ProcessId) -> ProcessId {
    let identity = world.process(original);
    let generation = identity.node.state().generation.0 + later;
    let start = Start {
        node_id: Some(identity.node_id),
        generation: Some(Generation(generation)),
        ..Start::named(identity.name.as_str())
    };
    let join = [world.address(through)];
    world.start(start.joining(join))
}

/// Where everybody but `except` says that the member of `subject` is reached.
fn places(world: &World, subject: ProcessId, except: &[ProcessId]) -> Vec<Option<SocketAddr>> {
    let name = &world.process(subject).name;
    let others = world.up().filter(|process| !except.contains(&process.id));
    let place = others.map(|process| {
        let record = process.node.record_of(name)?;
        record.current_metadata().map(|metadata| metadata.address)
    });
    place.collect()
}

fn incarnation(world: &World, observer: ProcessId, subject: ProcessId) -> Incarnation {
    let record = world
        .process(observer)
        .node
        .record_of(&world.process(subject).name);
    record.expect("listed").standing.incarnation
}

/// docker-archive/classicswarm#1114, weaveworks/weave#2767: two machines with one identity crashed
/// their manager, or took the name from each other for ever. The copy was started later, so it
/// looks like a restart; the original falls silent, and comes back when the copy has gone.
#[test]
fn the_original_of_a_later_copy_falls_silent_until_that_has_gone() {
    for seed in 1..=5 {
        let (mut world, nodes) = settled(seed, 6);
        let (original, since) = (nodes[2], world.now());
        let clone = copy(&mut world, original, 1, nodes[0]);
        let silent = |world: &World| !world.process(original).node.state().ready;
        assert!(
            world.run_until(seconds(3.0), silent).is_some(),
            "seed {seed}"
        );
        world.run_for(seconds(1.0));
        assert_both_report(&world, original, clone);
        let rival = world.process(original).node.rival().expect("known");
        assert!(rival.prevails, "seed {seed}");
        let generation = world.process(clone).node.state().generation;
        let sent = world.process(original).node.stats().messages.clone();
        world.run_for(seconds(600.0));
        // No numbers were raised, nobody was harmed, and the silent one has only asked to return.
        assert_eq!(world.process(clone).node.state().generation, generation);
        assert!(incarnation(&world, nodes[0], clone).0 <= 1, "seed {seed}");
        assert!(
            places(&world, clone, &[original])
                .iter()
                .all(|place| *place == Some(world.address(clone)))
        );
        assert_eq!(deaths(&world, since), [""; 0], "seed {seed}");
        let more = |world: &World| {
            let now: u64 = world
                .process(original)
                .node
                .stats()
                .messages
                .iter()
                .map(|(_, n)| n)
                .sum();
            now - sent.iter().map(|(_, n)| n).sum::<u64>()
        };
        assert!(more(&world) < 800, "seed {seed}: {} messages", more(&world));
        assert_both_report(&world, original, clone);
        world.crash(clone);
        let back = world.run_until(seconds(60.0), |world| world.everyone_sees_life(original));
        assert!(back.is_some(), "seed {seed}: {:?}", world.matrix());
        world.run_for(seconds(60.0));
        assert_eq!(world.process(original).node.rival(), None);
        assert!(world.all_alive(), "seed {seed}: {:?}", world.matrix());
        assert_eq!(
            other_deaths(&world, since, &[clone]),
            [""; 0],
            "seed {seed}"
        );
    }
}

/// The same generation, too: only the address tells the two apart. The copy is not admitted.
#[test]
fn a_copy_of_the_same_generation_is_refused_and_both_say_so() {
    for seed in 1..=5 {
        for through in [0, 2] {
            let (mut world, nodes) = settled(seed, 6);
            let (original, since) = (nodes[2], world.now());
            let clone = copy(&mut world, original, 0, nodes[through]);
            world.run_for(seconds(10.0));
            let refused = JoinOutcome::Refused(RefusalReason::NameConflict);
            let said = &world.process(clone).events;
            let told =
                |event: &Event| matches!(event, Event::Join { outcome, .. } if *outcome == refused);
            assert!(
                said.iter().any(|(_, event)| told(event)),
                "seed {seed}: {said:?}"
            );
            assert!(!world.process(clone).node.state().ready);
            assert!(world.process(original).node.state().ready);
            assert_both_report(&world, original, clone);
            world.run_for(seconds(120.0));
            assert!(
                places(&world, original, &[clone])
                    .iter()
                    .all(|place| *place == Some(world.address(original)))
            );
            assert_eq!(incarnation(&world, nodes[0], original), Incarnation(0));
            assert_eq!(deaths(&world, since), [""; 0], "seed {seed}");
            assert_both_report(&world, original, clone);
        }
    }
}

/// Both start at the same moment and are admitted by two members that have not heard of the other
/// one: all agree on one of them, whichever, and the other one is silent.
#[test]
fn of_two_copies_admitted_at_once_one_falls_silent() {
    for seed in 1..=20 {
        let (mut world, nodes) = settled(seed, 6);
        let since = world.now();
        let join = [world.address(nodes[0])];
        let one = world.start(Start::named("twin").joining(join));
        let other = copy(&mut world, one, 0, nodes[3]);
        let ready = |world: &World, id: ProcessId| world.process(id).node.state().ready;
        let settled = |world: &World| ready(world, one) != ready(world, other);
        world.run_for(seconds(0.5));
        let decided = world.run_until(seconds(10.0), settled);
        assert!(decided.is_some(), "seed {seed}: {:?}", world.matrix());
        let (winner, loser) = if ready(&world, one) {
            (one, other)
        } else {
            (other, one)
        };
        world.run_for(seconds(60.0));
        assert_both_report(&world, winner, loser);
        let seen = places(&world, winner, &[loser]);
        assert!(
            seen.iter()
                .all(|place| *place == Some(world.address(winner))),
            "seed {seed}: {seen:?}"
        );
        assert!(incarnation(&world, nodes[0], winner).0 <= 1, "seed {seed}");
        assert_eq!(deaths(&world, since), [""; 0], "seed {seed}");
        assert!(world.everyone_sees(winner, Status::Alive), "seed {seed}");
    }
}

/// An operator stops the silent one: that is no leave of the name, which the other one holds.
#[test]
fn a_silent_node_does_not_leave_with_the_name() {
    let (mut world, nodes) = settled(1, 5);
    let since = world.now();
    let clone = copy(&mut world, nodes[2], 1, nodes[0]);
    let silent = |world: &World| !world.process(nodes[2]).node.state().ready;
    assert!(world.run_until(seconds(3.0), silent).is_some());
    world.leave(nodes[2], seconds(5.0));
    let left = |event: &Event| matches!(event, Event::LeaveCompleted { expected: 0, .. });
    let said = &world.process(nodes[2]).events;
    assert!(said.iter().any(|(_, event)| left(event)), "{said:?}");
    world.run_for(seconds(1.0));
    world.crash(nodes[2]);
    world.run_for(seconds(60.0));
    assert!(world.everyone_sees_life(clone), "{:?}", world.matrix());
    assert_eq!(deaths(&world, since), [""; 0]);
}

/// The other one is renamed or stopped, and the operator does not want to wait.
#[test]
fn a_silent_node_comes_back_by_a_join_when_the_name_is_free() {
    let (mut world, nodes) = settled(3, 5);
    let clone = copy(&mut world, nodes[2], 5, nodes[0]);
    let silent = |world: &World| !world.process(nodes[2]).node.state().ready;
    assert!(world.run_until(seconds(3.0), silent).is_some());
    world.leave(clone, seconds(5.0));
    world.run_for(seconds(1.0));
    world.crash(clone);
    let address = world.address(nodes[4]);
    world.join(nodes[2], &[address]);
    let back = world.run_until(seconds(2.0), |world| world.everyone_sees_life(nodes[2]));
    assert!(back.is_some(), "{:?}", world.matrix());
    let raised = world.process(nodes[2]).node.state().generation;
    assert!(raised > world.process(clone).generation);
}

/// A stranger with the name of a running node: it is told so, its holder notices nothing but that,
/// and both name both addresses.
#[test]
fn a_stranger_with_a_taken_name_and_its_holder_both_report() {
    for seed in 1..=5 {
        let (mut world, nodes) = settled(seed, 5);
        let join = [world.address(nodes[0])];
        let stranger = world.start(Start::named("N3").joining(join));
        world.run_for(seconds(10.0));
        assert_both_report(&world, nodes[2], stranger);
        let state = world.process(stranger).node.state();
        assert!(!state.ready && state.rival.is_some_and(|rival| rival.prevails));
        let held = world.process(nodes[2]).node.state();
        assert!(held.ready && held.rival.is_some_and(|rival| !rival.prevails));
        world.crash(stranger);
        world.run_for(seconds(200.0));
        assert_eq!(world.process(nodes[2]).node.rival(), None, "long ago");
        assert!(world.all_alive());
    }
}
