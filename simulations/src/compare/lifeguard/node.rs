//! One member of SWIM or Lifeguard: its table, its probes, its suspicions.

mod claims;

use std::collections::BTreeMap;
use std::time::Duration;

use rand::RngExt;
use rand::rngs::Xoshiro256PlusPlus;
use rand::seq::SliceRandom;
use rumord::time::Instant;

use super::message::{Kind, Message, Update};
use super::news::News;
use super::settings::Settings;
use crate::compare::contender::{Member, View};

/// How long news is still sent to the dead, as in memberlist.
const DEAD_ARE_TOLD: Duration = Duration::from_secs(30);
/// When a helper says that it had no answer, as a share of the time for a direct ping.
const NACK_AFTER: f64 = 0.8;

/// Something that a member wants to do later.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Timer {
    /// A probe is over, and the next begins.
    Probe,
    /// The direct ping of the probe of this number has taken too long.
    Direct(u32),
    /// A ping for another has taken too long.
    Relay(u32),
    /// A suspicion may be old enough for a verdict.
    Suspicion(Member),
    /// News is sent by itself.
    Gossip,
    /// A table is exchanged.
    Exchange,
}

/// What a member wants done.
#[derive(Debug, Default)]
pub struct Out {
    /// Messages, and to whom.
    pub sends: Vec<(Member, Message)>,
    /// Timers.
    pub timers: Vec<(Instant, Timer)>,
    /// Members to exchange tables with.
    pub exchanges: Vec<Member>,
    /// Views that have changed, and why where by the member's own judgement.
    pub changes: Vec<(Member, View, Option<String>)>,
}

/// What is known of another.
#[derive(Clone, Debug)]
struct Entry {
    view: View,
    incarnation: u32,
    /// Since when.
    since: Instant,
    /// Who suspects it: the first, and those that have confirmed it.
    accusers: Vec<Member>,
    /// When the suspicion is a verdict.
    ends: Instant,
}

#[derive(Clone, Copy, Debug)]
struct Probe {
    target: Member,
    number: u32,
    answered: bool,
    nacks_due: u32,
    nacks: u32,
}

/// A member.
pub struct Node {
    settings: Settings,
    me: Member,
    incarnation: u32,
    table: Vec<Option<Entry>>,
    order: Vec<Member>,
    place: usize,
    health: u32,
    number: u32,
    probe: Option<Probe>,
    /// Pings for others: who asked, and the number there.
    relays: BTreeMap<u32, (Member, u32)>,
    news: News,
    rng: Xoshiro256PlusPlus,
}

impl Node {
    /// A member that knows nobody.
    #[must_use]
    pub fn new(settings: Settings, me: Member, incarnation: u32, rng: Xoshiro256PlusPlus) -> Self {
        Node {
            settings,
            me,
            incarnation,
            table: Vec::new(),
            order: Vec::new(),
            place: 0,
            health: 0,
            number: 0,
            probe: None,
            relays: BTreeMap::new(),
            news: News::default(),
            rng,
        }
    }

    /// Its present incarnation.
    #[must_use]
    pub fn incarnation(&self) -> u32 {
        self.incarnation
    }

    /// What it holds of another: the view, and the incarnation.
    #[must_use]
    pub fn shows(&self, other: Member) -> Option<(View, u32)> {
        let entry = self.table.get(other.0)?.as_ref()?;
        Some((entry.view, entry.incarnation))
    }

    /// Whether it knows anybody.
    #[must_use]
    pub fn is_alone(&self) -> bool {
        self.order.is_empty()
    }

    /// Knows another from the start.
    pub fn know(&mut self, other: Member, incarnation: u32, now: Instant) {
        if other == self.me {
            return;
        }
        if self.table.len() <= other.0 {
            self.table.resize(other.0 + 1, None);
        }
        self.table[other.0] = Some(Entry {
            view: View::Alive,
            incarnation,
            since: now,
            accusers: Vec::new(),
            ends: now,
        });
        let place = self.rng.random_range(0..=self.order.len());
        self.order.insert(place, other);
    }

