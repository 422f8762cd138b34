//! Networks that let some through and not others.

use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::cluster::{all_alive, cluster, nobody_dies};
use crate::host::{Host, status};
use crate::lab::v4;

/// For how long the fault lasts: several times what a death takes.
const FAULT: Duration = Duration::from_secs(40);
/// A turn of both peers, and the time a stream is waited for.
const SHOWN_WITHIN: Duration = Duration::from_secs(150);

/// hashicorp/consul#5928: one broken direction between two members is no death of either.
pub fn one_deaf_direction_between_two_kills_nobody() {
    let lab = cluster(5);
    lab.hosts[0].filter(&format!("ip saddr {} drop", v4(2)));
    thread::sleep(FAULT);
    nobody_dies(&lab);
    lab.hosts[0].mend();
    nobody_dies(&lab);
}

/// hashicorp/consul#5928, #5567, #6289: a node that sends and hears nothing declared the others
/// dead, and all of them flapped.
pub fn of_a_deaf_node_only_that_node_is_seen_dead() {
    let lab = cluster(8);
    let (deaf, others) = lab.hosts.split_last().expect("eight");
    deaf.filter("iifname \"eth0\" drop");
    thread::sleep(FAULT);
    for host in others {
        let table = host.table();
        for number in 1..8 {
            assert_eq!(status(&table, &format!("n{number}")), "alive", "{table:#}");
        }
        assert!(host.events("member-dead") <= 1, "only n8 may be");
    }
    deaf.mend();
    all_alive(&lab);
    for host in others {
        assert!(host.events("member-dead") <= 1, "only n8 ever was");
    }
}

/// hashicorp/serf#498: with TCP blocked, members looked alive for hours and nothing said that
/// tables could no longer be exchanged.
pub fn blocked_streams_show_and_kill_nobody() {
    let lab = cluster(3);
    for (host, other) in [(0, 2), (1, 1)] {
        let rules = format!("ip saddr {} meta l4proto tcp drop", v4(other));
        lab.hosts[host].filter(&rules);
    }
    let shown =
        |host: &Host| -> Value { serde_json::from_str(&host.get("/v1/self").body).expect("JSON") };
    let failed = |host: &Host| shown(host)["counters"]["streams_failed"].as_u64();
    let before: Vec<_> = lab.hosts[..2].iter().map(failed).collect();
    let blocked = Instant::now();
    // Each asks its two peers over a stream in turn, one a minute.
    while lab
        .hosts
        .iter()
        .zip(&before)
        .any(|(host, before)| failed(host) <= *before)
    {
        assert!(blocked.elapsed() < SHOWN_WITHIN, "nothing shows");
        thread::sleep(Duration::from_secs(1));
    }
    println!(
        "blocked streams: shown by both after {:.0?}",
        blocked.elapsed()
    );
    nobody_dies(&lab);
    for host in &lab.hosts {
        let answered = shown(host)["stream_answered"].clone();
        assert!(answered.is_string(), "the third answers all: {answered}");
    }
    // The one that was not cut off has nothing to complain of.
    assert_eq!(failed(&lab.hosts[2]), Some(0));
}
