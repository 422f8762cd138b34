//! Who is known to hold the sender's table: what agreement is counted from.

use bincode::{Decode, Encode};

use super::Centiseconds;
use super::list::List;

/// Most bytes or gaps of one answer to "who holds it": more would not fit a datagram.
pub const HOLDER_BYTES_MAX: usize = 1300;

/// Which of the members that the sender's table calls alive are known to have held that very table.
/// It means nothing to a receiver whose own fingerprint is another.
#[derive(Clone, PartialEq, Eq, Debug, Default, Encode, Decode)]
pub enum Holders {
    /// Not said: there was no room, or the sender takes no part.
    #[default]
    Untold,
    /// All of them.
    All,
    /// Some of them.
    Some(HolderMap),
}

/// Some of the members that a table calls alive.
#[derive(Clone, PartialEq, Eq, Debug, Encode, Decode)]
pub struct HolderMap {
    /// How many members the table calls alive: a place is a number below it. The members are in the
    /// order of their hashes, the sender included.
    pub members: u32,
    /// Whether somebody waits for agreement.
    pub wish: Wish,
    /// Which of them hold the table.
    pub places: HolderPlaces,
}

/// Places of members, in the shortest of three forms.
#[derive(Clone, PartialEq, Eq, Debug, Encode, Decode)]
pub enum HolderPlaces {
    /// These hold it: the first place, then how many places lie between each and the one before.
    Held(List<u32, HOLDER_BYTES_MAX>),
    /// All but these hold it, told in the same way.
    Missing(List<u32, HOLDER_BYTES_MAX>),
    /// One bit for each place, the lowest bit of a byte first; unused bits are 0.
    Map(List<u8, HOLDER_BYTES_MAX>),
}

/// Somebody waits until all tables are equal: whoever is told, and does not know it of all, tells
/// what it knows more often.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Encode, Decode)]
pub struct Wish {
    /// How long it lasts; 0 when nobody waits.
    pub left: Centiseconds,
    /// The pause between two messages to random members.
    pub pause: Centiseconds,
}

impl Wish {
    /// Nobody waits.
    pub const NONE: Wish = Wish {
        left: Centiseconds(0),
        pause: Centiseconds(0),
    };
}
