//! Members that lose too much or pause too long: who goes, who stays, and how they come back.

use std::time::Duration;

use rumord::member::Status;
use rumord::protocol::{EventKind, MetadataChange};
use rumord_sim::rules::{Carried, Effect, Hosts, Rule};
use rumord_sim::world::{MemberNews, Restart};
use rumord_sim::{Options, ProcessId, World};

use crate::stage::{deaths, other_deaths, seconds, settled};

/// The rules by which `subject` was declared dead, by whoever decided.
fn rules(world: &World, subject: ProcessId) -> Vec<String> {
    let news = world.news_of(
        subject,
        EventKind::MemberDead,
        rumord::time::Instant::ORIGIN,
    );
    let rule = |news: MemberNews<'_>| {
        let evidence = news.event.evidence.as_ref().expect("a verdict");
        (evidence.rule != "told").then(|| evidence.rule.to_string())
    };
    news.filter_map(rule).collect()
}

/// hashicorp/consul#1212: a node with a lossy network flaps, and takes others with it. Here it is
/// evicted once, agrees itself, stays out while it is lossy, and comes back once it is well.
#[test]
fn a_lossy_member_is_evicted_once_and_returns_when_it_is_well() {
    for seed in 1..=3 {
        let (mut world, nodes) = settled(seed, 40);
        let (victim, since) = (nodes[7], world.now());
        let rules_laid = world.lose(victim, 0.8);
        let evicted = world.run_until(seconds(20.0), |world| world.everyone_buries(victim));
        assert!(
            evicted.is_some(),
            "seed {seed}: {:?}",
            rules(&world, victim)
        );
        world.run_for(seconds(200.0));
        assert!(world.everyone_buries(victim), "seed {seed}");
        let ups = world.news_of(victim, EventKind::MemberUp, since).count();
        let back = world.process(victim).node.state().quarantine_ends;
        if rules(&world, victim).contains(&"degraded".to_owned()) {
            assert_eq!(ups, 0, "seed {seed}: it stays out while it is lossy");
            assert!(back.is_some(), "seed {seed}: it knows");
            assert_eq!(world.status(victim, victim), Some(Status::Dead));
        }
        for rule in rules_laid {
            world.lift(rule);
        }
        let well = world.run_until(seconds(90.0), World::all_alive);
        assert!(well.is_some(), "seed {seed}: it comes back");
        assert_eq!(world.process(victim).node.state().quarantine_ends, None);
        assert_eq!(other_deaths(&world, since, &[victim]), Vec::<String>::new());
    }
}

/// Whoever starts anew has a new generation, and no strikes: a repaired machine is not kept out.
#[test]
fn a_restart_ends_the_quarantine() {
    let (mut world, nodes) = settled(4, 30);
    let victim = nodes[3];
    let rules_laid = world.lose(victim, 0.8);
    let evicted = |world: &World| {
        let state = world.process(victim).node.state();
        state.quarantine_ends.is_some() && world.everyone_buries(victim)
    };
    assert!(world.run_until(seconds(60.0), evicted).is_some());
    for rule in rules_laid {
        world.lift(rule);
    }
    world.crash(victim);
    world.restart(victim, Restart::default());
    let back = world.run_until(seconds(10.0), World::all_alive);
    assert!(back.is_some());
}

/// Loss that everybody has is no reason to evict anybody, and neither is a network that loses half
/// of the questions of one member.
#[test]
fn what_is_lost_everywhere_or_by_half_evicts_nobody() {
    let (mut world, nodes) = settled(5, 40);
    let since = world.now();
    let rules_laid = world.lose(nodes[9], 0.25);
    world.run_for(seconds(300.0));
    assert_eq!(deaths(&world, since), Vec::<String>::new());
    for rule in rules_laid {
        world.lift(rule);
    }
    for &node in &nodes {
        world.lose(node, 0.1);
    }
    world.run_for(seconds(200.0));
    assert_eq!(deaths(&world, since), Vec::<String>::new());
    assert_eq!(world.total(|stats| stats.evictions), 0);
}

/// How long after a pause of `length` began `member` was first declared dead; `None` if it was not.
fn pause(world: &mut World, member: ProcessId, length: Duration) -> Option<Duration> {
    let since = world.now();
    world.pause(member, length);
    world.run_for(length + seconds(5.0));
    let first = world
        .news_of(member, EventKind::MemberDead, since)
        .map(|news| news.at)
        .min();
    first.map(|at| at.since(since))
}

