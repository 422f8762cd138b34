//! Nothing at all arrives anywhere, for a while.

use super::Scenario;
use super::stage::{Stage, seconds};
use crate::link::Link;
use crate::rules::{Carried, Effect, Hosts, Rule};
use crate::world::World;

/// How many members.
const MEMBERS: usize = 64;
/// How long a blackout lasts, in seconds.
const LENGTHS: [u64; 3] = [3, 8, 30];
/// Shares of loss around it.
const LOSSES: [f64; 2] = [0.0, 0.1];

pub(super) const SCENARIO: Scenario = Scenario {
    name: "blackout",
    story: "nothing passes between 64 members for 3, 8 and 30 s, at 0 and 10 % loss: nobody dies",
    play,
};

fn play(stage: &mut Stage) -> Result<(), String> {
    for loss in LOSSES {
        stage.full_on(MEMBERS, Link::LAN.losing(loss));
        let since = stage.world.now();
        for length in LENGTHS {
            let rule = stage.world.lay(Rule {
                from: Hosts::All,
                to: Hosts::All,
                carried: Carried::Everything,
                effect: Effect::Lose(1.0),
            });
            stage.world.run_for(seconds(length));
            stage.world.lift(rule);
            let what = format!("loss {} %, {length} s: all alive after", loss * 100.0);
            stage.within(&what, seconds(10), World::all_alive)?;
            stage.world.run_for(seconds(30));
            stage.nobody_else_dies(since, &[])?;
        }
    }
    Ok(())
}
