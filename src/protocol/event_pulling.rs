//! Pulling events over streams: large ones, and those that this node lacks. What enough members
//! keep no more is lost, and that is said.

use std::sync::Arc;
use std::time::Duration;

use rand::seq::IndexedRandom;

use super::event_pulls::{Denials, Lack, Pulled};
use super::stats::EventCount;
use super::streams::Exchange;
use super::{Event, ExchangeId, Node, Outbox, Rejection, StreamId};
use crate::member::{Delivery, EventRef, NameHash, UserEvent};
use crate::time::Instant;
use crate::wire::{
    self, EVENT_SPANS_MAX, EVENTS_PER_MESSAGE_MAX, EventPull, EventSpan, EventValues, List, Message,
};

/// Pulls that this node has under way at a time.
const PULLS_MAX: usize = 8;
/// How long one pull may take.
const PULL_TIMEOUT: Duration = Duration::from_secs(5);
/// Members that must say that something is kept no more before it is lost, and for how long it must
/// have been lacked: for so long whoever has it may tell it on.
const DENIALS_MIN: usize = 5;
const LOST_AFTER: Duration = Duration::from_secs(30);
/// Events that answer one pull, and bytes of them.
const PULLED_MAX: usize = 4096;
const PULLED_BYTES_MAX: usize = 1 << 20;
/// Bytes of events in one frame.
const FRAME_EVENT_BYTES: usize = 160 * 1024;
/// Members that are drawn to find one that was not asked yet.
const DRAWS: usize = 8;

impl Node {
    fn event_pulls_under_way(&self) -> usize {
        let pull = |purpose: &&Exchange| matches!(purpose, Exchange::EventPull { .. });
        self.exchanges.values().filter(pull).count()
    }

    pub(super) fn next_pull_due(&self) -> Option<Instant> {
        if self.events.pulls.is_empty() || self.event_pulls_under_way() >= PULLS_MAX {
            return None;
        }
        self.events.pulls.next_due()
    }

    /// Asks for what is lacked, as far as there are places.
    pub(super) fn start_event_pulls(&mut self, out: &mut Outbox) {
        self.drop_filled();
        while self.event_pulls_under_way() < PULLS_MAX {
            let Some((source, lacking)) = self.next_event_pull() else {
                return;
            };
            let spans: Vec<EventSpan> = lacking.iter().map(|it| self.span_of(it)).collect();
            let from: Vec<(Lack, u64)> = lacking
                .iter()
                .zip(&spans)
                .map(|(&(lack, _), span)| (lack, span.first))
                .collect();
            let exchange = self.new_exchange_id();
            self.events.pulls.started(&from, source, exchange);
            let Some(to) = self.address_of(source) else {
                self.on_event_pull_failed(exchange, source);
                continue;
            };
            let pull = Message::EventPull(EventPull {
                sender: self.sender(),
                wanted: spans.into(),
            });
            let purpose = Exchange::EventPull { member: source };
            self.open_exchange(exchange, purpose, to, &[pull], PULL_TIMEOUT, out);
        }
    }

    /// What has come by itself meanwhile is lacked no more.
    fn drop_filled(&mut self) {
        let book = &self.events.book;
        self.events.pulls.retain(|lack, upto| match lack.single {
            None => book.upto((lack.origin, lack.generation)) < upto,
            Some(sequence) => !book.has(&EventRef {
                origin: lack.origin,
                generation: lack.generation,
                delivery: Delivery::AtMostOnce,
                sequence,
            }),
        });
    }

    /// Whom to ask for what. Where nobody is known to have it, the origin comes first, then
    /// anybody.
    fn next_event_pull(&mut self) -> Option<(NameHash, Vec<(Lack, u64)>)> {
        let (table, rng) = (&self.table, &mut self.rngs.exchange);
        let usable = |member: NameHash| table.is_active(member);
        let another = |lack: &Lack, asked: &[NameHash]| {
            if usable(lack.origin) && !asked.contains(&lack.origin) {
                return Some(lack.origin);
            }
            let drawn = (0..DRAWS).filter_map(|_| table.active().choose(rng).copied());
            let mut fresh = drawn.filter(|member| !asked.contains(member));
            fresh.next()
        };
        let pulls = &mut self.events.pulls;
        pulls.take_due(self.now, EVENT_SPANS_MAX, usable, another)
    }

