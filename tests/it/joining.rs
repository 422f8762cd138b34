//! Joins that an operator asks for: every address is answered, in parallel and in bounded time.

use std::net::TcpListener;
use std::process::Command;
use std::time::{Duration, Instant};

use crate::agent::{Agent, count};

/// The join of an address that does not answer may take this long; three of them no longer.
const PATIENCE: Duration = Duration::from_secs(15);

/// `rumord join`: exit code, and the outcome printed for each address.
fn join(agent: &Agent, addresses: &[&str]) -> (Option<i32>, Vec<(String, String)>) {
    let output = Command::new(env!("CARGO_BIN_EXE_rumord"))
        .arg("join")
        .args(addresses)
        .env("RUMORD_HTTP", format!("http://{}", agent.http))
        .output()
        .expect("the program starts");
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let rows = said.lines().filter_map(|line| {
        let mut words = line.split_whitespace().map(str::to_owned);
        Some((words.next()?, words.next()?))
    });
    (output.status.code(), rows.collect())
}

/// hashicorp/consul#1711, hashicorp/memberlist#58, grafana/dskit#195: only the first address was
/// tried, or a failure of one was reported as the failure of all.
#[test]
fn one_that_refuses_and_one_that_is_silent_hide_no_third() {
    let good = Agent::start("n1", &[]);
    let agent = Agent::start("n2", &[]);
    let free = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let refusing = free.local_addr().expect("bound").to_string();
    drop(free);
    // The system accepts for it, and nobody ever answers.
    let silent = [(); 3].map(|()| TcpListener::bind("127.0.0.1:0").expect("a free port"));
    let silent = silent
        .each_ref()
        .map(|listener| listener.local_addr().expect("bound").to_string());
    let started = Instant::now();
    let all = [
        &refusing,
        &silent[0],
        &silent[1],
        &silent[2],
        &good.gossip,
        &refusing,
    ];
    let (code, rows) = join(&agent, &all.map(String::as_str));
    let took = started.elapsed();
    assert_eq!(code, Some(0), "{rows:?}");
    assert!(took < PATIENCE, "one after the other: {took:?}");
    let outcome = |address: &String| {
        let row = rows.iter().find(|(shown, _)| shown == address);
        row.map(|(_, outcome)| outcome.as_str())
    };
    assert_eq!(outcome(&good.gossip), Some("joined"));
    assert_eq!(outcome(&refusing), Some("unreachable"));
    for address in &silent {
        assert_eq!(outcome(address), Some("unreachable"));
    }
    assert_eq!(rows.len(), 5, "one row for each address: {rows:?}");
    agent.wait_for("both alive", |table| count(table, "alive") == 2);
}

/// The same reports: and when none answers, that is an error, with each reason.
#[test]
fn a_join_that_nobody_answers_fails_and_says_why() {
    let agent = Agent::start("n1", &[]);
    let free = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let refusing = free.local_addr().expect("bound").to_string();
    drop(free);
    let unfit = ["[::1]:7480", "_rumord._tcp.invalid:1"];
    let (code, rows) = join(&agent, &[&refusing, unfit[0], unfit[1]]);
    assert_eq!(code, Some(1), "{rows:?}");
    let outcomes: Vec<&str> = rows.iter().map(|(_, outcome)| outcome.as_str()).collect();
    assert_eq!(outcomes, ["unreachable", "unresolvable", "unresolvable"]);
}
