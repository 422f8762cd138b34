//! What a member says of itself: address, tags, services and the wire versions it speaks.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use thiserror::Error;

use super::{Generation, NodeId, NodeName};

/// Largest metadata of one member, in bytes of keys, values and names together.
pub const METADATA_BYTES_MAX: usize = 64 * 1024;
/// Metadata up to this many bytes rides whole in datagrams; what is larger is announced there and
/// pulled over a stream.
pub const METADATA_INLINE_BYTES_MAX: usize = 256;
/// Most tags, and most services, of one member, and most tags of one service.
pub const METADATA_ENTRIES_MAX: usize = 256;
/// Most tags and services of one member together, those of its services included. What each costs
/// beside its own bytes must not outgrow a frame.
pub const METADATA_ENTRIES_TOTAL_MAX: usize = 4096;
/// Longest tag key, in bytes.
pub const TAG_KEY_BYTES_MAX: usize = 64;
/// Longest maintenance.
pub const LEASE_MAX: Duration = Duration::from_secs(24 * 3600);
/// Longest reason of a maintenance, in bytes.
pub const LEASE_REASON_BYTES_MAX: usize = 256;

/// Key-value labels of a member or a service, sorted by key.
pub type Tags = BTreeMap<String, String>;

/// The wire versions a node understands, both ends included.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct WireRange {
    /// Oldest version understood.
    pub min: u8,
    /// Newest version understood.
    pub max: u8,
}

/// A service that a member offers.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Service {
    /// Name, by the rules of member names.
    pub name: NodeName,
    /// Port on the member's address.
    pub port: u16,
    /// Labels of this service.
    pub tags: Tags,
}

/// A planned absence, announced by the member itself: while it lasts, silence is no death.
///
/// Every receiver counts the length from when it learns of it, less what had passed by then: that
/// part travels beside the record, so that the record is the same everywhere and an end changes
/// nothing in it.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Lease {
    /// How long it lasts from when the member announced it; at most [`LEASE_MAX`].
    pub length: Duration,
    /// Why, for readers of the table; may be empty.
    pub reason: String,
}

/// The self-description of one life of a member. Only its owner changes it.
///
/// The derived order is the merge rule: the newer life wins, then the newer version; two contents
/// under one version are ordered by content, so that every node keeps the same one.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Metadata {
    /// The life this describes.
    pub generation: Generation,
    /// The process this describes.
    pub node_id: NodeId,
    /// Raised by the owner with every change.
    pub version: u32,
    /// Where its gossip socket is reached (UDP and TCP).
    pub address: SocketAddr,
    /// Labels.
    pub tags: Tags,
    /// Offered services, sorted by name.
    pub services: Vec<Service>,
    /// Wire versions it understands.
    pub wire: WireRange,
    /// The maintenance it has announced, over or not.
    pub maintenance: Option<Lease>,
}

/// Why metadata cannot be used. Nothing was changed.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum MetadataError {
    /// A tag key breaks the rules.
    #[error("tag key {0:?} must be 1-64 characters of A-Z a-z 0-9 _ . -; rename it")]
    TagKey(String),
    /// More tags or services than [`METADATA_ENTRIES_MAX`], or than [`METADATA_ENTRIES_TOTAL_MAX`]
    /// together.
    #[error(
        "{0} tags or services, at most {METADATA_ENTRIES_MAX} are allowed of each and \
         {METADATA_ENTRIES_TOTAL_MAX} together; remove some"
    )]
    TooMany(usize),
    /// More bytes than [`METADATA_BYTES_MAX`].
    #[error("tags and services take {0} bytes, at most {METADATA_BYTES_MAX} fit; shorten them")]
    TooLarge(usize),
    /// Two services share a name, ignoring case.
    #[error("service {0} is given twice; keep one")]
    DuplicateService(NodeName),
    /// A service on port 0.
    #[error("service {0} has port 0; give the port it listens on")]
    ServicePort(NodeName),
    /// A maintenance of no length, or longer than [`LEASE_MAX`].
    #[error("a maintenance lasts more than 0 s and at most 24 h, not {0:?}; give another length")]
    LeaseLength(Duration),
    /// A reason longer than [`LEASE_REASON_BYTES_MAX`].
    #[error("the reason has {0} bytes, at most {LEASE_REASON_BYTES_MAX} fit; shorten it")]
    LeaseReason(usize),
    /// An address nobody can send to.
    #[error("{0} cannot be reached by others; give an address of this host and a port")]
    Address(SocketAddr),
    /// An empty wire range, or version 0.
    #[error("wire versions {min} to {max} are not a range")]
    WireRange {
        /// The claimed oldest version.
        min: u8,
        /// The claimed newest version.
        max: u8,
    },
}

