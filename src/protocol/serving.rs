//! Answering what others ask in an exchange, and how many tables are sent at a time.
//!
//! Nothing is kept between two questions: what an answer needs comes with the question.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use super::digest::{self, Told};
use super::dissemination::ByteBucket;
use super::streams::{FRAME_RECORD_BYTES, TABLE_TIMEOUT};
use super::updates::Source;
use super::{Node, Outbox, Rejection, StreamId};
use crate::member::{NameHash, keyed_hash};
use crate::time::{Instant, nanos};
use crate::wire::{
    self, Advice, Ask, Bucket, Busy, Cookie, Delta, Difference, Digest, List, Message, Place,
    RecordUpdate, Sender, ShortId, Summary,
};

/// Largest answer in datagrams.
pub(super) const DATAGRAMS_MAX: usize = 4;
/// Streams with tables, or parts of them, that are served at a time.
const TABLES_SERVED_MAX: usize = 8;
/// Requests of several frames under way whose changes are counted.
const ADOPTING_MAX: usize = 256;
/// Upper bound of a message's bytes without its buckets, ids and records.
const FIXED_BYTES_MAX: usize = 96;
/// Upper bound of the bytes of a bucket without its ids.
const BUCKET_BYTES_MAX: usize = 6;
/// Bytes of one id.
const ID_BYTES: usize = 4;
/// Records that are hashed for others in a second: what a flood of digests may cost.
const HASHED_PER_SECOND: u32 = 2_000_000;
/// Joins that are served in a second, while others could serve them too.
const JOINS_PER_SECOND: u32 = 20;

/// How a question came.
#[derive(Clone, Copy, Debug)]
pub(super) enum Asked {
    /// As a datagram of so many bytes.
    Datagram {
        /// From where.
        from: SocketAddr,
        /// Its payload.
        bytes: usize,
    },
    /// On a stream.
    Stream(StreamId),
}

/// What is being served, and how much more may be.
#[derive(Debug)]
pub(super) struct Serving {
    /// Streams with tables that are being answered, and since when.
    streams: BTreeMap<StreamId, Instant>,
    /// Requests of several frames: how many of their records changed the table so far.
    adopting: BTreeMap<StreamId, usize>,
    hashing: ByteBucket,
    /// Joins that may be served at once.
    pub(super) joins: ByteBucket,
    cookie_secret: u64,
}

impl Serving {
    /// Nothing is served yet. Cookies follow from the secret.
    pub(super) fn new(cookie_secret: u64, now: Instant) -> Self {
        let bucket = |rate: u32| ByteBucket::new(rate, rate, now);
        Serving {
            streams: BTreeMap::new(),
            adopting: BTreeMap::new(),
            hashing: bucket(HASHED_PER_SECOND),
            joins: bucket(JOINS_PER_SECOND),
            cookie_secret,
        }
    }
}

/// A part of what is told: as much as fits one message.
#[derive(Debug, Default)]
pub(super) struct Part {
    pub(super) buckets: Vec<Bucket>,
    pub(super) wanted: Vec<ShortId>,
    pub(super) records: Vec<RecordUpdate>,
    bytes: usize,
}

/// Puts things into as few parts of at most `room` bytes as come out in order. A record larger
/// than that gets a part of its own, which is then larger.
#[derive(Debug)]
pub(super) struct Parts {
    room: usize,
    parts: Vec<Part>,
}

impl Parts {
    /// Parts for datagrams of at most `payload` bytes.
    pub(super) fn for_datagrams(payload: usize) -> Self {
        Parts::of(payload.saturating_sub(FIXED_BYTES_MAX))
    }

    /// Parts for the frames of a stream.
    pub(super) fn for_frames() -> Self {
        Parts::of(FRAME_RECORD_BYTES)
    }

    fn of(room: usize) -> Self {
        Parts {
            room,
            parts: vec![Part::default()],
        }
    }

    fn part_for(&mut self, bytes: usize) -> &mut Part {
        let full = |part: &Part| {
            let filled = part.bytes > 0 && part.bytes + bytes > self.room;
            filled || part.records.len() >= List::<(), 4096>::MAX
        };
        if self.parts.last().is_none_or(full) {
            self.parts.push(Part::default());
        }
        let last = self.parts.len() - 1;
        let part = &mut self.parts[last];
        part.bytes += bytes;
        part
    }

    pub(super) fn put_bucket(&mut self, bucket: Bucket) {
        let bytes = BUCKET_BYTES_MAX + ID_BYTES * bucket.ids.len();
        self.part_for(bytes).buckets.push(bucket);
    }

    pub(super) fn put_wanted(&mut self, wanted: Vec<ShortId>) {
        if !wanted.is_empty() {
            let bytes = ID_BYTES * wanted.len();
            self.part_for(bytes).wanted = wanted;
        }
    }

