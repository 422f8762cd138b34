//! Two cores and a flawless wire: what an exchange of tables costs, to the byte.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use rumord::member::{
    Generation, Incarnation, Metadata, NodeId, NodeName, Record, Standing, Status, Tags, Version,
    WireRange,
};
use rumord::protocol::{
    Bootstrap, Config, ExchangeId, Identity, Input, Node, Outbox, StreamId, Transmit,
};
use rumord::time::Instant;
use rumord::wire::{
    self, Age, Carrier, ClusterTag, Message, MessageKind, RecordUpdate, Sender, Table,
};

/// One trip over the wire.
const TRIP: Duration = Duration::from_micros(250);
const CLUSTER: &str = "default";
const GENERATION: Generation = Generation(1_764_000_000);
/// Records in one frame.
const FRAME_RECORDS: usize = 2000;
/// After this long the two have told each other all that rides on pings.
const SETTLED: Duration = Duration::from_secs(20);
/// How long it is looked at what they say to each other.
pub const WINDOW: Duration = Duration::from_secs(20);

/// What the two said to each other after a difference had come up.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Spent {
    /// Bytes by kind of message, without IP, UDP and TCP headers.
    pub bytes: BTreeMap<&'static str, u64>,
    /// Messages by kind.
    pub messages: BTreeMap<&'static str, u64>,
    /// Records that were told in an exchange.
    pub records: usize,
    /// How long until the tables were equal.
    pub equal_after: Option<Duration>,
    /// Bytes of both whole tables, as they would be exchanged without a digest.
    pub whole_tables: u64,
}

impl Spent {
    /// Bytes of the exchanges.
    #[must_use]
    pub fn exchange_bytes(&self) -> u64 {
        let kinds = [
            MessageKind::Digest,
            MessageKind::Difference,
            MessageKind::Delta,
        ];
        let bytes = kinds
            .iter()
            .filter_map(|kind| self.bytes.get(kind.as_str()));
        bytes.sum()
    }
}

/// Something that reaches a side.
enum Arriving {
    Datagram(Vec<u8>),
    Request(StreamId, Vec<Vec<u8>>),
    Reply(ExchangeId, Vec<Vec<u8>>),
    Closed(StreamId),
}

struct Pair {
    now: Instant,
    sides: [Node; 2],
    /// What is under way: when it arrives, and at which side.
    wire: Vec<(Instant, usize, Arriving)>,
    /// Streams by their number: who opened them, and what it calls them.
    streams: Vec<(usize, ExchangeId)>,
    tellers: u16,
    spent: Spent,
}

/// Two members whose tables hold `count` records each; `differing` of them are newer at one side,
/// every second of those at the first.
#[must_use]
pub fn exchange(count: usize, differing: usize) -> Spent {
    let mut pair = Pair::new();
    let told: Vec<RecordUpdate> = (0..count - 2).map(|n| record(n, Incarnation(0))).collect();
    pair.tell(0, &told);
    pair.tell(1, &told);
    pair.run(SETTLED);
    assert_eq!(pair.sides[0].fingerprint(), pair.sides[1].fingerprint());
    for side in [0, 1] {
        let newer: Vec<RecordUpdate> = (0..differing.min(count - 2))
            .filter(|n| n % 2 == side)
            .map(|n| record(n * (count - 2) / differing.max(1), Incarnation(1)))
            .collect();
        pair.tell(side, &newer);
    }
    let began = pair.now;
    pair.spent = Spent {
        whole_tables: pair.whole_tables(),
        ..Spent::default()
    };
    while pair.now.since(began) < WINDOW {
        let equal = pair.sides[0].fingerprint() == pair.sides[1].fingerprint();
        if equal && pair.spent.equal_after.is_none() {
            pair.spent.equal_after = Some(pair.now.since(began));
        }
        pair.run(Duration::from_millis(1));
    }
    pair.spent
}

