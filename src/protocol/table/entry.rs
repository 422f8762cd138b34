//! One member in the table, and what it adds to the fingerprint.

use std::net::IpAddr;
use std::sync::Arc;

use crate::member::{HeartbeatState, Record, Standing, Status, Version, keyed_hash};
use crate::time::Instant;
use crate::wire::{Age, RecordUpdate};

const FINGERPRINT_DOMAIN: u64 = 3;

/// One member, with what the caller keeps about the arrivals `A` of its heartbeats.
#[derive(Debug)]
pub struct Entry<A> {
    /// What is told to others.
    pub record: Arc<Record>,
    /// The newest heartbeat of the life that the record speaks of; 0 before the first.
    pub version: Version,
    /// When the owner counted it, in this node's time.
    pub counted_at: Instant,
    /// Since when it has its status; for dead and left members adjusted by the age they came with,
    /// so that no path makes a death younger.
    pub since: Instant,
    /// Whether it is shown, told and part of the fingerprint. False for a tombstone that has
    /// passed its retention and only refuses what is older than itself.
    pub listed: bool,
    /// Whether this node alone holds it for dead, without contact to anybody.
    pub isolated_verdict: bool,
    /// The caller's.
    pub arrivals: A,
}

impl<A> Entry<A> {
    /// The newest heartbeat heard.
    #[must_use]
    pub fn heartbeat(&self) -> HeartbeatState {
        HeartbeatState {
            generation: self.record.standing.generation,
            version: self.version,
        }
    }

    /// The status as shown: the told one, or the verdict of an isolated node.
    #[must_use]
    pub fn shown_status(&self) -> Status {
        if self.isolated_verdict {
            Status::Dead
        } else {
            self.record.standing.status
        }
    }

    /// Whether it was removed for good: told and fenced off, but shown to nobody.
    #[must_use]
    pub fn is_forgotten(&self) -> bool {
        self.record.standing.forgotten
    }

    /// Whether readers see it.
    #[must_use]
    pub fn is_shown(&self) -> bool {
        self.listed && !self.is_forgotten()
    }

    /// Seconds since it died or left; 0 while it is active.
    #[must_use]
    pub fn age(&self, now: Instant) -> Age {
        if self.record.standing.status.is_active() {
            return Age(0);
        }
        Age::from_duration(now.since(self.since))
    }
}

impl<A> Entry<A> {
    /// A heartbeat counts in the life it belongs to.
    pub(super) fn join_version(&mut self, before: &Record, told: &RecordUpdate) {
        let life = self.record.standing.generation;
        if before.standing.generation != life {
            self.version = Version::default();
        }
        if told.record.standing.generation == life {
            self.version = self.version.max(told.version);
        }
    }

    /// Whether it has another status, or another death or leave, than before; then its time begins
    /// anew. Repeating a verdict must not make the death younger (quickwit-oss/chitchat PR#123).
    pub(super) fn note_since(
        &mut self,
        before: Standing,
        told: Standing,
        now: Instant,
        decided: Instant,
    ) -> bool {
        let after = self.record.standing;
        let gone = !after.status.is_active();
        let another = after.status != before.status
            || after.instance() != before.instance()
            || (gone && after != before);
        if another {
            self.since = if gone { decided } else { now };
        } else if gone && told == after {
            self.since = self.since.min(decided);
        }
        another
    }

    /// What it adds to the fingerprint.
    #[must_use]
    pub fn listed_hash(&self) -> u64 {
        if self.listed {
            record_hash(&self.record)
        } else {
            0
        }
    }
}

/// What a merge changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Change {
    /// The standing before; `None` for a new member.
    pub before: Option<Standing>,
    /// The standing now.
    pub after: Standing,
    /// Whether the name's spelling, address, tags, services or wire versions changed.
    pub metadata: bool,
    /// Since when the member had its status before, in this node's view.
    pub since: Instant,
}

/// What a reader sees change from `before` to `after`; `None` when that is nothing.
pub(super) fn change(before: &Record, after: &Record, since: Instant) -> Option<Change> {
    let metadata =
        after.current_metadata() != before.current_metadata() || after.name != before.name;
    (metadata || before.standing != after.standing).then_some(Change {
        before: Some(before.standing),
        after: after.standing,
        metadata,
        since,
    })
}

/// What one record adds to the fingerprint.
pub(super) fn record_hash(record: &Record) -> u64 {
    let standing = &record.standing;
    let status = match standing.status {
        Status::Suspect => Status::Alive,
        status => status,
    };
    let metadata = record
        .current_metadata()
        .map_or(u64::MAX, |metadata| metadata.version.into());
    let mut bytes = [0; 58];
    bytes[..8].copy_from_slice(&record.name.hash().to_wire());
    bytes[8..16].copy_from_slice(&standing.generation.0.to_be_bytes());
    bytes[16..24].copy_from_slice(&standing.node_id.0.to_be_bytes());
    bytes[24..28].copy_from_slice(&standing.incarnation.0.to_be_bytes());
    bytes[28..30].copy_from_slice(&standing.strikes.to_be_bytes());
    bytes[30] = status as u8;
    bytes[31] = u8::from(standing.forgotten);
    bytes[32..40].copy_from_slice(&metadata.to_be_bytes());
    // Copies of one identity say different things under one version: where, in any case.
    if let Some(address) = record.current_metadata().map(|metadata| metadata.address) {
        let ip = match address.ip() {
            IpAddr::V4(ip) => ip.to_ipv6_mapped(),
            IpAddr::V6(ip) => ip,
        };
        bytes[40..56].copy_from_slice(&ip.octets());
        bytes[56..].copy_from_slice(&address.port().to_be_bytes());
    }
    keyed_hash(FINGERPRINT_DOMAIN, &bytes)
}
