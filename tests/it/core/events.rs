//! User events, and acknowledgements of them, that no honest member would send.

use std::sync::Arc;

use rumord::member::{Delivery, EventName, EventRef, Generation, NameHash, NodeName, UserEvent};
use rumord::protocol::{Event, EventCount, Input, Node, Outbox, Rejection, Transmit};
use rumord::wire::{
    self, AckHolders, AckSet, EventAcks, EventHead, EventHeads, EventPull, EventSpan, Events,
    Fingerprint, HolderMap, HolderPlaces, Holders, List, Message, Sender, ToldEvent, ToldWhat,
    Wish,
};

use super::{GENERATION, NOW, address, cluster, hand, name, news, node, record, rejected, sender};

fn event(origin: &str, generation: Generation, sequence: u64) -> Arc<UserEvent> {
    UserEvent {
        origin: name(origin),
        generation,
        delivery: Delivery::AtLeastOnce,
        sequence,
        key: None,
        unix_ms: 0,
        name: EventName::new("e").expect("valid"),
        payload: vec![7; 50],
    }
    .into()
}

fn tell(sender: Sender, events: Vec<Arc<UserEvent>>, asked: Vec<EventHead>) -> Message {
    let told = |event| ToldEvent {
        hop: 1,
        collects: true,
        what: ToldWhat::Whole(event),
    };
    Message::Events(Events {
        sender,
        asked: asked.into(),
        told: events.into_iter().map(told).collect::<Vec<_>>().into(),
    })
}

/// The node n1 that knows n2 to n4.
fn member() -> Node {
    let mut node = node();
    let told = (2..=4).map(|n| record(&format!("n{n}"), GENERATION, n));
    hand(&mut node, &news(told.collect()));
    node
}

/// What comes out when `message` is handed over, and how much is sent at once because of it.
fn handed(node: &mut Node, message: &Message) -> (Vec<u64>, Vec<Transmit>) {
    let mut outbox = Outbox::new();
    let payload = wire::encode(cluster(), message);
    let from = address(9);
    let payload = &payload[..];
    node.handle(NOW, Input::Datagram { from, payload }, &mut outbox);
    let user = |event| match event {
        Event::User(event) => Some(event.sequence),
        _ => None,
    };
    let out = outbox.events.into_iter().filter_map(user).collect();
    (out, outbox.transmits)
}

fn head(origin: &str, upto: u64) -> EventHead {
    EventHead {
        origin: name(origin).hash(),
        generation: GENERATION,
        delivery: Delivery::AtLeastOnce,
        upto,
    }
}

#[test]
fn events_are_believed_of_members_and_from_members_only() {
    let mut node = member();
    let good = |sequence| vec![event("n3", GENERATION, sequence)];
    let mut other_life = sender("n2", 1);
    other_life.generation = Generation(GENERATION.0 + 1);
    let later = Generation(GENERATION.0 + 5);
    for (message, why) in [
        (tell(sender("n9", 1), good(1), vec![]), "an unknown sender"),
        (
            tell(other_life, good(1), vec![]),
            "another life of a sender",
        ),
        (
            tell(sender("n2", 1), vec![event("n9", GENERATION, 1)], vec![]),
            "an unknown origin",
        ),
        (
            tell(sender("n2", 1), vec![event("n3", later, 1)], vec![]),
            "a life that has not begun",
        ),
        (
            tell(sender("n2", 1), vec![event("n3", GENERATION, 0)], vec![]),
            "no number",
        ),
    ] {
        let before = rejected(&node, Rejection::Event);
        let (out, sent) = handed(&mut node, &message);
        assert!(out.is_empty() && sent.is_empty(), "{why}");
        assert_eq!(rejected(&node, Rejection::Event), before + 1, "{why}");
    }
    let first = handed(&mut node, &tell(sender("n2", 1), good(1), vec![]));
    assert_eq!(first.0, [1]);
    let again = handed(&mut node, &tell(sender("n4", 1), good(1), vec![]));
    assert!(again.0.is_empty());
    // Nobody speaks for this node.
    let own = vec![event("n1", GENERATION, 1)];
    assert!(
        handed(&mut node, &tell(sender("n2", 1), own, vec![]))
            .0
            .is_empty()
    );
    assert_eq!(node.stats().events.get(EventCount::Duplicate), 2);
}

