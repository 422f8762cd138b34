//! How fast the simulation of an idle cluster is: node-periods per second of wall time.
//!
//! The one figure here that depends on the machine and its mood. The contenders take turns, on one
//! thread, so that both get the same of it.

use std::time::{Duration, Instant as WallInstant};

use super::contender::{Contender, Setting};
use super::{FocaWorld, RumordWorld};

/// Both protocols probe once in so long.
const PERIOD: Duration = Duration::from_secs(1);
/// Simulated before a stopwatch runs: all timers and buffers have their place.
const WARM_UP: Duration = Duration::from_secs(5);
/// Node-periods in one measurement, about.
const NODE_PERIODS: usize = 200_000;
/// Periods in one measurement, at least.
const PERIODS_MIN: usize = 30;

/// Node-periods per second of wall time, each turn's.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Speeds {
    /// Of our own core.
    pub rumord: Vec<f64>,
    /// Of foca.
    pub foca: Vec<f64>,
}

/// Lets both contenders simulate an idle cluster of `nodes` that know each other, `turns` times.
#[must_use]
pub fn speeds(nodes: usize, turns: usize, seed: u64) -> Speeds {
    let mut speeds = Speeds::default();
    for turn in 0..turns as u64 {
        let setting = Setting {
            keeping: false,
            ..Setting::lan(nodes, 0.0, seed + turn)
        };
        speeds.rumord.push(speed::<RumordWorld>(&setting));
        speeds.foca.push(speed::<FocaWorld>(&setting));
    }
    speeds
}

fn speed<C: Contender>(setting: &Setting) -> f64 {
    let mut contender = C::empty(setting);
    contender.start_full(setting.nodes);
    contender.run_for(WARM_UP);
    let periods = (NODE_PERIODS / setting.nodes.max(1)).max(PERIODS_MIN);
    let started = WallInstant::now();
    contender.run_for(PERIOD * periods as u32);
    let wall = started.elapsed().as_secs_f64();
    (periods * setting.nodes) as f64 / wall.max(f64::MIN_POSITIVE)
}
