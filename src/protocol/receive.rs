//! Messages that come as datagrams: one short function for each kind.

use std::net::SocketAddr;
use std::time::Duration;

use super::config::Spreading;
use super::exchange::Path;
use super::exchanging::AnsweredBy;
use super::probe::{Probe, Purpose};
use super::repair::Comparison;
use super::serving::Asked;
use super::spreading::Fill;
use super::stats::Direction;
use super::{Node, Outbox, ProbeOutcome, Rejection, Transport};
use crate::member::NameHash;
use crate::wire::{
    self, Ack, Carrier, DecodeError, Flags, Gossip, List, Message, Nack, News, Ping, PingReq,
    RelayedAck, Sender, Target, Update, WrongTarget,
};

/// Pings on behalf of others that may be under way at a time: a node is no scanner.
const RELAYING_MAX: usize = 128;

impl From<DecodeError> for Rejection {
    fn from(error: DecodeError) -> Self {
        match error {
            DecodeError::NotOurs => Rejection::NotOurs,
            DecodeError::Version => Rejection::Version,
            DecodeError::Cluster => Rejection::Cluster,
            DecodeError::Sealed => Rejection::Sealing,
            DecodeError::UnknownType => Rejection::UnknownType,
            DecodeError::Malformed => Rejection::Malformed,
        }
    }
}

impl Node {
    /// A datagram has come.
    pub(super) fn on_datagram(&mut self, from: SocketAddr, payload: &[u8], out: &mut Outbox) {
        match wire::decode(self.cluster, payload, Carrier::Datagram) {
            Err(error) => self.reject(error.into()),
            Ok(message) => {
                self.count_received(&message, Transport::Datagram, payload.len());
                self.note_heard(&message);
                self.on_message(from, payload.len(), &message, out);
            }
        }
    }

    /// Counts dropped input.
    pub(super) fn reject(&mut self, reason: Rejection) {
        self.stats.rejected.add(reason, 1);
    }

    /// Counts a message that came in.
    pub(super) fn count_received(&mut self, message: &Message, by: Transport, bytes: usize) {
        let kind = message.kind();
        self.stats.messages.add((Direction::Received, kind, by), 1);
        self.stats
            .bytes
            .add((Direction::Received, by), bytes as u64);
    }

    fn on_message(&mut self, from: SocketAddr, bytes: usize, message: &Message, out: &mut Outbox) {
        match message {
            Message::Ping(ping) => {
                let budget = self.answer_budget(&ping.sender, from, bytes);
                let answer = self.answer_ping(ping, budget, out);
                self.send(from, &answer, out);
                self.join_through(from, ping.target, out);
            }
            Message::Ack(ack) => self.on_ack(from, ack, out),
            Message::PingReq(request) => self.on_ping_req(from, request, out),
            Message::Nack(nack) => self.on_nack(nack, out),
            Message::RelayedAck(ack) => self.on_relayed_ack(ack, out),
            Message::WrongTarget(answer) => self.on_wrong_target(answer, out),
            Message::News(news) => self.on_news(news, out),
            Message::Digest(digest) => self.on_digest(Asked::Datagram { from, bytes }, digest, out),
            Message::Delta(delta) => self.on_delta(Asked::Datagram { from, bytes }, delta, out),
            Message::Difference(answer) => {
                self.on_difference(AnsweredBy::Datagram(from), answer, out);
            }
            Message::Events(events) => self.on_events(events, out),
            Message::EventAcks(acks) => self.on_event_acks(acks),
            Message::EventHeads(heads) => {
                self.on_event_heads(Asked::Datagram { from, bytes }, heads, out);
            }
            Message::Join(_)
            | Message::Table(_)
            | Message::Busy(_)
            | Message::Refused(_)
            | Message::Superseded(_)
            | Message::Pull(_)
            | Message::Values(_)
            | Message::EventPull(_)
            | Message::EventValues(_) => self.reject(Rejection::WrongTransport),
        }
    }

