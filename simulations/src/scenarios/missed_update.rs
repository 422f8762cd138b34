//! One update does not reach one member, and everything else is quiet.

use std::time::Duration;

use super::Scenario;
use super::large::{equal, full, percent, until_equal};
use super::stage::{Stage, seconds};
use crate::process::ProcessId;
use crate::rules::Carried;

/// How often one is missed by one, and how often it reaches nobody.
const MISSES: usize = 25;
/// Long enough for all copies of an update to be lost, and too short for a suspicion.
const DEAF: Duration = Duration::from_millis(300);
/// Half of the misses are repaired within the first, all within the second, without loss; with it
/// questions and answers are lost too.
const MEDIAN_LATEST: Duration = Duration::from_millis(600);
const ALL_LATEST: Duration = Duration::from_millis(1600);
const ALL_LATEST_LOSSY: Duration = Duration::from_millis(4000);

pub(super) const SCENARIO: Scenario = Scenario {
    name: "missed-update",
    story: "an update does not reach one of 1000 members, or reaches none: it is repaired soon",
    play,
};

fn play(stage: &mut Stage) -> Result<(), String> {
    for (loss, latest) in [(0.0, ALL_LATEST), (0.1, ALL_LATEST_LOSSY)] {
        let nodes = full(stage, loss);
        for (who, missing) in [("one lacks it", Missing::One), ("one has it", Missing::All)] {
            let before = counts(stage);
            let mut lengths = Vec::new();
            for n in 0..MISSES {
                let length = miss(stage, &nodes, n, missing);
                lengths.push(length.ok_or("not missed, or not repaired after 20 s")?);
            }
            lengths.sort();
            let (median, worst) = (lengths[MISSES / 2], lengths[MISSES - 1]);
            let what = format!("{who}, {}", percent(loss));
            let text = format!(
                "{:.2} s, worst {:.2} s",
                median.as_secs_f64(),
                worst.as_secs_f64()
            );
            stage.tell(&what, text);
            let after = counts(stage);
            let text = format!(
                "{:.1} ({:.1})",
                (after.0 - before.0) as f64 / MISSES as f64,
                (after.1 - before.1) as f64 / MISSES as f64
            );
            stage.tell("exchanges for each (needless)", text);
            if worst > latest || (median > MEDIAN_LATEST) {
                return Err(format!("{what}: median {median:?}, worst {worst:?}"));
            }
        }
    }
    Ok(())
}

/// Who does not get an update.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Missing {
    /// One.
    One,
    /// Everybody but its origin.
    All,
}

/// One update is missed; how long until all tables are equal again.
fn miss(stage: &mut Stage, nodes: &[ProcessId], n: usize, missing: Missing) -> Option<Duration> {
    let world = &mut stage.world;
    // Not at the same point of the periods each time.
    world.run_for(Duration::from_millis(2000 + 37 * n as u64));
    until_equal(world, seconds(20))?;
    let (subject, accuser) = (nodes[n * 13 + 1], nodes[n * 13 + 2]);
    let rule = match missing {
        Missing::One => {
            let rule = world.deafen(nodes[n * 13 + 3], Carried::Everything);
            world.accuse(accuser, subject)?;
            rule
        }
        Missing::All => {
            world.accuse(accuser, subject)?;
            world.mute(subject, Carried::Everything)
        }
    };
    world.run_for(DEAF);
    world.lift(rule);
    if equal(world) {
        return None;
    }
    until_equal(world, seconds(20))
}

/// Exchanges, and needless ones.
fn counts(stage: &Stage) -> (u64, u64) {
    let exchanges = stage.world.total(|stats| stats.exchanges);
    (
        exchanges,
        stage.world.total(|stats| stats.exchanges_needless),
    )
}
