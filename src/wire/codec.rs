//! How single values are laid out, and the two calls into bincode.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bincode::config::{Configuration, Limit, LittleEndian, Varint, standard};
use bincode::de::{BorrowDecode, BorrowDecoder, Decode, Decoder};
use bincode::enc::write::Writer;
use bincode::enc::{Encode, Encoder};
use bincode::error::{DecodeError as BincodeDecodeError, EncodeError};

use super::large::Announcement;
use super::list::List;
use super::message::{HeartbeatEntry, RecordUpdate, StatusUpdate};
use super::reach::Ways;
use super::values::{
    Age, Ask, BucketSum, Centiseconds, Cookie, Fingerprint, Flags, GenerationLow, MetadataDigest,
    MissRate, NameHashHigh, NodeIdLow, PeriodPhase, ProbeSeq, Salt, ShortId, VersionLow,
};
use super::{Carrier, DecodeError};
use crate::member::{
    Delivery, EVENT_NAME_BYTES_MAX, EVENT_PAYLOAD_BYTES_MAX, EventKey, EventName, EventRef,
    Generation, Incarnation, LEASE_REASON_BYTES_MAX, Lease, METADATA_BYTES_MAX,
    METADATA_ENTRIES_MAX, Metadata, NAME_BYTES_MAX, NameHash, NodeId, NodeName, Record, Service,
    Standing, Status, Tags, UserEvent, Version, WireRange,
};

/// Memory that one decoded datagram may claim. It counts structures in memory, not bytes on the
/// wire, hence the distance to the datagram's size.
const DATAGRAM_MEMORY_MAX: usize = 256 * 1024;
/// Memory that one decoded stream frame may claim.
const STREAM_MEMORY_MAX: usize = 16 * 1024 * 1024;

type Bounded<const MAX: usize> = Configuration<LittleEndian, Varint, Limit<MAX>>;
const DATAGRAM: Bounded<DATAGRAM_MEMORY_MAX> = standard().with_limit::<DATAGRAM_MEMORY_MAX>();
const STREAM: Bounded<STREAM_MEMORY_MAX> = standard().with_limit::<STREAM_MEMORY_MAX>();

/// Appends the encoding of `value`.
pub(super) fn encode_into<T: Encode>(value: &T, bytes: &mut Vec<u8>) {
    let written = bincode::encode_into_writer(value, Appended(bytes), standard());
    debug_assert!(
        written.is_ok(),
        "encoding into memory cannot fail: {written:?}"
    );
}

/// Bytes that grow as they are written; much quicker than through the standard library's writer.
struct Appended<'a>(&'a mut Vec<u8>);

impl Writer for Appended<'_> {
    #[inline]
    fn write(&mut self, bytes: &[u8]) -> Result<(), EncodeError> {
        self.0.extend_from_slice(bytes);
        Ok(())
    }
}

/// Length of the encoding of `value`.
pub(super) fn encoded_bytes<T: Encode>(value: &T) -> usize {
    let mut writer = bincode::enc::write::SizeWriter::default();
    let sized = bincode::encode_into_writer(value, &mut writer, standard());
    debug_assert!(sized.is_ok(), "counting bytes cannot fail: {sized:?}");
    writer.bytes_written
}

/// The value that fills `bytes` exactly.
pub(super) fn decode<T: Decode<()>>(bytes: &[u8], carrier: Carrier) -> Result<T, DecodeError> {
    let decoded = match carrier {
        Carrier::Datagram => bincode::decode_from_slice(bytes, DATAGRAM),
        Carrier::Stream => bincode::decode_from_slice(bytes, STREAM),
    };
    match decoded {
        Ok((value, consumed)) if consumed == bytes.len() => Ok(value),
        _ => Err(DecodeError::Malformed),
    }
}

/// A 16-bit value in two bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Raw2(u16);
/// A 32-bit value in four bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Raw4(u32);
/// A 64-bit value in eight bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Raw8(u64);

