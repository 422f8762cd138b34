//! The messages of an exchange: two members find out in which records their tables differ, and
//! tell each other those.
//!
//! ```text
//!  up to 200 records            more
//!
//!  A --Digest-------> B         A --Digest-------> B    ids of all records, or sums of buckets
//!  A <--Difference--- B         A <--Difference--- B    records A lacks; or the ids in the buckets
//!  A --Delta--------> B         A --Delta--------> B    records B lacks, and what A lacks itself
//!  A <--Difference--- B         A <--Difference--- B    those; or that it was received
//! ```
//!
//! The answering side keeps nothing between two messages: each carries what its answer needs. All
//! of them travel as datagrams while they are few, and as frames of a stream otherwise.

use bincode::{Decode, Encode};

use super::extension::Extension;
use super::list::List;
use super::message::{RecordUpdate, Sender};
use super::values::{Ask, BucketSum, Cookie, Salt, ShortId};

/// Most records whose ids are listed one by one in a digest.
pub const DIGEST_IDS_MAX: usize = 200;
/// Buckets of a digest of more records.
pub const DIGEST_BUCKETS: usize = 512;
/// Most ids of records in one message: as many as fit a frame of a stream.
pub const IDS_MAX: usize = 49_152;

/// "This is my table." Asks for a [`Difference`].
#[derive(Clone, PartialEq, Debug, Encode, Decode)]
pub struct Digest {
    /// Who asks.
    pub sender: Sender,
    /// To be echoed.
    pub ask: Ask,
    /// What the asked member gave out, to show that the asker hears it at its address.
    pub cookie: Option<Cookie>,
    /// Fresh for each exchange, so that what collides once does not collide twice.
    pub salt: Salt,
    /// The table.
    pub summary: Summary,
    /// Left empty by this version.
    pub extensions: List<Extension, 16>,
}

/// A table, shortened.
#[derive(Clone, PartialEq, Eq, Debug, Encode, Decode)]
pub enum Summary {
    /// The id of each record.
    Records(List<ShortId, DIGEST_IDS_MAX>),
    /// The sum of the ids of the records in each bucket.
    Buckets(List<BucketSum, DIGEST_BUCKETS>),
}

/// One bucket, with all records that the sender holds in it.
#[derive(Clone, PartialEq, Eq, Debug, Encode, Decode)]
pub struct Bucket {
    /// Its number, below [`DIGEST_BUCKETS`].
    pub number: u16,
    /// The ids of the records.
    pub ids: List<ShortId, IDS_MAX>,
}

/// Where an answer stands among several.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Encode, Decode)]
pub struct Place {
    /// Its number, from 0 on.
    pub part: u32,
    /// How many there are.
    pub of: u32,
}

impl Place {
    /// The only one.
    pub const ONLY: Place = Place { part: 0, of: 1 };

    /// Whether none follows.
    #[must_use]
    pub fn is_last(self) -> bool {
        self.part.saturating_add(1) >= self.of
    }
}

/// What the asker is to do.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Encode, Decode)]
pub enum Advice {
    /// Go on.
    GoOn,
    /// Ask again with the cookie: only then may the answer be larger than the question.
    ProveAddress,
    /// Ask over a stream: the answer is too large for datagrams.
    UseStream,
}

/// Answers a [`Digest`] or a [`Delta`].
#[derive(Clone, PartialEq, Debug, Encode, Decode)]
pub struct Difference {
    /// Who answers.
    pub sender: Sender,
    /// The question's.
    pub ask: Ask,
    /// Which part of the answer it is.
    pub place: Place,
    /// For the asker's next message.
    pub cookie: Cookie,
    /// What the asker is to do.
    pub advice: Advice,
    /// How many records of the question changed the answerer's table.
    pub adopted: u32,
    /// The buckets that differ.
    pub buckets: List<Bucket, DIGEST_BUCKETS>,
    /// Records of the digest that the answerer lacks.
    pub wanted: List<ShortId, DIGEST_IDS_MAX>,
    /// Records that the asker lacks.
    pub records: List<RecordUpdate, 4096>,
    /// Left empty by this version.
    pub extensions: List<Extension, 16>,
}

/// Records that the asked member lacks, and what the asker lacks itself; its last part asks for a
/// [`Difference`].
#[derive(Clone, PartialEq, Debug, Encode, Decode)]
pub struct Delta {
    /// Who asks.
    pub sender: Sender,
    /// To be echoed.
    pub ask: Ask,
    /// See [`Digest`].
    pub cookie: Option<Cookie>,
    /// The digest's.
    pub salt: Salt,
    /// Ids of records that are asked for.
    pub wanted: List<ShortId, IDS_MAX>,
    /// Records.
    pub records: List<RecordUpdate, 4096>,
    /// Whether it is the last part.
    pub last: bool,
    /// Left empty by this version.
    pub extensions: List<Extension, 16>,
}