impl Pair {
    fn new() -> Self {
        let node = |side: usize| {
            let identity = Identity {
                name: name(&format!("side-{side}")),
                cluster: CLUSTER.into(),
                generation: GENERATION,
                node_id: NodeId(side as u64 + 1),
                address: address(side),
                tags: Tags::new(),
                services: Vec::new(),
            };
            let made = Node::new(
                identity,
                Config::lan(),
                Bootstrap::Alone,
                side as u64 + 1,
                Instant::ORIGIN,
            );
            made.unwrap_or_else(|error| panic!("{error}"))
        };
        let mut pair = Pair {
            now: Instant::ORIGIN,
            sides: [node(0), node(1)],
            wire: Vec::new(),
            streams: Vec::new(),
            tellers: 0,
            spent: Spent::default(),
        };
        let addresses = [address(1)];
        let join = Input::Join {
            addresses: &addresses,
        };
        pair.feed(0, join);
        pair.run(Duration::from_secs(2));
        pair
    }

    /// A side joins through somebody who tells it these records: what is learnt in that way is
    /// passed on to nobody, and only an exchange finds it.
    fn tell(&mut self, side: usize, records: &[RecordUpdate]) {
        self.tellers += 1;
        let teller: SocketAddr = ([10, 9, 9, 9], self.tellers).into();
        let mut outbox = Outbox::new();
        let addresses = [teller];
        let join = Input::Join {
            addresses: &addresses,
        };
        self.sides[side].handle(self.now, join, &mut outbox);
        let asked = outbox.transmits.iter().find_map(|transmit| match transmit {
            Transmit::Open { exchange, to, .. } if *to == teller => Some(*exchange),
            _ => None,
        });
        let exchange = asked.unwrap_or_else(|| panic!("{side} does not ask {teller}"));
        let parts = records.len().div_ceil(FRAME_RECORDS).max(1);
        for part in 0..parts {
            let from = (part * FRAME_RECORDS).min(records.len());
            let until = (from + FRAME_RECORDS).min(records.len());
            let table = Message::Table(Table {
                sender: stranger(),
                records: records[from..until].to_vec().into(),
                last: part + 1 == parts,
            });
            let frame = &wire::encode(ClusterTag::of(CLUSTER), &table);
            self.feed(side, Input::Reply { exchange, frame });
        }
    }

    fn run(&mut self, length: Duration) {
        let end = self.now + length;
        loop {
            let arriving = self.wire.iter().map(|&(at, ..)| at).min();
            let deadline = self.sides.iter().map(Node::next_deadline).min();
            let next = [arriving, deadline].into_iter().flatten().min();
            let Some(at) = next.filter(|&at| at <= end) else {
                self.now = end;
                return;
            };
            self.now = self.now.max(at);
            match self.wire.iter().position(|&(due, ..)| due == at) {
                Some(place) => {
                    let (_, side, arriving) = self.wire.remove(place);
                    self.arrive(side, arriving);
                }
                None => {
                    for side in [0, 1] {
                        if self.sides[side].next_deadline() <= at {
                            self.feed(side, Input::Deadline);
                        }
                    }
                }
            }
        }
    }

    fn arrive(&mut self, side: usize, arriving: Arriving) {
        let from = address(1 - side);
        match arriving {
            Arriving::Datagram(payload) => {
                let payload = &payload;
                self.feed(side, Input::Datagram { from, payload });
            }
            Arriving::Request(stream, frames) => {
                for frame in &frames {
                    let request = Input::Request {
                        stream,
                        from,
                        frame,
                    };
                    self.feed(side, request);
                }
            }
            Arriving::Reply(exchange, frames) => {
                for frame in &frames {
                    self.feed(side, Input::Reply { exchange, frame });
                }
                self.feed(side, Input::ExchangeEnded { exchange });
            }
            Arriving::Closed(stream) => self.feed(side, Input::StreamClosed { stream }),
        }
    }

