//! Three minutes in which nothing happens but what the network does: cost and mistakes.

use std::time::Duration;

use crate::compare::measure::{Figure, Measure, Stage, Values};
use crate::compare::swim;

/// How long it is measured.
const LENGTH: Duration = Duration::from_secs(180);
/// IP and UDP headers of one datagram.
pub const HEADER_BYTES: f64 = 28.0;

/// What members send, and whom they hold for dead.
pub const MEASURE: Measure = Measure {
    word: "quiet",
    figures: &[
        Figure::count("3 minutes, healthy ones held dead"),
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
    vec![
        Some(stage.held_dead(start, &[])),
        Some(stage.forced_rejoins() - rejoins),
        Some(rate(datagrams)),
        Some(rate(bytes)),
    ]
}

fn formula(_: usize, loss: f64) -> Values {
    let datagrams = swim::datagrams_per_second(loss);
    let bytes = datagrams * (HEADER_BYTES + swim::MESSAGE_BYTES);
    vec![None, None, Some(datagrams), Some(bytes)]
}
