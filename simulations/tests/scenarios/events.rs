//! User events: they reach everybody, in order and once, and the sender learns of it.

use std::time::Duration;

use rumord::member::{Delivery, EventRef};
use rumord::protocol::{Config, EventCount};
use rumord::wire::MessageKind;
use rumord_sim::{Link, Options, ProcessId, World};

use crate::stage::{cluster, seconds};

fn bodies(count: usize, bytes: usize) -> Vec<Vec<u8>> {
    (0..count).map(|n| vec![n as u8; bytes]).collect()
}

fn send(world: &mut World, id: ProcessId, delivery: Delivery) -> EventRef {
    world.publish(id, delivery, bodies(1, 200))[0]
}

fn total(world: &World, what: EventCount) -> u64 {
    world.total(|stats| stats.events.get(what))
}

/// Waits until all have `event` and its sender knows.
fn settle(world: &mut World, sender: ProcessId, event: &EventRef, bound: f64) -> Duration {
    let bound = seconds(bound);
    let settled = world.run_until(bound, |world| {
        world.everyone_has(event) && world.sender_knows(sender, event)
    });
    settled.unwrap_or_else(|| {
        let state = world.process(sender).node.delivery(event);
        panic!("{event:?} not within {bound:?}: {state:?}")
    })
}

#[test]
fn an_event_reaches_all_and_its_sender_learns_of_it() {
    for count in [2, 3, 10, 50] {
        let (mut world, nodes) = cluster(count as u64, count);
        world.run_for(seconds(1.0));
        let event = send(&mut world, nodes[0], Delivery::AtLeastOnce);
        let length = settle(&mut world, nodes[0], &event, 0.1);
        println!("{count} members: {length:?}");
        assert_eq!(
            total(&world, EventCount::Asked),
            0,
            "nobody had to be asked"
        );
        let fleeting = send(&mut world, nodes[1], Delivery::AtMostOnce);
        let known = world.run_until(seconds(0.1), |world| world.everyone_has(&fleeting));
        assert!(known.is_some(), "{count}");
        assert_eq!(world.process(nodes[1]).node.delivery(&fleeting), None);
        world.run_for(seconds(5.0));
        assert_eq!(total(&world, EventCount::Delivered), 2 * (count as u64 - 1));
        assert_eq!(total(&world, EventCount::Compared), 0, "nothing is missing");
    }
}

#[test]
fn alone_an_event_has_arrived() {
    let (mut world, nodes) = cluster(1, 1);
    let event = send(&mut world, nodes[0], Delivery::AtLeastOnce);
    settle(&mut world, nodes[0], &event, 0.1);
    let later = world.start(rumord_sim::Start::named("n2").joining([world.address(nodes[0])]));
    world.run_for(seconds(3.0));
    assert!(
        world.process(later).store.events().is_empty(),
        "it was sent before"
    );
    assert!(world.sender_knows(nodes[0], &event) || total(&world, EventCount::Asked) > 0);
}

/// At 30 % loss every event comes, in order, once; the checker sees to that.
#[test]
fn loss_delays_events_and_loses_none() {
    for (seed, loss) in [(1, 0.1), (2, 0.3), (3, 0.3)] {
        let (mut world, nodes) = cluster(seed, 30);
        world.run_for(seconds(1.0));
        world.set_usual_link(Link::LAN.losing(loss));
        for n in 0..20 {
            world.publish(nodes[n % 5], Delivery::AtLeastOnce, bodies(3, 100));
            world.run_for(seconds(0.03));
        }
        for &node in &nodes[..5] {
            let last = world.process(node).store.events().iter().rev();
            let name = &world.process(node).name;
            let last = last.clone().find(|event| event.origin == *name);
            let last = last.map(|event| event.event_ref()).expect("sent");
            settle(&mut world, node, &last, 5.0);
        }
        for &node in &nodes {
            assert_eq!(world.process(node).store.events().len(), 60);
        }
    }
}

#[test]
fn a_burst_of_events_is_told_in_few_datagrams() {
    let (mut world, nodes) = cluster(3, 10);
    world.run_for(seconds(1.0));
    let before = world.tally().sent;
    let events = world.publish(nodes[0], Delivery::AtLeastOnce, bodies(1000, 50));
    let last = *events.last().expect("sent");
    settle(&mut world, nodes[0], &last, 2.0);
    let sent = (world.tally().sent - before) as f64 / 1000.0;
    println!("{sent:.1} datagrams for one event and ten members");
    assert!(sent < 10.0, "{sent}");
    assert_eq!(world.process(nodes[0]).node.event_backlog().events, 0);
}

