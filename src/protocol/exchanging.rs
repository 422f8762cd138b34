//! Exchanges that this node begins: the digest, what follows from the answers, and when the next
//! one comes.

use std::net::SocketAddr;
use std::time::Duration;

use rand::seq::IndexedRandom;
use rand::{Rng, RngExt};

use super::config::Spreading;
use super::digest;
use super::exchange::{Path, Running};
use super::probe::Purpose;
use super::serving::{DATAGRAMS_MAX, Part, Parts};
use super::streams::{Exchange, TABLE_TIMEOUT};
use super::updates::Source;
use super::{ExchangeId, Life, Node, Outbox, Timer};
use crate::member::NameHash;
use crate::wire::{Advice, Ask, Delta, Difference, Digest, List, Message, Salt, ShortId};

/// Records moved from which on the same two exchange again, because more may have come meanwhile.
const BULK: usize = 16;
/// How often they do, at most, and how soon.
const FOLLOW_UPS_MAX: u8 = 6;
const FOLLOW_UP: Duration = Duration::from_millis(100);
/// Records asked for by datagram: their answer should fit a few.
const WANTED_BY_DATAGRAM_MAX: usize = 64;

/// What an answer came by.
#[derive(Clone, Copy, Debug)]
pub(super) enum AnsweredBy {
    /// A datagram from here.
    Datagram(SocketAddr),
    /// This stream.
    Stream(ExchangeId),
}

impl Node {
    /// Begins an exchange with `member`, which the repair has granted.
    pub(super) fn start_exchange(&mut self, member: NameHash, path: Path, out: &mut Outbox) {
        self.begin_exchange(member, path, FOLLOW_UPS_MAX, out);
    }

    fn begin_exchange(&mut self, member: NameHash, path: Path, follow_ups: u8, out: &mut Outbox) {
        self.stats.exchanges += 1;
        let salt = Salt(self.rngs.exchange.next_u64());
        self.running = Some(Running::new(member, salt, path, follow_ups));
        self.send_digest(out);
    }

    /// Asks how the tables differ, on the present path.
    fn send_digest(&mut self, out: &mut Outbox) {
        let Some(running) = &self.running else {
            return;
        };
        let digest = Digest {
            sender: self.sender(),
            ask: Ask(self.rngs.exchange.next_u32()),
            cookie: running.cookie,
            salt: running.salt,
            summary: digest::summary(running.salt, &self.told_records()),
            extensions: List::default(),
        };
        let path = running.path();
        self.ask_partner(digest.ask, path, &[Message::Digest(digest)], out);
    }

    /// Sends a question; gives the exchange up when that cannot be.
    fn ask_partner(&mut self, ask: Ask, path: Path, messages: &[Message], out: &mut Outbox) {
        let Some(member) = self.running.as_ref().map(|running| running.member) else {
            return;
        };
        let Some(to) = self.address_of(member) else {
            return self.give_up();
        };
        let stream = (path == Path::Streams).then(|| self.new_exchange_id());
        let granted = self.running.as_mut().is_some_and(|it| it.ask(ask, stream));
        if !granted {
            return self.give_up();
        }
        match stream {
            Some(stream) => {
                let purpose = Exchange::Tables;
                self.open_exchange(stream, purpose, to, messages, TABLE_TIMEOUT, out);
            }
            None => messages.iter().for_each(|it| self.send(to, it, out)),
        }
        self.await_answer();
    }

    fn await_answer(&mut self) {
        let Some(running) = &self.running else {
            return;
        };
        let contact = self.contact(running.member);
        let round_trip = contact.and_then(|contact| contact.round_trip.mean());
        let patience = running.patience(round_trip);
        self.timers.set(Timer::Exchange, self.now, patience);
    }

    /// Nothing has come for too long.
    pub(super) fn on_exchange_silent(&mut self, out: &mut Outbox) {
        match self.running.as_mut().map(Running::try_again) {
            Some(true) => self.send_digest(out),
            Some(false) => self.give_up(),
            None => {}
        }
    }

