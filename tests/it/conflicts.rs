//! Two agents of one name: what each of them says, and how it ends.

use std::fs;

use serde_json::Value;

use crate::agent::{Agent, count, member, poll};

fn own(agent: &Agent) -> Value {
    let answer = agent.get("/v1/self").expect("it serves");
    serde_json::from_str(&answer.body).expect("JSON")
}

/// Waits until `agent` shows the conflict with the one at `other`.
fn wait_for_conflict(agent: &Agent, other: &Agent) -> Value {
    poll("the conflict is shown", || {
        let shown = own(agent)["conflict"].clone();
        (shown["other_address"] == other.gossip.as_str()).then_some(shown)
    })
}

fn assert_names_both(text: &str, one: &Agent, other: &Agent) {
    for agent in [one, other] {
        assert!(text.contains(&agent.gossip), "{} in {text}", agent.gossip);
    }
}

/// docker-archive/classicswarm#1114, weaveworks/weave#2767: a machine was cloned with its identity.
/// The copy is the later start; the original says what has happened, and comes back when an
/// operator has stopped the copy.
#[test]
fn of_two_agents_with_one_data_directory_the_earlier_falls_silent() {
    let directory = std::env::temp_dir().join(format!("rumord-it-copy-{}", std::process::id()));
    let path = |name: &str| directory.join(name);
    let text = |name: &str| path(name).to_str().expect("UTF-8").to_owned();
    let other = Agent::start("n2", &[]);
    let join = ["--join", other.gossip.as_str()];
    let start = |data: &str| Agent::start("n1", &[&join[..], &["--data-dir", data]].concat());
    let original = start(&text("a"));
    other.wait_for("two alive", |table| count(table, "alive") == 2);
    fs::create_dir_all(path("b")).expect("a directory");
    for file in fs::read_dir(path("a")).expect("it is there") {
        let file = file.expect("readable");
        fs::copy(file.path(), path("b").join(file.file_name())).expect("copied");
    }
    let mut copy = start(&text("b"));
    other.wait_for("the copy", |table| {
        member(table, "n1")["address"] == copy.gossip.as_str()
    });
    assert_eq!(wait_for_conflict(&original, &copy)["silent"], true);
    assert_eq!(wait_for_conflict(&copy, &original)["silent"], false);
    let readiness = original.wait_for_status("/readyz", 503);
    assert_names_both(&readiness.body, &original, &copy);
    assert!(readiness.body.contains("data-dir"), "{}", readiness.body);
    let verbose = copy.get("/readyz?verbose").expect("it serves");
    assert_eq!(verbose.status, 200, "{}", verbose.body);
    assert_names_both(&verbose.body, &original, &copy);
    assert_eq!(own(&original)["readiness"], "conflict");
    copy.kill();
    other.wait_for("n1 dead", |table| count(table, "dead") == 1);
    let joined = original.command(&["join", &other.gossip]);
    assert!(joined.status.success(), "{joined:?}");
    original.wait_for_status("/readyz", 200);
    let table = other.wait_for("two alive", |table| count(table, "alive") == 2);
    assert_eq!(member(&table, "n1")["address"], original.gossip.as_str());
    drop(original);
    fs::remove_dir_all(&directory).expect("removed");
}

/// grafana/agent#3919, grafana/ckit PR#17: a name conflict at the join hung the node.
#[test]
fn a_taken_name_is_reported_by_both_and_the_join_ends() {
    let first = Agent::start("n1", &[]);
    let intruder = Agent::start("N1", &["--join", &first.gossip]);
    assert_eq!(wait_for_conflict(&intruder, &first)["silent"], true);
    assert_eq!(wait_for_conflict(&first, &intruder)["silent"], false);
    let readiness = intruder.wait_for_status("/readyz", 503);
    assert_names_both(&readiness.body, &first, &intruder);
    let joined = intruder.command(&["join", &first.gossip]);
    assert_eq!(joined.status.code(), Some(1), "{joined:?}");
    let said = String::from_utf8_lossy(&joined.stderr).into_owned()
        + &String::from_utf8_lossy(&joined.stdout);
    assert!(said.contains("holds this name"), "{said}");
    assert_names_both(&said, &first, &intruder);
    assert_eq!(first.get("/readyz").expect("it serves").status, 200);
    let conflicts = first.metric("rumord_events_total", &["kind=\"conflict\""]);
    assert_eq!(conflicts, 1.0, "once a minute at most");
}
