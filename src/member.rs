//! The vocabulary of membership: names, restart numbers, statuses and the order between claims.
//!
//! Everything here is a plain value. The one decision made here is *precedence*: which of two
//! claims about a member wins ([`Standing`]'s order) and how two records are merged
//! ([`Record::merge`]). All other layers only apply it.

mod metadata;
mod name;
mod record;
mod remembered;
mod standing;
mod user_event;

pub use metadata::{
    LEASE_MAX, LEASE_REASON_BYTES_MAX, Lease, METADATA_BYTES_MAX, METADATA_ENTRIES_MAX,
    METADATA_ENTRIES_TOTAL_MAX, METADATA_INLINE_BYTES_MAX, Metadata, MetadataError, Service,
    TAG_KEY_BYTES_MAX, Tags, WireRange, is_advertisable,
};
pub use name::{NAME_BYTES_MAX, NameError, NameHash, NodeName};
pub use record::{HeartbeatState, Record};
pub use remembered::Remembered;
pub use standing::{Generation, Incarnation, NodeId, Standing, Status, Version};
pub use user_event::{
    Delivery, EVENT_NAME_BYTES_MAX, EVENT_PAYLOAD_BYTES_MAX, EventError, EventKey, EventName,
    EventRef, Uid, UserEvent,
};

/// Keyed 64-bit hash used for name hashes, fingerprints and the hash ring.
///
/// SipHash-2-4 with fixed keys: the value goes over the wire, so it must be the same on every
/// machine and in every release. `domain` keeps the three uses apart.
#[must_use]
pub fn keyed_hash(domain: u64, bytes: &[u8]) -> u64 {
    use std::hash::Hasher;
    let mut hasher = siphasher::sip::SipHasher24::new_with_keys(0x7275_6d6f_7264_0001, domain);
    hasher.write(bytes);
    hasher.finish()
}
