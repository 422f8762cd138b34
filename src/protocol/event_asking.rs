//! Asking members directly for what they have not acknowledged, and answering such questions.
//!
//! The origin of events collects who has the last of them; when that is over, it asks whom it has
//! not heard of, again and again, until all alive members have acknowledged.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use super::event_owing::{Collecting, Owed};
use super::event_pulls::Lack;
use super::event_telling::Telling;
use super::eventing::HOP_LAST;
use super::stats::EventCount;
use super::{DeliveryState, Life, Node, Outbox, Rejection};
use crate::member::{Delivery, EventRef, Generation, NameHash, NodeName, Status};
use crate::time::Instant;
use crate::wire::{self, EventHead, EventSpan, Events, List, Message, ToldEvent, ToldWhat};

/// Members that are asked directly at a time, and how long after the last ones: 2,000 a second.
const ASKED_AT_ONCE: usize = 10;
const ASK_PAUSE: Duration = Duration::from_millis(5);
/// Questions of origins that wait for events to become durable here.
const QUESTIONS_MAX: usize = 1024;
/// Events that come with a question, at most.
const TOLD_WITH_QUESTION_MAX: u64 = 32;

impl Node {
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
    pub(super) fn end_collection(&mut self) {
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

    pub(super) fn end_if_collected(&mut self) {
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

    /// What is owed, with the question whether it is there; where it is much, only the question:
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
        if count == 0 || count > TOLD_WITH_QUESTION_MAX {
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
            what: ToldWhat::Whole(Arc::clone(event)),
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
    pub(super) fn answer_questions(&mut self, out: &mut Outbox) {
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
