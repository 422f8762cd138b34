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

/// A call as an operator sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallView {
    /// Its number in the outbox.
    pub id: u64,
    /// Who is to be told.
    pub target: String,
    /// The event's id in the log of this node.
    pub event: u64,
    /// Attempts that have failed.
    pub attempts: u32,
    /// Whether it is not tried again by itself.
    pub parked: bool,
    /// When it is, or was, due.
    pub due: SystemTime,
    /// What went wrong last.
    pub error: Option<String>,
    /// When its event was logged.
    pub created: SystemTime,
}

/// What became of the wish to have a call made again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Redriven {
    /// It is made again, with all its attempts.
    Again(CallView),
    /// There is no such call: it was made, or dropped.
    Unknown,
    /// The configuration does not have its target any more.
    NoTarget(String),
}

/// Where calls are kept until they have been made. The answer of a request whose receiver closes
/// without one is that the store cannot be used now.
pub trait Calls: Send + Sync + 'static {
    /// What `target` is to do next at `now`: of the calls that are due the one made first.
    fn next_call(&self, target: &str, now: SystemTime) -> oneshot::Receiver<NextCall>;
    /// Keeps how a call has ended; answers once that is durable.
    fn settle_call(&self, id: u64, settled: Settled) -> oneshot::Receiver<()>;
    /// Up to `limit` calls, those that are parked first.
    fn list_calls(&self, limit: usize) -> oneshot::Receiver<Vec<CallView>>;
    /// Has a call made again.
    fn redrive_call(&self, id: u64) -> oneshot::Receiver<Redriven>;
    /// Wakes when there are new calls, or parked ones are to be made again.
    fn calls_changed(&self) -> watch::Receiver<u64>;
}
