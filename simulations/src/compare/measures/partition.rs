//! A cluster in two halves for half a minute, and one again.

use std::time::Duration;

use crate::compare::contender::{Contender, Member};
use crate::compare::measure::{Figure, Measure, Stage, Values};

/// How long the halves are apart.
const APART: Duration = Duration::from_secs(30);
/// A cluster that is not one then is taken not to come together again.
const LIMIT: Duration = Duration::from_secs(300);

/// From the healing until all show all as alive in their present lives.
pub const MEASURE: Measure = Measure {
    word: "partition",
    figures: &[Figure::seconds("30 s in halves, one view again after")],
    take,
    formula: |_, _| vec![None],
};

fn take(stage: &mut Stage) -> Values {
    let members = stage.members.clone();
    let side = stage.some(members.len() / 2);
    stage.contender.isolate(&side);
    stage.contender.run_for(APART);
    stage.contender.reconnect();
    let mut missing = 0;
    vec![stage.until(LIMIT, |contender| {
        one_view(contender, &members, &mut missing)
    })]
}

/// Whether all show all; `missing` is where somebody was missing last, who is looked for first.
fn one_view(contender: &dyn Contender, members: &[Member], missing: &mut usize) -> bool {
    if !contender.is_shown_alive(members[*missing]) {
        return false;
    }
    let gap = members
        .iter()
        .position(|&member| !contender.is_shown_alive(member));
    *missing = gap.unwrap_or(0);
    gap.is_none()
}
