//! Forgetting: removing a member for good, cluster-wide, whichever node is asked.
//!
//! A member that is held dead or left is forgotten at once. One that is held alive is asked whether
//! it runs, and only its silence removes it. What spreads is a tombstone that stands above every
//! incarnation of the life it names; a later life is a new member.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use rand::seq::IndexedRandom;

use super::health::Punctuality;
use super::probe::Purpose;
use super::updates::{Source, restated};
use super::{Event, EventKind, Life, MemberEvent, Node, Outbox, Timer};
use crate::member::{Generation, NameHash, NodeName, Standing, Status};
use crate::time::Instant;
use crate::wire::{Message, Ping, RecordUpdate, Update};

/// Members whose forgetting is followed at a time.
const FORGETTINGS_MAX: usize = 64;
/// Added to the pause tolerance: the time the accused has to answer.
const ANSWER_MARGIN: Duration = Duration::from_secs(1);
/// Pause between two questions to the accused, and relays that ask it too each time.
const ASK_PAUSE: Duration = Duration::from_millis(500);
const ASK_RELAYS: usize = 3;
/// How long the answer of the accused is remembered; then it is asked anew.
const REFUSED_FOR: Duration = Duration::from_secs(60);
/// Pause between two rounds of asking who knows, the members asked in one, and when to give up.
const TELL_PAUSE: Duration = Duration::from_millis(200);
const TOLD_AT_ONCE: usize = 100;
const TELL_FOR: Duration = Duration::from_secs(600);
/// Shortest time between two answers with a fence.
const FENCE_PAUSE: Duration = Duration::from_millis(20);

/// How far the forgetting of a member has come, at the node that is asked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Forgetting {
    /// There is no such member.
    Unknown,
    /// It is this node, which leaves rather.
    Itself,
    /// This node is not part of the cluster.
    NotReady,
    /// Too many members are being forgotten.
    Busy,
    /// It may be running, and is asked.
    Asking {
        /// How long it still has to answer.
        left: Duration,
    },
    /// It has answered: it runs, and stays.
    Refused {
        /// How long ago.
        ago: Duration,
    },
    /// It is forgotten.
    Spreading {
        /// Alive members that are known to know, this node included.
        known: usize,
        /// Alive members, this node included.
        alive: usize,
    },
}

/// Where the forgetting of one member stands.
#[derive(Debug)]
pub(super) enum Stage {
    /// The accused is asked.
    Asking {
        life: Generation,
        since: Instant,
        until: Instant,
    },
    /// It has answered.
    Refused { life: Generation, at: Instant },
    /// The members are told, each until it acknowledges.
    Telling {
        told: BTreeSet<NameHash>,
        cursor: NameHash,
        since: Instant,
    },
    /// All alive members have acknowledged.
    Told,
}

/// What a node keeps about removals.
#[derive(Debug, Default)]
pub(super) struct Removals {
    pub(super) stages: BTreeMap<NameHash, Stage>,
    /// When somebody was last answered with a fence.
    fence_told_at: Instant,
    /// What comes in before is left over from before this node slept.
    pub(super) deaf_until: Instant,
}

impl Node {
    /// How far the forgetting of `name` has come.
    #[must_use]
    pub fn forgetting(&self, name: &NodeName) -> Forgetting {
        let member = name.hash();
        if self.life != Life::Ready {
            return Forgetting::NotReady;
        }
        if member == self.local.hash {
            return Forgetting::Itself;
        }
        let held = self.table.get(member);
        let Some(entry) = held.filter(|entry| entry.listed || entry.is_forgotten()) else {
            return Forgetting::Unknown;
        };
        let alive = self.table.size();
        match self.removals.stages.get(&member) {
            Some(Stage::Told) => Forgetting::Spreading {
                known: alive,
                alive,
            },
            Some(Stage::Telling { told, .. }) => {
                let knows = |member: &&NameHash| self.table.is_active(**member);
                let known = 1 + told.iter().filter(knows).count();
                Forgetting::Spreading { known, alive }
            }
            _ if entry.is_forgotten() => Forgetting::Spreading { known: 1, alive },
            Some(Stage::Asking { until, .. }) => Forgetting::Asking {
                left: until.since(self.now),
            },
            Some(Stage::Refused { at, .. }) => Forgetting::Refused {
                ago: self.now.since(*at),
            },
            None => Forgetting::Busy,
        }
    }

