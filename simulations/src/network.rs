//! What becomes of each datagram, and the books about it.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use rand::RngExt;
use rand::rngs::Xoshiro256PlusPlus;
use rumord::time::Instant;

use crate::forks::{Consumer, fork};
use crate::link::{BurstState, Link, Loss};
use crate::rules::{Carried, Hosts, Rule, RuleId, Rules, Ruling};

/// How long a stream stands still when a segment is lost.
const RETRANSMISSION: Duration = Duration::from_millis(200);
/// Bytes that are under way on a stream at a time; one flight stalls as a whole.
const FLIGHT_BYTES: usize = 14_600;
/// Segments of a full flight.
const FLIGHT_SEGMENTS: f64 = 10.0;
/// Retransmissions of one flight after which it is let through: 30 % loss needs five at most.
const STALLS_MAX: u32 = 16;
/// Time for one byte at 1 Gbit/s.
const NANOS_PER_BYTE: u64 = 8;

/// Whether a datagram is what was sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Content {
    /// It is.
    Intact,
    /// One of its bytes was changed.
    Damaged,
}

/// One datagram under way.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Packet {
    /// The sender's address.
    pub from: SocketAddr,
    /// Where it goes.
    pub to: SocketAddr,
    /// What it holds.
    pub payload: Vec<u8>,
    /// Whether that is what was sent.
    pub content: Content,
}

/// Why a datagram did not arrive.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Dropped {
    /// The link lost it.
    Loss,
    /// A rule lost it.
    Cut,
    /// It was longer than the link takes.
    TooLong,
    /// No process listens there.
    NoListener,
    /// The receiver's socket was full.
    SocketFull,
    /// The receiver was in an outage.
    Outage,
}

impl Dropped {
    /// The word for it in a trace.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Dropped::Loss => "loss",
            Dropped::Cut => "cut",
            Dropped::TooLong => "too-long",
            Dropped::NoListener => "no-listener",
            Dropped::SocketFull => "socket-full",
            Dropped::Outage => "outage",
        }
    }
}

/// What happened to a datagram when it was sent.
#[derive(Debug)]
pub enum Sending {
    /// It arrives then; and so does its duplicate, if the link made one.
    UnderWay((Instant, Packet), Option<Box<(Instant, Packet)>>),
    /// It does not arrive.
    Dropped(Dropped),
    /// It waits for a rule to be lifted.
    Held,
}

/// The books: what was sent, and where it went.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Datagrams sent.
    pub sent: u64,
    /// Payload bytes of the datagrams sent.
    pub bytes: u64,
    /// Copies made by links.
    pub duplicated: u64,
    /// Datagrams handed to a node.
    pub delivered: u64,
    /// Datagrams that did not arrive, by reason.
    pub dropped: BTreeMap<Dropped, u64>,
    /// Damaged ones among those sent.
    pub damaged: u64,
    /// Overtaking ones among those sent.
    pub delayed: u64,
}

impl Tally {
    /// Datagrams that must be under way: sent or copied, and neither delivered nor dropped.
    #[must_use]
    pub fn open(&self) -> u64 {
        let dropped: u64 = self.dropped.values().sum();
        (self.sent + self.duplicated).saturating_sub(self.delivered + dropped)
    }
}

/// The network between all addresses.
pub struct Network {
    usual: Link,
    special: Vec<(Hosts, Hosts, Link)>,
    rules: Rules,
    bursts: BTreeMap<(SocketAddr, SocketAddr), BurstState>,
    held: Vec<Packet>,
    tally: Tally,
    rngs: Rngs,
}

struct Rngs {
    latency: Xoshiro256PlusPlus,
    loss: Xoshiro256PlusPlus,
    bursts: Xoshiro256PlusPlus,
    mischief: Xoshiro256PlusPlus,
    streams: Xoshiro256PlusPlus,
}

impl Network {
    /// A network in which every link is `usual`.
    #[must_use]
    pub fn new(seed: u64, usual: Link) -> Self {
        Network {
            usual,
            special: Vec::new(),
            rules: Rules::default(),
            bursts: BTreeMap::new(),
            held: Vec::new(),
            tally: Tally::default(),
            rngs: Rngs {
                latency: fork(seed, Consumer::Latency),
                loss: fork(seed, Consumer::Loss),
                bursts: fork(seed, Consumer::Bursts),
                mischief: fork(seed, Consumer::Mischief),
                streams: fork(seed, Consumer::Streams),
            },
        }
    }

    /// Replaces the link from `from` to `to`, in this direction; what is said last counts.
    pub fn set_link(&mut self, from: Hosts, to: Hosts, link: Link) {
        self.special.push((from, to, link));
    }

