//! Lifeguard's interval experiment in short: see [`crate::interval`].

use std::time::Duration;

use super::Scenario;
use super::stage::{Stage, milliseconds, seconds, tolerance};
use crate::compare::measure::Protocol;
use crate::interval::{Anomaly, Experiment, interval};

/// How many members.
const MEMBERS: usize = 128;
/// How many are slow, for how long, and how long they run in between; in milliseconds.
const COMBINATIONS: [(usize, u64, u64); 3] = [(4, 512, 64), (16, 2048, 64), (32, 8192, 4096)];
/// After the tolerance a crash is declared within this.
const VERDICT: Duration = Duration::from_millis(1200);

pub(super) const SCENARIO: Scenario = Scenario {
    name: "slow-node",
    story: "Lifeguard's experiment: some of 128 members are slow on and off: no other dies",
    play,
};

fn play(stage: &mut Stage) -> Result<(), String> {
    for anomaly in [Anomaly::Blocked, Anomaly::Pause] {
        for (slow, length, between) in COMBINATIONS {
            let mut broken = None;
            for protocol in [Protocol::Rumord, Protocol::Lifeguard] {
                let found = interval(&Experiment {
                    protocol,
                    anomaly,
                    nodes: MEMBERS,
                    slow,
                    length: milliseconds(length),
                    between: milliseconds(between),
                    lasting: seconds(60),
                    apart: false,
                    seed: stage.seed(),
                });
                let (name, word) = (protocol.word(), anomaly.as_str());
                let what = format!("{slow} {word} {length} ms, not {between} ms: {name}");
                let declared = found.declared;
                let after = declared.map_or("never".to_owned(), |after| format!("{after:.3} s"));
                let (wrong, healthy) = (found.wrong, found.held_healthy);
                let figure = format!("{wrong} wrong, {healthy} about others; crash: {after}");
                stage.tell(&what, figure);
                let bound = (tolerance() + VERDICT).as_secs_f64();
                if protocol == Protocol::Rumord && healthy > 0 {
                    broken = Some("a member that was never slow was held for dead".to_owned());
                } else if protocol == Protocol::Rumord && declared.is_none_or(|it| it > bound) {
                    broken = Some(format!("a crash was declared after {after}"));
                }
            }
            broken.map_or(Ok(()), Err)?;
        }
    }
    Ok(())
}