    /// Forget `name`. Asked again, this changes nothing while the first time is being worked on.
    pub(super) fn on_forget(&mut self, name: &NodeName, out: &mut Outbox) {
        let member = name.hash();
        if self.life != Life::Ready || member == self.local.hash {
            return;
        }
        let Some(entry) = self.table.get(member) else {
            return;
        };
        let standing = entry.record.standing;
        if entry.is_forgotten() {
            self.follow_telling(member);
        } else if !standing.status.is_active() && entry.listed {
            self.spread_forgotten(member, out);
        } else if standing.status.is_active() && !self.is_decided(member, standing.generation) {
            self.ask_accused(member, standing.generation, out);
        }
    }

    /// Whether the present life of `member` is being asked, or has answered a moment ago.
    fn is_decided(&self, member: NameHash, life: Generation) -> bool {
        match self.removals.stages.get(&member) {
            Some(Stage::Asking { life: asked, .. }) => *asked == life,
            Some(Stage::Refused { life: asked, at }) => {
                *asked == life && self.now.since(*at) < REFUSED_FOR
            }
            Some(Stage::Telling { .. } | Stage::Told) | None => false,
        }
    }

    fn ask_accused(&mut self, member: NameHash, life: Generation, out: &mut Outbox) {
        if !self.make_room_for(member) {
            self.drop_for_limit("forget");
            return;
        }
        let (since, patience) = (self.now, self.config.pause_tolerance + ANSWER_MARGIN);
        let until = since + patience;
        self.removals
            .stages
            .insert(member, Stage::Asking { life, since, until });
        self.ping_by_stream(member, out);
        self.ask_again(member, patience, out);
    }

    fn ask_again(&mut self, member: NameHash, left: Duration, out: &mut Outbox) {
        self.ping(member, Purpose::Contact, out);
        let others = self.table.active().iter().filter(|&&other| other != member);
        let others: Vec<NameHash> = others.copied().collect();
        let relays = others.sample(&mut self.rngs.relays, ASK_RELAYS);
        let relays: Vec<NameHash> = relays.copied().collect();
        for relay in relays {
            self.ping_through(relay, member, out);
        }
        self.timers
            .set(Timer::Forget(member), self.now, left.min(ASK_PAUSE));
    }

    /// A place for what is known of the forgetting of `member`; what is finished makes room.
    fn make_room_for(&mut self, member: NameHash) -> bool {
        if self.removals.stages.len() < FORGETTINGS_MAX
            || self.removals.stages.contains_key(&member)
        {
            return true;
        }
        let over = |stage: &Stage| matches!(stage, Stage::Told | Stage::Refused { .. });
        let finished = self.removals.stages.iter().find(|(_, stage)| over(stage));
        let finished = finished.map(|(&member, _)| member);
        finished.is_some_and(|member| self.removals.stages.remove(&member).is_some())
    }

    /// `member` has answered a question asked at `asked_at`: if it is to be forgotten, it stays.
    pub(super) fn note_forgetting_answered(&mut self, member: NameHash, asked_at: Instant) {
        if let Some(Stage::Asking { life, since, .. }) = self.removals.stages.get(&member)
            && asked_at >= *since
        {
            let refused = Stage::Refused {
                life: *life,
                at: self.now,
            };
            self.removals.stages.insert(member, refused);
            self.timers.cancel(Timer::Forget(member));
        }
    }

