//! Three minutes in which nothing happens but what the network does: cost and mistakes.

use std::time::Duration;

use crate::compare::measure::{Figure, Measure, Stage, Values};
use crate::compare::swim;
use crate::detect::mistakes::Mistakes;

/// How long it is measured.
const LENGTH: Duration = Duration::from_secs(180);
/// IP and UDP headers of one datagram.
pub const HEADER_BYTES: f64 = 28.0;

/// What members send, and whom they hold for dead.
pub const MEASURE: Measure = Measure {
    word: "quiet",
    figures: &[
        Figure::count("3 minutes, healthy ones held dead"),
        Figure::seconds("T_MR, suspicions of one member"),
        Figure::seconds("T_M, suspicions"),
        Figure::share("1 - P_A, suspicions"),
        Figure::seconds("T_MR, deaths of one member"),
        Figure::seconds("T_M, deaths"),
        Figure::share("1 - P_A, deaths"),
        Figure::count("3 minutes, forced to rejoin"),
        Figure::rate("datagrams per member and second"),
        Figure::rate("bytes per member and second"),
    ],
    take,
    formula,
};

fn take(stage: &mut Stage) -> Values {
    let start = stage.contender.now();
    let (sent, rejoins) = (stage.contender.sent(), stage.forced_rejoins());
    stage.contender.run_for(LENGTH);
    let now = stage.contender.sent();
    let members = stage.members.len() as f64;
    let rate = |count: f64| count / LENGTH.as_secs_f64() / members;
    let datagrams = (now.datagrams - sent.datagrams) as f64;
    let bytes = (now.bytes - sent.bytes) as f64 + HEADER_BYTES * datagrams;
    let mut values = vec![Some(stage.held_dead(start, &[]))];
    for mistakes in stage.mistakes(start) {
        values.extend(quality(&mistakes, members));
    }
    values.extend([
        Some(stage.forced_rejoins() - rejoins),
        Some(rate(datagrams)),
        Some(rate(bytes)),
    ]);
    values
}

/// Chen's T_MR, T_M and what P_A lacks to 1; nothing recurs or lasts that never was.
fn quality(mistakes: &Mistakes, members: f64) -> [Option<f64>; 3] {
    let count = mistakes.lengths.len() as f64;
    let member_seconds = members * LENGTH.as_secs_f64();
    let lasted: f64 = mistakes.lengths.iter().sum();
    let some = |value: f64| (count > 0.0).then_some(value);
    let error = mistakes.pair_seconds / (member_seconds * (members - 1.0));
    [
        some(member_seconds / count),
        some(lasted / count),
        Some(error),
    ]
}

fn formula(_: usize, loss: f64) -> Values {
    let datagrams = swim::datagrams_per_second(loss);
    let bytes = datagrams * (HEADER_BYTES + swim::MESSAGE_BYTES);
    // Section 3.1: one in so many probes of a member that runs fails, and there is one per period.
    let recurrence = 3600.0 / swim::suspicions_per_hour(loss);
    let mut values = vec![None; 8];
    values[1] = recurrence.is_finite().then_some(recurrence);
    values.extend([Some(datagrams), Some(bytes)]);
    values
}
