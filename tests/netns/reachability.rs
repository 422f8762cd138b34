//! Paths that are broken between members that live: all name them, and nobody dies.

use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::cluster::{all_alive, cluster, nobody_dies};
use crate::host::Host;
use crate::lab::{Lab, v4};

/// Within this a broken path of datagrams is in the list of every agent, and a mended one in none.
const LISTED_WITHIN: Duration = Duration::from_secs(60);
/// The same for paths that are asked about in turn: one member a minute.
const LISTED_IN_TURN: Duration = Duration::from_secs(150);
/// Several times what a death takes.
const LONG: Duration = Duration::from_secs(30);

/// One pair: observer, subject, and the cause as a word.
pub type Pair = (&'static str, &'static str, &'static str);

/// The pairs that an agent lists.
fn listed(host: &Host) -> Vec<(String, String, String)> {
    let body: Value = serde_json::from_str(&host.get("/v1/reachability").body).expect("JSON");
    let pairs = body["pairs"].as_array().expect("a list");
    let word = |pair: &Value, key: &str| pair[key].as_str().expect("a word").to_owned();
    let pair = |pair| {
        (
            word(pair, "observer"),
            word(pair, "subject"),
            word(pair, "cause"),
        )
    };
    pairs.iter().map(pair).collect()
}

/// Waits until every agent lists exactly `expected`.
fn await_listed(lab: &Lab, within: Duration, expected: &[Pair]) {
    let expected: Vec<_> = expected
        .iter()
        .map(|&(one, other, cause)| (one.to_owned(), other.to_owned(), cause.to_owned()))
        .collect();
    let begun = Instant::now();
    loop {
        let all: Vec<_> = lab.hosts.iter().map(listed).collect();
        if all.iter().all(|listed| *listed == expected) {
            println!("all list {expected:?} after {:.1?}", begun.elapsed());
            return;
        }
        assert!(begun.elapsed() < within, "not {expected:?} but {all:#?}");
        thread::sleep(Duration::from_millis(200));
    }
}

/// Drops what arrives at host `at` from host `from`, as far as `what` says.
fn block(lab: &Lab, at: usize, from: usize, what: &str) {
    let rules = format!("ip saddr {} {what} drop", v4(from));
    lab.hosts[at - 1].filter(&rules);
}

/// hashicorp/memberlist#234, hashicorp/consul#2200: "UDP failed, TCP works" named no cause.
pub fn blocked_datagrams_are_named_and_mended() {
    let lab = cluster(5);
    block(&lab, 1, 2, "meta l4proto udp");
    block(&lab, 2, 1, "meta l4proto udp");
    let expected = [("n1", "n2", "udp-blocked"), ("n2", "n1", "udp-blocked")];
    await_listed(&lab, LISTED_WITHIN, &expected);
    let output = lab.hosts[4].client(&["reachability"]);
    let text = String::from_utf8_lossy(&output.stdout);
    println!("{text}");
    assert!(output.status.success(), "{output:?}");
    assert!(
        text.contains("UDP blocked: datagrams between n1 and n2"),
        "{text}"
    );
    let datagram = ["transport=\"datagram\""];
    let pairs = lab.hosts[2].ask(|agent| agent.metric("rumord_unreachable_pairs", &datagram));
    assert_eq!(pairs, 2.0);
    nobody_dies(&lab);
    lab.hosts[..2].iter().for_each(Host::mend);
    await_listed(&lab, LISTED_WITHIN, &[]);
    let output = lab.hosts[0].client(&["reachability"]);
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(
        text.starts_with("every member reaches every other"),
        "{text}"
    );
    nobody_dies(&lab);
}

/// hashicorp/consul#5928: half of a connection was missing, and nobody could say which half.
pub fn one_way_is_told_from_both() {
    let lab = cluster(5);
    block(&lab, 2, 1, "meta l4proto udp");
    let expected = [("n1", "n2", "one-way"), ("n2", "n1", "one-way")];
    await_listed(&lab, LISTED_WITHIN, &expected);
    let output = lab.hosts[3].client(&["reachability"]);
    let text = String::from_utf8_lossy(&output.stdout);
    println!("{text}");
    let broken = text.matches("look at the way from n1 to n2").count();
    assert_eq!(broken, 2, "{text}");
    nobody_dies(&lab);
}

/// hashicorp/serf#498: streams were blocked for hours, and nothing said so.
pub fn blocked_streams_are_named() {
    let lab = cluster(2);
    block(&lab, 1, 2, "meta l4proto tcp");
    let expected = [("n1", "n2", "tcp-blocked"), ("n2", "n1", "tcp-blocked")];
    await_listed(&lab, LISTED_IN_TURN, &expected);
    nobody_dies(&lab);
}

/// A link that loses what is longer than it takes: pings pass, tables and news do not.
pub fn a_smaller_mtu_is_named() {
    let mut lab = Lab::new(2);
    lab.hosts[1].filter("meta l4proto udp meta length > 1000 drop");
    let first = v4(1).to_string();
    lab.hosts[0].start("n1", &[]);
    lab.hosts[1].start("n2", &["--join", &first]);
    all_alive(&lab);
    let expected = [("n1", "n2", "mtu"), ("n2", "n1", "mtu")];
    await_listed(&lab, LISTED_IN_TURN, &expected);
    nobody_dies(&lab);
}

/// Where all datagrams are blocked, between all or to and from one, streams show who lives.
fn only_streams(hosts: usize) {
    let lab = cluster(hosts);
    let udp = "iifname \"eth0\" meta l4proto udp drop";
    lab.on_all(|host| host.filter(udp));
    thread::sleep(LONG);
    nobody_dies(&lab);
    lab.on_all(Host::mend);
    // Now only one does not hear.
    lab.hosts[1].filter(udp);
    thread::sleep(LONG);
    nobody_dies(&lab);
    lab.hosts[1].mend();
    let from_second = format!("ip saddr {} meta l4proto udp drop", v4(2));
    lab.on_all(|host| host.filter(&from_second));
    thread::sleep(LONG);
    nobody_dies(&lab);
}

/// An answer over a stream is a proof of life like any other.
pub fn where_only_streams_pass_three_live() {
    only_streams(3);
}

/// The same in a cluster in which not everybody asks everybody.
pub fn where_only_streams_pass_ten_live() {
    only_streams(10);
}
