//! Repeats that wait for the first request under their key.

use std::collections::BTreeMap;
use std::time::Duration;

use super::batch::{Task, Waiting};
use super::keys::{Keyed, Outcome, PARKED_MAX, Reply, Token};

/// A request that waits, the lease it wants, and who is told.
type Parked = (Keyed, Duration, Reply);

/// Who waits, and what is to be done next.
#[derive(Default)]
pub(super) struct Parking {
    parked: BTreeMap<(String, String), Vec<Parked>>,
    count: usize,
    ready: Vec<(Task, Waiting)>,
}

impl Parking {
    /// Leaves a request until its key is settled. Whoever asked may stop waiting before.
    pub(super) fn park(&mut self, keyed: Keyed, lease: Duration, reply: Reply) {
        if self.count >= PARKED_MAX {
            self.sweep();
        }
        if self.count >= PARKED_MAX {
            // An error means that the caller has gone.
            let _ = reply.send(Outcome::Running);
            return;
        }
        self.count += 1;
        let place = (keyed.scope.clone(), keyed.key.clone());
        let waiting = self.parked.entry(place).or_default();
        waiting.push((keyed, lease, reply));
    }

    /// The key is settled: those that wait for it ask again.
    pub(super) fn release(&mut self, keyed: &Keyed) {
        let place = (keyed.scope.clone(), keyed.key.clone());
        for (keyed, lease, reply) in self.parked.remove(&place).unwrap_or_default() {
            self.count -= 1;
            if !reply.is_closed() {
                self.ready.push(again(keyed, lease, reply));
            }
        }
    }

    /// Gives up a key that was taken for somebody who has gone.
    pub(super) fn abandon(&mut self, keyed: Keyed, token: Token) {
        self.ready
            .push((Task::Abandon { keyed, token }, Waiting::Nobody));
    }

    /// What is to be done next.
    pub(super) fn ready(&mut self) -> Vec<(Task, Waiting)> {
        std::mem::take(&mut self.ready)
    }

    /// Drops those that wait no longer.
    pub(super) fn sweep(&mut self) {
        self.parked.retain(|_, waiting| {
            waiting.retain(|(_, _, reply)| !reply.is_closed());
            !waiting.is_empty()
        });
        self.count = self.parked.values().map(Vec::len).sum();
    }
}

/// The same request once more.
fn again(keyed: Keyed, lease: Duration, reply: Reply) -> (Task, Waiting) {
    let task = Task::Begin {
        keyed: keyed.clone(),
        lease,
    };
    (task, Waiting::Begin(keyed, lease, reply))
}
