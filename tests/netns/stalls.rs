//! Agents that stand still, networks that lose a third of all packets, and who dies in them.

use std::thread;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::agent::count;
use crate::cluster::{cluster, nobody_dies};
use crate::host::{Host, status};
use crate::lab::Lab;

const AGENTS: usize = 20;
/// Pauses of each length.
const PAUSES: usize = 6;
/// Between two pauses, of different agents.
const BETWEEN: Duration = Duration::from_secs(3);
/// For how long the lossy network is watched.
const LOSSY: Duration = Duration::from_secs(60);
/// Most suspicions of all agents together in that time.
const SUSPICIONS_MAX: f64 = 10.0;
/// Within this an agent that was killed under loss is dead in every table.
const DEAD_WITHIN: Duration = Duration::from_secs(9);

/// Suspicions that all agents raised.
fn suspicions(lab: &Lab) -> f64 {
    let raised = |host: &Host| {
        host.ask(|agent| agent.metric("rumord_suspicions_total", &["outcome=\"raised\""]))
    };
    lab.hosts
        .iter()
        .filter(|host| host.runs())
        .map(raised)
        .sum()
}

/// hashicorp/consul#1212, #916: a process that stood still for a few seconds
/// was declared dead.
pub fn pauses_of_two_and_of_four_and_a_half_seconds_kill_nobody() {
    let lab = cluster(AGENTS);
    for length in [Duration::from_secs(2), Duration::from_millis(4500)] {
        for pause in 0..PAUSES {
            let host = &lab.hosts[(pause * 7 + 3) % AGENTS];
            host.ask(|agent| agent.signal(Signal::STOP));
            thread::sleep(length);
            host.ask(|agent| agent.signal(Signal::CONT));
            thread::sleep(BETWEEN);
        }
        let dead: u64 = lab
            .hosts
            .iter()
            .map(|host| host.events("member-dead"))
            .sum();
        assert_eq!(dead, 0, "after pauses of {length:?}");
    }
    println!("{} suspicions in twelve pauses", suspicions(&lab));
    nobody_dies(&lab);
}

/// hashicorp/memberlist#145: under packet loss members went up and down for as long as it lasted.
pub fn a_third_of_all_packets_lost_kills_nobody_and_hides_no_death() {
    let mut lab = cluster(AGENTS);
    let lossy = "iifname \"eth0\" meta l4proto { udp, tcp } numgen random mod 100 < 30 drop";
    lab.on_all(|host| host.filter(lossy));
    let begun = Instant::now();
    thread::sleep(LOSSY);
    let raised = suspicions(&lab);
    println!(
        "{raised} suspicions in {:.0?} of 30 % loss",
        begun.elapsed()
    );
    let dead: Vec<u64> = lab.on_all(|host| host.events("member-dead"));
    assert_eq!(dead, [0; AGENTS], "deaths");
    assert!(raised < SUSPICIONS_MAX, "{raised} suspicions");
    let killed = Instant::now();
    lab.hosts[AGENTS - 1].kill();
    let name = format!("n{AGENTS}");
    let longest = lab.on_all(|host| {
        if host.runs() {
            host.wait_for("the death", |table| status(table, &name) == "dead");
        }
        killed.elapsed()
    });
    let longest = longest.into_iter().max().expect("several");
    println!("killed under 30 % loss: dead in every table after {longest:.2?}");
    assert!(longest <= DEAD_WITHIN, "{longest:?}");
    let alive = |host: &Host| count(&host.table(), "alive");
    let living = lab.hosts[..AGENTS - 1].iter().map(alive);
    assert_eq!(living.collect::<Vec<_>>(), [AGENTS as u64 - 1; AGENTS - 1]);
}
