//! Asking members whether they live: pings, relayed pings, and what the answers prove.

use std::net::SocketAddr;
use std::time::Duration;

use super::health::Punctuality;
use super::probe::{Probe, Purpose};
use super::spreading::Fill;
use super::streams::Exchange;
use super::{Event, ExchangeId, Node, Outbox, ProbeKind, ProbeOutcome, StreamId, Timer};
use crate::member::NameHash;
use crate::time::Instant;
use crate::wire::{
    Centiseconds, Extension, Flags, List, Message, MissRate, Nack, Ping, PingReq, ProbeSeq, Target,
};

/// An answer that comes so long after its question proves life only for then: it may have been
/// under way since before the member's end.
const STALE_PROOF: Duration = Duration::from_secs(1);
/// One question in so many carries the clock. A node asks nine in eight periods, so it falls on
/// each of those that it observes in turn.
const CLOCK_QUESTIONS: u32 = 4;
/// How long a stream ping may take.
const STREAM_PING_TIMEOUT: Duration = Duration::from_secs(2);

impl Node {
    /// How long to wait for an answer of `member` to a ping.
    pub(super) fn ack_timeout(&self, member: NameHash) -> Duration {
        let floor = self.config.ack_timeout;
        let ceiling = self.config.probe_period / 2;
        match self.contact(member) {
            Some(contact) => contact.round_trip.timeout(floor, ceiling),
            None => floor,
        }
    }

    /// Pings `member`, whose address must be known.
    pub(super) fn ping(&mut self, member: NameHash, purpose: Purpose, out: &mut Outbox) {
        let (Some(to), Some(target)) = (self.address_of(member), self.target(member)) else {
            return;
        };
        let timeout = self.ack_timeout(member);
        let seq = self.probes.ask(target, self.now, purpose);
        self.timers.set(Timer::Probe(seq), self.now, timeout);
        let mut ping = self.build_ping(seq, target, purpose);
        if purpose == (Purpose::Path { large: true }) {
            ping = self.pad_ping(ping);
        }
        self.send(to, &Message::Ping(ping), out);
    }

    fn build_ping(&mut self, seq: ProbeSeq, target: Target, purpose: Purpose) -> Ping {
        let flags = Flags {
            quiet: self.is_quiet(),
        };
        let (peer, budget) = (Some(target.member), self.datagram_budget());
        let mut gossip = if purpose == Purpose::Scheduled {
            self.gossip_with_heartbeats(peer, budget, flags, Fill::Riders)
        } else {
            self.gossip(peer, budget, flags, Fill::Riders)
        };
        if seq.0.is_multiple_of(CLOCK_QUESTIONS)
            && let Some(seconds) = self.wall.seconds(self.now)
        {
            let mut extensions = gossip.extensions.into_vec();
            extensions.push(Extension::clock(seconds));
            gossip.extensions = extensions.into();
        }
        Ping {
            sender: self.sender(),
            seq,
            target,
            period: self.period_phase(),
            gossip,
        }
    }

    /// What the asker's wall clock shows.
    pub(super) fn hear_clock(&mut self, ping: &Ping, out: &mut Outbox) {
        let told = ping.gossip.extensions.iter().find_map(Extension::as_clock);
        let (Some(theirs), Some(own)) = (told, self.wall.seconds(self.now)) else {
            return;
        };
        let member = ping.sender.member;
        if !self.table.is_active(member) {
            return;
        }
        let own = (own & 0xffff) as u16;
        self.skew.hear(self.now, member, theirs, own);
        if let Some(wrong) = self.skew.turned(self.table.active().len()) {
            let seconds = self.skew.seconds();
            out.events.push(Event::ClockSkew { seconds, wrong });
        }
    }

    /// The present life of `member`, as a probe names it.
    pub(super) fn target(&self, member: NameHash) -> Option<Target> {
        let generation = self.table.get(member)?.record.standing.generation;
        Some(Target { member, generation })
    }

    /// Asks `relay` to ping `member`.
    pub(super) fn ping_through(&mut self, relay: NameHash, member: NameHash, out: &mut Outbox) {
        let (Some(to), Some(target)) = (self.address_of(relay), self.target(member)) else {
            return;
        };
        let seq = self.probes.ask(
            target,
            self.now,
            Purpose::Relayed {
                relay,
                denied: false,
            },
        );
        self.timers
            .set(Timer::Probe(seq), self.now, self.config.relay_timeout);
        let flags = Flags {
            quiet: self.is_quiet(),
        };
        let gossip = self.gossip(Some(relay), self.datagram_budget(), flags, Fill::Riders);
        let request = PingReq {
            sender: self.sender(),
            seq,
            target,
            gossip,
        };
        self.send(to, &Message::PingReq(request), out);
    }

