//! Connections: what is open, and between whom.
//!
//! ```text
//!  caller            callee
//!    |---- connect ---->|   one trip; nobody listens: refused, one trip back
//!    |<-----------------|   one trip
//!    |---- request ---->|   one trip, the frames' length, and stalls
//!    |<----- answer ----|   the same; then the connection ends
//! ```
//!
//! What a rule cuts gets no answer, and ends with the caller's timeout.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use rumord::protocol::{ExchangeId, StreamId};

use crate::process::ProcessId;

/// Names a connection; to the callee it is the stream's number.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct ConnectionId(u64);

impl ConnectionId {
    /// What the callee calls it.
    #[must_use]
    pub fn stream(self) -> StreamId {
        StreamId(self.0)
    }

    /// The connection that a callee calls `stream`.
    #[must_use]
    pub fn of(stream: StreamId) -> Self {
        ConnectionId(stream.0)
    }
}

/// Frames of a stream, in order.
pub type Frames = Vec<Vec<u8>>;

/// The next thing that happens to a connection.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Step {
    /// The request to connect reaches the callee's host.
    Connect(Frames),
    /// The request reaches the callee.
    Request(Frames),
    /// The answer reaches the caller.
    Answer(Frames),
    /// The caller hears that there is nobody, or nobody any more.
    Refused,
    /// The caller has waited for as long as it wanted to.
    Timeout,
}

/// One open connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Connection {
    /// Who opened it.
    pub caller: ProcessId,
    /// What the caller calls it.
    pub exchange: ExchangeId,
    /// The caller's address.
    pub from: SocketAddr,
    /// The callee's address.
    pub to: SocketAddr,
    /// Who accepted it, once somebody has.
    pub callee: Option<ProcessId>,
}

/// All open connections.
#[derive(Debug, Default)]
pub struct Connections {
    open: BTreeMap<ConnectionId, Connection>,
    opened: u64,
}

impl Connections {
    /// Opens one.
    pub fn open(&mut self, connection: Connection) -> ConnectionId {
        let id = ConnectionId(self.opened);
        self.opened += 1;
        self.open.insert(id, connection);
        id
    }

    /// An open connection.
    #[must_use]
    pub fn get(&self, id: ConnectionId) -> Option<Connection> {
        self.open.get(&id).copied()
    }

    /// Notes who accepted it.
    pub fn accept(&mut self, id: ConnectionId, callee: ProcessId) {
        if let Some(connection) = self.open.get_mut(&id) {
            connection.callee = Some(callee);
        }
    }

    /// Ends one; `None` when it had ended already.
    pub fn close(&mut self, id: ConnectionId) -> Option<Connection> {
        self.open.remove(&id)
    }

    /// Connections that `process` has accepted.
    #[must_use]
    pub fn accepted_by(&self, process: ProcessId) -> Vec<ConnectionId> {
        let accepted = |connection: &Connection| connection.callee == Some(process);
        self.open
            .iter()
            .filter(|(_, connection)| accepted(connection))
            .map(|(&id, _)| id)
            .collect()
    }

    /// Ends every connection that `process` has opened, and returns them.
    pub fn abandon(&mut self, process: ProcessId) -> Vec<(ConnectionId, Connection)> {
        let open = std::mem::take(&mut self.open);
        let (opened, others): (BTreeMap<_, _>, _) = open
            .into_iter()
            .partition(|(_, connection)| connection.caller == process);
        self.open = others;
        opened.into_iter().collect()
    }
}
