//! A store that keeps nothing beyond the process.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use super::backlog::Place;
use super::event_log::{EVENTS_MAX, KeyConflict, Logged};
use super::marks::Marks;
use super::store::{AcceptError, Accepted, Arrival, Draft, Durable, Kept, Offer, Store};
use crate::member::{Delivery, EventKey, Generation, UserEvent};

/// Keeps nothing beyond the process: for nodes whose generation comes from the clock. Events have
/// the same order and the same identity as on disk.
#[derive(Debug, Default)]
pub struct MemoryStore(Mutex<Option<Memory>>);

#[derive(Debug)]
struct Memory {
    kept: Kept,
    generation: Generation,
    /// The last number given out in this generation.
    sequences: BTreeMap<Delivery, u64>,
    marks: Marks,
    /// Under each key: the event that counts, and its number in the log.
    keyed: BTreeMap<EventKey, (Arc<UserEvent>, u64)>,
    /// The keys by age; the log holds no more entries than there are.
    ages: VecDeque<EventKey>,
}

impl MemoryStore {
    fn memory(&self) -> MutexGuard<'_, Option<Memory>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Store for MemoryStore {
    fn follow(&self, kept: Kept) {
        *self.memory() = Some(Memory {
            generation: kept.generation,
            kept,
            sequences: BTreeMap::new(),
            marks: Marks::default(),
            keyed: BTreeMap::new(),
            ages: VecDeque::new(),
        });
    }

    fn accept(&self, offer: Offer) {
        let Offer {
            draft,
            place,
            reply,
        } = offer;
        let answer = match &mut *self.memory() {
            Some(memory) => memory.accept(draft, place),
            None => Err(AcceptError::Failed("no node runs on the store".into())),
        };
        // An error means that the caller has gone.
        let _ = reply.send(answer);
    }

    fn receive(&self, arrivals: Vec<Arrival>) {
        if let Some(memory) = &mut *self.memory() {
            let mut received = Vec::new();
            for arrival in arrivals {
                match arrival {
                    Arrival::Event(event) => {
                        received.push(event.event_ref());
                        memory.take(event);
                    }
                    Arrival::Missed(upto) => memory.marks.advance(&upto),
                }
            }
            memory.kept.tell(Durable::Received(received));
        }
    }

    fn persist_generation(&self, generation: Generation) -> io::Result<()> {
        if let Some(memory) = self
            .memory()
            .as_mut()
            .filter(|memory| memory.generation < generation)
        {
            memory.generation = generation;
            memory.sequences.clear();
        }
        Ok(())
    }
}

impl Memory {
    fn accept(&mut self, draft: Draft, place: Place) -> Result<Accepted, AcceptError> {
        let sequence = self.sequences.entry(draft.delivery).or_default();
        let (local, generation) = (self.kept.local.clone(), self.generation);
        let event = draft.into_event(local, generation, *sequence + 1, unix_ms());
        if let Some((held, id)) = event.key.and_then(|key| self.keyed.get(&key)) {
            return match held.says_the_same(&event) {
                true => Ok(Accepted::new(*id, held)),
                false => Err(AcceptError::KeyReused),
            };
        }
        *sequence += 1;
        let event = Arc::new(event);
        let id = self.log(Logged::User(Arc::clone(&event)));
        self.remember_key(&event, id);
        let accepted = Accepted::new(id, &event);
        self.kept.tell(Durable::Own(vec![(event, place)]));
        Ok(accepted)
    }

    /// Logs an event of another member, unless it is known.
    fn take(&mut self, event: Arc<UserEvent>) {
        if self.marks.know(&event.event_ref()) {
            return;
        }
        self.marks.advance(&event.event_ref());
        let held = event.key.and_then(|key| self.keyed.get(&key)).cloned();
        let id = match held {
            None => self.log(Logged::User(Arc::clone(&event))),
            Some((held, id)) if !event.says_the_same(&held) && event.prevails_over(&held) => self
                .log(Logged::Conflict(KeyConflict {
                    event: Arc::clone(&event),
                    overruled: id,
                    origin: held.origin.clone(),
                    generation: held.generation,
                    sequence: held.sequence,
                })),
            Some(_) => return,
        };
        self.remember_key(&event, id);
    }

    /// Nobody else reserves ids of this log, so there is always one at once.
    fn log(&self, what: Logged) -> u64 {
        let id = self.kept.events.append(SystemTime::now(), what);
        id.unwrap_or_else(|| self.kept.events.head())
    }

    fn remember_key(&mut self, event: &Arc<UserEvent>, id: u64) {
        let Some(key) = event.key else {
            return;
        };
        let known = self.keyed.insert(key, (Arc::clone(event), id));
        if known.is_some() {
            return;
        }
        self.ages.push_back(key);
        if self.ages.len() > EVENTS_MAX
            && let Some(oldest) = self.ages.pop_front()
        {
            self.keyed.remove(&oldest);
        }
    }
}

fn unix_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    u64::try_from(since.unwrap_or_default().as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests;
