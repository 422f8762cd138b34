//! A node comes back under its name: it replaces its earlier life, once, everywhere.

use std::time::Duration;

use rumord::member::{Generation, Status};
use rumord::protocol::{Event, EventKind, JoinOutcome, RELEASE_UNIX_SECONDS, RefusalReason};
use rumord::time::Instant;
use rumord_sim::world::{AddressChoice, GenerationChoice, NodeIdChoice};
use rumord_sim::{Carried, Options, ProcessId, Restart, Start, World};

use crate::stage::{assert_each_said, deaths, other_deaths, seconds, settled, summary};

/// How long all may need to see the new life.
const SEEN_LATEST: Duration = Duration::from_secs(2);

/// Every way in which a node may come back.
fn ways() -> Vec<Restart> {
    let mut ways = Vec::new();
    for node_id in [NodeIdChoice::Kept, NodeIdChoice::Fresh] {
        for address in [AddressChoice::Kept, AddressChoice::Fresh] {
            for generation in [GenerationChoice::Next, GenerationChoice::Clock] {
                ways.push(Restart {
                    generation,
                    node_id,
                    address,
                });
            }
        }
    }
    ways
}

/// Restarts `victim` in `way`, and waits until all see its new life.
fn come_back(world: &mut World, victim: ProcessId, way: Restart) -> (ProcessId, Duration) {
    let earlier = world.process(victim).node.state().generation;
    let back = world.restart(victim, way);
    let seen = world.run_until(SEEN_LATEST, |world| world.everyone_sees_life(back));
    let seen = seen.unwrap_or_else(|| panic!("{way:?}: {:?}", world.matrix()));
    assert!(
        world.process(back).node.state().generation > earlier,
        "{way:?}"
    );
    (back, seen)
}

#[test]
fn a_restart_over_the_living_is_one_event() {
    for count in [2, 3, 10] {
        let mut times = Vec::new();
        for (seed, way) in (1..).zip(ways()) {
            let (mut world, nodes) = settled(seed, count);
            let since = world.now();
            world.crash(nodes[1]);
            world.run_for(Duration::from_millis(100));
            let (back, seen) = come_back(&mut world, nodes[1], way);
            times.push(seen);
            world.run_for(seconds(30.0));
            assert!(world.all_alive(), "{way:?}: {:?}", world.matrix());
            assert_each_said(&world, back, EventKind::MemberRestarted, 1, since);
            assert_each_said(&world, back, EventKind::MemberUp, 0, since);
            assert_eq!(deaths(&world, Instant::ORIGIN), [""; 0], "{way:?}");
        }
        println!("restart over the living, N = {count}: {}", summary(times));
    }
}

/// Without a data directory, in the second of the first start: both lives have one generation, and
/// only the node id tells them apart.
#[test]
fn two_starts_within_a_second_end_in_the_second() {
    for address in [AddressChoice::Kept, AddressChoice::Fresh] {
        for seed in 1..=20 {
            let (mut world, nodes) = settled(seed, 5);
            let join = [world.address(nodes[0])];
            let first = world.start(Start::named("late").joining(join));
            world.run_for(Duration::from_millis(300));
            let since = world.now();
            world.crash(first);
            let way = Restart {
                generation: GenerationChoice::Exactly(world.process(first).generation),
                node_id: NodeIdChoice::Fresh,
                address,
            };
            let (back, _) = come_back(&mut world, first, way);
            world.run_for(seconds(30.0));
            assert!(world.all_alive(), "{way:?}: {:?}", world.matrix());
            assert_each_said(&world, back, EventKind::MemberRestarted, 1, since);
            assert_eq!(deaths(&world, Instant::ORIGIN), [""; 0], "{way:?}");
        }
    }
}

#[test]
fn a_restart_over_the_dead_is_one_return() {
    let mut times = Vec::new();
    for (seed, way) in (1..).zip(ways()) {
        let (mut world, nodes) = settled(seed, 6);
        world.crash(nodes[1]);
        let buried = world.run_until(seconds(10.0), |world| world.everyone_buries(nodes[1]));
        assert!(buried.is_some());
        world.run_for(seconds(5.0));
        let since = world.now();
        let (back, seen) = come_back(&mut world, nodes[1], way);
        times.push(seen);
        world.run_for(seconds(30.0));
        assert!(world.all_alive(), "{way:?}: {:?}", world.matrix());
        assert_each_said(&world, back, EventKind::MemberUp, 1, since);
        assert_each_said(&world, back, EventKind::MemberRestarted, 0, since);
        assert_eq!(
            other_deaths(&world, Instant::ORIGIN, &[back]),
            [""; 0],
            "{way:?}"
        );
    }
    println!("restart over the dead, N = 6: {}", summary(times));
}

/// It comes back while the others still suspect it.
#[test]
fn a_restart_over_the_suspected_is_one_event() {
    for (seed, way) in (1..).zip(ways()) {
        let (mut world, nodes) = settled(seed, 6);
        let since = world.now();
        world.crash(nodes[1]);
        let suspected = world.run_until(seconds(5.0), |world| {
            world
                .up()
                .any(|process| world.status(process.id, nodes[1]) == Some(Status::Suspect))
        });
        assert!(suspected.is_some());
        world.run_for(seconds(2.0));
        let (back, _) = come_back(&mut world, nodes[1], way);
        world.run_for(seconds(30.0));
        assert!(world.all_alive(), "{way:?}: {:?}", world.matrix());
        assert_each_said(&world, back, EventKind::MemberRestarted, 1, since);
        assert_eq!(deaths(&world, Instant::ORIGIN), [""; 0], "{way:?}");
    }
}

