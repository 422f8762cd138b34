//! One transaction's work: requests under keys, events of clients, and events of others.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use rusqlite::Transaction;
use tokio::sync::oneshot;

use super::event_rows::{self, KeyRow};
use super::journal::Journal;
use super::key_rows;
use super::keys::{Answer, KEY_BYTES_MAX, KEYS_MAX, Keyed, Outcome, Post, Reply, Token, Verdict};
use super::rows::millis;
use crate::daemon::digest::{content, content_of};
use crate::daemon::outbox::Target;
use crate::member::{Delivery, EventKey, EventRef, Generation, NameHash, NodeName, Uid, UserEvent};
use crate::node::{
    AcceptError, Accepted, Arrival, Draft, KeyConflict, LogEntry, Logged, Marks, Place,
};

/// Something to be done in a transaction.
pub(super) enum Task {
    Accept {
        draft: Draft,
        place: Place,
    },
    Post(Post),
    Begin {
        keyed: Keyed,
        lease: Duration,
    },
    Complete {
        keyed: Keyed,
        token: Token,
        answer: Answer,
    },
    Abandon {
        keyed: Keyed,
        token: Token,
    },
    Job(Job),
}

/// Something that concerns only rows, and those who are told of events.
pub(super) type Job = Box<dyn FnOnce(&Transaction<'_>, &[Target]) -> rusqlite::Result<Told> + Send>;
/// Tells who waits for a job, once that is durable.
pub(super) type Told = Box<dyn FnOnce() + Send>;

/// Who waits for it.
pub(super) enum Waiting {
    Accept(oneshot::Sender<Result<Accepted, AcceptError>>),
    Outcome(Reply),
    /// A request that may wait for another one under its key.
    Begin(Keyed, Duration, Reply),
    Done(oneshot::Sender<bool>),
    Nobody,
}

/// What it is told once the transaction is durable.
pub(super) enum Said {
    Accept(Result<Accepted, AcceptError>),
    Outcome(Outcome),
    /// The key is free, or has its answer: who waits for it may look again.
    Settled(Keyed, bool),
    Told(Told),
}

/// How many keys there are, and what they take.
#[derive(Clone, Copy, Default)]
pub(super) struct KeyCount {
    pub(super) keys: u64,
    pub(super) bytes: u64,
}

/// What a transaction works on.
pub(super) struct Batch<'a> {
    transaction: &'a Transaction<'a>,
    journal: Journal<'a>,
    local: &'a NodeName,
    generation: Generation,
    marks: &'a Marks,
    now: SystemTime,
    /// The id of the first entry.
    first: u64,
    work: Work,
}

/// What a transaction has done: to be taken over when it is durable.
#[derive(Default)]
pub(super) struct Work {
    pub(super) entries: Vec<(SystemTime, Logged)>,
    pub(super) own: Vec<(Arc<UserEvent>, Place)>,
    pub(super) received: Vec<EventRef>,
    /// Events that are kept, but not in the log.
    pub(super) copies: Vec<Arc<UserEvent>>,
    pub(super) taken: Vec<Keyed>,
    pub(super) count: KeyCount,
    pub(super) last_token: u64,
    upto: BTreeMap<(NameHash, Generation, Delivery), u64>,
    expired: bool,
}

/// What is the same for a transaction's whole work.
pub(super) struct Scene<'a> {
    pub(super) journal: Journal<'a>,
    pub(super) local: &'a NodeName,
    pub(super) generation: Generation,
    pub(super) marks: &'a Marks,
    pub(super) now: SystemTime,
    pub(super) first: u64,
    pub(super) last_token: u64,
    pub(super) count: KeyCount,
}

impl<'a> Batch<'a> {
    pub(super) fn new(scene: Scene<'a>) -> Self {
        Batch {
            transaction: scene.journal.transaction,
            journal: scene.journal,
            local: scene.local,
            generation: scene.generation,
            marks: scene.marks,
            now: scene.now,
            first: scene.first,
            work: Work {
                count: scene.count,
                last_token: scene.last_token,
                ..Work::default()
            },
        }
    }

    /// Does one task. A request that cannot be fulfilled is told so, and disturbs no other: an
    /// error is one of the database.
    pub(super) fn run(&mut self, task: Task) -> rusqlite::Result<Said> {
        match task {
            Task::Accept { draft, place } => self.accept(draft, place).map(Said::Accept),
            Task::Post(post) => self.post(post).map(Said::Outcome),
            Task::Begin { keyed, lease } => self.begin(&keyed, lease).map(Said::Outcome),
            Task::Complete {
                keyed,
                token,
                answer,
            } => {
                let done = key_rows::complete(self.transaction, &keyed, token, &answer, None)?;
                if done {
                    self.work.count.bytes += answer_bytes(&keyed, &answer);
                }
                Ok(Said::Settled(keyed, done))
            }
            Task::Job(job) => job(self.transaction, self.journal.targets).map(Said::Told),
            Task::Abandon { keyed, token } => {
                let done = key_rows::abandon(self.transaction, &keyed, token)?;
                if done {
                    self.work.count.keys -= 1;
                    self.work.count.bytes -= key_rows::bytes(&keyed, None) as u64;
                }
                Ok(Said::Settled(keyed, done))
            }
        }
    }

