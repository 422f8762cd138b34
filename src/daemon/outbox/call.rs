//! One call of a target, and where calls are kept.

use std::time::SystemTime;

use tokio::sync::{oneshot, watch};

/// One event that one target is to be told of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    /// Its number in the outbox.
    pub id: u64,
    /// The event's id in the log of this node.
    pub event: u64,
    /// The event as the API shows it, in JSON.
    pub body: String,
    /// Attempts that have failed.
    pub attempts: u32,
}

/// What a target is to do next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NextCall {
    /// Make this call.
    Now(Call),
    /// Wait until then, unless the outbox grows before.
    At(SystemTime),
    /// Wait until the outbox grows.
    Later,
}

/// How a call has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Settled {
    /// Well: it is struck off.
    Done,
    /// Badly, and it is tried again.
    Retry {
        /// When.
        at: SystemTime,
        /// What went wrong.
        error: String,
    },
    /// Badly, and it is not tried again unless an operator says so.
    Parked {
        /// What went wrong.
        error: String,
    },
}

/// Where calls are kept until they have been made. The answer of a request whose receiver closes
/// without one is that the store cannot be used now.
pub trait Calls: Send + Sync + 'static {
    /// What `target` is to do next at `now`: of the calls that are due the one made first.
    fn next_call(&self, target: &str, now: SystemTime) -> oneshot::Receiver<NextCall>;
    /// Keeps how a call has ended; answers once that is durable.
    fn settle_call(&self, id: u64, settled: Settled) -> oneshot::Receiver<()>;
    /// Wakes when there are new calls, or parked ones are to be made again.
    fn calls_changed(&self) -> watch::Receiver<u64>;
}
