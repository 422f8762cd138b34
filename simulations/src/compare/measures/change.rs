//! A member changes something about itself.
//!
//! Each protocol does it in the way that it offers: rumord's member refutes an accusation, which
//! raises its incarnation; foca's changes its identity, which its documentation intends for
//! metadata that changes. Both are one new claim that its owner begins to spread.

use std::time::Duration;

use crate::compare::measure::{Figure, Measure, Stage, Values};
use crate::compare::swim;

/// Later than every repair of either protocol.
const LIMIT: Duration = Duration::from_secs(120);

/// Until all know it.
pub const MEASURE: Measure = Measure {
    word: "change",
    figures: &[Figure::seconds("one change, known to all")],
    take,
    formula: |nodes, loss| vec![Some(swim::infection_seconds(nodes, loss))],
};

fn take(stage: &mut Stage) -> Values {
    let member = stage.any();
    stage.contender.tell_change(member);
    vec![stage.until(LIMIT, |contender| contender.is_change_known())]
}
