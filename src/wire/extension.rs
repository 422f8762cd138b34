//! Fields that a message may end in.

use bincode::{Decode, Encode};

use super::list::List;
use super::reach::ReachReport;
use super::{Carrier, codec};

/// Reports in one extension.
const REPORTS_MAX: usize = 8;
/// Most bytes in one extension.
const BYTES_MAX: usize = 1024;
/// Bytes of an extension beside its content, at most.
const HEAD_BYTES: usize = 4;

/// A field that other versions may not know.
#[derive(Clone, PartialEq, Eq, Debug, Encode, Decode)]
pub struct Extension {
    /// Which field.
    pub tag: u16,
    /// Its bytes.
    pub bytes: List<u8, BYTES_MAX>,
}

impl Extension {
    /// What the sender's wall clock shows, on some pings: the low 16 bits of unix seconds.
    pub const CLOCK: u16 = 1;

    /// On a ping to another process with the sender's own name: the sender gives way.
    pub const YIELDS: u16 = 2;

    /// What observers do not reach, on anything that carries gossip.
    pub const REACH: u16 = 3;

    /// Nothing, to make a ping as large as a datagram may be; the answer is as large.
    pub const PADDING: u16 = 4;

    /// Which user events the sender has, on pings and acks while any are kept.
    pub const EVENTS: u16 = 5;

    /// Up to where the sender has which user events, as a number, and whether that had not changed
    /// for a while.
    #[must_use]
    pub fn events(sum: u64, quiet: bool) -> Self {
        let mut bytes = sum.to_be_bytes().to_vec();
        bytes.push(u8::from(quiet));
        Extension {
            tag: Self::EVENTS,
            bytes: bytes.into(),
        }
    }

    /// The number and whether it rests, if this is one; bits of later versions are not looked at.
    #[must_use]
    pub fn as_events(&self) -> Option<(u64, bool)> {
        let [sum @ .., quiet] = <[u8; 9]>::try_from(&self.bytes[..]).ok()?;
        (self.tag == Self::EVENTS).then(|| (u64::from_be_bytes(sum), quiet & 1 != 0))
    }

    /// A mark without further bytes.
    #[must_use]
    pub fn mark(tag: u16) -> Self {
        Extension {
            tag,
            bytes: List::default(),
        }
    }

    /// A clock that shows so many seconds since the unix epoch.
    #[must_use]
    pub fn clock(seconds: u64) -> Self {
        let low = (seconds & 0xffff) as u16;
        Extension {
            tag: Self::CLOCK,
            bytes: low.to_be_bytes().to_vec().into(),
        }
    }

    /// The low 16 bits of a clock's seconds, if this is one.
    #[must_use]
    pub fn as_clock(&self) -> Option<u16> {
        let bytes = <[u8; 2]>::try_from(&self.bytes[..]).ok()?;
        (self.tag == Self::CLOCK).then(|| u16::from_be_bytes(bytes))
    }

    /// The first of `reports` that fit `room` bytes, and how many these are; `None` when it is
    /// none.
    #[must_use]
    pub fn reach(reports: &[ReachReport], room: usize) -> Option<(Self, usize)> {
        let room = room.saturating_sub(HEAD_BYTES).min(BYTES_MAX);
        let mut length = 1;
        let fitting = reports.iter().take(REPORTS_MAX).take_while(|report| {
            length += codec::encoded_bytes(*report);
            length <= room
        });
        let told: Vec<ReachReport> = fitting.cloned().collect();
        let count = told.len();
        let mut bytes = Vec::new();
        codec::encode_into(&List::<ReachReport, REPORTS_MAX>::from(told), &mut bytes);
        let extension = Extension {
            tag: Self::REACH,
            bytes: bytes.into(),
        };
        (count > 0).then_some((extension, count))
    }

    /// The reports, if this holds some.
    ///
    /// # Errors
    /// They cannot be read.
    #[must_use]
    pub fn as_reach(&self) -> Option<Result<Vec<ReachReport>, super::DecodeError>> {
        if self.tag != Self::REACH {
            return None;
        }
        let decoded =
            codec::decode::<List<ReachReport, REPORTS_MAX>>(&self.bytes, Carrier::Datagram);
        Some(decoded.map(List::into_vec))
    }

