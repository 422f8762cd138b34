//! What clients send through nodes while faults happen: events of both kinds, small and large; and
//! who must have them in the end.

use std::collections::BTreeSet;
use std::fmt;
use std::time::Duration;

use rand::RngExt;
use rumord::member::{Delivery, EVENT_PAYLOAD_BYTES_MAX, EventRef};

use super::fault::{Slot, name};
use crate::forks::{Consumer, fork};
use crate::process::{Process, ProcessId};
use crate::world::World;

/// Most sendings of a run.
const SENDINGS_MAX: usize = 8;
/// Most events of one sending.
const EVENTS_MAX: usize = 6;
/// Lives of one member whose events are told apart.
const LIVES_MAX: usize = 4;

/// A client sends events.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Sending {
    /// When, since the run began.
    pub at: Duration,
    /// Through whom.
    pub slot: Slot,
    /// What is promised about them.
    pub delivery: Delivery,
    /// How many.
    pub events: usize,
    /// Bytes of each.
    pub bytes: usize,
}

impl Sending {
    /// The words for all, for counting.
    pub const WORDS: [&'static str; 4] = [
        "at-most-once",
        "large-at-most-once",
        "at-least-once",
        "large-at-least-once",
    ];

    /// The word for it.
    #[must_use]
    pub fn word(&self) -> &'static str {
        let large = usize::from(self.bytes > 1200);
        let place = match self.delivery {
            Delivery::AtMostOnce => 0,
            Delivery::AtLeastOnce => 2,
        };
        Self::WORDS[place + large]
    }

    /// What the events say, something else for another `number`.
    #[must_use]
    pub fn bodies(&self, number: usize) -> Vec<Vec<u8>> {
        let body = |event: usize| vec![(number * EVENTS_MAX + event) as u8; self.bytes];
        (0..self.events).map(body).collect()
    }
}

impl fmt::Display for Sending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, word) = (name(self.slot), self.delivery.as_str());
        let (events, bytes) = (self.events, self.bytes);
        write!(f, "{name} is sent {events} events {word} of {bytes} bytes")
    }
}

/// Sendings through `nodes` up to `ends`, in the order of time.
#[must_use]
pub fn draw_sendings(seed: u64, nodes: usize, ends: Duration) -> Vec<Sending> {
    let mut rng = fork(seed, Consumer::Sendings);
    let count = rng.random_range(0..=SENDINGS_MAX);
    let mut sendings: Vec<_> = (0..count)
        .map(|_| Sending {
            at: ends.mul_f64(rng.random_range(0.05..1.0)),
            slot: rng.random_range(0..nodes),
            delivery: if rng.random_bool(0.7) {
                Delivery::AtLeastOnce
            } else {
                Delivery::AtMostOnce
            },
            events: rng.random_range(1..=EVENTS_MAX),
            bytes: match rng.random_range(0..10) {
                0..7 => rng.random_range(0..=300),
                7 | 8 => rng.random_range(300..=1300),
                _ => rng.random_range(1300..=EVENT_PAYLOAD_BYTES_MAX),
            },
        })
        .collect();
    sendings.sort_by_key(|sending| sending.at);
    sendings
}

/// Events that were sent at least once, and who belonged to the cluster then.
#[derive(Clone, Debug)]
pub struct Sent {
    sender: ProcessId,
    events: Vec<EventRef>,
    ready: BTreeSet<ProcessId>,
}

impl Sent {
    /// `events` were sent through `sender` just now.
    #[must_use]
    pub fn now(world: &World, sender: ProcessId, events: Vec<EventRef>) -> Self {
        let ready = world.up().filter(|process| process.node.state().ready);
        Sent {
            sender,
            events,
            ready: ready.map(|process| process.id).collect(),
        }
    }
}

/// Whether every node of the core that was ready when an event was sent, or that goes on from the
/// data directory of one that was, has it, if anybody of the core has; and whether its sender, if
/// that is of the core, knows that nobody of the core is owed it.
///
/// # Errors
/// Why not yet.
pub fn pending(world: &World, core: &[ProcessId], sent: &[Sent]) -> Result<(), String> {
    for sending in sent {
        for event in &sending.events {
            if is_told_apart(sent, event) {
                all_have(world, core, sending, event)?;
                sender_knows(world, core, sending, event)?;
            }
        }
    }
    Ok(())
}

/// Whether the event is of one of the newest lives of its origin that sent some.
fn is_told_apart(sent: &[Sent], event: &EventRef) -> bool {
    let events = sent.iter().flat_map(|sending| &sending.events);
    let later = events.filter(|it| it.origin == event.origin && it.generation > event.generation);
    let lives: BTreeSet<_> = later.map(|it| it.generation).collect();
    lives.len() < LIVES_MAX
}

fn all_have(
    world: &World,
    core: &[ProcessId],
    sending: &Sent,
    event: &EventRef,
) -> Result<(), String> {
    let origin = &world.process(sending.sender).name;
    let core = || core.iter().map(|&id| world.process(id));
    let Some(holder) = core().find(|process| process.store.has(event)) else {
        return Ok(());
    };
    for process in core() {
        let obliged = sending.ready.iter().any(|&id| process.store.continues(id));
        let listed = |process: &Process| {
            let record = process.node.record_of(origin);
            record.is_some_and(|record| record.standing.generation >= event.generation)
        };
        if obliged && listed(process) && listed(holder) && !process.store.has(event) {
            return Err(format!(
                "{} lacks {event:?} of {origin}, which {} has",
                process.name, holder.name
            ));
        }
    }
    Ok(())
}

fn sender_knows(
    world: &World,
    core: &[ProcessId],
    sending: &Sent,
    event: &EventRef,
) -> Result<(), String> {
    let core = || core.iter().map(|&id| world.process(id));
    let Some(sender) = core().find(|process| process.store.continues(sending.sender)) else {
        return Ok(());
    };
    let name = &sender.name;
    let Some(state) = sender.node.delivery(event) else {
        return Err(format!("{name} knows nothing of its {event:?}"));
    };
    match core().find(|process| state.owed.contains(&process.name)) {
        Some(owed) => Err(format!(
            "{name} does not know that {} has {event:?}",
            owed.name
        )),
        None => Ok(()),
    }
}
