//! What an observer tells of the members that it does not reach in every way.

use bincode::{Decode, Encode};

use super::list::List;
use super::values::{Age, Centiseconds, GenerationLow};
use crate::member::NameHash;

/// All that one observer does not reach. Every report of an observer replaces its earlier ones; an
/// empty one says that it reaches everybody again.
#[derive(Clone, PartialEq, Eq, Debug, Encode, Decode)]
pub struct ReachReport {
    /// Who observed it.
    pub observer: NameHash,
    /// In which life.
    pub generation: GenerationLow,
    /// Counts the observer's reports.
    pub number: u32,
    /// Time since it was made, summed over all holders.
    pub age: Centiseconds,
    /// Whom it does not reach.
    pub unreached: List<Unreached, 16>,
}

/// One member that an observer does not reach in every way.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Encode, Decode)]
pub struct Unreached {
    /// Whom.
    pub subject: NameHash,
    /// In which ways.
    pub ways: Ways,
    /// For how long.
    pub age: Age,
}

/// Which ways lead to a member, in one byte.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Ways {
    /// Datagrams are not answered.
    pub datagrams_lost: bool,
    /// Only the largest datagrams are not answered.
    pub large_lost: bool,
    /// Streams are not answered.
    pub streams_lost: bool,
    /// Streams are answered.
    pub streams_pass: bool,
    /// Datagrams of the member arrive at the observer.
    pub heard: bool,
}

impl Ways {
    pub(super) fn bits(self) -> u8 {
        let bits = [
            self.datagrams_lost,
            self.large_lost,
            self.streams_lost,
            self.streams_pass,
            self.heard,
        ];
        let numbered = bits.into_iter().enumerate();
        numbered.fold(0, |all, (place, bit)| all | (u8::from(bit) << place))
    }

    /// Bits of later versions are not looked at.
    pub(super) fn from_bits(bits: u8) -> Self {
        let bit = |place: u8| bits & (1 << place) != 0;
        Ways {
            datagrams_lost: bit(0),
            large_lost: bit(1),
            streams_lost: bit(2),
            streams_pass: bit(3),
            heard: bit(4),
        }
    }
}
