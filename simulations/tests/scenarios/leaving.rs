//! Graceful leaves.

use std::time::Duration;

use rumord::member::Status;
use rumord::protocol::{Event, EventKind};
use rumord::time::Instant;
use rumord_sim::world::{Checking, Keeping};
use rumord_sim::{Link, Options, ProcessId, Restart, Start, World};

use crate::stage::{assert_each_said, deaths, seconds, settled, summary};

/// What the leaving node says at the end: who acknowledged, and who should.
fn completed(world: &World, id: ProcessId) -> Option<(usize, usize)> {
    let said = world.process(id).events.iter().rev();
    said.map(|(_, event)| event).find_map(|event| match event {
        Event::LeaveCompleted {
            acknowledged,
            expected,
        } => Some((*acknowledged, *expected)),
        _ => None,
    })
}

/// `node` leaves; how long until all know, and until it says so itself.
fn leave(world: &mut World, node: ProcessId, bound: Duration) -> (Duration, Duration) {
    let others = world.up().count() - 1;
    let start = world.now();
    world.leave(node, seconds(5.0));
    let known = world.run_until(bound, |world| world.everyone_sees(node, Status::Left));
    let known = known.unwrap_or_else(|| panic!("{:?}", world.matrix()));
    world.run_until(seconds(6.0), |world| completed(world, node).is_some());
    assert_eq!(completed(world, node), Some((others, others)));
    (known, world.now().since(start))
}

#[test]
fn a_leave_is_known_at_once_and_acknowledged_by_all() {
    for count in [2, 5, 20, 100] {
        let mut times = Vec::new();
        for seed in 1..=5 {
            let (mut world, nodes) = settled(seed, count);
            let since = world.now();
            let (known, done) = leave(&mut world, nodes[1], seconds(0.5));
            assert!(done < seconds(0.5), "seed {seed}: {done:?}");
            times.push(known);
            world.crash(nodes[1]);
            world.run_for(seconds(20.0));
            assert_each_said(&world, nodes[1], EventKind::MemberLeft, 1, since);
            assert_eq!(deaths(&world, Instant::ORIGIN), [""; 0], "seed {seed}");
        }
        println!("leave, N = {count}: all know after {}", summary(times));
    }
}

#[test]
fn a_leave_gets_through_heavy_loss() {
    let mut times = Vec::new();
    for seed in 1..=10 {
        let (mut world, nodes) = settled(seed, 20);
        world.set_usual_link(Link::LAN.losing(0.3));
        world.run_for(seconds(30.0));
        let since = world.now();
        times.push(leave(&mut world, nodes[1], seconds(0.5)).0);
        world.crash(nodes[1]);
        world.run_for(seconds(20.0));
        assert_each_said(&world, nodes[1], EventKind::MemberLeft, 1, since);
    }
    println!(
        "leave at 30 % loss, N = 20: all know after {}",
        summary(times)
    );
}

#[test]
fn who_left_comes_back_as_one_new_member() {
    for seed in 1..=5 {
        let (mut world, nodes) = settled(seed, 8);
        leave(&mut world, nodes[3], seconds(0.5));
        world.crash(nodes[3]);
        world.run_for(seconds(3.0));
        let since = world.now();
        let back = world.restart(nodes[3], Restart::default());
        let seen = world.run_until(seconds(2.0), |world| world.everyone_sees_life(back));
        assert!(seen.is_some(), "seed {seed}: {:?}", world.matrix());
        world.run_for(seconds(20.0));
        assert!(world.all_alive());
        assert_each_said(&world, back, EventKind::MemberUp, 1, since);
        assert_each_said(&world, back, EventKind::MemberRestarted, 0, since);
        assert_eq!(deaths(&world, Instant::ORIGIN), [""; 0], "seed {seed}");
    }
}

/// All leave one after the other: the last one has nobody to tell.
#[test]
fn the_last_one_leaves_too() {
    let (mut world, nodes) = settled(1, 4);
    for &node in &nodes {
        leave(&mut world, node, seconds(0.5));
        world.crash(node);
    }
    assert_eq!(completed(&world, nodes[3]), Some((0, 0)));
    assert_eq!(deaths(&world, Instant::ORIGIN), [""; 0]);
}