/// An event of 64 KiB is announced, and pulled once by each member.
#[test]
fn a_large_event_is_pulled_once_by_each() {
    for delivery in Delivery::ALL {
        for loss in [0.0, 0.1] {
            let (mut world, nodes) = cluster(4, 30);
            world.run_for(seconds(1.0));
            world.set_usual_link(Link::LAN.losing(loss));
            let event = world.publish(nodes[0], delivery, bodies(1, 65_536))[0];
            let known = world.run_until(seconds(3.0), |world| world.everyone_has(&event));
            println!("64 KiB {} at {loss}: {known:?}", delivery.as_str());
            assert!(known.is_some(), "{delivery:?} at {loss}");
            assert_eq!(
                total(&world, EventCount::Pulled),
                29,
                "{delivery:?} at {loss}"
            );
            if delivery == Delivery::AtLeastOnce {
                settle(&mut world, nodes[0], &event, 3.0);
            }
        }
    }
}

/// A cluster without events says nothing of them; one that has had some says it only while they are
/// kept.
#[test]
fn without_events_nothing_is_said_of_them() {
    let options = Options {
        config: Config {
            event_retention: seconds(60.0),
            ..Config::lan()
        },
        ..Options::seeded(5)
    };
    let mut world = World::new(options);
    let nodes = world.start_cluster(10);
    let kinds = [
        MessageKind::Events,
        MessageKind::EventAcks,
        MessageKind::EventHeads,
        MessageKind::EventPull,
        MessageKind::EventValues,
    ];
    let said = |world: &World| {
        world.total(|stats| {
            let all = stats.messages.iter();
            let of_events = all.filter(|((_, kind, _), _)| kinds.contains(kind));
            of_events.map(|(_, count)| count).sum()
        })
    };
    // What ten seconds of rest cost.
    let rest = |world: &mut World| {
        let bytes =
            |world: &World| world.total(|stats| stats.bytes.iter().map(|(_, bytes)| bytes).sum());
        let before = bytes(world);
        world.run_for(seconds(10.0));
        bytes(world) - before
    };
    world.run_for(seconds(60.0));
    let before = rest(&mut world);
    assert_eq!(said(&world), 0);
    let event = send(&mut world, nodes[0], Delivery::AtLeastOnce);
    settle(&mut world, nodes[0], &event, 1.0);
    world.run_for(seconds(2.0));
    let (kept, spoken) = (rest(&mut world), said(&world));
    assert!(kept > before, "a sum rides along: {kept}, {before}");
    world.run_for(seconds(70.0));
    let after = rest(&mut world);
    println!("{before} bytes before, {kept} while an event is kept, {after} after");
    assert!(after.abs_diff(before) * 100 < before, "{after}, {before}");
    assert_eq!(said(&world), spoken, "nothing had to be compared");
    assert_eq!(world.process(nodes[0]).node.state().kept_events, 0);
}

/// What is kept nowhere any more is said to be missed, and later events come.
#[test]
fn events_that_nobody_keeps_are_missed_with_a_word() {
    let options = Options {
        config: Config {
            event_retention: seconds(60.0),
            ..Config::lan()
        },
        ..Options::seeded(6)
    };
    let mut world = World::new(options);
    let nodes = world.start_cluster(8);
    world.run_for(seconds(2.0));
    world.publish(nodes[0], Delivery::AtLeastOnce, bodies(2, 50));
    world.run_for(seconds(2.0));
    let rules = world.partition(&nodes[7..]);
    world.run_for(seconds(10.0));
    world.publish(nodes[0], Delivery::AtLeastOnce, bodies(5, 50));
    world.run_for(seconds(70.0));
    let last = world.publish(nodes[0], Delivery::AtLeastOnce, bodies(1, 50))[0];
    world.run_for(seconds(1.0));
    assert_eq!(world.process(nodes[7]).store.events().len(), 2);
    rules.into_iter().for_each(|rule| world.lift(rule));
    settle(&mut world, nodes[0], &last, 20.0);
    let store = &world.process(nodes[7]).store;
    assert_eq!((store.events().len(), store.missed()), (3, 5));
    assert_eq!(total(&world, EventCount::Missed), 5);
}
