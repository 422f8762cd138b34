//! Events as large as they may be.

use rumord::protocol::EventCount;

use super::Scenario;
use super::delivered::{send, total, within};
use super::stage::{Stage, seconds};
use crate::link::Link;

pub(super) const SCENARIO: Scenario = Scenario {
    name: "large-event",
    story: "events of 64 KiB are announced, and each of 50 members pulls each once",
    play,
};

fn play(stage: &mut Stage) -> Result<(), String> {
    let nodes = stage.settled(50);
    for (loss, bound) in [(0.0, 1), (0.1, 8)] {
        stage.world.set_usual_link(Link::LAN.losing(loss));
        let before = total(stage, EventCount::Pulled);
        let event = send(stage, nodes[7], (2, 65_536))?;
        let what = format!("{} %", loss * 100.0);
        within(stage, &what, (nodes[7], &event), seconds(bound))?;
        let pulled = total(stage, EventCount::Pulled) - before;
        stage.tell(&format!("{what}: pulled"), pulled);
        let needed = 2 * 49;
        if pulled < needed || pulled > needed * 5 / 4 {
            return Err(format!("{pulled} pulled, {needed} needed"));
        }
    }
    Ok(())
}
