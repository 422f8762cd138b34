//! The core alone, fed with frames that no honest peer would send.

mod claims;
mod events;

use std::net::SocketAddr;
use std::time::Duration;

use rumord::member::{
    Generation, Incarnation, Metadata, NodeId, NodeName, Record, Standing, Status, Tags, Version,
    WireRange,
};
use rumord::protocol::{
    Bootstrap, Config, Identity, Input, Node, Outbox, RELEASE_UNIX_SECONDS, Rejection, Transmit,
};
use rumord::time::Instant;
use rumord::wire::{
    self, Age, Announcement, Carrier, ClusterTag, Gossip, Message, MetadataDigest, News,
    PeriodPhase, Ping, ProbeSeq, RecordUpdate, Sender, StatusUpdate, Target, Update,
};

pub const NOW: Instant = Instant::from_nanos(1_000_000_000);
pub const GENERATION: Generation = Generation(RELEASE_UNIX_SECONDS);

pub fn name(text: &str) -> NodeName {
    text.parse().expect("a valid name")
}

pub fn address(port: u16) -> SocketAddr {
    ([127, 0, 0, 1], port).into()
}

pub fn cluster() -> ClusterTag {
    ClusterTag::of("default")
}

/// The node n1, alone.
pub fn node() -> Node {
    let identity = Identity {
        name: name("n1"),
        cluster: "default".into(),
        generation: GENERATION,
        node_id: NodeId(1),
        address: address(1),
        tags: Tags::new(),
        services: Vec::new(),
    };
    let mut node = Node::new(identity, Config::lan(), Bootstrap::Alone, 1, NOW).expect("valid");
    let since_epoch = Duration::from_secs(GENERATION.0);
    node.handle(NOW, Input::WallClock { since_epoch }, &mut Outbox::new());
    node
}

pub fn record(text: &str, generation: Generation, port: u16) -> Record {
    let standing = Standing::alive(generation, NodeId(port.into()));
    Record {
        name: name(text),
        standing,
        metadata: Some(
            Metadata {
                generation,
                node_id: standing.node_id,
                version: 0,
                address: address(port),
                tags: Tags::new(),
                services: Vec::new(),
                wire: WireRange { min: 1, max: 1 },
                maintenance: None,
            }
            .into(),
        ),
    }
}

pub fn sender(text: &str, version: u64) -> Sender {
    Sender {
        member: name(text).hash(),
        generation: GENERATION,
        version: Version(version),
    }
}

fn telling(records: Vec<Record>) -> Gossip {
    let update = |record: Record| {
        Update::Record(RecordUpdate {
            record: record.into(),
            version: Version(1),
            age: Age(0),
            lease_left: Duration::ZERO,
        })
    };
    Gossip {
        updates: records.into_iter().map(update).collect::<Vec<_>>().into(),
        ..Gossip::default()
    }
}

pub fn news(records: Vec<Record>) -> Message {
    Message::News(News {
        sender: sender("n2", 1),
        gossip: telling(records),
    })
}

fn ping(target: &str, generation: Generation, gossip: Gossip) -> Message {
    let target = Target {
        member: name(target).hash(),
        generation,
    };
    let (seq, period) = (ProbeSeq(7), PeriodPhase::default());
    Message::Ping(Ping {
        sender: sender("n2", 1),
        seq,
        target,
        period,
        gossip,
    })
}

/// Hands `message` over as a datagram, and returns what is sent because of it.
pub fn hand(node: &mut Node, message: &Message) -> Vec<(SocketAddr, Vec<u8>)> {
    let mut outbox = Outbox::new();
    let payload = wire::encode(cluster(), message);
    node.handle(
        NOW,
        Input::Datagram {
            from: address(9),
            payload: &payload,
        },
        &mut outbox,
    );
    let datagram = |transmit| match transmit {
        Transmit::Datagram { to, payload } => Some((to, payload)),
        _ => None,
    };
    outbox.transmits.into_iter().filter_map(datagram).collect()
}

fn rejected(node: &Node, reason: Rejection) -> u64 {
    node.stats().rejected.get(reason)
}

fn listed(node: &Node) -> Vec<String> {
    let mut names: Vec<_> = node
        .members(NOW)
        .map(|member| member.name.to_string())
        .collect();
    names.sort();
    names
}

