//! Who cannot see whom: what this node finds out about its own paths, and what it tells of them.

use std::time::Duration;

use super::config::Spreading;
use super::loss;
use super::paths::{Blocked, Paths, Question, Way};
use super::probe::{Probe, Purpose};
use super::reach_reports::{Hand, Heard, ReachReports};
use super::stream_watch::StreamWatch;
use super::{Life, Node, Outbox, Rejection};
use crate::member::NameHash;
use crate::time::Instant;
use crate::wire::{
    self, Ack, Age, Extension, GenerationLow, List, Message, ReachReport, Sender, Unreached, Ways,
};

/// Questions about paths in one period, all paths together.
const QUESTIONS_PER_PERIOD: usize = 2;
/// Least share of unanswered datagrams to be assumed: how many really go missing is learnt only
/// after some dozens, and a path is not blocked because all of them have just become bad.
const LOSS_MIN: f64 = 0.2;
/// Bytes of reports on one message.
const REPORT_BYTES_MAX: usize = 500;
/// For how long a member is asked that said that this node does not answer it.
const WANTED: Duration = Duration::from_secs(100);

/// What this node knows of who reaches whom.
#[derive(Debug)]
pub(super) struct Sight {
    /// Whose turn it is to be asked over a stream.
    pub(super) streams: StreamWatch,
    /// The own paths.
    pub(super) paths: Paths,
    /// What all observers tell, this node included.
    pub(super) reports: ReachReports,
}

impl Sight {
    /// Nothing is known yet. The turns of the streams begin by the node's `own` name.
    pub(super) fn new(own: NameHash, now: Instant) -> Self {
        Sight {
            streams: StreamWatch::new(own, now),
            paths: Paths::default(),
            reports: ReachReports::default(),
        }
    }
}

/// By which way a question is asked, if that is a path of this node's own.
fn way_of(purpose: Purpose) -> Option<Way> {
    match purpose {
        Purpose::Stream(_) => Some(Way::Streams),
        Purpose::Path { large: true } => Some(Way::LargeDatagrams),
        Purpose::Scheduled
        | Purpose::Case
        | Purpose::Check
        | Purpose::Relay { .. }
        | Purpose::Path { large: false } => Some(Way::Datagrams),
        _ => None,
    }
}

impl Node {
    /// A question of this node was not answered in time, though this node itself was.
    pub(super) fn note_unanswered(&mut self, probe: &Probe, out: &mut Outbox) {
        let member = probe.target.member;
        let Some(way) = way_of(probe.purpose).filter(|_| self.is_present(probe)) else {
            return;
        };
        let share = self
            .sight
            .paths
            .loss()
            .max(self.health.miss_floor(self.now));
        let weight = match way {
            Way::Datagrams => loss::decades(share.max(LOSS_MIN)),
            _ => loss::decades(share),
        };
        self.sight
            .paths
            .missed(self.now, member, way, probe.sent_at, weight);
        if way == Way::Streams {
            // What tells a blocked stream from a dead member: an answer by datagram.
            self.ping(member, Purpose::Path { large: false }, out);
        } else if way == Way::Datagrams && self.sight.paths.has_missed(member) {
            self.sight.paths.want_large(self.now, member);
        }
    }

    /// Whether the life that a question was put to is in the table, and active. Where news travels
    /// by infection alone no question may follow from another.
    fn is_present(&self, probe: &Probe) -> bool {
        let member = probe.target.member;
        self.target(member) == Some(probe.target)
            && self.table.is_active(member)
            && self.config.spreading != Spreading::Infection
    }

    /// A question of this node was answered.
    pub(super) fn note_answered(&mut self, probe: &Probe) {
        let member = probe.target.member;
        match way_of(probe.purpose) {
            Some(way) => self
                .sight
                .paths
                .answered(self.now, member, way, probe.sent_at),
            None => self.sight.paths.proved(self.now, member, probe.sent_at),
        }
    }

