//! The origin of events dies while only some have them.

use super::Scenario;
use super::delivered::{each_has, send};
use super::stage::{Stage, milliseconds, seconds};
use crate::link::Link;

/// Events.
const EVENTS: usize = 10;

pub(super) const SCENARIO: Scenario = Scenario {
    name: "dead-origin",
    story: "a member dies while it tells events at 40 % loss: those that have some tell the others",
    play,
};

fn play(stage: &mut Stage) -> Result<(), String> {
    let nodes = stage.settled(40);
    stage.world.set_usual_link(Link::LAN.losing(0.4));
    let last = send(stage, nodes[0], (EVENTS, 400))?;
    stage.world.run_for(milliseconds(30));
    stage.world.crash(nodes[0]);
    stage.world.set_usual_link(Link::LAN);
    let has = |stage: &Stage, id| stage.world.process(id).store.events().len();
    let some = nodes[1..].iter().filter(|&&id| has(stage, id) > 0).count();
    let all = nodes[1..]
        .iter()
        .filter(|&&id| has(stage, id) == EVENTS)
        .count();
    stage.tell("have some, all at its death", format!("{some}, {all}"));
    if some == 0 || all == 39 {
        return Err("nothing to repair".to_owned());
    }
    stage.within("all have all after", seconds(20), |world| {
        world.everyone_has(&last)
    })?;
    stage.world.run_for(seconds(5));
    each_has(stage, &nodes[1..], EVENTS)
}