/// A second process claims the name of one that runs.
/// A stranger asks for the name of `nodes[2]` while that stands still for `stall`; it must be told
/// that the name is taken, and nobody may notice anything.
fn assert_name_is_kept(seed: u64, stall: Duration) {
    let (mut world, nodes) = settled(seed, 5);
    let since = world.now();
    let before = world.matrix();
    let join = [world.address(nodes[0])];
    world.pause(nodes[2], stall);
    let thief = world.start(Start::named("n3").joining(join));
    world.run_for(seconds(20.0));
    let refused = |event: &Event| {
        let outcome = JoinOutcome::Refused(RefusalReason::NameConflict);
        matches!(event, Event::Join { outcome: told, .. } if *told == outcome)
    };
    let said = &world.process(thief).events;
    let told = said.iter().any(|(_, event)| refused(event));
    assert!(told, "seed {seed}, {stall:?}: {said:?}");
    assert!(!world.process(thief).node.state().ready);
    let names = |matrix: Vec<(ProcessId, _)>| matrix.into_iter().take(5).collect::<Vec<_>>();
    assert_eq!(
        names(world.matrix()),
        names(before),
        "seed {seed}, {stall:?}"
    );
    assert_each_said(&world, thief, EventKind::MemberRestarted, 0, since);
    assert_eq!(
        deaths(&world, Instant::ORIGIN),
        [""; 0],
        "seed {seed}, {stall:?}"
    );
}

#[test]
fn a_name_that_is_taken_is_refused_and_its_holder_untouched() {
    for seed in 1..=10 {
        assert_name_is_kept(seed, Duration::from_millis(1));
    }
}

/// Standing still is not being gone: nobody refuses the connection, and the name is kept for as
/// long as a pause may last.
#[test]
fn a_holder_that_stands_still_keeps_its_name() {
    for seed in 1..=5 {
        for stall in [1.0, 3.0, 4.5] {
            assert_name_is_kept(seed, seconds(stall));
        }
    }
}

/// The name's holder itself is asked to admit the second process.
#[test]
fn a_name_is_refused_by_its_holder_too() {
    let (mut world, nodes) = settled(1, 5);
    let thief = world.start(Start::named("N3").joining([world.address(nodes[2])]));
    world.run_for(seconds(5.0));
    assert!(!world.process(thief).node.state().ready);
    world.crash(thief);
    assert!(world.all_alive());
}

/// Its clock is behind, its questions are lost, and meanwhile others join at its address: to have
/// admitted them must not keep it from taking the generation that the cluster asks it to take.
#[test]
fn a_node_whose_clock_is_behind_may_serve_joins_before_it_is_admitted() {
    for seed in 1..=5 {
        let (mut world, nodes) = settled(seed, 4);
        let victim = nodes[1];
        let address = world.address(victim);
        world.join(nodes[2], &[address]);
        world.run_for(seconds(1.0));
        world.crash(victim);
        let buried = world.run_until(seconds(20.0), |world| world.everyone_buries(victim));
        assert!(buried.is_some());
        let back = world.restart(
            victim,
            Restart {
                generation: GenerationChoice::Exactly(Generation(RELEASE_UNIX_SECONDS)),
                node_id: NodeIdChoice::Fresh,
                ..Restart::default()
            },
        );
        let deaf = world.deafen(back, Carried::Streams);
        world.run_for(seconds(0.5));
        world.lift(deaf);
        let served = world.run_until(seconds(9.0), |world| world.process(back).node.state().ready);
        assert!(served.is_some(), "seed {seed}: nobody asked it");
        let seen = world.run_until(seconds(30.0), |world| world.everyone_sees_life(back));
        assert!(seen.is_some(), "seed {seed}: {:?}", world.matrix());
    }
}

/// All but one come back, at their addresses, and know nothing of the one: it has to find them.
#[test]
fn the_last_survivor_finds_those_that_came_back() {
    for (seed, absence) in (1..).zip([0.1, 1.0, 4.0, 12.0, 40.0]) {
        for count in [2, 3, 6, 10] {
            let (mut world, nodes) = settled(seed, count);
            let address = world.address(nodes[0]);
            let (survivor, others) = nodes.split_last().expect("there are some");
            others.iter().for_each(|&node| world.crash(node));
            world.run_for(seconds(absence));
            for &node in others {
                let old = world.process(node);
                let back = Start {
                    address: Some(old.address),
                    ..Start::named(old.name.as_str())
                };
                world.start(back.joining([address]));
            }
            let together = world.run_until(seconds(20.0), World::all_alive);
            let matrix = world.matrix();
            assert!(together.is_some(), "{count}, {absence} s: {matrix:?}");
            assert!(world.process(*survivor).node.state().ready);
        }
    }
}

/// One member remembers a death that is not told any more; cut off, it misses the next life of
/// that name, and hears only that it is dead too. It must list that death as all others do.
#[test]
fn a_later_death_than_one_forgotten_is_listed_everywhere() {
    for seed in 1..=3 {
        let mut options = Options::seeded(seed);
        options.config.dead_retention = seconds(120.0);
        let mut world = World::new(options);
        let nodes = world.start_cluster(6);
        world.run_for(seconds(30.0));
        world.crash(nodes[5]);
        world.run_for(seconds(150.0));
        let cut = world.partition(&nodes[..1]);
        let back = world.restart(nodes[5], Restart::default());
        world.run_for(seconds(2.0));
        world.crash(back);
        world.run_for(seconds(8.0));
        cut.into_iter().for_each(|rule| world.lift(rule));
        let agreed = world.run_until(seconds(20.0), |world| {
            let mut tables = world.up().map(|process| process.node.fingerprint());
            let first = tables.next();
            tables.all(|table| Some(table) == first) && world.everyone_buries(back)
        });
        assert!(agreed.is_some(), "seed {seed}: {:?}", world.matrix());
    }
}
