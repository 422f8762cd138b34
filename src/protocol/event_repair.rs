//! Finding events that this node lacks, and getting them from whoever keeps them, also when their
//! origin is gone.
//!
//! A sum over the heads of all events that are sent at least once rides on ping and ack while any
//! are kept. Where it differs though both sides were quiet, the two compare their heads, and each
//! pulls what the other has more.

use std::collections::BTreeMap;
use std::time::Duration;

use super::event_pulls::Lack;
use super::repair::Comparison;
use super::serving::Asked;
use super::stats::EventCount;
use super::streams::Exchange;
use super::{ExchangeId, Life, Node, Outbox};
use crate::member::{Delivery, EventRef, NameHash};
use crate::wire::{self, EVENT_HEADS_MAX, EventHead, EventHeads, Extension, Gossip, Message};

/// How long an answer to a comparison is waited for.
const COMPARE_TIMEOUT: Duration = Duration::from_secs(1);

impl Node {
    /// Up to where this node has events, for a message with `room`; none while nobody keeps any.
    pub(super) fn load_events(&mut self, room: &mut usize) -> Option<Extension> {
        let echo = std::mem::take(&mut self.events.echo);
        if self.events.keep.is_empty() && !echo {
            return None;
        }
        let extension = Extension::events(self.event_sum(), self.events_are_quiet());
        let bytes = extension.encoded_bytes();
        if bytes > *room {
            return None;
        }
        *room -= bytes;
        Some(extension)
    }

    /// The sum of the heads of all members that are listed: with equal tables it is equal for equal
    /// heads.
    pub(super) fn event_sum(&mut self) -> u64 {
        let (table, heads) = (self.table.fingerprint(), self.events.book.revision());
        if let Some((_, _, sum)) = self
            .events
            .sum
            .filter(|&(of_table, of_heads, _)| (of_table, of_heads) == (table, heads))
        {
            return sum;
        }
        let sum = self.events.book.sum(|origin| self.is_listed(origin));
        self.events.sum = Some((table, heads, sum));
        sum
    }

    fn is_listed(&self, member: NameHash) -> bool {
        self.table.get(member).is_some_and(|entry| entry.listed)
    }

    fn events_are_quiet(&self) -> bool {
        // Who waits for events knows why its heads differ.
        self.events.pulls.is_empty()
            && self.now.since(self.events.book.changed_at()) >= self.config.quiet
    }

    /// A ping has come that is about to be answered: the answer says what the question said.
    pub(super) fn note_event_sum(&mut self, gossip: &Gossip) {
        self.events.echo = gossip.extensions.iter().any(|it| it.as_events().is_some());
    }

    /// An ack has come: compares up to where the two have events.
    pub(super) fn compare_events(&mut self, member: NameHash, gossip: &Gossip, out: &mut Outbox) {
        let told = gossip.extensions.iter().find_map(Extension::as_events);
        let Some((sum, quiet)) = told else { return };
        if gossip.fingerprint.0 != self.table.fingerprint() {
            return;
        }
        let comparison = if sum == self.event_sum() {
            Comparison::Equal
        } else if quiet && self.events_are_quiet() {
            Comparison::Missed
        } else {
            Comparison::Unsettled
        };
        if self.events.repair.compared(self.now, comparison) {
            self.send_heads(member, out);
        }
    }

    /// Asks `member` up to where it has events.
    fn send_heads(&mut self, member: NameHash, out: &mut Outbox) {
        let Some(to) = self.address_of(member) else {
            return self.events.repair.ended(self.now, 0);
        };
        self.stats.events.add(EventCount::Compared, 1);
        let heads = self.listed_heads();
        let bytes: usize = heads.iter().map(wire::event_head_bytes).sum();
        let message = Message::EventHeads(EventHeads {
            sender: self.sender(),
            heads: heads.into(),
            asks: true,
        });
        self.events.comparing = Some((member, self.now + COMPARE_TIMEOUT));
        if bytes <= self.events_room() {
            return self.send_events(to, &message, out);
        }
        let exchange = self.new_exchange_id();
        let purpose = Exchange::EventHeads { member };
        self.open_exchange(exchange, purpose, to, &[message], COMPARE_TIMEOUT, out);
    }

    fn listed_heads(&self) -> Vec<EventHead> {
        let heads = self.events.book.heads();
        let listed = heads.filter(|head| self.is_listed(head.origin));
        listed.take(EVENT_HEADS_MAX).collect()
    }

    /// Nothing has been answered for too long.
    pub(super) fn end_comparing(&mut self) {
        if self
            .events
            .comparing
            .is_some_and(|(_, until)| until <= self.now)
        {
            self.events.comparing = None;
            self.events.repair.ended(self.now, 0);
        }
    }

