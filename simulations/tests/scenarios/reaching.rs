//! Who cannot see whom: every node must name the pairs and the cause, and only those.

use rumord::protocol::{Reach, ReachCause, UnreachedPair};
use rumord::time::Instant;
use rumord::wire::{self, ClusterTag, Extension, Message};
use rumord_sim::{Carried, Hosts, Link, Options, ProcessId, World};

use crate::stage::{cluster, deaths, seconds, settled};

/// Within this a broken path shows in the tables of all.
const SHOWN: f64 = 45.0;
/// Within this a broken stream or size does, which is asked about in turn.
const SHOWN_IN_TURN: f64 = 360.0;
/// Within this a mended path is listed nowhere any more.
const GONE: f64 = 30.0;

fn pairs(world: &World, id: ProcessId) -> Vec<UnreachedPair> {
    world.process(id).node.unreached()
}

/// What `pair` says, in short.
fn said(pair: &UnreachedPair) -> (String, String, ReachCause) {
    let (observer, subject) = (&pair.observer, &pair.subject);
    (observer.to_string(), subject.to_string(), pair.cause)
}

fn name(world: &World, id: ProcessId) -> String {
    world.process(id).name.to_string()
}

/// Whether every node lists exactly `expected`.
fn all_list(world: &World, expected: &[(ProcessId, ProcessId, ReachCause)]) -> bool {
    let mut expected: Vec<_> = expected
        .iter()
        .map(|&(observer, subject, cause)| (name(world, observer), name(world, subject), cause))
        .collect();
    expected.sort_by(|one, other| (&one.0, &one.1).cmp(&(&other.0, &other.1)));
    world.up().all(|process| {
        pairs(world, process.id)
            .iter()
            .map(said)
            .eq(expected.iter().cloned())
    })
}

/// Waits until every node lists exactly `expected`.
#[track_caller]
fn await_listed(
    world: &mut World,
    within: f64,
    expected: &[(ProcessId, ProcessId, ReachCause)],
) -> f64 {
    let took = world.run_until(seconds(within), |world| all_list(world, expected));
    let listed: Vec<_> = world.up().map(|process| pairs(world, process.id)).collect();
    took.unwrap_or_else(|| panic!("expected {expected:?}, listed {listed:#?}"))
        .as_secs_f64()
}

/// hashicorp/memberlist#234, hashicorp/consul#2200: "UDP failed but TCP works" said neither between
/// whom nor why.
#[test]
fn blocked_datagrams_between_two_are_named_everywhere_and_kill_nobody() {
    for (count, seeds) in [(2, 3), (3, 3), (10, 3), (50, 1)] {
        for seed in 1..=seeds {
            let (mut world, nodes) = settled(seed, count);
            let (a, b) = (nodes[0], nodes[1]);
            let cuts = [
                world.cut(a, b, Carried::Datagrams),
                world.cut(b, a, Carried::Datagrams),
            ];
            let blocked = ReachCause::UdpBlocked;
            // Of many, two seldom ask each other.
            let within = if count > 10 { 1500.0 } else { SHOWN };
            let took = await_listed(&mut world, within, &[(a, b, blocked), (b, a, blocked)]);
            println!("N = {count}: blocked datagrams listed by all after {took:.1} s");
            world.run_for(seconds(60.0));
            assert!(all_list(&world, &[(a, b, blocked), (b, a, blocked)]));
            let pair = &pairs(&world, b)[0];
            assert_eq!(
                (pair.datagram, pair.stream),
                (Reach::Unreachable, Reach::Reachable)
            );
            cuts.into_iter().for_each(|cut| world.lift(cut));
            let took = await_listed(&mut world, GONE, &[]);
            println!("N = {count}: mended after {took:.1} s");
            assert_eq!(deaths(&world, Instant::ORIGIN), [""; 0], "seed {seed}");
        }
    }
}

