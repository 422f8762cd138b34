//! Events that are kept for others: those sent at least once for a day, so that whoever missed them
//! can still get them; large ones that are sent at most once for a moment, until they are pulled.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use crate::member::{Delivery, EventRef, Generation, NameHash, UserEvent};
use crate::time::Instant;
use crate::wire::EventSpan;

/// Events kept at most.
pub const KEPT_MAX: usize = 16_384;
/// Bytes of their payloads at most.
pub const KEPT_BYTES_MAX: usize = 32 << 20;
/// Bytes that one event takes beside its payload, roughly.
const EVENT_BYTES: usize = 256;
/// Large events sent at most once that can be pulled.
const FLEETING_MAX: usize = 64;
/// For how long they can.
const FLEETING_TIME: Duration = Duration::from_secs(30);

type Key = (NameHash, Generation, u64);

#[derive(Debug)]
struct Held {
    event: Arc<UserEvent>,
    number: u64,
    since: Instant,
}

/// Events, found by what they are and dropped by age.
#[derive(Debug)]
pub struct EventKeep {
    retention: Duration,
    events: BTreeMap<Key, Held>,
    /// Numbered in the order in which they came.
    order: BTreeMap<u64, Key>,
    /// Those that all alive members have acknowledged.
    settled: BTreeSet<u64>,
    next: u64,
    bytes: usize,
    fleeting: VecDeque<(Instant, Arc<UserEvent>)>,
}

impl EventKeep {
    /// Nothing is kept; what will be is kept for `retention`.
    #[must_use]
    pub fn new(retention: Duration) -> Self {
        EventKeep {
            retention,
            events: BTreeMap::new(),
            order: BTreeMap::new(),
            settled: BTreeSet::new(),
            next: 0,
            bytes: 0,
            fleeting: VecDeque::new(),
        }
    }

    /// Keeps an event.
    pub fn keep(&mut self, event: &Arc<UserEvent>, now: Instant) {
        if event.delivery == Delivery::AtMostOnce {
            self.fleeting.push_back((now, Arc::clone(event)));
            while self.fleeting.len() > FLEETING_MAX {
                self.fleeting.pop_front();
            }
            return;
        }
        let key = (event.origin.hash(), event.generation, event.sequence);
        if self.events.contains_key(&key) {
            return;
        }
        let number = self.next;
        self.next += 1;
        self.bytes += cost(event);
        self.order.insert(number, key);
        let held = Held {
            event: Arc::clone(event),
            number,
            since: now,
        };
        self.events.insert(key, held);
    }

    /// Drops what is too old, and what is too much: first what everybody has.
    pub fn trim(&mut self, now: Instant) -> usize {
        let before = self.events.len();
        while let Some((_, key)) = self.order.first_key_value()
            && let Some(held) = self.events.get(key)
            && now.since(held.since) >= self.retention
        {
            self.drop_event(*key);
        }
        while self.events.len() > KEPT_MAX || self.bytes > KEPT_BYTES_MAX {
            let first = self.settled.first().or_else(|| self.order.keys().next());
            let Some(&key) = first.and_then(|number| self.order.get(number)) else {
                break;
            };
            self.drop_event(key);
        }
        let fresh = |&(since, _): &(Instant, _)| now.since(since) < FLEETING_TIME;
        self.fleeting.retain(fresh);
        before - self.events.len()
    }

    fn drop_event(&mut self, key: Key) {
        if let Some(held) = self.events.remove(&key) {
            self.bytes -= cost(&held.event);
            self.order.remove(&held.number);
            self.settled.remove(&held.number);
        }
    }

    /// `origin` is forgotten, and so is what it sent.
    pub fn drop_origin(&mut self, origin: NameHash) {
        let of_origin = (origin, Generation(0), 0)..=(origin, Generation(u64::MAX), u64::MAX);
        let keys: Vec<Key> = self.events.range(of_origin).map(|(&key, _)| key).collect();
        keys.into_iter().for_each(|key| self.drop_event(key));
    }

    /// All alive members have the events of a life up to `upto`.
    pub fn settle(&mut self, (origin, generation): (NameHash, Generation), upto: u64) {
        let range = (origin, generation, 0)..=(origin, generation, upto);
        let newest_first = self.events.range(range).rev();
        for (_, held) in newest_first {
            // What lies before has been noted before.
            if !self.settled.insert(held.number) {
                break;
            }
        }
    }

    /// An event, if it is kept.
    #[must_use]
    pub fn get(&self, event: &EventRef) -> Option<&Arc<UserEvent>> {
        match event.delivery {
            Delivery::AtLeastOnce => {
                let key = (event.origin, event.generation, event.sequence);
                self.events.get(&key).map(|held| &held.event)
            }
            Delivery::AtMostOnce => {
                let mut fleeting = self.fleeting.iter().map(|(_, held)| held);
                fleeting.find(|held| held.event_ref() == *event)
            }
        }
    }

