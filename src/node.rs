//! The tokio driver around the protocol core.

mod handle;
mod options;
mod snapshot;

pub use handle::{JoinResult, LeaveReport, Node, ResolveError, Stopped};
pub use options::{MemoryStore, Observer, Options, StartError, Store};
pub use snapshot::{MemberView, NodeView, Readiness, Snapshot};

/// Binds the sockets, starts the node on the current tokio runtime and returns once it serves.
///
/// # Errors
/// Says which socket could not be had or which option is unusable.
pub async fn start(_options: Options) -> Result<Node, StartError> {
    todo!()
}
