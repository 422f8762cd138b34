//! Who has an event: said by those that have it, gathered on the way back, and asked for where
//! nothing is heard.
//!
//! An acknowledgement is a number: all events of that life of the origin up to it are durable at the
//! member that says so, in its present life. Sets of such members flow back along the first two
//! links by which the event came, the farthest first, so that the origin hears few messages of many
//! members. Nothing rests on them: whoever is in none is asked directly, again and again, until it
//! has acknowledged, is dead or has left. A dead one is asked when it returns.

use std::collections::BTreeMap;

use super::agreement::Agreement;
use super::event_book::Life as OriginLife;
use super::event_owing::{Collecting, Owed};
use super::event_pulls::Lack;
use super::event_telling::Telling;
use super::eventing::HOP_LAST;
use super::stats::EventCount;
use super::{DeliveryState, Life, Node, Outbox, Rejection};
use crate::member::{Delivery, EventRef, Generation, NameHash, NodeName, Status};
use crate::time::Instant;
use crate::wire::{
    self, AckHolders, AckSet, EventAcks, EventHead, EventSpan, Events, Fingerprint, GenerationLow,
    List, Message, ToldEvent, ToldWhat,
};

/// Members to whom who has an event is said: with one, a lost message loses all behind it.
const PARENTS_MAX: usize = 2;
/// Collections that this node takes part in at a time.
const COLLECTIONS_MAX: usize = 64;
/// For how many delays of a link it does.
const COLLECTION_LINKS: u32 = 500;
/// Members that are asked directly at a time, and how long after the last ones: 2,000 a second.
const ASKED_AT_ONCE: usize = 10;
const ASK_PAUSE: std::time::Duration = std::time::Duration::from_millis(5);
/// Questions of origins that wait for events to become durable here.
const QUESTIONS_MAX: usize = 1024;

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
    fn event_depth(&self) -> u32 {
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
    fn send_acks(
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

    /// From the own events of a batch that is about to be told, the last is collected, if none is.
    pub(super) fn collect_from(&mut self, batch: &mut [Telling], nobody: bool) {
        let newest = self.events.owing.newest();
        if self.events.owing.collecting.is_some() || !self.events.owing.is_ahead() {
            return;
        }
        let of_newest = |telling: &&mut Telling| {
            let event = telling.told.what.event_ref();
            let newest = newest.is_some_and(|it| it.0 == event.generation);
            telling.own && event.delivery == Delivery::AtLeastOnce && newest
        };
        let Some(last) = batch.iter_mut().rfind(of_newest) else {
            return;
        };
        let event = last.told.what.event_ref();
        last.told.collects = true;
        let links = self.config.event_link * self.event_depth();
        self.events.collected = 0;
        self.events.owing.collecting = Some(Collecting {
            generation: event.generation,
            upto: event.sequence,
            until: self.now + links + self.config.event_patience,
        });
        if nobody {
            self.end_collection();
        }
    }

    /// The collection is over, be it complete or not: who lacks something is asked; and what was
    /// sent since is collected next.
    fn end_collection(&mut self) {
        self.events.owing.end_collection();
        self.events.owing_revision += 1;
        if !self.events.owing.is_ahead() || self.events.telling.has_own_durable() {
            return;
        }
        if let Some((generation, sequence)) = self.events.owing.newest() {
            let event = EventRef {
                origin: self.local.hash,
                generation,
                delivery: Delivery::AtLeastOnce,
                sequence,
            };
            let told = ToldEvent {
                hop: 1,
                collects: false,
                what: ToldWhat::Announced(event),
            };
            let due = self.now + self.config.event_link;
            self.events.telling.push(Telling::new(told, None, 1, due));
        }
    }

    fn end_if_collected(&mut self) {
        let Some(collecting) = self.events.owing.collecting else {
            return;
        };
        if self.events.collected >= self.table.active().len()
            && self.acked_by_all(collecting.generation) >= collecting.upto
        {
            self.end_collection();
        }
    }

    fn acked_by_all(&self, generation: Generation) -> u64 {
        let members = self.table.active().iter();
        let lives = members.filter_map(|&member| self.target(member));
        let lives = lives.map(|it| (it.member, it.generation));
        self.events.owing.acked_by_all(generation, lives)
    }

    /// Events that all have may be dropped before others.
    pub(super) fn settle_events(&mut self) {
        if let Some((generation, _)) = self.events.owing.newest() {
            let upto = self.acked_by_all(generation);
            self.events.keep.settle((self.local.hash, generation), upto);
        }
    }

    /// Looks who is owed something, if that may have changed.
    pub(super) fn review_owed(&mut self) {
        let state = (self.table.revision(), self.events.owing_revision);
        if self.life != Life::Ready || self.events.reviewed == Some(state) {
            return;
        }
        self.events.reviewed = Some(state);
        if self.events.owing.newest().is_none() {
            return;
        }
        let members: Vec<NameHash> = self.table.active().to_vec();
        for member in members {
            let Some(target) = self.target(member) else {
                continue;
            };
            let owed = self.events.owing.owed(member, target.generation).next();
            if owed.is_some() {
                self.events.owing.ask(member, self.now);
            }
        }
    }

    pub(super) fn next_ask_due(&self) -> Option<Instant> {
        let due = self.events.owing.next_due()?;
        let allowed = self.events.ask_at.max(self.events_budget_at());
        Some(due.max(allowed))
    }

    /// Asks members directly that have not acknowledged.
    pub(super) fn ask_the_owed(&mut self, out: &mut Outbox) {
        if self.now < self.events.ask_at || !self.may_send_events() {
            return;
        }
        let pause = self.config.event_patience;
        let due = self.events.owing.take_due(self.now, ASKED_AT_ONCE, pause);
        if !due.is_empty() {
            self.events.ask_at = self.now + ASK_PAUSE;
        }
        for member in due {
            let target = self.target(member).filter(|_| self.table.is_active(member));
            let to = self.address_of(member);
            let owed: Vec<Owed> = target
                .map(|it| self.events.owing.owed(member, it.generation).collect())
                .unwrap_or_default();
            match to {
                Some(to) if !owed.is_empty() && self.life == Life::Ready => {
                    self.stats.events.add(EventCount::Asked, 1);
                    let message = self.direct_question(&owed);
                    self.send_events(to, &message, out);
                }
                _ => self.events.owing.stop_asking(member),
            }
        }
    }

    /// What is owed, with the question whether it is there, or, where it is much, only the question:
    /// who lacks it then pulls it.
    fn direct_question(&self, owed: &[Owed]) -> Message {
        let mut room = self.events_room();
        let (mut asked, mut told) = (Vec::new(), Vec::new());
        for it in owed.iter().rev().take(List::<EventHead, 4>::MAX) {
            let head = EventHead {
                origin: self.local.hash,
                generation: it.generation,
                delivery: Delivery::AtLeastOnce,
                upto: it.upto,
            };
            room = room.saturating_sub(wire::event_head_bytes(&head));
            asked.push(head);
        }
        for it in owed.iter().rev() {
            let events = self.whole_events(it);
            let bytes: usize = events.iter().map(wire::told_event_bytes).sum();
            if bytes <= room {
                room -= bytes;
                told.extend(events);
            }
        }
        Message::Events(Events {
            sender: self.sender(),
            asked: asked.into(),
            told: told.into(),
        })
    }

    /// The events that a member likely lacks, as far as they can be few.
    fn whole_events(&self, owed: &Owed) -> Vec<ToldEvent> {
        let first = owed.acked.max(owed.before) + 1;
        let count = (owed.upto + 1).saturating_sub(first);
        if count == 0 || count > 32 {
            return Vec::new();
        }
        let span = EventSpan {
            origin: self.local.hash,
            generation: owed.generation,
            delivery: Delivery::AtLeastOnce,
            first,
            last: owed.upto,
        };
        let whole = self.events.keep.span(&span).map(|event| ToldEvent {
            hop: HOP_LAST,
            collects: false,
            what: ToldWhat::Whole(std::sync::Arc::clone(event)),
        });
        whole.collect()
    }

    /// An origin asks up to where this node has its events.
    pub(super) fn hear_questions(&mut self, events: &Events, out: &mut Outbox) {
        let sender = &events.sender;
        for head in events.asked.iter() {
            let life = (head.origin, head.generation);
            let own = head.origin == sender.member && head.generation <= sender.generation;
            if !own || head.delivery != Delivery::AtLeastOnce || head.origin == self.local.hash {
                self.reject(Rejection::Event);
                continue;
            }
            if self.events.questions.len() >= QUESTIONS_MAX {
                self.events.questions.pop_first();
            }
            self.events.questions.insert(life, (head.upto, false));
            if self.events.book.upto(life) < head.upto && !self.events.book.is_too_old(life) {
                let lack = Lack {
                    origin: life.0,
                    generation: life.1,
                    single: None,
                };
                let due = self.now + self.config.event_link;
                self.events.pulls.want(lack, head.upto, sender.member, due);
            }
        }
        if !events.asked.is_empty() {
            self.answer_questions(out);
        }
    }

    /// Answers those that asked, once all that has come out is durable; those that asked for more
    /// than is here are answered again when it has come.
    fn answer_questions(&mut self, out: &mut Outbox) {
        if self.life != Life::Ready {
            return;
        }
        let mut answers: BTreeMap<NameHash, Vec<EventHead>> = BTreeMap::new();
        let book = &self.events.book;
        self.events.questions.retain(|&life, (asked, answered)| {
            let mut upto = book.stored_upto(life).unwrap_or_default();
            let waits = upto < book.upto(life) || (*answered && upto < *asked);
            if waits {
                return true;
            }
            *answered = true;
            // What is too old to be told apart need not come.
            if book.is_too_old(life) {
                upto = *asked;
            }
            answers.entry(life.0).or_default().push(EventHead {
                origin: life.0,
                generation: life.1,
                delivery: Delivery::AtLeastOnce,
                upto,
            });
            upto < *asked
        });
        for (origin, mut heads) in answers {
            heads.truncate(List::<EventHead, 8>::MAX);
            self.send_acks(origin, heads, Vec::new(), out);
        }
    }

    /// How far an event that this node sent in this or an earlier life has come; `None` for events
    /// of others, for those sent at most once, and for those that are not kept any more.
    #[must_use]
    pub fn delivery(&self, event: &EventRef) -> Option<DeliveryState> {
        let kept = self.events.keep.get(event);
        let own = event.origin == self.local.hash && event.delivery == Delivery::AtLeastOnce;
        kept.filter(|_| own && self.events.owing.knows(event.generation))?;
        let mut delivered = vec![self.local.name.clone()];
        let mut owed: Vec<NodeName> = Vec::new();
        for (member, entry) in self.table.iter() {
            let standing = entry.record.standing;
            if member == self.local.hash || !entry.listed || standing.status == Status::Left {
                continue;
            }
            let by = (member, standing.generation);
            let name = entry.record.name.clone();
            if self.events.owing.acked(event.generation, by) < event.sequence {
                owed.push(name);
            } else if standing.status.is_active() {
                delivered.push(name);
            }
        }
        delivered.sort_unstable();
        owed.sort_unstable();
        Some(DeliveryState { delivered, owed })
    }
}
