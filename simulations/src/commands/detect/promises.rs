//! What no run of our own core may show.

use std::time::Duration;

use super::cell::Cell;
use crate::compare::contender::Profile;
use crate::compare::measure::Protocol;
use crate::fit::Sample;

/// Crashes from which on their mean must keep its bound.
const MEAN_FROM: usize = 100;
/// Crashes from which on their 99.9th percentile must keep its bound.
const TAIL_FROM: usize = 1000;
/// Members from which on the bounds of mean and tail do not depend on their number.
const MANY: usize = 20;
/// Highest loss, and how long after the tolerance the first verdict comes: mean and 99.9th
/// percentile, in probe periods.
const VERDICTS: [(f64, f64, f64); 2] = [(0.1, 0.62, 1.2), (0.3, 0.75, 2.0)];

/// Every promise that is not kept.
pub fn broken(cell: &Cell) -> Vec<String> {
    let periods = match (cell.what.protocol, cell.what.profile) {
        // Each round of questions takes a good part of a period.
        (Protocol::Rumord, Profile::Wan) => 3,
        (Protocol::Rumord, _) => 2,
        // A member may wait long for its first ping.
        (Protocol::RoundRobin, _) => 10,
        // Their figures are the result, whatever they are.
        _ => return Vec::new(),
    };
    let mut broken = Vec::new();
    let known = cell.times(|crash| crash.known);
    let missed = cell.crashes() - known.len();
    if missed > 0 {
        broken.push(format!("{missed} crashes were not known everywhere"));
    }
    let deaths = cell.quality(|finding| &finding.deaths);
    if deaths.mistakes() > 0 {
        let count = deaths.mistakes();
        broken.push(format!("{count} times a healthy member was declared dead"));
    }
    let config = cell.what.profile.config();
    let (latest, bound) = (
        known.quantile(1.0),
        config.pause_tolerance + periods * config.probe_period,
    );
    if cell.what.loss == 0.0 && latest > bound.as_secs_f64() {
        broken.push(format!("a crash was known only after {latest:.3} s"));
    }
    let fast = cell.what.profile != Profile::Wan && cell.what.burst.is_none();
    if cell.what.protocol == Protocol::Rumord && fast {
        let declared = cell.times(|crash| crash.declared);
        let (tolerance, period) = (config.pause_tolerance, config.probe_period);
        broken.extend(late(cell, &declared, tolerance, period));
    }
    let place = format!("{} members, {}", cell.what.nodes, cell.loss());
    let placed = |what: String| format!("{place}: {what}");
    broken.into_iter().map(placed).collect()
}

/// Whether first verdicts come later than promised.
fn late(cell: &Cell, declared: &Sample, tolerance: Duration, period: Duration) -> Vec<String> {
    let bound = VERDICTS.iter().find(|(loss, ..)| cell.what.loss <= *loss);
    let Some((_, mean, tail)) = bound.filter(|_| cell.what.nodes >= MANY) else {
        return Vec::new();
    };
    let checks = [
        ("mean", MEAN_FROM, declared.mean(), mean),
        ("p99.9", TAIL_FROM, declared.quantile(0.999), tail),
    ];
    let check = |(what, from, seen, bound): (&str, usize, f64, &f64)| {
        let bound = (tolerance + period.mul_f64(*bound)).as_secs_f64();
        let late = declared.len() >= from && seen > bound;
        late.then(|| format!("first verdict {what} {seen:.3} s, above {bound:.3} s"))
    };
    checks.into_iter().filter_map(check).collect()
}
