//! Up to where this node has the events of others, what came too early, and in which order they
//! come out.
//!
//! Dedup is a number per life of a member and kind of delivery: all up to it have come out, or need
//! not come. What lies beyond it is held until what is missing has come (at least once) or a moment
//! has passed (at most once).

mod fleeting;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use fleeting::Fleeting;

use crate::member::{Delivery, EventRef, Generation, NameHash, UserEvent, keyed_hash};
use crate::time::Instant;
use crate::wire::EventHead;

/// Lives of one member whose events are told apart.
const LIVES_PER_ORIGIN_MAX: usize = 4;
/// Lives of all members together, for each kind of delivery.
pub const LIVES_MAX: usize = 8192;
/// How far ahead of the next number an event may lie to be held.
const WINDOW: u64 = 4096;
/// Events held too early at a time, of all members.
const EARLY_MAX: usize = 8192;
/// Their payloads together, in bytes.
const EARLY_BYTES_MAX: usize = 16 << 20;
const SUM_DOMAIN: u64 = 6;

/// One life of a member.
pub type Life = (NameHash, Generation);

/// What became of an event.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Taken {
    /// These come out, in order: the event, and what had waited for it; none where it waits itself.
    New(Vec<Arc<UserEvent>>),
    /// It has come before.
    Duplicate,
    /// It came after a later one had come out, and its order counts for more than it does.
    Late,
    /// It is too far ahead, or too much is held already.
    Beyond,
    /// Of a life too old to be told apart.
    Old,
}

/// Events that will not come any more.
#[derive(Debug)]
pub struct Skipped {
    /// The number of the first.
    pub first: u64,
    /// The number of the last.
    pub last: u64,
    /// What had waited for them.
    pub out: Vec<Arc<UserEvent>>,
}

/// The events of one life that are sent at least once.
#[derive(Debug, Default)]
struct Durable {
    /// All up to here have come out.
    upto: u64,
    /// All up to here are durable here, or need not come.
    stored: u64,
    early: BTreeMap<u64, Arc<UserEvent>>,
    /// Numbers up to the second one need not be stored once those below the first are.
    skipped: Option<(u64, u64)>,
}

/// All of it.
#[derive(Debug)]
pub struct EventBook {
    durable: BTreeMap<Life, Durable>,
    fleeting: BTreeMap<Life, Fleeting>,
    /// Those that hold something, and until when.
    waiting: BTreeMap<Life, Instant>,
    /// How long an event sent at most once waits for those before it.
    hold: Duration,
    early: usize,
    early_bytes: usize,
    /// Counts changes of what the sum is made of.
    revision: u64,
    changed_at: Instant,
}

/// Makes room for `life`; false if it is too old.
fn admit<T: Default>(lives: &mut BTreeMap<Life, T>, life: Life) -> bool {
    let (origin, generation) = life;
    if lives.contains_key(&life) {
        return true;
    }
    let of_origin = (origin, Generation(0))..=(origin, Generation(u64::MAX));
    let known: Vec<Life> = lives.range(of_origin).map(|(&life, _)| life).collect();
    if known.len() >= LIVES_PER_ORIGIN_MAX {
        if generation < known[0].1 {
            return false;
        }
        lives.remove(&known[0]);
    }
    if lives.len() >= LIVES_MAX {
        let oldest = lives.keys().copied().min_by_key(|life| (life.1, life.0));
        match oldest {
            Some(oldest) if (oldest.1, oldest.0) < (generation, origin) => lives.remove(&oldest),
            _ => return false,
        };
    }
    lives.insert(life, T::default());
    true
}

impl EventBook {
    /// Nothing has come. An event sent at most once waits for `hold` for those before it.
    #[must_use]
    pub fn new(hold: Duration) -> Self {
        EventBook {
            durable: BTreeMap::new(),
            fleeting: BTreeMap::new(),
            waiting: BTreeMap::new(),
            hold,
            early: 0,
            early_bytes: 0,
            revision: 0,
            changed_at: Instant::ORIGIN,
        }
    }

    /// An event has come.
    pub fn take(&mut self, event: &Arc<UserEvent>, now: Instant) -> Taken {
        let life = (event.origin.hash(), event.generation);
        match event.delivery {
            Delivery::AtLeastOnce => self.take_durable(life, event, now),
            Delivery::AtMostOnce if !admit(&mut self.fleeting, life) => Taken::Old,
            Delivery::AtMostOnce => {
                let hold = self.hold;
                let fleeting = self.fleeting.entry(life).or_default();
                let taken = fleeting.take(event, now, hold);
                match fleeting.due {
                    Some(due) => self.waiting.insert(life, due),
                    None => self.waiting.remove(&life),
                };
                taken
            }
        }
    }

