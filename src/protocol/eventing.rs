//! Events that clients send: told to all members, and, where that is promised, until all have them.
//!
//! An event is pushed like news of members, but from a byte budget of its own, so that neither
//! starves the other. Whoever hears one first tells it on; a copy says nothing more. One too large
//! for a datagram is announced, pulled from who announced it, and only then announced on: so the
//! bytes flow along the same links, and nobody is asked by all.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;

use super::acknowledging::Collection;
use super::dissemination::{self, ByteBucket};
use super::event_book::{EventBook, Life as OriginLife};
use super::event_keep::EventKeep;
use super::event_owing::EventOwing;
use super::event_pulls::{EventPulls, Lack};
use super::event_telling::{EventTelling, Telling};
use super::repair::Repair;
use super::stats::EventCount;
use super::{Config, EventMark, ExchangeId, Life, Node, Outbox, Timer, Transmit};
use crate::member::{Delivery, EventRef, NameHash, NodeName, UserEvent};
use crate::time::Instant;
use crate::wire::{self, EventHead, Events, HEADER_BYTES, List, Message, ToldEvent, ToldWhat};

/// Upper bound of a message's bytes without its events.
pub(super) const EVENTS_FIXED_BYTES: usize = HEADER_BYTES + 40;
/// Datagrams with events that are told at a time.
const DATAGRAMS_PER_PUSH: usize = 16;
/// Events in one datagram.
const EVENTS_PER_DATAGRAM: usize = 64;
/// Told straight by the origin, to one member: not to be told on.
pub(super) const HOP_LAST: u8 = u8::MAX;
/// How many times the delay of a link an event sent at most once waits for those before it.
const HOLD_LINKS: u32 = 25;
/// Events given to others on demand, in bytes per second and at once.
const SERVE_RATE: u32 = 8 << 20;

/// How far an event of this node has come.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DeliveryState {
    /// Alive members, this one included, that have it.
    pub delivered: Vec<NodeName>,
    /// Members that are owed it: alive ones that have not acknowledged it yet, and dead ones.
    pub owed: Vec<NodeName>,
}

/// Events of this node that have not been told to anybody yet.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct EventBacklog {
    /// How many.
    pub events: usize,
    /// Their payloads, in bytes.
    pub bytes: usize,
}

/// What a node knows of user events.
#[derive(Debug)]
pub(super) struct EventState {
    pub(super) book: EventBook,
    pub(super) keep: EventKeep,
    pub(super) telling: EventTelling,
    pub(super) owing: EventOwing,
    pub(super) pulls: EventPulls,
    /// Who is known to have the newest events of others that are being collected.
    pub(super) collections: BTreeMap<OriginLife, Collection>,
    /// Origins that have asked to be told up to where this node has their events: up to where they
    /// asked, and whether they were told something since.
    pub(super) questions: BTreeMap<OriginLife, (u64, bool)>,
    /// Announced events that have not come yet: who announced them, by how many links, and whether
    /// it is collected who has them.
    pub(super) announced: BTreeMap<EventRef, (NameHash, u8, bool)>,
    budget: ByteBucket,
    pub(super) serve_budget: ByteBucket,
    told_at: Instant,
    /// From when on members may be asked directly again.
    pub(super) ask_at: Instant,
    /// The state of the table, and of the own events, for which it was looked who is owed some.
    pub(super) reviewed: Option<(u64, u64)>,
    /// Counts what may make somebody be owed something.
    pub(super) owing_revision: u64,
    /// How many have acknowledged what is being collected.
    pub(super) collected: usize,
    pub(super) repair: Repair,
    /// With whom heads are being compared, and until when an answer is waited for.
    pub(super) comparing: Option<(NameHash, Instant)>,
    /// The table and the heads of which the sum is known.
    pub(super) sum: Option<(u64, u64, u64)>,
    /// The message being answered said up to where its sender has events.
    pub(super) echo: bool,
    /// Where the heads begin that a first table came with.
    pub(super) first_heads: Option<(ExchangeId, Vec<EventHead>)>,
    /// Whether this node has a past: then old events are not for it to pass over.
    pub(super) begun: bool,
}

impl EventState {
    /// No event was heard of.
    pub(super) fn new(config: &Config, now: Instant) -> Self {
        EventState {
            book: EventBook::new(config.event_link * HOLD_LINKS),
            keep: EventKeep::new(config.event_retention),
            telling: EventTelling::default(),
            owing: EventOwing::default(),
            pulls: EventPulls::default(),
            collections: BTreeMap::new(),
            questions: BTreeMap::new(),
            announced: BTreeMap::new(),
            budget: ByteBucket::new(config.event_rate, config.event_burst, now),
            serve_budget: ByteBucket::new(SERVE_RATE, SERVE_RATE, now),
            told_at: Instant::ORIGIN,
            ask_at: Instant::ORIGIN,
            reviewed: None,
            owing_revision: 0,
            collected: 0,
            repair: Repair::new(config.mismatch_timeout),
            comparing: None,
            sum: None,
            echo: false,
            first_heads: None,
            begun: false,
        }
    }

