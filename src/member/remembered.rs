//! What is left of a member that the table does not list.

use std::net::SocketAddr;
use std::time::Duration;

use super::{Generation, NodeId, NodeName};

/// A member of an earlier time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Remembered {
    /// Name.
    pub name: NodeName,
    /// Where it was reached.
    pub address: SocketAddr,
    /// Which process held the name.
    pub node_id: NodeId,
    /// Its restart number.
    pub generation: Generation,
    /// How long ago it was last known to be alive.
    pub silence: Duration,
    /// Whether an earlier run knew it and this one has not heard of it; then it is shown as dead
    /// for as long as a dead member is listed.
    pub stored: bool,
}