    /// The next step of forgetting `member` is due.
    pub(super) fn on_forget_step(
        &mut self,
        member: NameHash,
        punctuality: Punctuality,
        out: &mut Outbox,
    ) {
        let now = self.now;
        match self.removals.stages.get_mut(&member) {
            Some(Stage::Asking { life, since, until }) => {
                // A node that stood still has not heard the answer yet.
                if punctuality == Punctuality::Late {
                    *until = (*until).max(now + ANSWER_MARGIN);
                }
                // Nor does one know anything that hears nobody; if the accused is all there is,
                // silence becomes a death.
                if self.contact_at < *since {
                    *until = (*until).max(now + ANSWER_MARGIN);
                }
                let (life, left) = (*life, until.since(now));
                self.decide_forgetting(member, life, left, out);
            }
            Some(Stage::Telling { .. }) => self.tell_round(member, out),
            Some(Stage::Refused { .. } | Stage::Told) | None => {}
        }
    }

    fn decide_forgetting(
        &mut self,
        member: NameHash,
        life: Generation,
        left: Duration,
        out: &mut Outbox,
    ) {
        let Some(entry) = self.table.get(member) else {
            self.removals.stages.remove(&member);
            return;
        };
        let held = entry.record.standing;
        if held.generation != life {
            // Another life has begun: it runs.
            let refused = Stage::Refused {
                life: held.generation,
                at: self.now,
            };
            self.removals.stages.insert(member, refused);
        } else if !held.status.is_active() || left == Duration::ZERO {
            self.spread_forgotten(member, out);
        } else {
            self.ask_again(member, left, out);
        }
    }

    /// The tombstone is news, like any other verdict.
    fn spread_forgotten(&mut self, member: NameHash, out: &mut Outbox) {
        let Some(entry) = self.table.get(member) else {
            return;
        };
        let told = restated(entry, entry.record.standing.forgotten());
        if let Some(change) = self.merge(&told) {
            self.follow_change(member, &change, Source::Told, None, out);
        }
        self.follow_telling(member);
    }

    /// Begins to ask who knows that `member` is forgotten, unless that is under way or all do.
    fn follow_telling(&mut self, member: NameHash) {
        let followed = matches!(
            self.removals.stages.get(&member),
            Some(Stage::Telling { .. } | Stage::Told)
        );
        if followed || !self.make_room_for(member) {
            return;
        }
        let stage = Stage::Telling {
            told: BTreeSet::new(),
            cursor: self.local.hash,
            since: self.now,
        };
        self.removals.stages.insert(member, stage);
        // The push is given a moment: most then know already, and only have to say so.
        let pause = self.config.push_window;
        self.timers.set(Timer::Forget(member), self.now, pause);
    }

    /// Asks those who have not acknowledged yet. A ping does it: it carries the tombstone, and its
    /// ack says that it was merged.
    fn tell_round(&mut self, member: NameHash, out: &mut Outbox) {
        let Some(Stage::Telling {
            told,
            cursor,
            since,
        }) = self.removals.stages.get_mut(&member)
        else {
            return;
        };
        let active = self.table.active();
        let split = self.table.ring_after(*cursor);
        let around = active[split..].iter().chain(&active[..split]);
        let untold = around.filter(|member| !told.contains(member));
        let round: Vec<NameHash> = untold.take(TOLD_AT_ONCE).copied().collect();
        if round.is_empty() {
            self.removals.stages.insert(member, Stage::Told);
            return;
        }
        if self.now.since(*since) >= TELL_FOR {
            self.removals.stages.remove(&member);
            return;
        }
        *cursor = round[round.len() - 1];
        for peer in round {
            self.tell_forgotten(peer, member, out);
        }
        self.timers.set(Timer::Forget(member), self.now, TELL_PAUSE);
    }

