//! Independent runs on several threads, their results in the order of the runs.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::thread;

/// Most threads.
pub const THREADS_MAX: usize = 256;

/// Does `work` for each of `jobs` on `threads` threads, and hands every result to `take` in the
/// order of the jobs, as soon as it and all before it are there. When `take` wants no more, no
/// further job is begun.
pub fn in_order<J: Sync, R: Send>(
    jobs: &[J],
    threads: usize,
    work: impl Fn(&J) -> R + Sync,
    mut take: impl FnMut(&J, R) -> ControlFlow<()>,
) {
    let next = AtomicUsize::new(0);
    let (done, results) = mpsc::channel();
    thread::scope(|scope| {
        for _ in 0..threads.clamp(1, THREADS_MAX).min(jobs.len()) {
            let (done, next, work) = (done.clone(), &next, &work);
            scope.spawn(move || {
                while let Some((number, job)) = take_job(jobs, next) {
                    if done.send((number, work(job))).is_err() {
                        return;
                    }
                }
            });
        }
        drop(done);
        let mut early = BTreeMap::new();
        let mut expected = 0;
        for (number, result) in results {
            early.insert(number, result);
            while let Some(result) = early.remove(&expected) {
                if take(&jobs[expected], result).is_break() {
                    next.store(jobs.len(), Ordering::Relaxed);
                    return;
                }
                expected += 1;
            }
        }
    });
}

fn take_job<'a, J>(jobs: &'a [J], next: &AtomicUsize) -> Option<(usize, &'a J)> {
    let number = next.fetch_add(1, Ordering::Relaxed);
    jobs.get(number).map(|job| (number, job))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_come_in_the_order_of_the_jobs() {
        let jobs: Vec<u64> = (0..100).collect();
        for threads in [1, 2, 7] {
            let mut taken = Vec::new();
            in_order(
                &jobs,
                threads,
                |job| job * job,
                |job, square| {
                    taken.push((*job, square));
                    ControlFlow::Continue(())
                },
            );
            let expected: Vec<_> = jobs.iter().map(|job| (*job, job * job)).collect();
            assert_eq!(taken, expected);
        }
    }

    #[test]
    fn no_job_is_begun_when_no_more_results_are_wanted() {
        let jobs: Vec<u64> = (0..1_000_000).collect();
        let begun = AtomicUsize::new(0);
        let work = |_: &u64| begun.fetch_add(1, Ordering::Relaxed);
        in_order(&jobs, 3, work, |_, _| ControlFlow::Break(()));
        assert!(begun.into_inner() < jobs.len());
    }
}
