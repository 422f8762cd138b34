//! Telling: what rides on a message, and the prompt push of news.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use rand::seq::IndexedRandom;

use super::dissemination::{self, Form, Round};
use super::stats::{Direction, Transport};
use super::table::Entry;
use super::{ArrivalWindow, Node, Outbox, Timer, Transmit};
use crate::member::{NameHash, Status};
use crate::time::{Instant, nanos};
use crate::wire::{
    self, Fingerprint, Flags, Gossip, HEADER_BYTES, HeartbeatEntry, Holders, List, Message,
    MessageKind, News, PeriodPhase, RecordUpdate, SEALING_BYTES, Sender, StatusUpdate, Update,
};

/// Upper bound of a message's bytes without its updates and heartbeats.
const FIXED_BYTES_MAX: usize = HEADER_BYTES + 76;
/// Updates that are too large for the room that is left, before a message counts as full.
const MISFITS_MAX: usize = 8;
/// How much of the latest changes a message carries beside what rides along anyway.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Fill {
    /// Only what rides along.
    Riders,
    /// The latest changes too, for a peer whose table differs.
    Recent,
}

/// Room for updates in one message, and what has been put there.
pub(super) struct Cargo {
    pub room: usize,
    updates: Vec<Update>,
    members: Vec<NameHash>,
}

impl Cargo {
    fn new(budget: usize) -> Self {
        Cargo {
            room: holders_room(budget),
            updates: Vec::new(),
            members: Vec::new(),
        }
    }

    /// Puts `update` about `member` in, if it is not there and fits; whether it is there now.
    fn put(&mut self, member: NameHash, update: Update) -> bool {
        if self.members.contains(&member) {
            return true;
        }
        let bytes = wire::update_bytes(&update);
        if bytes > self.room || self.updates.len() >= List::<Update, 128>::MAX {
            return false;
        }
        self.room -= bytes;
        self.updates.push(update);
        self.members.push(member);
        true
    }
}

/// Room for saying who holds the table in a message of `budget` bytes that carries nothing else.
pub(super) fn holders_room(budget: usize) -> usize {
    budget.saturating_sub(FIXED_BYTES_MAX)
}

impl Node {
    /// Largest payload before sealing.
    pub(super) fn datagram_budget(&self) -> usize {
        self.config.datagram_bytes_max - SEALING_BYTES
    }

    /// This node as the sender of a message.
    pub(super) fn sender(&self) -> Sender {
        let heartbeat = self.heartbeat();
        Sender {
            member: self.local.hash,
            generation: heartbeat.generation,
            version: heartbeat.version,
        }
    }

    /// Where this node stands in its own periods.
    pub(super) fn period_phase(&self) -> PeriodPhase {
        let begun = self.local.first_period.as_nanos();
        let passed = self.now.as_nanos().saturating_sub(begun);
        let period = nanos(self.config.probe_period).max(1);
        PeriodPhase {
            period: ((passed / period) & 0xffff) as u16,
            phase: ((passed % period) * 65_536 / period) as u16,
        }
    }

    /// Whether the table has not changed for a while.
    pub(super) fn is_quiet(&self) -> bool {
        // Who waits for metadata knows why its table differs.
        self.metadata.pulls.is_idle()
            && self.now.since(self.table.changed_at()) >= self.config.quiet
    }

    /// What rides on a message to `peer` whose payload may have `budget` bytes. An accusation
    /// against the peer comes first: it alone can answer it.
    pub(super) fn gossip(
        &mut self,
        peer: Option<NameHash>,
        budget: usize,
        flags: Flags,
        fill: Fill,
    ) -> Gossip {
        let cargo = Cargo::new(budget);
        self.load(peer, flags, fill, (cargo, Vec::new()))
    }

    /// The same with heartbeats of others: on the pings of the schedule and their acks, which come
    /// at a steady rate, and not on the many messages that a missed answer leads to.
    pub(super) fn gossip_with_heartbeats(
        &mut self,
        peer: Option<NameHash>,
        budget: usize,
        flags: Flags,
        fill: Fill,
    ) -> Gossip {
        let mut cargo = Cargo::new(budget);
        let heartbeats = self.pick_heartbeats(peer, &mut cargo);
        self.load(peer, flags, fill, (cargo, heartbeats))
    }

    fn load(
        &mut self,
        peer: Option<NameHash>,
        flags: Flags,
        fill: Fill,
        (mut cargo, mut heartbeats): (Cargo, Vec<HeartbeatEntry>),
    ) -> Gossip {
        // Who has fallen silent says nothing about anybody.
        if self.is_silent() {
            (cargo, heartbeats) = (Cargo::new(0), Vec::new());
        }
        self.load_accusation(peer, &mut cargo);
        self.load_riders(&mut cargo);
        if fill == Fill::Recent {
            self.load_recent(&mut cargo);
        }
        let events = self.load_events(&mut cargo.room);
        let mut extensions = self.load_reports(&mut cargo.room).into_vec();
        extensions.extend(events);
        // News goes first: who holds a table matters once it rests.
        let holders = self.told_holders(cargo.room);
        Gossip {
            fingerprint: Fingerprint(self.table.fingerprint()),
            flags,
            updates: cargo.updates.into(),
            heartbeats: heartbeats.into(),
            holders,
            extensions: extensions.into(),
        }
    }