/// Encodes a value as another one: `wire_as!(type => wire type, to wire, from wire)`.
macro_rules! wire_as {
    ($type:ty => $wire:ty, $to:expr, $from:expr) => {
        impl Encode for $type {
            fn encode<E: Encoder>(&self, encoder: &mut E) -> Result<(), EncodeError> {
                let to: fn(&$type) -> $wire = $to;
                to(self).encode(encoder)
            }
        }

        impl<C> Decode<C> for $type {
            fn decode<D: Decoder<Context = C>>(
                decoder: &mut D,
            ) -> Result<Self, BincodeDecodeError> {
                let from: fn($wire) -> Result<$type, &'static str> = $from;
                from(<$wire>::decode(decoder)?).map_err(BincodeDecodeError::Other)
            }
        }

        // The derive asks for it of every field, though nothing here borrows.
        impl<'de, C> BorrowDecode<'de, C> for $type {
            fn borrow_decode<D: BorrowDecoder<'de, Context = C>>(
                decoder: &mut D,
            ) -> Result<Self, BincodeDecodeError> {
                Self::decode(decoder)
            }
        }
    };
}

wire_as!(Raw2 => [u8; 2], |raw| raw.0.to_be_bytes(), |b| Ok(Raw2(u16::from_be_bytes(b))));
wire_as!(Raw4 => [u8; 4], |raw| raw.0.to_be_bytes(), |b| Ok(Raw4(u32::from_be_bytes(b))));
wire_as!(Raw8 => [u8; 8], |raw| raw.0.to_be_bytes(), |b| Ok(Raw8(u64::from_be_bytes(b))));
wire_as!(NameHash => [u8; 8], |hash| hash.to_wire(), |b| Ok(NameHash::from_wire(b)));
wire_as!(NodeId => Raw8, |id| Raw8(id.0), |raw| Ok(NodeId(raw.0)));
wire_as!(ProbeSeq => Raw4, |seq| Raw4(seq.0), |raw| Ok(ProbeSeq(raw.0)));
wire_as!(Fingerprint => Raw8, |sum| Raw8(sum.0), |raw| Ok(Fingerprint(raw.0)));
wire_as!(
    MetadataDigest => (u32, u32, Raw8),
    |digest| (digest.version, digest.bytes, Raw8(digest.hash)),
    |(version, bytes, hash)| Ok(MetadataDigest { version, bytes, hash: hash.0 })
);
wire_as!(NameHashHigh => Raw4, |high| Raw4(high.0), |raw| Ok(NameHashHigh(raw.0)));
wire_as!(VersionLow => Raw2, |low| Raw2(low.0), |raw| Ok(VersionLow(raw.0)));
wire_as!(GenerationLow => Raw2, |low| Raw2(low.0), |raw| Ok(GenerationLow(raw.0)));
wire_as!(NodeIdLow => Raw2, |low| Raw2(low.0), |raw| Ok(NodeIdLow(raw.0)));
wire_as!(Centiseconds => Raw2, |cs| Raw2(cs.0), |raw| Ok(Centiseconds(raw.0)));
wire_as!(MissRate => Raw2, |rate| Raw2(rate.0), |raw| Ok(MissRate(raw.0)));
wire_as!(Ask => Raw4, |ask| Raw4(ask.0), |raw| Ok(Ask(raw.0)));
wire_as!(ShortId => Raw4, |id| Raw4(id.0), |raw| Ok(ShortId(raw.0)));
wire_as!(BucketSum => Raw2, |sum| Raw2(sum.0), |raw| Ok(BucketSum(raw.0)));
wire_as!(Salt => Raw8, |salt| Raw8(salt.0), |raw| Ok(Salt(raw.0)));
wire_as!(Cookie => Raw8, |cookie| Raw8(cookie.0), |raw| Ok(Cookie(raw.0)));
wire_as!(Generation => u64, |generation| generation.0, |n| Ok(Generation(n)));
wire_as!(Version => u64, |version| version.0, |n| Ok(Version(n)));
wire_as!(Incarnation => u32, |incarnation| incarnation.0, |n| Ok(Incarnation(n)));
wire_as!(Ways => u8, |ways| ways.bits(), |bits| Ok(Ways::from_bits(bits)));
wire_as!(Flags => u8, |flags| u8::from(flags.quiet), |bits| Ok(Flags { quiet: bits & 1 != 0 }));
wire_as!(
    PeriodPhase => [u8; 4],
    |place| {
        let ([a, b], [c, d]) = (place.period.to_be_bytes(), place.phase.to_be_bytes());
        [a, b, c, d]
    },
    |[a, b, c, d]| Ok(PeriodPhase {
        period: u16::from_be_bytes([a, b]), phase: u16::from_be_bytes([c, d]),
    })
);
// Several in every message: in one piece.
wire_as!(
    HeartbeatEntry => [u8; 10],
    |told| {
        let [a, b, c, d] = told.member.0.to_be_bytes();
        let [e, f] = told.generation.0.to_be_bytes();
        let [g, h] = told.version.0.to_be_bytes();
        let [i, j] = told.age.0.to_be_bytes();
        [a, b, c, d, e, f, g, h, i, j]
    },
    |[a, b, c, d, e, f, g, h, i, j]| Ok(HeartbeatEntry {
        member: NameHashHigh(u32::from_be_bytes([a, b, c, d])),
        generation: GenerationLow(u16::from_be_bytes([e, f])),
        version: VersionLow(u16::from_be_bytes([g, h])),
        age: Centiseconds(u16::from_be_bytes([i, j])),
    })
);
wire_as!(
    NodeName => List<u8, NAME_BYTES_MAX>,
    |name| name.as_str().as_bytes().to_vec().into(),
    |bytes| NodeName::from_bytes(&bytes).map_err(|_| "a name breaks the rules")
);
wire_as!(
    WireRange => (u8, u8),
    |range| (range.min, range.max),
    |(min, max)| Ok(WireRange { min, max })
);
wire_as!(
    Service => (NodeName, Raw2, TagsOnWire),
    |service| (service.name.clone(), Raw2(service.port), TagsOnWire(service.tags.clone())),
    |(name, port, tags)| Ok(Service { name, port: port.0, tags: tags.0 })
);

