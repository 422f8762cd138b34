//! Tables that differ are made equal: soon, in few bytes, and without going back.

use std::time::Duration;

use rumord::member::Status;
use rumord::protocol::{Direction, EventKind, Transport};
use rumord::wire::MessageKind;
use rumord_sim::{Carried, Effect, Hosts, Link, Options, ProcessId, Restart, Rule, Start, World};

use crate::commands::printed;
use crate::stage::{deaths, seconds, settled};

fn equal(world: &World) -> bool {
    let mut tables = world.up().map(|process| process.node.fingerprint());
    let first = tables.next();
    tables.all(|table| Some(table) == first)
}

/// Messages of this kind that all have sent, by this transport.
fn messages(world: &World, kind: MessageKind, by: Transport) -> u64 {
    world.total(|stats| stats.messages.get((Direction::Sent, kind, by)))
}

/// `count` of `nodes` are accused, and refute, while `deaf` hears nothing.
fn change_unheard(world: &mut World, nodes: &[ProcessId], deaf: ProcessId, count: usize) {
    let rule = world.deafen(deaf, Carried::Everything);
    for (subject, accuser) in nodes.iter().zip(nodes.iter().skip(1)).take(count) {
        world.accuse(*accuser, *subject).expect("it lists itself");
        world.run_for(Duration::from_millis(1));
    }
    world.run_for(Duration::from_millis(300));
    world.lift(rule);
}

/// The window of recent news is smaller than what one missed, and old news that rides on every
/// message keeps its table from being quiet: only an exchange brings it all.
#[test]
fn who_missed_a_batch_has_it_after_the_first_contact() {
    for (seed, count) in (1..).zip([20, 60, 100, 150]) {
        let (mut world, nodes) = settled(seed, 160);
        let (deaf, others) = nodes.split_last().expect("there are some");
        change_unheard(&mut world, others, *deaf, count);
        assert!(!equal(&world), "seed {seed}: nothing was missed");
        let repaired = world.run_until(seconds(1.6), equal);
        assert!(repaired.is_some(), "{count} changes, seed {seed}");
        // The one that has just made them equal is yet to end.
        world.run_for(seconds(1.0));
        assert!(
            world.total(|stats| stats.exchanged_records) > 0,
            "seed {seed}"
        );
    }
}

/// Digests, answers and what follows are lost one by one; then a stream does it.
#[test]
fn a_lossy_exchange_comes_to_an_end() {
    for seed in 1..=5 {
        let (mut world, nodes) = settled(seed, 20);
        world.set_usual_link(Link::LAN.losing(0.3));
        let (deaf, others) = nodes.split_last().expect("there are some");
        change_unheard(&mut world, others, *deaf, 12);
        let repaired = world.run_until(seconds(6.0), equal);
        assert!(repaired.is_some(), "seed {seed}");
    }
}

/// A small difference travels in datagrams: streams are for large ones.
#[test]
fn one_missed_change_needs_no_stream() {
    for seed in 1..=5 {
        let (mut world, nodes) = settled(seed, 30);
        let before = messages(&world, MessageKind::Digest, Transport::Stream);
        let (deaf, others) = nodes.split_last().expect("there are some");
        change_unheard(&mut world, others, *deaf, 1);
        assert!(
            world.run_until(seconds(3.0), equal).is_some(),
            "seed {seed}"
        );
        let after = messages(&world, MessageKind::Digest, Transport::Stream);
        assert_eq!(after, before, "seed {seed}");
    }
}

/// Two repairs race, and one finds nothing: that is counted apart, and does not go on.
#[test]
fn needless_exchanges_are_few_and_counted_apart() {
    let (mut world, nodes) = settled(7, 50);
    let (deaf, others) = nodes.split_last().expect("there are some");
    change_unheard(&mut world, others, *deaf, 40);
    world.run_for(seconds(20.0));
    assert!(equal(&world));
    let all = world.total(|stats| stats.exchanges);
    let needless = world.total(|stats| stats.exchanges_needless);
    assert!(needless < all && needless <= 40, "{needless} of {all}");
    let before = all;
    world.run_for(seconds(60.0));
    assert_eq!(world.total(|stats| stats.exchanges), before, "equal tables");
}

