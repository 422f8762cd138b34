//! Who has an event: said by those that have it, gathered on the way back, and asked for where
//! nothing is heard.
//!
//! An acknowledgement is a number: all events of that life of the origin up to it are durable at
//! the member that says so, in its present life. Sets of such members flow back along the first two
//! links by which the event came, the farthest first, so that the origin hears few messages of many
//! members. Nothing rests on them: whoever is in none is asked directly, again and again, until it
//! has acknowledged, is dead or has left. A dead one is asked when it returns.

use std::collections::BTreeMap;

use super::agreement::Agreement;
use super::event_book::Life as OriginLife;
use super::stats::EventCount;
use super::{Life, Node, Outbox, Rejection};
use crate::member::{Delivery, EventRef, Generation, NameHash};
use crate::time::Instant;
use crate::wire::{
    self, AckHolders, AckSet, EventAcks, EventHead, Fingerprint, GenerationLow, List, Message,
};

/// Members to whom who has an event is said: with one, a lost message loses all behind it.
const PARENTS_MAX: usize = 2;
/// Collections that this node takes part in at a time.
const COLLECTIONS_MAX: usize = 64;
/// For how many delays of a link it does.
const COLLECTION_LINKS: u32 = 500;
/// Who is known to have all events of one life of a member up to one of them.
#[derive(Debug)]
pub(super) struct Collection {
    upto: u64,
    /// One bit for each member that the own table calls alive.
    bits: Agreement,
    /// Who told this node, and how many bits each was told.
    parents: Vec<(NameHash, usize)>,
    due: Option<Instant>,
    over: Instant,
}

impl Node {
    /// Links between the two members that are farthest apart, and two more.
    pub(super) fn event_depth(&self) -> u32 {
        let (mut reached, mut links) = (1, 0);
        while reached < self.table.size() {
            reached *= 5;
            links += 1;
        }
        links + 2
    }

    /// Events are durable here.
    pub(super) fn on_stored(&mut self, events: &[EventRef], out: &mut Outbox) {
        for event in events {
            self.events.book.stored(event);
        }
        let mut lives: Vec<OriginLife> =
            events.iter().map(|it| (it.origin, it.generation)).collect();
        lives.sort_unstable();
        lives.dedup();
        for life in lives {
            self.note_own_bit(life);
        }
        self.answer_questions(out);
    }

    /// Sets the own bit where all that is collected is durable here.
    fn note_own_bit(&mut self, life: OriginLife) {
        let own = self.table.ring_after(self.local.hash);
        let stored = self.events.book.stored_upto(life).unwrap_or_default();
        let late = self.now + self.config.event_link / 2;
        if let Some(collection) = self.events.collections.get_mut(&life)
            && stored >= collection.upto
            && !collection.bits.holds(own)
        {
            collection.bits.note(own);
            collection.due.get_or_insert(late);
        }
    }

    /// An event was told by `sender`, `hop` links away from its origin, which collects who has it.
    /// Whether that is news.
    pub(super) fn join_collection(&mut self, event: &EventRef, sender: NameHash, hop: u8) -> bool {
        let life = (event.origin, event.generation);
        if event.delivery != Delivery::AtLeastOnce {
            return false;
        }
        let late = self.now + self.config.event_link / 2;
        if let Some(held) = self.events.collections.get_mut(&life)
            && held.upto >= event.sequence
        {
            let same = held.upto == event.sequence;
            let known = held.parents.iter().any(|parent| parent.0 == sender);
            if same && !known && held.parents.len() < PARENTS_MAX {
                held.parents.push((sender, 0));
                held.due.get_or_insert(late);
            }
            return false;
        }
        let links = self.event_depth().saturating_sub(hop.into());
        let mut bits = Agreement::default();
        let (table, size) = (self.table.fingerprint(), self.table.size());
        bits.begin(table, size, usize::MAX);
        let collection = Collection {
            upto: event.sequence,
            bits,
            parents: vec![(sender, 0)],
            due: Some(self.now + self.config.event_link * links),
            over: self.now + self.config.event_link * COLLECTION_LINKS,
        };
        if self.events.collections.len() >= COLLECTIONS_MAX
            && !self.events.collections.contains_key(&life)
        {
            let oldest = self.events.collections.iter().min_by_key(|(_, it)| it.over);
            if let Some(oldest) = oldest.map(|(&life, _)| life) {
                self.events.collections.remove(&oldest);
            }
        }
        self.events.collections.insert(life, collection);
        self.note_own_bit(life);
        true
    }

