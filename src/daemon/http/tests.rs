//! The API over real sockets, with a node that a test controls.

mod agreement;
mod api;
mod blocking;
mod control;
mod events;
mod fake;
mod idempotency;
mod limits;
mod metadata;
mod problems;
mod publish;
mod reachability;
mod reads;

pub(in crate::daemon) use self::fake::snapshot;
