//! A member stands still for five seconds, as with a long collection of garbage or a migration.

use std::time::Duration;

use crate::compare::measure::{Figure, Measure, Stage, Values};

/// How long it stands still.
const PAUSE: Duration = Duration::from_secs(5);
/// What follows from it has followed by then.
const AFTERMATH: Duration = Duration::from_secs(30);

/// What the pause does to it and to others.
pub const MEASURE: Measure = Measure {
    word: "pause",
    figures: &[
        Figure::count("5 s pause, held dead meanwhile"),
        Figure::count("5 s pause, healthy ones held dead"),
        Figure::count("5 s pause, forced to rejoin"),
    ],
    take,
    formula: |_, _| vec![None, None, None],
};

fn take(stage: &mut Stage) -> Values {
    let (member, paused) = (stage.any(), stage.contender.now());
    let rejoins = stage.forced_rejoins();
    stage.contender.pause(member, PAUSE);
    stage.contender.run_for(PAUSE + AFTERMATH);
    let (all, healthy) = (
        stage.held_dead(paused, &[]),
        stage.held_dead(paused, &[member]),
    );
    vec![
        Some(all - healthy),
        Some(healthy),
        Some(stage.forced_rejoins() - rejoins),
    ]
}
