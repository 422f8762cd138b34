//! Every process stands still once a minute, for almost as long as it may.

use std::time::Duration;

use rand::RngExt;

use super::Scenario;
use super::stage::{Stage, milliseconds, seconds, tolerance};
use crate::link::Link;
use crate::world::World;

/// How many members.
const MEMBERS: usize = 128;
/// How long it goes on, in minutes.
const MINUTES: u32 = 5;
const MINUTE: Duration = Duration::from_secs(60);
/// Shares of loss.
const LOSSES: [f64; 2] = [0.0, 0.1];

pub(super) const SCENARIO: Scenario = Scenario {
    name: "long-pauses",
    story: "each of 128 members stands still for up to 4.95 s each minute, at 0 and 10 % loss",
    play,
};

fn play(stage: &mut Stage) -> Result<(), String> {
    let longest = tolerance() - milliseconds(50);
    for loss in LOSSES {
        let nodes = stage.full_on(MEMBERS, Link::LAN.losing(loss));
        let (mut rng, since) = (stage.rng(), stage.world.now());
        let mut pauses = Vec::new();
        for &node in &nodes {
            // Within the first 50 s of each minute: the next is more than 2 s away.
            for minute in 0..MINUTES {
                let begin = MINUTE * minute + seconds(50).mul_f64(rng.random::<f64>());
                // Every other one is as long as can be.
                let length = match rng.random_bool(0.5) {
                    true => longest,
                    false => longest.mul_f64(rng.random::<f64>()),
                };
                pauses.push((begin, node, length));
            }
        }
        pauses.sort();
        for (begin, node, length) in &pauses {
            let passed = stage.world.now().since(since);
            stage.world.run_for(begin.saturating_sub(passed));
            stage.world.pause(*node, *length);
        }
        stage.world.run_for(seconds(20));
        let percent = loss * 100.0;
        stage.tell(&format!("loss {percent} %: pauses"), pauses.len());
        stage.nobody_else_dies(since, &[])?;
        stage.within("all alive in the end", seconds(10), World::all_alive)?;
    }
    Ok(())
}