    fn take_durable(&mut self, life: Life, event: &Arc<UserEvent>, now: Instant) -> Taken {
        let (early, bytes) = (self.early, self.early_bytes);
        let Some(held) = self.durable_mut(life) else {
            return Taken::Old;
        };
        let number = event.sequence;
        if number <= held.upto || held.early.contains_key(&number) {
            return Taken::Duplicate;
        }
        if number > held.upto + 1 {
            let full = early >= EARLY_MAX || bytes + event.payload.len() > EARLY_BYTES_MAX;
            if full || number - held.upto > WINDOW {
                return Taken::Beyond;
            }
            held.early.insert(number, Arc::clone(event));
            self.early += 1;
            self.early_bytes += event.payload.len();
            return Taken::New(Vec::new());
        }
        held.upto = number;
        let mut out = vec![Arc::clone(event)];
        out.extend(self.release(life));
        self.note_change(now);
        Taken::New(out)
    }

    fn durable_mut(&mut self, life: Life) -> Option<&mut Durable> {
        if !self.durable.contains_key(&life) {
            admit(&mut self.durable, life).then_some(())?;
            // What an older life held may be gone with it.
            self.recount();
            self.revision += 1;
        }
        self.durable.get_mut(&life)
    }

    fn recount(&mut self) {
        let lives = self.durable.values();
        let held = lives.flat_map(|held| held.early.values());
        (self.early, self.early_bytes) = held.fold((0, 0), |(count, bytes), event| {
            (count + 1, bytes + event.payload.len())
        });
    }

    /// What was held too early and is in order now.
    fn release(&mut self, life: Life) -> Vec<Arc<UserEvent>> {
        let Some(held) = self.durable.get_mut(&life) else {
            return Vec::new();
        };
        let mut out = Vec::new();
        // A number that was passed over meanwhile counts no more.
        while let Some(first) = held.early.first_entry() {
            if *first.key() > held.upto + 1 {
                break;
            }
            let (number, event) = first.remove_entry();
            self.early -= 1;
            self.early_bytes -= event.payload.len();
            if number == held.upto + 1 {
                held.upto = number;
                out.push(event);
            }
        }
        out
    }

    fn note_change(&mut self, now: Instant) {
        self.revision += 1;
        self.changed_at = now;
    }

    /// An event is durable here, and so are all of its origin before it.
    pub fn stored(&mut self, event: &EventRef) {
        let life = (event.origin, event.generation);
        if event.delivery == Delivery::AtLeastOnce
            && let Some(held) = self.durable.get_mut(&life)
        {
            held.stored = held.stored.max(event.sequence.min(held.upto));
            held.settle();
        }
    }

    /// All up to `head` has come, or need not: where this node begins. Whether it was behind.
    pub fn begin_at(&mut self, head: &EventHead, now: Instant) -> bool {
        let life = (head.origin, head.generation);
        match head.delivery {
            Delivery::AtMostOnce => {
                if !admit(&mut self.fleeting, life) {
                    return false;
                }
                let fleeting = self.fleeting.entry(life).or_default();
                let behind = fleeting.next <= head.upto;
                if behind {
                    *fleeting = Fleeting::after(head.upto);
                }
                behind
            }
            Delivery::AtLeastOnce => {
                let Some(held) = self.durable_mut(life).filter(|it| it.upto < head.upto) else {
                    return false;
                };
                held.upto = head.upto;
                held.stored = held.stored.max(head.upto);
                self.note_change(now);
                true
            }
        }
    }

    /// All up to `upto` that has not come will not come any more. Which numbers that are, and what
    /// comes out because nothing is missing before it.
    pub fn skip(&mut self, life: Life, upto: u64, now: Instant) -> Option<Skipped> {
        let held = self.durable.get_mut(&life)?;
        let first = held.upto + 1;
        // What is held of it has come; without an end in sight nothing is passed over.
        let upto = match held.early.keys().next() {
            Some(&next) => upto.min(next - 1),
            None if upto == u64::MAX => return None,
            None => upto,
        };
        if upto < first {
            return None;
        }
        let from = held.skipped.map_or(first, |(from, _)| from);
        held.skipped = Some((from, upto));
        held.upto = upto;
        held.settle();
        let out = self.release(life);
        self.note_change(now);
        Some(Skipped {
            first,
            last: upto,
            out,
        })
    }

    /// All up to where the events of `life` that are sent at least once have come out.
    #[must_use]
    pub fn upto(&self, life: Life) -> u64 {
        self.durable.get(&life).map_or(0, |held| held.upto)
    }

    /// All up to where they are durable here; `None` for a life that is not known.
    #[must_use]
    pub fn stored_upto(&self, life: Life) -> Option<u64> {
        self.durable.get(&life).map(|held| held.stored)
    }

    /// Whether a life is older than those that are told apart.
    #[must_use]
    pub fn is_too_old(&self, life: Life) -> bool {
        let (origin, generation) = life;
        let of_origin = (origin, Generation(0))..=(origin, Generation(u64::MAX));
        let mut known = self.durable.range(of_origin).map(|(life, _)| life.1);
        let oldest = known.next();
        known.count() + 1 >= LIVES_PER_ORIGIN_MAX && oldest.is_some_and(|it| generation < it)
    }

