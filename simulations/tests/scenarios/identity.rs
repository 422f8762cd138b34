//! One name, one life at a time, whatever its process goes through.

use std::time::Duration;

use rumord::member::{Generation, NameHash, Status};
use rumord::protocol::{Event, EventKind};
use rumord::time::Instant;
use rumord::wire::{self, Age, ClusterTag, Gossip, Message, News, RecordUpdate, Sender, Update};
use rumord_sim::world::{AddressChoice, GenerationChoice, NodeIdChoice};
use rumord_sim::{Carried, Link, Options, ProcessId, Restart, Start, World};

use crate::stage::{assert_each_said, deaths, other_deaths, seconds, settled};

/// A process without a past takes the name of `old` at its address.
fn stranger_at(world: &mut World, old: ProcessId) -> ProcessId {
    let way = Restart {
        generation: GenerationChoice::Clock,
        node_id: NodeIdChoice::Fresh,
        address: AddressChoice::Kept,
    };
    world.restart(old, way)
}

fn leave(world: &mut World, node: ProcessId) {
    world.leave(node, seconds(5.0));
    let left = world.run_until(seconds(5.0), |world| {
        world.everyone_sees(node, Status::Left)
    });
    assert!(left.is_some(), "{:?}", world.matrix());
    world.run_for(seconds(0.2));
    world.crash(node);
}

/// What `observer` said about the member of `subject` since then, in order.
fn said(world: &World, observer: ProcessId, subject: ProcessId, since: Instant) -> Vec<EventKind> {
    let name = &world.process(subject).name;
    let events = world.process(observer).events.iter();
    let about = events.filter_map(|(at, event)| match event {
        Event::Member(event) if *at >= since && event.member == *name => Some(event.kind),
        _ => None,
    });
    about.collect()
}

/// hashicorp/consul#6897, hashicorp/memberlist#213: who took the name of a member that had left was
/// refused for 40 s, and shown as left while it ran.
#[test]
fn a_name_is_free_as_soon_as_its_holder_has_left() {
    for seed in 1..=5 {
        let (mut world, nodes) = settled(seed, 6);
        let since = world.now();
        leave(&mut world, nodes[3]);
        world.run_for(seconds(1.0));
        let start = Start::named("n4").joining([world.address(nodes[0])]);
        let heir = world.start(start);
        let seen = world.run_until(seconds(2.0), |world| world.everyone_sees_life(heir));
        assert!(seen.is_some(), "seed {seed}: {:?}", world.matrix());
        world.run_for(seconds(30.0));
        let expected = [EventKind::MemberLeft, EventKind::MemberUp];
        for observer in nodes.iter().filter(|&&id| id != nodes[3]) {
            assert_eq!(
                said(&world, *observer, heir, since),
                expected,
                "seed {seed}"
            );
        }
        let conflicts = |node: ProcessId| world.process(node).node.rival();
        assert!(
            nodes[..3]
                .iter()
                .chain([&heir])
                .all(|&node| conflicts(node).is_none())
        );
    }
}

/// hashicorp/consul#22245: a machine was built anew after a leave; it joined, failed, and joined.
#[test]
fn who_is_built_anew_after_a_leave_joins_once() {
    for seed in 1..=3 {
        let (mut world, nodes) = settled(seed, 5);
        leave(&mut world, nodes[2]);
        world.run_for(seconds(120.0));
        let since = world.now();
        let anew = stranger_at(&mut world, nodes[2]);
        world.run_for(seconds(300.0));
        assert!(world.all_alive(), "seed {seed}: {:?}", world.matrix());
        for &observer in [nodes[0], nodes[1], nodes[3], nodes[4]].iter() {
            assert_eq!(
                said(&world, observer, anew, since),
                [EventKind::MemberUp],
                "seed {seed}"
            );
        }
    }
}

/// weaveworks/weave#1554, PR#1641: "the old one has gone" and "a new one is here" raced round the
/// network, and some meshes never settled.
#[test]
fn restarts_in_quick_succession_end_in_the_last_life() {
    for seed in 1..=5 {
        let mut world = World::new(Options {
            link: Link {
                reordered: 0.3,
                ..Link::LAN
            },
            ..Options::seeded(seed)
        });
        let nodes = world.start_cluster(10);
        world.run_for(seconds(30.0));
        let (since, mut last) = (world.now(), nodes[4]);
        for _ in 0..20 {
            world.crash(last);
            last = world.restart(last, Restart::default());
            world.run_for(seconds(3.0));
        }
        let seen = world.run_until(seconds(2.0), World::all_alive);
        assert!(seen.is_some(), "seed {seed}: {:?}", world.matrix());
        let generation = world.process(last).node.state().generation;
        for process in world.up() {
            let held = process.node.record_of(&world.process(last).name);
            assert_eq!(held.map(|held| held.standing.generation), Some(generation));
        }
        assert_eq!(deaths(&world, since), [""; 0], "seed {seed}");
    }
}

