//! What an operator sees who removes a member for good.

use std::process::{Command, Output};

use rustix::process::Signal;
use serde_json::Value;

use crate::agent::{Agent, count, member};

/// Three agents that see each other.
fn three() -> [Agent; 3] {
    let first = Agent::start("n1", &[]);
    let join = ["--join", first.gossip.as_str()];
    let [second, third] = ["n2", "n3"].map(|name| Agent::start(name, &join));
    let agents = [first, second, third];
    for agent in &agents {
        agent.wait_for("three alive", |table| count(table, "alive") == 3);
    }
    agents
}

/// Runs `rumord forget` against `agent`.
fn forget(agent: &Agent, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_rumord"));
    command.arg("forget").args(arguments);
    command.args(["--http", &agent.http]);
    command.output().expect("the program runs")
}

/// What it prints when it succeeds.
fn done(agent: &Agent, arguments: &[&str]) -> String {
    let output = forget(agent, arguments);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {stderr}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Its one line of stderr when it fails with code 1.
fn refused(agent: &Agent, arguments: &[&str]) -> String {
    let output = forget(agent, arguments);
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    assert_eq!(stderr.trim_end().lines().count(), 1, "{stderr}");
    stderr
}

fn is_dead(table: &Value) -> bool {
    member(table, "n3")["status"] == "dead"
}

fn is_listed(table: &Value) -> bool {
    !member(table, "n3").is_null()
}

fn events(agent: &Agent, kind: &str) -> f64 {
    agent.metric("rumord_events_total", &[&format!("kind=\"{kind}\"")])
}

/// grafana/mimir#3340, loki#14847: the page still showed the member when another replica answered,
/// and a second press of the button was a cryptic error.
#[test]
fn a_dead_member_is_gone_from_every_table_and_a_repeat_is_no_error() {
    let [first, second, mut third] = three();
    third.kill();
    for agent in [&first, &second] {
        agent.wait_for("n3 dead", is_dead);
    }
    let all = "n3 is forgotten; 2 of 2 alive members know\n";
    assert_eq!(done(&first, &["n3", "--wait"]), all);
    for agent in [&first, &second] {
        let table = agent.members(0).expect("it serves");
        assert!(!is_listed(&table), "{table:#}");
        assert_eq!(done(agent, &["N3", "--wait"]).to_lowercase(), all);
        assert_eq!(events(agent, "member-forgotten"), 1.0);
    }
    let third = Agent::start("n3", &["--join", &first.gossip]);
    for agent in [&first, &second, &third] {
        agent.wait_for("n3 back", |table| count(table, "alive") == 3);
    }
}

/// hashicorp/serf PR#504 (#500): removing a name that does not exist was a success, also with a
/// letter in the wrong place.
#[test]
fn an_unknown_name_and_the_node_itself_are_errors_that_change_nothing() {
    let first = Agent::start("n1", &[]);
    let index = |agent: &Agent| agent.members(0).expect("it serves")["index"].clone();
    let before = index(&first);
    for name in ["nosuch", "n-1", "no such", "../self", ""] {
        let stderr = refused(&first, &[name]);
        assert!(
            stderr.contains("no member") || stderr.contains("no route"),
            "{stderr}"
        );
    }
    let stderr = refused(&first, &["n1"]);
    assert!(stderr.contains("rumord leave"), "{stderr}");
    assert_eq!(index(&first), before);
}

/// redis/redis#1410, hashicorp/serf#359, consul#13379: removing a running node said ok, and left
/// it "leaving" on some nodes for days, or it came back after a minute.
#[test]
fn a_running_member_is_asked_stays_and_the_repeat_says_so() {
    let agents = three();
    let [first, second, _] = &agents;
    let asked = done(first, &["n3"]);
    assert!(
        asked.starts_with("n3 may be running and is asked"),
        "{asked}"
    );
    let stderr = refused(first, &["n3", "--wait"]);
    assert!(stderr.contains("n3 runs: it answered"), "{stderr}");
    let stderr = refused(second, &["n3", "--wait"]);
    assert!(stderr.contains("n3 runs: it answered"), "{stderr}");
    for agent in &agents {
        let table = agent.members(0).expect("it serves");
        assert_eq!(count(&table, "alive"), 3, "{table:#}");
        assert_eq!(events(agent, "member-forgotten"), 0.0);
    }
}

/// valkey-io/valkey PR#4090: a node that was removed while it stood still was never told, and went
/// on as if it were a member.
#[test]
fn who_was_removed_while_it_stood_still_says_so_and_comes_back_by_joining() {
    let dir = std::env::temp_dir().join(format!("rumord-forgotten-{}", std::process::id()));
    let data = dir.to_str().expect("UTF-8");
    let first = Agent::start("n1", &[]);
    let second = Agent::start("n2", &["--join", &first.gossip]);
    let arguments = ["--join", &first.gossip, "--data-dir", data];
    let mut third = Agent::start("n3", &arguments);
    let before = third.wait_for("three alive", |table| count(table, "alive") == 3);
    let life = |table: &Value| member(table, "n3")["generation"].as_u64();
    third.signal(Signal::STOP);
    for agent in [&first, &second] {
        agent.wait_for("n3 dead", is_dead);
    }
    done(&first, &["n3", "--wait"]);
    third.signal(Signal::CONT);
    let answer = third.wait_for_status("/readyz?verbose", 503);
    for words in ["[-]membership", "removed from the cluster", "rumord join"] {
        assert!(answer.body.contains(words), "{}", answer.body);
    }
    let own: Value =
        serde_json::from_str(&third.get("/v1/self").expect("it serves").body).expect("JSON");
    assert_eq!(own["readiness"], "forgotten");
    for agent in [&first, &second] {
        assert!(!is_listed(&agent.members(0).expect("it serves")));
    }
    let body = format!("{{\"addresses\": [\"{}\"]}}", first.gossip);
    let joined = third.post("/v1/join", &body).expect("it serves");
    assert_eq!(joined.status, 200, "{}", joined.body);
    third.wait_for_status("/readyz", 200);
    for agent in [&first, &second, &third] {
        let table = agent.wait_for("three alive", |table| count(table, "alive") == 3);
        assert!(life(&table) > life(&before), "{table:#}");
    }
    let returned = life(&first.members(0).expect("it serves"));
    third.kill();
    let third = Agent::start("n3", &arguments);
    third.wait_for("a later life", |table| {
        count(table, "alive") == 3 && life(table) > returned
    });
    drop(third);
    std::fs::remove_dir_all(&dir).expect("it was made");
}
