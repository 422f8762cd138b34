//! What one node serves at a time, and to whom it answers at length.

use std::net::SocketAddr;
use std::time::Duration;

use rumord::member::Version;
use rumord::protocol::{Input, Node, Outbox, StreamId, Transmit};
use rumord::wire::{
    self, Advice, Age, Ask, BucketSum, Carrier, Cookie, Delta, Difference, Digest, Join, List,
    Message, RecordUpdate, Salt, ShortId, Summary,
};

use crate::core::{GENERATION, NOW, address, cluster, hand, name, news, node, record, sender};

/// Streams with tables that are served at a time.
const SERVED_MAX: u64 = 8;

/// A node that knows so many others, `n2` on port 2 and so on.
fn acquainted(others: u16) -> Node {
    let mut node = node();
    for n in 2..2 + others {
        hand(
            &mut node,
            &news(vec![record(&format!("n{n}"), GENERATION, n)]),
        );
    }
    node
}

/// Hands `message` over on a stream; what answers it.
fn request(node: &mut Node, stream: u64, message: &Message) -> Vec<Message> {
    let mut outbox = Outbox::new();
    let frame = wire::encode(cluster(), message);
    let input = Input::Request {
        stream: StreamId(stream),
        from: address(9),
        frame: &frame,
    };
    node.handle(NOW, input, &mut outbox);
    let answers = outbox
        .transmits
        .into_iter()
        .filter_map(|transmit| match transmit {
            Transmit::Answer { frames, .. } => Some(frames),
            _ => None,
        });
    let decode = |frame: Vec<u8>| wire::decode(cluster(), &frame, Carrier::Stream);
    let decoded = answers.flatten().map(decode);
    decoded.map(|answer| answer.expect("well formed")).collect()
}

fn close(node: &mut Node, stream: u64) {
    let stream = StreamId(stream);
    node.handle(NOW, Input::StreamClosed { stream }, &mut Outbox::new());
}

fn join(n: u64) -> Message {
    let port = 100 + n as u16;
    Message::Join(Join {
        record: RecordUpdate {
            record: record(&format!("joiner-{n}"), GENERATION, port).into(),
            version: Version(1),
            age: Age(0),
            lease_left: Duration::ZERO,
        },
        extensions: List::default(),
    })
}

/// hashicorp/memberlist#259, #229: pending syncs piled up without a limit.
#[test]
fn eight_tables_are_served_at_a_time_and_the_next_joiner_is_sent_on() {
    let mut node = acquainted(20);
    for n in 0..SERVED_MAX {
        let answer = request(&mut node, n, &join(n));
        assert!(matches!(answer[..], [Message::Table(_)]), "{answer:?}");
    }
    let answer = request(&mut node, 99, &join(99));
    let [Message::Busy(busy)] = &answer[..] else {
        panic!("{answer:?}")
    };
    assert_eq!(busy.others.len(), 8);
    assert!(
        !busy.others.contains(&address(199)),
        "not the joiner itself"
    );
    assert!(node.record_of(&name("joiner-99")).is_none(), "not admitted");
    assert_eq!(node.stats().busy, 1);
    close(&mut node, 3);
    let answer = request(&mut node, 100, &join(99));
    assert!(matches!(answer[..], [Message::Table(_)]), "{answer:?}");
}

/// Streams may be as short as they like: so many joins in a second are for all to serve.
#[test]
fn joins_that_are_over_at_once_are_shared_too() {
    let mut node = acquainted(20);
    let mut served = 0;
    for n in 0..100 {
        let answer = request(&mut node, n, &join(n));
        served += usize::from(matches!(answer[..], [Message::Table(_)]));
        close(&mut node, n);
    }
    assert!((15..=30).contains(&served), "{served}");
    let mut alone = acquainted(0);
    assert!(matches!(
        request(&mut alone, 1, &join(1))[..],
        [Message::Table(_)]
    ));
}

fn digest(asker: &str, cookie: Option<Cookie>, summary: Summary) -> Message {
    Message::Digest(Digest {
        sender: sender(asker, 1),
        ask: Ask(5),
        cookie,
        salt: Salt(77),
        summary,
        extensions: List::default(),
    })
}

fn nothing() -> Summary {
    Summary::Records(vec![ShortId(1); 2].into())
}

/// Hands a digest over as a datagram from `from`; the answers, and their bytes.
fn ask(node: &mut Node, from: SocketAddr, message: &Message) -> (Vec<Difference>, usize) {
    let mut outbox = Outbox::new();
    let payload = &wire::encode(cluster(), message);
    node.handle(NOW, Input::Datagram { from, payload }, &mut outbox);
    let mut bytes = 0;
    let mut answers = Vec::new();
    for transmit in outbox.transmits {
        if let Transmit::Datagram { to, payload } = transmit {
            assert_eq!(to, from);
            bytes += payload.len();
            match wire::decode(cluster(), &payload, Carrier::Datagram) {
                Ok(Message::Difference(answer)) => answers.push(answer),
                other => panic!("{other:?}"),
            }
        }
    }
    (answers, bytes)
}