/// hashicorp/consul#3706, pathosDev/actor-ts#1189: a member that was failed on some when it left
/// stayed failed there, and left elsewhere.
#[test]
fn who_was_declared_dead_first_has_left_all_the_same() {
    for seed in 1..=5 {
        let (mut world, nodes) = settled(seed, 12);
        world.outage(nodes[4], seconds(30.0));
        let buried = world.run_until(seconds(20.0), |world| world.everyone_buries(nodes[4]));
        assert!(buried.is_some(), "seed {seed}");
        world.set_usual_link(Link::LAN.losing(0.3));
        world.resume(nodes[4]);
        // It leaves before it can have heard what is said of it.
        world.leave(nodes[4], seconds(5.0));
        let known = world.run_until(seconds(3.0), |world| {
            world.everyone_sees(nodes[4], Status::Left)
        });
        assert!(known.is_some(), "seed {seed}: {:?}", world.matrix());
        world.run_until(seconds(6.0), |world| completed(world, nodes[4]).is_some());
        world.crash(nodes[4]);
        world.run_for(seconds(30.0));
        assert!(world.everyone_sees(nodes[4], Status::Left), "seed {seed}");
    }
}

/// hashicorp/consul#8435, hashicorp/serf#638: the leave waited behind everything else that was to
/// be told, ran out of time, and the node never ended.
#[test]
fn a_leave_goes_before_a_full_queue_and_a_second_one_changes_nothing() {
    let mut world = World::new(Options {
        keeping: Keeping::Events,
        checking: Checking::Nothing,
        ..Options::seeded(6)
    });
    let nodes = world.start_full(400);
    world.run_for(seconds(3.0));
    for subject in 10..390 {
        world.accuse(nodes[subject + 1], nodes[subject]);
    }
    // Long enough for the first to be under way, and most to wait.
    world.run_for(Duration::from_millis(1));
    assert!(world.process(nodes[0]).node.state().queued_updates > 0);
    let start = world.now();
    world.leave(nodes[0], seconds(5.0));
    world.leave(nodes[0], seconds(5.0));
    let done = world.run_until(seconds(5.0), |world| completed(world, nodes[0]).is_some());
    println!("leave behind 380 changes, N = 400: {done:?}");
    assert_eq!(completed(&world, nodes[0]), Some((399, 399)));
    let told = world.process(nodes[0]).events.iter();
    let told = told.filter(|(_, event)| matches!(event, Event::LeaveCompleted { .. }));
    assert_eq!(told.count(), 1);
    world.run_for(seconds(2.0));
    assert!(world.everyone_sees(nodes[0], Status::Left));
    assert_each_said(&world, nodes[0], EventKind::MemberLeft, 1, start);
}

/// A node that was admitted a moment ago, and asked to leave before it was told by whom: it left
/// without telling anybody, and was declared dead.
#[test]
fn who_leaves_while_it_is_being_admitted_tells_those_it_does_not_know_yet() {
    for seed in 1..=5 {
        let (mut world, nodes) = settled(seed, 3);
        let since = world.now();
        let address = world.address(nodes[0]);
        let late = world.start(Start::named("late").joining([address]));
        let admitted = world.run_until(seconds(1.0), |world| {
            world.status(nodes[0], late) == Some(Status::Alive)
        });
        assert!(admitted.is_some(), "seed {seed}");
        assert_eq!(world.status(late, nodes[0]), None, "it has not heard of it");
        world.leave(late, seconds(5.0));
        let done = world.run_until(seconds(1.0), |world| completed(world, late).is_some());
        assert!(done.is_some(), "seed {seed}");
        world.crash(late);
        world.run_for(seconds(20.0));
        assert!(world.everyone_sees(late, Status::Left), "seed {seed}");
        assert_eq!(deaths(&world, since), [""; 0], "seed {seed}");
    }
}
