//! Events that come: whether they are believed, which come out, and which are told on.

use std::sync::Arc;

use super::event_book::Taken;
use super::event_pulls::Lack;
use super::event_telling::Telling;
use super::eventing::HOP_LAST;
use super::stats::EventCount;
use super::{Event, Life, Node, Outbox, Rejection};
use crate::member::{Delivery, EventRef, NameHash, UserEvent};
use crate::wire::{Events, Sender, ToldEvent, ToldWhat};

/// Announced events that are remembered until they have come.
const ANNOUNCED_MAX: usize = 256;
/// How many times the delay of a link a gap is waited for before others are asked to fill it.
const GAP_LINKS: u32 = 50;

impl Node {
    /// Whether a message about events comes from a member in its present life, to one that takes
    /// part: nothing else is believed.
    pub(super) fn hears_events_of(&mut self, sender: &Sender) -> bool {
        let known = self
            .target(sender.member)
            .is_some_and(|target| target.generation == sender.generation)
            && self.table.is_active(sender.member);
        let takes_part = matches!(self.life, Life::Ready | Life::Leaving);
        if known && takes_part {
            self.hear_sender(sender);
            return true;
        }
        self.reject(Rejection::Event);
        false
    }

    /// Events have come in a datagram.
    pub(super) fn on_events(&mut self, events: &Events, out: &mut Outbox) {
        if !self.hears_events_of(&events.sender) {
            return;
        }
        for told in events.told.iter() {
            self.hear_event(events.sender.member, told, out);
        }
        self.hear_questions(events, out);
    }

    /// Whether an event can be one of `origin`: it is a member, and has begun that life.
    pub(super) fn may_be_of(
        &self,
        origin: NameHash,
        generation: crate::member::Generation,
    ) -> bool {
        let entry = self.table.get(origin);
        entry.is_some_and(|entry| entry.listed && generation <= entry.record.standing.generation)
    }

    /// Whether this node sent it itself, as far as it remembers.
    pub(super) fn is_own(&self, event: &EventRef) -> bool {
        event.origin == self.local.hash
            && (event.generation == self.local.generation
                || self.events.owing.knows(event.generation))
    }

    fn hear_event(&mut self, sender: NameHash, told: &ToldEvent, out: &mut Outbox) {
        let event = told.what.event_ref();
        if !self.may_be_of(event.origin, event.generation) || event.sequence == 0 {
            return self.reject(Rejection::Event);
        }
        if self.is_own(&event) {
            return self.stats.events.add(EventCount::Duplicate, 1);
        }
        let how = (sender, told.hop, told.collects);
        match &told.what {
            ToldWhat::Whole(whole) => {
                let fresh = self.take_event(whole, sender, out);
                self.follow_event(&event, fresh.then_some(whole), how);
            }
            ToldWhat::Announced(_) if self.events.book.has(&event) => {
                self.follow_event(&event, None, how);
            }
            ToldWhat::Announced(_) => self.note_announced(&event, how),
        }
    }

    /// Somebody has an event that it does not send by itself.
    fn note_announced(&mut self, event: &EventRef, how: (NameHash, u8, bool)) {
        let due = self.now + self.config.event_link;
        let pulls = &mut self.events.pulls;
        let noted = pulls.want(Lack::of(event), event.sequence, how.0, due);
        if noted && self.events.announced.len() < ANNOUNCED_MAX {
            self.events.announced.entry(*event).or_insert(how);
        }
    }

    /// An announced event has come at last.
    pub(super) fn follow_announced(&mut self, event: &Arc<UserEvent>) {
        let reference = event.event_ref();
        if let Some(how) = self.events.announced.remove(&reference) {
            self.follow_event(&reference, Some(event), how);
        }
    }

    /// An event that is here was told by a member, so many links away from its origin: it is told
    /// on where it is `fresh`, and it is said who has it where that is collected.
    fn follow_event(
        &mut self,
        event: &EventRef,
        fresh: Option<&Arc<UserEvent>>,
        (sender, hop, collects): (NameHash, u8, bool),
    ) {
        let joined = collects && self.join_collection(event, sender, hop);
        if !(joined || fresh.is_some()) || hop >= HOP_LAST - 1 {
            return;
        }
        let (what, rounds) = match fresh {
            Some(whole) => {
                let large = !self.fits_datagram(whole);
                (self.what_is_told(whole), self.event_rounds(whole, large))
            }
            // Most have it: only the question goes on.
            None => (ToldWhat::Announced(*event), 1),
        };
        let told = ToldEvent {
            hop: hop + 1,
            collects,
            what,
        };
        let due = self.now + self.config.push_delay;
        let telling = Telling::new(told, Some(sender), rounds, due);
        if !self.events.telling.push(telling) {
            self.drop_event("event-told-on");
        }
    }

    /// An event has come; whether it is the first copy. What comes out goes to the outbox.
    pub(super) fn take_event(
        &mut self,
        event: &Arc<UserEvent>,
        sender: NameHash,
        out: &mut Outbox,
    ) -> bool {
        let durable = event.delivery == Delivery::AtLeastOnce;
        self.events.begun = true;
        let taken = self.events.book.take(event, self.now);
        let count = match &taken {
            Taken::New(ready) if ready.is_empty() => Some(EventCount::Held),
            Taken::New(_) => None,
            Taken::Duplicate => Some(EventCount::Duplicate),
            Taken::Late => Some(EventCount::Late),
            Taken::Beyond => Some(EventCount::Beyond),
            Taken::Old => Some(EventCount::Old),
        };
        let gap = matches!(count, Some(EventCount::Held | EventCount::Beyond));
        if gap && durable {
            self.lack_before(&event.event_ref(), sender);
        }
        if let Some(count) = count {
            self.stats.events.add(count, 1);
        }
        let Taken::New(ready) = taken else {
            return false;
        };
        if !durable && !self.fits_datagram(event) {
            self.keep_event(event);
        }
        self.hand_out(ready, out);
        true
    }

    /// Others between the last event that came out and this one have not come: after a while they
    /// are asked for.
    fn lack_before(&mut self, event: &EventRef, sender: NameHash) {
        let due = self.now + self.config.event_link * GAP_LINKS;
        let lack = Lack::of(event);
        if !self.events.pulls.want(lack, event.sequence, sender, due) {
            self.drop_event("event-pulls");
        }
        if self.events.book.has_gap((lack.origin, lack.generation)) {
            self.events.pulls.note_evidence(&lack);
        }
    }

    /// These events come out, in order.
    pub(super) fn hand_out(&mut self, ready: Vec<Arc<UserEvent>>, out: &mut Outbox) {
        for event in ready {
            self.stats.events.add(EventCount::Delivered, 1);
            if event.delivery == Delivery::AtLeastOnce {
                self.keep_event(&event);
            }
            out.events.push(Event::User(event));
        }
    }
}