    /// Pings `member` over a stream: where datagrams are blocked, an answer there proves life too.
    pub(super) fn ping_by_stream(&mut self, member: NameHash, out: &mut Outbox) {
        let exchange = self.new_exchange_id();
        self.open_ping(
            member,
            Purpose::Stream(exchange),
            (exchange, Exchange::Ping),
            out,
        );
    }

    /// Asks the holder of a name over a stream whether it runs: a host where nobody listens any
    /// more says so at once, while one that stands still says nothing.
    pub(super) fn ask_holder_by_stream(
        &mut self,
        stream: StreamId,
        member: NameHash,
        out: &mut Outbox,
    ) {
        let until = self.now + STREAM_PING_TIMEOUT;
        let exchange = (
            self.new_exchange_id(),
            Exchange::AskHolder { stream, until },
        );
        self.open_ping(member, Purpose::Admission(stream), exchange, out);
    }

    fn open_ping(
        &mut self,
        member: NameHash,
        purpose: Purpose,
        (exchange, carried): (ExchangeId, Exchange),
        out: &mut Outbox,
    ) {
        let (Some(to), Some(target)) = (self.address_of(member), self.target(member)) else {
            return;
        };
        let seq = self.probes.ask(target, self.now, purpose);
        self.timers
            .set(Timer::Probe(seq), self.now, STREAM_PING_TIMEOUT);
        let ping = Message::Ping(self.build_ping(seq, target, purpose));
        self.open_exchange(exchange, carried, to, &[ping], STREAM_PING_TIMEOUT, out);
    }

    /// A question has waited for as long as an answer may take.
    pub(super) fn on_probe_timeout(
        &mut self,
        seq: ProbeSeq,
        punctuality: Punctuality,
        out: &mut Outbox,
    ) {
        let Some(&probe) = self.probes.get(seq) else {
            return;
        };
        match punctuality {
            Punctuality::Late => self.void_probe(seq, &probe, out),
            Punctuality::OnTime => self.fail_probe(seq, &probe, out),
        }
    }

    /// This node stood still: the question says nothing, and is asked again.
    fn void_probe(&mut self, seq: ProbeSeq, probe: &Probe, out: &mut Outbox) {
        if let Purpose::Relay {
            requester,
            asker,
            seq: asked,
            prolonged: false,
        } = probe.purpose
        {
            let timeout = self.ack_timeout(probe.target.member);
            if let Some(kept) = self.probes.get_mut(seq) {
                kept.purpose = Purpose::Relay {
                    requester,
                    asker,
                    seq: asked,
                    prolonged: true,
                };
            }
            self.timers.set(Timer::Probe(seq), self.now, timeout);
            return;
        }
        self.probes.close(seq);
        self.count_probe(probe, ProbeOutcome::Void);
        let member = probe.target.member;
        if matches!(probe.purpose, Purpose::Scheduled | Purpose::Case)
            && self.target(member) == Some(probe.target)
        {
            self.ping(member, probe.purpose, out);
        }
    }

    fn fail_probe(&mut self, seq: ProbeSeq, probe: &Probe, out: &mut Outbox) {
        if let Some(kept) = self.probes.get_mut(seq) {
            kept.timed_out = true;
        }
        self.note_probe(probe, ProbeOutcome::Missed);
        self.note_unanswered(probe, out);
        match probe.purpose {
            Purpose::Scheduled | Purpose::Case => {
                self.stats
                    .probes
                    .add((ProbeKind::Direct, ProbeOutcome::Missed), 1);
                self.on_miss(probe, out);
            }
            Purpose::Relayed { .. } | Purpose::Stream(_) => {
                let key = (probe_kind(probe.purpose), ProbeOutcome::Missed);
                self.stats.probes.add(key, 1);
                self.note_unheard(probe);
                self.look_for_company(probe.purpose, out);
            }
            Purpose::Relay {
                requester,
                seq: asked,
                prolonged: false,
                ..
            } => {
                self.deny(requester, asked, probe.target.member, out);
            }
            // A relay that was late keeps silent rather than accuse.
            Purpose::Relay { .. }
            | Purpose::Contact
            | Purpose::Check
            | Purpose::Path { .. }
            | Purpose::Remembered { .. }
            | Purpose::Admission(_)
            | Purpose::Leave
            | Purpose::Try
            | Purpose::Forget(_) => {}
        }
    }