    fn tell_forgotten(&mut self, peer: NameHash, member: NameHash, out: &mut Outbox) {
        let (Some(to), Some(target), Some(entry)) = (
            self.address_of(peer),
            self.target(peer),
            self.table.get(member),
        ) else {
            return;
        };
        let update = Update::Record(self.record_update(entry));
        let purpose = Purpose::Forget(member);
        let seq = self.probes.ask(target, self.now, purpose);
        self.timers
            .set(Timer::Probe(seq), self.now, self.ack_timeout(peer));
        let ping = Ping {
            sender: self.sender(),
            seq,
            target,
            period: self.period_phase(),
            gossip: self.bare_gossip(vec![update]),
        };
        self.send(to, &Message::Ping(ping), out);
    }

    /// `peer` has acknowledged a ping that told that `member` is forgotten.
    pub(super) fn note_forgotten_known(&mut self, member: NameHash, peer: NameHash) {
        if let Some(Stage::Telling { told, .. }) = self.removals.stages.get_mut(&member) {
            told.insert(peer);
            let is_told = |peer: &NameHash| told.contains(peer);
            if self.table.active().iter().all(is_told) {
                self.removals.stages.insert(member, Stage::Told);
                self.timers.cancel(Timer::Forget(member));
            }
        }
    }

    /// Somebody speaks of a life that was forgotten as if it ran: it has missed the tombstone, and
    /// may be too late to be told it otherwise.
    pub(super) fn answer_with_fence(
        &mut self,
        member: NameHash,
        told: &RecordUpdate,
        out: &mut Outbox,
    ) {
        let Some(teller) = self.teller.filter(|&teller| teller != member) else {
            return;
        };
        let fence = self.table.get(member).filter(|entry| entry.is_forgotten());
        let Some(fence) = fence.filter(|_| told.record.standing.status.is_active()) else {
            return;
        };
        if self.now.since(self.removals.fence_told_at) >= FENCE_PAUSE {
            let update = Update::Record(self.record_update(fence));
            self.removals.fence_told_at = self.now;
            self.send_update(teller, update, out);
        }
    }

    /// Whether `claim` says that this node's life was forgotten; then it falls silent. A node that
    /// still asks to be admitted takes a later generation instead.
    pub(super) fn hears_of_removal(&mut self, claim: Standing, out: &mut Outbox) -> bool {
        let removed = claim.forgotten && claim.generation >= self.local.generation;
        if !removed {
            return false;
        }
        if matches!(self.life, Life::Ready | Life::Silent) {
            self.become_forgotten(claim.generation, out);
        }
        true
    }

    /// This life was removed from the cluster: nothing of what it holds is told any more.
    pub(super) fn become_forgotten(&mut self, fence: Generation, out: &mut Outbox) {
        if matches!(self.life, Life::Leaving | Life::Forgotten) {
            return;
        }
        let from = self.own_standing();
        let left = from.with_status(Status::Left);
        self.start_over(out);
        self.life = Life::Forgotten;
        self.local.fence = fence.max(self.local.generation);
        if let Some(entry) = self.table.get(self.local.hash) {
            let told = restated(entry, left);
            self.merge(&told);
        }
        out.events.push(Event::Member(MemberEvent {
            kind: EventKind::MemberForgotten,
            member: self.local.name.clone(),
            address: self.address_of(self.local.hash),
            generation: left.generation,
            incarnation: left.incarnation,
            from: Some(from.status),
            to: left.status,
            evidence: None,
            rival: None,
        }));
    }

    /// An operator wants this node back in the cluster it was removed from: it begins a new life.
    pub(super) fn on_return(&mut self, out: &mut Outbox) {
        if self.life != Life::Forgotten {
            return;
        }
        let next = self.local.fence.0.max(self.local.generation.0) + 1;
        let generation = Generation(next.max(self.wall.seconds(self.now).unwrap_or_default()));
        self.life = Life::Joining;
        self.local.admitted = false;
        self.raise_generation(generation);
        self.local.raised = false;
        out.events.push(Event::GenerationRaised(generation));
        self.joins.resume(self.now);
        self.on_join_due(out);
    }
}