    /// Whether event `number` has come, be it too early.
    #[must_use]
    pub fn has(&self, event: &EventRef) -> bool {
        let (life, number) = ((event.origin, event.generation), event.sequence);
        match event.delivery {
            Delivery::AtLeastOnce => self
                .durable
                .get(&life)
                .is_some_and(|held| number <= held.upto || held.early.contains_key(&number)),
            Delivery::AtMostOnce => self
                .fleeting
                .get(&life)
                .is_some_and(|held| number < held.next || held.held.contains_key(&number)),
        }
    }

    /// Lives of which something came too early, and the last number of that.
    pub fn gaps(&self) -> impl Iterator<Item = (Life, u64)> + '_ {
        let last = |held: &Durable| held.early.keys().next_back().copied();
        let lives = self.durable.iter();
        lives.filter_map(move |(&life, held)| Some((life, last(held)?)))
    }

    /// Whether anything of `life` came too early.
    #[must_use]
    pub fn has_gap(&self, life: Life) -> bool {
        self.durable
            .get(&life)
            .is_some_and(|held| !held.early.is_empty())
    }

    /// What was held for a moment that has passed, in order.
    pub fn release_due(&mut self, now: Instant) -> Vec<Arc<UserEvent>> {
        let due = self.waiting.iter().filter(|&(_, &due)| due <= now);
        let due: Vec<Life> = due.map(|(&life, _)| life).collect();
        let mut out = Vec::new();
        for life in due {
            self.waiting.remove(&life);
            let held = self.fleeting.get_mut(&life);
            out.extend(held.map(Fleeting::release_all).unwrap_or_default());
        }
        out
    }

    /// When something held is next to come out.
    #[must_use]
    pub fn next_release(&self) -> Option<Instant> {
        self.waiting.values().copied().min()
    }

    /// Events that are held.
    #[must_use]
    pub fn held(&self) -> usize {
        let waiting = self
            .waiting
            .keys()
            .filter_map(|life| self.fleeting.get(life));
        self.early + waiting.map(|held| held.held.len()).sum::<usize>()
    }

    /// Up to where everything has come out, in order.
    pub fn heads(&self) -> impl Iterator<Item = EventHead> + '_ {
        self.durable
            .iter()
            .filter(|(_, held)| held.upto > 0)
            .map(|(&life, held)| head(life, Delivery::AtLeastOnce, held.upto))
    }

    /// The same for events that are sent at most once.
    pub fn fleeting_heads(&self) -> impl Iterator<Item = EventHead> + '_ {
        self.fleeting
            .iter()
            .filter(|(_, held)| held.next > 1)
            .map(|(&life, held)| head(life, Delivery::AtMostOnce, held.next - 1))
    }

    /// Up to where everything is durable, in order: what a later run needs.
    pub fn stored_heads(&self) -> impl Iterator<Item = EventHead> + '_ {
        let stored = self.durable.iter().filter(|(_, held)| held.stored > 0);
        stored.map(|(&life, held)| head(life, Delivery::AtLeastOnce, held.stored))
    }

    /// A number for the heads of all origins that are `listed`: equal for equal heads.
    #[must_use]
    pub fn sum(&self, listed: impl Fn(NameHash) -> bool) -> u64 {
        let heads = self.heads().filter(|head| listed(head.origin));
        heads.fold(0, |sum, head| sum.wrapping_add(head_hash(&head)))
    }

    /// Counts the changes of the heads.
    #[must_use]
    pub fn revision(&self) -> u64 {
        self.revision
    }

    /// When a head last changed.
    #[must_use]
    pub fn changed_at(&self) -> Instant {
        self.changed_at
    }

    /// `origin` is forgotten.
    pub fn drop_origin(&mut self, origin: NameHash) {
        let before = self.durable.len();
        self.durable.retain(|life, _| life.0 != origin);
        self.fleeting.retain(|life, _| life.0 != origin);
        if self.durable.len() != before {
            self.recount();
            self.revision += 1;
        }
    }
}

fn head((origin, generation): Life, delivery: Delivery, upto: u64) -> EventHead {
    EventHead {
        origin,
        generation,
        delivery,
        upto,
    }
}

fn head_hash(head: &EventHead) -> u64 {
    let mut bytes = [0; 24];
    bytes[..8].copy_from_slice(&head.origin.to_wire());
    bytes[8..16].copy_from_slice(&head.generation.0.to_be_bytes());
    bytes[16..].copy_from_slice(&head.upto.to_be_bytes());
    keyed_hash(SUM_DOMAIN, &bytes)
}

impl Durable {
    fn settle(&mut self) {
        if let Some((from, to)) = self.skipped
            && self.stored + 1 >= from
        {
            self.stored = self.stored.max(to);
            self.skipped = None;
        }
    }
}

#[cfg(test)]
mod tests;