    /// A relay asked in a case was not heard of.
    fn note_unheard(&mut self, probe: &Probe) {
        if let Purpose::Relayed { .. } = probe.purpose
            && let Some(case) = self.cases.get_mut(&probe.target.member)
        {
            case.unheard();
        }
    }

    /// An isolated node asks a silent relay itself. Relays answer only whom they know: a node that
    /// knows nobody, because its clock was years behind when it was told of them, is company too.
    fn look_for_company(&mut self, purpose: Purpose, out: &mut Outbox) {
        if let Purpose::Relayed { relay, .. } = purpose
            && self.isolated
        {
            self.ping(relay, Purpose::Scheduled, out);
        }
    }

    /// Tells `requester` that `member` does not answer here.
    pub(super) fn deny(
        &mut self,
        requester: SocketAddr,
        asked: ProbeSeq,
        member: NameHash,
        out: &mut Outbox,
    ) {
        let nack = self.build_nack(asked, member);
        self.send(requester, &Message::Nack(nack), out);
    }

    fn build_nack(&self, seq: ProbeSeq, member: NameHash) -> Nack {
        let answered = match self.answered_at(member) {
            Some(at) => Centiseconds::from_duration(self.now.since(at)),
            None => Centiseconds::UNKNOWN,
        };
        let miss_rate = self.misses.share().max(self.health.miss_floor(self.now));
        Nack {
            sender: self.sender(),
            seq,
            miss_rate: MissRate::from_share(miss_rate),
            answered,
            extensions: List::default(),
        }
    }

    /// The member of `probe` has answered it.
    pub(super) fn on_answered(&mut self, seq: ProbeSeq, probe: &Probe, out: &mut Outbox) {
        self.probes.close(seq);
        self.timers.cancel(Timer::Probe(seq));
        let member = probe.target.member;
        let round_trip = self.now.since(probe.sent_at);
        let kind = probe_kind(probe.purpose);
        if probe.timed_out {
            // Slow is not lost: it raises the timeout, not the miss rate.
            self.count_probe(probe, ProbeOutcome::Late);
        } else {
            self.count_probe(probe, ProbeOutcome::Acked);
            if probe.purpose.measures_loss() {
                self.misses.answered();
            }
        }
        out.events.push(Event::ProbeAnswered(round_trip));
        if let Some(contact) = self.note_answer(member, probe.sent_at)
            && kind == ProbeKind::Direct
        {
            contact.round_trip.record(round_trip);
        }
        self.note_answered(probe);
        self.prove_life(member, probe.sent_at, out);
        self.prove_contact(member, out);
    }

    /// `member` was alive after `asked_at`: earlier misses were losses, a case is closed.
    pub(super) fn prove_life(&mut self, member: NameHash, asked_at: Instant, out: &mut Outbox) {
        let lost = self
            .target(member)
            .map_or(0, |target| self.probes.settle(target, asked_at));
        // What a blocked path loses says nothing of the others.
        let charged = if self.sight.paths.is_blocked(member) {
            0
        } else {
            lost
        };
        for _ in 0..charged {
            self.misses.missed();
        }
        self.note_forgetting_answered(member, asked_at);
        let stale = self.is_stale(asked_at);
        let case = self.cases.get(&member);
        if case.is_some_and(|case| case.is_disproved_by(asked_at, stale)) {
            self.acquit(member, out);
        }
    }

    /// Whether an answer that comes now to a question of `asked_at` was long under way.
    pub(super) fn is_stale(&self, asked_at: Instant) -> bool {
        self.now.since(asked_at) > STALE_PROOF
    }

    /// `member` answered this node: it hears and is heard, which vouches for its own misses of
    /// others, and ends isolation.
    pub(super) fn prove_contact(&mut self, member: NameHash, out: &mut Outbox) {
        self.contact_at = self.now;
        self.end_isolation(out);
        self.vouch_for_misses(member, out);
    }

    /// `requester` asks this node to ping `target` for it.
    pub(super) fn relay_ping(
        &mut self,
        (requester, asker): (SocketAddr, NameHash),
        asked: ProbeSeq,
        target: Target,
        out: &mut Outbox,
    ) {
        let purpose = Purpose::Relay {
            requester,
            asker,
            seq: asked,
            prolonged: false,
        };
        self.ping(target.member, purpose, out);
    }
}

/// Under which kind a question is counted.
pub(super) fn probe_kind(purpose: Purpose) -> ProbeKind {
    match purpose {
        Purpose::Relayed { .. } => ProbeKind::Relayed,
        Purpose::Stream(_) => ProbeKind::Stream,
        _ => ProbeKind::Direct,
    }
}