    /// Those of a span that are kept, in order.
    pub fn span(&self, span: &EventSpan) -> impl Iterator<Item = &Arc<UserEvent>> {
        let key = |number: u64| (span.origin, span.generation, number);
        // An empty range would panic.
        let range = key(span.first)..=key(span.last.max(span.first));
        self.events.range(range).map(|(_, held)| &held.event)
    }

    /// The number of the first event of a life that is kept.
    #[must_use]
    pub fn first_of(&self, (origin, generation): (NameHash, Generation)) -> Option<u64> {
        let of_life = (origin, generation, 0)..=(origin, generation, u64::MAX);
        self.events.range(of_life).next().map(|(key, _)| key.2)
    }

    /// Whether nothing is kept that is sent at least once.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.events.is_empty()
    }

    /// How many are kept.
    #[must_use]
    pub fn len(&self) -> usize {
        self.events.len()
    }
}

fn cost(event: &UserEvent) -> usize {
    event.payload.len() + EVENT_BYTES
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::member::EventName;

    fn event(origin: &str, sequence: u64, bytes: usize) -> Arc<UserEvent> {
        UserEvent {
            origin: origin.parse().expect("valid"),
            generation: Generation(1),
            delivery: Delivery::AtLeastOnce,
            sequence,
            key: None,
            unix_ms: 0,
            name: EventName::new("e").expect("valid"),
            payload: vec![0; bytes],
        }
        .into()
    }

    fn life(origin: &str) -> (NameHash, Generation) {
        let name: crate::member::NodeName = origin.parse().expect("valid");
        (name.hash(), Generation(1))
    }

    #[test]
    fn what_is_too_old_goes_and_what_is_not_stays() {
        let (mut keep, now) = (EventKeep::new(Duration::from_secs(10)), Instant::ORIGIN);
        keep.keep(&event("n1", 1, 5), now);
        keep.keep(&event("n1", 2, 5), now + Duration::from_secs(1));
        assert_eq!(keep.trim(now + Duration::from_secs(10)), 1);
        assert_eq!((keep.len(), keep.first_of(life("n1"))), (1, Some(2)));
        assert_eq!(keep.trim(now + Duration::from_secs(11)), 1);
        assert!(keep.is_empty() && keep.bytes == 0 && keep.order.is_empty());
    }

    #[test]
    fn of_too_many_those_go_first_that_all_have() {
        let (mut keep, now) = (EventKeep::new(Duration::from_secs(10)), Instant::ORIGIN);
        let large = KEPT_BYTES_MAX / 4;
        keep.keep(&event("n2", 1, large), now);
        for number in 1..=3 {
            keep.keep(&event("n1", number, large), now);
        }
        keep.settle(life("n1"), 2);
        assert_eq!(keep.trim(now), 1);
        assert_eq!(keep.first_of(life("n1")), Some(2), "its first has gone");
        keep.keep(&event("n1", 4, 2 * large), now);
        assert_eq!(keep.trim(now), 2);
        assert_eq!(keep.first_of(life("n2")), None);
        assert_eq!(
            keep.first_of(life("n1")),
            Some(3),
            "the oldest has gone too"
        );
    }

    #[test]
    fn how_many_are_kept_has_a_limit() {
        let (mut keep, now) = (EventKeep::new(Duration::from_secs(10)), Instant::ORIGIN);
        for number in 1..=KEPT_MAX as u64 + 7 {
            keep.keep(&event("n1", number, 0), now);
        }
        assert_eq!((keep.trim(now), keep.len()), (7, KEPT_MAX));
        assert_eq!(keep.first_of(life("n1")), Some(8));
        keep.drop_origin(life("n1").0);
        assert!(keep.is_empty() && keep.bytes == 0);
    }

    #[test]
    fn large_events_sent_at_most_once_are_kept_for_a_moment() {
        let (mut keep, now) = (EventKeep::new(Duration::from_secs(100)), Instant::ORIGIN);
        let fleeting = |sequence| {
            let event = UserEvent::clone(&event("n1", sequence, 9000));
            Arc::new(UserEvent {
                delivery: Delivery::AtMostOnce,
                ..event
            })
        };
        for number in 1..=FLEETING_MAX as u64 + 1 {
            keep.keep(&fleeting(number), now);
        }
        assert!(keep.get(&fleeting(1).event_ref()).is_none());
        assert!(keep.get(&fleeting(2).event_ref()).is_some());
        assert!(keep.is_empty(), "nobody is owed it");
        keep.trim(now + FLEETING_TIME);
        assert!(keep.get(&fleeting(2).event_ref()).is_none());
    }
}