/// akka/akka-core#16726, #16224, #19274: a new life could not join while its old one was suspect
/// here and dead there, and a lost answer to its join stuck for good.
#[test]
fn a_new_life_joins_while_views_of_the_old_one_differ_and_an_answer_is_lost() {
    for seed in 1..=5 {
        let (mut world, nodes) = settled(seed, 6);
        let (victim, since) = (nodes[2], world.now());
        world.crash(victim);
        // The instant at which the first member has its verdict, and the others have not.
        let differ = |world: &World| {
            let shown = [0, 1, 3, 4, 5].map(|n| world.status(nodes[n], victim));
            shown.contains(&Some(Status::Dead)) && shown.contains(&Some(Status::Suspect))
        };
        let differs = world.run_until(seconds(10.0), differ);
        assert!(differs.is_some(), "seed {seed}");
        let start = Start {
            node_id: Some(world.process(victim).node_id),
            address: Some(world.address(victim)),
            generation: Some(Generation(world.process(victim).generation.0 + 1000)),
            ..Start::named("n3")
        };
        let back = world.start(start.joining([world.address(nodes[0])]));
        // The first answer is lost, and with it all others of a second.
        let mute = world.mute(nodes[0], Carried::Streams);
        world.run_for(seconds(1.0));
        world.lift(mute);
        let seen = world.run_until(seconds(20.0), |world| world.everyone_sees_life(back));
        assert!(seen.is_some(), "seed {seed}: {:?}", world.matrix());
        let ready = |world: &World| world.process(back).node.state().ready;
        assert!(
            world.run_until(seconds(20.0), ready).is_some(),
            "seed {seed}"
        );
        let others = other_deaths(&world, since, &[victim]);
        assert_eq!(others, [""; 0], "seed {seed}");
    }
}

/// quickwit-oss/chitchat#94, caio/foca#32: after a restart both lives were listed, and a node
/// listed its own former one.
#[test]
fn only_the_newest_life_is_listed_also_when_an_old_one_is_told_late() {
    let (mut world, nodes) = settled(1, 5);
    let old = world
        .process(nodes[0])
        .node
        .record_of(&world.process(nodes[1]).name);
    let old = old.expect("listed").clone();
    let mut last = nodes[1];
    for _ in 0..3 {
        world.crash(last);
        last = world.restart(last, Restart::default());
        world.run_for(seconds(2.0));
    }
    let told = News {
        sender: Sender {
            member: NameHash::MIN,
            generation: Generation(1),
            version: Default::default(),
        },
        gossip: Gossip {
            updates: vec![Update::Record(RecordUpdate {
                record: old,
                version: Default::default(),
                age: Age(0),
                lease_left: Default::default(),
            })]
            .into(),
            ..Gossip::default()
        },
    };
    let payload = wire::encode(ClusterTag::of("default"), &Message::News(told));
    let everybody: Vec<ProcessId> = world.up().map(|process| process.id).collect();
    for id in everybody {
        world.inject(([10, 9, 9, 9], 1).into(), id, &payload);
    }
    world.run_for(seconds(5.0));
    assert!(world.all_alive(), "{:?}", world.matrix());
    for process in world.up() {
        let named = process
            .node
            .records()
            .filter(|held| held.name.as_str() == "n2");
        assert_eq!(named.count(), 1, "{}", process.name);
        assert_eq!(process.node.rival(), None, "{}", process.name);
    }
}

/// akka/akka-core PR#526, scylladb/scylladb#1714: a member with one heartbeat or none had no
/// estimate, and its silence was never noticed.
#[test]
fn a_member_that_is_never_heard_again_after_it_joined_is_found() {
    for seed in 1..=10 {
        let (mut world, nodes) = settled(seed, 5);
        let join = [world.address(nodes[0])];
        let short = world.start(Start::named("short").joining(join));
        let seen = world.run_until(seconds(1.0), |world| world.everyone_sees_life(short));
        assert!(seen.is_some(), "seed {seed}");
        world.crash(short);
        let buried = world.run_until(seconds(10.0), |world| world.everyone_buries(short));
        assert!(buried.is_some(), "seed {seed}: {:?}", world.matrix());
    }
}

/// hashicorp/consul#843, hashicorp/nomad#3837: a node was set up for another cluster and kept its
/// address and its identity; a peer of the old cluster brought the two together.
#[test]
fn a_node_moved_to_another_cluster_is_no_bridge() {
    for seed in 1..=5 {
        let (mut world, blue) = settled(seed, 5);
        let green = |name: &str| Start {
            cluster: "green".into(),
            ..Start::named(name)
        };
        let first = world.start(green("g1"));
        let moved = world.process(blue[1]);
        let start = Start {
            node_id: Some(moved.node_id),
            generation: Some(Generation(moved.generation.0 + 100)),
            address: Some(moved.address),
            ..green("n2")
        };
        world.crash(blue[1]);
        let moved = world.start(start.joining([world.address(first)]));
        world.run_for(Duration::from_secs(90));
        let names = |id: ProcessId| {
            let records = world.process(id).node.records();
            let mut names: Vec<_> = records.map(|record| record.name.to_string()).collect();
            names.sort();
            names
        };
        assert_eq!(names(moved), ["g1", "n2"], "seed {seed}");
        assert_eq!(names(first), ["g1", "n2"], "seed {seed}");
        for id in [blue[0], blue[2], blue[3], blue[4]] {
            assert_eq!(world.status(id, blue[1]), Some(Status::Dead), "seed {seed}");
            assert_eq!(names(id).len(), 5, "seed {seed}");
        }
        let joined = said(&world, blue[0], blue[1], Instant::ORIGIN);
        assert_eq!(joined.last(), Some(&EventKind::MemberDead), "seed {seed}");
    }
}

/// caio/foca#34, akkadotnet/akka.net#2419: a restart before anybody noticed, told with both lives.
#[test]
fn a_restart_within_a_period_names_the_new_generation_once() {
    for seed in 1..=5 {
        let (mut world, nodes) = settled(seed, 5);
        let since = world.now();
        world.crash(nodes[1]);
        let back = world.restart(nodes[1], Restart::default());
        world.run_for(seconds(20.0));
        assert_each_said(&world, back, EventKind::MemberRestarted, 1, since);
        let generation = world.process(back).generation;
        for news in world.news_of(back, EventKind::MemberRestarted, since) {
            assert_eq!(news.event.generation, generation, "seed {seed}");
        }
        assert_eq!(deaths(&world, since), [""; 0], "seed {seed}");
    }
}
