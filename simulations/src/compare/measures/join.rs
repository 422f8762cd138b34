//! A new member joins through one that is there.

use std::time::Duration;

use crate::compare::measure::{Figure, Measure, Stage, Values};
use crate::compare::swim;

/// Later than every repair of either protocol.
const LIMIT: Duration = Duration::from_secs(120);

/// Until all know it.
pub const MEASURE: Measure = Measure {
    word: "join",
    figures: &[Figure::seconds("one joins, known to all")],
    take,
    formula: |nodes, loss| vec![Some(swim::infection_seconds(nodes, loss))],
};

fn take(stage: &mut Stage) -> Values {
    let through = stage.any();
    let new = stage.contender.start_joining(through);
    vec![stage.until(LIMIT, |contender| contender.is_shown_alive(new))]
}
