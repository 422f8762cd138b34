//! One task for each target: makes its calls, one after the other.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use tokio::sync::watch;
use tokio::task::JoinSet;

use super::program;
use super::webhook;
use super::{Action, Call, Calls, NextCall, Settled, Target};

/// Pause before a store that cannot be used is asked again.
const STORE_PAUSE: Duration = Duration::from_secs(1);

/// Starts the task of each target. They end when what is returned is dropped; programs under way
/// are killed then, and their calls made again by the next run.
#[must_use]
pub fn start(targets: &[Target], calls: &Arc<dyn Calls>) -> JoinSet<()> {
    let mut tasks = JoinSet::new();
    for target in targets {
        tasks.spawn(serve(target.clone(), Arc::clone(calls)));
    }
    tasks
}

async fn serve(target: Target, calls: Arc<dyn Calls>) {
    let mut changed = calls.calls_changed();
    loop {
        changed.mark_unchanged();
        match calls.next_call(&target.name, SystemTime::now()).await {
            Ok(NextCall::Now(call)) => make(&target, &call, calls.as_ref()).await,
            Ok(NextCall::At(time)) => {
                let left = time.duration_since(SystemTime::now());
                wait(&mut changed, Some(left.unwrap_or_default())).await;
            }
            Ok(NextCall::Later) => wait(&mut changed, None).await,
            Err(_) => tokio::time::sleep(STORE_PAUSE).await,
        }
    }
}

/// Until the outbox has changed, or for so long.
async fn wait(changed: &mut watch::Receiver<u64>, limit: Option<Duration>) {
    let woken = changed.changed();
    match limit {
        // Both ends mean to look again.
        Some(limit) => drop(tokio::time::timeout(limit, woken).await),
        None => {
            if woken.await.is_err() {
                tokio::time::sleep(STORE_PAUSE).await;
            }
        }
    }
}

async fn make(target: &Target, call: &Call, calls: &dyn Calls) {
    let settled = match perform(target, call).await {
        Ok(()) => Settled::Done,
        Err((error, is_final)) => after_failure(target, call, error, is_final),
    };
    tell(target, call, &settled);
    // Until it is kept it would be made again at once.
    while calls.settle_call(call.id, settled.clone()).await.is_err() {
        tokio::time::sleep(STORE_PAUSE).await;
    }
}

async fn perform(target: &Target, call: &Call) -> Result<(), (String, bool)> {
    match &target.action {
        Action::Program { command } => program::run(command, call, target.timeout)
            .await
            .map_err(|error| (error, false)),
        Action::Webhook { url, headers } => webhook::post(url, headers, call, target.timeout)
            .await
            .map_err(|refusal| (refusal.error, refusal.is_final)),
    }
}

fn after_failure(target: &Target, call: &Call, error: String, is_final: bool) -> Settled {
    match target.pause_after(call.attempts + 1) {
        Some(pause) if !is_final => Settled::Retry {
            at: SystemTime::now() + pause,
            error,
        },
        _ => Settled::Parked { error },
    }
}

fn tell(target: &Target, call: &Call, settled: &Settled) {
    // Not called a target here: log lines have one of their own.
    let (name, event) = (target.name.as_str(), call.event);
    match settled {
        Settled::Done => tracing::debug!(name, event, "told of an event"),
        Settled::Retry { error, .. } => {
            tracing::info!(name, event, error, "not told of an event yet; tried again");
        }
        Settled::Parked { error } => tracing::warn!(
            name,
            event,
            error,
            call = call.id,
            "given up telling of an event; see rumord outbox list"
        ),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use tokio::sync::oneshot;

    use super::super::{CallView, Filter, Redriven, TIMEOUT_DEFAULT};
    use super::*;

    /// Calls in memory: those that are due, and how each attempt ended.
    struct Memory {
        due: Mutex<Vec<(String, Call)>>,
        settled: Mutex<Vec<(u64, Settled)>>,
        changed: watch::Sender<u64>,
    }

    impl Calls for Memory {
        fn next_call(&self, target: &str, _now: SystemTime) -> oneshot::Receiver<NextCall> {
            let (reply, answer) = oneshot::channel();
            let mut due = self.due.lock().expect("no panic");
            let place = due.iter().position(|(name, _)| name == target);
            let next = place.map_or(NextCall::Later, |place| NextCall::Now(due.remove(place).1));
            reply.send(next).expect("it waits");
            answer
        }

        fn settle_call(&self, id: u64, settled: Settled) -> oneshot::Receiver<()> {
            self.settled.lock().expect("no panic").push((id, settled));
            self.changed.send_modify(|changes| *changes += 1);
            let (reply, answer) = oneshot::channel();
            reply.send(()).expect("it waits");
            answer
        }

        fn list_calls(&self, _limit: usize) -> oneshot::Receiver<Vec<CallView>> {
            oneshot::channel().1
        }

        fn redrive_call(&self, _id: u64) -> oneshot::Receiver<Redriven> {
            oneshot::channel().1
        }

        fn calls_changed(&self) -> watch::Receiver<u64> {
            self.changed.subscribe()
        }
    }

    fn target(name: &str, script: &str, attempts: u32) -> Target {
        let command = ["sh", "-c", script].map(str::to_owned).to_vec();
        Target {
            name: name.into(),
            action: Action::Program { command },
            filter: Filter::default(),
            timeout: TIMEOUT_DEFAULT,
            attempts,
        }
    }

    fn call(id: u64, attempts: u32) -> Call {
        Call {
            id,
            event: 100 + id,
            body: "{}".into(),
            attempts,
        }
    }

    /// hashicorp/serf#369: one handler sleeps, and the others are served.
    #[tokio::test]
    async fn a_target_that_sleeps_delays_no_other() {
        let calls = Arc::new(Memory {
            due: Mutex::new(vec![
                ("slow".into(), call(1, 0)),
                ("good".into(), call(2, 0)),
                ("good".into(), call(3, 0)),
                ("bad".into(), call(4, 0)),
                ("bad".into(), call(5, 1)),
            ]),
            settled: Mutex::default(),
            changed: watch::channel(0).0,
        });
        let targets = [
            target("slow", "sleep 1000", 2),
            target("good", "true", 2),
            target("bad", "exit 1", 2),
        ];
        let shared: Arc<dyn Calls> = calls.clone();
        let tasks = start(&targets, &shared);
        let mut changed = calls.calls_changed();
        let all = changed.wait_for(|&settled| settled >= 4);
        let all = tokio::time::timeout(Duration::from_secs(60), all).await;
        assert!(all.is_ok(), "four calls end");
        drop(tasks);
        let mut settled = calls.settled.lock().expect("no panic").clone();
        settled.sort_by_key(|&(id, _)| id);
        assert_eq!(settled[0], (2, Settled::Done));
        assert_eq!(settled[1], (3, Settled::Done));
        assert!(matches!(&settled[2], (4, Settled::Retry { error, .. }) if error.contains('1')));
        assert!(matches!(settled[3], (5, Settled::Parked { .. })));
    }
}
