//! Golden bytes, and hostile ones.

use super::*;
use std::sync::Arc;
use std::time::Duration;

use crate::member::{
    Delivery, EVENT_PAYLOAD_BYTES_MAX, EventKey, EventName, Generation, Incarnation, Lease,
    METADATA_BYTES_MAX, METADATA_ENTRIES_MAX, Metadata, NodeId, Record, Service, Standing, Status,
    Tags, Version, WireRange,
};

const SENDER_GENERATION: Generation = Generation(1_764_516_000);

fn cluster() -> ClusterTag {
    ClusterTag::of("default")
}

fn sender() -> Sender {
    let name: crate::member::NodeName = "n1".parse().expect("valid");
    Sender {
        member: name.hash(),
        generation: SENDER_GENERATION,
        version: Version(345),
    }
}

fn record() -> RecordUpdate {
    let standing = Standing {
        incarnation: Incarnation(2),
        status: Status::Suspect,
        ..Standing::alive(SENDER_GENERATION, NodeId(0x0102_0304_0506_0708))
    };
    let metadata = Metadata {
        generation: standing.generation,
        node_id: standing.node_id,
        version: 3,
        address: "10.0.0.1:7480".parse().expect("valid"),
        tags: Tags::from([("zone".into(), "a".into())]),
        services: vec![Service {
            name: "web".parse().expect("valid"),
            port: 8080,
            tags: Tags::new(),
        }],
        wire: WireRange { min: 1, max: 1 },
        maintenance: Some(Lease {
            length: Duration::from_secs(60),
            reason: "deploy".into(),
        }),
    };
    RecordUpdate {
        record: Record {
            name: "n1".parse().expect("valid"),
            standing,
            metadata: Some(metadata.into()),
        }
        .into(),
        version: Version(345),
        age: Age(0),
        lease_left: Duration::from_millis(59_500),
    }
}

fn status_update() -> StatusUpdate {
    StatusUpdate::of(sender().member, &record().record.standing, Age(7))
}

fn announcement() -> Announcement {
    let told = record();
    Announcement {
        name: told.record.name.clone(),
        standing: told.record.standing,
        version: told.version,
        age: Age(0),
        address: "10.0.0.1:7480".parse().expect("valid"),
        digest: MetadataDigest {
            version: 3,
            bytes: 65_000,
            hash: 0x0102_0304_0506_0708,
        },
        holder: sender().member,
    }
}

fn gossip() -> Gossip {
    Gossip {
        fingerprint: Fingerprint(0x9f86_d081_884c_7d65),
        flags: Flags { quiet: true },
        updates: vec![
            Update::Status(status_update()),
            Update::Record(record()),
            Update::Announced(announcement()),
        ]
        .into(),
        heartbeats: vec![HeartbeatEntry {
            member: NameHashHigh::of(sender().member),
            generation: GenerationLow::of(SENDER_GENERATION),
            version: VersionLow::of(Version(250)),
            age: Centiseconds(42),
        }]
        .into(),
        holders: Holders::Some(HolderMap {
            members: 300,
            wish: Wish {
                left: Centiseconds(1000),
                pause: Centiseconds(20),
            },
            places: HolderPlaces::Missing(vec![4, 260].into()),
        }),
        extensions: vec![Extension {
            tag: 300,
            bytes: vec![1, 2].into(),
        }]
        .into(),
    }
}

fn period() -> PeriodPhase {
    PeriodPhase {
        period: 345,
        phase: 0x8000,
    }
}

