//! Runs the tests side by side and reports them the way cargo's own harness does.

use std::panic::catch_unwind;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Instant;

/// Tests that run at a time, unless `--test-threads` says otherwise.
const AT_A_TIME: usize = 6;
/// Options of cargo's harness that take a value, which is no filter.
const WITH_VALUE: [&str; 5] = ["--test-threads", "--skip", "--color", "--format", "-Z"];

/// A test.
pub struct Case {
    /// Its path.
    pub name: &'static str,
    /// Panics if it fails.
    pub run: fn(),
}

/// What the command line asks for.
struct Request {
    filters: Vec<String>,
    skips: Vec<String>,
    exact: bool,
    list: bool,
    threads: usize,
}

impl Request {
    fn from_args() -> Self {
        let mut request = Request {
            filters: Vec::new(),
            skips: Vec::new(),
            exact: false,
            list: false,
            threads: AT_A_TIME,
        };
        let mut args = std::env::args().skip(1);
        while let Some(arg) = args.next() {
            let (flag, value) = match arg.split_once('=') {
                Some((flag, value)) => (flag.to_owned(), Some(value.to_owned())),
                None if WITH_VALUE.contains(&arg.as_str()) => (arg, args.next()),
                None => (arg, None),
            };
            match (flag.as_str(), value) {
                ("--exact", _) => request.exact = true,
                ("--list", _) => request.list = true,
                ("--skip", Some(text)) => request.skips.push(text),
                ("--test-threads", Some(text)) => {
                    request.threads = text.parse().expect("--test-threads takes a number");
                }
                (flag, _) if flag.starts_with('-') => {}
                (filter, _) => request.filters.push(filter.to_owned()),
            }
        }
        request
    }

    fn wants(&self, name: &str) -> bool {
        let fits = |text: &String| match self.exact {
            true => name == text,
            false => name.contains(text.as_str()),
        };
        let asked = self.filters.is_empty() || self.filters.iter().any(fits);
        asked && !self.skips.iter().any(fits)
    }
}

/// Runs what the command line asks for; the process's exit code.
pub fn run(cases: &[Case]) -> i32 {
    let request = Request::from_args();
    let wanted: Vec<&Case> = cases
        .iter()
        .filter(|case| request.wants(case.name))
        .collect();
    if request.list {
        wanted
            .iter()
            .for_each(|case| println!("{}: test", case.name));
        return 0;
    }
    println!("\nrunning {} tests", wanted.len());
    let started = Instant::now();
    let failed = run_all(&wanted, request.threads.max(1));
    let (passed, took) = (wanted.len() - failed.len(), started.elapsed().as_secs_f64());
    let result = if failed.is_empty() { "ok" } else { "FAILED" };
    failed.iter().for_each(|name| println!("failed: {name}"));
    println!(
        "\ntest result: {result}. {passed} passed; {} failed; {} filtered out; in {took:.1} s\n",
        failed.len(),
        cases.len() - wanted.len()
    );
    i32::from(!failed.is_empty()) * 101
}

/// The names of those that failed.
fn run_all(wanted: &[&Case], threads: usize) -> Vec<&'static str> {
    let (next, failed) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let work = || {
        while let Some(case) = wanted.get(next.fetch_add(1, Ordering::Relaxed)) {
            if !run_one(case) {
                failed
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .push(case.name);
            }
        }
    };
    thread::scope(|scope| {
        for _ in 0..threads.min(wanted.len()) {
            scope.spawn(work);
        }
    });
    failed.into_inner().unwrap_or_else(PoisonError::into_inner)
}

/// On a thread of its own, whose name tells whose panic it is.
fn run_one(case: &Case) -> bool {
    let (started, run) = (Instant::now(), case.run);
    let test = thread::Builder::new()
        .name(case.name.to_owned())
        .spawn(move || catch_unwind(run).is_ok());
    let passed = test.expect("a thread").join().unwrap_or(false);
    let result = if passed { "ok" } else { "FAILED" };
    let took = started.elapsed().as_secs_f64();
    println!("test {} ... {result} ({took:.1} s)", case.name);
    passed
}