    /// A stream of an exchange has ended.
    pub(super) fn on_table_stream_ended(&mut self, stream: ExchangeId, out: &mut Outbox) {
        if self.running.as_ref().is_some_and(|it| it.awaits(stream)) {
            self.on_exchange_silent(out);
        }
    }

    /// The member has too much to do: the next difference will be seen with another one.
    pub(super) fn on_exchange_busy(&mut self, stream: ExchangeId) {
        if self.running.as_ref().is_some_and(|it| it.awaits(stream)) {
            self.give_up();
        }
    }

    /// The exchange has failed.
    fn give_up(&mut self) {
        self.timers.cancel(Timer::Exchange);
        if let Some(running) = self.running.take() {
            self.stats.exchanges_failed += 1;
            self.note_exchange_failed(running.member);
            self.repair.ended(self.now, running.moved);
        }
    }

    /// The exchange is complete.
    fn finish(&mut self) {
        self.timers.cancel(Timer::Exchange);
        let Some(running) = self.running.take() else {
            return;
        };
        self.repair.ended(self.now, running.moved);
        self.stats.exchanged_records += running.moved as u64;
        if running.moved == 0 {
            self.stats.exchanges_needless += 1;
        }
        if running.moved >= BULK && running.follow_ups > 0 {
            self.repair.follow_up = Some((running.member, running.follow_ups - 1));
            self.timers.set(Timer::FollowUp, self.now, FOLLOW_UP);
        }
    }

    /// Much was moved a moment ago: the same again, unless another exchange runs.
    pub(super) fn on_follow_up(&mut self, out: &mut Outbox) {
        if let Some((member, left)) = self.repair.follow_up.take()
            && self.repair.begin()
        {
            self.begin_exchange(member, Path::Datagrams, left, out);
        }
    }

    /// The partner says how the tables differ.
    pub(super) fn on_difference(&mut self, by: AnsweredBy, answer: &Difference, out: &mut Outbox) {
        if !self.awaits_answer(by, answer) {
            return self.reject_unsolicited();
        }
        self.hear_sender(&answer.sender);
        self.note_stream_answer(answer.sender.member, out);
        let adopted = self.adopt_records(&answer.records, Source::Told, out);
        let Some(running) = &mut self.running else {
            return;
        };
        let had_cookie = running.cookie.replace(answer.cookie).is_some();
        let adopted_there = (answer.adopted as usize).min(running.told);
        running.told -= adopted_there;
        running.moved += adopted + adopted_there;
        match answer.advice {
            Advice::GoOn => self.go_on(answer, out),
            Advice::ProveAddress if !had_cookie && running.path() == Path::Datagrams => {
                running.start_over();
                self.send_digest(out);
            }
            Advice::ProveAddress | Advice::UseStream => {
                if running.use_streams() {
                    self.send_digest(out);
                } else {
                    self.give_up();
                }
            }
        }
    }

    fn awaits_answer(&mut self, by: AnsweredBy, answer: &Difference) -> bool {
        let Some(member) = self.running.as_ref().map(|running| running.member) else {
            return false;
        };
        let address = self.address_of(member);
        let Some(running) = &mut self.running else {
            return false;
        };
        let from_partner = match by {
            AnsweredBy::Datagram(from) => member == answer.sender.member && address == Some(from),
            // At a recorded address another member may listen by now: then it is the partner.
            AnsweredBy::Stream(stream) => running.awaits(stream),
        };
        from_partner && running.answered(answer.ask, answer.place)
    }

    fn go_on(&mut self, answer: &Difference, out: &mut Outbox) {
        let Some(salt) = self.running.as_ref().map(|running| running.salt) else {
            return;
        };
        if !answer.wanted.is_empty() || !answer.buckets.is_empty() {
            let table = self.told_records();
            let mut lacking = digest::compare_buckets(salt, &table, &answer.buckets);
            lacking
                .there
                .extend(digest::find(salt, &table, &answer.wanted));
            if !lacking.there.is_empty() || !lacking.here.is_empty() {
                self.send_delta(salt, &lacking.there, lacking.here, out);
            }
        }
        match &self.running {
            Some(running) if running.is_done() => self.finish(),
            Some(_) => self.await_answer(),
            None => {}
        }
    }