wire_as!(
    Delivery => u8,
    |delivery| *delivery as u8,
    |byte| Delivery::ALL.get(usize::from(byte)).copied().ok_or("an unknown delivery")
);
wire_as!(EventKey => [u8; 16], |key| key.0, |bytes| Ok(EventKey(bytes)));
wire_as!(
    EventName => List<u8, EVENT_NAME_BYTES_MAX>,
    |name| name.as_str().as_bytes().to_vec().into(),
    |bytes| {
        let text = std::str::from_utf8(&bytes).map_err(|_| "an event's name is not UTF-8")?;
        EventName::new(text).map_err(|_| "an event's name breaks the rules")
    }
);
wire_as!(
    EventRef => (NameHash, Generation, Delivery, u64),
    |event| (event.origin, event.generation, event.delivery, event.sequence),
    |(origin, generation, delivery, sequence)| Ok(EventRef {
        origin, generation, delivery, sequence,
    })
);

type Payload = List<u8, EVENT_PAYLOAD_BYTES_MAX>;

wire_as!(
    UserEvent => (
        NodeName, Generation, Delivery, u64, Option<EventKey>, u64, EventName, Payload,
    ),
    |event| (
        event.origin.clone(), event.generation, event.delivery, event.sequence, event.key,
        event.unix_ms, event.name.clone(), event.payload.clone().into(),
    ),
    |(origin, generation, delivery, sequence, key, unix_ms, name, payload)| Ok(UserEvent {
        origin, generation, delivery, sequence, key, unix_ms, name, payload: payload.into_vec(),
    })
);

type Text = List<u8, METADATA_BYTES_MAX>;

struct TagsOnWire(Tags);

wire_as!(
    TagsOnWire => List<(Text, Text), METADATA_ENTRIES_MAX>,
    |tags| {
        let text = |text: &String| Text::from(text.as_bytes().to_vec());
        tags.0.iter().map(|(key, value)| (text(key), text(value))).collect::<Vec<_>>().into()
    },
    |pairs| {
        let mut tags = Tags::new();
        for (key, value) in pairs.into_vec() {
            let text = |text: Text| {
                String::from_utf8(text.into_vec()).map_err(|_| "a tag is not UTF-8")
            };
            if tags.insert(text(key)?, text(value)?).is_some() {
                return Err("a tag key is given twice");
            }
        }
        Ok(TagsOnWire(tags))
    }
);

/// Status and the forgotten mark in one byte.
struct Claim {
    status: Status,
    forgotten: bool,
}

wire_as!(
    Claim => u8,
    |claim| claim.status as u8 | u8::from(claim.forgotten) << 7,
    |bits| {
        let status = *Status::ALL.get(usize::from(bits & 0x7f)).ok_or("an unknown status")?;
        let forgotten = bits & 0x80 != 0;
        match (forgotten, status) {
            (true, Status::Alive | Status::Suspect | Status::Dead) => Err("forgotten, not left"),
            _ => Ok(Claim { status, forgotten }),
        }
    }
);

