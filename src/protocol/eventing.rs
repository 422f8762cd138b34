//! Events that clients send: told to all members, and, where that is promised, until all have them.

use std::sync::Arc;

use super::{EventMark, Node};
use crate::member::{EventRef, NodeName, UserEvent};

/// How far an event of this node has come.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DeliveryState {
    /// Alive members, this one included, that have it.
    pub delivered: Vec<NodeName>,
    /// Members that are owed it: alive ones that have not acknowledged it yet, and dead ones.
    pub owed: Vec<NodeName>,
}

/// Events of this node that have not been told to anybody yet.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct EventBacklog {
    /// How many.
    pub events: usize,
    /// Their payloads, in bytes.
    pub bytes: usize,
}

impl Node {
    pub(super) fn on_publish(&mut self, _events: &[Arc<UserEvent>]) {}
    pub(super) fn on_stored(&mut self, _events: &[EventRef]) {}
    pub(super) fn on_restore_events(&mut self, _events: &[Arc<UserEvent>], _marks: &[EventMark]) {}

    /// How far an event that this node sent in this or an earlier life has come; `None` for events
    /// of others, for those sent at most once, and for those that are not kept any more.
    #[must_use]
    pub fn delivery(&self, _event: &EventRef) -> Option<DeliveryState> {
        None
    }

    /// What waits to be told.
    #[must_use]
    pub fn event_backlog(&self) -> EventBacklog {
        EventBacklog::default()
    }
}
