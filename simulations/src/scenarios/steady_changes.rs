//! A hundred changes a second: they share datagrams, and all arrive.

use std::time::Duration;

use rumord::protocol::{Config, Direction, Transport};

use super::Scenario;
use super::large::{MEMBERS, apart, full, percent, until_equal};
use super::stage::{Stage, seconds};

/// How long it goes on, and how much later the next change is made.
const LENGTH: Duration = Duration::from_secs(10);
const GAP: Duration = Duration::from_millis(10);
/// All tables are equal this long after the last.
const EQUAL_LATEST: Duration = Duration::from_secs(3);
/// Pings, acks and exchanges, beside what the budget of the push allows.
const OTHER_BYTES_PER_SECOND: f64 = 8_000.0;

pub(super) const SCENARIO: Scenario = Scenario {
    name: "steady-changes",
    story: "100 changes a second among 1000 members: within the byte budget, and all arrive",
    play,
};

fn play(stage: &mut Stage) -> Result<(), String> {
    for loss in [0.0, 0.1] {
        let nodes = full(stage, loss);
        let before = sent(stage);
        let changes = (LENGTH.as_nanos() / GAP.as_nanos()) as usize;
        let mut watches = Vec::new();
        for n in 0..changes {
            let accuser = nodes[(n * 37 + 5) % MEMBERS];
            watches.extend(stage.world.accuse(accuser, nodes[(n * 7) % MEMBERS]));
            stage.world.run_for(GAP);
        }
        let bytes = (sent(stage) - before) as f64 / LENGTH.as_secs_f64() / MEMBERS as f64;
        let equal = until_equal(&mut stage.world, seconds(30));
        let equal = equal.ok_or_else(|| apart(&stage.world))?;
        let mut known: Vec<Duration> = watches
            .iter()
            .filter_map(|&watch| stage.world.known_after(watch))
            .collect();
        let loss = percent(loss);
        if known.len() < changes {
            return Err(format!(
                "{loss}: {} of {changes} changes arrived",
                known.len()
            ));
        }
        known.sort();
        let ms = |length: Duration| length.as_secs_f64() * 1000.0;
        let (median, worst) = (known[changes / 2], known[changes - 1]);
        let text = format!("{:.0} ms, worst {:.0} ms", ms(median), ms(worst));
        stage.tell(&format!("known to all after, {loss}"), text);
        stage.tell("bytes sent by each per second", format!("{bytes:.0}"));
        let what = format!("all tables equal after the last, {loss}");
        stage.tell(&what, format!("{:.2} s", equal.as_secs_f64()));
        stage.tell_exchanges();
        let budget = f64::from(Config::lan().push_rate) + OTHER_BYTES_PER_SECOND;
        let burst = f64::from(Config::lan().push_burst) / LENGTH.as_secs_f64();
        if bytes > budget + burst {
            return Err(format!("{bytes:.0} bytes a second, more than {budget:.0}"));
        }
        if equal > EQUAL_LATEST {
            return Err(format!("{what}: {equal:?}, more than {EQUAL_LATEST:?}"));
        }
    }
    Ok(())
}

/// Bytes of datagrams that all have sent so far.
fn sent(stage: &Stage) -> u64 {
    let key = (Direction::Sent, Transport::Datagram);
    stage.world.total(|stats| stats.bytes.get(key))
}