    /// A relay has got an answer of `member` to a question of `asked_at`.
    pub(super) fn note_vouched(&mut self, member: NameHash, asked_at: Instant) {
        self.sight.paths.proved(self.now, member, asked_at);
    }

    /// A datagram has come: its sender is heard.
    pub(super) fn note_heard(&mut self, message: &Message) {
        let sender = match message {
            Message::Ping(ping) => ping.sender,
            Message::Ack(ack) => ack.sender,
            Message::PingReq(request) => request.sender,
            Message::Nack(nack) => nack.sender,
            Message::RelayedAck(ack) => ack.sender,
            Message::News(news) => news.sender,
            _ => return,
        };
        if self.sight.paths.is_watched(sender.member) && self.is_same_life(&sender) {
            self.sight.paths.heard(self.now, sender.member);
        }
    }

    fn is_same_life(&self, sender: &Sender) -> bool {
        self.target(sender.member)
            .is_some_and(|target| target.generation == sender.generation)
    }

    /// An exchange of tables by datagrams has failed, in which the largest are sent.
    pub(super) fn note_exchange_failed(&mut self, member: NameHash) {
        if self.table.is_active(member) {
            self.sight.paths.want_large(self.now, member);
        }
    }

    /// A member is asked over a stream in its turn. Now and then it gets the largest datagram too:
    /// short ones would hide that it does not pass, until a large one matters.
    pub(super) fn try_large_datagram(&mut self, member: NameHash, out: &mut Outbox) {
        if self.config.spreading != Spreading::Infection && self.sight.paths.is_large_turn() {
            self.ping(member, Purpose::Path { large: true }, out);
        }
    }

    /// Once per period: asks about the paths that are in doubt, and tells what has been found.
    pub(super) fn watch_paths(&mut self, out: &mut Outbox) {
        let table = &self.table;
        self.sight
            .paths
            .sweep(self.now, |member| table.is_active(member));
        if !self.sight.reports.is_empty() {
            self.follow_reports();
        }
        for _ in 0..QUESTIONS_PER_PERIOD {
            let Some(question) = self.sight.paths.take_due(self.now) else {
                break;
            };
            self.ask_path(question, out);
        }
        self.report_paths();
    }

    /// Drops the reports of those that have gone, and asks those that say that this node does not
    /// answer: they learn from it whether they hear this node.
    fn follow_reports(&mut self) {
        let (table, own) = (&self.table, self.local.hash);
        self.sight.reports.sweep(self.now, |observer, generation| {
            let held = table.get(observer);
            held.is_some_and(|entry| {
                GenerationLow::of(entry.record.standing.generation) == generation
                    && (observer == own || table.is_active(observer))
            })
        });
        let complains = |&(unreached, _): &(Unreached, Instant)| {
            unreached.subject == own && unreached.ways.datagrams_lost
        };
        for (observer, report) in self.sight.reports.iter() {
            if observer != own && report.unreached.iter().any(complains) {
                self.sight.paths.want(self.now, observer, WANTED);
            }
        }
    }

    /// Asks about a path, and beside it in another way whether the member lives.
    fn ask_path(&mut self, question: Question, out: &mut Outbox) {
        let Question {
            member,
            way,
            number,
        } = question;
        match way {
            Way::Streams => self.ping_by_stream(member, out),
            Way::LargeDatagrams => {
                self.ping(member, Purpose::Path { large: true }, out);
                self.ping(member, Purpose::Path { large: false }, out);
            }
            Way::Datagrams => {
                self.ping(member, Purpose::Path { large: false }, out);
                match self.relay_beside(member, number) {
                    Some(relay) => self.ping_through(relay, member, out),
                    None => self.ping_by_stream(member, out),
                }
            }
        }
    }

    /// A relay for every other question, another one each time: where all relays fail, streams
    /// may not.
    fn relay_beside(&self, member: NameHash, number: u32) -> Option<NameHash> {
        let active = self.table.active();
        let place = number as usize / 2 % active.len().max(1);
        let relay = active.get(place).filter(|&&relay| relay != member)?;
        number.is_multiple_of(2).then_some(*relay)
    }