    fn span_of(&self, &(lack, upto): &(Lack, u64)) -> EventSpan {
        let (delivery, first, last) = match lack.single {
            Some(number) => (Delivery::AtMostOnce, number, number),
            None => {
                let life = (lack.origin, lack.generation);
                (Delivery::AtLeastOnce, self.events.book.upto(life) + 1, upto)
            }
        };
        EventSpan {
            origin: lack.origin,
            generation: lack.generation,
            delivery,
            first,
            last,
        }
    }

    /// Somebody lacks events. It gets as much of what is kept here as one answer holds; nothing
    /// where much was given lately: then it asks another.
    pub(super) fn on_event_pull(&mut self, stream: StreamId, pull: &EventPull, out: &mut Outbox) {
        if !self.hears_events_of(&pull.sender) {
            return self.answer(stream, &[], out);
        }
        let served = self.events.serve_budget.wait(self.now).is_zero();
        if !served {
            self.drop_for_limit("event-pull");
        }
        let spans = pull.wanted.iter().filter(|_| served);
        let (mut events, mut bytes) = (Vec::new(), 0);
        let mut kept = Vec::new();
        for span in spans {
            kept.extend(self.kept_of(span));
            for event in self.kept_events(span) {
                if events.len() >= PULLED_MAX || bytes >= PULLED_BYTES_MAX {
                    break;
                }
                bytes += wire::event_bytes(&event);
                events.push(event);
            }
        }
        self.events.serve_budget.take(self.now, bytes);
        let frames = self.value_frames(events, kept);
        self.answer(stream, &frames, out);
    }

    fn kept_events(&self, span: &EventSpan) -> Vec<Arc<UserEvent>> {
        match span.delivery {
            Delivery::AtLeastOnce => {
                let events = self.events.keep.span(span).take(PULLED_MAX);
                events.cloned().collect()
            }
            Delivery::AtMostOnce => {
                let single = self.events.keep.get(&EventRef {
                    origin: span.origin,
                    generation: span.generation,
                    delivery: span.delivery,
                    sequence: span.first,
                });
                single.cloned().into_iter().collect()
            }
        }
    }

    /// What is kept of a sequence of events that are sent at least once.
    fn kept_of(&self, span: &EventSpan) -> Option<EventSpan> {
        let life = (span.origin, span.generation);
        let last = self.events.book.upto(life);
        if span.delivery != Delivery::AtLeastOnce {
            return None;
        }
        let first = self.events.keep.first_of(life).unwrap_or(last + 1);
        Some(EventSpan {
            first,
            last,
            ..*span
        })
    }

    fn value_frames(&self, events: Vec<Arc<UserEvent>>, kept: Vec<EventSpan>) -> Vec<Message> {
        let mut parts = vec![(Vec::new(), 0)];
        for event in events {
            let bytes = wire::event_bytes(&event);
            let full = |part: &(Vec<_>, usize)| {
                part.1 + bytes > FRAME_EVENT_BYTES || part.0.len() >= EVENTS_PER_MESSAGE_MAX
            };
            if parts.last().is_none_or(full) {
                parts.push((Vec::new(), 0));
            }
            if let Some(part) = parts.last_mut() {
                part.0.push(event);
                part.1 += bytes;
            }
        }
        let (sender, count) = (self.sender(), parts.len());
        let mut kept = Some(kept);
        let frame = |(number, (events, _)): (usize, (Vec<_>, usize))| {
            let last = number + 1 == count;
            let kept = if last { kept.take() } else { None };
            Message::EventValues(EventValues {
                sender,
                events: events.into(),
                kept: kept.unwrap_or_default().into(),
                last,
            })
        };
        parts.into_iter().enumerate().map(frame).collect()
    }