/// hashicorp/serf#116, habitat-sh/habitat#5865: a probe for the former owner of an address was
/// acknowledged, and what rode on it was believed.
#[test]
fn a_ping_for_another_is_answered_with_who_is_here_and_nothing_is_believed() {
    let mut node = node();
    let stranger = record("n3", GENERATION, 3);
    for (target, generation) in [("n9", GENERATION), ("n1", Generation(5))] {
        let answers = hand(
            &mut node,
            &ping(target, generation, telling(vec![stranger.clone()])),
        );
        let [(to, answer)] = &answers[..] else {
            panic!("{answers:?}")
        };
        assert_eq!(*to, address(9));
        let answer = wire::decode(cluster(), answer, Carrier::Datagram).expect("well formed");
        assert!(matches!(answer, Message::WrongTarget(_)), "{answer:?}");
    }
    assert_eq!(rejected(&node, Rejection::WrongTarget), 2);
    assert_eq!(listed(&node), ["n1"]);
}

/// A forged source must not turn a node into a cannon.
#[test]
fn a_stranger_never_gets_more_bytes_than_it_sent() {
    let mut node = node();
    let many = (2..60)
        .map(|n| record(&format!("m{n}"), GENERATION, n))
        .collect();
    hand(&mut node, &news(many));
    for message in [
        ping("n1", GENERATION, Gossip::default()),
        ping("n9", GENERATION, Gossip::default()),
        ping("n1", GENERATION, telling(vec![record("x", GENERATION, 99)])),
    ] {
        let sent = wire::encode(cluster(), &message).len();
        let answered: usize = hand(&mut node, &message)
            .iter()
            .map(|(_, bytes)| bytes.len())
            .sum();
        assert!(
            answered > 0 && answered <= sent,
            "{answered} bytes for {sent}"
        );
    }
}

/// scylladb/scylladb#3331, #5164: a generation far in the future poisoned the cluster, and one a
/// year after the stored one was refused.
#[test]
fn generations_are_judged_by_the_clock_and_not_by_the_stored_one() {
    let mut node = node();
    let old = Generation(GENERATION.0 - 400 * 24 * 3600);
    hand(&mut node, &news(vec![record("n2", old, 2)]));
    hand(&mut node, &news(vec![record("n2", GENERATION, 2)]));
    let held = node
        .record_of(&name("n2"))
        .expect("listed")
        .standing
        .generation;
    assert_eq!(held, GENERATION);
    let ahead = Generation(GENERATION.0 + 2 * 24 * 3600);
    hand(
        &mut node,
        &news(vec![record("n2", ahead, 2), record("n4", ahead, 4)]),
    );
    assert_eq!(rejected(&node, Rejection::FutureGeneration), 2);
    let held = node
        .record_of(&name("n2"))
        .expect("listed")
        .standing
        .generation;
    assert_eq!((held, listed(&node).len()), (GENERATION, 2));
}

/// scylladb/scylladb PR#5801: a late reply brought a node's own old state back over its new one.
#[test]
fn stale_or_hostile_state_about_oneself_is_never_adopted() {
    let mut node = node();
    let own = || record("n1", GENERATION, 1);
    let mut claims = vec![
        Record {
            standing: own().standing.with_status(Status::Dead),
            ..own()
        },
        Record {
            standing: own().standing.with_status(Status::Left),
            ..own()
        },
        record("n1", Generation(3), 1),
        record("n1", GENERATION, 77),
    ];
    claims[1].standing.incarnation = Incarnation(5);
    claims[2].standing.status = Status::Left;
    for claim in claims {
        hand(&mut node, &news(vec![claim]));
        assert_eq!(node.status_of(&name("n1")), Some(Status::Alive));
    }
    let held = node.record_of(&name("n1")).expect("listed").standing;
    assert_eq!(held.instance(), (GENERATION, NodeId(1)));
    assert_eq!(
        held.incarnation,
        Incarnation(6),
        "past the accusation, in one jump"
    );
    assert_eq!(node.stats().refutations, 2);
}

/// scylladb/scylladb#2419: a heartbeat at the maximum froze a running node.
#[test]
fn an_implausible_heartbeat_is_counted_and_ignored() {
    let mut node = node();
    hand(&mut node, &news(vec![record("n2", GENERATION, 2)]));
    for (version, held) in [(u64::MAX, 1), (10, 10), (3, 10), (11, 11)] {
        let beat = News {
            sender: sender("n2", version),
            gossip: Gossip::default(),
        };
        hand(&mut node, &Message::News(beat));
        let n2 = node.members(NOW).find(|member| member.name == name("n2"));
        let heard = n2.expect("listed").heartbeat.version;
        assert_eq!(heard, Version(held), "after {version}");
    }
    assert_eq!(rejected(&node, Rejection::Heartbeat), 1);
}