/// quickwit-oss/chitchat#178, PR#179: a reply that was computed from an old state arrived after a
/// third peer had told a newer one.
#[test]
fn an_answer_to_an_old_digest_brings_nothing_back() {
    let mut late = 0;
    for seed in 1..=20 {
        let (mut world, nodes) = settled(seed, 3);
        let [one, other, third] = [nodes[0], nodes[1], nodes[2]];
        let deaf = world.deafen(one, Carried::Everything);
        world.accuse(other, third).expect("it lists itself");
        world.run_for(Duration::from_millis(300));
        let held = world.lay(Rule {
            from: Hosts::one(world.address(other)),
            to: Hosts::one(world.address(one)),
            carried: Carried::Datagrams,
            effect: Effect::Hold,
        });
        world.lift(deaf);
        world.run_for(seconds(1.5));
        late += world.held();
        // The third has two more lives meanwhile.
        world.crash(third);
        let second_life = world.restart(third, Restart::default());
        world.run_for(seconds(1.0));
        world.crash(second_life);
        let third_life = world.restart(second_life, Restart::default());
        world.run_for(seconds(1.0));
        world.lift(held);
        let agreed = |world: &World| equal(world) && world.everyone_sees_life(third_life);
        assert!(
            world.run_until(seconds(5.0), agreed).is_some(),
            "seed {seed}"
        );
        // That nothing went back is an invariant, looked at after every event.
        assert_eq!(world.violations(), []);
    }
    assert!(late > 20, "{late} messages were late");
}

/// quickwit-oss/chitchat#110: after a partition a part of the state was reset, and the old state of
/// another peer brought back what had been removed.
#[test]
fn a_part_of_a_table_and_a_stale_peer_bring_nobody_back() {
    for seed in 1..=5 {
        let (mut world, nodes) = settled(seed, 40);
        let (stale, partial) = (nodes[0], nodes[1]);
        let cut = world.partition(&[stale]);
        let deaf = world.deafen(partial, Carried::Everything);
        for &node in &nodes[20..30] {
            world.leave(node, seconds(1.0));
        }
        world.run_for(Duration::from_millis(1500));
        let since = world.now();
        nodes[20..30].iter().for_each(|&node| world.crash(node));
        // Half of the datagrams that would complete its table are lost, and no stream comes through.
        world.lift(deaf);
        let streams = world.deafen(partial, Carried::Streams);
        let lossy = world.lay(Rule {
            from: Hosts::All,
            to: Hosts::one(world.address(partial)),
            carried: Carried::Datagrams,
            effect: Effect::Lose(0.5),
        });
        cut.into_iter().for_each(|rule| world.lift(rule));
        world.run_for(seconds(2.0));
        world.lift(streams);
        world.lift(lossy);
        assert!(
            world.run_until(seconds(10.0), equal).is_some(),
            "seed {seed}"
        );
        for &node in &nodes[20..30] {
            assert!(world.everyone_sees(node, Status::Left), "seed {seed}");
            let back = world.news_of(node, EventKind::MemberUp, since).next();
            assert!(back.is_none(), "seed {seed}: {back:?}");
        }
    }
}

/// hashicorp/consul#9927, #9926: a queue that was pruned from time to time grew to four times its
/// limit. Here it holds one item a member, whatever happens, and who leaves is heard all the same.
#[test]
fn the_news_waiting_is_at_most_one_item_a_member() {
    let (mut world, mut nodes) = settled(3, 100);
    let leaver = nodes.swap_remove(99);
    let mut longest = 0;
    for n in 0..400 {
        let (subject, accuser) = (nodes[n % 90], nodes[(n * 7 + 1) % 90]);
        world.accuse(accuser, subject);
        if n % 10 == 0 {
            let victim = nodes[n % 90];
            world.crash(victim);
            nodes[n % 90] = world.restart(victim, Restart::default());
        }
        world.run_for(Duration::from_millis(5));
        for process in world.up() {
            let state = process.node.state();
            let known = process.node.records().count();
            assert!(
                state.queued_updates <= known,
                "{} of {known}",
                state.queued_updates
            );
            longest = longest.max(state.queued_updates);
        }
        if n == 300 {
            world.leave(leaver, seconds(1.0));
        }
    }
    assert!(longest >= 10, "no flood: {longest}");
    assert!(world.everyone_sees(leaver, Status::Left));
    world.crash(leaver);
    assert!(world.run_until(seconds(5.0), equal).is_some());
}