    /// Begins: everything recurring starts at a moment of its own.
    pub fn begin(&mut self, now: Instant, out: &mut Out) {
        let mut first = |period: Duration, timer: Timer| {
            let at = now + period.mul_f64(self.rng.random::<f64>());
            out.timers.push((at, timer));
        };
        first(self.settings.period, Timer::Probe);
        if let Some((period, _)) = self.settings.gossip {
            first(period, Timer::Gossip);
        }
        if let Some(period) = self.settings.exchange_period(self.table.len()) {
            first(period, Timer::Exchange);
        }
    }

    /// Members that it knows, itself and the dead included.
    fn members(&self) -> usize {
        self.order.len() + 1
    }

    /// A timer has run out.
    pub fn fire(&mut self, now: Instant, timer: Timer, out: &mut Out) {
        match timer {
            Timer::Probe => {
                self.conclude(now, out);
                self.begin_probe(now, out);
            }
            Timer::Direct(number) => self.ask_helpers(number, out),
            Timer::Relay(number) => {
                let relay = self.relays.remove(&number);
                if let Some((asker, number)) = relay.filter(|_| self.settings.nacks) {
                    self.send(asker, Kind::Nack, number, out);
                }
            }
            Timer::Suspicion(subject) => self.judge(now, subject, out),
            Timer::Gossip => self.gossip(now, out),
            Timer::Exchange => {
                let peer = self.some(1, |_, entry| entry.view == View::Alive);
                out.exchanges.extend(peer);
                if let Some(period) = self.settings.exchange_period(self.members()) {
                    out.timers.push((now + period, Timer::Exchange));
                }
            }
        }
    }

    fn scaled(&self, length: Duration) -> Duration {
        length * (self.health + 1)
    }

    /// The local health multiplier rises with what this member fails at, and falls with successes.
    fn adjust_health(&mut self, by: i64) {
        let health = i64::from(self.health) + by;
        self.health = health.clamp(0, i64::from(self.settings.health_max)) as u32;
    }

    fn begin_probe(&mut self, now: Instant, out: &mut Out) {
        let next = now + self.scaled(self.settings.period);
        out.timers.push((next, Timer::Probe));
        let Some(target) = self.next_target() else {
            return;
        };
        self.number += 1;
        self.probe = Some(Probe {
            target,
            number: self.number,
            answered: false,
            nacks_due: 0,
            nacks: 0,
        });
        self.ping(target, self.number, out);
        let late = now + self.scaled(self.settings.direct);
        out.timers.push((late, Timer::Direct(self.number)));
    }

    /// Round-robin over a shuffled list: SWIM, section 4.3.
    fn next_target(&mut self) -> Option<Member> {
        for _ in 0..=self.order.len() {
            if self.place >= self.order.len() {
                self.place = 0;
                self.order.shuffle(&mut self.rng);
            }
            let target = *self.order.get(self.place)?;
            self.place += 1;
            if self
                .shows(target)
                .is_some_and(|(view, _)| view != View::Dead)
            {
                return Some(target);
            }
        }
        None
    }

    fn ping(&mut self, target: Member, number: u32, out: &mut Out) {
        let mut updates = self.next_news();
        if let Some((View::Suspect, incarnation)) = self.shows(target)
            && self.settings.buddy
        {
            updates.retain(|update| update.subject != target);
            updates.truncate(self.settings.piggyback - 1);
            updates.insert(
                0,
                Update {
                    subject: target,
                    view: View::Suspect,
                    incarnation,
                    accuser: self.me,
                },
            );
        }
        let kind = Kind::Ping;
        let message = Message {
            kind,
            number,
            updates,
        };
        out.sends.push((target, message));
    }

    fn next_news(&mut self) -> Vec<Update> {
        let limit = self.settings.retransmit.of(self.members());
        self.news.next(self.settings.piggyback, limit)
    }