    /// Takes what came of another member.
    pub(super) fn take(&mut self, arrival: Arrival) -> rusqlite::Result<()> {
        match arrival {
            Arrival::Missed(upto) => {
                self.advance(upto);
                Ok(())
            }
            Arrival::Event(event) => {
                let reference = event.event_ref();
                self.work.received.push(reference);
                if self.knows(&reference) {
                    return Ok(());
                }
                self.advance(reference);
                self.take_new(event)
            }
        }
    }

    /// Notes how far every origin is known; the last thing before the commit.
    pub(super) fn finish(self) -> rusqlite::Result<Work> {
        for upto in self.work.marks() {
            event_rows::write_mark(self.transaction, &upto)?;
        }
        Ok(self.work)
    }

    fn take_new(&mut self, event: Arc<UserEvent>) -> rusqlite::Result<()> {
        let held = match event.key {
            Some(key) => event_rows::read_key(self.transaction, key)?,
            None => None,
        };
        let Some(held) = held else {
            self.append(Logged::User(event))?;
            return Ok(());
        };
        event_rows::write_user_event(self.transaction, &event, self.now, None)?;
        self.work.copies.push(Arc::clone(&event));
        if overrules(&event, &held) {
            if let Some(key) = event.key {
                let freed = key_rows::release(self.transaction, key)?;
                self.work.count.keys -= freed.keys;
                self.work.count.bytes -= freed.bytes;
            }
            self.append(Logged::Conflict(KeyConflict {
                event,
                overruled: held.log_id,
                origin: held.origin,
                generation: held.generation,
                sequence: held.sequence,
            }))?;
        }
        Ok(())
    }

    fn accept(
        &mut self,
        draft: Draft,
        place: Place,
    ) -> rusqlite::Result<Result<Accepted, AcceptError>> {
        if let Some((key, held)) = self.held_under_key(&draft)? {
            if !says(&draft, &held) {
                return Ok(Err(AcceptError::KeyReused));
            }
            return Ok(Ok(Accepted {
                id: held.log_id,
                uid: Uid::Keyed(key),
                origin: held.origin,
                generation: held.generation,
                sequence: held.sequence,
            }));
        }
        let last = EventRef {
            origin: self.local.hash(),
            generation: self.generation,
            delivery: draft.delivery,
            sequence: 0,
        };
        let sequence = self.upto(&last) + 1;
        self.advance(EventRef { sequence, ..last });
        let unix_ms = millis(self.now).unsigned_abs();
        let event = draft.into_event(self.local.clone(), self.generation, sequence, unix_ms);
        let event = Arc::new(event);
        let id = self.append(Logged::User(Arc::clone(&event)))?;
        let accepted = Accepted::new(id, &event);
        self.work.own.push((event, place));
        Ok(Ok(accepted))
    }

    /// The event that counts under the key of `draft`.
    fn held_under_key(&self, draft: &Draft) -> rusqlite::Result<Option<(EventKey, KeyRow)>> {
        let Some(key) = draft.key else {
            return Ok(None);
        };
        let held = event_rows::read_key(self.transaction, key)?;
        Ok(held.map(|held| (key, held)))
    }

    fn is_key_reused(&self, draft: &Draft) -> rusqlite::Result<bool> {
        let held = self.held_under_key(draft)?;
        Ok(held.is_some_and(|(_, held)| !says(draft, &held)))
    }

    /// Key, event and answer are durable together, or not at all.
    fn post(&mut self, post: Post) -> rusqlite::Result<Outcome> {
        let Post {
            keyed,
            draft,
            place,
            render,
        } = post;
        if let Some(keyed) = &keyed
            && let Some(outcome) = self.known(keyed)?
        {
            return Ok(outcome);
        }
        let offer = match (draft, place) {
            // Not remembered: it is another request that the key stands for, and that may come yet.
            (Ok(draft), Ok(_)) if self.is_key_reused(&draft)? => {
                return Ok(Outcome::Done(render(&Verdict::KeyReused)));
            }
            (Ok(draft), Ok(place)) => Ok((draft, place)),
            // Nor this: it may succeed later.
            (Ok(_), Err(refusal)) => return Ok(Outcome::Done(refusal)),
            (Err(wrong), _) => Err(wrong),
        };
        let token = match &keyed {
            Some(keyed) => match self.grasp(keyed, key_rows::LEASE)? {
                Ok(token) => Some((keyed, token)),
                Err(outcome) => return Ok(outcome),
            },
            None => None,
        };
        let mut event = None;
        let answer = match offer {
            Ok((draft, place)) => {
                event = draft.key;
                match self.accept(draft, place)? {
                    Ok(accepted) => render(&Verdict::Accepted(accepted)),
                    Err(_) => render(&Verdict::KeyReused),
                }
            }
            Err(wrong) => wrong,
        };
        if let Some((keyed, token)) = token {
            key_rows::complete(self.transaction, keyed, token, &answer, event)?;
            self.work.count.bytes += answer_bytes(keyed, &answer);
        }
        Ok(Outcome::Done(answer))
    }