    pub(super) fn next_collection_due(&self) -> Option<Instant> {
        let collecting = self.events.owing.collecting.map(|it| it.until);
        let collections = self.events.collections.values();
        let due = collections.map(|it| it.due.unwrap_or(it.over));
        due.chain(collecting).min()
    }

    /// Says who has what to those that are due to hear it, and ends what is over.
    pub(super) fn send_sets(&mut self, out: &mut Outbox) {
        if self
            .events
            .owing
            .collecting
            .is_some_and(|it| it.until <= self.now)
        {
            self.end_collection();
        }
        let (now, table) = (self.now, self.table.fingerprint());
        self.events.collections.retain(|_, it| it.over > now);
        let due = |it: &Collection| it.due.is_some_and(|due| due <= now);
        let due = self.events.collections.iter().filter(|(_, it)| due(it));
        let due: Vec<OriginLife> = due.map(|(&life, _)| life).collect();
        let mut sets: BTreeMap<NameHash, Vec<AckSet>> = BTreeMap::new();
        for life in due {
            self.follow_table_of(life, table);
            let set = self.ack_set(life);
            let Some(collection) = self.events.collections.get_mut(&life) else {
                continue;
            };
            collection.due = None;
            let held = collection.bits.held();
            for (parent, told) in &mut collection.parents {
                if let Some(set) = &set
                    && std::mem::replace(told, held) < held
                {
                    sets.entry(*parent).or_default().push(set.clone());
                }
            }
        }
        if matches!(self.life, Life::Ready) {
            for (parent, sets) in sets {
                self.send_acks(parent, Vec::new(), sets, out);
            }
        }
    }

    /// The bits are about members of another table by now: nothing is known but of this node.
    fn follow_table_of(&mut self, life: OriginLife, table: u64) {
        let size = self.table.size();
        if let Some(collection) = self.events.collections.get_mut(&life)
            && !collection.bits.is_about(table)
        {
            collection.bits.begin(table, size, usize::MAX);
            collection.parents.iter_mut().for_each(|it| it.1 = 0);
            self.note_own_bit(life);
        }
    }

    /// Who is known to have the events of a collection; `None` where that is nobody.
    fn ack_set(&self, (origin, generation): OriginLife) -> Option<AckSet> {
        let collection = self.events.collections.get(&(origin, generation))?;
        let bits = &collection.bits;
        if bits.held() == 0 {
            return None;
        }
        let settled = self.now.since(self.table.changed_at()) >= self.config.quiet;
        let few = bits.held() <= List::<(NameHash, GenerationLow), 96>::MAX;
        let who = if settled || !few {
            AckHolders::Places {
                table: Fingerprint(self.table.fingerprint()),
                holders: bits.told(self.now, self.events_room() / 2),
            }
        } else {
            let members = bits.places().filter_map(|place| self.member_at(place));
            let names = members.map(|(member, life)| (member, GenerationLow::of(life)));
            AckHolders::Names(names.collect::<Vec<_>>().into())
        };
        let head = EventHead {
            origin,
            generation,
            delivery: Delivery::AtLeastOnce,
            upto: collection.upto,
        };
        Some(AckSet { head, who })
    }

    /// The member at a place in the list of alive members, and its present life.
    fn member_at(&self, place: usize) -> Option<(NameHash, Generation)> {
        let own = self.table.ring_after(self.local.hash);
        let active = self.table.active();
        let member = match place.checked_sub(own) {
            None => *active.get(place)?,
            Some(0) => self.local.hash,
            Some(_) => *active.get(place - 1)?,
        };
        let target = self.target(member)?;
        Some((member, target.generation))
    }