/// Pauses longer than the tolerance are deaths, and the next one of the same member may be twice
/// as long; a crash of another member is found as ever, and a new life is nobody's pupil.
#[test]
fn a_survived_death_lengthens_the_tolerance_of_that_member_alone() {
    let (mut world, nodes) = settled(6, 20);
    let (sleeper, other) = (nodes[2], nodes[11]);
    assert!(pause(&mut world, sleeper, seconds(7.0)).is_some());
    assert_eq!(pause(&mut world, sleeper, seconds(9.0)), None);
    let second = pause(&mut world, sleeper, seconds(12.5)).expect("too long even so");
    assert!(second > seconds(10.0), "{second:?}");
    let crashed = world.now();
    world.crash(other);
    world.run_for(seconds(6.3));
    assert!(world.everyone_buries(other));
    assert!(world.news_of(other, EventKind::MemberDead, crashed).count() > 0);
    world.crash(sleeper);
    let sleeper = world.restart(sleeper, Restart::default());
    world.run_for(seconds(20.0));
    let died = pause(&mut world, sleeper, seconds(7.0)).expect("a new life has the usual one");
    assert!(died < seconds(6.5), "{died:?}");
}

/// Both halves of a partition come back in a crowd: nobody has stood still, nothing is learnt.
#[test]
fn a_healed_partition_lengthens_no_tolerance() {
    let (mut world, nodes) = settled(7, 20);
    let rules_laid = world.partition(&nodes[..10]);
    world.run_for(seconds(20.0));
    for rule in rules_laid {
        world.lift(rule);
    }
    assert!(world.run_until(seconds(30.0), World::all_alive).is_some());
    world.run_for(seconds(20.0));
    world.crash(nodes[3]);
    world.run_for(seconds(6.4));
    assert!(world.everyone_buries(nodes[3]));
}

/// Somebody hears of a suspicion, not of its refutation, and meets a short pause of the member long
/// after: it judges by its own watch, which has only begun.
#[test]
fn nobody_inherits_the_beginning_of_a_silence() {
    for seed in 1..=10 {
        let (mut world, nodes) = settled(seed, 20);
        let since = world.now();
        let (accuser, accused) = (nodes[0], nodes[1]);
        let rest: Vec<ProcessId> = nodes[2..].to_vec();
        world.accuse(accuser, accused);
        for &deaf in &rest {
            let rule = world.deafen(deaf, Carried::Datagrams);
            world.run_for(Duration::from_millis(1));
            world.lift(rule);
        }
        world.run_for(seconds(3.0));
        for round in 0..5 {
            world.pause(accused, seconds(1.0 + 0.5 * f64::from(round)));
            world.run_for(seconds(4.0));
        }
        assert_eq!(deaths(&world, since), Vec::<String>::new(), "seed {seed}");
    }
}

/// A member loses its packets for 4.9 s again and again, with two seconds between: no single outage
/// is longer than the tolerance. Closer together they would be one.
#[test]
fn outages_apart_are_not_added_up() {
    let (mut world, nodes) = settled(8, 30);
    let since = world.now();
    for _ in 0..40 {
        world.outage(nodes[4], seconds(4.9));
        world.run_for(seconds(7.0));
    }
    assert_eq!(deaths(&world, since), Vec::<String>::new());
}

/// Loss between two sites only: members of both are asked, so that each site's word counts.
#[test]
fn a_lossy_link_between_two_zones_kills_nobody() {
    let options = Options::seeded(9);
    let mut world = World::new(options);
    let nodes = world.start_cluster(30);
    for (place, &node) in nodes.iter().enumerate() {
        let zone = if place < 20 { "east" } else { "west" };
        let tags = [("zone".to_owned(), zone.to_owned())].into();
        world.describe(node, &MetadataChange::Tags(tags));
    }
    world.run_for(seconds(30.0));
    let since = world.now();
    let sites = |range: &[ProcessId], world: &World| {
        Hosts::Only(range.iter().map(|&id| world.address(id)).collect())
    };
    let (east, west) = (sites(&nodes[..20], &world), sites(&nodes[20..], &world));
    for (from, to) in [(east.clone(), west.clone()), (west, east)] {
        world.lay(Rule {
            from,
            to,
            carried: Carried::Everything,
            effect: Effect::Lose(0.7),
        });
    }
    world.run_for(seconds(300.0));
    assert_eq!(deaths(&world, since), Vec::<String>::new());
}
