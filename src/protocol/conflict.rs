//! Two processes with one name: how each finds out, which falls silent, and how it comes back.
//!
//! The process with the lower (generation, node id) falls silent: it asks nobody, tells nothing
//! and claims nothing, and is not ready. Of two with the same, as after a copy of a data directory,
//! it is the one whose self-description loses the merge that all others make too. Nobody raises
//! numbers: the silent one tells the other that it is there, so that both report the conflict, and
//! asks members at a slow rate to be admitted. They ask the other one first, so that succeeds only
//! when that has gone, or when an operator has ended the conflict.

use std::cmp::Ordering;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use rand::seq::IndexedRandom;

use super::join_book::JoinState;
use super::stats::SuspicionOutcome;
use super::table::Entry;
use super::{ArrivalWindow, Event, EventKind, Evidence, Life, MemberEvent, Node, Outbox};
use crate::member::{Generation, Metadata, NameHash, NodeId, Record, Tags};
use crate::time::Instant;
use crate::wire::{
    Ack, Extension, Fingerprint, Flags, Gossip, Holders, List, Message, Ping, ProbeSeq,
    RecordUpdate, Target, Update,
};

/// A conflict is reported, and the other process told, at most this often.
const REPORT_PERIOD: Duration = Duration::from_secs(60);
/// A node that does not give way shows a conflict for so long after it has last met the other.
const SHOWN_FOR: Duration = Duration::from_secs(180);
/// How often a silent node asks to be admitted.
const RETURN_PERIOD: Duration = Duration::from_secs(30);

/// Another process that runs under this node's name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Rival {
    /// Where it is reached; unknown until its own record has come.
    pub address: Option<SocketAddr>,
    /// Its restart number.
    pub generation: Generation,
    /// Its node id; the same as this node's for a copied data directory.
    pub node_id: NodeId,
    /// Whether this node gives way: it is silent, and not ready.
    pub prevails: bool,
}

/// What a node keeps of a conflict about its name.
#[derive(Debug, Default)]
pub(super) struct Conflict {
    rival: Option<Rival>,
    met_at: Instant,
    reported_at: Option<Instant>,
    /// The question by which the rival was told.
    asked: Option<ProbeSeq>,
    return_at: Instant,
}

impl Node {
    /// The process that is known to run under this node's name too.
    #[must_use]
    pub fn rival(&self) -> Option<Rival> {
        let fresh = self.now.since(self.conflict.met_at) < SHOWN_FOR;
        let shown = |rival: &Rival| rival.prevails || fresh;
        self.conflict.rival.filter(shown)
    }

    /// Whether it has fallen silent, because another process holds its name.
    pub(super) fn is_silent(&self) -> bool {
        self.life == Life::Silent
    }

    /// Somebody speaks of the own name. Whether that is a later process than this one, of which
    /// nothing can be said here but that it is there.
    pub(super) fn hear_of_rival(&mut self, told: &Record, out: &mut Outbox) -> bool {
        match self.compare_with(told) {
            // The past: this very process, or one before it.
            None | Some(Ordering::Less) => false,
            Some(order) => {
                // Who has not been admitted is told so by those that it asks.
                if self.life == Life::Ready || self.is_silent() {
                    self.meet(told, order, out);
                }
                order == Ordering::Greater
            }
        }
    }

    /// How the process that `told` speaks of ranks against this one; `None` if it is this one.
    fn compare_with(&self, told: &Record) -> Option<Ordering> {
        let own = &self.table.get(self.local.hash)?.record;
        let (own_life, life) = (own.standing.instance(), told.standing.instance());
        if own_life != life {
            return Some(life.cmp(&own_life));
        }
        // No process changes its address in one life: at another one is a copy of it.
        let (own, told) = (own.current_metadata()?, told.current_metadata()?);
        (told.address != own.address).then(|| match told.cmp(own) {
            Ordering::Greater => Ordering::Greater,
            // It was told, so it is there; but this one stays.
            _ => Ordering::Equal,
        })
    }

    /// Whether `told` speaks of this very process.
    pub(super) fn is_own_process(&self, told: &Record) -> bool {
        told.name.hash() == self.local.hash && self.compare_with(told).is_none()
    }

    /// A join was refused because of `holder`, who answers.
    pub(super) fn meet_holder(&mut self, holder: &Record, out: &mut Outbox) {
        self.meet(holder, Ordering::Greater, out);
    }

    /// Another process runs under the own name.
    fn meet(&mut self, told: &Record, order: Ordering, out: &mut Outbox) {
        if self.life == Life::Leaving {
            return;
        }
        let falls_silent = order == Ordering::Greater && self.life == Life::Ready;
        if falls_silent {
            self.fall_silent();
        }
        if !told.standing.status.is_active() {
            // A later life of this name that has gone: nobody to be told, and the way is free.
            let soon = self.now + self.config.probe_period;
            self.conflict.return_at = self.conflict.return_at.min(soon);
            return;
        }
        let (generation, node_id) = told.standing.instance();
        self.conflict.met_at = self.now;
        self.conflict.rival = Some(Rival {
            address: told.current_metadata().map(|metadata| metadata.address),
            generation,
            node_id,
            prevails: order == Ordering::Greater,
        });
        let recent = |at: Instant| self.now.since(at) < REPORT_PERIOD;
        if falls_silent || !self.conflict.reported_at.is_some_and(recent) {
            self.report_conflict(out);
            self.tell_rival(out);
        }
    }