/// One message of every kind.
fn messages() -> Vec<Message> {
    let target = Target {
        member: sender().member,
        generation: SENDER_GENERATION,
    };
    let seq = ProbeSeq(0xdead_beef);
    let mut messages = vec![
        Message::Ping(Ping {
            sender: sender(),
            seq,
            target,
            period: period(),
            gossip: gossip(),
        }),
        Message::Ack(Ack {
            sender: sender(),
            seq,
            period: period(),
            gossip: Gossip::default(),
        }),
        Message::PingReq(PingReq {
            sender: sender(),
            seq,
            target,
            gossip: Gossip::default(),
        }),
        Message::Nack(Nack {
            sender: sender(),
            seq,
            miss_rate: MissRate::from_share(0.5),
            answered: Centiseconds::UNKNOWN,
            extensions: List::default(),
        }),
        Message::RelayedAck(RelayedAck {
            sender: sender(),
            seq,
            extensions: List::default(),
        }),
        Message::WrongTarget(WrongTarget {
            sender: sender(),
            seq,
            updates: List::default(),
        }),
        Message::News(News {
            sender: sender(),
            gossip: gossip(),
        }),
    ];
    messages.extend(messages_of_an_exchange());
    messages.extend(messages_of_a_join());
    messages.extend(messages_of_events());
    messages
}

fn user_event() -> UserEvent {
    UserEvent {
        origin: "n1".parse().expect("valid"),
        generation: SENDER_GENERATION,
        delivery: Delivery::AtLeastOnce,
        sequence: 7,
        key: Some(EventKey([0xab; 16])),
        unix_ms: 1_764_516_000_123,
        name: EventName::new("deploy").expect("valid"),
        payload: b"v1".to_vec(),
    }
}

fn messages_of_events() -> [Message; 5] {
    let event = Arc::new(user_event());
    let head = EventHead::at(&event.event_ref());
    let span = EventSpan {
        origin: head.origin,
        generation: head.generation,
        delivery: Delivery::AtMostOnce,
        first: 3,
        last: 300,
    };
    let told = |hop, collects, what| ToldEvent {
        hop,
        collects,
        what,
    };
    let set = |who| AckSet { head, who };
    [
        Message::Events(Events {
            sender: sender(),
            asked: vec![head].into(),
            told: vec![
                told(1, true, ToldWhat::Whole(Arc::clone(&event))),
                told(255, false, ToldWhat::Announced(event.event_ref())),
            ]
            .into(),
        }),
        Message::EventAcks(EventAcks {
            sender: sender(),
            own: vec![head].into(),
            sets: vec![
                set(AckHolders::Places {
                    table: Fingerprint(0x9f86_d081_884c_7d65),
                    holders: Holders::All,
                }),
                set(AckHolders::Names(
                    vec![(head.origin, GenerationLow::of(SENDER_GENERATION))].into(),
                )),
            ]
            .into(),
        }),
        Message::EventHeads(EventHeads {
            sender: sender(),
            heads: vec![head].into(),
            asks: true,
        }),
        Message::EventPull(EventPull {
            sender: sender(),
            wanted: vec![span].into(),
        }),
        Message::EventValues(EventValues {
            sender: sender(),
            events: vec![event].into(),
            kept: vec![span].into(),
            last: true,
        }),
    ]
}

fn messages_of_an_exchange() -> [Message; 3] {
    [
        Message::Digest(Digest {
            sender: sender(),
            ask: Ask(0xdead_beef),
            cookie: Some(Cookie(0x1122_3344_5566_7788)),
            salt: Salt(0x0102_0304_0506_0708),
            summary: Summary::Buckets(vec![BucketSum(0x0a0b), BucketSum(0)].into()),
            extensions: List::default(),
        }),
        Message::Difference(Difference {
            sender: sender(),
            ask: Ask(0xdead_beef),
            place: Place { part: 1, of: 3 },
            cookie: Cookie(0x1122_3344_5566_7788),
            advice: Advice::ProveAddress,
            adopted: 2,
            buckets: vec![Bucket {
                number: 511,
                ids: vec![ShortId(0x0a0b_0c0d)].into(),
            }]
            .into(),
            wanted: vec![ShortId(7)].into(),
            records: vec![record()].into(),
            extensions: List::default(),
        }),
        Message::Delta(Delta {
            sender: sender(),
            ask: Ask(0xdead_beef),
            cookie: None,
            salt: Salt(0x0102_0304_0506_0708),
            wanted: vec![ShortId(0x0a0b_0c0d)].into(),
            records: vec![record()].into(),
            last: true,
            extensions: List::default(),
        }),
    ]
}