#[test]
fn one_direction_is_told_from_both() {
    for carried in [Carried::Datagrams, Carried::Everything] {
        for count in [3, 10] {
            let (mut world, nodes) = settled(7, count);
            let (a, b) = (nodes[0], nodes[1]);
            let cut = world.cut(a, b, carried);
            let expected = [
                (a, b, ReachCause::OneWayThere),
                (b, a, ReachCause::OneWayBack),
            ];
            await_listed(&mut world, 60.0, &expected);
            world.run_for(seconds(60.0));
            assert!(all_list(&world, &expected), "{:#?}", pairs(&world, a));
            world.lift(cut);
            await_listed(&mut world, GONE, &[]);
            assert_eq!(deaths(&world, Instant::ORIGIN), [""; 0]);
        }
    }
}

/// hashicorp/serf#498: with TCP blocked, members looked alive for hours and nothing said why tables
/// were not exchanged.
#[test]
fn blocked_streams_are_named() {
    for count in [3, 5] {
        let (mut world, nodes) = settled(3, count);
        let (a, b) = (nodes[0], nodes[1]);
        let cuts = [
            world.cut(a, b, Carried::Streams),
            world.cut(b, a, Carried::Streams),
        ];
        let expected = [
            (a, b, ReachCause::TcpBlocked),
            (b, a, ReachCause::TcpBlocked),
        ];
        await_listed(&mut world, SHOWN_IN_TURN, &expected);
        cuts.into_iter().for_each(|cut| world.lift(cut));
        await_listed(&mut world, GONE, &[]);
        assert_eq!(deaths(&world, Instant::ORIGIN), [""; 0]);
    }
}

/// Everything between two is lost; others reach both.
#[test]
fn a_path_that_carries_nothing_is_named() {
    let (mut world, nodes) = settled(4, 5);
    let (a, b) = (nodes[0], nodes[1]);
    world.cut(a, b, Carried::Everything);
    world.cut(b, a, Carried::Everything);
    let expected = [(a, b, ReachCause::NoPath), (b, a, ReachCause::NoPath)];
    await_listed(&mut world, 90.0, &expected);
    assert_eq!(deaths(&world, Instant::ORIGIN), [""; 0]);
}

/// Large datagrams are lost on the way from one to another: pings pass, tables and news do not.
#[test]
fn lost_large_datagrams_are_named() {
    let (mut world, nodes) = settled(5, 3);
    let (a, b) = (nodes[0], nodes[1]);
    let narrow = Link {
        datagram_bytes_max: 1000,
        ..Link::LAN
    };
    let (from, to) = (world.address(a), world.address(b));
    world.set_link(Hosts::one(from), Hosts::one(to), narrow);
    let expected = [(a, b, ReachCause::Mtu), (b, a, ReachCause::Mtu)];
    let took = await_listed(&mut world, 2.0 * SHOWN_IN_TURN + 600.0, &expected);
    println!("narrow path listed by all after {took:.0} s");
    world.set_link(Hosts::one(from), Hosts::one(to), Link::LAN);
    await_listed(&mut world, 2.0 * GONE, &[]);
}

/// All datagrams between all members are blocked, or all of one member: streams show that they
/// live.
#[test]
fn where_only_streams_pass_everybody_lives() {
    for count in [3, 10] {
        for seed in 1..=3 {
            let (mut world, nodes) = settled(seed, count);
            for &node in &nodes {
                world.deafen(node, Carried::Datagrams);
            }
            world.run_for(seconds(120.0));
            assert_eq!(deaths(&world, Instant::ORIGIN), [""; 0], "seed {seed}");
            assert!(world.all_alive(), "seed {seed}: {:?}", world.matrix());
            // Each tells at most sixteen, and reaches nobody by datagram.
            let listed = pairs(&world, nodes[0]);
            assert_eq!(listed.len(), count * (count - 1), "{listed:#?}");
        }
    }
}