    /// How many bytes may answer a message of `bytes`: as many as fit a datagram for a member that
    /// lately answered this node from the same address, else no more than it sent, so that a
    /// forged source cannot make this node flood somebody.
    pub(super) fn answer_budget(&self, sender: &Sender, from: SocketAddr, bytes: usize) -> usize {
        let proven =
            self.address_of(sender.member) == Some(from) && self.has_answered_lately(sender.member);
        let trusting = self.config.spreading == Spreading::Infection;
        if proven || trusting {
            self.datagram_budget()
        } else {
            bytes.min(self.datagram_budget())
        }
    }

    /// Whether `member` has shown within the pause tolerance that it hears this node.
    pub(super) fn has_answered_lately(&self, member: NameHash) -> bool {
        self.answered_at(member)
            .is_some_and(|at| self.now.since(at) <= self.config.pause_tolerance)
    }

    /// The answer to a ping, and the merging of what rode on it.
    pub(super) fn answer_ping(&mut self, ping: &Ping, budget: usize, out: &mut Outbox) -> Message {
        let own = (self.local.hash, self.local.generation);
        if (ping.target.member, ping.target.generation) != own {
            // hashicorp/serf#116, habitat-sh/habitat#5865: a ping for the former owner of this
            // address. It is not acknowledged, and nothing that rode on it is believed.
            self.reject(Rejection::WrongTarget);
            return self.build_wrong_target(ping, budget);
        }
        let quiet = self.is_quiet();
        if self.hear_rival(ping, out) {
            return self.acknowledge(ping, budget, quiet, Fill::Riders);
        }
        self.hear_sender(&ping.sender);
        self.hear_period(ping.sender.member, ping.period, Duration::ZERO);
        self.take_gossip(&ping.gossip, out);
        self.hear_table(&ping.sender, &ping.gossip);
        self.hear_clock(ping, out);
        self.note_event_sum(&ping.gossip);
        let differs = ping.gossip.fingerprint.0 != self.table.fingerprint();
        let fill = if differs && self.config.spreading == Spreading::Prompt {
            Fill::Recent
        } else {
            Fill::Riders
        };
        self.acknowledge(ping, budget, quiet, fill)
    }

    fn acknowledge(&mut self, ping: &Ping, budget: usize, quiet: bool, fill: Fill) -> Message {
        let (peer, flags) = (Some(ping.sender.member), Flags { quiet });
        let gossip = if ping.gossip.heartbeats.is_empty() {
            self.gossip(peer, budget, flags, fill)
        } else {
            self.gossip_with_heartbeats(peer, budget, flags, fill)
        };
        let mut ack = Ack {
            sender: self.sender(),
            seq: ping.seq,
            period: self.period_phase(),
            gossip,
        };
        self.pad_ack(ping, &mut ack, budget);
        Message::Ack(ack)
    }

    fn build_wrong_target(&self, ping: &Ping, budget: usize) -> Message {
        let own = self.table.get(self.local.hash);
        let record = own.map(|entry| self.told(self.local.hash, entry));
        let fits = |update: &Update| wire::update_bytes(update) + 48 <= budget;
        Message::WrongTarget(WrongTarget {
            sender: self.sender(),
            seq: ping.seq,
            updates: record.filter(fits).into_iter().collect::<Vec<_>>().into(),
        })
    }

    /// Merges what rides on a message; returns how many updates changed the table.
    pub(super) fn take_gossip(&mut self, gossip: &Gossip, out: &mut Outbox) -> usize {
        self.hear_reports(&gossip.extensions);
        let changed = self.adopt_all(gossip.updates.iter(), out);
        self.hear_passed_on(&gossip.heartbeats);
        changed
    }

    fn on_ack(&mut self, from: SocketAddr, ack: &Ack, out: &mut Outbox) {
        let Some(probe) = self.probes.get(ack.seq).copied() else {
            if !self.hear_rival_answer(ack) {
                self.reject(Rejection::Unsolicited);
            }
            return;
        };
        let relayed = matches!(probe.purpose, Purpose::Relayed { .. });
        let answers = (ack.sender.member, ack.sender.generation)
            == (probe.target.member, probe.target.generation);
        if relayed || !answers {
            self.reject(Rejection::Unsolicited);
            return;
        }
        let quiet = self.is_quiet();
        self.hear_sender(&ack.sender);
        let under_way = self.now.since(probe.sent_at) / 2;
        self.hear_period(ack.sender.member, ack.period, under_way);
        self.on_answered(ack.seq, &probe, out);
        let learnt = self.take_gossip(&ack.gossip, out);
        self.hear_table(&ack.sender, &ack.gossip);
        self.follow_purpose(&probe.purpose, ack.sender.member, out);
        self.compare(from, ack.sender.member, &ack.gossip, (quiet, learnt), out);
        self.compare_events(ack.sender.member, &ack.gossip, out);
    }

