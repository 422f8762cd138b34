//! Streams: joining, the repair of a table, and pings where datagrams fail.

use std::net::SocketAddr;
use std::time::Duration;

use super::exchanging::AnsweredBy;
use super::join_book::JoinState;
use super::serving::{Asked, Parts};
use super::updates::Source;
use super::{ExchangeId, Node, Outbox, Rejection, StreamId, Transmit, Transport};
use crate::member::NameHash;
use crate::time::Instant;
use crate::wire::{self, Carrier, DecodeError, List, Message, RefusalCode, Refused, Table};

/// How long a stream that carries a table may take.
pub(super) const TABLE_TIMEOUT: Duration = Duration::from_secs(10);
/// Bytes of records in one frame.
pub(super) const FRAME_RECORD_BYTES: usize = 192 * 1024;

/// What a stream that this node opened is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Exchange {
    /// Asking to be admitted.
    Join {
        /// Which join address it is about.
        address: SocketAddr,
        /// Whom: who listens there, or whom that named.
        asked: SocketAddr,
        /// Records told so far.
        records: usize,
    },
    /// A question of an exchange of tables.
    Tables,
    /// Asking for the metadata of this member.
    Pull {
        /// Whose.
        member: NameHash,
    },
    /// Comparing with this member up to where there are user events.
    EventHeads {
        /// Whom.
        member: NameHash,
    },
    /// Asking this member for user events.
    EventPull {
        /// Whom.
        member: NameHash,
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
            Message::Digest(digest) => self.on_digest(Asked::Stream(stream), &digest, out),
            Message::Delta(delta) => self.on_delta(Asked::Stream(stream), &delta, out),
            Message::Pull(pull) => self.on_pull(stream, &pull, out),
            Message::EventPull(pull) => self.on_event_pull(stream, &pull, out),
            Message::EventHeads(heads) => {
                self.on_event_heads(Asked::Stream(stream), &heads, out);
            }
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
        self.sight.streams.heard(exchange, self.now);
        match (purpose, message) {
            (Exchange::Ping | Exchange::AskHolder { .. }, Message::Ack(ack)) => {
                self.on_stream_ack(&ack, out)
            }
            (Exchange::Ping | Exchange::AskHolder { .. }, Message::WrongTarget(answer)) => {
                self.on_wrong_target(&answer, out);
            }
            (Exchange::Join { .. }, Message::EventHeads(heads)) => {
                self.on_join_heads(exchange, &heads);
            }
            (Exchange::Join { .. }, Message::Table(table)) => {
                self.on_join_table(exchange, purpose, &table, out);
            }
            (Exchange::Join { address, asked, .. }, Message::Refused(refused)) => {
                self.exchanges.remove(&exchange);
                self.on_refused((address, asked), &refused, out);
            }
            (Exchange::Join { address, .. }, Message::Busy(busy)) => {
                self.exchanges.remove(&exchange);
                self.on_join_busy(address, &busy, out);
            }
            (Exchange::Join { address, .. }, Message::Superseded(superseded)) => {
                self.exchanges.remove(&exchange);
                self.on_superseded(address, superseded.generation, out);
            }
            (Exchange::Tables, Message::Difference(answer)) => {
                self.on_difference(AnsweredBy::Stream(exchange), &answer, out);
            }
            (Exchange::Tables, Message::Busy(_)) => self.on_exchange_busy(exchange),
            (Exchange::Pull { member }, Message::Values(values)) => {
                self.on_values(exchange, member, &values, out);
            }
            (Exchange::EventHeads { .. }, Message::EventHeads(heads)) => {
                self.on_heads_reply(exchange, &heads, out);
            }
            (Exchange::EventPull { member }, Message::EventValues(values)) => {
                self.on_event_values(exchange, member, &values, out);
            }
            _ => self.reject(Rejection::Unsolicited),
        }
    }

    /// A stream that this node opened has ended.
    pub(super) fn on_exchange_ended(&mut self, exchange: ExchangeId, out: &mut Outbox) {
        if !self.sight.streams.ended(exchange) {
            self.stats.streams_failed += 1;
        }
        match self.exchanges.remove(&exchange) {
            Some(Exchange::Join { address, .. }) => self.on_join_failed(address, out),
            Some(Exchange::Tables) => self.on_table_stream_ended(exchange, out),
            Some(Exchange::Pull { member }) => self.on_pull_failed(exchange, member, out),
            Some(Exchange::EventPull { member }) => self.on_event_pull_failed(exchange, member),
            Some(Exchange::AskHolder { stream, until }) if self.now < until => {
                self.on_holder_unheard(stream);
            }
            Some(Exchange::EventHeads { .. } | Exchange::Ping | Exchange::AskHolder { .. })
            | None => {}
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
        let mut answer = self.heads_for_joiner();
        answer.extend(self.tables().into_iter().map(Message::Table));
        self.answer(stream, &answer, out);
    }

    /// All records that are told, in parts that fit a frame.
    fn tables(&self) -> Vec<Table> {
        let mut parts = Parts::for_frames();
        for (_, entry) in self.table.iter().filter(|(_, entry)| entry.listed) {
            parts.put_record(self.record_update(entry));
        }
        let sender = self.sender();
        let parts = parts.all();
        let count = parts.len();
        parts
            .into_iter()
            .enumerate()
            .map(|(n, part)| Table {
                sender,
                records: part.records.into(),
                last: n + 1 == count,
            })
            .collect()
    }

    /// A member has answered over a stream, or a question that only it heard: it hears this node
    /// and is heard.
    pub(super) fn note_stream_answer(&mut self, member: NameHash, out: &mut Outbox) {
        if self.note_answer(member, self.now).is_some() {
            self.prove_contact(member, out);
        }
    }

    /// Opens the stream that asks `asked` to admit this node, on behalf of the join address
    /// `address`.
    pub(super) fn ask_to_join(&mut self, address: SocketAddr, asked: SocketAddr, out: &mut Outbox) {
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
            asked,
            records: 0,
        };
        self.open_exchange(
            exchange,
            purpose,
            asked,
            &[Message::Join(join)],
            TABLE_TIMEOUT,
            out,
        );
    }

    fn on_join_table(
        &mut self,
        exchange: ExchangeId,
        purpose: Exchange,
        table: &Table,
        out: &mut Outbox,
    ) {
        let Exchange::Join {
            address,
            asked,
            records,
        } = purpose
        else {
            return;
        };
        let records = records + table.records.len();
        self.teller = Some(table.sender.member);
        self.adopt_records(&table.records, Source::JoinTable, out);
        self.hear_sender(&table.sender);
        self.note_stream_answer(table.sender.member, out);
        if table.last {
            self.exchanges.remove(&exchange);
            self.begin_events(exchange, table.sender.member);
            self.joins
                .settle(address, JoinState::Joined(table.sender.member));
            self.on_joined(address, records, out);
        } else {
            let purpose = Exchange::Join {
                address,
                asked,
                records,
            };
            self.exchanges.insert(exchange, purpose);
        }
    }

    /// Counts a request beyond a limit.
    pub(super) fn drop_for_limit(&mut self, queue: &'static str) {
        *self.stats.dropped.entry(queue).or_insert(0) += 1;
        self.reject(Rejection::Limit);
    }
}
