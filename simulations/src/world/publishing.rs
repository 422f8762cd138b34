//! Clients send events, and the world plays the store behind each node.

use std::sync::Arc;

use rumord::member::{Delivery, EventName, EventRef, UserEvent};
use rumord::protocol::Input;

use super::World;
use crate::process::{Process, ProcessId};
use crate::store;

impl World {
    /// A client sends `bodies` through a process, which stores them and tells them: one event each.
    ///
    /// # Panics
    /// The process has stopped.
    pub fn publish(
        &mut self,
        id: ProcessId,
        delivery: Delivery,
        bodies: Vec<Vec<u8>>,
    ) -> Vec<EventRef> {
        let process = &mut self.processes[id.0];
        assert!(process.is_up(), "{} has stopped", process.name);
        let Ok(name) = EventName::new("deploy") else {
            return Vec::new();
        };
        let generation = process.node.state().generation;
        let unix_ms = self.now.as_nanos() / 1_000_000;
        let sent = process.sent.entry((generation, delivery)).or_insert(0);
        let events: Vec<Arc<UserEvent>> = bodies
            .into_iter()
            .map(|payload| {
                *sent += 1;
                Arc::new(UserEvent {
                    origin: process.name.clone(),
                    generation,
                    delivery,
                    sequence: *sent,
                    key: None,
                    unix_ms,
                    name: name.clone(),
                    payload,
                })
            })
            .collect();
        let references = events.iter().map(|event| event.event_ref()).collect();
        for event in &events {
            process.store.put_own(event);
            self.published.insert(event.event_ref(), Arc::clone(event));
        }
        let (count, word) = (events.len(), delivery.as_str());
        let process = Some(&self.processes[id.0]);
        self.trace
            .note(self.now, process, "publish", format_args!("{count} {word}"));
        self.feed(id, Input::Publish { events: &events });
        references
    }

    /// A process that goes on from the data directory of `last` learns which events that knew.
    pub(super) fn restore_events(&mut self, id: ProcessId, last: ProcessId) {
        let left = &self.processes[last.0];
        let (events, marks) = (left.store.restored(), store::marks(&left.node));
        let own = store::EventStore::of(id, Some(&left.store));
        self.processes[id.0].store = own;
        let (events, marks) = (&events[..], &marks[..]);
        self.feed(id, Input::RestoreEvents { events, marks });
    }

    /// Whether every process that is up and of the same cluster has `event`.
    #[must_use]
    pub fn everyone_has(&self, event: &EventRef) -> bool {
        let origin = self.published.get(event).map(|event| &event.origin);
        let origin = origin.and_then(|name| self.up().find(|process| process.name == *name));
        let of_cluster =
            |process: &&Process| origin.is_none_or(|origin| origin.cluster == process.cluster);
        let mut all = self.up().filter(of_cluster);
        all.all(|process| process.store.has(event))
    }

    /// Whether the node of `sender` holds that nobody is owed `event`, and that every process that
    /// is up and of its cluster has it.
    #[must_use]
    pub fn sender_knows(&self, sender: ProcessId, event: &EventRef) -> bool {
        let sender = self.process(sender);
        let Some(state) = sender.node.delivery(event) else {
            return false;
        };
        let mut all = self
            .up()
            .filter(|process| process.cluster == sender.cluster);
        state.owed.is_empty() && all.all(|process| state.delivered.contains(&process.name))
    }
}
