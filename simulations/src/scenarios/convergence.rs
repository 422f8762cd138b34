//! One change in a large cluster.

use std::time::Duration;

use super::Scenario;
use super::stage::{Stage, seconds};

/// How many members.
const MEMBERS: usize = 1000;
/// How many changes, one after another.
const CHANGES: usize = 5;
/// All know one within this.
const KNOWN_LATEST: Duration = Duration::from_millis(20);

pub(super) const SCENARIO: Scenario = Scenario {
    name: "convergence",
    story: "five changes, one after another, among 1000 members: all know each within 20 ms",
    play,
};

fn play(stage: &mut Stage) -> Result<(), String> {
    let nodes = stage.full(MEMBERS);
    let (since, before) = (stage.world.now(), stage.world.tally().sent);
    let mut slowest = Duration::ZERO;
    for change in 0..CHANGES {
        let (accuser, subject) = (nodes[7 * change], nodes[MEMBERS - 1 - 31 * change]);
        let watch = stage.world.accuse(accuser, subject);
        let watch = watch.ok_or("the accused does not list itself")?;
        stage.world.run_for(seconds(1));
        let known = stage.world.known_after(watch);
        slowest = slowest.max(known.ok_or("a change is not known after a second")?);
    }
    let sent = (stage.world.tally().sent - before) as f64 / (MEMBERS * CHANGES) as f64;
    stage.tell(
        "slowest known to all after",
        format!("{:.3} ms", millis(slowest)),
    );
    stage.tell("datagrams per member and second", format!("{sent:.1}"));
    if slowest > KNOWN_LATEST {
        return Err(format!("it took {slowest:?}, more than {KNOWN_LATEST:?}"));
    }
    stage.nobody_else_dies(since, &[])
}

fn millis(length: Duration) -> f64 {
    length.as_secs_f64() * 1000.0
}