impl Metadata {
    /// Checks everything a peer or an operator could get wrong.
    ///
    /// # Errors
    /// The first broken rule.
    pub fn check(&self) -> Result<(), MetadataError> {
        check_tags(&self.tags)?;
        if self.services.len() > METADATA_ENTRIES_MAX {
            return Err(MetadataError::TooMany(self.services.len()));
        }
        for service in &self.services {
            check_tags(&service.tags)?;
            if service.port == 0 {
                return Err(MetadataError::ServicePort(service.name.clone()));
            }
        }
        let mut names: Vec<_> = self.services.iter().map(|service| &service.name).collect();
        names.sort_by_key(|name| name.hash());
        for pair in names.windows(2) {
            if pair[0].hash() == pair[1].hash() {
                return Err(MetadataError::DuplicateService(pair[1].clone()));
            }
        }
        if let Some(lease) = &self.maintenance {
            lease.check()?;
        }
        let services = self.services.iter();
        let entries = services
            .map(|service| 1 + service.tags.len())
            .sum::<usize>();
        let entries = entries + self.tags.len();
        if entries > METADATA_ENTRIES_TOTAL_MAX {
            return Err(MetadataError::TooMany(entries));
        }
        let bytes = self.content_bytes();
        if bytes > METADATA_BYTES_MAX {
            return Err(MetadataError::TooLarge(bytes));
        }
        if !is_advertisable(self.address) {
            return Err(MetadataError::Address(self.address));
        }
        let WireRange { min, max } = self.wire;
        if min == 0 || min > max {
            return Err(MetadataError::WireRange { min, max });
        }
        Ok(())
    }

    /// Whether it is too large to ride whole in datagrams.
    #[must_use]
    pub fn is_large(&self) -> bool {
        self.content_bytes() > METADATA_INLINE_BYTES_MAX
    }

    fn content_bytes(&self) -> usize {
        let tags_bytes = |tags: &Tags| -> usize {
            tags.iter()
                .map(|(key, value)| key.len() + value.len())
                .sum()
        };
        let services: usize = self
            .services
            .iter()
            .map(|service| service.name.as_str().len() + tags_bytes(&service.tags))
            .sum();
        let reason = self
            .maintenance
            .as_ref()
            .map_or(0, |lease| lease.reason.len());
        tags_bytes(&self.tags) + services + reason
    }
}

impl Lease {
    fn check(&self) -> Result<(), MetadataError> {
        // Shorter than a millisecond is nothing on the wire.
        if self.length < Duration::from_millis(1) || self.length > LEASE_MAX {
            return Err(MetadataError::LeaseLength(self.length));
        }
        if self.reason.len() > LEASE_REASON_BYTES_MAX {
            return Err(MetadataError::LeaseReason(self.reason.len()));
        }
        Ok(())
    }
}

fn check_tags(tags: &Tags) -> Result<(), MetadataError> {
    if tags.len() > METADATA_ENTRIES_MAX {
        return Err(MetadataError::TooMany(tags.len()));
    }
    for key in tags.keys() {
        let allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'-');
        if key.is_empty() || key.len() > TAG_KEY_BYTES_MAX || !key.bytes().all(allowed) {
            return Err(MetadataError::TagKey(key.clone()));
        }
    }
    Ok(())
}

/// Whether others can send to `address`: a port other than 0 and neither a wildcard, a multicast
/// nor a broadcast address.
#[must_use]
pub fn is_advertisable(address: SocketAddr) -> bool {
    let ip = address.ip();
    let broadcast = matches!(ip, IpAddr::V4(v4) if v4.is_broadcast());
    address.port() != 0 && !ip.is_unspecified() && !ip.is_multicast() && !broadcast
}

#[cfg(test)]
mod tests {
    use super::*;

