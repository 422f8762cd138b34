//! Everybody restarts within seconds, as when a fleet is upgraded in haste.

use std::time::Duration;

use super::Scenario;
use super::large::{MEMBERS, apart, full, percent, until_equal};
use super::stage::{Stage, seconds};
use crate::world::Restart;

/// How long one is down, and how much later the next ends.
const DOWN: Duration = Duration::from_millis(500);
const GAP: Duration = Duration::from_millis(5);
/// All tables are equal this long after the last has started.
const EQUAL_LATEST: Duration = Duration::from_millis(2500);

pub(super) const SCENARIO: Scenario = Scenario {
    name: "restart-of-all",
    story: "1000 members restart within 5 s: all tables are equal 2.5 s after the last start",
    play,
};

fn play(stage: &mut Stage) -> Result<(), String> {
    for loss in [0.0, 0.1] {
        let nodes = full(stage, loss);
        let down = (DOWN.as_nanos() / GAP.as_nanos()) as usize;
        for step in 0..MEMBERS + down {
            if let Some(&ends) = nodes.get(step) {
                stage.world.crash(ends);
            }
            if let Some(&starts) = step.checked_sub(down).and_then(|at| nodes.get(at)) {
                stage.world.restart(starts, Restart::default());
            }
            stage.world.run_for(GAP);
        }
        let equal = until_equal(&mut stage.world, seconds(30));
        let equal = equal.ok_or_else(|| apart(&stage.world))?;
        let what = format!("all tables equal after, {}", percent(loss));
        stage.tell(&what, format!("{:.2} s", equal.as_secs_f64()));
        stage.tell_exchanges();
        if equal > EQUAL_LATEST {
            return Err(format!("{what}: {equal:?}, more than {EQUAL_LATEST:?}"));
        }
    }
    Ok(())
}
