//! Claims that cannot be true, and lives that replace others.

use std::time::Duration;

use rumord::member::{Generation, Incarnation, Record, Status, Tags, Version};
use rumord::protocol::{Input, Node, Outbox, Rejection};
use rumord::wire::{
    Age, Fingerprint, Gossip, HolderMap, HolderPlaces, Holders, Message, News, RecordUpdate,
    StatusUpdate, Update, Wish,
};

use super::{GENERATION, NOW, hand, listed, name, news, node, record, rejected, sender};

fn holders(members: u32, places: HolderPlaces) -> Gossip {
    Gossip {
        holders: Holders::Some(HolderMap {
            members,
            wish: Wish::NONE,
            places,
        }),
        ..Gossip::default()
    }
}

/// Bits of another length than the list of members that both must have are a lie, and counted;
/// those about another table are no news.
#[test]
fn hostile_bits_about_agreement_are_counted_and_change_nothing() {
    let mut node = node();
    let told = (2..=10).map(|n| record(&format!("n{n}"), GENERATION, n));
    hand(&mut node, &news(told.collect()));
    let mut tell = |fingerprint: u64, mut gossip: Gossip| {
        gossip.fingerprint = Fingerprint(fingerprint);
        let sender = sender("n2", 1);
        hand(&mut node, &Message::News(News { sender, gossip }));
        (node.agreeing(), rejected(&node, Rejection::Agreement))
    };
    let map = |bytes: Vec<u8>| HolderPlaces::Map(bytes.into());
    let all = || holders(10, map(vec![0xff, 0x03]));
    assert_eq!(tell(7, all()), (1, 0), "another table");
    let own = {
        let mut twin = super::node();
        let told = (2..=10).map(|n| record(&format!("n{n}"), GENERATION, n));
        hand(&mut twin, &news(told.collect()));
        twin.fingerprint()
    };
    assert_eq!(
        tell(own, holders(11, map(vec![0xff, 0x07]))),
        (2, 1),
        "the sender agrees"
    );
    assert_eq!(tell(own, holders(10, map(vec![0xff, 0xff]))), (2, 2));
    assert_eq!(tell(own, holders(10, map(vec![0xff]))), (2, 3));
    assert_eq!(
        tell(own, holders(10, HolderPlaces::Held(vec![3, 7].into()))),
        (2, 4)
    );
    assert_eq!(tell(own, all()), (10, 4));
}

/// Two claims: one that a refutation could just reach, and one after which nothing could.
#[test]
fn an_incarnation_that_nobody_can_have_reached_is_refused_and_counted() {
    let mut node = node();
    hand(&mut node, &news(vec![record("n2", GENERATION, 2)]));
    let about = |text: &str, port: u16, incarnation: u32| {
        let mut told = record(text, GENERATION, port);
        told.standing.incarnation = Incarnation(incarnation);
        told.standing.status = Status::Suspect;
        told
    };
    let status = |told: &Record| {
        let update = StatusUpdate::of(told.name.hash(), &told.standing, Age(0));
        Message::News(News {
            sender: sender("n3", 1),
            gossip: Gossip {
                updates: vec![Update::Status(update)].into(),
                ..Gossip::default()
            },
        })
    };
    for told in [
        about("n1", 1, u32::MAX),
        about("n2", 2, u32::MAX),
        about("n4", 4, u32::MAX),
    ] {
        hand(&mut node, &status(&told));
        hand(&mut node, &news(vec![told]));
    }
    // Of n4 nothing is known: a status alone says nothing.
    assert_eq!(rejected(&node, Rejection::Incarnation), 5);
    assert_eq!(listed(&node), ["n1", "n2"]);
    assert_eq!(node.status_of(&name("n2")), Some(Status::Alive));
    assert_eq!(node.stats().refutations, 0);
    hand(&mut node, &news(vec![about("n1", 1, 65_536)]));
    let own = node.record_of(&name("n1")).expect("listed").standing;
    assert_eq!(
        (own.incarnation, own.status),
        (Incarnation(65_537), Status::Alive)
    );
}

/// scylladb/scylladb#3798, weaveworks/mesh#13: after a restart values of the old life were shown,
/// because the new ones had smaller versions.
#[test]
fn a_new_life_replaces_all_of_the_old_one_whatever_its_versions() {
    let mut node = node();
    let told = |generation: u64, version: u32, tags: &[(&str, &str)]| {
        let mut told = record("n3", Generation(GENERATION.0 + generation), 3);
        let mut metadata = told.metadata.as_deref().cloned().expect("it has some");
        metadata.version = version;
        let pair = |(key, value): &(&str, &str)| (key.to_string(), value.to_string());
        metadata.tags = tags.iter().map(pair).collect();
        told.metadata = Some(metadata.into());
        told
    };
    let tell = |node: &mut Node, record: Record, version: u64| {
        let update = Update::Record(RecordUpdate {
            record: record.into(),
            version: Version(version),
            age: Age(0),
            lease_left: Duration::ZERO,
        });
        let gossip = Gossip {
            updates: vec![update].into(),
            ..Gossip::default()
        };
        let sender = sender("n2", 1);
        hand(node, &Message::News(News { sender, gossip }));
    };
    tell(&mut node, told(1, 500, &[("a", "1"), ("b", "1")]), 500);
    tell(&mut node, told(2, 0, &[("a", "2")]), 3);
    tell(&mut node, told(1, 501, &[("b", "9")]), 501);
    let shown = node
        .members(NOW)
        .find(|member| member.name == name("n3"))
        .expect("listed");
    let tags = &shown.metadata.expect("told").tags;
    assert_eq!(*tags, Tags::from([("a".into(), "2".into())]));
    assert_eq!(shown.heartbeat.version, Version(3));
    assert_eq!(shown.generation, Generation(GENERATION.0 + 2));
}

/// habitat-sh/habitat#7530: a deadline that had passed already made the sender panic.
#[test]
fn a_deadline_that_passed_long_ago_is_handled_once() {
    let mut node = node();
    hand(&mut node, &news(vec![record("n2", GENERATION, 2)]));
    let mut now = NOW;
    for late in [0, 2, 3600, 24 * 3600, 365 * 24 * 3600] {
        now = node.next_deadline().max(now) + Duration::from_secs(late);
        node.handle(now, Input::Deadline, &mut Outbox::new());
        assert!(node.next_deadline() > now, "{late} s late");
        // An early one does nothing.
        let mut outbox = Outbox::new();
        node.handle(now, Input::Deadline, &mut outbox);
        assert!(outbox.transmits.is_empty(), "{late} s late");
    }
}
