//! Streams: joining, the repair of a table, and pings where datagrams fail.

use std::net::SocketAddr;
use std::time::Duration;

use super::join_book::JoinState;
use super::updates::Source;
use super::{ExchangeId, Node, Outbox, Rejection, StreamId, Transmit, Transport};
use crate::member::NameHash;
use crate::time::Instant;
use crate::wire::{
    self, Carrier, DecodeError, List, Message, RecordUpdate, RefusalCode, Refused, Sync, Table,
};

/// How long a stream that carries a table may take.
const TABLE_TIMEOUT: Duration = Duration::from_secs(10);
/// Bytes of records in one frame.
const FRAME_RECORD_BYTES: usize = 192 * 1024;

/// What a stream that this node opened is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Exchange {
    /// Asking to be admitted.
    Join {
        /// Whom.
        address: SocketAddr,
        /// Records told so far.
        records: usize,
    },
    /// Comparing tables.
    Sync {
        /// Records that changed the own table so far.
        moved: usize,
    },
    /// A ping; its question is in the probe book.
    Ping,
    /// A ping to the holder of a name that somebody else wants, on whose stream.
    AskHolder {
        /// The newcomer's.
        stream: StreamId,
        /// Ending before this without an answer means that nobody listens there.
        until: Instant,
    },
}

impl Node {
    /// A number for a stream to be opened.
    pub(super) fn new_exchange_id(&mut self) -> ExchangeId {
        self.next_exchange += 1;
        ExchangeId(self.next_exchange)
    }

    /// Opens a stream to `to` with `messages` as the request.
    pub(super) fn open_exchange(
        &mut self,
        exchange: ExchangeId,
        purpose: Exchange,
        to: SocketAddr,
        messages: &[Message],
        timeout: Duration,
        out: &mut Outbox,
    ) {
        self.exchanges.insert(exchange, purpose);
        let frames = self.encode_stream(messages);
        out.transmits.push(Transmit::Open {
            exchange,
            to,
            frames,
            timeout,
        });
    }

    /// Answers a request, and so ends its stream.
    pub(super) fn answer(&mut self, stream: StreamId, messages: &[Message], out: &mut Outbox) {
        let frames = self.encode_stream(messages);
        out.transmits.push(Transmit::Answer { stream, frames });
    }

    fn encode_stream(&mut self, messages: &[Message]) -> Vec<Vec<u8>> {
        let encode = |message: &Message| {
            let frame = wire::encode(self.cluster, message);
            (message.kind(), frame)
        };
        let frames: Vec<_> = messages.iter().map(encode).collect();
        for (kind, frame) in &frames {
            self.count_sent(*kind, Transport::Stream, frame.len());
        }
        frames.into_iter().map(|(_, frame)| frame).collect()
    }

    /// A frame has come on a stream that a peer opened.
    pub(super) fn on_request(&mut self, stream: StreamId, frame: &[u8], out: &mut Outbox) {
        let message = match wire::decode(self.cluster, frame, Carrier::Stream) {
            Ok(message) => message,
            Err(error) => {
                self.reject(error.into());
                if error == DecodeError::Cluster {
                    self.refuse(stream, RefusalCode::CLUSTER, None, out);
                } else {
                    self.answer(stream, &[], out);
                }
                return;
            }
        };
        self.count_received(&message, Transport::Stream, frame.len());
        match message {
            Message::Ping(ping) => {
                let answer = self.answer_ping(&ping, self.datagram_budget(), out);
                self.answer(stream, &[answer], out);
            }
            _ if self.is_silent() => self.refuse(stream, RefusalCode::UNAVAILABLE, None, out),
            Message::Join(join) => self.on_join_request(stream, join.record, out),
            Message::Sync(sync) => self.on_sync(stream, &sync, out),
            _ => {
                self.reject(Rejection::WrongTransport);
                self.answer(stream, &[], out);
            }
        }
    }

