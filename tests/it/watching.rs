//! The event log from outside: what a restart, a leave and a return look like, and `rumord watch`.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::agent::{Agent, BOUND, count, member};
use crate::stores::{Dir, events, head, kinds};

/// weaveworks/mesh#13, akkadotnet/akka.net#2419: a quick restart was an update, or two events.
#[test]
fn a_quick_restart_is_one_event_and_the_tags_of_the_old_life_are_gone() {
    let dir = Dir::new();
    let data = dir.data("n2");
    let first = Agent::start("n1", &["--tag", "zone=a"]);
    let third = Agent::start("n3", &["--join", &first.gossip]);
    let with = |tag: &'static str, bind: &str| {
        let join = first.gossip.as_str();
        let line = [
            "--data-dir",
            &data,
            "--join",
            join,
            "--tag",
            tag,
            "--bind",
            bind,
        ];
        Agent::start("n2", &line)
    };
    let mut second = with("old=1", "127.0.0.1:0");
    for agent in [&first, &third] {
        agent.wait_for("three alive", |table| count(table, "alive") == 3);
    }
    let (bind, before) = (second.gossip.clone(), [head(&first), head(&third)]);
    let generation = generation(&first);
    second.kill();
    let second = with("new=1", &bind);
    second.wait_for("three alive", |table| count(table, "alive") == 3);
    for (agent, before) in [&first, &third].into_iter().zip(before) {
        let table = agent.wait_for("the new life", |table| {
            member(table, "n2")["tags"] == serde_json::json!({"new": "1"})
        });
        assert_eq!(member(&table, "n2")["status"], "alive");
        assert_eq!(kinds(agent, before, "n2"), ["member-restarted"]);
        let all = events(agent, before);
        let event = all.iter().find(|event| event["member"] == "n2");
        assert!(event.expect("just seen")["generation"].as_u64() > generation);
    }
}

fn generation(agent: &Agent) -> Option<u64> {
    let table = agent.members(0)?;
    member(&table, "n2")["generation"].as_u64()
}

/// hashicorp/consul#22245: a node that left and came back was failed and left again in between.
#[test]
fn a_return_after_a_leave_is_one_join_and_nothing_else() {
    let first = Agent::start("n1", &["--profile", "local"]);
    let join = ["--profile", "local", "--join", first.gossip.as_str()];
    let mut second = Agent::start("n2", &join);
    first.wait_for("two alive", |table| count(table, "alive") == 2);
    let bind = second.gossip.clone();
    second.post("/v1/leave", "").expect("it serves");
    second.wait_for_end();
    first.wait_for("one left", |table| count(table, "left") == 1);
    let before = head(&first);
    let second = Agent::start("n2", &[&join[..], &["--bind", &bind]].concat());
    second.wait_for("two alive", |table| count(table, "alive") == 2);
    first.wait_for("two alive", |table| count(table, "alive") == 2);
    // Longer than a verdict on the old life would take.
    let start = Instant::now();
    while start.elapsed() < Duration::from_secs(6) {
        assert_eq!(kinds(&first, before, "n2"), ["member-up"]);
        thread::sleep(Duration::from_millis(100));
    }
}

/// `rumord watch`, and the lines that it prints.
struct Watch {
    child: Child,
    lines: Receiver<String>,
}

impl Watch {
    fn start(http: &str, arguments: &[&str]) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_rumord"))
            .args(["watch", "--http", http])
            .args(arguments)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("it starts");
        let stdout = child.stdout.take().expect("it is piped");
        let (sender, lines) = channel();
        thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    return;
                }
            }
        });
        Watch { child, lines }
    }

    /// The next line that `wanted` accepts.
    fn until(&self, what: &str, wanted: impl Fn(&str) -> bool) -> String {
        let end = Instant::now() + BOUND;
        while let Ok(line) = self
            .lines
            .recv_timeout(end.saturating_duration_since(Instant::now()))
        {
            if wanted(&line) {
                return line;
            }
        }
        panic!("never printed: {what}");
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn watch_follows_over_a_restart_of_the_agent_and_shows_the_reset() {
    let dir = Dir::new();
    let data = dir.data("n1");
    let mut first = Agent::start("n1", &["--data-dir", &data]);
    let (http, gossip) = (first.http.clone(), first.gossip.clone());
    let _second = Agent::start("n2", &["--join", &gossip]);
    first.wait_for("two alive", |table| count(table, "alive") == 2);
    let text = Watch::start(&http, &["--after", "0"]);
    text.until("the past", |line| {
        line.contains("member-up") && line.contains(" n2 ")
    });
    let json = Watch::start(&http, &["--after", "0", "--format", "json"]);
    json.until("the past as JSON", |line| line.contains("\"member-up\""));
    first.kill();
    let line = ["--data-dir", &data, "--bind", &gossip, "--http", &http];
    let _first = Agent::start("n1", &line);
    text.until("the reset", |line| line.starts_with("-- reset (gap)"));
    text.until("the present", |line| {
        line.contains(" n2 ") && line.contains("member-up")
    });
    let line = json.until("the reset as JSON", |line| line.contains("\"reset\""));
    let reset: Value = serde_json::from_str(&line).expect("JSON");
    assert_eq!(reset["reason"], "gap");
}
