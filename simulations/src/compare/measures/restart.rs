//! A member crashes and is back after a second, before anybody is sure that it was gone.

use std::time::Duration;

use crate::compare::measure::{Figure, Measure, Stage, Values};

/// How long it is away.
const AWAY: Duration = Duration::from_secs(1);
/// Later than every repair of either protocol.
const LIMIT: Duration = Duration::from_secs(120);

/// From its start until all show its new life.
pub const MEASURE: Measure = Measure {
    word: "restart",
    figures: &[Figure::seconds("one restarts, new life known to all")],
    take,
    formula: |_, _| vec![None],
};

fn take(stage: &mut Stage) -> Values {
    let member = stage.any();
    stage.contender.crash(member);
    stage.contender.run_for(AWAY);
    stage.contender.restart(member);
    vec![stage.until(LIMIT, |contender| contender.is_shown_alive(member))]
}
