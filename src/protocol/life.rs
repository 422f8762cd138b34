//! Where a node is in its life.

/// Where a node is in its life.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Life {
    /// No join address has answered yet.
    Joining,
    /// Part of the cluster.
    Ready,
    /// Another process holds its name: it tells and asks nothing.
    Silent,
    /// Leaves, or has left.
    Leaving,
    /// Was removed from the cluster, and keeps silent until it begins a new life.
    Forgotten,
}

impl Life {
    /// Where a node begins: with join addresses it waits to be admitted.
    #[must_use]
    pub const fn at_start(joins: bool) -> Self {
        if joins { Life::Joining } else { Life::Ready }
    }
}
