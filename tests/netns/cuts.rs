//! Networks that are cut in two, and healed.

use std::thread;
use std::time::{Duration, Instant};

use crate::agent::count;
use crate::cluster::{all_alive, cluster};
use crate::host::status;
use crate::lab::{on_all, v4};

/// Within this, all are alive in all tables again.
const HEALED_WITHIN: Duration = Duration::from_secs(2);

/// Cuts ten hosts into halves for `length`; each half must hold the other dead, nobody of its own,
/// and all must be alive everywhere soon after the healing.
fn cut_in_halves(length: Duration) {
    let lab = cluster(10);
    let (left, right) = lab.hosts.split_at(5);
    let list = |numbers: std::ops::RangeInclusive<usize>| {
        let addresses: Vec<_> = numbers.map(|number| v4(number).to_string()).collect();
        format!("ip saddr {{ {} }} drop", addresses.join(", "))
    };
    let (from_left, from_right) = (list(1..=5), list(6..=10));
    let cut = Instant::now();
    on_all(left, |host| host.filter(&from_right));
    on_all(right, |host| host.filter(&from_left));
    for (half, others) in [(left, 6..=10), (right, 1..=5)] {
        on_all(half, |host| {
            host.wait_for("the other half dead", |table| {
                others
                    .clone()
                    .all(|number| status(table, &format!("n{number}")) == "dead")
                    && count(table, "alive") == 5
            })
        });
    }
    let dead_after = cut.elapsed();
    thread::sleep(length.saturating_sub(cut.elapsed()));
    let deaths = lab.on_all(|host| host.events("member-dead"));
    assert_eq!(
        deaths, [5; 10],
        "the other half, once each, and nobody else"
    );
    lab.on_all(|host| host.mend());
    let healing = Instant::now();
    all_alive(&lab);
    let healed_after = healing.elapsed();
    println!(
        "cut for {length:?}: all of the other half dead after {dead_after:.2?}, \
         all alive {healed_after:.2?} after the healing"
    );
    // Long enough for verdicts that came back over the healed cut to show.
    thread::sleep(Duration::from_secs(8));
    all_alive(&lab);
    let deaths = lab.on_all(|host| host.events("member-dead"));
    assert_eq!(deaths, [5; 10], "only the other half was ever dead");
    assert!(healed_after <= HEALED_WITHIN, "{healed_after:?}");
}

/// caio/foca#15, uber-node/ringpop-node#42: the halves never found each other again.
pub fn halves_that_held_each_other_dead_for_30_s_heal() {
    cut_in_halves(Duration::from_secs(30));
}

/// antrea-io/antrea#4491: nor after a cut that outlasts every retry.
pub fn halves_that_held_each_other_dead_for_120_s_heal() {
    cut_in_halves(Duration::from_secs(120));
}