/// A hundred ask one at the same instant, a tenth of the datagrams is lost: they are sent on to
/// others instead of asking the same one again.
#[test]
fn a_crowd_of_joiners_is_sent_on() {
    for seed in 1..=3 {
        let mut world = World::new(Options {
            link: Link::LAN.losing(0.1),
            ..Options::seeded(seed)
        });
        let first = world.start(Start::named("n1"));
        world.run_for(seconds(1.0));
        let join = [world.address(first)];
        for n in 2..=101 {
            world.start(Start::named(&format!("n{n}")).joining(join));
        }
        let together = world.run_until(seconds(4.0), World::all_alive);
        assert!(together.is_some(), "seed {seed}");
        assert!(world.process(first).node.stats().busy > 50, "seed {seed}");
        let tables = &world.process(first).node.stats().messages;
        let served = tables.get((Direction::Sent, MessageKind::Table, Transport::Stream));
        assert!(served < 60, "seed {seed}: {served} served by one");
    }
}

/// One table is enough to join, however many addresses are given.
#[test]
fn a_joiner_with_many_addresses_takes_one_table() {
    let (mut world, nodes) = settled(1, 10);
    let before = messages(&world, MessageKind::Table, Transport::Stream);
    let addresses: Vec<_> = nodes.iter().map(|&node| world.address(node)).collect();
    let joiner = world.start(Start::named("late").joining(addresses));
    let joined = world.run_until(seconds(2.0), |world| world.everyone_sees_life(joiner));
    assert!(joined.is_some());
    world.run_for(seconds(10.0));
    let after = messages(&world, MessageKind::Table, Transport::Stream);
    assert_eq!(after - before, 1);
}

/// What a joiner is given is no news: one join is told once, in the copies of its rounds.
#[test]
fn a_joiner_passes_nothing_on_but_itself() {
    let (mut world, nodes) = settled(2, 100);
    let news = |world: &World| messages(world, MessageKind::News, Transport::Datagram);
    let before = news(&world);
    world.start(Start::named("late").joining([world.address(nodes[0])]));
    world.run_for(seconds(5.0));
    let pushed = news(&world) - before;
    // Ten copies a member, and what is answered to pings that crossed the change.
    assert!(pushed <= 12 * 101, "{pushed} datagrams for one join");
    assert_eq!(deaths(&world, rumord::time::Instant::ORIGIN), [""; 0]);
}

/// Two pairs come together while the addresses that would join them are down; when these are up,
/// there is one cluster.
#[test]
fn islands_become_one_when_a_join_address_comes_up() {
    for seed in 1..=5 {
        let mut world = World::new(Options::seeded(seed));
        let address = |n: u8| ([10, 2, 0, n], 7480).into();
        let start = |n: u8, join: &[u8]| Start {
            address: Some(address(n)),
            ..Start::named(&format!("n{n}")).joining(join.iter().map(|&n| address(n)))
        };
        for (n, join) in [(1, [2, 5]), (2, [1, 5]), (3, [4, 5]), (4, [3, 5])] {
            world.start(start(n, &join));
        }
        world.run_for(seconds(20.0));
        let listed = world.up().map(|process| process.node.records().count());
        assert_eq!(listed.collect::<Vec<_>>(), [2; 4], "two islands");
        world.start(start(5, &[]));
        let one = world.run_until(seconds(8.0), World::all_alive);
        assert!(one.is_some(), "seed {seed}: {:?}", world.matrix());
    }
}

/// The command's own judgement: few bytes where nothing differs, records in proportion otherwise.
#[test]
fn an_exchange_costs_what_differs() {
    let (told, trouble) = printed(&["exchange", "--differing", "0,1,10,100"]);
    assert_eq!(trouble, None, "{told}");
    let (told, trouble) = printed(&["exchange", "--members", "150", "--differing", "1,30,148"]);
    assert_eq!(trouble, None, "{told}");
}
