//! Agreement: learning who holds the own table, and telling it.
//!
//! What a bit of member m means, and no more: the life of m that the own table lists held, at some
//! instant, a table with the same fingerprint. Tables only grow in the order of standings, so from
//! then on it knows all that this node knew. It says nothing of what anybody learns later, nor that
//! all held it at one instant; and it rests on members that do not lie.

use std::sync::Arc;
use std::time::Duration;

use rand::seq::IndexedRandom;

use super::spreading::holders_room;
use super::{Life, Node, Outbox, Rejection, Timer};
use crate::member::{NameHash, NodeName, Record};
use crate::time::Instant;
use crate::wire::{Fingerprint, Flags, Gossip, Holders, List, Message, News, Sender};

/// How far the members agree on the table that a node holds.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AgreementState {
    /// The table as a number.
    pub fingerprint: u64,
    /// Members that it calls alive or suspect, this node included.
    pub alive: usize,
    /// Those of them that are known to have held it.
    pub agree: usize,
    /// Those that are not, sorted by name.
    pub laggards: Vec<Laggard>,
    /// Whether all have held it, and this node belongs to the cluster.
    pub converged: bool,
    /// For how long this node's own table has been the same.
    pub stable_for: Duration,
}

/// A member that is not known to hold the table.
#[derive(Clone, Debug, PartialEq)]
pub struct Laggard {
    /// Who.
    pub name: NodeName,
    /// How long ago it last told this node itself which table it holds; `None` if it never did.
    pub heard: Option<Duration>,
}

impl Node {
    /// Forgets who holds the own table when that has become another one.
    #[inline]
    pub(super) fn follow_table(&mut self) {
        if !self.agreement.is_about(self.table.fingerprint()) {
            self.begin_agreement();
        }
    }

    fn begin_agreement(&mut self) {
        let own = self.table.ring_after(self.local.hash);
        self.agreement
            .begin(self.table.fingerprint(), self.table.size(), own);
    }

    /// Where `member` stands in the list of alive members, this node included.
    pub(super) fn place_of(&self, member: NameHash) -> Option<usize> {
        let after = self.table.ring_after(member);
        if member == self.local.hash {
            return Some(after);
        }
        let own_before = usize::from(self.local.hash < member);
        let listed = self.table.is_active(member);
        listed.then(|| after - 1 + own_before)
    }

    /// `sender` has told which table it holds, and who else does. It counts only where that is the
    /// own table, after all that came with it was merged.
    pub(super) fn hear_table(&mut self, sender: &Sender, gossip: &Gossip) {
        if self.life != Life::Ready {
            return;
        }
        if let Holders::Some(map) = &gossip.holders {
            self.agreement.hear_wish(self.now, map.wish);
        }
        if let Some(contact) = self.contacts.get_mut(&sender.member) {
            contact.table_at = Some(self.now);
        }
        if gossip.fingerprint.0 != self.table.fingerprint() {
            return;
        }
        self.follow_table();
        let listed = || self.target(sender.member);
        if !self.agreement.is_complete()
            && listed().is_some_and(|listed| listed.generation == sender.generation)
            && let Some(place) = self.place_of(sender.member)
        {
            self.agreement.note(place);
        }
        if self.agreement.merge(&gossip.holders).is_err() {
            self.reject(Rejection::Agreement);
        }
    }

    /// Who holds the own table, in at most `room` bytes.
    pub(super) fn told_holders(&mut self, room: usize) -> Holders {
        if self.life != Life::Ready {
            return Holders::Untold;
        }
        self.follow_table();
        self.agreement.told(self.now, room)
    }

    /// Somebody waits for agreement on this node, for `length`, and wants a message to a random
    /// member every `pause`.
    pub(super) fn on_await_agreement(&mut self, length: Duration, pause: Duration) {
        self.agreement.wish(self.now, length, pause);
    }

