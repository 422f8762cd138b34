//! What waits for the writer.

use std::collections::{BTreeSet, VecDeque};
use std::sync::mpsc::{Receiver, SyncSender};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use tokio::sync::watch;

use super::batch::{Task, Waiting};
use crate::daemon::outbox::Target;
use crate::daemon::telemetry::Metrics;
use crate::member::{Delivery, Generation, NameHash};
use crate::node::{Arrival, Kept};

/// Requests of one transaction.
const TASKS_MAX: usize = 512;
/// Arrivals of one transaction.
const ARRIVALS_BATCH_MAX: usize = 1024;
/// Arrivals that may wait. What comes beyond is dropped, and with it all that follows from that
/// life of its origin, so that no mark passes over it: it is not acknowledged, and comes again to
/// the next run.
const ARRIVALS_MAX: usize = 16_384;

/// What is asked of the writer.
pub(super) enum Request {
    /// Keep this from now on.
    Follow {
        kept: Box<Kept>,
        /// The last event that the database already has.
        written: u64,
    },
    /// There are new events.
    Wake,
    /// Do this, and tell somebody.
    Task(Box<Task>, Waiting),
    /// Make a generation durable.
    Generation {
        generation: u64,
        done: SyncSender<Result<(), String>>,
    },
    /// The run ends in order.
    Close { done: SyncSender<()> },
}

/// What is done next.
#[derive(Default)]
pub(super) struct Inbox {
    pub(super) tasks: Vec<(Task, Waiting)>,
    /// What comes after the tasks.
    pub(super) control: Option<Request>,
    woken: bool,
}

impl Inbox {
    pub(super) fn add(&mut self, request: Request) {
        match request {
            Request::Task(task, waiting) => self.tasks.push((*task, waiting)),
            Request::Wake => self.woken = true,
            control => self.control = Some(control),
        }
    }

    pub(super) fn take(&mut self, tasks: Vec<(Task, Waiting)>) {
        self.tasks.extend(tasks);
    }

    /// Takes what waits, in its order, as far as it fits into one transaction.
    pub(super) fn fill(&mut self, requests: &Receiver<Request>) {
        while self.control.is_none() && self.tasks.len() < TASKS_MAX {
            match requests.try_recv() {
                Ok(request) => self.add(request),
                Err(_) => return,
            }
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.tasks.is_empty() && self.control.is_none() && !self.woken
    }

    /// Whether there is nothing but new transitions.
    pub(super) fn is_woken_only(&self) -> bool {
        self.woken && self.tasks.is_empty() && self.control.is_none()
    }
}

/// How the writer gets on, for others to see.
#[derive(Debug, Default)]
pub(super) struct Progress {
    /// What went wrong last, while it goes wrong.
    pub(super) failure: Option<String>,
    /// Failures since the start.
    pub(super) failures: u64,
    /// The last event written.
    pub(super) written: u64,
    /// Idempotency keys that are remembered.
    pub(super) keys: u64,
}

/// What the writer shares with those who ask.
#[derive(Default)]
pub(super) struct Shared {
    progress: Mutex<Progress>,
    arrivals: Mutex<Arrivals>,
    pub(super) metrics: OnceLock<Arc<Metrics>>,
    /// Who is told of events.
    pub(super) targets: OnceLock<Vec<Target>>,
    /// Counts how often there were new calls.
    pub(super) calls: watch::Sender<u64>,
}

#[derive(Default)]
struct Arrivals {
    waiting: VecDeque<Arrival>,
    /// Lives of which something was dropped; the core bounds how many it knows.
    cut: BTreeSet<(NameHash, Generation, Delivery)>,
}

impl Arrivals {
    fn add(&mut self, arrival: Arrival) {
        let event = match &arrival {
            Arrival::Event(event) => event.event_ref(),
            Arrival::Missed(upto) => *upto,
        };
        let life = (event.origin, event.generation, event.delivery);
        if self.waiting.len() >= ARRIVALS_MAX {
            self.cut.insert(life);
        } else if !self.cut.contains(&life) {
            self.waiting.push_back(arrival);
        }
    }
}

impl Shared {
    pub(super) fn progress(&self) -> MutexGuard<'_, Progress> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn arrivals(&self) -> MutexGuard<'_, Arrivals> {
        self.arrivals.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Leaves what came of others for the writer.
    pub(super) fn leave(&self, arrivals: Vec<Arrival>) {
        let mut held = self.arrivals();
        let cut = held.cut.len();
        arrivals.into_iter().for_each(|arrival| held.add(arrival));
        if held.cut.len() > cut {
            tracing::error!(
                "the store cannot keep up: events of other members are not taken any more until \
                 the agent is started again"
            );
        }
    }

    pub(super) fn has_arrivals(&self) -> bool {
        !self.arrivals().waiting.is_empty()
    }

    pub(super) fn count_arrivals(&self) -> u64 {
        self.arrivals().waiting.len() as u64
    }

    /// What came of others, in its order, as far as it fits into one transaction.
    pub(super) fn take_arrivals(&self) -> Vec<Arrival> {
        let waiting = &mut self.arrivals().waiting;
        let count = waiting.len().min(ARRIVALS_BATCH_MAX);
        waiting.drain(..count).collect()
    }

    /// Leaves what could not be written for the next time.
    pub(super) fn give_back(&self, arrivals: Vec<Arrival>) {
        let waiting = &mut self.arrivals().waiting;
        arrivals
            .into_iter()
            .rev()
            .for_each(|arrival| waiting.push_front(arrival));
    }

    /// A transaction is durable: how long its work took, and its commit.
    pub(super) fn committed(&self, work: Duration, commit: Duration) {
        if let Some(metrics) = self.metrics.get() {
            metrics.committed(work, commit);
        }
    }

    /// Who is told of events.
    pub(super) fn targets(&self) -> &[Target] {
        self.targets.get().map_or(&[], Vec::as_slice)
    }

    /// There may be new calls.
    pub(super) fn wake_callers(&self) {
        self.calls.send_modify(|changes| *changes += 1);
    }

    /// How many calls wait, and how many are parked.
    pub(super) fn measured(&self, calls: (u64, u64)) {
        if let Some(metrics) = self.metrics.get() {
            metrics.measured_calls(calls);
        }
    }

    /// An event of a client is in the log.
    pub(super) fn logged(&self, kind: &'static str) {
        if let Some(metrics) = self.metrics.get() {
            metrics.logged(kind);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::member::EventRef;

    #[test]
    fn of_a_life_that_was_cut_nothing_later_is_taken() {
        let shared = Shared::default();
        let arrival = |origin: u8, sequence| {
            Arrival::Missed(EventRef {
                origin: NameHash::from_wire([origin; 8]),
                generation: Generation(1),
                delivery: Delivery::AtLeastOnce,
                sequence,
            })
        };
        let all = ARRIVALS_MAX as u64;
        shared.leave((1..=all + 1).map(|n| arrival(1, n)).collect());
        assert_eq!(shared.count_arrivals(), all);
        let taken = shared.take_arrivals();
        assert_eq!(taken.len(), ARRIVALS_BATCH_MAX);
        shared.leave(vec![arrival(1, all + 2), arrival(2, 1)]);
        assert_eq!(
            shared.count_arrivals(),
            all - 1024 + 1,
            "the other life goes on"
        );
        shared.give_back(taken);
        assert_eq!(shared.take_arrivals()[0], arrival(1, 1), "in its order");
    }
}
