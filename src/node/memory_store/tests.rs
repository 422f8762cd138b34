//! Numbers, uids and conflicts of events in memory.

use arc_swap::ArcSwap;
use tokio::sync::{mpsc, oneshot};

use super::*;
use crate::member::EventName;
use crate::node::{Backlog, EventLog, Lookup};

struct Fed {
    store: MemoryStore,
    log: EventLog,
    durable: mpsc::UnboundedReceiver<Durable>,
    backlog: Backlog,
}

impl Fed {
    fn new() -> Self {
        let (sender, durable) = mpsc::unbounded_channel();
        let log = EventLog::new(Generation(7), Vec::new(), Some(1));
        let store = MemoryStore::default();
        store.follow(Kept {
            events: log.clone(),
            snapshot: Arc::new(ArcSwap::from_pointee(crate::node::snapshot::tests::empty())),
            local: "n1".parse().expect("valid"),
            generation: Generation(7),
            durable: sender,
        });
        Fed {
            store,
            log,
            durable,
            backlog: Backlog::default(),
        }
    }

    fn accept(&self, key: Option<u8>, payload: &str) -> Result<Accepted, AcceptError> {
        let (reply, mut answer) = oneshot::channel();
        self.store.accept(Offer {
            draft: Draft {
                delivery: Delivery::AtLeastOnce,
                key: key.map(|byte| EventKey([byte; 16])),
                name: EventName::new("deploy").expect("valid"),
                payload: payload.into(),
            },
            place: self.backlog.enter(payload.len()).expect("there is room"),
            reply,
        });
        answer.try_recv().expect("answered at once")
    }
}

fn foreign(sequence: u64, key: Option<u8>, unix_ms: u64, payload: &str) -> Arc<UserEvent> {
    Arc::new(UserEvent {
        origin: "n2".parse().expect("valid"),
        generation: Generation(9),
        delivery: Delivery::AtLeastOnce,
        sequence,
        key: key.map(|byte| EventKey([byte; 16])),
        unix_ms,
        name: EventName::new("deploy").expect("valid"),
        payload: payload.into(),
    })
}

#[test]
fn own_events_are_numbered_per_life_and_handed_on_in_order() {
    let mut fed = Fed::new();
    let first = fed.accept(None, "a").expect("accepted");
    let second = fed.accept(None, "b").expect("accepted");
    assert_eq!((first.id, first.sequence), (1, 1));
    assert_eq!((second.id, second.sequence), (2, 2));
    assert_eq!(second.uid.to_string(), "n1/7/2");
    fed.store.persist_generation(Generation(8)).expect("kept");
    let next = fed.accept(None, "c").expect("accepted");
    assert_eq!((next.generation, next.sequence), (Generation(8), 1));
    assert_eq!(fed.backlog.now().events, 3, "not told yet");
    let mut told = Vec::new();
    while let Ok(Durable::Own(events)) = fed.durable.try_recv() {
        told.extend(events.into_iter().map(|(event, _)| event.payload.clone()));
    }
    assert_eq!(told, [b"a", b"b", b"c"]);
    assert_eq!(fed.backlog.now().events, 0);
}

#[test]
fn a_key_is_one_event_and_another_event_under_it_is_refused() {
    let fed = Fed::new();
    let first = fed.accept(Some(1), "a").expect("accepted");
    assert_eq!(fed.accept(Some(1), "a"), Ok(first.clone()));
    assert_eq!(fed.accept(Some(1), "b"), Err(AcceptError::KeyReused));
    fed.store
        .receive(vec![Arrival::Event(foreign(1, Some(1), u64::MAX, "b"))]);
    assert_eq!(fed.log.head(), first.id, "it came later, and counts less");
}

#[test]
fn events_of_others_are_logged_once_and_an_earlier_one_under_a_key_is_told() {
    let mut fed = Fed::new();
    let late = fed.accept(Some(1), "b").expect("accepted");
    let arrivals = [
        Arrival::Event(foreign(1, None, 5, "x")),
        Arrival::Event(foreign(1, None, 5, "x")),
        Arrival::Event(foreign(2, Some(1), 5, "a")),
        Arrival::Missed(foreign(9, None, 5, "").event_ref()),
        Arrival::Event(foreign(8, None, 5, "y")),
    ];
    fed.store.receive(arrivals.into());
    assert_eq!(fed.log.head(), 3, "one event, and one conflict");
    let Lookup::Found(entry) = fed.log.get(3) else {
        panic!("no entry");
    };
    let Logged::Conflict(conflict) = &entry.what else {
        panic!("{entry:?}");
    };
    assert_eq!(
        (conflict.overruled, &conflict.event.payload[..]),
        (late.id, &b"a"[..])
    );
    assert_eq!(fed.accept(Some(1), "b"), Err(AcceptError::KeyReused));
    assert_eq!(fed.accept(Some(1), "a").map(|same| same.id), Ok(3));
    let mut acknowledged = 0;
    while let Ok(durable) = fed.durable.try_recv() {
        if let Durable::Received(events) = durable {
            acknowledged += events.len();
        }
    }
    assert_eq!(acknowledged, 4, "copies are acknowledged too");
}
