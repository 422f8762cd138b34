//! A quarter of the cluster crashes at one moment, as with a rack.

use std::time::Duration;

use crate::compare::measure::{Figure, Measure, Stage, Values};

/// A crash that is not known then was missed.
const LIMIT: Duration = Duration::from_secs(180);
/// One in so many crashes.
const ONE_IN: usize = 4;

/// Until all are held for dead by all who are left, and who else was.
pub const MEASURE: Measure = Measure {
    word: "mass-crash",
    figures: &[
        Figure::seconds("25 % crash, one held dead by one"),
        Figure::seconds("25 % crash, all held dead by all"),
        Figure::count("25 % crash, healthy ones held dead"),
    ],
    take,
    // Losses of helpers and of carriers of news are not in the formulas.
    formula: |_, _| vec![None, None, None],
};

fn take(stage: &mut Stage) -> Values {
    let victims = stage.some(stage.members.len() / ONE_IN);
    let crashed = stage.contender.now();
    for &victim in &victims {
        stage.contender.crash(victim);
    }
    let mut left = victims.clone();
    let known = stage.until(LIMIT, |contender| {
        while left.last().is_some_and(|&one| contender.is_held_dead(one)) {
            left.pop();
        }
        left.is_empty()
    });
    let first = stage.first_verdict(crashed, &victims);
    vec![first, known, Some(stage.held_dead(crashed, &victims))]
}