    fn feed(&mut self, side: usize, input: Input<'_>) {
        let mut outbox = Outbox::new();
        self.sides[side].handle(self.now, input, &mut outbox);
        let (soon, other) = (self.now + TRIP, 1 - side);
        for transmit in outbox.transmits {
            match transmit {
                Transmit::Datagram { to, payload } if to == address(other) => {
                    self.count(&payload, Carrier::Datagram);
                    self.wire.push((soon, other, Arriving::Datagram(payload)));
                }
                Transmit::Open {
                    exchange,
                    to,
                    frames,
                    ..
                } if to == address(other) => {
                    frames.iter().for_each(|it| self.count(it, Carrier::Stream));
                    let stream = StreamId(self.streams.len() as u64);
                    self.streams.push((side, exchange));
                    let request = Arriving::Request(stream, frames);
                    self.wire.push((soon + TRIP, other, request));
                }
                Transmit::Answer { stream, frames } => {
                    let opened = self.streams.get(stream.0 as usize).copied();
                    if let Some((opener, exchange)) = opened {
                        frames.iter().for_each(|it| self.count(it, Carrier::Stream));
                        let reply = Arriving::Reply(exchange, frames);
                        self.wire.push((soon, opener, reply));
                        self.wire.push((soon, side, Arriving::Closed(stream)));
                    }
                }
                Transmit::Datagram { .. } | Transmit::Open { .. } => {}
            }
        }
    }

    fn count(&mut self, frame: &[u8], carrier: Carrier) {
        let decoded = wire::decode(ClusterTag::of(CLUSTER), frame, carrier);
        let message = decoded.unwrap_or_else(|error| panic!("{error:?}"));
        let kind = message.kind().as_str();
        *self.spent.bytes.entry(kind).or_default() += frame.len() as u64;
        *self.spent.messages.entry(kind).or_default() += 1;
        self.spent.records += match message {
            Message::Difference(told) => told.records.len(),
            Message::Delta(told) => told.records.len(),
            _ => 0,
        };
    }

    /// Bytes of both tables in frames.
    fn whole_tables(&self) -> u64 {
        let bytes = |node: &Node| {
            let records: Vec<RecordUpdate> = node.records().map(update).collect();
            let frames = records.chunks(FRAME_RECORDS).map(|part| {
                let table = Message::Table(Table {
                    sender: stranger(),
                    records: part.to_vec().into(),
                    last: true,
                });
                wire::encode(ClusterTag::of(CLUSTER), &table).len() as u64
            });
            frames.sum::<u64>()
        };
        self.sides.iter().map(bytes).sum()
    }
}

fn name(text: &str) -> NodeName {
    text.parse().unwrap_or_else(|error| panic!("{error}"))
}

fn address(side: usize) -> SocketAddr {
    ([10, 0, 0, side as u8 + 1], 7480).into()
}

fn stranger() -> Sender {
    Sender {
        member: name("stranger").hash(),
        generation: GENERATION,
        version: Version(1),
    }
}

fn update(record: &std::sync::Arc<Record>) -> RecordUpdate {
    RecordUpdate {
        record: record.clone(),
        version: Version(77),
        age: Age(60),
        lease_left: Default::default(),
    }
}

/// A member that has left, so that the two ping nobody but each other.
fn record(number: usize, incarnation: Incarnation) -> RecordUpdate {
    let standing = Standing {
        incarnation,
        ..Standing::alive(GENERATION, NodeId(number as u64 + 100)).with_status(Status::Left)
    };
    let [high, low] = (number as u16).to_be_bytes();
    let metadata = Metadata {
        generation: GENERATION,
        node_id: standing.node_id,
        version: 0,
        address: ([10, 1, high, low], 7480).into(),
        tags: Tags::new(),
        services: Vec::new(),
        wire: WireRange { min: 1, max: 1 },
        maintenance: None,
    };
    let record = Record {
        name: name(&format!("member-{number:04}")),
        standing,
        metadata: Some(metadata.into()),
    };
    update(&record.into())
}
