//! Events of clients between the core and the store: what is durable is told, and acknowledged.

use std::sync::Arc;

use super::super::store::{Arrival, Durable};
use super::Driver;
use crate::member::UserEvent;
use crate::protocol::Input;

/// Groups of durable events taken in one wake-up.
const DURABLE_BATCH_MAX: usize = 64;

impl Driver {
    pub(super) fn on_durable(&mut self, durable: Durable) {
        let now = self.clock.now();
        match durable {
            Durable::Own(events) => {
                let (events, places): (Vec<Arc<UserEvent>>, Vec<_>) = events.into_iter().unzip();
                let input = Input::Publish { events: &events };
                self.core.handle(now, input, &mut self.outbox);
                // They count as the core's before they count as nobody's.
                self.backlog.set_core(self.core.event_backlog());
                drop(places);
            }
            Durable::Received(events) => {
                let input = Input::Stored { events: &events };
                self.core.handle(now, input, &mut self.outbox);
            }
        }
    }

    /// What has become durable meanwhile: the socket, looked at first, may always have more.
    pub(super) fn take_durable_batch(&mut self) {
        for _ in 0..DURABLE_BATCH_MAX {
            let Ok(durable) = self.durable.try_recv() else {
                break;
            };
            self.on_durable(durable);
        }
        self.backlog.set_core(self.core.event_backlog());
    }

    /// Has the store keep what need not come to this node, because it joined later: its next run
    /// goes on from there. What was handed out before is ahead of it in the store's hands.
    pub(super) fn note_marks(&mut self) {
        for mark in self.core.event_marks() {
            if mark.upto.origin != self.local && !self.marks.know(&mark.upto) {
                self.marks.advance(&mark.upto);
                self.arrivals.push(Arrival::Missed(mark.upto));
            }
        }
    }

    /// Gives the store what has come of others. It answers with [`Durable::Received`].
    pub(super) fn hand_over_arrivals(&mut self) {
        if !self.arrivals.is_empty() {
            self.store.receive(std::mem::take(&mut self.arrivals));
        }
    }
}
