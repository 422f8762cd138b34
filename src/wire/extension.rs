//! Fields that a message may end in.

use bincode::{Decode, Encode};

use super::list::List;

/// A field that other versions may not know.
#[derive(Clone, PartialEq, Eq, Debug, Encode, Decode)]
pub struct Extension {
    /// Which field.
    pub tag: u16,
    /// Its bytes.
    pub bytes: List<u8, 1024>,
}

impl Extension {
    /// What the sender's wall clock shows, on pings: the low 16 bits of unix seconds.
    pub const CLOCK: u16 = 1;

    /// On a ping to another process with the sender's own name: the sender gives way.
    pub const YIELDS: u16 = 2;

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
}
