//! Members restart while others send events: with their data directory they miss nothing and get
//! nothing twice; without it they are not told what was sent before them.

use super::Scenario;
use super::delivered::{each_has, send, within};
use super::stage::{Stage, seconds};
use crate::world::{NodeIdChoice, Restart};

pub(super) const SCENARIO: Scenario = Scenario {
    name: "receiver-restarts",
    story: "members restart with their data and without: nothing is missed or comes again",
    play,
};

/// hashicorp/serf#465, hashicorp/serf#692: a member that restarted, or a new one, was shown old
/// events again.
fn play(stage: &mut Stage) -> Result<(), String> {
    let nodes = stage.settled(10);
    for &sender in &nodes[..3] {
        let before = send(stage, sender, (5, 100))?;
        within(stage, "before", (sender, &before), seconds(1))?;
    }
    stage.world.crash(nodes[8]);
    stage.world.crash(nodes[9]);
    stage.world.run_for(seconds(2));
    let meanwhile = send(stage, nodes[0], (20, 100))?;
    stage.world.run_for(seconds(10));
    let kept = stage.world.restart(nodes[8], Restart::default());
    let fresh = Restart {
        node_id: NodeIdChoice::Fresh,
        ..Restart::default()
    };
    let bare = stage.world.restart(nodes[9], fresh);
    stage.within("the restarted one has all after", seconds(5), |world| {
        world.process(kept).store.has(&meanwhile)
    })?;
    stage.within("the sender knows after", seconds(10), |world| {
        world.sender_knows(nodes[0], &meanwhile)
    })?;
    each_has(stage, &[kept], 35)?;
    each_has(stage, &[bare], 0)?;
    let after = send(stage, nodes[1], (3, 100))?;
    within(stage, "after", (nodes[1], &after), seconds(2))?;
    stage.world.run_for(seconds(10));
    each_has(stage, &[bare], 3)?;
    each_has(stage, &[kept, nodes[0], nodes[7]], 38)
}
