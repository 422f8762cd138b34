//! One event among a thousand members, without loss and with it.

use super::Scenario;
use super::stage::Stage;
use crate::events::{Spread, Trial, spread};
use crate::fit::Sample;

/// Events at each loss.
const RUNS: u64 = 5;
/// Share of loss, the largest median in milliseconds, and the most members asked in the mean: with
/// one parent only for each acknowledgement it would be hundreds at 10 %.
const BOUNDS: [(f64, f64, f64); 3] = [(0.0, 100.0, 0.0), (0.1, 500.0, 60.0), (0.3, 2000.0, 300.0)];
/// Most bytes of each member, in the mean.
const BYTES_MAX: f64 = 10_000.0;

pub(super) const SCENARIO: Scenario = Scenario {
    name: "events-at-loss",
    story: "the sender of an event knows soon that all of 1000 members have it, at 0 to 30 % loss",
    play,
};

fn play(stage: &mut Stage) -> Result<(), String> {
    for (loss, latest, asked_max) in BOUNDS {
        let trial = |n: u64| Trial {
            nodes: 1000,
            loss,
            seed: stage.seed() + n,
        };
        let runs: Vec<Spread> = (0..RUNS).map(|n| spread(&trial(n))).collect();
        let percent = loss * 100.0;
        let times: Vec<f64> = runs.iter().filter_map(|run| run.milliseconds).collect();
        if times.len() < runs.len() {
            return Err(format!("{percent} %: not acknowledged by all"));
        }
        let mean = |of: fn(&Spread) -> f64| runs.iter().map(of).sum::<f64>() / RUNS as f64;
        let (asked, bytes) = (mean(|run| run.asked as f64), mean(|run| run.bytes_mean));
        let median = Sample::new(times).quantile(0.5);
        let text = format!("{median:.1} ms, {asked:.1} asked, {bytes:.0} bytes each");
        stage.tell(&format!("{percent} % loss"), text);
        if median > latest || asked > asked_max || bytes > BYTES_MAX {
            return Err(format!(
                "{percent} %: above {latest} ms or {asked_max} asked"
            ));
        }
    }
    Ok(())
}