    /// A frame has come on a stream that this node opened.
    pub(super) fn on_reply(&mut self, exchange: ExchangeId, frame: &[u8], out: &mut Outbox) {
        let Some(&purpose) = self.exchanges.get(&exchange) else {
            self.reject(Rejection::Unsolicited);
            return;
        };
        let message = match wire::decode(self.cluster, frame, Carrier::Stream) {
            Ok(message) => message,
            Err(error) => {
                self.reject(error.into());
                if let (Exchange::Join { address, .. }, DecodeError::Cluster) = (purpose, error) {
                    self.exchanges.remove(&exchange);
                    self.on_join_refused(address, super::RefusalReason::Cluster, out);
                }
                return;
            }
        };
        self.count_received(&message, Transport::Stream, frame.len());
        match (purpose, message) {
            (Exchange::Ping | Exchange::AskHolder { .. }, Message::Ack(ack)) => {
                self.on_stream_ack(&ack, out)
            }
            (Exchange::Ping | Exchange::AskHolder { .. }, Message::WrongTarget(answer)) => {
                self.on_wrong_target(&answer, out);
            }
            (Exchange::Join { address, records }, Message::Table(table)) => {
                self.on_join_table(exchange, address, records, &table, out);
            }
            (Exchange::Join { address, .. }, Message::Refused(refused)) => {
                self.exchanges.remove(&exchange);
                self.on_refused(address, &refused, out);
            }
            (Exchange::Join { address, .. }, Message::Superseded(superseded)) => {
                self.exchanges.remove(&exchange);
                self.on_superseded(address, superseded.generation, out);
            }
            (Exchange::Sync { moved }, Message::Table(table)) => {
                self.on_sync_table(exchange, moved, &table, out);
            }
            _ => self.reject(Rejection::Unsolicited),
        }
    }

    /// A stream that this node opened has ended.
    pub(super) fn on_exchange_ended(&mut self, exchange: ExchangeId, out: &mut Outbox) {
        match self.exchanges.remove(&exchange) {
            Some(Exchange::Join { address, .. }) => self.on_join_failed(address, out),
            Some(Exchange::Sync { moved }) => self.repair.ended(self.now, moved),
            Some(Exchange::AskHolder { stream, until }) if self.now < until => {
                self.on_holder_unheard(stream);
            }
            Some(Exchange::Ping | Exchange::AskHolder { .. }) | None => {}
        }
    }

    fn on_stream_ack(&mut self, ack: &wire::Ack, out: &mut Outbox) {
        let probe = self.probes.get(ack.seq).copied();
        let answered = probe.filter(|probe| {
            (ack.sender.member, ack.sender.generation)
                == (probe.target.member, probe.target.generation)
        });
        let Some(probe) = answered else {
            self.reject(Rejection::Unsolicited);
            return;
        };
        self.hear_sender(&ack.sender);
        self.on_answered(ack.seq, &probe, out);
        self.take_gossip(&ack.gossip, out);
        self.hear_table(&ack.sender, &ack.gossip);
        self.follow_purpose(&probe.purpose, ack.sender.member, out);
    }

    /// Says no.
    pub(super) fn refuse(
        &mut self,
        stream: StreamId,
        reason: RefusalCode,
        holder: Option<NameHash>,
        out: &mut Outbox,
    ) {
        let record = holder.and_then(|member| self.table.get(member));
        let record = record.map(|entry| self.record_update(entry));
        let holder = record.into_iter().collect::<Vec<_>>().into();
        self.answer(stream, &[Message::Refused(Refused { reason, holder })], out);
    }

    /// Answers with the whole table.
    pub(super) fn answer_table(&mut self, stream: StreamId, out: &mut Outbox) {
        let tables: Vec<Message> = self.tables().into_iter().map(Message::Table).collect();
        self.answer(stream, &tables, out);
    }

