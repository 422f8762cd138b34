//! All tables are equal: how soon that is known, and that it is never claimed too early.

use std::time::Duration;

use rumord_sim::world::{Checking, Keeping};
use rumord_sim::{Link, Options, ProcessId, Start, World};

use crate::stage::{seconds, settled};

const PAUSE: Duration = Duration::from_millis(200);
const LOOK: Duration = Duration::from_millis(10);

/// How many members a node calls alive, and how many it knows to agree.
fn counted(world: &World, id: ProcessId) -> (usize, usize, bool) {
    let process = world.process(id);
    let local = process.clock.local(world.now());
    let agreement = process.node.agreement(local);
    (agreement.alive, agreement.agree, agreement.converged)
}

fn complete(world: &World, id: ProcessId) -> bool {
    counted(world, id).2
}

/// How long each node takes from now on until it knows that all agree, sorted.
fn times(world: &mut World, nodes: &[ProcessId], bound: Duration) -> Vec<Duration> {
    let start = world.now();
    let mut open: Vec<ProcessId> = nodes.to_vec();
    let mut times = Vec::new();
    while !open.is_empty() && world.now().since(start) < bound {
        world.run_for(LOOK);
        open.retain(|&id| !complete(world, id));
        times.resize(nodes.len() - open.len(), world.now().since(start));
    }
    assert_eq!(open, [], "of {} not within {bound:?}", nodes.len());
    times
}

/// One change in a cluster that rests, and how long the median node and the last one take from then
/// on until they know that all agree.
fn after_a_change(seed: u64, count: usize, loss: f64, waits: bool) -> (Duration, Duration) {
    let mut world = World::new(Options {
        link: Link::LAN.losing(loss),
        keeping: Keeping::Nothing,
        checking: Checking::Nothing,
        ..Options::seeded(seed)
    });
    let nodes = world.start_full(count);
    world.run_for(seconds(1.0));
    let change = world.accuse(nodes[0], nodes[count / 2]).expect("listed");
    if waits {
        world.await_agreement(nodes[1], seconds(60.0), PAUSE);
    }
    let times = times(&mut world, &nodes, seconds(60.0));
    assert!(world.known_after(change).is_some());
    (times[count / 2], times[count - 1])
}

/// The mean over `runs` of the median node, and the last node of all.
fn measure(count: usize, loss: f64, waits: bool, runs: u64) -> (Duration, Duration) {
    let (mut median, mut last) = (Duration::ZERO, Duration::ZERO);
    for seed in 1..=runs {
        let (middle, latest) = after_a_change(seed, count, loss, waits);
        median += middle / runs as u32;
        last = last.max(latest);
    }
    println!("N = {count}, loss {loss}, waiter {waits}: median {median:.2?}, all {last:.2?}");
    (median, last)
}

fn assert_known_within(bounds: &[(usize, f64, [f64; 2])], runs: u64) {
    for &(count, loss, [idle, waited]) in bounds {
        let (_, last) = measure(count, loss, false, runs);
        assert!(last < seconds(idle), "{count}, {loss}: {last:?}");
        let (_, last) = measure(count, loss, true, runs);
        assert!(last < seconds(waited), "{count}, {loss}: {last:?}");
    }
}

#[test]
fn agreement_is_known_within_seconds_and_sooner_to_who_waits() {
    let bounds = [
        (10, 0.0, [4.0, 2.0]),
        (10, 0.1, [6.0, 3.0]),
        (100, 0.0, [7.0, 3.0]),
        (100, 0.1, [10.0, 4.0]),
    ];
    assert_known_within(&bounds, 5);
}

/// A bitmap of a thousand bits, while one datagram in ten is lost.
#[test]
fn a_thousand_agree_as_soon() {
    assert_known_within(&[(1000, 0.1, [14.0, 6.0])], 1);
}

/// Place 2 of three is another member than place 2 of four: a fourth joins at every instant between
/// two messages, while all three still say who holds the table of three. That nobody takes one
/// table's bits for the other's is looked at after every event.
#[test]
fn a_member_that_joins_meanwhile_is_never_counted_before_it_has_the_table() {
    for seed in 1..=40 {
        let mut world = World::new(Options::seeded(seed));
        let nodes = world.start_cluster(3);
        world.await_agreement(nodes[0], seconds(20.0), PAUSE);
        world.run_for(Duration::from_millis(40 * seed));
        let join = [world.address(nodes[(seed % 3) as usize])];
        let fourth = world.start(Start::named("m4").joining(join));
        let all = [nodes[0], nodes[1], nodes[2], fourth];
        world.await_agreement(fourth, seconds(20.0), PAUSE);
        let joined = |world: &World| all.iter().all(|&id| counted(world, id).0 == 4);
        world.run_until(seconds(2.0), joined).expect("joins");
        times(&mut world, &all, seconds(10.0));
    }
}

/// Who is dead and not known to be so has not said that it holds the table, and is named.
#[test]
fn a_dead_member_nobody_knows_of_is_a_laggard() {
    let (mut world, nodes) = settled(1, 6);
    assert!(nodes.iter().all(|&id| complete(&world, id)));
    world.crash(nodes[5]);
    world.accuse(nodes[1], nodes[2]).expect("listed");
    world.await_agreement(nodes[0], seconds(20.0), PAUSE);
    world.run_for(seconds(4.0));
    for &id in &nodes[..5] {
        assert_eq!(counted(&world, id), (6, 5, false), "{id}");
        let process = world.process(id);
        let local = process.clock.local(world.now());
        let laggards = process.node.agreement(local).laggards;
        let names: Vec<&str> = laggards.iter().map(|lag| lag.name.as_str()).collect();
        assert_eq!(names, ["n6"], "{id}");
    }
    let agreed = |world: &World| {
        nodes[..5]
            .iter()
            .all(|&id| counted(world, id) == (5, 5, true))
    };
    assert!(world.run_until(seconds(10.0), agreed).is_some());
}

/// A cluster that rests and agrees sends what it sent without this: pings and acks, of which each
/// says in one byte that all agree; also when somebody asks.
#[test]
fn a_cluster_that_agrees_pays_nothing() {
    let (mut world, nodes) = settled(2, 10);
    let before = crate::stage::datagrams_per_second(&mut world, seconds(30.0));
    world.await_agreement(nodes[3], seconds(30.0), PAUSE);
    let after = crate::stage::datagrams_per_second(&mut world, seconds(30.0));
    assert!((after - before).abs() < 0.05, "{before} became {after}");
}