    fn report_conflict(&mut self, out: &mut Outbox) {
        self.conflict.reported_at = Some(self.now);
        let rival = self.conflict.rival.and_then(|rival| rival.address);
        out.events
            .push(self.own_event(EventKind::Conflict, rival, None));
    }

    /// Something that happened to this node itself, whose status stays.
    pub(super) fn own_event(
        &self,
        kind: EventKind,
        rival: Option<SocketAddr>,
        evidence: Option<Evidence>,
    ) -> Event {
        let own = self.own_standing();
        Event::Member(MemberEvent {
            kind,
            member: self.local.name.clone(),
            address: self.address_of(self.local.hash),
            rival,
            generation: own.generation,
            incarnation: own.incarnation,
            from: Some(own.status),
            to: own.status,
            evidence,
        })
    }

    /// Tells the rival that this process is there: a ping that names its life, which only a process
    /// that runs beside it can send.
    fn tell_rival(&mut self, out: &mut Outbox) {
        let (Some(rival), Some(own)) = (self.conflict.rival, self.table.get(self.local.hash))
        else {
            return;
        };
        let Some(to) = rival
            .address
            .filter(|&to| Some(to) != self.address_of(self.local.hash))
        else {
            return;
        };
        let yields = rival.prevails.then(|| Extension::mark(Extension::YIELDS));
        let gossip = Gossip {
            fingerprint: Fingerprint(self.table.fingerprint()),
            flags: Flags { quiet: false },
            updates: vec![Update::Record(self.bare_record(own))].into(),
            heartbeats: List::default(),
            holders: Holders::Untold,
            extensions: yields.into_iter().collect::<Vec<_>>().into(),
        };
        let seq = self.probes.number();
        self.conflict.asked = Some(seq);
        let ping = Ping {
            sender: self.sender(),
            seq,
            target: Target {
                member: self.local.hash,
                generation: rival.generation,
            },
            period: self.period_phase(),
            gossip,
        };
        self.send(to, &Message::Ping(ping), out);
    }

    /// The own record without tags and services: they may not fit a ping, and decide nothing here.
    fn bare_record(&self, own: &Entry<ArrivalWindow>) -> RecordUpdate {
        let mut told = self.record_update(own);
        let mut record = Record::clone(&told.record);
        record.metadata = own.record.current_metadata().map(|metadata| {
            let bare = Metadata {
                tags: Tags::new(),
                services: Vec::new(),
                maintenance: None,
                ..(**metadata).clone()
            };
            bare.into()
        });
        told.record = record.into();
        told
    }

    /// Whether `ping`, which names this life, comes from another process with the own name. That
    /// one has told its record with it; who gives way, because it was refused or is the lower one,
    /// says so, and then this one stays.
    pub(super) fn hear_rival(&mut self, ping: &Ping, out: &mut Outbox) -> bool {
        if ping.sender.member != self.local.hash {
            return false;
        }
        let own = |update: &&Update| match update {
            Update::Record(told) => told.record.name.hash() == self.local.hash,
            Update::Status(_) | Update::Announced(_) => false,
        };
        let told = match ping.gossip.updates.iter().find(own) {
            Some(Update::Record(told)) => Arc::clone(&told.record),
            _ => return true,
        };
        let yields = |extension: &Extension| extension.tag == Extension::YIELDS;
        let sound = self.check_record(&told).is_ok();
        if sound && ping.gossip.extensions.iter().any(yields) && !self.is_silent() {
            self.meet(&told, Ordering::Equal, out);
        } else if let Some(order) = self.compare_with(&told).filter(|_| sound) {
            // Who has not been admitted gives way to who has been, whatever their generations.
            let joining = self.life == Life::Joining;
            let order = if joining { Ordering::Greater } else { order };
            self.meet(&told, order, out);
        }
        true
    }

    /// Whether `ack` is the rival's, to being told.
    pub(super) fn hear_rival_answer(&mut self, ack: &Ack) -> bool {
        let answers = self.conflict.asked == Some(ack.seq) && ack.sender.member == self.local.hash;
        if answers {
            self.conflict.asked = None;
            self.conflict.met_at = self.now;
        }
        answers
    }

    fn fall_silent(&mut self) {
        self.life = Life::Silent;
        self.local.admitted = false;
        self.local.raised = false;
        self.conflict.return_at = self.now + RETURN_PERIOD;
        let accused: Vec<NameHash> = self.cases.keys().copied().collect();
        for member in accused {
            self.drop_case(member, SuspicionOutcome::Refuted);
        }
    }

    /// A silent node asks now and then to be admitted.
    pub(super) fn ask_to_return(&mut self, out: &mut Outbox) {
        if !self.is_silent() || self.now < self.conflict.return_at {
            return;
        }
        self.conflict.return_at = self.now + RETURN_PERIOD;
        let member = self.table.active().choose(&mut self.rngs.join).copied();
        let Some(address) = member.and_then(|member| self.address_of(member)) else {
            return;
        };
        if !self.joins.hear(address, self.now) {
            self.joins.settle(address, JoinState::Waiting(self.now));
        }
        self.on_join_due(out);
    }

    /// A member has admitted this node: nobody else holds its name.
    pub(super) fn end_conflict(&mut self) {
        self.conflict = Conflict::default();
        if self.is_silent() {
            self.life = Life::Joining;
        }
    }
}
