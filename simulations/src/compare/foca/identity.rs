//! How a foca member is called.

use std::net::SocketAddrV4;

use serde::{Deserialize, Serialize};

/// An address, and which of its lives. As in foca's own example of an agent
/// (`examples/foca_insecure_udp_agent.rs`), a member that was declared down takes the next number
/// and is back at once.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Identity {
    /// Where it listens.
    pub address: SocketAddrV4,
    /// Above that of every earlier life.
    pub bump: u64,
}

impl foca::Identity for Identity {
    type Addr = SocketAddrV4;

    fn renew(&self) -> Option<Self> {
        let bump = self.bump.wrapping_add(1);
        Some(Identity { bump, ..*self })
    }

    fn addr(&self) -> SocketAddrV4 {
        self.address
    }

    fn win_addr_conflict(&self, adversary: &Self) -> bool {
        self.bump > adversary.bump
    }
}
