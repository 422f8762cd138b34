//! The wire format: a frame that can be judged without decoding, around a bounded body.
//!
//! ```text
//!  0      2        3            4         8      9
//!  +------+--------+------------+---------+------+----------------------+
//!  | "rM" | version| flags, key | cluster | type | body (bincode)       |
//!  +------+--------+------------+---------+------+----------------------+
//! ```
//!
//! `cluster` is a hash of the cluster's name, so that two clusters that meet on a recycled address
//! cannot read each other (hashicorp/memberlist#241, grafana/mimir#6187). Over a stream each frame
//! is preceded by its length in four big-endian bytes.
//!
//! Bodies use bincode 2's standard encoding (little endian, variable-length integers) through its
//! native derive. What it does not do by itself is done here: every list has a limit checked
//! before memory is taken, memory is limited per body, trailing bytes are refused, no type is
//! recursive, no list element is empty. This module is the only user of bincode; golden bytes in
//! its tests pin the format.

mod codec;
mod event;
mod exchange;
mod extension;
mod holders;
mod large;
mod list;
mod message;
mod reach;
mod values;

use crate::member::{Metadata, UserEvent, keyed_hash};

pub use event::{
    AckHolders, AckSet, EVENT_HEADS_MAX, EVENT_SPANS_MAX, EVENTS_PER_MESSAGE_MAX, EventAcks,
    EventHead, EventHeads, EventPull, EventSpan, EventValues, Events, ToldEvent, ToldWhat,
};
pub use exchange::{
    Advice, Bucket, DIGEST_BUCKETS, DIGEST_IDS_MAX, Delta, Difference, Digest, IDS_MAX, Place,
    Summary,
};
pub use extension::Extension;
pub use holders::{HOLDER_BYTES_MAX, HolderMap, HolderPlaces, Holders, Wish};
pub use large::{Announcement, Pull, Values};
pub use list::List;
pub use message::{
    Ack, Busy, Gossip, HeartbeatEntry, Join, Message, MessageKind, Nack, News, Ping, PingReq,
    RecordUpdate, Refused, RelayedAck, Sender, StatusUpdate, Superseded, Table, Target, Update,
    WrongTarget,
};
pub use reach::{ReachReport, Unreached, Ways};
pub use values::{
    Age, Ask, BucketSum, Centiseconds, Cookie, Fingerprint, Flags, GenerationLow, MetadataDigest,
    MissRate, NameHashHigh, NodeIdLow, PeriodPhase, ProbeSeq, RefusalCode, Salt, ShortId,
    VersionLow,
};

/// First bytes of every frame.
pub const MAGIC: [u8; 2] = *b"rM";
/// The wire version this build speaks.
pub const VERSION: u8 = 1;
/// Bytes of a frame before its body.
pub const HEADER_BYTES: usize = 9;
/// Bytes kept free in every datagram for a nonce and an authentication tag.
pub const SEALING_BYTES: usize = 40;
/// Largest frame on a stream, its length prefix excluded.
pub const STREAM_FRAME_BYTES_MAX: usize = 256 * 1024;

const CLUSTER_DOMAIN: u64 = 2;
const DIGEST_DOMAIN: u64 = 5;

/// The hash of a cluster's name that every frame carries.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ClusterTag([u8; 4]);

impl ClusterTag {
    /// The tag of the cluster called `name`.
    #[must_use]
    pub fn of(name: &str) -> Self {
        let [a, b, c, d, ..] = keyed_hash(CLUSTER_DOMAIN, name.as_bytes()).to_be_bytes();
        ClusterTag([a, b, c, d])
    }
}

/// Why bytes are not a message for this node. The sender's fault; the bytes are dropped.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DecodeError {
    /// Too short, or of another protocol.
    NotOurs,
    /// A wire version this build does not speak.
    Version,
    /// Of another cluster.
    Cluster,
    /// Sealed, though this node holds no key.
    Sealed,
    /// A message type this build does not know.
    UnknownType,
    /// The body is cut short, too long, over a limit, or not what its type says.
    Malformed,
}

/// What carried the bytes; it decides how much memory a body may take.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Carrier {
    /// One datagram.
    Datagram,
    /// One frame of a stream.
    Stream,
}

/// The frame for `message`.
#[must_use]
pub fn encode(cluster: ClusterTag, message: &Message) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(160);
    bytes.extend_from_slice(&MAGIC);
    bytes.push(VERSION);
    bytes.push(0);
    bytes.extend_from_slice(&cluster.0);
    bytes.push(message.kind() as u8);
    message.encode_body(&mut bytes);
    bytes
}

/// The message in a frame.
///
/// # Errors
/// Says what is wrong with the bytes; nothing else happens to them.
pub fn decode(cluster: ClusterTag, bytes: &[u8], carrier: Carrier) -> Result<Message, DecodeError> {
    let (header, body) = bytes
        .split_at_checked(HEADER_BYTES)
        .ok_or(DecodeError::NotOurs)?;
    let [m0, m1, version, flags, c0, c1, c2, c3, kind] = *header else {
        return Err(DecodeError::NotOurs);
    };
    if [m0, m1] != MAGIC {
        return Err(DecodeError::NotOurs);
    }
    if version != VERSION {
        return Err(DecodeError::Version);
    }
    if [c0, c1, c2, c3] != cluster.0 {
        return Err(DecodeError::Cluster);
    }
    if flags != 0 {
        return Err(DecodeError::Sealed);
    }
    let kind = MessageKind::from_wire(kind).ok_or(DecodeError::UnknownType)?;
    Message::decode_body(kind, body, carrier)
}

/// What an announcement says of `metadata`. Takes as long as encoding it.
#[must_use]
pub fn metadata_digest(metadata: &Metadata) -> MetadataDigest {
    let bytes = codec::metadata_bytes(metadata);
    MetadataDigest {
        version: metadata.version,
        bytes: u32::try_from(bytes.len()).unwrap_or(u32::MAX),
        hash: keyed_hash(DIGEST_DOMAIN, &bytes),
    }
}

/// Bytes that `update` adds to a message.
#[must_use]
pub fn update_bytes(update: &Update) -> usize {
    codec::encoded_bytes(update)
}

/// Bytes that `told` adds to a message.
#[must_use]
pub fn told_event_bytes(told: &ToldEvent) -> usize {
    codec::encoded_bytes(told)
}

/// Bytes that `event` adds to a message; at most 65,536 and some 300 more.
#[must_use]
pub fn event_bytes(event: &UserEvent) -> usize {
    codec::encoded_bytes(event)
}

/// Bytes that `set` adds to a message.
#[must_use]
pub fn ack_set_bytes(set: &AckSet) -> usize {
    codec::encoded_bytes(set)
}

/// Bytes that `head` adds to a message.
#[must_use]
pub fn event_head_bytes(head: &EventHead) -> usize {
    codec::encoded_bytes(head)
}

/// Bytes that `holders` add to a message, beside the one that says that there are none.
#[must_use]
pub fn holder_bytes(holders: &Holders) -> usize {
    codec::encoded_bytes(holders)
}

#[cfg(test)]
mod tests;