    /// What an answer means beyond being one.
    pub(super) fn follow_purpose(&mut self, purpose: &Purpose, member: NameHash, out: &mut Outbox) {
        match *purpose {
            Purpose::Relay { requester, seq, .. } => {
                let ack = RelayedAck {
                    sender: self.sender(),
                    seq,
                    extensions: List::default(),
                };
                self.send(requester, &Message::RelayedAck(ack), out);
            }
            Purpose::Admission(stream) => self.refuse_admission(stream, member, out),
            Purpose::Leave => self.note_leave_known(member, out),
            Purpose::Try => self.note_try_answered(),
            Purpose::Remembered { address } => self.join_remembered(member, address, out),
            Purpose::Forget(forgotten) => self.note_forgotten_known(forgotten, member),
            _ => {}
        }
    }

    /// Compares tables by fingerprint, after merging. `quiet` is whether this node's had been
    /// before; `learnt` how many updates the ack brought.
    fn compare(
        &mut self,
        from: SocketAddr,
        member: NameHash,
        gossip: &Gossip,
        (quiet, learnt): (bool, usize),
        out: &mut Outbox,
    ) {
        if self.config.spreading == Spreading::Infection {
            return;
        }
        let fingerprint = gossip.fingerprint.0;
        let equal = fingerprint == self.table.fingerprint()
            || self.table.differs_by_age(self.now, fingerprint);
        let comparison = if equal {
            Comparison::Equal
        } else if quiet && gossip.flags.quiet {
            Comparison::Missed
        } else {
            Comparison::Unsettled
        };
        if comparison == Comparison::Equal {
            self.note_equal_tables();
        } else if learnt == 0 {
            self.send_recent(member, from, out);
        }
        if self.repair.compared(self.now, comparison) {
            self.start_exchange(member, Path::Datagrams, out);
        }
    }

    fn on_ping_req(&mut self, from: SocketAddr, request: &PingReq, out: &mut Outbox) {
        // Only members ask, only members are asked; the answer is smaller than the question, and
        // goes where that came from, which behind a port mapping is not the member's own address.
        let sender = Target {
            member: request.sender.member,
            generation: request.sender.generation,
        };
        let known = self.target(sender.member) == Some(sender)
            && self.target(request.target.member) == Some(request.target)
            && request.target.member != self.local.hash
            && !self.is_silent();
        if !known {
            self.reject(Rejection::WrongTarget);
            return;
        }
        self.hear_sender(&request.sender);
        self.take_gossip(&request.gossip, out);
        self.hear_table(&request.sender, &request.gossip);
        if self.probes.relaying() >= RELAYING_MAX {
            self.reject(Rejection::Limit);
            return;
        }
        self.relay_ping((from, sender.member), request.seq, request.target, out);
    }

    /// The question that `sender` was asked to relay, and whether it has denied it an answer
    /// before. It is not waited for any longer.
    fn relayed(&mut self, seq: wire::ProbeSeq, sender: &Sender) -> Option<(Probe, bool)> {
        let probe = *self.probes.get(seq)?;
        match probe.purpose {
            Purpose::Relayed { relay, denied } if relay == sender.member => {
                self.timers.cancel(super::Timer::Probe(seq));
                Some((probe, denied))
            }
            _ => None,
        }
    }