#[test]
fn absurd_numbers_take_no_memory_and_silence_nobody() {
    let mut node = member();
    for sequence in [u64::MAX, u64::MAX - 1, 1 << 40, 100_000] {
        let far = vec![event("n3", GENERATION, sequence)];
        assert!(
            handed(&mut node, &tell(sender("n2", 1), far, vec![]))
                .0
                .is_empty()
        );
    }
    assert_eq!(node.state().held_events, 0);
    assert_eq!(node.stats().events.get(EventCount::Beyond), 4);
    for sequence in 1..=3 {
        let next = vec![event("n3", GENERATION, sequence)];
        let (out, _) = handed(&mut node, &tell(sender("n2", 1), next, vec![]));
        assert_eq!(out, [sequence]);
    }
    let heads = Message::EventHeads(EventHeads {
        sender: sender("n2", 1),
        heads: vec![head("n3", u64::MAX), head("n9", 7), head("n1", 7)].into(),
        asks: false,
    });
    hand(&mut node, &heads);
    assert_eq!(
        rejected(&node, Rejection::Unsolicited),
        1,
        "nobody was asked"
    );
}

/// An acknowledgement of what was not sent, or by whom that cannot be, changes nothing.
#[test]
fn acknowledgements_that_cannot_be_are_refused() {
    let mut node = member();
    let own = event("n1", GENERATION, 1);
    let events = [own.clone()];
    node.handle(NOW, Input::Publish { events: &events }, &mut Outbox::new());
    let reference = own.event_ref();
    let owed = |node: &Node| node.delivery(&reference).expect("kept").owed;
    let ack = |from: Sender, own: Vec<EventHead>, sets: Vec<AckSet>| {
        Message::EventAcks(EventAcks {
            sender: from,
            own: own.into(),
            sets: sets.into(),
        })
    };
    let places = |table: u64, members: u32| AckHolders::Places {
        table: Fingerprint(table),
        holders: Holders::Some(HolderMap {
            members,
            wish: Wish::NONE,
            places: HolderPlaces::Map(vec![0xff].into()),
        }),
    };
    let table = node.fingerprint();
    let set = |who| AckSet {
        head: head("n1", 1),
        who,
    };
    for (message, why) in [
        (
            ack(sender("n9", 1), vec![head("n1", 1)], vec![]),
            "a stranger",
        ),
        (
            ack(sender("n2", 1), vec![head("n1", 2)], vec![]),
            "never sent",
        ),
        (
            ack(sender("n2", 1), vec![head("n3", 1)], vec![]),
            "of another",
        ),
        (
            ack(sender("n2", 1), vec![], vec![set(places(table, 9))]),
            "too many members",
        ),
        (
            ack(sender("n2", 1), vec![], vec![set(places(table, 4))]),
            "bits beyond the last",
        ),
    ] {
        let before = rejected(&node, Rejection::Event);
        hand(&mut node, &message);
        assert_eq!(rejected(&node, Rejection::Event), before + 1, "{why}");
        assert_eq!(owed(&node).len(), 3, "{why}");
    }
    hand(
        &mut node,
        &ack(sender("n2", 1), vec![], vec![set(places(table + 1, 4))]),
    );
    assert_eq!(owed(&node).len(), 3, "places in another table are nobody");
    hand(
        &mut node,
        &ack(sender("n2", 1), vec![head("n1", 1)], vec![]),
    );
    let names = ["n3", "n4"].map(|text| {
        let low = wire::GenerationLow::of(GENERATION);
        (name(text).hash(), low)
    });
    let named = set(AckHolders::Names(names.to_vec().into()));
    hand(&mut node, &ack(sender("n2", 1), vec![], vec![named]));
    assert_eq!(owed(&node), Vec::<NodeName>::new());
}

