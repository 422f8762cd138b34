//! skeleton
#[cfg(feature = "daemon")]
pub mod cli;
#[cfg(feature = "daemon")]
pub mod daemon;
pub mod member;
#[cfg(feature = "runtime")]
pub mod node;
pub mod protocol;
pub mod time;
pub mod wire;