wire_as!(
    Standing => (Generation, u16, NodeId, Incarnation, Claim),
    |s| (
        s.generation, s.strikes, s.node_id, s.incarnation,
        Claim { status: s.status, forgotten: s.forgotten },
    ),
    |(generation, strikes, node_id, incarnation, claim)| Ok(Standing {
        generation, forgotten: claim.forgotten, strikes, node_id, incarnation, status: claim.status,
    })
);

wire_as!(
    StatusUpdate => (NameHash, Generation, NodeIdLow, Incarnation, u16, Claim, Age),
    |u| (
        u.member, u.generation, u.node_id, u.incarnation, u.strikes,
        Claim { status: u.status, forgotten: u.forgotten }, u.age,
    ),
    |(member, generation, node_id, incarnation, strikes, claim, age)| Ok(StatusUpdate {
        member, generation, node_id, incarnation, strikes, status: claim.status,
        forgotten: claim.forgotten, age,
    })
);

/// Metadata without the instance, which the standing beside it names.
type MetadataOnWire = (
    u32,
    SocketAddr,
    TagsOnWire,
    List<Service, METADATA_ENTRIES_MAX>,
    WireRange,
    Option<LeaseOnWire>,
);

/// A maintenance, and how much of it is left: both in milliseconds.
type LeaseOnWire = (u32, List<u8, LEASE_REASON_BYTES_MAX>, u32);

fn millis(length: Duration) -> u32 {
    u32::try_from(length.as_millis()).unwrap_or(u32::MAX)
}

fn lease_to_wire(lease: &Lease, left: Duration) -> LeaseOnWire {
    let reason = lease.reason.as_bytes().to_vec().into();
    (millis(lease.length), reason, millis(left))
}

fn lease_from_wire((length, reason, left): LeaseOnWire) -> Result<(Lease, Duration), &'static str> {
    let reason = String::from_utf8(reason.into_vec()).map_err(|_| "a reason is not UTF-8")?;
    let lease = Lease {
        length: Duration::from_millis(length.into()),
        reason,
    };
    // Nobody can have more of it before them than there was.
    let left = Duration::from_millis(left.into()).min(lease.length);
    Ok((lease, left))
}

/// The encoding of `metadata` without what is left of its lease, the same with all holders.
pub(super) fn metadata_bytes(metadata: &Metadata) -> Vec<u8> {
    let mut bytes = Vec::new();
    encode_into(&metadata_to_wire(metadata, Duration::ZERO), &mut bytes);
    bytes
}

wire_as!(
    Announcement => (NodeName, Standing, Version, Age, SocketAddr, MetadataDigest, NameHash),
    |told| (
        told.name.clone(), told.standing, told.version, told.age, told.address, told.digest,
        told.holder,
    ),
    |(name, standing, version, age, address, digest, holder)| Ok(Announcement {
        name, standing, version, age, address, digest, holder,
    })
);

fn metadata_to_wire(metadata: &Metadata, lease_left: Duration) -> MetadataOnWire {
    (
        metadata.version,
        metadata.address,
        TagsOnWire(metadata.tags.clone()),
        metadata.services.clone().into(),
        metadata.wire,
        metadata
            .maintenance
            .as_ref()
            .map(|lease| lease_to_wire(lease, lease_left)),
    )
}

wire_as!(
    RecordUpdate => (NodeName, Standing, Version, Option<MetadataOnWire>, Age),
    |update| {
        let record = &update.record;
        (
            record.name.clone(),
            record.standing,
            update.version,
            record
                .current_metadata()
                .map(|metadata| metadata_to_wire(metadata, update.lease_left)),
            update.age,
        )
    },
    |(name, standing, version, metadata, age)| {
        let mut lease_left = Duration::ZERO;
        let metadata = match metadata {
            None => None,
            Some((version, address, tags, services, wire, lease)) => {
                let lease = lease.map(lease_from_wire).transpose()?;
                lease_left = lease.as_ref().map_or(lease_left, |&(_, left)| left);
                Some(Arc::new(Metadata {
                    generation: standing.generation,
                    node_id: standing.node_id,
                    version,
                    address,
                    tags: tags.0,
                    services: services.into_vec(),
                    wire,
                    maintenance: lease.map(|(lease, _)| lease),
                }))
            }
        };
        let record = Arc::new(Record { name, standing, metadata });
        Ok(RecordUpdate { record, version, age, lease_left })
    }
);
