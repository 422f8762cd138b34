//! Metadata too large for a datagram: how it is announced, asked for and given.

use std::net::SocketAddr;

use bincode::{Decode, Encode};

use super::list::List;
use super::message::{RecordUpdate, Sender};
use super::values::{Age, MetadataDigest};
use crate::member::{Generation, NameHash, NodeId, NodeName, Standing, Version};

/// A record whose metadata is too large for a datagram: what is needed to keep up with the member,
/// and what to ask its holder for.
#[derive(Clone, PartialEq, Debug)]
pub struct Announcement {
    /// Who.
    pub name: NodeName,
    /// The winning claim.
    pub standing: Standing,
    /// The newest heartbeat of the life that the standing speaks of; 0 for none.
    pub version: Version,
    /// For dead, left and forgotten members: seconds since that was decided.
    pub age: Age,
    /// Where its gossip socket is reached.
    pub address: SocketAddr,
    /// The metadata.
    pub digest: MetadataDigest,
    /// Who holds it: the sender, or who told it.
    pub holder: NameHash,
}

/// "What does this member say of itself?" Opens a stream.
#[derive(Clone, PartialEq, Debug, Encode, Decode)]
pub struct Pull {
    /// Who asks.
    pub sender: Sender,
    /// About whom.
    pub member: NameHash,
    /// The life that is meant.
    pub generation: Generation,
    /// The process that is meant.
    pub node_id: NodeId,
    /// What was announced; something newer will do.
    pub digest: MetadataDigest,
}

/// Answers a pull.
#[derive(Clone, PartialEq, Debug, Encode, Decode)]
pub struct Values {
    /// Who answers.
    pub sender: Sender,
    /// The record; none from who does not hold it, or has too much to do.
    pub records: List<RecordUpdate, 1>,
}
