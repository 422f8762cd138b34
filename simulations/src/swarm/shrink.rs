//! A failing plan made small: faults are left out for as long as it still fails.

use std::collections::BTreeSet;

use super::attempt;
use super::plan::Plan;
use super::run::Manner;

/// Runs spent on one plan at most.
const ATTEMPTS_MAX: usize = 150;

/// The numbers of the faults without which `plan` does not fail by `invariant`.
#[must_use]
pub fn shrink(plan: &Plan, manner: Manner, invariant: &str) -> BTreeSet<usize> {
    let mut kept: BTreeSet<usize> = (0..plan.faults.len()).collect();
    let mut attempts = 0;
    let mut part = kept.len().div_ceil(2);
    while part > 0 {
        let mut smaller = false;
        let numbers: Vec<usize> = kept.iter().copied().collect();
        for dropped in numbers.chunks(part) {
            if attempts >= ATTEMPTS_MAX {
                return kept;
            }
            attempts += 1;
            let rest: BTreeSet<usize> = kept
                .iter()
                .copied()
                .filter(|number| !dropped.contains(number))
                .collect();
            let outcome = attempt(&plan.keeping(&rest), manner);
            if outcome
                .failure
                .is_some_and(|failure| failure.invariant == invariant)
            {
                kept = rest;
                smaller = true;
            }
        }
        part = match (part, smaller) {
            (1, true) => 1,
            (part, _) => part / 2,
        };
    }
    kept
}
