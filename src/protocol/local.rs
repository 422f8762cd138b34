//! What a node knows of itself beside its record.

use crate::member::{Generation, NameHash, NodeId, NodeName};
use crate::time::Instant;

/// What a node knows of itself beside its record.
pub struct Local {
    /// Its name.
    pub name: NodeName,
    /// The hash of it.
    pub hash: NameHash,
    /// Its present restart number.
    pub generation: Generation,
    /// Which process holds the name.
    pub node_id: NodeId,
    /// Whether the generation was raised once already past an earlier life.
    pub raised: bool,
    /// Whether a join address has admitted this node.
    pub admitted: bool,
    /// The generation up to which lives of this name were removed, as this node was told.
    pub fence: Generation,
    /// Start of the first probe period.
    pub first_period: Instant,
    /// Probe periods begun.
    pub periods: u64,
    /// The heartbeat version.
    pub version: u64,
}

impl Local {
    /// At the start of a life.
    #[must_use]
    pub fn new(
        name: NodeName,
        generation: Generation,
        node_id: NodeId,
        first_period: Instant,
    ) -> Self {
        Local {
            hash: name.hash(),
            name,
            generation,
            node_id,
            raised: false,
            admitted: false,
            fence: Generation::default(),
            first_period,
            periods: 0,
            version: 1,
        }
    }
}