    fn send(&mut self, to: Member, kind: Kind, number: u32, out: &mut Out) {
        let updates = self.next_news();
        let message = Message {
            kind,
            number,
            updates,
        };
        out.sends.push((to, message));
    }

    fn ask_helpers(&mut self, number: u32, out: &mut Out) {
        let waiting = |probe: &Probe| probe.number == number && !probe.answered;
        let Some(target) = self.probe.filter(waiting).map(|probe| probe.target) else {
            return;
        };
        let fit = |other, entry: &Entry| other != target && entry.view == View::Alive;
        let helpers = self.some(self.settings.helpers, fit);
        if let Some(probe) = self.probe.as_mut().filter(|_| self.settings.nacks) {
            probe.nacks_due = helpers.len() as u32;
        }
        for helper in helpers {
            self.send(helper, Kind::PingReq(target), number, out);
        }
    }

    /// The probe's time is over.
    fn conclude(&mut self, now: Instant, out: &mut Out) {
        let Some(probe) = self.probe.take().filter(|probe| !probe.answered) else {
            return;
        };
        let missing = probe.nacks_due.saturating_sub(probe.nacks);
        self.adjust_health(match probe.nacks_due {
            0 => 1,
            _ => i64::from(missing),
        });
        if let Some((view, incarnation)) = self.shows(probe.target)
            && view != View::Dead
        {
            let update = Update {
                subject: probe.target,
                view: View::Suspect,
                incarnation,
                accuser: self.me,
            };
            self.hear(now, update, out);
        }
    }

    /// A message has come.
    pub fn handle(&mut self, now: Instant, from: Member, message: &Message, out: &mut Out) {
        for &update in &message.updates {
            self.hear(now, update, out);
        }
        let number = message.number;
        match message.kind {
            Kind::Ping => self.send(from, Kind::Ack, number, out),
            Kind::Ack => self.on_ack(number, out),
            Kind::PingReq(target) => {
                self.number += 1;
                self.relays.insert(self.number, (from, number));
                self.ping(target, self.number, out);
                let share = if self.settings.nacks { NACK_AFTER } else { 1.0 };
                let late = now + self.settings.direct.mul_f64(share);
                out.timers.push((late, Timer::Relay(self.number)));
            }
            Kind::Nack => {
                if let Some(probe) = self.probe.as_mut().filter(|probe| probe.number == number) {
                    probe.nacks += 1;
                }
            }
            Kind::Gossip => {}
        }
    }

    fn on_ack(&mut self, number: u32, out: &mut Out) {
        if let Some(probe) = self.probe.as_mut().filter(|probe| probe.number == number) {
            if !probe.answered {
                probe.answered = true;
                self.adjust_health(-1);
            }
        } else if let Some((asker, number)) = self.relays.remove(&number) {
            self.send(asker, Kind::Ack, number, out);
        }
    }

    fn gossip(&mut self, now: Instant, out: &mut Out) {
        let Some((period, count)) = self.settings.gossip else {
            return;
        };
        out.timers.push((now + period, Timer::Gossip));
        if self.news.is_empty() {
            return;
        }
        let told =
            |_, entry: &Entry| entry.view != View::Dead || now.since(entry.since) < DEAD_ARE_TOLD;
        for peer in self.some(count, told) {
            self.send(peer, Kind::Gossip, 0, out);
        }
    }

    /// Some others at random that are fit for something.
    fn some(&mut self, count: usize, fit: impl Fn(Member, &Entry) -> bool) -> Vec<Member> {
        let mut chosen = Vec::new();
        for _ in 0..3 * self.order.len() {
            if chosen.len() == count {
                break;
            }
            let other = self.order[self.rng.random_range(0..self.order.len())];
            let entry = self.table.get(other.0).and_then(Option::as_ref);
            if entry.is_some_and(|entry| fit(other, entry)) && !chosen.contains(&other) {
                chosen.push(other);
            }
        }
        chosen
    }
}
