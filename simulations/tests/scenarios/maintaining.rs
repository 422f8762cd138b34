//! Planned absences: silence that is no failure while it was announced.

use std::time::Duration;

use rumord::member::{Lease, Status};
use rumord::protocol::{Config, EventKind, MetadataChange};
use rumord::time::Instant;
use rumord_sim::{ProcessId, Restart, World};

use crate::stage::{assert_each_said, counts, deaths, seconds, settled};

fn announce(world: &mut World, id: ProcessId, length: Duration) {
    let lease = Lease {
        length,
        reason: "deploy".to_owned(),
    };
    world.describe(id, &MetadataChange::BeginMaintenance(lease));
}

/// When `observer` takes the maintenance of `subject` to end, from now.
fn left(world: &World, observer: ProcessId, subject: ProcessId) -> Option<Duration> {
    let (observer, name) = (world.process(observer), &world.process(subject).name);
    let local = observer.clock.local(world.now());
    let mut members = observer.node.members(local);
    let member = members.find(|member| member.name == *name)?;
    Some(member.maintenance_ends?.since(local))
}

/// hugalafutro/model-hotel PR#1023, tarantool/membership PR#42: planned work was paged as a
/// failure.
#[test]
fn a_planned_stop_within_its_time_is_no_failure() {
    for (seed, count) in [(1, 3), (2, 12), (3, 40)] {
        let (mut world, nodes) = settled(seed, count);
        let away = nodes[1];
        announce(&mut world, away, seconds(60.0));
        world.run_for(seconds(1.0));
        let stopped = world.now();
        world.crash(away);
        world.run_for(seconds(30.0));
        // A suspicion is told to few: to some it is alive all the time.
        let suspected = world.up().any(|process| {
            let shown = process.node.status_of(&world.process(away).name);
            shown == Some(Status::Suspect)
        });
        assert!(suspected, "of {count}");
        let fresh = world.restart(away, Restart::default());
        let back = world.run_until(seconds(1.0), |world| world.everyone_sees_life(fresh));
        assert!(back.is_some(), "of {count}");
        assert_each_said(&world, fresh, EventKind::MemberRestarted, 1, stopped);
        assert_eq!(
            left(&world, nodes[0], fresh),
            None,
            "it ended with that life"
        );
        world.run_for(seconds(90.0));
        assert_eq!(deaths(&world, stopped), [""; 0], "of {count}");
    }
}

/// The same life comes back: a host that was suspended, or cut off, for longer than the tolerance.
#[test]
fn a_node_that_stands_still_within_its_time_goes_on_as_the_same() {
    let (mut world, nodes) = settled(4, 12);
    let away = nodes[3];
    announce(&mut world, away, seconds(60.0));
    world.run_for(seconds(1.0));
    let stopped = world.now();
    world.outage(away, seconds(30.0));
    world.run_for(seconds(30.0));
    let back = world.run_until(seconds(10.0), World::all_alive);
    assert!(back.is_some());
    assert_eq!(deaths(&world, stopped), [""; 0]);
    for (_, said) in counts(&world, away, EventKind::MemberRestarted, stopped) {
        assert_eq!(said, 0, "it never ended");
    }
}

/// Afterwards it is silent like any other, and dead within the bound of any crash.
#[test]
fn a_stop_longer_than_its_time_is_a_death_afterwards() {
    for (seed, count) in [(5, 2), (6, 3), (7, 12)] {
        let (mut world, nodes) = settled(seed, count);
        let away = nodes[1];
        let announced = world.now();
        announce(&mut world, away, seconds(20.0));
        world.run_for(seconds(1.0));
        world.crash(away);
        let buried = world
            .run_until(seconds(60.0), |world| {
                world.everyone_sees(away, Status::Dead)
            })
            .map(|length| seconds(1.0) + length);
        let bound = seconds(20.0) + Config::lan().pause_tolerance + seconds(1.5);
        assert!(
            buried.is_some_and(|length| length <= bound),
            "{buried:?} of {count}"
        );
        let early = announced + seconds(19.9);
        let before = |at: Instant| at < early;
        let mut news = world.news_of(away, EventKind::MemberDead, announced);
        assert!(!news.any(|news| before(news.at)), "of {count}");
    }
}