    /// Somebody tells up to where it has events: what it has more is pulled, and where this node
    /// has more, the answer says so.
    pub(super) fn on_event_heads(&mut self, asked: Asked, heads: &EventHeads, out: &mut Outbox) {
        if !self.hears_events_of(&heads.sender) {
            if let Asked::Stream(stream) = asked {
                self.answer(stream, &[], out);
            }
            return;
        }
        let member = heads.sender.member;
        if !heads.asks {
            return self.on_heads_answer(member, heads, out);
        }
        self.want_heads(member, &heads.heads);
        let theirs: BTreeMap<_, u64> = heads
            .heads
            .iter()
            .map(|head| ((head.origin, head.generation), head.upto))
            .collect();
        let ahead = |head: &EventHead| {
            let known = theirs.get(&(head.origin, head.generation));
            known.is_none_or(|&upto| upto < head.upto)
        };
        let mut mine = self.listed_heads();
        mine.retain(ahead);
        match asked {
            Asked::Stream(stream) => {
                let answer = self.heads_answer(mine);
                self.answer(stream, &[answer], out);
            }
            Asked::Datagram { from, bytes } => {
                // As many as the asker may be sent; the rest shows when sums are next compared.
                let mut room = self.answer_budget(&heads.sender, from, bytes);
                room = room.saturating_sub(super::eventing::EVENTS_FIXED_BYTES);
                mine.retain(|head| {
                    let bytes = wire::event_head_bytes(head);
                    let fits = bytes <= room;
                    room = room.saturating_sub(bytes);
                    fits
                });
                let answer = self.heads_answer(mine);
                self.send_events(from, &answer, out);
            }
        }
        self.start_event_pulls(out);
    }

    fn heads_answer(&self, heads: Vec<EventHead>) -> Message {
        Message::EventHeads(EventHeads {
            sender: self.sender(),
            heads: heads.into(),
            asks: false,
        })
    }

    fn on_heads_answer(&mut self, member: NameHash, heads: &EventHeads, out: &mut Outbox) {
        if self
            .events
            .comparing
            .is_none_or(|(asked, _)| asked != member)
        {
            return self.reject_unsolicited();
        }
        self.events.comparing = None;
        let wanted = self.want_heads(member, &heads.heads);
        self.events.repair.ended(self.now, wanted);
        self.start_event_pulls(out);
    }

    /// The answer to a comparison over a stream.
    pub(super) fn on_heads_reply(
        &mut self,
        exchange: ExchangeId,
        heads: &EventHeads,
        out: &mut Outbox,
    ) {
        self.exchanges.remove(&exchange);
        self.note_stream_answer(heads.sender.member, out);
        if self.hears_events_of(&heads.sender) {
            self.on_heads_answer(heads.sender.member, heads, out);
        }
    }

    /// `member` has events up to these heads; how many of them are beyond what is here.
    fn want_heads(&mut self, member: NameHash, heads: &[EventHead]) -> usize {
        let mut wanted = 0;
        for head in heads {
            let life = (head.origin, head.generation);
            let event = EventRef {
                origin: head.origin,
                generation: head.generation,
                delivery: head.delivery,
                sequence: head.upto,
            };
            let possible = head.delivery == Delivery::AtLeastOnce
                && self.may_be_of(head.origin, head.generation)
                && !self.is_own(&event);
            let lacks = self.events.book.upto(life) < head.upto;
            if possible && lacks && !self.events.book.is_too_old(life) {
                let (lack, now) = (Lack::of(&event), self.now);
                if self.events.pulls.want(lack, head.upto, member, now) {
                    wanted += 1;
                } else {
                    self.drop_event("event-pulls");
                }
            }
        }
        wanted
    }

    /// What goes before the table that a joiner is told: up to where there were events before it.
    pub(super) fn heads_for_joiner(&self) -> Vec<Message> {
        let book = &self.events.book;
        let heads: Vec<EventHead> = book.heads().chain(book.fleeting_heads()).collect();
        let parts = heads.chunks(EVENT_HEADS_MAX);
        parts.map(|part| self.heads_answer(part.to_vec())).collect()
    }

    /// The same, as it is told to this node.
    pub(super) fn on_join_heads(&mut self, exchange: ExchangeId, heads: &EventHeads) {
        let held = self.events.first_heads.take();
        let mut held = held
            .filter(|it| it.0 == exchange)
            .unwrap_or((exchange, Vec::new()));
        let room = (4 * EVENT_HEADS_MAX).saturating_sub(held.1.len());
        held.1.extend(heads.heads.iter().take(room));
        self.events.first_heads = Some(held);
    }

    /// A table has come in full. What was sent before it is not for a node without a past; to one
    /// that has one it is what it lacks.
    pub(super) fn begin_events(&mut self, exchange: ExchangeId, member: NameHash) {
        let told = self.events.first_heads.take();
        let heads = told.filter(|it| it.0 == exchange).map(|it| it.1);
        let heads = heads.unwrap_or_default();
        if self.events.begun || self.life != Life::Joining {
            self.want_heads(member, &heads);
            return;
        }
        self.events.begun = true;
        for head in heads {
            if self.may_be_of(head.origin, head.generation) && head.upto < u64::MAX / 2 {
                self.events.book.begin_at(&head, self.now);
            }
        }
    }
}