    fn begin(&mut self, keyed: &Keyed, lease: Duration) -> rusqlite::Result<Outcome> {
        if let Some(outcome) = self.known(keyed)? {
            return Ok(outcome);
        }
        Ok(match self.grasp(keyed, lease)? {
            Ok(token) => Outcome::Begun(token),
            Err(outcome) => outcome,
        })
    }

    /// What is to be said under a key that is not free. Whose request it is comes first: another
    /// one is refused, whatever became of the first.
    fn known(&self, keyed: &Keyed) -> rusqlite::Result<Option<Outcome>> {
        let Some(known) = key_rows::find(self.transaction, keyed, self.now)? else {
            return Ok(None);
        };
        if known.fingerprint != keyed.fingerprint {
            return Ok(Some(Outcome::OtherRequest));
        }
        Ok(match known.answer {
            Some(answer) => Some(Outcome::Replayed(answer)),
            None if known.lease_ms <= millis(self.now) => None,
            None => Some(Outcome::Running),
        })
    }

    /// Takes a key that is free.
    fn grasp(
        &mut self,
        keyed: &Keyed,
        lease: Duration,
    ) -> rusqlite::Result<Result<Token, Outcome>> {
        let held = key_rows::held_bytes(self.transaction, keyed)?;
        if held.is_none() && !self.has_room()? {
            return Ok(Err(Outcome::Full));
        }
        self.work.last_token += 1;
        let token = Token(self.work.last_token);
        if !key_rows::take(self.transaction, keyed, token, self.now, lease)? {
            return Ok(Err(Outcome::Running));
        }
        let count = &mut self.work.count;
        count.keys += u64::from(held.is_none());
        count.bytes -= held.unwrap_or(0);
        count.bytes += key_rows::bytes(keyed, None) as u64;
        self.work.taken.push(keyed.clone());
        Ok(Ok(token))
    }

    /// What has expired goes first; who works, and what was answered lately, stays.
    fn has_room(&mut self) -> rusqlite::Result<bool> {
        let fits = |count: &KeyCount| count.keys < KEYS_MAX && count.bytes < KEY_BYTES_MAX;
        if !fits(&self.work.count) && !std::mem::replace(&mut self.work.expired, true) {
            key_rows::expire(self.transaction, self.now)?;
            self.work.count = key_rows::measure(self.transaction)?;
        }
        Ok(fits(&self.work.count))
    }

    /// Gives an entry the next number of the log.
    fn append(&mut self, what: Logged) -> rusqlite::Result<u64> {
        let id = self.first + self.work.entries.len() as u64;
        let entry = LogEntry {
            id,
            time: self.now,
            what,
        };
        self.journal.log(&entry)?;
        self.work.entries.push((entry.time, entry.what));
        Ok(id)
    }

    fn knows(&self, event: &EventRef) -> bool {
        self.marks.know(event) || event.sequence <= self.upto(event)
    }

    fn upto(&self, event: &EventRef) -> u64 {
        let key = (event.origin, event.generation, event.delivery);
        let fresh = self.work.upto.get(&key);
        fresh.copied().unwrap_or_else(|| self.marks.upto(event))
    }

    fn advance(&mut self, event: EventRef) {
        let upto = self.upto(&event).max(event.sequence);
        let key = (event.origin, event.generation, event.delivery);
        self.work.upto.insert(key, upto);
    }
}

impl Work {
    /// How far every origin is known that has something new.
    pub(super) fn marks(&self) -> Vec<EventRef> {
        let mark = |(&(origin, generation, delivery), &sequence): (&_, &_)| EventRef {
            origin,
            generation,
            delivery,
            sequence,
        };
        self.upto.iter().map(mark).collect()
    }
}

/// Whether an event that a client sends says the same as the one that is held under its key.
fn says(draft: &Draft, held: &KeyRow) -> bool {
    held.content == content(draft.delivery, &draft.name, &draft.payload)
}

/// Whether `event` says something else than the event held under its key, and counts more: the one
/// that was taken earlier does.
fn overrules(event: &UserEvent, held: &KeyRow) -> bool {
    let says = content_of(event);
    let rank = (event.unix_ms, event.origin.hash(), says);
    says != held.content && rank < (held.unix_ms, held.origin.hash(), held.content)
}

fn answer_bytes(keyed: &Keyed, answer: &Answer) -> u64 {
    (key_rows::bytes(keyed, Some(answer)) - key_rows::bytes(keyed, None)) as u64
}
