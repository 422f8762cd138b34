//! Events of clients in a cluster of agents: once everywhere, over restarts, to slow readers too.

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::{Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::agent::{Agent, BOUND, count, poll};
use crate::stores::{Dir, head};

/// The events of clients in the whole log.
pub fn user_events(agent: &Agent) -> Vec<Value> {
    let (mut all, mut after) = (Vec::new(), 0);
    loop {
        let path = format!("/v1/events?limit=1000&kind=user&after={after}");
        let body = agent.get(&path).expect("it serves").body;
        let page: Value = serde_json::from_str(&body).expect("JSON");
        let events = page["events"].as_array().expect("a list").clone();
        if events.is_empty() {
            return all;
        }
        all.extend(events);
        after = page["next"].as_u64().expect("a number");
    }
}

/// What the events say, in the order of the log.
fn payloads(agent: &Agent) -> Vec<String> {
    let events = user_events(agent);
    let said = |event: &Value| event["payload"].as_str().expect("text").to_owned();
    events.iter().map(said).collect()
}

/// Sends an event without a key.
fn publish(agent: &Agent, payload: &str) -> Value {
    let body = json!({ "name": "deploy", "payload": payload }).to_string();
    let answer = agent.post("/v1/events", &body).expect("it serves");
    assert_eq!(answer.status, 201, "{}", answer.body);
    serde_json::from_str(&answer.body).expect("JSON")
}

/// Agents that have joined the first one.
fn cluster(number: usize) -> Vec<Agent> {
    let mut agents = vec![Agent::start("n1", &["--profile", "local"])];
    for n in 2..=number {
        let join = agents[0].gossip.clone();
        let arguments = ["--profile", "local", "--join", &join];
        agents.push(Agent::start(&format!("n{n}"), &arguments));
    }
    for agent in &agents {
        agent.wait_for("all alive", |table| count(table, "alive") == number as u64);
    }
    agents
}

#[test]
fn an_event_is_once_on_every_node_and_its_sender_knows() {
    let agents = cluster(3);
    let [first, second, third] = &agents[..] else {
        unreachable!("there are three")
    };
    for n in 0..10 {
        publish(first, &n.to_string());
    }
    let large = "x".repeat(65_536);
    let last = publish(first, &large);
    let wanted: Vec<String> = (0..10).map(|n| n.to_string()).chain([large]).collect();
    for agent in [second, third] {
        let all = poll("all events", || {
            let all = payloads(agent);
            (all.len() >= wanted.len()).then_some(all)
        });
        assert!(all == wanted, "in the order of their sender");
    }
    let path = format!("/v1/events/{}", last["id"]);
    let one = poll("acknowledged by all", || {
        let one: Value = serde_json::from_str(&first.get(&path)?.body).ok()?;
        (one["complete"] == true).then_some(one)
    });
    assert_eq!(one["delivered"], json!(["n1", "n2", "n3"]));
    assert_eq!(one["owed"], json!([]));
    let there = user_events(second).pop().expect("it is there");
    assert_eq!(there["uid"], last["uid"]);
    let path = format!("/v1/events/{}", there["id"]);
    let elsewhere = second.get(&path).expect("it serves").body;
    assert!(
        !elsewhere.contains("\"delivered\""),
        "only its sender knows"
    );
}

/// hashicorp/serf#465, #692, AgentWorkforce/relay#1607: a node that restarted got old events again.
#[test]
fn a_restart_brings_no_old_event_again_and_what_was_missed_once() {
    let dir = Dir::new();
    let data = dir.data("n2");
    let first = Agent::start("n1", &["--profile", "local"]);
    let start = |bind: &str| {
        let gossip = first.gossip.as_str();
        let line = [
            "--profile",
            "local",
            "--join",
            gossip,
            "--data-dir",
            &data,
            "--bind",
            bind,
        ];
        Agent::start("n2", &line)
    };
    let mut second = start("127.0.0.1:0");
    second.wait_for("two alive", |table| count(table, "alive") == 2);
    for n in 0..20 {
        publish(&first, &n.to_string());
    }
    poll("all events", || {
        (payloads(&second).len() == 20).then_some(())
    });
    let bind = second.gossip.clone();
    second.kill();
    for n in 20..25 {
        publish(&first, &n.to_string());
    }
    let second = start(&bind);
    let wanted: Vec<String> = (0..25).map(|n| n.to_string()).collect();
    let after = poll("what it missed", || {
        let all = payloads(&second);
        (all.len() >= 25).then_some(all)
    });
    assert_eq!(after, wanted, "each once, in order");
    // Nothing comes late: the next event is the next one.
    publish(&first, "25");
    let all = poll("the next", || {
        let all = payloads(&second);
        all.contains(&"25".to_owned()).then_some(all)
    });
    assert_eq!(all.len(), 26);
}

/// hashicorp/serf#369, psviderski/uncloud PR#291, moby#5456: a stream that nobody read held up
/// everything, or took all memory.
#[test]
fn a_stream_that_is_not_read_for_a_while_goes_on_without_a_gap_or_says_so() {
    let agent = Agent::start("n1", &[]);
    let from = head(&agent);
    let mut stream = TcpStream::connect(&agent.http).expect("it serves");
    let request = format!(
        "GET /v1/events?after={from} HTTP/1.1\r\nHost: {}\r\nAccept: text/event-stream\r\n\r\n",
        agent.http
    );
    stream.write_all(request.as_bytes()).expect("sent");
    // It does not read while much more comes than the log holds.
    let load = agent.command(&["bench", "charge", "--seconds", "3", "--connections", "16"]);
    assert!(load.status.success(), "{}", text(&load.stderr));
    let end = publish(&agent, "end")["id"].as_u64().expect("a number");
    assert_eq!(agent.get("/livez").expect("it serves").status, 200);
    let resident = resident_kib(agent.pid());
    assert!(resident < 256 * 1024, "{resident} KiB");
    stream.set_read_timeout(Some(BOUND)).expect("set");
    let (mut seen, mut resets, mut line) = (from, 0, Vec::new());
    let mut bytes = vec![0; 65_536];
    while seen < end {
        let count = stream.read(&mut bytes).expect("it goes on");
        assert!(count > 0, "ended at {seen} of {end}");
        for &byte in &bytes[..count] {
            if byte != b'\n' {
                line.push(byte);
                continue;
            }
            let said = text(&line);
            line.clear();
            if said == "event: reset" {
                resets += 1;
            } else if let Some(id) = said.strip_prefix("id: ") {
                let id: u64 = id.trim().parse().expect("a number");
                // A reset names the id before the next event.
                let jumps = id > seen + 1;
                assert!(id >= seen, "{id} after {seen}");
                resets -= i32::from(jumps);
                seen = id;
            }
        }
    }
    assert_eq!(resets, 0, "every gap is told, and nothing else");
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn resident_kib(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("it runs");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let number = line.and_then(|line| line.split_whitespace().next());
    number.expect("Linux").parse().expect("a number")
}

/// tendermint/tendermint#2600, prometheus/prometheus#496, aws/amazon-vpc-cni-k8s#112: names of
/// peers, events or errors became labels, and the series grew without a limit.
#[test]
fn what_clients_choose_makes_no_series() {
    let agent = Agent::start("n1", &[]);
    publish(&agent, "warm");
    let series = || {
        let metrics = agent.get("/metrics").expect("it serves").body;
        let names = metrics.lines().filter(|line| !line.starts_with('#'));
        names
            .filter_map(|line| Some(line.rsplit_once(' ')?.0.to_owned()))
            .collect::<BTreeSet<_>>()
    };
    let before = series();
    for n in 0..300 {
        let body = json!({ "name": format!("event-{n}") }).to_string();
        agent.post_once("/v1/events", &body, &format!("key-{n}"));
        agent.post(&format!("/v1/none-{n}"), "{}");
        agent.get(&format!("/v1/members/member-{n}?wrong-{n}=1"));
        agent.send_datagram(format!("garbage {n}").as_bytes());
    }
    let after = series();
    let fresh: Vec<_> = after.symmetric_difference(&before).collect();
    assert!(fresh.is_empty(), "{fresh:?}");
    let metrics = agent.get("/metrics").expect("it serves").body;
    assert!(
        !metrics.contains("event-") && !metrics.contains("key-7"),
        "{metrics}"
    );
}

#[test]
fn the_command_sends_shows_and_repeats() {
    let agent = Agent::start("n1", &[]);
    let sent = agent.command(&["event", "deploy", "v1", "--key", "release,7"]);
    let line = text(&sent.stdout);
    assert!(sent.status.success(), "{}", text(&sent.stderr));
    assert!(
        line.starts_with("deploy is event ") && !line.contains("before"),
        "{line}"
    );
    let again = agent.command(&["event", "deploy", "v1", "--key", "release,7"]);
    assert_eq!(
        text(&again.stdout),
        format!("{}, sent before\n", line.trim_end())
    );
    let other = agent.command(&["event", "deploy", "v2", "--key", "release,7"]);
    assert_eq!(other.status.code(), Some(1));
    assert!(
        text(&other.stderr).contains("another request"),
        "{}",
        text(&other.stderr)
    );
    let most = [
        "event",
        "tick",
        "--delivery",
        "at-most-once",
        "--format",
        "json",
    ];
    let answer: Value = serde_json::from_slice(&agent.command(&most).stdout).expect("JSON");
    assert_eq!(answer["sequence"], 1);
    let piped = piped(&agent, &[0, 159, 146, 150]);
    assert!(piped.status.success(), "{}", text(&piped.stderr));
    let events = user_events(&agent);
    assert_eq!(events.len(), 3);
    assert_eq!(events[1]["delivery"], "at-most-once");
    assert_eq!(events[2]["payload_base64"], "AJ+Slg==");
    let wrong = agent.command(&["event", ""]);
    assert_eq!(wrong.status.code(), Some(1));
    assert!(
        text(&wrong.stderr).contains("cannot be empty"),
        "{}",
        text(&wrong.stderr)
    );
}

/// `rumord event bin -`, with these bytes at its stdin.
fn piped(agent: &Agent, payload: &[u8]) -> Output {
    let mut child = Command::new(env!("CARGO_BIN_EXE_rumord"))
        .args(["event", "bin", "-", "--http", &agent.http])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it starts");
    let mut stdin = child.stdin.take().expect("it is piped");
    stdin.write_all(payload).expect("it reads");
    drop(stdin);
    child.wait_with_output().expect("it ends")
}

/// A restart of the sender does not lose what the others have not got yet.
#[test]
fn what_was_answered_is_told_after_a_crash() {
    let dir = Dir::new();
    let data = dir.data("n1");
    let mut first = Agent::start("n1", &["--profile", "local", "--data-dir", &data]);
    let bind = first.gossip.clone();
    for n in 0..5 {
        publish(&first, &n.to_string());
    }
    // Nobody else was there.
    first.kill();
    let line = ["--profile", "local", "--data-dir", &data, "--bind", &bind];
    let first = Agent::start("n1", &line);
    assert_eq!(payloads(&first), ["0", "1", "2", "3", "4"]);
    let began = Instant::now();
    while began.elapsed() < Duration::from_millis(300) {
        assert_eq!(payloads(&first).len(), 5, "none is doubled");
        thread::sleep(Duration::from_millis(50));
    }
    let again = publish(&first, "5");
    assert_eq!(again["sequence"], 1, "a new life counts anew");
}