    /// Sets the timer of the next message for those who wait, which waits until the table rests.
    pub(super) fn arm_agreement(&mut self) {
        self.follow_table();
        let wanted = self.agreement.wanted(self.now);
        let Some(pause) = wanted.filter(|_| self.life == Life::Ready) else {
            self.timers.cancel(Timer::Agreement);
            return;
        };
        let quiet_at = self.table.changed_at() + self.config.quiet;
        let armed = self.timers.deadline(Timer::Agreement);
        if armed.is_none_or(|armed| armed < quiet_at) {
            let wait = quiet_at.since(self.now).max(pause);
            self.timers.set(Timer::Agreement, self.now, wait);
        }
    }

    /// Tells a random member who holds the own table.
    pub(super) fn on_agreement_due(&mut self, out: &mut Outbox) {
        let peer = self.table.active().choose(&mut self.rngs.spread).copied();
        if let Some(peer) = peer {
            self.tell_holders(peer, out);
        }
    }

    fn tell_holders(&mut self, peer: NameHash, out: &mut Outbox) {
        let Some(to) = self.address_of(peer) else {
            return;
        };
        let room = holders_room(self.datagram_budget());
        let gossip = Gossip {
            fingerprint: Fingerprint(self.table.fingerprint()),
            flags: Flags {
                quiet: self.is_quiet(),
            },
            updates: List::default(),
            heartbeats: List::default(),
            holders: self.told_holders(room),
            extensions: List::default(),
        };
        let sender = self.sender();
        self.send(to, &Message::News(News { sender, gossip }), out);
    }

    /// A member that does not know it of all has said so: whoever does answers, in fewer bytes than
    /// it was asked.
    pub(super) fn answer_holders(&mut self, news: &News, out: &mut Outbox) {
        let equal = news.gossip.fingerprint.0 == self.table.fingerprint();
        let asks = matches!(news.gossip.holders, Holders::Some(_));
        if asks && equal && self.life == Life::Ready && self.agreement.is_complete() {
            self.tell_holders(news.sender.member, out);
        }
    }

    /// How far the members are known to agree on this node's table.
    #[must_use]
    pub fn agreement(&self, now: Instant) -> AgreementState {
        let complete = self.agreement.is_complete();
        AgreementState {
            fingerprint: self.table.fingerprint(),
            alive: self.table.size(),
            agree: self.agreement.held(),
            laggards: if complete {
                Vec::new()
            } else {
                self.laggards(now)
            },
            converged: self.has_converged(),
            stable_for: now.since(self.table.changed_at()),
        }
    }

    /// The records of the members that are known to have held this node's table, but for itself.
    pub fn known_holders(&self) -> impl Iterator<Item = &Arc<Record>> + '_ {
        let members = self.table.active().iter().copied();
        let known = members.filter(|&member| {
            let place = self.place_of(member);
            place.is_some_and(|place| self.agreement.holds(place))
        });
        known.filter_map(|member| Some(&self.table.get(member)?.record))
    }

    /// Whether all members are known to have held this node's table, and it belongs to the cluster.
    #[must_use]
    pub fn has_converged(&self) -> bool {
        self.agreement.is_complete() && self.life == Life::Ready
    }

    /// How many members are known to have held this node's table, itself included.
    #[must_use]
    pub fn agreeing(&self) -> usize {
        self.agreement.held()
    }

    fn laggards(&self, now: Instant) -> Vec<Laggard> {
        let lags = |member: &NameHash| {
            let place = self.place_of(*member);
            place.is_some_and(|place| !self.agreement.holds(place))
        };
        let laggard = |&member: &NameHash| {
            let heard = self.contact(member).and_then(|contact| contact.table_at);
            Some(Laggard {
                name: self.table.get(member)?.record.name.clone(),
                heard: heard.map(|at| now.since(at)),
            })
        };
        let members = self.table.active().iter().filter(|member| lags(member));
        let mut laggards: Vec<Laggard> = members.filter_map(laggard).collect();
        laggards.sort_by(|one, other| one.name.cmp(&other.name));
        laggards
    }
}