/// hashicorp/consul#3217: one member with an absurd version range spoilt the sync of all.
#[test]
fn one_absurd_member_is_refused_alone() {
    let mut node = node();
    let with = |text: &str, change: fn(&mut Metadata)| {
        let mut odd = record(text, GENERATION, 5);
        let mut metadata = odd.metadata.as_deref().cloned().expect("it has some");
        change(&mut metadata);
        odd.metadata = Some(metadata.into());
        odd
    };
    let told = vec![
        with("n5", |metadata| {
            metadata.wire = WireRange { min: 3, max: 1 }
        }),
        with("n6", |metadata| {
            metadata.wire = WireRange { min: 0, max: 1 }
        }),
        with("n7", |metadata| metadata.address = ([0, 0, 0, 0], 7).into()),
        record("n8", GENERATION, 8),
    ];
    hand(&mut node, &news(told));
    assert_eq!(listed(&node), ["n1", "n8"]);
    assert_eq!(rejected(&node, Rejection::Metadata), 3);
}

/// SWIM section 4.2: a stale claim has no effect, also not on a suspicion that stands.
#[test]
fn claims_about_others_follow_the_precedence() {
    let mut node = node();
    let about = record("n2", GENERATION, 2);
    hand(&mut node, &news(vec![about.clone()]));
    let mut tell = |status: Status, incarnation: u32| {
        let standing = Standing {
            incarnation: Incarnation(incarnation),
            status,
            ..about.standing
        };
        let update = StatusUpdate::of(name("n2").hash(), &standing, Age(0));
        let gossip = Gossip {
            updates: vec![Update::Status(update)].into(),
            ..Gossip::default()
        };
        hand(
            &mut node,
            &Message::News(News {
                sender: sender("n3", 1),
                gossip,
            }),
        );
        node.status_of(&name("n2")).expect("listed")
    };
    assert_eq!(tell(Status::Suspect, 0), Status::Suspect);
    assert_eq!(tell(Status::Alive, 0), Status::Suspect);
    assert_eq!(tell(Status::Alive, 1), Status::Alive);
    assert_eq!(tell(Status::Dead, 0), Status::Alive);
    assert_eq!(tell(Status::Dead, 1), Status::Dead);
    assert_eq!(tell(Status::Suspect, 1), Status::Dead);
    assert_eq!(tell(Status::Alive, 2), Status::Alive);
    assert_eq!(tell(Status::Left, 2), Status::Left);
    assert_eq!(tell(Status::Dead, 2), Status::Left);
}

fn announcement(text: &str, port: u16, holder: &str) -> Update {
    Update::Announced(Announcement {
        name: name(text),
        standing: Standing::alive(GENERATION, NodeId(port.into())),
        version: Version(1),
        age: Age(0),
        address: address(port),
        digest: MetadataDigest {
            version: 1,
            bytes: 1000,
            hash: 7,
        },
        holder: name(holder).hash(),
    })
}

/// Where streams were opened to after `updates` came as news.
fn opened(node: &mut Node, updates: Vec<Update>) -> Vec<SocketAddr> {
    let gossip = Gossip {
        updates: updates.into(),
        ..Gossip::default()
    };
    let message = Message::News(News {
        sender: sender("n2", 1),
        gossip,
    });
    let payload = wire::encode(cluster(), &message);
    let mut outbox = Outbox::new();
    let from = address(9);
    let payload = &payload[..];
    node.handle(NOW, Input::Datagram { from, payload }, &mut outbox);
    let open = |transmit| match transmit {
        Transmit::Open { to, .. } => Some(to),
        _ => None,
    };
    outbox.transmits.into_iter().filter_map(open).collect()
}

/// Whoever can forge a datagram must not make a node open streams at will: few, once, and only to
/// members.
#[test]
fn announcements_open_few_streams_and_none_to_strangers() {
    let mut node = node();
    hand(&mut node, &news(vec![record("n2", GENERATION, 2)]));
    let strange = opened(&mut node, vec![announcement("n3", 3, "nobody")]);
    assert_eq!(strange, []);
    assert_eq!(
        listed(&node),
        ["n1", "n2", "n3"],
        "its status waits for nothing"
    );
    let many = |from: u16| {
        let members = from..from + 60;
        let told = members.map(|n| announcement(&format!("m{n}"), n, "n2"));
        told.collect::<Vec<_>>()
    };
    let first = opened(&mut node, many(100));
    assert_eq!(first, vec![address(2); 8]);
    assert_eq!(opened(&mut node, many(100)), [], "known already");
    assert_eq!(opened(&mut node, many(200)), [], "no place is free");
    let bad = Update::Announced(Announcement {
        address: ([0, 0, 0, 0], 1).into(),
        ..match announcement("n4", 4, "n2") {
            Update::Announced(told) => told,
            other => panic!("{other:?}"),
        }
    });
    opened(&mut node, vec![bad]);
    assert_eq!(rejected(&node, Rejection::Metadata), 1);
    assert!(!listed(&node).contains(&"n4".to_owned()));
}