    /// Extensions that fill `room` bytes, or almost: two bytes may be left.
    #[must_use]
    pub fn padding(mut room: usize) -> Vec<Self> {
        let mut padding = Vec::new();
        while room > HEAD_BYTES {
            let length = (room - HEAD_BYTES).min(BYTES_MAX);
            padding.push(Extension {
                tag: Self::PADDING,
                bytes: vec![0; length].into(),
            });
            room -= length + HEAD_BYTES;
        }
        padding
    }

    /// Whether this fills a ping up.
    #[must_use]
    pub fn is_padding(&self) -> bool {
        self.tag == Self::PADDING
    }

    /// Bytes that it adds to a message.
    #[must_use]
    pub fn encoded_bytes(&self) -> usize {
        codec::encoded_bytes(self)
    }
}

#[cfg(test)]
mod tests {
    use super::super::reach::{Unreached, Ways};
    use super::super::values::{Age, Centiseconds, GenerationLow};
    use super::*;
    use crate::member::NameHash;

    fn report(subjects: u8) -> ReachReport {
        let unreached = |n: u8| Unreached {
            subject: NameHash::from_wire([n; 8]),
            ways: Ways {
                datagrams_lost: true,
                streams_pass: true,
                ..Ways::default()
            },
            age: Age(7),
        };
        ReachReport {
            observer: NameHash::from_wire([9; 8]),
            generation: GenerationLow(0x0102),
            number: 3,
            age: Centiseconds(42),
            unreached: (0..subjects).map(unreached).collect::<Vec<_>>().into(),
        }
    }

    #[test]
    fn reports_are_laid_out_as_documented() {
        let (extension, count) = Extension::reach(&[report(1)], 100).expect("room");
        assert_eq!((count, extension.tag), (1, 3));
        let mut expected = vec![1];
        expected.extend([9; 8]);
        expected.extend([1, 2, 3, 0, 42, 1]);
        expected.extend([0; 8]);
        expected.extend([0b1001, 7]);
        assert_eq!(*extension.bytes, expected);
        assert_eq!(extension.as_reach(), Some(Ok(vec![report(1)])));
    }

    #[test]
    fn only_what_fits_is_taken_and_nothing_too_long_is_read() {
        let reports = vec![report(16); 9];
        let (extension, count) = Extension::reach(&reports, 500).expect("room");
        assert_eq!(count, 2);
        assert!(extension.encoded_bytes() <= 500);
        assert_eq!(Extension::reach(&reports, 100), None);
        let mut hostile = extension.clone();
        hostile.bytes = vec![9; 100].into();
        assert!(hostile.as_reach().is_some_and(|read| read.is_err()));
        assert_eq!(Extension::mark(7).as_reach(), None);
    }

    #[test]
    fn a_sum_of_events_is_read_again_and_nothing_else_is_one() {
        let told = Extension::events(0x0102_0304_0506_0708, true);
        assert_eq!(told.tag, 5);
        assert_eq!(*told.bytes, [1, 2, 3, 4, 5, 6, 7, 8, 1]);
        assert_eq!(told.as_events(), Some((0x0102_0304_0506_0708, true)));
        assert_eq!(Extension::events(7, false).as_events(), Some((7, false)));
        assert_eq!(Extension::clock(7).as_events(), None);
        assert_eq!(Extension::mark(Extension::EVENTS).as_events(), None);
    }

    #[test]
    fn padding_fills_what_it_is_told_to() {
        for room in 5..3000 {
            let filled: usize = Extension::padding(room)
                .iter()
                .map(Extension::encoded_bytes)
                .sum();
            assert!(filled <= room && filled + 6 >= room, "{filled} of {room}");
        }
    }

    #[test]
    fn every_way_has_a_bit_of_its_own() {
        for bits in 0..32 {
            assert_eq!(Ways::from_bits(bits).bits(), bits);
        }
    }
}