fn messages_of_a_join() -> [Message; 7] {
    [
        Message::Join(Join {
            record: record(),
            extensions: List::default(),
        }),
        Message::Table(Table {
            sender: sender(),
            records: vec![record()].into(),
            last: true,
        }),
        Message::Busy(Busy {
            others: vec!["10.0.0.1:7480".parse().expect("valid")].into(),
            extensions: List::default(),
        }),
        Message::Refused(Refused {
            reason: RefusalCode::NAME_CONFLICT,
            holder: vec![record()].into(),
        }),
        Message::Superseded(Superseded {
            generation: SENDER_GENERATION,
        }),
        Message::Pull(Pull {
            sender: sender(),
            member: sender().member,
            generation: SENDER_GENERATION,
            node_id: NodeId(0x0102_0304_0506_0708),
            digest: announcement().digest,
        }),
        Message::Values(Values {
            sender: sender(),
            records: vec![record()].into(),
        }),
    ]
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Sender, status update and record as they appear in several messages.
const SENDER_HEX: &str = "65c45503cfc8c4f7fca0602c69fb5901";
const STATUS_HEX: &str = "65c45503cfc8c4f7fca0602c69070802000107";
const RECORD_HEX: &str = "026e31fca0602c690001020304050607080201fb590101030\
                          00a000001fb381d01047a6f6e6501610103776562\
                          1f9000010101fb60ea066465706c6f79fb6ce800";
const DIGEST_HEX: &str = "03fbe8fd0102030405060708";
const ANNOUNCEMENT_HEX: &str = "026e31fca0602c690001020304050607080201fb590100\
                                000a000001fb381d03fbe8fd010203040506070865c45503cf\
                                c8c4f7";
const HEAD_HEX: &str = "65c45503cfc8c4f7fca0602c690107";
const SPAN_HEX: &str = "65c45503cfc8c4f7fca0602c690003fb2c01";
const EVENT_HEX: &str = "026e31fca0602c69010701abababababababababababababababab\
                         fd7b7159d59a010000066465706c6f79027631";
const EMPTY_GOSSIP_HEX: &str = "00000000000000000000000000";

#[test]
fn golden_bytes() {
    let record = RECORD_HEX.replace(' ', "");
    let announced = ANNOUNCEMENT_HEX.replace(' ', "");
    let gossip = format!(
        "9f86d081884c7d65010301{STATUS_HEX}00{record}02{announced}0165c4550360a000fa002a\
         02fb2c0103e80014010204fb040101fb2c01020102"
    );
    let frame = |kind: &str| format!("724d0100{}{kind}", hex(&cluster().0));
    let target = "65c45503cfc8c4f7fca0602c69";
    let table = format!("{SENDER_HEX}01{record}01");
    let expected = [
        format!(
            "{}{SENDER_HEX}deadbeef{target}01598000{gossip}",
            frame("01")
        ),
        format!(
            "{}{SENDER_HEX}deadbeef01598000{EMPTY_GOSSIP_HEX}",
            frame("02")
        ),
        format!(
            "{}{SENDER_HEX}deadbeef{target}{EMPTY_GOSSIP_HEX}",
            frame("03")
        ),
        format!("{}{SENDER_HEX}deadbeef7fffffff00", frame("04")),
        format!("{}{SENDER_HEX}deadbeef00", frame("05")),
        format!("{}{SENDER_HEX}deadbeef00", frame("06")),
        format!("{}{SENDER_HEX}{gossip}", frame("07")),
        format!(
            "{}{SENDER_HEX}deadbeef01112233445566778801020304050607080102{}",
            frame("08"),
            "0a0b000000"
        ),
        format!(
            "{}{SENDER_HEX}{}{record}00",
            frame("09"),
            "deadbeef01031122334455667788010201fbff01010a0b0c0d010000000701"
        ),
        format!(
            "{}{SENDER_HEX}deadbeef000102030405060708010a0b0c0d01{record}0100",
            frame("0a")
        ),
        format!("{}{record}00", frame("10")),
        format!("{}{table}", frame("11")),
        format!("{}01000a000001fb381d00", frame("12")),
        format!("{}0201{record}", frame("13")),
        format!("{}fca0602c69", frame("14")),
        format!(
            "{}{SENDER_HEX}{target}0102030405060708{DIGEST_HEX}",
            frame("20")
        ),
        format!("{}{SENDER_HEX}01{record}", frame("21")),
    ];
    encodes_as(&messages()[..expected.len()], &expected);
}

fn encodes_as(messages: &[Message], expected: &[String]) {
    assert_eq!(messages.len(), expected.len());
    for (message, expected) in messages.iter().zip(expected) {
        let bytes = hex(&encode(cluster(), message));
        assert_eq!(&bytes, expected, "{:?}", message.kind());
    }
}

#[test]
fn golden_bytes_of_events() {
    let frame = |kind: &str| format!("724d0100{}{kind}", hex(&cluster().0));
    let expected = [
        format!(
            "{}{SENDER_HEX}01{HEAD_HEX}02010100{EVENT_HEX}ff0001{HEAD_HEX}",
            frame("28")
        ),
        format!(
            "{}{SENDER_HEX}01{HEAD_HEX}02{HEAD_HEX}009f86d081884c7d6501{HEAD_HEX}0101{}",
            frame("29"),
            "65c45503cfc8c4f760a0"
        ),
        format!("{}{SENDER_HEX}01{HEAD_HEX}01", frame("2a")),
        format!("{}{SENDER_HEX}01{SPAN_HEX}", frame("2b")),
        format!("{}{SENDER_HEX}01{EVENT_HEX}01{SPAN_HEX}01", frame("2c")),
    ];
    encodes_as(&messages_of_events(), &expected);
}

#[test]
fn the_cluster_tag_is_pinned() {
    assert_eq!(hex(&cluster().0), "152c566c");
    assert_ne!(ClusterTag::of("Default"), cluster());
}

#[test]
fn every_message_survives_the_wire() {
    assert_eq!(messages().len(), MessageKind::ALL.len(), "one of each kind");
    for message in messages() {
        let bytes = encode(cluster(), &message);
        assert_eq!(decode(cluster(), &bytes, Carrier::Datagram), Ok(message));
    }
}

/// hashicorp/memberlist#236, hashicorp/serf#339, caio/foca#35: truncated and garbage packets
/// crashed the process.
#[test]
fn truncation_at_every_length_and_trailing_bytes_are_refused() {
    for message in messages() {
        let bytes = encode(cluster(), &message);
        for len in 0..bytes.len() {
            let expected = if len < HEADER_BYTES {
                DecodeError::NotOurs
            } else {
                DecodeError::Malformed
            };
            let cut = decode(cluster(), &bytes[..len], Carrier::Datagram);
            assert_eq!(cut, Err(expected), "{:?} cut to {len}", message.kind());
        }
        let longer = [&bytes[..], &[0]].concat();
        let decoded = decode(cluster(), &longer, Carrier::Datagram);
        assert_eq!(decoded, Err(DecodeError::Malformed), "{:?}", message.kind());
    }
}

#[test]
fn frames_of_others_are_told_apart_without_decoding() {
    let bytes = encode(cluster(), &messages()[0]);
    let changed = |place: usize, byte: u8| {
        let mut other = bytes.clone();
        other[place] = byte;
        decode(cluster(), &other, Carrier::Datagram).expect_err("refused")
    };
    assert_eq!(changed(0, b'x'), DecodeError::NotOurs);
    assert_eq!(changed(2, 2), DecodeError::Version);
    assert_eq!(changed(3, 0x80), DecodeError::Sealed);
    assert_eq!(changed(4, !bytes[4]), DecodeError::Cluster);
    assert_eq!(changed(8, 0xee), DecodeError::UnknownType);
    let other = decode(ClusterTag::of("other"), &bytes, Carrier::Datagram);
    assert_eq!(other, Err(DecodeError::Cluster));
}

#[test]
fn hostile_lengths_take_no_memory() {
    let frame = &encode(cluster(), &messages()[6])[..HEADER_BYTES];
    let head = [frame, &[0; 10], &[0; 9]].concat();
    for length in [
        vec![129],
        vec![0xfb, 0xff, 0xff],
        vec![0xfc, 0xff, 0xff, 0xff, 0xff],
        vec![0xfd, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff],
    ] {
        let bytes = [&head[..], &length, &[0; 64]].concat();
        let decoded = decode(cluster(), &bytes, Carrier::Datagram);
        assert_eq!(decoded, Err(DecodeError::Malformed), "{length:02x?}");
    }
}

#[test]
fn invalid_values_inside_a_body_are_refused() {
    let message = Message::Join(Join {
        record: record(),
        extensions: List::default(),
    });
    let bytes = encode(cluster(), &message);
    let name = HEADER_BYTES + 1;
    for (place, byte) in [(name, b' '), (name, 0xff), (name, 0)] {
        let mut other = bytes.clone();
        other[place] = byte;
        let decoded = decode(cluster(), &other, Carrier::Stream);
        assert_eq!(
            decoded,
            Err(DecodeError::Malformed),
            "{byte:02x} at {place}"
        );
    }
}

/// The largest metadata fits one frame of a stream, and an announcement of it any datagram.
#[test]
fn the_largest_metadata_fits_a_frame() {
    let tags = |count: usize| (0..count).map(|n| (n.to_string(), String::new())).collect();
    let mut record = Record::clone(&record().record);
    let mut metadata = (**record.metadata.as_ref().expect("given")).clone();
    metadata.tags = tags(METADATA_ENTRIES_MAX);
    metadata.services = (1..=16)
        .map(|n| Service {
            name: format!("s{n}").parse().expect("valid"),
            port: n,
            tags: tags(METADATA_ENTRIES_MAX - 17),
        })
        .collect();
    metadata.maintenance = None;
    let named = |service: &Service| {
        let tags = service.tags.keys().map(String::len).sum::<usize>();
        service.name.as_str().len() + tags
    };
    let bytes = metadata.services.iter().map(named).sum::<usize>();
    let bytes = bytes + metadata.tags.keys().map(String::len).sum::<usize>();
    let rest = "v".repeat(METADATA_BYTES_MAX - bytes);
    metadata.tags.insert("0".into(), rest);
    assert_eq!(metadata.check(), Ok(()), "as much as is allowed");
    record.metadata = Some(metadata.into());
    let told = RecordUpdate {
        record: record.into(),
        ..self::record()
    };
    let message = Message::Values(Values {
        sender: sender(),
        records: vec![told].into(),
    });
    let frame = encode(cluster(), &message);
    assert!(frame.len() <= STREAM_FRAME_BYTES_MAX / 2, "{}", frame.len());
    let decoded = decode(cluster(), &frame, Carrier::Stream);
    let expected = match message {
        Message::Values(mut values) => {
            let mut records = std::mem::take(&mut values.records).into_vec();
            // Without a lease there is nothing left of one.
            records[0].lease_left = Duration::ZERO;
            values.records = records.into();
            Message::Values(values)
        }
        other => other,
    };
    assert_eq!(decoded, Ok(expected));
    let longest = Announcement {
        name: "n".repeat(63).parse().expect("valid"),
        address: "[2001:db8::1]:65535".parse().expect("valid"),
        ..announcement()
    };
    assert!(update_bytes(&Update::Announced(longest)) <= 200);
}

/// The largest event fits one frame of a stream, and what is said of it any datagram.
#[test]
fn the_largest_event_fits_a_frame() {
    let event = UserEvent {
        origin: "n".repeat(63).parse().expect("valid"),
        name: EventName::new(&"é".repeat(64)).expect("valid"),
        payload: vec![0xff; EVENT_PAYLOAD_BYTES_MAX],
        ..user_event()
    };
    assert!(event_bytes(&event) <= EVENT_PAYLOAD_BYTES_MAX + 300);
    let values = Message::EventValues(EventValues {
        sender: sender(),
        events: vec![Arc::new(event)].into(),
        kept: List::default(),
        last: false,
    });
    let frame = encode(cluster(), &values);
    assert!(frame.len() <= STREAM_FRAME_BYTES_MAX, "{}", frame.len());
    assert_eq!(decode(cluster(), &frame, Carrier::Stream), Ok(values));
}

#[test]
fn an_event_that_breaks_a_rule_is_refused() {
    let bytes = encode(cluster(), &messages()[21]);
    let text = hex(&bytes);
    for (good, bad) in [
        // A delivery that does not exist, a name with a control character, one that is empty.
        ("fca0602c69010701", "fca0602c69020701"),
        ("066465706c6f79", "066465700a6f79"),
        ("066465706c6f79", "00"),
        ("066465706c6f79", "0664657070ff79"),
    ] {
        let hostile = text.replacen(good, bad, 1);
        assert_ne!(hostile, text);
        let bytes: Vec<u8> = (0..hostile.len() / 2)
            .filter_map(|n| u8::from_str_radix(&hostile[2 * n..2 * n + 2], 16).ok())
            .collect();
        let decoded = decode(cluster(), &bytes, Carrier::Stream);
        assert_eq!(decoded, Err(DecodeError::Malformed), "{bad}");
    }
}

#[test]
fn an_unknown_status_is_refused() {
    let news = News {
        sender: sender(),
        gossip: Gossip {
            updates: vec![Update::Status(status_update())].into(),
            ..Gossip::default()
        },
    };
    let bytes = encode(cluster(), &Message::News(news));
    let place = bytes.len() - 5;
    assert_eq!(bytes[place], Status::Suspect as u8);
    for byte in [4, 0x7f, 0x84] {
        let mut other = bytes.clone();
        other[place] = byte;
        let decoded = decode(cluster(), &other, Carrier::Datagram);
        assert_eq!(decoded, Err(DecodeError::Malformed), "{byte:02x}");
    }
}

proptest::proptest! {
    /// Whatever the bytes, decoding ends with a message or an error.
    #[test]
    fn decoding_is_total(
        kind in 0..64u8,
        body in proptest::collection::vec(proptest::num::u8::ANY, 0..300),
    ) {
        let mut bytes = encode(cluster(), &messages()[1])[..HEADER_BYTES].to_vec();
        bytes[8] = kind;
        bytes.extend(body);
        for carrier in [Carrier::Datagram, Carrier::Stream] {
            if let Ok(message) = decode(cluster(), &bytes, carrier) {
                let again = encode(cluster(), &message);
                proptest::prop_assert_eq!(decode(cluster(), &again, carrier), Ok(message));
            }
        }
    }

    /// One flipped byte in a good message never makes the decoder panic.
    #[test]
    fn mutated_messages_decode_or_fail(n in 0..22usize, place in 0..400usize, byte: u8) {
        let mut bytes = encode(cluster(), &messages()[n]);
        let place = place % bytes.len();
        bytes[place] = byte;
        let _ = decode(cluster(), &bytes, Carrier::Datagram);
    }
}