    /// Nothing is under way any more; what has come stays known.
    pub(super) fn start_over(&mut self, config: &Config) {
        self.telling.drop_passed_on();
        self.pulls = EventPulls::default();
        self.collections.clear();
        self.questions.clear();
        self.announced.clear();
        self.repair = Repair::new(config.mismatch_timeout);
        self.comparing = None;
        self.first_heads = None;
        self.begun = true;
    }
}

impl Node {
    /// Clients sent events through this node.
    pub(super) fn on_publish(&mut self, events: &[Arc<UserEvent>]) {
        for event in events {
            if event.origin.hash() == self.local.hash {
                self.publish(event);
            }
        }
    }

    fn publish(&mut self, event: &Arc<UserEvent>) {
        let head = EventHead::at(&event.event_ref());
        let state = &mut self.events;
        state.begun = true;
        state.book.begin_at(&head, self.now);
        let large = !self.fits_datagram(event);
        if event.delivery == Delivery::AtLeastOnce {
            self.events.owing.sent(event.generation, event.sequence);
            self.events.owing_revision += 1;
        }
        if large || event.delivery == Delivery::AtLeastOnce {
            self.keep_event(event);
        }
        self.stats.events.add(EventCount::Published, 1);
        let told = ToldEvent {
            hop: 1,
            collects: false,
            what: self.what_is_told(event),
        };
        let due = self.now + self.config.push_delay;
        let telling = Telling::new(told, None, self.event_rounds(event, large), due);
        if !self.events.telling.push(telling) {
            self.drop_event("event-own");
        }
    }

    /// In how many rounds an event is told: what is not acknowledged is told again to hosts that
    /// stalled.
    pub(super) fn event_rounds(&self, event: &UserEvent, large: bool) -> usize {
        match event.delivery {
            Delivery::AtLeastOnce if !large => 1,
            _ => self.rounds().len(),
        }
    }