    pub(super) fn put_record(&mut self, record: RecordUpdate) {
        let update = wire::Update::Record(record);
        let bytes = wire::update_bytes(&update);
        if let wire::Update::Record(record) = update {
            self.part_for(bytes).records.push(record);
        }
    }

    /// The parts, if there are at most `max` and none is too large.
    pub(super) fn few(self, max: usize) -> Option<Vec<Part>> {
        let fits = self.parts.iter().all(|part| part.bytes <= self.room);
        (fits && self.parts.len() <= max).then_some(self.parts)
    }

    /// All parts.
    pub(super) fn all(self) -> Vec<Part> {
        self.parts
    }
}

/// What a question is answered with.
#[derive(Debug, Default)]
struct Answer {
    adopted: u32,
    buckets: Vec<Bucket>,
    wanted: Vec<ShortId>,
    records: Vec<NameHash>,
}

impl Node {
    /// The records that take part in an exchange: those that the fingerprint covers.
    pub(super) fn told_records(&self) -> Vec<Told> {
        let entries = self.table.iter().filter(|(_, entry)| entry.listed);
        entries
            .map(|(member, entry)| (member, entry.listed_hash()))
            .collect()
    }

    /// Somebody asks how its table differs from this one.
    pub(super) fn on_digest(&mut self, asked: Asked, digest: &Digest, out: &mut Outbox) {
        if !self.may_answer(asked, true, out) {
            return;
        }
        self.hear_sender(&digest.sender);
        let table = self.told_records();
        let answer = match &digest.summary {
            Summary::Records(ids) => {
                let lacking = digest::compare(digest.salt, &table, ids);
                Answer {
                    wanted: lacking.here,
                    records: lacking.there,
                    ..Answer::default()
                }
            }
            Summary::Buckets(sums) => Answer {
                buckets: digest::differing(digest.salt, &table, sums),
                ..Answer::default()
            },
        };
        let question = (digest.sender, digest.ask, digest.cookie);
        self.tell_difference(asked, question, answer, out);
    }

    /// Somebody tells records that this node lacks, and asks for such as it lacks itself.
    pub(super) fn on_delta(&mut self, asked: Asked, delta: &Delta, out: &mut Outbox) {
        let partial = matches!(asked, Asked::Stream(_)) && !delta.last;
        if !partial && !self.may_answer(asked, !delta.wanted.is_empty(), out) {
            return;
        }
        self.hear_sender(&delta.sender);
        let mut adopted = self.adopt_records(&delta.records, Source::Told, out);
        if let Asked::Stream(stream) = asked {
            adopted += self.serving.adopting.remove(&stream).unwrap_or_default();
            if partial {
                if self.serving.adopting.len() < ADOPTING_MAX {
                    self.serving.adopting.insert(stream, adopted);
                }
                return;
            }
        }
        let records = if delta.wanted.is_empty() {
            Vec::new()
        } else {
            digest::find(delta.salt, &self.told_records(), &delta.wanted)
        };
        let answer = Answer {
            adopted: u32::try_from(adopted).unwrap_or(u32::MAX),
            records,
            ..Answer::default()
        };
        let question = (delta.sender, delta.ask, delta.cookie);
        self.tell_difference(asked, question, answer, out);
    }

    /// Whether a question is answered: few streams at a time, and no flood of datagrams for which
    /// the table `is_hashed`.
    fn may_answer(&mut self, asked: Asked, is_hashed: bool, out: &mut Outbox) -> bool {
        match asked {
            Asked::Stream(stream) => {
                let serves = self.may_serve(stream);
                if !serves {
                    self.say_busy(stream, Vec::new(), out);
                }
                serves
            }
            Asked::Datagram { .. } if is_hashed => {
                let spare = self.serving.hashing.wait(self.now).is_zero();
                if spare {
                    self.serving.hashing.take(self.now, self.table.size());
                } else {
                    self.drop_for_limit("digest");
                }
                spare
            }
            Asked::Datagram { .. } => true,
        }
    }