    /// Replaces the link between all hosts that have no special one.
    pub fn set_usual_link(&mut self, link: Link) {
        self.usual = link;
    }

    /// The rules in force.
    #[must_use]
    pub fn rules(&self) -> &Rules {
        &self.rules
    }

    /// Lays a rule.
    pub fn lay(&mut self, rule: Rule) -> RuleId {
        self.rules.lay(rule)
    }

    /// Lifts a rule, and returns the datagrams that nothing holds any more: they are to be sent
    /// again, with [`resend`](Network::resend).
    pub fn lift(&mut self, id: RuleId) -> Vec<Packet> {
        self.rules.lift(id);
        let rules = &self.rules;
        let holds = |packet: &Packet| {
            rules.ruling(packet.from, packet.to, Carried::Datagrams) == Ruling::Hold
        };
        let (held, released) = self.held.drain(..).partition(holds);
        self.held = held;
        released
    }

    /// The books.
    #[must_use]
    pub fn tally(&self) -> &Tally {
        &self.tally
    }

    /// Datagrams kept back by rules.
    #[must_use]
    pub fn held(&self) -> usize {
        self.held.len()
    }

    /// A node sends `packet`.
    pub fn send(&mut self, now: Instant, packet: Packet) -> Sending {
        self.tally.sent += 1;
        self.tally.bytes += packet.payload.len() as u64;
        self.resend(now, packet)
    }

    /// Decides what becomes of a datagram that counts as sent already.
    pub fn resend(&mut self, now: Instant, packet: Packet) -> Sending {
        let link = self.link(packet.from, packet.to);
        if packet.payload.len() > link.datagram_bytes_max {
            return Sending::Dropped(self.drop(Dropped::TooLong));
        }
        match self
            .rules
            .ruling(packet.from, packet.to, Carried::Datagrams)
        {
            Ruling::Hold => {
                self.held.push(packet);
                return Sending::Held;
            }
            Ruling::Lose(share) => {
                if share > 0.0 && self.rngs.loss.random_bool(share) {
                    return Sending::Dropped(self.drop(Dropped::Cut));
                }
            }
        }
        if self.is_lost(&link, &packet, now) {
            return Sending::Dropped(self.drop(Dropped::Loss));
        }
        let copy = self.duplicate(&link, &packet);
        let arrival = self.dispatch(&link, packet, now);
        let again = copy.map(|packet| Box::new(self.dispatch(&link, packet, now)));
        Sending::UnderWay(arrival, again)
    }

    /// Notes that a datagram did not arrive, and returns the reason.
    pub fn drop(&mut self, reason: Dropped) -> Dropped {
        *self.tally.dropped.entry(reason).or_insert(0) += 1;
        reason
    }

    /// Notes that a node was handed a datagram.
    pub fn note_delivered(&mut self) {
        self.tally.delivered += 1;
    }

    fn link(&self, from: SocketAddr, to: SocketAddr) -> Link {
        let special = self
            .special
            .iter()
            .rev()
            .find(|(sender, receiver, _)| sender.contain(from) && receiver.contain(to));
        special.map_or(self.usual, |(_, _, link)| *link)
    }

    fn is_lost(&mut self, link: &Link, packet: &Packet, now: Instant) -> bool {
        let share = match &link.loss {
            Loss::Independent(share) => *share,
            Loss::Bursty(bursts) => self
                .bursts
                .entry((packet.from, packet.to))
                .or_insert_with(|| BurstState::new(bursts, now, &mut self.rngs.bursts))
                .loss(bursts, now, &mut self.rngs.bursts),
        };
        share > 0.0 && self.rngs.loss.random_bool(share)
    }

    fn duplicate(&mut self, link: &Link, packet: &Packet) -> Option<Packet> {
        let again = link.duplicated > 0.0 && self.rngs.mischief.random_bool(link.duplicated);
        self.tally.duplicated += u64::from(again);
        again.then(|| packet.clone())
    }

    fn dispatch(&mut self, link: &Link, mut packet: Packet, now: Instant) -> (Instant, Packet) {
        let mut delay = link.latency.draw(&mut self.rngs.latency);
        if link.reordered > 0.0 && self.rngs.mischief.random_bool(link.reordered) {
            let part = self.rngs.mischief.random::<f64>();
            delay += link.reordered_by.mul_f64(part);
            self.tally.delayed += 1;
        }
        if link.corrupted > 0.0 && self.rngs.mischief.random_bool(link.corrupted) {
            damage(&mut packet.payload, &mut self.rngs.mischief);
            packet.content = Content::Damaged;
            self.tally.damaged += 1;
        }
        (now + delay, packet)
    }