/// A question is answered to the member's own address, in no more bytes than it took, and for one's
/// own events only.
#[test]
fn a_question_cannot_be_used_to_flood_somebody() {
    let mut node = member();
    let question = tell(sender("n2", 1), vec![], vec![head("n2", 3)]);
    let (_, sent) = handed(&mut node, &question);
    let asked = wire::encode(cluster(), &question).len();
    let [Transmit::Datagram { to, payload }] = &sent[..] else {
        panic!("one answer: {sent:?}");
    };
    assert_eq!(*to, address(2), "not to who claims to be n2");
    assert!(payload.len() <= asked, "{} for {asked}", payload.len());
    let before = rejected(&node, Rejection::Event);
    let of_another = tell(sender("n2", 1), vec![], vec![head("n3", 3)]);
    assert!(handed(&mut node, &of_another).1.is_empty());
    assert_eq!(rejected(&node, Rejection::Event), before + 1);
}

/// Heads are answered to who has not proved its address in no more bytes than it sent.
#[test]
fn heads_are_answered_in_no_more_bytes_than_they_took() {
    let mut node = member();
    for sequence in 1..=2 {
        for origin in ["n2", "n3", "n4"] {
            let told = tell(
                sender("n2", 1),
                vec![event(origin, GENERATION, sequence)],
                vec![],
            );
            hand(&mut node, &told);
        }
    }
    let question = Message::EventHeads(EventHeads {
        sender: sender("n2", 1),
        heads: List::default(),
        asks: true,
    });
    let asked = wire::encode(cluster(), &question).len();
    let sent: usize = hand(&mut node, &question)
        .iter()
        .map(|(_, bytes)| bytes.len())
        .sum();
    assert!(sent <= asked, "{sent} for {asked}");
}

/// Strangers are given nothing over streams either.
#[test]
fn strangers_pull_nothing() {
    let mut node = member();
    hand(
        &mut node,
        &tell(sender("n2", 1), vec![event("n3", GENERATION, 1)], vec![]),
    );
    let pull = |from: &str| {
        Message::EventPull(EventPull {
            sender: sender(from, 1),
            wanted: vec![EventSpan {
                origin: name("n3").hash(),
                generation: GENERATION,
                delivery: Delivery::AtLeastOnce,
                first: 1,
                last: u64::MAX,
            }]
            .into(),
        })
    };
    let mut answer = |from: &str| {
        let mut outbox = Outbox::new();
        let frame = wire::encode(cluster(), &pull(from));
        let stream = rumord::protocol::StreamId(7);
        let (from, frame) = (address(9), &frame[..]);
        let request = Input::Request {
            stream,
            from,
            frame,
        };
        node.handle(NOW, request, &mut outbox);
        match &outbox.transmits[..] {
            [Transmit::Answer { frames, .. }] => frames.len(),
            other => panic!("one answer: {other:?}"),
        }
    };
    assert_eq!(answer("n9"), 0);
    assert_eq!(answer("n2"), 1);
}

/// What is stored but was never handed out acknowledges nothing.
#[test]
fn only_what_came_out_can_become_durable() {
    let mut node = member();
    let unknown = EventRef {
        origin: NameHash::from_wire([7; 8]),
        ..event("n3", GENERATION, 9).event_ref()
    };
    let events = [unknown, event("n3", GENERATION, 9).event_ref()];
    node.handle(NOW, Input::Stored { events: &events }, &mut Outbox::new());
    assert_eq!(node.event_marks().count(), 0);
    hand(
        &mut node,
        &tell(sender("n2", 1), vec![event("n3", GENERATION, 1)], vec![]),
    );
    node.handle(NOW, Input::Stored { events: &events }, &mut Outbox::new());
    let marks: Vec<u64> = node.event_marks().map(|mark| mark.upto.sequence).collect();
    assert_eq!(marks, [1]);
}