    /// Sends acknowledgements in as few datagrams as they fit.
    pub(super) fn send_acks(
        &mut self,
        to: NameHash,
        own: Vec<EventHead>,
        sets: Vec<AckSet>,
        out: &mut Outbox,
    ) {
        let Some(address) = self.address_of(to) else {
            return;
        };
        let (mut part, mut room) = (Vec::new(), self.events_room());
        let mut own = own;
        let sender = self.sender();
        let mut send = |node: &mut Node, own: Vec<EventHead>, sets: Vec<AckSet>| {
            let acks = EventAcks {
                sender,
                own: own.into(),
                sets: sets.into(),
            };
            node.send_events(address, &Message::EventAcks(acks), out);
        };
        room = room.saturating_sub(own.iter().map(wire::event_head_bytes).sum());
        for set in sets {
            let bytes = wire::ack_set_bytes(&set);
            if bytes > room || part.len() >= List::<AckSet, 16>::MAX {
                send(self, std::mem::take(&mut own), std::mem::take(&mut part));
                room = self.events_room();
            }
            room = room.saturating_sub(bytes);
            part.push(set);
        }
        if !own.is_empty() || !part.is_empty() {
            send(self, own, part);
        }
    }

    /// Somebody says who has events of this node, or of others that told it.
    pub(super) fn on_event_acks(&mut self, acks: &EventAcks) {
        if !self.hears_events_of(&acks.sender) {
            return;
        }
        self.stats.events.add(EventCount::Acks, 1);
        let by = (acks.sender.member, acks.sender.generation);
        for head in acks.own.iter() {
            if head.origin == self.local.hash && head.delivery == Delivery::AtLeastOnce {
                self.note_acknowledged((head.generation, head.upto), by);
            } else {
                self.reject(Rejection::Event);
            }
        }
        for set in acks.sets.iter() {
            self.hear_set(set);
        }
        self.end_if_collected();
    }

    fn note_acknowledged(&mut self, own: (Generation, u64), by: (NameHash, Generation)) {
        let before = self.events.owing.acked(own.0, by);
        match self.events.owing.acknowledged(own, by) {
            None => self.reject(Rejection::Event),
            Some(false) => {}
            Some(true) => {
                let collecting = self.events.owing.collecting;
                let counts = collecting.is_some_and(|it| {
                    it.generation == own.0 && before < it.upto && own.1 >= it.upto
                });
                self.events.collected += usize::from(counts);
            }
        }
    }

    fn hear_set(&mut self, set: &AckSet) {
        let life = (set.head.origin, set.head.generation);
        let own = life.0 == self.local.hash;
        let Ok(told) = self.read_set(&set.who) else {
            return self.reject(Rejection::Event);
        };
        // Of another table nothing can be read.
        let Some(told) = told else { return };
        if own {
            let members: Vec<_> = told.places().filter_map(|it| self.member_at(it)).collect();
            for by in members {
                self.note_acknowledged((life.1, set.head.upto), by);
            }
            return;
        }
        self.follow_table_of(life, self.table.fingerprint());
        let late = self.now + self.config.event_link / 2;
        if let Some(collection) = self.events.collections.get_mut(&life)
            && set.head.upto >= collection.upto
        {
            let before = collection.bits.held();
            told.places().for_each(|place| collection.bits.note(place));
            if collection.bits.held() > before {
                collection.due.get_or_insert(late);
            }
        }
    }

    /// The members of a set as bits of the own table; `None` where they are places in another one.
    fn read_set(
        &self,
        who: &AckHolders,
    ) -> Result<Option<Agreement>, super::agreement::Implausible> {
        let mut bits = Agreement::default();
        let own = self.table.fingerprint();
        bits.begin(own, self.table.size(), usize::MAX);
        match who {
            AckHolders::Places { table, .. } if table.0 != own => return Ok(None),
            AckHolders::Places { holders, .. } => bits.merge(holders)?,
            AckHolders::Names(names) => {
                for &(member, life) in names.iter() {
                    let target = self.target(member);
                    let same = target.is_some_and(|it| GenerationLow::of(it.generation) == life);
                    if let Some(place) = self.place_of(member).filter(|_| same) {
                        bits.note(place);
                    }
                }
            }
        }
        Ok(Some(bits))
    }
}