    /// How long `bytes` take over a stream in one direction, stalls included.
    pub fn stream_delay(&mut self, from: SocketAddr, to: SocketAddr, bytes: usize) -> Duration {
        let link = self.link(from, to);
        let ruled = match self.rules.ruling(from, to, Carried::Streams) {
            Ruling::Lose(share) => share,
            Ruling::Hold => 0.0,
        };
        let loss = 1.0 - (1.0 - link.loss.share()) * (1.0 - ruled);
        let mut delay = link.latency.draw(&mut self.rngs.streams);
        delay += Duration::from_nanos(bytes as u64 * NANOS_PER_BYTE);
        let full = bytes / FLIGHT_BYTES;
        let rest = (bytes % FLIGHT_BYTES) as f64 / FLIGHT_BYTES as f64 * FLIGHT_SEGMENTS;
        let segments = std::iter::repeat_n(FLIGHT_SEGMENTS, full).chain([rest.max(1.0)]);
        for flight in segments {
            delay += RETRANSMISSION * self.stalls(loss, flight);
        }
        delay
    }

    /// How many times a flight of `segments` stalls until its last segment is through.
    fn stalls(&mut self, loss: f64, segments: f64) -> u32 {
        let mut stalls = 0;
        let mut share = loss;
        // After k stalls all is through with probability (1 - loss^(k+1))^segments.
        let drawn = if loss > 0.0 {
            self.rngs.streams.random::<f64>()
        } else {
            0.0
        };
        while stalls < STALLS_MAX && drawn > libm::pow(1.0 - share, segments) {
            stalls += 1;
            share *= loss;
        }
        stalls
    }
}

fn damage(payload: &mut [u8], rng: &mut Xoshiro256PlusPlus) {
    if payload.is_empty() {
        return;
    }
    let place = rng.random_range(0..payload.len());
    payload[place] ^= rng.random_range(1..=u8::MAX);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::Effect;

    fn packet(bytes: usize) -> Packet {
        Packet {
            from: ([10, 0, 0, 1], 1).into(),
            to: ([10, 0, 0, 2], 1).into(),
            payload: vec![0; bytes],
            content: Content::Intact,
        }
    }

    #[test]
    fn every_datagram_is_accounted_for() {
        let link = Link {
            loss: Loss::Independent(0.2),
            duplicated: 0.1,
            reordered: 0.1,
            reordered_by: Duration::from_millis(10),
            corrupted: 0.1,
            ..Link::LAN
        };
        let mut network = Network::new(1, link);
        let mut arrived = 0;
        for _ in 0..10_000 {
            if let Sending::UnderWay(_, again) = network.send(Instant::ORIGIN, packet(100)) {
                arrived += 1 + u64::from(again.is_some());
            }
        }
        let tally = network.tally();
        assert_eq!(tally.open(), arrived);
        let lost = tally.dropped[&Dropped::Loss];
        assert!((1800..2200).contains(&lost), "{lost}");
        for count in [tally.duplicated, tally.damaged, tally.delayed] {
            assert!((700..1000).contains(&count), "{tally:?}");
        }
    }

    #[test]
    fn what_is_too_long_is_lost_and_what_is_held_comes_later() {
        let mut network = Network::new(1, Link::LAN);
        let long = network.send(Instant::ORIGIN, packet(1473));
        assert!(matches!(long, Sending::Dropped(Dropped::TooLong)));
        let rule = network.lay(Rule {
            from: Hosts::All,
            to: Hosts::All,
            carried: Carried::Datagrams,
            effect: Effect::Hold,
        });
        assert!(matches!(
            network.send(Instant::ORIGIN, packet(9)),
            Sending::Held
        ));
        assert_eq!(network.held(), 1);
        assert_eq!(network.lift(rule), vec![packet(9)]);
        assert_eq!(network.held(), 0);
    }

    #[test]
    fn lost_segments_stall_a_stream() {
        let [from, to]: [SocketAddr; 2] = [1, 2].map(|port| ([10, 0, 0, 1], port).into());
        let mean = |network: &mut Network, bytes| {
            let total: Duration = (0..2000)
                .map(|_| network.stream_delay(from, to, bytes))
                .sum();
            total / 2000
        };
        let mut calm = Network::new(1, Link::LAN);
        assert!(mean(&mut calm, 100) < Duration::from_millis(1));
        let mut lossy = Network::new(1, Link::LAN.losing(0.1));
        // One segment: 0.1 / 0.9 stalls in the mean.
        let short = mean(&mut lossy, 100);
        assert!((15..30).contains(&short.as_millis()), "{short:?}");
        assert!(mean(&mut lossy, 146_000) > 20 * short);
    }
}
