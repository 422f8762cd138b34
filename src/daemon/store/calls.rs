//! The outbox in the store: what targets are still to be told, and how that ended.

use std::time::SystemTime;

use rusqlite::Transaction;
use tokio::sync::{oneshot, watch};

use super::batch::{Job, Task, Told, Waiting};
use super::{SqliteStore, call_rows};
use crate::daemon::outbox::{CallView, Calls, NextCall, Redriven, Settled, Target};

impl SqliteStore {
    /// From now on `targets` are told of events. Before the node starts; what waits for others is
    /// parked.
    pub fn tell(&self, targets: Vec<Target>) {
        // Whoever came first stays.
        let _ = self.shared.targets.set(targets);
    }

    /// Does a job in the next transaction; what it returns is told once that is durable.
    fn job<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Transaction<'_>, &[Target]) -> rusqlite::Result<T> + Send + 'static,
    ) -> oneshot::Receiver<T> {
        let (reply, answer) = oneshot::channel();
        let job: Job = Box::new(move |transaction, targets| {
            let done = work(transaction, targets)?;
            // An error means that the caller has gone.
            let told: Told = Box::new(move || drop(reply.send(done)));
            Ok(told)
        });
        // Turned away, who waits learns it by getting no answer.
        let _ = self.hand_over(Task::Job(job), Waiting::Nobody);
        answer
    }
}

impl Calls for SqliteStore {
    fn next_call(&self, target: &str, now: SystemTime) -> oneshot::Receiver<NextCall> {
        let target = target.to_owned();
        self.job(move |transaction, _| call_rows::next(transaction, &target, now))
    }

    fn settle_call(&self, id: u64, settled: Settled) -> oneshot::Receiver<()> {
        self.job(move |transaction, _| call_rows::settle(transaction, id, &settled))
    }

    fn list_calls(&self, limit: usize) -> oneshot::Receiver<Vec<CallView>> {
        self.job(move |transaction, _| call_rows::list(transaction, limit))
    }

    fn redrive_call(&self, id: u64) -> oneshot::Receiver<Redriven> {
        let shared = std::sync::Arc::clone(&self.shared);
        let (reply, answer) = oneshot::channel();
        let job: Job = Box::new(move |transaction, targets| {
            let now = SystemTime::now();
            let redriven = call_rows::redrive(transaction, id, targets, now)?;
            let told: Told = Box::new(move || {
                shared.wake_callers();
                // An error means that the caller has gone.
                let _ = reply.send(redriven);
            });
            Ok(told)
        });
        let _ = self.hand_over(Task::Job(job), Waiting::Nobody);
        answer
    }

    fn calls_changed(&self) -> watch::Receiver<u64> {
        self.shared.calls.subscribe()
    }
}

/// Parks what nobody is told any more, and drops what is too much; how many calls wait, and how
/// many are parked.
pub(super) fn sweep(
    transaction: &Transaction<'_>,
    targets: &[Target],
) -> rusqlite::Result<(u64, u64)> {
    let parked = call_rows::park_others(transaction, targets)?;
    if parked > 0 {
        tracing::warn!(
            parked,
            "calls wait for targets that are not configured any more"
        );
    }
    let dropped = call_rows::bound(transaction, targets)?;
    if dropped > 0 {
        tracing::error!(
            dropped,
            "too many calls were parked: the oldest are dropped"
        );
    }
    call_rows::count(transaction)
}