    fn tell_difference(
        &mut self,
        asked: Asked,
        (asker, ask, cookie): (Sender, Ask, Option<Cookie>),
        answer: Answer,
        out: &mut Outbox,
    ) {
        let mut parts = match asked {
            Asked::Datagram { .. } => Parts::for_datagrams(self.datagram_budget()),
            Asked::Stream(_) => Parts::for_frames(),
        };
        parts.put_wanted(answer.wanted);
        for bucket in answer.buckets {
            parts.put_bucket(bucket);
        }
        let records = answer.records.iter();
        for entry in records.filter_map(|&member| self.table.get(member)) {
            parts.put_record(self.record_update(entry));
        }
        match asked {
            Asked::Stream(stream) => {
                let cookie = Cookie(0);
                let parts = parts.all();
                let messages = self.differences(parts, (ask, cookie, answer.adopted), Advice::GoOn);
                self.answer(stream, &messages, out);
            }
            Asked::Datagram { from, bytes } => {
                let own_cookie = self.cookie(from, 0);
                let question = (ask, own_cookie, answer.adopted);
                let parts = parts.few(DATAGRAMS_MAX);
                let messages = self.fit(parts, question, (asker, from, bytes, cookie));
                for message in messages {
                    self.send(from, &message, out);
                }
            }
        }
    }

    /// What answers a question of so many `bytes` as datagrams: the parts, or advice to ask in
    /// another way.
    fn fit(
        &self,
        parts: Option<Vec<Part>>,
        question: (Ask, Cookie, u32),
        (asker, from, bytes, cookie): (Sender, SocketAddr, usize, Option<Cookie>),
    ) -> Vec<Message> {
        let recorded = self.address_of(asker.member) == Some(from);
        let shown = cookie
            .is_some_and(|cookie| cookie == self.cookie(from, 0) || cookie == self.cookie(from, 1));
        let proven = recorded && (shown || self.has_answered_lately(asker.member));
        let small = |messages: &[Message]| {
            let encoded = |message| wire::encode(self.cluster, message).len();
            proven || messages.iter().map(encoded).sum::<usize>() <= bytes
        };
        let can_prove = parts.is_some() && recorded && !shown;
        let whole = parts.map(|parts| self.differences(parts, question, Advice::GoOn));
        if let Some(whole) = whole.filter(|whole| small(whole)) {
            return whole;
        }
        let advice = if can_prove {
            Advice::ProveAddress
        } else {
            Advice::UseStream
        };
        let advice = self.differences(vec![Part::default()], question, advice);
        if small(&advice) { advice } else { Vec::new() }
    }

    fn differences(
        &self,
        parts: Vec<Part>,
        (ask, cookie, adopted): (Ask, Cookie, u32),
        advice: Advice,
    ) -> Vec<Message> {
        let of = u32::try_from(parts.len()).unwrap_or(u32::MAX);
        let difference = |(part, number): (Part, u32)| {
            Message::Difference(Difference {
                sender: self.sender(),
                ask,
                place: Place { part: number, of },
                cookie,
                advice,
                adopted: if number == 0 { adopted } else { 0 },
                buckets: part.buckets.into(),
                wanted: part.wanted.into(),
                records: part.records.into(),
                extensions: List::default(),
            })
        };
        parts.into_iter().zip(0..).map(difference).collect()
    }

    /// What only who receives at `address` can know, in the present span of time or `spans` before
    /// it. To echo it is proof of the address for one to two spans.
    fn cookie(&self, address: SocketAddr, spans: u64) -> Cookie {
        let length = nanos(self.config.pause_tolerance).max(2) / 2;
        let span = (self.now.as_nanos() / length).wrapping_sub(spans);
        let text = format!("{address} {span}");
        Cookie(keyed_hash(self.serving.cookie_secret, text.as_bytes()))
    }

    /// Whether one more stream with a table may be served; then `stream` is.
    pub(super) fn may_serve(&mut self, stream: StreamId) -> bool {
        let now = self.now;
        // The driver says when a stream has ended; what it never says ends all the same.
        self.serving
            .streams
            .retain(|_, since| now.since(*since) < TABLE_TIMEOUT);
        let room = self.serving.streams.len() < TABLES_SERVED_MAX;
        if room {
            self.serving.streams.insert(stream, now);
        }
        room
    }

    /// Says that there is too much to do, and who may have less.
    pub(super) fn say_busy(&mut self, stream: StreamId, others: Vec<SocketAddr>, out: &mut Outbox) {
        self.stats.busy += 1;
        let busy = Busy {
            others: others.into(),
            extensions: List::default(),
        };
        self.answer(stream, &[Message::Busy(busy)], out);
    }

    /// A stream that a peer opened is closed.
    pub(super) fn on_stream_closed(&mut self, stream: StreamId) {
        self.serving.streams.remove(&stream);
        self.serving.adopting.remove(&stream);
    }

    /// Merges records; returns how many changed the table.
    pub(super) fn adopt_records(
        &mut self,
        records: &[RecordUpdate],
        source: Source,
        out: &mut Outbox,
    ) -> usize {
        let records = records.iter();
        records
            .filter(|record| self.adopt_record(record, source, out))
            .count()
    }

    /// An answer that nobody awaits.
    pub(super) fn reject_unsolicited(&mut self) {
        self.reject(Rejection::Unsolicited);
    }
}
