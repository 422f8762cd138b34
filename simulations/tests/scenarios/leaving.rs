//! Graceful leaves.

use std::time::Duration;

use rumord::member::Status;
use rumord::protocol::{Event, EventKind};
use rumord::time::Instant;
use rumord_sim::{Link, ProcessId, Restart, World};

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