    fn metadata() -> Metadata {
        Metadata {
            generation: Generation(1),
            node_id: NodeId(1),
            version: 0,
            address: "127.0.0.1:7480".parse().expect("valid"),
            tags: Tags::new(),
            services: Vec::new(),
            wire: WireRange { min: 1, max: 1 },
            maintenance: None,
        }
    }

    fn service(name: &str, port: u16) -> Service {
        Service {
            name: name.parse().expect("valid"),
            port,
            tags: Tags::new(),
        }
    }

    /// hashicorp/consul#9241, #15823: a wildcard bind address was advertised as such.
    #[test]
    fn unreachable_addresses_are_refused() {
        for bad in [
            "0.0.0.0:1",
            "[::]:1",
            "224.0.0.1:1",
            "255.255.255.255:1",
            "127.0.0.1:0",
        ] {
            let address = bad.parse().expect("an address");
            let error = Metadata {
                address,
                ..metadata()
            }
            .check();
            assert_eq!(error, Err(MetadataError::Address(address)));
        }
        assert_eq!(metadata().check(), Ok(()));
    }

    /// grafana/cortex#4327, prometheus/alertmanager#1412: an update larger than a packet was
    /// accepted and then blocked the queue for ever.
    #[test]
    fn too_large_metadata_is_refused_with_the_limit() {
        let mut large = metadata();
        large
            .tags
            .insert("k".into(), "v".repeat(METADATA_BYTES_MAX - 1));
        assert_eq!(large.check(), Ok(()));
        large.tags.insert("l".into(), String::new());
        let message = large.check().expect_err("too large").to_string();
        assert!(message.contains("65537 bytes, at most 65536"), "{message}");
    }

    #[test]
    fn too_many_entries_are_refused_one_by_one_and_together() {
        let tags = |count: usize| (0..count).map(|n| (n.to_string(), String::new())).collect();
        let mut many = metadata();
        many.tags = tags(METADATA_ENTRIES_MAX);
        many.services = (1..=16)
            .map(|n| Service {
                tags: tags(METADATA_ENTRIES_MAX - 17),
                ..service(&format!("s{n}"), n)
            })
            .collect();
        assert_eq!(many.check(), Ok(()), "4096 together");
        many.services[0].tags = tags(METADATA_ENTRIES_MAX - 16);
        assert_eq!(many.check(), Err(MetadataError::TooMany(4097)));
        many.services.clear();
        many.tags = tags(METADATA_ENTRIES_MAX + 1);
        assert_eq!(many.check(), Err(MetadataError::TooMany(257)));
    }

    #[test]
    fn a_lease_has_a_length_and_a_short_reason() {
        let with = |length, reason: usize| {
            let lease = Lease {
                length,
                reason: "r".repeat(reason),
            };
            Metadata {
                maintenance: Some(lease),
                ..metadata()
            }
            .check()
        };
        assert_eq!(with(LEASE_MAX, LEASE_REASON_BYTES_MAX), Ok(()));
        for wrong in [Duration::ZERO, LEASE_MAX + Duration::from_millis(1)] {
            assert_eq!(with(wrong, 0), Err(MetadataError::LeaseLength(wrong)));
        }
        assert_eq!(with(LEASE_MAX, 257), Err(MetadataError::LeaseReason(257)));
    }

    #[test]
    fn services_are_sorted_unique_and_have_a_port() {
        let with = |services| {
            Metadata {
                services,
                ..metadata()
            }
            .check()
        };
        assert_eq!(with(vec![service("a", 1), service("b", 1)]), Ok(()));
        assert!(matches!(
            with(vec![service("a", 1), service("A", 2)]),
            Err(MetadataError::DuplicateService(_))
        ));
        assert!(matches!(
            with(vec![service("a", 0)]),
            Err(MetadataError::ServicePort(_))
        ));
    }

    #[test]
    fn tag_keys_and_wire_ranges_are_checked() {
        let mut bad_key = metadata();
        bad_key.tags.insert("a b".into(), String::new());
        assert!(matches!(bad_key.check(), Err(MetadataError::TagKey(_))));
        for (min, max) in [(0, 1), (3, 1)] {
            let range = Metadata {
                wire: WireRange { min, max },
                ..metadata()
            };
            assert_eq!(range.check(), Err(MetadataError::WireRange { min, max }));
        }
    }
}
