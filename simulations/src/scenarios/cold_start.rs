//! The power comes back: everybody starts within a second, and nobody knows who is up yet.

use std::net::SocketAddr;
use std::time::Duration;

use super::Scenario;
use super::large::{MEMBERS, apart, percent, until_equal, world};
use super::stage::{Stage, seconds};
use crate::world::Start;

/// How much later the next starts.
const GAP: Duration = Duration::from_millis(1);
/// Join addresses of each, its own among them or not.
const ADDRESSES: usize = 3;
/// All tables are equal this long after the last has started.
const EQUAL_LATEST: Duration = Duration::from_secs(5);

pub(super) const SCENARIO: Scenario = Scenario {
    name: "cold-start",
    story: "1000 members start within 1 s, each with other addresses: one cluster 5 s later",
    play,
};

fn play(stage: &mut Stage) -> Result<(), String> {
    for loss in [0.0, 0.1] {
        stage.world = world(stage.seed(), loss);
        for number in 0..MEMBERS {
            let address = address(number);
            let others = (1..=ADDRESSES).map(|n| self::address(number * 7 + n * 331 + 1));
            let start = Start {
                address: Some(address),
                ..Start::named(&format!("n{number}"))
            };
            stage.world.start(start.joining(others));
            stage.world.run_for(GAP);
        }
        let equal = until_equal(&mut stage.world, seconds(60));
        let equal = equal.ok_or_else(|| apart(&stage.world))?;
        let what = format!("one cluster after, {}", percent(loss));
        stage.tell(&what, format!("{:.2} s", equal.as_secs_f64()));
        stage.tell_exchanges();
        if equal > EQUAL_LATEST {
            return Err(format!("{what}: {equal:?}, more than {EQUAL_LATEST:?}"));
        }
    }
    Ok(())
}

fn address(number: usize) -> SocketAddr {
    let [high, low] = ((number % MEMBERS) as u16).to_be_bytes();
    ([10, 200, high, low], 7480).into()
}