    fn load_accusation(&self, peer: Option<NameHash>, cargo: &mut Cargo) {
        let Some((member, entry)) = peer.and_then(|peer| Some((peer, self.table.get(peer)?)))
        else {
            return;
        };
        if entry.record.standing.status != Status::Alive {
            let age = entry.age(self.now);
            let accusation = StatusUpdate::of(member, &entry.record.standing, age);
            cargo.put(member, Update::Status(accusation));
        }
    }

    fn load_riders(&mut self, cargo: &mut Cargo) {
        let mut misfits = 0;
        for (member, form) in self.news.riders() {
            let Some(update) = self.update(member, form) else {
                continue;
            };
            if cargo.put(member, update) {
                self.news.rode(member);
                continue;
            }
            misfits += 1;
            if misfits == MISFITS_MAX {
                break;
            }
        }
    }

    fn load_recent(&self, cargo: &mut Cargo) {
        for member in self.news.recent() {
            if let Some(update) = self.update(member, Form::Record)
                && !cargo.put(member, update)
            {
                break;
            }
        }
    }

    /// The update that tells of `member`; `None` once it is not told any more.
    fn update(&self, member: NameHash, form: Form) -> Option<Update> {
        let entry = self.table.get(member).filter(|entry| entry.listed)?;
        Some(match form {
            Form::Status => {
                let age = entry.age(self.now);
                Update::Status(StatusUpdate::of(member, &entry.record.standing, age))
            }
            Form::Record => self.told(member, entry),
        })
    }

    /// The whole record of an entry, as it is told.
    pub(super) fn record_update(&self, entry: &Entry<ArrivalWindow>) -> RecordUpdate {
        RecordUpdate {
            record: Arc::clone(&entry.record),
            version: entry.version,
            age: entry.age(self.now),
            lease_left: self
                .metadata
                .leases
                .left(entry.record.name.hash(), self.now),
        }
    }

    /// Sends one datagram.
    pub(super) fn send(&mut self, to: SocketAddr, message: &Message, out: &mut Outbox) {
        let payload = wire::encode(self.cluster, message);
        debug_assert!(
            payload.len() <= self.datagram_budget(),
            "a {} of {} bytes",
            message.kind().as_str(),
            payload.len()
        );
        self.count_sent(message.kind(), Transport::Datagram, payload.len());
        out.transmits.push(Transmit::Datagram { to, payload });
    }

    /// Counts a message that goes out.
    pub(super) fn count_sent(&mut self, kind: MessageKind, transport: Transport, bytes: usize) {
        self.stats
            .messages
            .add((Direction::Sent, kind, transport), 1);
        self.stats
            .bytes
            .add((Direction::Sent, transport), bytes as u64);
    }

    /// Sends the latest changes to a peer whose table differs and who could not tell this node
    /// anything new.
    pub(super) fn send_recent(&mut self, peer: NameHash, to: SocketAddr, out: &mut Outbox) {
        let flags = Flags {
            quiet: self.is_quiet(),
        };
        let gossip = self.gossip(Some(peer), self.datagram_budget(), flags, Fill::Recent);
        if !gossip.updates.is_empty() {
            let news = News {
                sender: self.sender(),
                gossip,
            };
            self.send(to, &Message::News(news), out);
        }
    }

    /// Tells `peer` the status this node gives it, so that it can refute at once.
    pub(super) fn send_accusation(&mut self, peer: NameHash, out: &mut Outbox) {
        if let Some(to) = self.address_of(peer) {
            let flags = Flags {
                quiet: self.is_quiet(),
            };
            let gossip = self.gossip(Some(peer), self.datagram_budget(), flags, Fill::Riders);
            let news = News {
                sender: self.sender(),
                gossip,
            };
            self.send(to, &Message::News(news), out);
        }
    }

    /// Tells `peer` this one thing, and nothing beside.
    pub(super) fn send_update(&mut self, peer: NameHash, update: Update, out: &mut Outbox) {
        if let Some(to) = self.address_of(peer) {
            let news = News {
                sender: self.sender(),
                gossip: self.bare_gossip(vec![update]),
            };
            self.send(to, &Message::News(news), out);
        }
    }

