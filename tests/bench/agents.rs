//! A cluster of real agents on this machine, measured from outside: joining, detection, restarts,
//! leaves, changes of metadata, idle cost.
//!
//! `cargo bench --bench agents` (release build). It starts `--nodes` agents on loopback (20 unless
//! told otherwise: `cargo bench --bench agents -- --nodes 100 --kills 5 --changes 40 --idle 30`) and
//! prints each figure beside Serf's, measured on the same class of machine (2 cores; Serf of Debian
//! 0.9.4, memberlist 0.2.2, profile lan, 20 and 100 agents; medians of three runs or more).
//!
//! With several sizes it compares the time that a death takes in each, with `--profile lan` (the
//! default), `local` or `wan`: `-- --nodes 5,20,50,100,200 --kills 10 --profile local`.

#[path = "../support/agent.rs"]
#[allow(dead_code, reason = "shared with the tests, which use more of it")]
mod agent;
#[path = "agents/cluster.rs"]
mod cluster;
#[path = "agents/comparison.rs"]
mod comparison;
#[path = "agents/report.rs"]
mod report;
#[path = "agents/usage.rs"]
mod usage;

use std::time::Duration;

use cluster::Cluster;
use comparison::Comparison;
use report::{Report, median};

/// What to run.
struct Plan {
    /// Sizes of clusters: one is measured in every way, several are compared.
    sizes: Vec<usize>,
    profile: String,
    kills: usize,
    changes: usize,
    idle: Duration,
}

impl Plan {
    /// From the command line; unknown words (cargo passes `--bench`) are ignored.
    fn from_args() -> Self {
        let args: Vec<String> = std::env::args().collect();
        let value = |flag: &str| {
            let place = args.iter().position(|arg| arg == flag)?;
            args.get(place + 1).map(String::as_str)
        };
        let parsed = |flag: &str, text: &str| -> usize {
            text.parse().unwrap_or_else(|_| panic!("{flag} {text}?"))
        };
        let number = |flag: &str, default| value(flag).map_or(default, |text| parsed(flag, text));
        let sizes = value("--nodes").unwrap_or("20").split(',');
        Plan {
            sizes: sizes.map(|size| parsed("--nodes", size).max(3)).collect(),
            profile: value("--profile").unwrap_or("lan").to_owned(),
            kills: number("--kills", 5).max(1),
            changes: number("--changes", 40).max(1),
            idle: Duration::from_secs(number("--idle", 30).max(1) as u64),
        }
    }
}

fn main() {
    let plan = Plan::from_args();
    match plan.sizes[..] {
        [nodes] => measure_one(&plan, nodes),
        _ => Comparison {
            sizes: plan.sizes,
            kills: plan.kills,
            profile: plan.profile,
            idle: plan.idle,
        }
        .run(),
    }
}

/// Everything about a cluster of one size.
fn measure_one(plan: &Plan, nodes: usize) {
    let mut report = Report::new(nodes);
    let mut joins = Vec::new();
    let mut cluster = None;
    for _ in 0..3 {
        // The cluster of the last round is the one that is measured further.
        drop(cluster.take());
        let (started, join) = Cluster::start(nodes, &plan.profile);
        joins.push(join);
        cluster = Some(started);
    }
    let Some(mut cluster) = cluster else { return };
    report.row(
        "join: all see all, after the last start",
        median(&joins),
        "s",
        ["0.41", "1.92"],
    );
    measure_changes(&mut cluster, plan, &mut report);
    measure_idle(&cluster, plan, &mut report);
    report.print();
}

/// How long it takes until all tables show what has happened to one member.
fn measure_changes(cluster: &mut Cluster, plan: &Plan, report: &mut Report) {
    // Settled members, killed at different points of their periods.
    let age = |kill| Duration::from_millis(10_000 + 370 * kill as u64);
    let deaths: Vec<f64> = (0..plan.kills)
        .map(|kill| cluster.kill_one(age(kill)))
        .collect();
    let reference = ["6.76", "10.0"];
    report.row(
        "kill -9: dead in all tables",
        median(&deaths),
        "s",
        reference,
    );
    report.spread("kill -9: least and most", &deaths);
    let restarts: Vec<f64> = (0..plan.kills).map(|_| cluster.restart_one()).collect();
    report.row(
        "restart at once: new generation in all tables",
        median(&restarts),
        "s",
        ["0.48", "0.5"],
    );
    report.spread("restart at once: least and most", &restarts);
    let leaves: Vec<f64> = (0..plan.kills).map(|_| cluster.leave_one()).collect();
    report.row(
        "leave: left in all tables",
        median(&leaves),
        "s",
        ["-", "0.8"],
    );
    report.spread("leave: least and most", &leaves);
    let changes: Vec<f64> = (0..plan.changes).map(|n| cluster.tag_one(n)).collect();
    report.row(
        "tag change: in all tables, median",
        median(&changes),
        "s",
        ["0.39", "0.66"],
    );
    let worst = changes.iter().copied().fold(0.0, f64::max);
    let what = format!("tag change: in all tables, worst of {}", changes.len());
    report.row(&what, worst, "s", ["12.8", "12.8"]);
}

/// What it costs when nothing happens.
fn measure_idle(cluster: &Cluster, plan: &Plan, report: &mut Report) {
    let idle = cluster.idle(plan.idle);
    let cpu = idle.cpu_ms_per_second;
    report.row("idle CPU per agent", cpu, "ms/s", ["2.2", "2.2"]);
    report.row(
        "idle resident memory per agent",
        idle.resident_mib,
        "MiB",
        ["14.5", "15.1"],
    );
    report.row(
        "idle UDP sent per agent, with headers",
        idle.udp_bytes_per_second,
        "B/s",
        ["268", "269"],
    );
    report.row(
        "idle TCP sent per agent, payload",
        idle.tcp_bytes_per_second,
        "B/s",
        ["65", "65"],
    );
}