#[test]
fn another_life_is_not_excused_by_what_the_last_one_announced() {
    let (mut world, nodes) = settled(8, 12);
    let away = nodes[1];
    announce(&mut world, away, seconds(600.0));
    world.run_for(seconds(1.0));
    world.crash(away);
    world.run_for(seconds(3.0));
    let fresh = world.restart(away, Restart::default());
    world.run_for(seconds(5.0));
    world.crash(fresh);
    let bound = Config::lan().pause_tolerance + seconds(1.5);
    let buried = world.run_until(bound, |world| world.everyone_sees(fresh, Status::Dead));
    assert!(buried.is_some());
}

#[test]
fn ending_it_early_ends_the_excuse() {
    let (mut world, nodes) = settled(9, 12);
    let away = nodes[1];
    announce(&mut world, away, seconds(600.0));
    world.run_for(seconds(5.0));
    world.describe(away, &MetadataChange::EndMaintenance);
    world.run_for(seconds(1.0));
    world.crash(away);
    let bound = Config::lan().pause_tolerance + seconds(1.5);
    let buried = world.run_until(bound, |world| world.everyone_sees(away, Status::Dead));
    assert!(buried.is_some());
}

/// Everybody counts by its own clock from what it was told was left: also who learns of it late,
/// and who learns of it from one who learnt late.
#[test]
fn a_late_joiner_sees_what_is_left() {
    let (mut world, nodes) = settled(10, 5);
    announce(&mut world, nodes[1], seconds(60.0));
    world.run_for(seconds(20.0));
    let address = world.address(nodes[0]);
    let late = world.start(rumord_sim::Start::named("late").joining([address]));
    world.run_for(seconds(1.0));
    for observer in [nodes[0], nodes[2], late] {
        let left = left(&world, observer, nodes[1]).expect("it runs");
        let error = left.abs_diff(seconds(39.0));
        assert!(error < seconds(0.1), "{observer}: {left:?}");
    }
    // A change of something else does not begin it anew.
    let tags = [("zone".to_owned(), "a".to_owned())].into();
    world.describe(nodes[1], &MetadataChange::Tags(tags));
    world.run_for(seconds(1.0));
    for &observer in &nodes {
        let left = left(&world, observer, nodes[1]).expect("it runs");
        assert!(left.abs_diff(seconds(38.0)) < seconds(0.1), "{left:?}");
    }
}

/// Its end is everybody's own: no message, and no table that differs from another.
#[test]
fn the_end_changes_no_fingerprint() {
    let (mut world, nodes) = settled(11, 5);
    announce(&mut world, nodes[1], seconds(10.0));
    world.run_for(seconds(2.0));
    let fingerprint = |world: &World| {
        let mut all: Vec<_> = world
            .up()
            .map(|process| process.node.fingerprint())
            .collect();
        all.dedup();
        assert_eq!(all.len(), 1, "all agree");
        all[0]
    };
    let before = fingerprint(&world);
    let revision = world.process(nodes[0]).node.revision();
    world.run_for(seconds(20.0));
    assert_eq!(left(&world, nodes[0], nodes[1]), None);
    assert_eq!(fingerprint(&world), before);
    let seen = world.process(nodes[0]).node.revision() - revision;
    assert_eq!(seen, 1, "readers see it end");
}

/// Planned absences of half of a cluster keep nobody from finding a crash.
#[test]
fn many_planned_absences_do_not_hide_a_crash() {
    let (mut world, nodes) = settled(12, 160);
    let (away, others) = nodes.split_at(80);
    for &id in away {
        announce(&mut world, id, seconds(600.0));
    }
    world.run_for(seconds(2.0));
    let stopped = world.now();
    for &id in away {
        world.crash(id);
    }
    world.run_for(seconds(40.0));
    let crashed = others[1];
    world.crash(crashed);
    let bound = Config::lan().pause_tolerance + seconds(3.0);
    let buried = world.run_until(bound, |world| world.everyone_sees(crashed, Status::Dead));
    assert!(buried.is_some());
    for &id in away {
        let dead = world.news_of(id, EventKind::MemberDead, stopped).count();
        assert_eq!(dead, 0, "{id} is excused");
    }
}