#[test]
fn one_direction_of_a_members_datagrams_kills_nobody() {
    for count in [3, 10] {
        for deaf in [true, false] {
            let (mut world, nodes) = settled(8, count);
            match deaf {
                true => world.deafen(nodes[1], Carried::Datagrams),
                false => world.mute(nodes[1], Carried::Datagrams),
            };
            world.run_for(seconds(120.0));
            assert_eq!(deaths(&world, Instant::ORIGIN), [""; 0], "N = {count}");
            assert!(world.all_alive());
        }
    }
}

/// Loss and pauses are no broken paths.
#[test]
fn lossy_links_and_pauses_list_nobody() {
    for share in [0.1, 0.3] {
        let mut world = World::new(Options {
            link: Link::LAN.losing(share),
            ..Options::seeded(9)
        });
        let nodes = world.start_cluster(20);
        for step in 0..300 {
            world.run_for(seconds(2.0));
            if step % 5 == 0 {
                world.pause(nodes[step % 20], seconds(3.0));
            }
            for &node in &nodes {
                assert_eq!(pairs(&world, node), [], "{share} lost, {:?}", world.now());
            }
        }
    }
}

/// Reports end with who made them, and at the latest with their age.
#[test]
fn what_an_observer_told_goes_with_it() {
    let (mut world, nodes) = cluster(6, 5);
    world.run_for(seconds(30.0));
    let (a, b) = (nodes[0], nodes[1]);
    world.cut(a, b, Carried::Datagrams);
    world.cut(b, a, Carried::Datagrams);
    let blocked = ReachCause::UdpBlocked;
    await_listed(&mut world, SHOWN, &[(a, b, blocked), (b, a, blocked)]);
    world.crash(a);
    await_listed(&mut world, 10.0, &[]);
    world.run_for(seconds(110.0));
    assert!(all_list(&world, &[]));
}

/// A datagram of `sender` which says that `observer` does not reach `subject`.
fn made_up(world: &World, [sender, observer, subject]: [ProcessId; 3], number: u32) -> Vec<u8> {
    let process = |id| world.process(id);
    let hash = |id: ProcessId| process(id).name.hash();
    let unreached = wire::Unreached {
        subject: hash(subject),
        ways: wire::Ways {
            datagrams_lost: true,
            ..wire::Ways::default()
        },
        age: wire::Age(3),
    };
    let report = wire::ReachReport {
        observer: hash(observer),
        generation: wire::GenerationLow::of(process(observer).generation),
        number,
        age: wire::Centiseconds(0),
        unreached: vec![unreached].into(),
    };
    let (extension, _) = Extension::reach(&[report], 1000).expect("it fits");
    let news = wire::News {
        sender: wire::Sender {
            member: hash(sender),
            generation: process(sender).generation,
            version: rumord::member::Version(50),
        },
        gossip: wire::Gossip {
            extensions: vec![extension].into(),
            ..wire::Gossip::default()
        },
    };
    wire::encode(ClusterTag::of("default"), &Message::News(news))
}

/// What somebody makes up about others is seen for as long as it is repeated, and then no more;
/// nothing grows, and nobody is thought worse of.
#[test]
fn made_up_reports_vanish_and_harm_nobody() {
    let (mut world, nodes) = settled(11, 5);
    let liar = world.address(nodes[4]);
    for number in 0..2000 {
        let (observer, subject) = (nodes[number % 3], nodes[(number + 1) % 3]);
        let number = u32::try_from(number).expect("small");
        let lie = made_up(&world, [nodes[4], observer, subject], 7 + number * number);
        world.inject(liar, nodes[3], &lie);
        world.run_for(seconds(0.01));
        let listed = pairs(&world, nodes[3]).len();
        assert!(listed <= 3, "{listed}");
    }
    world.run_for(seconds(110.0));
    assert!(all_list(&world, &[]), "{:?}", pairs(&world, nodes[3]));
    assert_eq!(deaths(&world, Instant::ORIGIN), [""; 0]);
    assert!(world.all_alive());
}