    /// Tells the records of `members`, and asks for `wanted`: in datagrams if they are few.
    fn send_delta(
        &mut self,
        salt: Salt,
        members: &[NameHash],
        wanted: Vec<ShortId>,
        out: &mut Outbox,
    ) {
        let Some(running) = &mut self.running else {
            return;
        };
        running.told += members.len();
        let path = running.path();
        if path == Path::Datagrams && wanted.len() <= WANTED_BY_DATAGRAM_MAX {
            let parts = Parts::for_datagrams(self.datagram_budget());
            let parts = self.filled(parts, members, wanted.clone());
            if let Some(parts) = parts.few(DATAGRAMS_MAX) {
                for part in parts {
                    let ask = Ask(self.rngs.exchange.next_u32());
                    let delta = self.delta(salt, ask, part, true);
                    self.ask_partner(ask, Path::Datagrams, &[delta], out);
                }
                return;
            }
        }
        let ask = Ask(self.rngs.exchange.next_u32());
        let parts = self.filled(Parts::for_frames(), members, wanted).all();
        let last = parts.len() - 1;
        let frames: Vec<Message> = parts
            .into_iter()
            .enumerate()
            .map(|(number, part)| self.delta(salt, ask, part, number == last))
            .collect();
        self.ask_partner(ask, Path::Streams, &frames, out);
    }

    /// The records first: what is asked for belongs into the last part.
    fn filled(&self, mut parts: Parts, members: &[NameHash], wanted: Vec<ShortId>) -> Parts {
        for entry in members.iter().filter_map(|&member| self.table.get(member)) {
            parts.put_record(self.record_update(entry));
        }
        parts.put_wanted(wanted);
        parts
    }

    fn delta(&self, salt: Salt, ask: Ask, part: Part, last: bool) -> Message {
        Message::Delta(Delta {
            sender: self.sender(),
            ask,
            cookie: self.running.as_ref().and_then(|running| running.cookie),
            salt,
            wanted: part.wanted.into(),
            records: part.records.into(),
            last,
            extensions: List::default(),
        })
    }

    /// After a batch of changes: has a look whether it has reached everybody, once it is over.
    pub(super) fn arm_settle(&mut self) {
        if self.config.spreading == Spreading::Infection {
            return;
        }
        let (revision, changed_at) = (self.table.revision(), self.table.changed_at());
        if self.settle.count(revision) && self.timers.deadline(Timer::Settle).is_none() {
            let due = changed_at + self.config.quiet;
            self.timers
                .set(Timer::Settle, self.now, due.since(self.now));
        }
    }

    /// The batch may be over.
    pub(super) fn on_settle(&mut self, out: &mut Outbox) {
        let quiet = self.config.quiet;
        let over = self.table.changed_at() + quiet;
        if self.now < over {
            self.timers
                .set(Timer::Settle, self.now, over.since(self.now));
            return;
        }
        if self.life == Life::Ready {
            self.check_random_member(out);
        }
        if self.settle.checked() {
            let pause = quiet.mul_f64(self.rngs.exchange.random_range(0.5..0.8));
            self.timers.set(Timer::Settle, self.now, pause);
        }
    }

    /// Tables were seen to be equal.
    pub(super) fn note_equal_tables(&mut self) {
        if self.settle.is_over() {
            self.timers.cancel(Timer::Settle);
        }
    }

    /// Compares tables with a random member, by a ping.
    pub(super) fn check_random_member(&mut self, out: &mut Outbox) {
        let chosen = self.table.active().choose(&mut self.rngs.exchange).copied();
        if let Some(member) = chosen {
            self.ping(member, Purpose::Check, out);
        }
    }
}