    /// Events have come that were asked for, or somebody had none to give.
    pub(super) fn on_event_values(
        &mut self,
        exchange: ExchangeId,
        member: NameHash,
        values: &EventValues,
        out: &mut Outbox,
    ) {
        self.hear_sender(&values.sender);
        self.note_stream_answer(values.sender.member, out);
        let running = self.events.pulls.running(exchange);
        for event in values.events.iter() {
            let reference = event.event_ref();
            if !running.contains(&Lack::of(&reference)) || reference.sequence == 0 {
                self.reject(Rejection::Event);
                continue;
            }
            self.stats.events.add(EventCount::Pulled, 1);
            if self.take_event(event, member, out) {
                self.follow_announced(event);
            }
        }
        if !values.last {
            return;
        }
        self.exchanges.remove(&exchange);
        for lack in running {
            let pulled = self.judge_pull(&lack, &values.kept);
            self.end_event_pull(&lack, member, pulled, out);
        }
        self.start_event_pulls(out);
    }

    /// What an answer has brought of one sequence.
    fn judge_pull(&self, lack: &Lack, kept: &List<EventSpan, EVENT_SPANS_MAX>) -> Pulled {
        let life = (lack.origin, lack.generation);
        if let Some(sequence) = lack.single {
            let has = self.events.book.has(&EventRef {
                origin: lack.origin,
                generation: lack.generation,
                delivery: Delivery::AtMostOnce,
                sequence,
            });
            return if has { Pulled::All } else { Pulled::Nothing };
        }
        let upto = self.events.book.upto(life);
        if self
            .events
            .pulls
            .wanted(lack)
            .is_none_or(|wanted| wanted <= upto)
        {
            return Pulled::All;
        }
        if self
            .events
            .pulls
            .from(lack)
            .is_some_and(|from| from <= upto)
        {
            return Pulled::Some;
        }
        let of_life = kept
            .iter()
            .find(|span| (span.origin, span.generation) == life);
        match of_life {
            Some(span) if span.last <= upto => Pulled::Denied(None),
            Some(span) if span.first > upto + 1 => Pulled::Denied(Some(span.first)),
            _ => Pulled::Nothing,
        }
    }

    fn end_event_pull(&mut self, lack: &Lack, member: NameHash, pulled: Pulled, out: &mut Outbox) {
        let ended = self.events.pulls.ended(lack, member, pulled, self.now);
        if let Some(first) = ended.and_then(|denials| self.lost_before(lack, &denials)) {
            self.pass_over_lost(lack, first, out);
        }
    }

    /// From where on something is still kept, where what lies before is lost: the origin says so;
    /// or its life is over, and for long nobody of several was found who keeps it.
    fn lost_before(&self, lack: &Lack, denials: &Denials) -> Option<u64> {
        let target = self.target(lack.origin);
        let lives = target.is_some_and(|it| it.generation == lack.generation)
            && self.table.is_active(lack.origin);
        if lives {
            return denials.by_origin;
        }
        let enough = denials.members >= DENIALS_MIN.min(self.table.active().len());
        let lost = enough && denials.lacked_for >= LOST_AFTER;
        lost.then(|| denials.first.unwrap_or(u64::MAX))
    }

    /// What lies before `first` is kept nowhere any more.
    fn pass_over_lost(&mut self, lack: &Lack, first: u64, out: &mut Outbox) {
        let life = (lack.origin, lack.generation);
        let last = first.checked_sub(1).filter(|_| first < u64::MAX);
        let upto = last.unwrap_or(u64::MAX);
        let skipped = self.events.book.skip(life, upto, self.now);
        if let Some(skipped) = skipped {
            let (first, last) = (skipped.first, skipped.last);
            self.stats.events.add(EventCount::Missed, last + 1 - first);
            let first = EventRef {
                origin: life.0,
                generation: life.1,
                delivery: Delivery::AtLeastOnce,
                sequence: first,
            };
            out.events.push(Event::UserMissed { first, last });
            self.hand_out(skipped.out, out);
        }
        self.events.pulls.start_anew(lack);
        self.drop_filled();
        // All before it may be durable already: then so is this.
        self.on_stored(&[], out);
    }

    /// A pull has failed: another member is asked.
    pub(super) fn on_event_pull_failed(&mut self, exchange: ExchangeId, member: NameHash) {
        for lack in self.events.pulls.running(exchange) {
            let pulls = &mut self.events.pulls;
            pulls.ended(&lack, member, Pulled::Nothing, self.now);
        }
    }
}
