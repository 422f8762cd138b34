//! What an operator says of a node while it runs, and how the others see it.

use std::process::{Command, Output};
use std::thread;

use serde_json::{Value, json};

use crate::agent::{Agent, count, member};

/// Two agents that see each other.
fn two() -> [Agent; 2] {
    let first = Agent::start("n1", &["--tag", "zone=a"]);
    let second = Agent::start("n2", &["--join", &first.gossip]);
    for agent in [&first, &second] {
        agent.wait_for("two alive", |table| count(table, "alive") == 2);
    }
    [first, second]
}

/// Runs a client command against `agent`.
fn rumord(agent: &Agent, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_rumord"));
    command.args(arguments).args(["--http", &agent.http]);
    command.output().expect("the program runs")
}

/// What a client command that must succeed prints.
fn done(agent: &Agent, arguments: &[&str]) -> String {
    let output = rumord(agent, arguments);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {stderr}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn tags_and_services_change_on_all_nodes_and_filters_follow() {
    let [first, second] = two();
    assert_eq!(
        done(&first, &["tags", "set", "rack=1", "canary="]),
        "this node has 3 tags\n"
    );
    assert_eq!(
        done(&first, &["tags", "unset", "zone", "absent"]),
        "this node has 2 tags\n"
    );
    let add = ["service", "add", "web", "--port", "8080", "--tag", "v=1"];
    assert_eq!(done(&first, &add), "service web on port 8080 added\n");
    let again = ["service", "add", "web", "--port", "8081"];
    assert_eq!(done(&first, &again), "service web on port 8081 replaced\n");
    let services = json!([{"name": "web", "port": 8081, "tags": {}}]);
    for agent in [&first, &second] {
        let table = agent.wait_for("the services of n1", |table| {
            member(table, "n1")["services"] == services
        });
        let tags = &member(&table, "n1")["tags"];
        assert_eq!(*tags, json!({"canary": "", "rack": "1"}));
        for filter in [
            ["--tag", "rack=1"],
            ["--tag", "canary"],
            ["--service", "WEB"],
        ] {
            let listed = done(
                agent,
                &[&["members", "--format", "json"], &filter[..]].concat(),
            );
            let listed: Value = serde_json::from_str(&listed).expect("JSON");
            let names = listed["members"].as_array().expect("a list").iter();
            assert_eq!(
                names.map(|member| &member["name"]).collect::<Vec<_>>(),
                ["n1"]
            );
        }
    }
    assert_eq!(
        done(&first, &["service", "remove", "web"]),
        "service web removed\n"
    );
    second.wait_for("no service", |table| {
        member(table, "n1")["services"] == json!([])
    });
    let absent = rumord(&first, &["service", "remove", "web"]);
    assert_eq!(absent.status.code(), Some(1));
    let stderr = String::from_utf8_lossy(&absent.stderr);
    assert!(stderr.contains("no service web"), "{stderr}");
}

/// Read, change and write by several at once: each only over what it has read.
#[test]
fn concurrent_changes_of_different_tags_lose_none() {
    let [first, second] = two();
    thread::scope(|scope| {
        for n in 0..8 {
            let first = &first;
            scope.spawn(move || done(first, &["tags", "set", &format!("k{n}=v{n}")]));
        }
    });
    second.wait_for("all nine tags", |table| {
        let tags = member(table, "n1")["tags"].as_object();
        tags.is_some_and(|tags| tags.len() == 9)
    });
}

#[test]
fn a_maintenance_shows_on_all_nodes_until_it_is_ended() {
    let [first, second] = two();
    let on = ["maintenance", "on", "--for", "1h", "--reason", "new kernel"];
    assert!(done(&first, &on).starts_with("maintenance until 20"));
    for agent in [&first, &second] {
        agent.wait_for("a maintenance", |table| {
            member(table, "n1")["maintenance"]["reason"] == "new kernel"
        });
    }
    assert_eq!(done(&first, &["maintenance", "off"]), "maintenance ended\n");
    second.wait_for("its end", |table| {
        member(table, "n1")["maintenance"].is_null()
    });
    let long = rumord(&first, &["maintenance", "on", "--for", "2days"]);
    assert_eq!(long.status.code(), Some(1));
    let stderr = String::from_utf8_lossy(&long.stderr);
    assert!(stderr.contains("at most 24 h"), "{stderr}");
}

/// A maintenance that is over is not shown, though nobody has said anything.
#[test]
fn a_maintenance_ends_by_itself() {
    let [first, second] = two();
    done(&first, &["maintenance", "on", "--for", "2s"]);
    second.wait_for("a maintenance", |table| {
        member(table, "n1")["maintenance"].is_object()
    });
    let fingerprint = |agent: &Agent| agent.members(0).expect("it serves")["fingerprint"].clone();
    let before = fingerprint(&second);
    for agent in [&first, &second] {
        agent.wait_for("its end", |table| {
            member(table, "n1")["maintenance"].is_null()
        });
        assert_eq!(fingerprint(agent), before, "its end changes no table");
    }
}

/// 64 KiB of tags, as much as a member may have, and one byte more.
#[test]
fn as_many_tags_as_there_may_be_are_shown_by_all() {
    let first = Agent::start("n1", &[]);
    let join = ["--join", first.gossip.as_str()];
    let others = ["n2", "n3", "n4"].map(|name| Agent::start(name, &join));
    for agent in &others {
        agent.wait_for("four alive", |table| count(table, "alive") == 4);
    }
    let value = "v".repeat(64 * 1024 - 3 - 3);
    assert_eq!(
        done(&others[0], &["tags", "set", &format!("big={value}")]),
        "this node has 1 tag\n"
    );
    let late = Agent::start("n5", &join);
    for agent in others.iter().chain([&first, &late]) {
        agent.wait_for("the tag of n2", |table| {
            member(table, "n2")["tags"]["big"] == value
        });
    }
    // The next small one passes by it.
    done(&others[0], &["service", "add", "web", "--port", "80"]);
    done(&others[1], &["tags", "set", "zone=a"]);
    for agent in others.iter().chain([&first, &late]) {
        agent.wait_for("both", |table| {
            member(table, "n2")["services"][0]["name"] == "web"
                && member(table, "n3")["tags"]["zone"] == "a"
        });
    }
    let more = rumord(&others[0], &["tags", "set", "one=more"]);
    assert_eq!(more.status.code(), Some(1));
    let stderr = String::from_utf8_lossy(&more.stderr);
    assert!(stderr.contains("at most 65536 fit"), "{stderr}");
}