/// A forged source must not turn a node into a cannon: only who shows that it hears this node at
/// its recorded address is answered at length.
#[test]
fn a_digest_is_answered_at_length_only_to_a_proven_address() {
    let mut node = acquainted(12);
    let question = digest("n3", None, nothing());
    let asked = wire::encode(cluster(), &question).len();
    for from in [address(3), address(9)] {
        let (answers, bytes) = ask(&mut node, from, &question);
        assert!(bytes <= asked, "{bytes} bytes for {asked}");
        assert!(answers.iter().all(|answer| answer.records.is_empty()));
    }
    let (answers, _) = ask(&mut node, address(3), &question);
    let cookie = answers[0].cookie;
    assert_eq!(answers[0].advice, Advice::ProveAddress);
    let proving = digest("n3", Some(cookie), nothing());
    let (answers, _) = ask(&mut node, address(3), &proving);
    let told: usize = answers.iter().map(|answer| answer.records.len()).sum();
    assert_eq!((told, answers[0].advice), (13, Advice::GoOn));
    // The cookie of one address is nothing at another.
    let (answers, bytes) = ask(&mut node, address(9), &proving);
    assert!(bytes <= asked + 8 && answers.iter().all(|answer| answer.records.is_empty()));
}

#[test]
fn a_large_answer_is_left_to_a_stream() {
    let mut node = acquainted(300);
    let (answers, _) = ask(&mut node, address(3), &digest("n3", None, nothing()));
    let cookie = answers[0].cookie;
    let (answers, _) = ask(
        &mut node,
        address(3),
        &digest("n3", Some(cookie), nothing()),
    );
    assert_eq!(answers.len(), 1);
    assert_eq!(answers[0].advice, Advice::UseStream);
    let answer = request(&mut node, 1, &digest("n3", None, nothing()));
    let [Message::Difference(told)] = &answer[..] else {
        panic!("{} messages", answer.len())
    };
    assert_eq!(told.records.len(), 301, "nothing is left out");
}

/// A flood of digests costs a bounded amount of hashing; the rest is dropped and counted.
#[test]
fn a_flood_of_digests_is_cut_off() {
    let mut node = acquainted(500);
    let sums = Summary::Buckets(vec![BucketSum(1); 512].into());
    let question = digest("n3", None, sums);
    let flood = 6_000;
    for _ in 0..flood {
        ask(&mut node, address(3), &question);
    }
    let dropped = node.stats().dropped.get("digest").copied().unwrap_or(0);
    assert!(dropped > 1_000, "{dropped} of {flood}");
    let later = NOW + Duration::from_secs(1);
    let payload = &wire::encode(cluster(), &question);
    let mut outbox = Outbox::new();
    let from = address(3);
    node.handle(later, Input::Datagram { from, payload }, &mut outbox);
    let answered = outbox
        .transmits
        .iter()
        .any(|it| matches!(it, Transmit::Datagram { .. }));
    assert!(answered, "it serves again");
}

/// Answers that nobody asked for change nothing.
#[test]
fn an_unasked_difference_is_dropped() {
    let mut node = acquainted(3);
    let told = RecordUpdate {
        record: record("x", GENERATION, 50).into(),
        version: Version(1),
        age: Age(0),
        lease_left: Duration::ZERO,
    };
    let difference = Message::Difference(Difference {
        sender: sender("n3", 1),
        ask: Ask(5),
        place: wire::Place::ONLY,
        cookie: Cookie(1),
        advice: Advice::GoOn,
        adopted: 0,
        buckets: List::default(),
        wanted: List::default(),
        records: vec![told].into(),
        extensions: List::default(),
    });
    let before = node.revision();
    hand(&mut node, &difference);
    assert_eq!(node.revision(), before);
}

/// A request of many frames is one question: nothing of it is left out, and its end is answered.
#[test]
fn a_delta_of_many_frames_is_adopted_whole() {
    let mut node = acquainted(1);
    let frames = 5;
    for frame in 0..frames {
        let records: Vec<RecordUpdate> = (0..300)
            .map(|n| RecordUpdate {
                record: record(&format!("m{frame}-{n}"), GENERATION, 1000 + n).into(),
                version: Version(1),
                age: Age(0),
                lease_left: Duration::ZERO,
            })
            .collect();
        let delta = Message::Delta(Delta {
            sender: sender("n2", 1),
            ask: Ask(5),
            cookie: None,
            salt: Salt(1),
            wanted: List::default(),
            records: records.into(),
            last: frame + 1 == frames,
            extensions: List::default(),
        });
        let answer = request(&mut node, 4, &delta);
        if frame + 1 < frames {
            assert!(answer.is_empty());
            continue;
        }
        let [Message::Difference(told)] = &answer[..] else {
            panic!("{answer:?}")
        };
        assert_eq!(told.adopted, 300 * frames);
    }
    assert_eq!(node.records().count(), 2 + 300 * frames as usize);
}
