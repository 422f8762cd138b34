//! Random faults against random clusters, each run drawn from one seed.
//!
//! A run has two halves, as in TigerBeetle's simulator. In the first, faults happen anywhere and
//! every invariant holds after every event. Then all faults end around a core of nodes, the others
//! are down for good, and the core must agree within a bound. "Not yet" is a reason in words.

mod agreement;
mod begin;
mod coverage;
mod draw;
mod fault;
mod heal;
mod judge;
mod plan;
mod run;
mod saying;
mod sending;
mod shrink;
mod troubles;

use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};

use rumord::time::Instant;

pub use coverage::Coverage;
pub use fault::{Fault, Slot};
pub use plan::{Plan, Planned, StartPlan};
pub use run::{Failure, Manner, Outcome};
pub use shrink::shrink;

/// A swarm of this size must have done everything at least once.
pub const COVERING_SEEDS: usize = 60;

/// Carries out a plan; a panic of the core is a failure like any other.
#[must_use]
pub fn attempt(plan: &Plan, manner: Manner) -> Outcome {
    let outcome = catch_unwind(AssertUnwindSafe(|| run::run(plan, manner)));
    outcome.unwrap_or_else(|payload| Outcome {
        failure: Some(Failure {
            invariant: "no-panic".to_owned(),
            at: Instant::ORIGIN,
            detail: panic_text(payload.as_ref()),
        }),
        agreed: None,
        coverage: Coverage::default(),
        trace: String::new(),
    })
}

fn panic_text(payload: &(dyn std::any::Any + Send)) -> String {
    let text = payload
        .downcast_ref::<&str>()
        .map(|text| (*text).to_owned());
    let text = text.or_else(|| payload.downcast_ref::<String>().cloned());
    text.unwrap_or_else(|| "a panic without words".to_owned())
}

/// What came of one seed.
#[derive(Clone, Debug)]
pub struct Report {
    /// What was planned.
    pub plan: Plan,
    /// How it ended.
    pub outcome: Outcome,
    /// The faults that are enough to fail; `None` for a run that passed.
    pub enough: Option<BTreeSet<usize>>,
}

/// Draws, runs, and shrinks on failure.
#[must_use]
pub fn try_seed(seed: u64, manner: Manner) -> Report {
    let plan = Plan::draw(seed);
    let outcome = attempt(&plan, manner);
    let enough = outcome
        .failure
        .as_ref()
        .map(|failure| shrink(&plan, manner, &failure.invariant));
    Report {
        plan,
        outcome,
        enough,
    }
}
