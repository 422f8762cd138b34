//! Looking for members of earlier times: who lost everybody finds the cluster again, and islands
//! find each other.
//!
//! A remembered address is no member, so little is said to it: a ping that carries nothing. Any
//! answer leads to a join over a stream, where the usual rules of admission decide.

use std::net::SocketAddr;

use rand::RngExt;
use rand::seq::IndexedRandom;

use super::probe::Purpose;
use super::streams::Exchange;
use super::{Life, Node, Outbox, Timer};
use crate::member::{NameHash, Remembered, Status};
use crate::time::Instant;
use crate::wire::{Fingerprint, Flags, Gossip, Message, Ping, Target};

/// Remembered addresses asked by the whole cluster, per period.
const CONTACTS_PER_PERIOD: f64 = 6.0;

impl Node {
    /// An earlier run knew `members`.
    pub(super) fn on_remember(&mut self, members: &[Remembered]) {
        let room = super::MEMBERS_MAX;
        for member in members.iter().take(room) {
            if member.name.hash() != self.local.hash {
                self.remembered.remember(member.clone(), self.now);
            }
        }
        self.tidy_remembered();
    }

    /// Members of earlier times, whom the table does not list, in the order of their name hashes.
    pub fn remembered(&self, now: Instant) -> impl Iterator<Item = Remembered> + '_ {
        let unlisted = |member: NameHash| self.table.get(member).is_none_or(|held| !held.listed);
        self.remembered
            .iter(now)
            .filter(move |&(member, _)| unlisted(member))
            .map(|(_, remembered)| remembered)
    }

    /// Once per period: remembers who is about to be listed no longer, and looks for one of those
    /// that are not.
    pub(super) fn look_for_remembered(&mut self, out: &mut Outbox) {
        self.remember_the_gone();
        self.tidy_remembered();
        if self.remembered.is_empty() || self.life == Life::Leaving {
            return;
        }
        let share = CONTACTS_PER_PERIOD / self.table.size() as f64;
        let extra = self.rngs.remembered.random::<f64>() < share.fract();
        let contacts = share as usize + usize::from(extra);
        let due = self.remembered.due(self.now);
        let chosen: Vec<NameHash> = due
            .sample(&mut self.rngs.remembered, contacts)
            .copied()
            .collect();
        for member in chosen {
            self.ping_remembered(member, out);
        }
    }

    /// Dead members whose time in the table ends keep their address.
    fn remember_the_gone(&mut self) {
        if self.table.dead().is_empty() {
            return;
        }
        let retention = self.config.dead_retention;
        for &member in self.table.dead() {
            let Some(entry) = self.table.get(member) else {
                continue;
            };
            let record = &entry.record;
            let silence = self.now.since(entry.since);
            let over = silence >= retention && record.standing.status == Status::Dead;
            let (true, Some(metadata)) = (over, record.current_metadata()) else {
                continue;
            };
            let remembered = Remembered {
                name: record.name.clone(),
                address: metadata.address,
                node_id: record.standing.node_id,
                generation: record.standing.generation,
                silence,
                stored: false,
            };
            self.remembered.remember(remembered, self.now);
        }
    }

    fn tidy_remembered(&mut self) {
        if self.remembered.is_empty() {
            return;
        }
        let (table, retention, now) = (&self.table, self.config.dead_retention, self.now);
        let is_listed = |member| {
            let about_to_go = |since| now.since(since) >= retention;
            table.get(member).is_some_and(|entry| {
                let active = entry.record.standing.status.is_active();
                entry.listed && (active || !about_to_go(entry.since))
            })
        };
        self.remembered.tidy(now, retention, is_listed);
    }

    fn ping_remembered(&mut self, member: NameHash, out: &mut Outbox) {
        let Some((address, generation)) = self.remembered.reached(member) else {
            return;
        };
        if self.has_active_at(address, member) {
            return;
        }
        self.remembered.asked(member, self.now);
        let target = Target { member, generation };
        let purpose = Purpose::Remembered { address };
        let seq = self.probes.ask(target, self.now, purpose);
        self.timers
            .set(Timer::Probe(seq), self.now, self.config.ack_timeout);
        let gossip = Gossip {
            fingerprint: Fingerprint(self.table.fingerprint()),
            flags: Flags { quiet: false },
            ..Gossip::default()
        };
        let ping = Ping {
            sender: self.sender(),
            seq,
            target,
            period: self.period_phase(),
            gossip,
        };
        self.send(address, &Message::Ping(ping), out);
    }

    /// Somebody of this cluster has answered where `member` was reached.
    pub(super) fn join_remembered(
        &mut self,
        member: NameHash,
        address: SocketAddr,
        out: &mut Outbox,
    ) {
        self.remembered.answered(member, self.now);
        let asks = |exchange: &Exchange| match *exchange {
            Exchange::Join { address: asked, .. } => asked == address,
            _ => false,
        };
        let asking = self.exchanges.values().any(asks);
        if !asking && self.life != Life::Leaving && !self.has_active_at(address, member) {
            self.ask_to_join(address, address, out);
        }
    }
}