    fn rounds(&self) -> &'static [dissemination::Round] {
        dissemination::rounds(self.table.active().len(), self.misses.share())
    }

    pub(super) fn what_is_told(&self, event: &Arc<UserEvent>) -> ToldWhat {
        if self.fits_datagram(event) {
            ToldWhat::Whole(Arc::clone(event))
        } else {
            ToldWhat::Announced(event.event_ref())
        }
    }

    /// Room for events in one datagram.
    pub(super) fn events_room(&self) -> usize {
        self.datagram_budget().saturating_sub(EVENTS_FIXED_BYTES)
    }

    pub(super) fn fits_datagram(&self, event: &UserEvent) -> bool {
        // Hop, mark and form take three bytes.
        wire::event_bytes(event) + 3 <= self.events_room()
    }

    pub(super) fn keep_event(&mut self, event: &Arc<UserEvent>) {
        self.events.keep.keep(event, self.now);
        let dropped = self.events.keep.trim(self.now);
        self.stats.events.add(EventCount::Expired, dropped as u64);
    }

    /// Counts an event that goes no further, by the limit it ran into.
    pub(super) fn drop_event(&mut self, queue: &'static str) {
        *self.stats.dropped.entry(queue).or_insert(0) += 1;
    }

    /// Sets the timer of events to the earliest instant at which something is due.
    pub(super) fn arm_events(&mut self) {
        let next = self.next_event_due();
        match next {
            Some(at) if self.timers.deadline(Timer::Events) != Some(at) => {
                self.timers.set(Timer::Events, self.now, at.since(self.now));
            }
            Some(_) => {}
            None => self.timers.cancel(Timer::Events),
        }
    }

    fn next_event_due(&self) -> Option<Instant> {
        let state = &self.events;
        let telling = state.telling.next_due().map(|due| {
            let window = state.told_at + self.config.push_window;
            due.max(window).max(self.now + state.budget.wait(self.now))
        });
        let dues = [
            telling.filter(|_| self.life != Life::Joining),
            state.book.next_release(),
            self.next_collection_due(),
            self.next_ask_due(),
            self.next_pull_due(),
            state.comparing.map(|(_, until)| until),
        ];
        dues.into_iter().flatten().min()
    }

    /// Something about events is due.
    pub(super) fn on_events_due(&mut self, out: &mut Outbox) {
        let released = self.events.book.release_due(self.now);
        self.hand_out(released, out);
        if self.life != Life::Joining {
            self.tell_events(out);
        }
        self.send_sets(out);
        self.ask_the_owed(out);
        self.end_comparing();
        self.start_event_pulls(out);
    }

    /// Tells what is due, as far as the byte budget goes.
    fn tell_events(&mut self, out: &mut Outbox) {
        let until = self.now + self.config.push_window / 2;
        let due = self.events.telling.next_due();
        if due.is_none_or(|due| due > self.now) {
            return;
        }
        let window = self.events.told_at + self.config.push_window;
        if self.now < window {
            return;
        }
        self.events.told_at = self.now;
        for _ in 0..DATAGRAMS_PER_PUSH {
            if !self.events.budget.wait(self.now).is_zero() {
                return;
            }
            let room = self.events_room();
            let batch = self.events.telling.take(until, room, EVENTS_PER_DATAGRAM);
            if batch.is_empty() {
                return;
            }
            self.tell_batch(batch, out);
        }
    }

    fn tell_batch(&mut self, mut batch: Vec<Telling>, out: &mut Outbox) {
        let nobody = self.life != Life::Ready || self.table.active().is_empty();
        self.collect_from(&mut batch, nobody);
        let number = batch.first().map_or(0, |telling| telling.round);
        let rounds = self.rounds();
        let (Some(&round), false) = (rounds.get(number).or(rounds.last()), nobody) else {
            return;
        };
        let told: Vec<ToldEvent> = batch.iter().map(|telling| telling.told.clone()).collect();
        let count = told.len() as u64;
        let message = Message::Events(Events {
            sender: self.sender(),
            asked: List::default(),
            told: told.into(),
        });
        for peer in self.push_peers(round) {
            let knows = |telling: &Telling| {
                let origin = telling.told.what.event_ref().origin;
                telling.heard_from == Some(peer) || origin == peer
            };
            if batch.iter().all(knows) {
                continue;
            }
            if let Some(to) = self.address_of(peer) {
                self.stats.events.add(EventCount::Told, count);
                self.send_events(to, &message, out);
            }
        }
        let gap = self.config.push_gap;
        self.events.telling.told(batch, self.now, gap);
    }

    /// Sends a message about events, out of their budget.
    pub(super) fn send_events(&mut self, to: SocketAddr, message: &Message, out: &mut Outbox) {
        self.send(to, message, out);
        if let Some(Transmit::Datagram { payload, .. }) = out.transmits.last() {
            self.events.budget.take(self.now, payload.len());
        }
    }

    /// Whether the budget of events allows something to be sent now.
    pub(super) fn may_send_events(&self) -> bool {
        self.events.budget.wait(self.now).is_zero()
    }

    /// When the budget of events allows something to be sent.
    pub(super) fn events_budget_at(&self) -> Instant {
        self.now + self.events.budget.wait(self.now)
    }

    /// What an earlier run knew.
    pub(super) fn on_restore_events(&mut self, events: &[Arc<UserEvent>], marks: &[EventMark]) {
        self.events.begun = true;
        for mark in marks {
            self.events
                .book
                .begin_at(&EventHead::at(&mark.upto), self.now);
        }
        for event in events {
            if event.delivery == Delivery::AtMostOnce {
                continue;
            }
            let reference = event.event_ref();
            self.events
                .book
                .begin_at(&EventHead::at(&reference), self.now);
            if reference.origin == self.local.hash {
                let owing = &mut self.events.owing;
                owing.restore(event.generation, event.sequence);
                self.events.owing_revision += 1;
            }
            self.keep_event(event);
        }
    }

    /// What waits to be told.
    #[must_use]
    pub fn event_backlog(&self) -> EventBacklog {
        let (events, bytes) = self.events.telling.backlog();
        EventBacklog { events, bytes }
    }

    /// Up to where this node has the events of every life of a member that it knows, durable or
    /// handed out: what a later run is to be given back. Numbers up to a mark need not come, also
    /// those that never came because this node joined after them.
    pub fn event_marks(&self) -> impl Iterator<Item = EventMark> + '_ {
        let book = &self.events.book;
        let heads = book.stored_heads().chain(book.fleeting_heads());
        heads.map(|head| EventMark {
            upto: EventRef {
                origin: head.origin,
                generation: head.generation,
                delivery: head.delivery,
                sequence: head.upto,
            },
        })
    }

    /// Once per period: forgets what is too old, and who is forgotten.
    pub(super) fn tidy_events(&mut self) {
        let dropped = self.events.keep.trim(self.now);
        self.stats.events.add(EventCount::Expired, dropped as u64);
        let (own, current) = (self.local.hash, self.local.generation);
        let over: Vec<_> = self
            .events
            .owing
            .lives()
            .filter(|&life| life != current && self.events.keep.first_of((own, life)).is_none())
            .collect();
        for life in over {
            self.events.owing.drop_life(life);
        }
        self.events.announced.retain(|event, _| {
            let lack = Lack::of(event);
            self.events.pulls.wanted(&lack).is_some()
        });
        self.want_gaps();
        self.settle_events();
    }

    /// What is missing before something that came too early is lacked until it comes or is lost.
    fn want_gaps(&mut self) {
        for ((origin, generation), upto) in self.events.book.gaps() {
            let lack = Lack {
                origin,
                generation,
                single: None,
            };
            let pulls = &mut self.events.pulls;
            if pulls.wanted(&lack).is_none() {
                pulls.want(lack, upto, origin, self.now);
                pulls.note_evidence(&lack);
            }
        }
    }

    /// A member is not remembered any more.
    pub(super) fn forget_events_of(&mut self, member: NameHash) {
        self.events.book.drop_origin(member);
        self.events.keep.drop_origin(member);
        self.events.pulls.drop_origin(member);
        self.events.owing.drop_member(member);
        self.events.collections.retain(|life, _| life.0 != member);
        self.events.questions.retain(|life, _| life.0 != member);
    }
}
