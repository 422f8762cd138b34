//! What a process's data directory holds of user events, and what must be true of it.

use std::collections::BTreeMap;
use std::sync::Arc;

use rumord::member::{Delivery, EventRef, Generation, NameHash, UserEvent};
use rumord::protocol::{Event, EventMark};

use crate::process::ProcessId;

/// Events that are given back to a later run: as many as a node keeps.
const RESTORED_MAX: usize = 16_384;

/// The events of one kind of delivery of one life of a member.
pub type Sequence = (NameHash, Generation, Delivery);

/// Every event that was published, by what it is.
pub type Published = BTreeMap<EventRef, Arc<UserEvent>>;

/// What came out of a node, and of the runs before it that it goes on from.
#[derive(Clone, Debug, Default)]
pub struct EventStore {
    /// All events, those sent by the process itself included, in the order in which they came.
    events: Vec<Arc<UserEvent>>,
    /// What of them came when, by what it is.
    at: BTreeMap<EventRef, usize>,
    /// The number of the last event of each sequence.
    last: BTreeMap<Sequence, u64>,
    /// Events that are kept nowhere any more, as it was told.
    missed: u64,
    /// The processes that wrote it.
    lineage: Vec<ProcessId>,
}

impl EventStore {
    /// The store of `process`, with what an earlier one left.
    pub(crate) fn of(process: ProcessId, left: Option<&EventStore>) -> Self {
        let mut store = left.cloned().unwrap_or_default();
        store.lineage.push(process);
        store
    }

    /// The process itself sent `event`.
    pub(crate) fn put_own(&mut self, event: &Arc<UserEvent>) {
        self.put(event);
    }

    fn put(&mut self, event: &Arc<UserEvent>) {
        let reference = event.event_ref();
        self.at.insert(reference, self.events.len());
        self.events.push(Arc::clone(event));
        self.last.insert(sequence(&reference), reference.sequence);
    }

    /// Takes in what the node says, and checks it against what was `published`.
    ///
    /// An event comes out at most once, after all of its origin before it, and it was published in
    /// these words; of those sent at least once none is left out without a word.
    ///
    /// # Errors
    /// The invariant that does not hold, and what was found.
    pub(crate) fn take(
        &mut self,
        event: &Event,
        published: &Published,
    ) -> Result<(), (&'static str, String)> {
        match event {
            Event::User(event) => {
                let reference = event.event_ref();
                let last = self.last.get(&sequence(&reference)).copied();
                let known = self.at.contains_key(&reference);
                self.put(event);
                if known {
                    return Err(("an-event-comes-once", format!("{reference:?}")));
                }
                if last >= Some(reference.sequence) {
                    let detail = format!("{reference:?} after {last:?}");
                    return Err(("events-come-in-order", detail));
                }
                let gap = last.is_some_and(|last| last + 1 < reference.sequence);
                if gap && reference.delivery == Delivery::AtLeastOnce {
                    let detail = format!("{reference:?} after {last:?}");
                    return Err(("no-event-is-left-out-silently", detail));
                }
                if published.get(&reference) != Some(event) {
                    return Err(("only-what-was-sent-comes", format!("{reference:?}")));
                }
                Ok(())
            }
            Event::UserMissed { first, last } => {
                let before = self.last.insert(sequence(first), *last).unwrap_or_default();
                self.missed += last.saturating_sub(first.sequence) + 1;
                if before >= first.sequence {
                    let detail = format!("{first:?} missed after {before}");
                    return Err(("events-come-in-order", detail));
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Whether `event` has come.
    #[must_use]
    pub fn has(&self, event: &EventRef) -> bool {
        self.at.contains_key(event)
    }

    /// All events, in the order in which they came.
    #[must_use]
    pub fn events(&self) -> &[Arc<UserEvent>] {
        &self.events
    }

    /// How many events are kept nowhere any more, as it was told.
    #[must_use]
    pub fn missed(&self) -> u64 {
        self.missed
    }

    /// Whether `process` wrote it, or a later one that went on from what that had left.
    #[must_use]
    pub fn continues(&self, process: ProcessId) -> bool {
        self.lineage.contains(&process)
    }

    /// What a later run is given back, sorted by origin and number.
    pub(crate) fn restored(&self) -> Vec<Arc<UserEvent>> {
        let durable = |event: &&Arc<UserEvent>| event.delivery == Delivery::AtLeastOnce;
        let newest = self.events.iter().rev().filter(durable).take(RESTORED_MAX);
        let mut events: Vec<_> = newest.cloned().collect();
        events.sort_by_key(|event| event.event_ref());
        events
    }
}

fn sequence(event: &EventRef) -> Sequence {
    (event.origin, event.generation, event.delivery)
}

/// The marks as they are given back.
pub(crate) fn marks(node: &rumord::protocol::Node) -> Vec<EventMark> {
    node.event_marks().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use rumord::member::EventName;

    fn event(sequence: u64, delivery: Delivery) -> Arc<UserEvent> {
        UserEvent {
            origin: "n1".parse().expect("valid"),
            generation: Generation(1),
            delivery,
            sequence,
            key: None,
            unix_ms: 0,
            name: EventName::new("e").expect("valid"),
            payload: Vec::new(),
        }
        .into()
    }

    fn took(numbers: &[u64], delivery: Delivery) -> Result<(), &'static str> {
        let all = (1..=9).map(|number| event(number, delivery));
        let published: Published = all.map(|event| (event.event_ref(), event)).collect();
        let mut store = EventStore::default();
        numbers.iter().try_for_each(|&number| {
            let taken = store.take(&Event::User(event(number, delivery)), &published);
            taken.map_err(|(invariant, _)| invariant)
        })
    }

    #[test]
    fn every_way_of_being_wrong_is_noticed() {
        let durable = Delivery::AtLeastOnce;
        assert_eq!(took(&[4, 5, 6], durable), Ok(()), "after a join");
        assert_eq!(took(&[4, 5, 5], durable), Err("an-event-comes-once"));
        assert_eq!(took(&[5, 4], durable), Err("events-come-in-order"));
        assert_eq!(took(&[5, 7], durable), Err("no-event-is-left-out-silently"));
        assert_eq!(took(&[10], durable), Err("only-what-was-sent-comes"));
        assert_eq!(took(&[5, 7], Delivery::AtMostOnce), Ok(()));
    }

    #[test]
    fn what_is_missed_with_a_word_is_not_left_out_silently() {
        let durable = Delivery::AtLeastOnce;
        let mut store = EventStore::default();
        let all = [1, 2, 5].map(|number| event(number, durable));
        let published: Published = all.iter().map(|e| (e.event_ref(), e.clone())).collect();
        let missed = Event::UserMissed {
            first: event(3, durable).event_ref(),
            last: 4,
        };
        for event in [
            Event::User(all[0].clone()),
            Event::User(all[1].clone()),
            missed.clone(),
        ] {
            assert_eq!(store.take(&event, &published), Ok(()));
        }
        assert_eq!(store.take(&Event::User(all[2].clone()), &published), Ok(()));
        assert_eq!(store.missed(), 2);
        assert!(store.take(&missed, &published).is_err(), "it has come");
    }
}