    /// These updates, without anything that rides along.
    pub(super) fn bare_gossip(&self, updates: Vec<Update>) -> Gossip {
        Gossip {
            fingerprint: Fingerprint(self.table.fingerprint()),
            flags: Flags {
                quiet: self.is_quiet(),
            },
            updates: updates.into(),
            heartbeats: List::default(),
            holders: Holders::Untold,
            extensions: List::default(),
        }
    }

    /// Sets the push timer to the earliest instant at which news is due, the window since the last
    /// push is over, and the byte budget allows.
    pub(super) fn arm_push(&mut self) {
        let Some(due) = self.news.next_due() else {
            self.timers.cancel(Timer::Push);
            return;
        };
        let window = self.pushed_at + self.config.push_window;
        let budget = self.now + self.push_budget.wait(self.now);
        let at = due.max(window).max(budget);
        if self.timers.deadline(Timer::Push) != Some(at) {
            self.timers.set(Timer::Push, self.now, at.since(self.now));
        }
    }

    /// Pushes what is due: for each round one datagram, the same to all peers of the round.
    pub(super) fn on_push(&mut self, out: &mut Outbox) {
        self.pushed_at = self.now;
        let until = self.now + self.config.push_window / 2;
        for _ in 0..dissemination::ROUNDS_MAX {
            if self.table.active().is_empty() || self.is_silent() {
                self.push_to_nobody(until);
                return;
            }
            let Some((number, batch)) = self.news.due_batch(until) else {
                return;
            };
            self.push_batch(number, &batch, out);
        }
    }

    /// Without peers there is nobody to tell: news is done with.
    fn push_to_nobody(&mut self, until: Instant) {
        while let Some((_, batch)) = self.news.due_batch(until) {
            let members: Vec<NameHash> = batch.into_iter().map(|(member, _)| member).collect();
            self.news.pushed(&members, self.now, Duration::ZERO, 0);
        }
    }

    fn push_batch(&mut self, number: usize, batch: &[(NameHash, Form)], out: &mut Outbox) {
        let rounds = dissemination::rounds(self.table.active().len(), self.misses.share());
        let mut cargo = Cargo::new(self.datagram_budget());
        let mut done = Vec::new();
        for &(member, form) in batch {
            let update = self.update(member, form);
            if update.is_some_and(|update| !cargo.put(member, update)) {
                break;
            }
            done.push(member);
        }
        // Every update fits an empty datagram; if one did not, it would still not hold up others.
        if done.is_empty() {
            done.extend(batch.first().map(|&(member, _)| member));
        }
        self.news
            .pushed(&done, self.now, self.config.push_gap, rounds.len());
        let round = rounds.get(number).or(rounds.last());
        if let (Some(&round), false) = (round, cargo.updates.is_empty()) {
            self.push_to_round(round, cargo.updates, out);
        }
    }

    fn push_to_round(&mut self, round: Round, updates: Vec<Update>, out: &mut Outbox) {
        let message = Message::News(News {
            sender: self.sender(),
            gossip: self.bare_gossip(updates),
        });
        let peers = self.push_peers(round);
        let before = out.transmits.len();
        for peer in peers {
            if let Some(to) = self.address_of(peer) {
                self.send(to, &message, out);
            }
        }
        for transmit in &out.transmits[before..] {
            if let Transmit::Datagram { payload, .. } = transmit {
                self.push_budget.take(self.now, payload.len());
            }
        }
    }

    /// The peers of a round: the next ring members after those of earlier rounds, and random ones.
    /// In a cluster that small it is everybody.
    pub(super) fn push_peers(&mut self, round: Round) -> Vec<NameHash> {
        let active = self.table.active();
        if active.len() <= round.random + round.ring {
            return active.to_vec();
        }
        let start = self.table.ring_after(self.local.hash);
        let mut peers: Vec<NameHash> = (0..round.ring)
            .map(|step| active[(start + round.ring_offset + step) % active.len()])
            .collect();
        let random = active.sample(&mut self.rngs.spread, round.random + round.ring);
        let fresh: Vec<NameHash> = random
            .copied()
            .filter(|peer| !peers.contains(peer))
            .collect();
        peers.extend(fresh.into_iter().take(round.random));
        peers
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::member::{Generation, Version};
    use crate::wire::{ClusterTag, Ping, ProbeSeq, Target};

    #[test]
    fn the_longest_message_without_cargo_fits_its_bound() {
        let (member, generation) = (NameHash::MIN, Generation(u64::MAX));
        let ping = Ping {
            sender: Sender {
                member,
                generation,
                version: Version(u64::MAX),
            },
            seq: ProbeSeq(u32::MAX),
            target: Target { member, generation },
            period: PeriodPhase::default(),
            gossip: Gossip::default(),
        };
        let payload = wire::encode(ClusterTag::of("c"), &Message::Ping(ping));
        // A list of more than 250 would need two more bytes for its length; none is so long.
        assert!(payload.len() <= FIXED_BYTES_MAX, "{}", payload.len());
    }
}
