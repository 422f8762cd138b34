//! Small values that messages are made of.

use std::time::Duration;

use bincode::{Decode, Encode};

use crate::member::{Generation, NameHash, NodeId, Version};

/// Ties an answer to its question, within one sender.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
pub struct ProbeSeq(pub u32);

/// How long something has lasted, in the unit its field names; carried instead of a time of day
/// because no two clocks agree.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default, Encode, Decode)]
pub struct Age(pub u32);

impl Age {
    /// From a length, rounded down, so that a record told back and forth never grows older by it.
    #[must_use]
    pub fn from_duration(length: Duration) -> Self {
        Age(u32::try_from(length.as_secs()).unwrap_or(u32::MAX))
    }

    /// As a length.
    #[must_use]
    pub fn duration(self) -> Duration {
        Duration::from_secs(self.0.into())
    }
}

/// A short length of time in hundredths of a second, 0 to 655 s.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Centiseconds(pub u16);

impl Centiseconds {
    /// Longer than can be said, or unknown.
    pub const UNKNOWN: Centiseconds = Centiseconds(u16::MAX);

    /// From a length, rounded down.
    #[must_use]
    pub fn from_duration(length: Duration) -> Self {
        let whole = length.as_secs().saturating_mul(100);
        let centiseconds = whole.saturating_add((length.subsec_millis() / 10).into());
        Centiseconds(u16::try_from(centiseconds).unwrap_or(u16::MAX))
    }

    /// As a length; `None` when unknown.
    #[must_use]
    pub fn duration(self) -> Option<Duration> {
        (self != Self::UNKNOWN).then(|| Duration::from_millis(u64::from(self.0) * 10))
    }
}

/// A table as a number; see the protocol's table.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Fingerprint(pub u64);

/// Stands for metadata that is too large for a datagram.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MetadataDigest {
    /// The metadata version.
    pub version: u32,
    /// Length of its encoding.
    pub bytes: u32,
    /// Hash of its encoding.
    pub hash: u64,
}

/// The low 16 bits of a generation: enough to tell two lives of one member apart.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct GenerationLow(pub u16);

impl GenerationLow {
    /// The low bits of `generation`.
    #[must_use]
    pub fn of(generation: Generation) -> Self {
        GenerationLow((generation.0 & 0xffff) as u16)
    }
}

/// The low 16 bits of a node id: enough to tell apart two processes that chose one generation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NodeIdLow(pub u16);

impl NodeIdLow {
    /// The low bits of `node_id`.
    #[must_use]
    pub fn of(node_id: NodeId) -> Self {
        NodeIdLow((node_id.0 & 0xffff) as u16)
    }
}

/// A share of 1, in 1/65535.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct MissRate(pub u16);

impl MissRate {
    /// From a share between 0 and 1.
    #[must_use]
    pub fn from_share(share: f64) -> Self {
        MissRate((share.clamp(0.0, 1.0) * 65_535.0) as u16)
    }

    /// As a share between 0 and 1.
    #[must_use]
    pub fn share(self) -> f64 {
        f64::from(self.0) / 65_535.0
    }
}

/// Where the sender stands in its own probe periods: how many have begun since it started (modulo
/// 2^16), and how far the present one has gone in 1/65536. It lets observers of a member agree,
/// without a common clock, whose turn it is to probe it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct PeriodPhase {
    /// Periods begun, modulo 2^16.
    pub period: u16,
    /// Part of the present period that has passed, in 1/65536.
    pub phase: u16,
}

/// The high half of a name hash: which member is meant, where its whole hash would be too long. Two
/// members of a table that share it are told about in other messages.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct NameHashHigh(pub u32);

impl NameHashHigh {
    /// The high half of `member`.
    #[must_use]
    pub fn of(member: NameHash) -> Self {
        let [a, b, c, d, ..] = member.to_wire();
        NameHashHigh(u32::from_be_bytes([a, b, c, d]))
    }

    /// The least hash with this half.
    #[must_use]
    pub fn least(self) -> NameHash {
        NameHash::from_wire((u64::from(self.0) << 32).to_be_bytes())
    }
}

/// The low 16 bits of a heartbeat version.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct VersionLow(pub u16);

impl VersionLow {
    /// The low bits of `version`.
    #[must_use]
    pub fn of(version: Version) -> Self {
        VersionLow((version.0 & 0xffff) as u16)
    }

    /// The version with these bits that is nearest to `held`; at equal distance the earlier one.
    #[must_use]
    pub fn nearest(self, held: Version) -> Version {
        let ahead = self.0.wrapping_sub(VersionLow::of(held).0);
        if ahead < 1 << 15 {
            return Version(held.0.saturating_add(ahead.into()));
        }
        let behind = ahead.wrapping_neg();
        Version(held.0.saturating_sub(behind.into()))
    }
}

/// One-bit facts about the sender's table.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Flags {
    /// It had not changed for a while before this exchange of messages.
    pub quiet: bool,
}

/// Ties the answers in an exchange to what was asked.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Ask(pub u32);

/// What the short ids and buckets of one exchange are mixed with.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Salt(pub u64);

/// What only who receives at an address can know.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Cookie(pub u64);

/// A record, its owner and version, as a salted number.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct ShortId(pub u32);

/// Some records together, as a salted number.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct BucketSum(pub u16);

/// Reasons of a refusal, as numbers; an unknown one counts as "unavailable".
#[derive(Clone, Copy, PartialEq, Eq, Debug, Encode, Decode)]
pub struct RefusalCode(pub u8);

impl RefusalCode {
    /// The asked node belongs to another cluster.
    pub const CLUSTER: RefusalCode = RefusalCode(1);
    /// A running instance holds the name.
    pub const NAME_CONFLICT: RefusalCode = RefusalCode(2);
    /// The generation is too far ahead of the clock.
    pub const FUTURE_GENERATION: RefusalCode = RefusalCode(3);
    /// The record breaks a rule.
    pub const RECORD: RefusalCode = RefusalCode(4);
    /// The member was removed; its tombstone is told as the holder.
    pub const FORGOTTEN: RefusalCode = RefusalCode(6);
    /// The asked node cannot admit anybody now.
    pub const UNAVAILABLE: RefusalCode = RefusalCode(5);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_is_found_again_near_the_one_held() {
        for (told, held) in [
            (5, 3),
            (3, 5),
            (65_536, 65_530),
            (65_530, 65_536),
            (1 << 40, (1 << 40) + 32_768),
            (7, 7),
        ] {
            let low = VersionLow::of(Version(told));
            assert_eq!(
                low.nearest(Version(held)),
                Version(told),
                "{told} at {held}"
            );
        }
        assert_eq!(VersionLow(9).nearest(Version(u64::MAX)), Version(u64::MAX));
        assert_eq!(VersionLow(0xffff).nearest(Version(0)), Version(0));
    }

    #[test]
    fn half_a_hash_is_where_its_members_begin() {
        let member = NameHash::from_wire([1, 2, 3, 4, 5, 6, 7, 8]);
        let high = NameHashHigh::of(member);
        assert_eq!(high, NameHashHigh(0x0102_0304));
        assert!(high.least() < member);
        assert_eq!(NameHashHigh::of(high.least()), high);
    }
}
