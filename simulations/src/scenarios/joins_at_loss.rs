//! Members join one after the other while the network loses: SWIM's experiment (Das, Gupta and
//! Motivala, DSN 2002, section 5.3), in which 12 of 17 stayed at 10 % loss.

use std::time::Duration;

use super::Scenario;
use super::stage::{Stage, seconds};
use crate::link::Link;
use crate::world::{Checking, OnViolation, Options, Start, World};

/// Members that come together.
const MEMBERS: usize = 17;
/// Time from one join to the next.
const BETWEEN: Duration = Duration::from_secs(2);
/// How long they are watched then.
const AFTERWARDS: Duration = Duration::from_secs(600);
/// Shares of loss.
const LOSSES: [f64; 2] = [0.1, 0.3];

pub(super) const SCENARIO: Scenario = Scenario {
    name: "joins-at-loss",
    story: "17 members join one after the other at 10 % and at 30 % loss: all 17 stay",
    play,
};

fn play(stage: &mut Stage) -> Result<(), String> {
    for loss in LOSSES {
        stage.world = World::new(Options {
            link: Link::LAN.losing(loss),
            checking: Checking::Everything,
            on_violation: OnViolation::Keep,
            ..Options::seeded(stage.seed())
        });
        let first = stage.world.start(Start::named("n1"));
        let door = stage.world.address(first);
        for number in 2..=MEMBERS {
            stage.world.run_for(BETWEEN);
            let name = format!("n{number}");
            stage.world.start(Start::named(&name).joining([door]));
        }
        let percent = loss * 100.0;
        let what = format!("loss {percent} %: all 17 alive after the last");
        stage.within(&what, seconds(10), |world| {
            world.up().count() == MEMBERS && world.all_alive()
        })?;
        stage.world.run_for(AFTERWARDS);
        let violation = stage.world.violations().first();
        if let Some(violation) = violation {
            return Err(violation.to_string());
        }
        stage.nobody_else_dies(rumord::time::Instant::ORIGIN, &[])?;
        let what = format!("loss {percent} %: all alive in the end");
        stage.within(&what, seconds(5), World::all_alive)?;
    }
    Ok(())
}
