//! Hundreds join through one member, one after another.

use std::time::Duration;

use rumord::protocol::{Direction, Transport};

use super::Scenario;
use super::large::{apart, percent, until_equal, world};
use super::stage::{Stage, seconds};
use crate::world::Start;

/// How many join, and how much later the next does.
const JOINERS: usize = 500;
const GAP: Duration = Duration::from_millis(10);
/// All tables are equal this long after the last has started, without loss; datagrams are lost
/// otherwise, and the last ones may need a repair.
const EQUAL_LATEST: Duration = Duration::from_millis(300);
const EQUAL_LATEST_LOSSY: Duration = Duration::from_millis(1500);

pub(super) const SCENARIO: Scenario = Scenario {
    name: "steady-joins",
    story: "500 join through one member within 5 s: all tables are equal 0.3 s after the last",
    play,
};

fn play(stage: &mut Stage) -> Result<(), String> {
    for (loss, latest) in [(0.0, EQUAL_LATEST), (0.1, EQUAL_LATEST_LOSSY)] {
        stage.world = world(stage.seed(), loss);
        let first = stage.world.start(Start::named("n1"));
        stage.world.run_for(seconds(2));
        let join = [stage.world.address(first)];
        for number in 2..=JOINERS + 1 {
            let start = Start::named(&format!("n{number}")).joining(join);
            stage.world.start(start);
            stage.world.run_for(GAP);
        }
        let equal = until_equal(&mut stage.world, seconds(30));
        let equal = equal.ok_or_else(|| apart(&stage.world))?;
        let what = format!("all tables equal after, {}", percent(loss));
        stage.tell(&what, format!("{:.2} s", equal.as_secs_f64()));
        let stats = stage.world.process(first).node.stats();
        let sent = stats.bytes.get((Direction::Sent, Transport::Stream)) / 1000;
        let redirected = stats.busy;
        stage.tell("sent by the one over streams", format!("{sent} KB"));
        stage.tell("sent elsewhere by the one", redirected);
        if equal > latest {
            return Err(format!("{what}: {equal:?}, more than {latest:?}"));
        }
    }
    Ok(())
}