    fn on_nack(&mut self, nack: &Nack, out: &mut Outbox) {
        let Some((probe, false)) = self.relayed(nack.seq, &nack.sender) else {
            self.reject(Rejection::Unsolicited);
            return;
        };
        let member = probe.target.member;
        // It stays open: the relay passes a late answer on too.
        if let Some(kept) = self.probes.get_mut(nack.seq) {
            let relay = nack.sender.member;
            kept.purpose = Purpose::Relayed {
                relay,
                denied: true,
            };
            kept.timed_out = true;
        }
        self.note_relay_answer(&nack.sender, &probe, ProbeOutcome::Nacked, out);
        self.note_trial_failure(member, nack);
        let answered_at = nack.answered.duration().map(|ago| self.now.before(ago));
        let margin = self.config.relay_timeout;
        if let Some(at) = answered_at
            && self
                .cases
                .get(&member)
                .is_some_and(|case| at > case.began + margin)
        {
            // It answered the witness after this case began.
            self.acquit(member, out);
            return;
        }
        self.on_witness(nack.sender.member, member, nack.miss_rate.share(), out);
    }

    fn on_relayed_ack(&mut self, ack: &RelayedAck, out: &mut Outbox) {
        let Some((probe, denied)) = self.relayed(ack.seq, &ack.sender) else {
            self.reject(Rejection::Unsolicited);
            return;
        };
        self.probes.close(ack.seq);
        let outcome = if denied {
            ProbeOutcome::Late
        } else {
            ProbeOutcome::Acked
        };
        self.note_relay_answer(&ack.sender, &probe, outcome, out);
        self.note_trial_answer(probe.target.member, ack.seq, denied);
        self.note_vouched(probe.target.member, probe.sent_at);
        self.prove_life(probe.target.member, probe.sent_at, out);
    }

    /// A relay has answered: it lives, hears this node and is heard, whatever it says of others.
    fn note_relay_answer(
        &mut self,
        relay: &Sender,
        probe: &Probe,
        outcome: ProbeOutcome,
        out: &mut Outbox,
    ) {
        self.count_probe(probe, outcome);
        self.hear_sender(relay);
        self.note_answer(relay.member, probe.sent_at);
        self.prove_life(relay.member, probe.sent_at, out);
        self.prove_contact(relay.member, out);
    }

    /// Another member, or another life, answers where `probe` was sent.
    pub(super) fn on_wrong_target(&mut self, answer: &WrongTarget, out: &mut Outbox) {
        let Some(probe) = self.probes.get(answer.seq).copied() else {
            self.reject(Rejection::Unsolicited);
            return;
        };
        let named = (answer.sender.member, answer.sender.generation);
        if named == (probe.target.member, probe.target.generation) {
            self.reject(Rejection::Unsolicited);
            return;
        }
        self.probes.close(answer.seq);
        self.timers.cancel(super::Timer::Probe(answer.seq));
        self.count_probe(&probe, ProbeOutcome::WrongTarget);
        self.adopt_all(answer.updates.iter(), out);
        match probe.purpose {
            Purpose::Scheduled | Purpose::Case => self.on_miss(&probe, out),
            Purpose::Admission(stream) => self.admit_pending(stream, out),
            Purpose::Remembered { address } => {
                self.join_remembered(probe.target.member, address, out);
            }
            // Another life answers at the address: who asks this relay must hear of it, or nobody
            // ever is a witness, and the former owner stays listed for good.
            Purpose::Relay { requester, seq, .. } => {
                self.deny(requester, seq, probe.target.member, out);
            }
            _ => {}
        }
        self.ask_stranger(&probe, &answer.sender, out);
    }

    /// A life that this node does not know has answered where `probe` was sent. An answer as short
    /// as a ping seldom has room for its record, and who knows nobody here will not come by itself:
    /// exchange tables, or the last survivor of a cluster never finds those that came back.
    fn ask_stranger(&mut self, probe: &Probe, sender: &Sender, out: &mut Outbox) {
        let asked = matches!(
            probe.purpose,
            Purpose::Scheduled | Purpose::Case | Purpose::Contact
        );
        let known = self
            .target(sender.member)
            .is_some_and(|target| target.generation >= sender.generation);
        if asked && !known && self.repair.compared(self.now, Comparison::Missed) {
            self.start_exchange(probe.target.member, Path::Streams, out);
        }
    }

    fn on_news(&mut self, news: &News, out: &mut Outbox) {
        self.hear_sender(&news.sender);
        self.take_gossip(&news.gossip, out);
        self.hear_table(&news.sender, &news.gossip);
        self.answer_holders(news, out);
    }
}
