//! What turns a node into a daemon: its settings and its persisted identity.

pub mod identity;
pub mod settings;
