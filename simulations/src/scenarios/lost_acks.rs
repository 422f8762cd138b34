//! Acknowledgements are lost on their way to one of the members that wait for them.

use rumord::protocol::EventCount;

use super::Scenario;
use super::delivered::{send, total, within};
use super::stage::{Stage, milliseconds};
use crate::rules::Carried;

/// Members that cannot say anything to a third of the others.
const CUT: usize = 60;
/// Members asked directly, at most: those on both of whose paths something was cut.
const ASKED_MAX: u64 = 15;

pub(super) const SCENARIO: Scenario = Scenario {
    name: "lost-acks",
    story: "60 of 100 members cannot reach a third of the others: the second path tells",
    play,
};

/// With one path only a lost acknowledgement loses all members behind it: hundreds of a thousand
/// had to be asked.
fn play(stage: &mut Stage) -> Result<(), String> {
    let nodes = stage.settled(100);
    let mut worst = 0;
    for round in 0..5 {
        let sender = nodes[99 - round];
        let mut cuts = Vec::new();
        for n in 0..CUT {
            let others = (0..nodes.len()).filter(|other| (other + n) % 3 == round % 3);
            for other in others.filter(|&other| other != n && nodes[other] != sender) {
                cuts.push(stage.world.cut(nodes[n], nodes[other], Carried::Datagrams));
            }
        }
        let before = total(stage, EventCount::Asked);
        let event = send(stage, sender, (1, 200))?;
        let what = format!("event {round}");
        within(stage, &what, (sender, &event), milliseconds(1000))?;
        worst = worst.max(total(stage, EventCount::Asked) - before);
        cuts.into_iter().for_each(|cut| stage.world.lift(cut));
        stage.world.run_for(milliseconds(3000));
    }
    stage.tell("members asked directly, at most", worst);
    match worst > ASKED_MAX {
        true => Err(format!("{worst} were asked directly")),
        false => Ok(()),
    }
}
