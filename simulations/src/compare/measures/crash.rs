//! One member crashes.

use std::time::Duration;

use crate::compare::measure::{Figure, Measure, Stage, Values};
use crate::compare::swim;

/// A crash that is not known then was missed.
const LIMIT: Duration = Duration::from_secs(120);

/// Until the first and the last hold it for dead.
pub const MEASURE: Measure = Measure {
    word: "crash",
    figures: &[
        Figure::seconds("T_D, one crashes, held dead by one"),
        Figure::seconds("T_D, one crashes, held dead by all"),
    ],
    take,
    formula,
};

fn take(stage: &mut Stage) -> Values {
    let (victim, crashed) = (stage.any(), stage.contender.now());
    stage.contender.crash(victim);
    let known = stage.until(LIMIT, |contender| contender.is_held_dead(victim));
    vec![stage.first_verdict(crashed, &[victim]), known]
}

fn formula(nodes: usize, loss: f64) -> Values {
    let first = swim::detection_seconds(1.0) + swim::suspicion_seconds(nodes);
    let all = first + swim::infection_seconds(nodes, loss);
    vec![Some(first), Some(all)]
}