    fn report_paths(&mut self) {
        let unreached: Vec<(Unreached, Instant)> =
            self.sight.paths.blocked(self.now).map(unreached).collect();
        if unreached.is_empty() && self.sight.reports.is_empty() {
            return;
        }
        let own = (self.local.hash, GenerationLow::of(self.local.generation));
        let size = self.table.size();
        self.sight.reports.observe(self.now, own, unreached, size);
    }

    /// The reports that ride on a message, taken from its `room`.
    pub(super) fn load_reports(&mut self, room: &mut usize) -> List<Extension, 16> {
        if self.sight.reports.is_empty() {
            return List::default();
        }
        let riders = self.sight.reports.riders(self.now);
        let Some((extension, count)) = Extension::reach(&riders, (*room).min(REPORT_BYTES_MAX))
        else {
            return List::default();
        };
        for rider in &riders[..count] {
            self.sight.reports.rode(rider.observer);
        }
        *room -= extension.encoded_bytes().min(*room);
        vec![extension].into()
    }

    /// Takes in the reports on a message of the teller.
    pub(super) fn hear_reports(&mut self, extensions: &[Extension]) {
        for told in extensions.iter().filter_map(Extension::as_reach) {
            match told {
                Ok(reports) => reports.iter().for_each(|report| self.hear_report(report)),
                Err(error) => self.reject(error.into()),
            }
        }
    }

    fn hear_report(&mut self, report: &ReachReport) {
        let observer = report.observer;
        let held = self.table.get(observer);
        let same_life = held.is_some_and(|entry| {
            GenerationLow::of(entry.record.standing.generation) == report.generation
        });
        if !same_life || self.life != Life::Ready {
            return;
        }
        if observer == self.local.hash {
            self.sight.reports.hear_own(report.number);
            return;
        }
        if !self.table.is_active(observer) {
            return;
        }
        let hand = if self.teller == Some(observer) {
            Hand::First
        } else {
            Hand::Second
        };
        let size = self.table.size();
        if self.sight.reports.hear(self.now, report, hand, size) == Heard::Refused {
            self.reject(Rejection::Limit);
        }
    }

    /// Makes `message`, a ping, as large as a datagram may be.
    pub(super) fn pad_ping(&self, mut message: wire::Ping) -> wire::Ping {
        let bytes = wire::encode(self.cluster, &Message::Ping(message.clone())).len();
        message.gossip.extensions = self.padded(message.gossip.extensions, bytes);
        message
    }

    /// Makes the answer to a padded ping as large, as far as `budget` allows.
    pub(super) fn pad_ack(&self, ping: &wire::Ping, ack: &mut Ack, budget: usize) {
        if ping.gossip.extensions.iter().any(Extension::is_padding) {
            let bytes = wire::encode(self.cluster, &Message::Ack(ack.clone())).len();
            let spare = self.datagram_budget() - budget.min(self.datagram_budget());
            let extensions = std::mem::take(&mut ack.gossip.extensions);
            ack.gossip.extensions = self.padded(extensions, bytes + spare);
        }
    }

    fn padded(&self, extensions: List<Extension, 16>, bytes: usize) -> List<Extension, 16> {
        let mut extensions = extensions.into_vec();
        let room = self.datagram_budget().saturating_sub(bytes);
        let places = List::<Extension, 16>::MAX - extensions.len();
        extensions.extend(Extension::padding(room).into_iter().take(places));
        extensions.into()
    }
}

fn unreached((subject, blocked): (NameHash, Blocked)) -> (Unreached, Instant) {
    let [datagrams, large, streams] = blocked.since;
    let since = [datagrams, large, streams].into_iter().flatten().min();
    let told = Unreached {
        subject,
        ways: Ways {
            datagrams_lost: datagrams.is_some(),
            large_lost: large.is_some(),
            streams_lost: streams.is_some(),
            streams_pass: blocked.streams_pass,
            heard: blocked.heard,
        },
        age: Age(0),
    };
    (told, since.unwrap_or_default())
}