    /// All records that are told, in parts that fit a frame.
    fn tables(&self) -> Vec<Table> {
        let mut parts: Vec<Vec<RecordUpdate>> = vec![Vec::new()];
        let mut room = FRAME_RECORD_BYTES;
        for (_, entry) in self.table.iter().filter(|(_, entry)| entry.listed) {
            let update = wire::Update::Record(self.record_update(entry));
            let bytes = wire::update_bytes(&update);
            let wire::Update::Record(record) = update else {
                continue;
            };
            let full = parts
                .last()
                .is_none_or(|part| part.len() >= List::<(), 4096>::MAX);
            if bytes > room || full {
                parts.push(Vec::new());
                room = FRAME_RECORD_BYTES;
            }
            room -= bytes;
            if let Some(part) = parts.last_mut() {
                part.push(record);
            }
        }
        let sender = self.sender();
        let count = parts.len();
        parts
            .into_iter()
            .enumerate()
            .map(|(n, records)| Table {
                sender,
                records: records.into(),
                last: n + 1 == count,
            })
            .collect()
    }

    /// Exchanges tables with `member`: this node's goes out, the other's comes back.
    pub(super) fn start_sync(&mut self, member: NameHash, out: &mut Outbox) {
        let Some(to) = self.address_of(member) else {
            self.repair.ended(self.now, 0);
            return;
        };
        self.stats.exchanges += 1;
        let exchange = self.new_exchange_id();
        let parts: Vec<Message> = self
            .tables()
            .into_iter()
            .map(|table| Message::Sync(Sync { table }))
            .collect();
        self.open_exchange(
            exchange,
            Exchange::Sync { moved: 0 },
            to,
            &parts,
            TABLE_TIMEOUT,
            out,
        );
    }

    fn on_sync(&mut self, stream: StreamId, sync: &Sync, out: &mut Outbox) {
        self.hear_sender(&sync.table.sender);
        self.adopt_table(&sync.table, Source::Told, out);
        if sync.table.last {
            self.answer_table(stream, out);
        }
    }

    fn on_sync_table(
        &mut self,
        exchange: ExchangeId,
        moved: usize,
        table: &Table,
        out: &mut Outbox,
    ) {
        let moved = moved + self.adopt_table(table, Source::Told, out);
        self.note_stream_answer(table.sender.member, out);
        if table.last {
            self.exchanges.remove(&exchange);
            self.repair.ended(self.now, moved);
            if moved == 0 {
                self.stats.exchanges_needless += 1;
            }
        } else {
            self.exchanges.insert(exchange, Exchange::Sync { moved });
        }
    }

    /// A member has answered over a stream: it hears this node and is heard.
    fn note_stream_answer(&mut self, member: NameHash, out: &mut Outbox) {
        if self.note_answer(member).is_some() {
            self.prove_contact(member, out);
        }
    }

    /// Merges a part of a table; returns how many records changed the own one.
    pub(super) fn adopt_table(&mut self, table: &Table, source: Source, out: &mut Outbox) -> usize {
        table
            .records
            .iter()
            .filter(|record| self.adopt_record(record, source, out))
            .count()
    }

    /// Opens the stream that asks `address` to admit this node.
    pub(super) fn ask_to_join(&mut self, address: SocketAddr, out: &mut Outbox) {
        let Some(own) = self.table.get(self.local.hash) else {
            return;
        };
        let join = wire::Join {
            record: self.record_update(own),
            extensions: List::default(),
        };
        let exchange = self.new_exchange_id();
        let purpose = Exchange::Join {
            address,
            records: 0,
        };
        self.open_exchange(
            exchange,
            purpose,
            address,
            &[Message::Join(join)],
            TABLE_TIMEOUT,
            out,
        );
    }

    fn on_join_table(
        &mut self,
        exchange: ExchangeId,
        address: SocketAddr,
        records: usize,
        table: &Table,
        out: &mut Outbox,
    ) {
        let records = records + table.records.len();
        self.adopt_table(table, Source::JoinTable, out);
        self.hear_sender(&table.sender);
        self.note_stream_answer(table.sender.member, out);
        if table.last {
            self.exchanges.remove(&exchange);
            self.joins
                .settle(address, JoinState::Joined(table.sender.member));
            self.on_joined(address, records, out);
        } else {
            self.exchanges
                .insert(exchange, Exchange::Join { address, records });
        }
    }

    /// Counts a request beyond a limit.
    pub(super) fn drop_for_limit(&mut self, queue: &'static str) {
        *self.stats.dropped.entry(queue).or_insert(0) += 1;
        self.reject(Rejection::Limit);
    }
}
