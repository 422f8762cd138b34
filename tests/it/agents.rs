//! Clusters of real agents: what an operator does to them, and what every table must then show.

use rustix::process::Signal;
use serde_json::Value;

use crate::agent::{Agent, count, member, poll};

/// Three agents, joined through the first, once all tables show three alive.
fn three() -> [Agent; 3] {
    let first = Agent::start("n1", &[]);
    let join = ["--join", first.gossip.as_str()];
    let agents = [Agent::start("n2", &join), Agent::start("n3", &join)];
    let [second, third] = agents;
    let agents = [first, second, third];
    for agent in &agents {
        agent.wait_for("three alive", |table| count(table, "alive") == 3);
    }
    agents
}

fn status(table: &Value, name: &str) -> String {
    member(table, name)["status"]
        .as_str()
        .unwrap_or("unknown")
        .to_owned()
}

fn generation(agent: &Agent, name: &str) -> u64 {
    let table = agent.members(0).expect("it serves");
    member(&table, name)["generation"]
        .as_u64()
        .expect("it is listed")
}

fn events(agent: &Agent, kind: &str) -> f64 {
    agent.metric("rumord_events_total", &[&format!("kind=\"{kind}\"")])
}

#[test]
fn a_killed_agent_is_suspected_then_dead_and_alive_again_after_a_restart() {
    let [first, second, mut third] = three();
    let before = generation(&first, "n3");
    third.kill();
    for agent in [&first, &second] {
        agent.wait_for("n3 suspect", |table| status(table, "n3") == "suspect");
    }
    for agent in [&first, &second] {
        agent.wait_for("n3 dead", |table| status(table, "n3") == "dead");
    }
    let third = Agent::start("n3", &["--join", &first.gossip]);
    for agent in [&first, &second, &third] {
        let table = agent.wait_for("three alive", |table| count(table, "alive") == 3);
        assert!(
            member(&table, "n3")["generation"].as_u64() > Some(before),
            "{table:#}"
        );
    }
    for agent in [&first, &second] {
        assert_eq!(events(agent, "member-dead"), 1.0, "only n3 ever was");
    }
}

/// hashicorp/consul#733, caio/foca#34, akkadotnet/akka.net#2419: a quick restart was a name conflict, or a death.
#[test]
fn a_restart_before_anybody_noticed_is_one_restart() {
    let [first, second, mut third] = three();
    let before = generation(&first, "n3");
    third.kill();
    let _third = Agent::start("n3", &["--join", &first.gossip]);
    for agent in [&first, &second] {
        agent.wait_for("a new life of n3", |table| {
            status(table, "n3") == "alive"
                && member(table, "n3")["generation"].as_u64() > Some(before)
        });
        assert_eq!(events(agent, "member-restarted"), 1.0);
        assert_eq!(events(agent, "member-dead"), 0.0);
    }
}

/// `rumord wait` ends when all agree, and names who does not when its time is over.
#[test]
fn agreement_is_waited_for_and_laggards_are_named() {
    // Ten seconds of patience with a member that stands still.
    let first = Agent::start("n1", &["--profile", "wan"]);
    let wan = ["--profile", "wan", "--join", &first.gossip];
    let [second, third] = ["n2", "n3"].map(|name| Agent::start(name, &wan));
    for agent in [&first, &second, &third] {
        let waited = agent.command(&["wait", "--alive", "3", "--converged", "--timeout", "60s"]);
        let said = String::from_utf8_lossy(&waited.stdout);
        assert!(
            waited.status.success() && said.starts_with("3 members agree on"),
            "{waited:?}"
        );
    }
    assert_eq!(first.metric("rumord_agreement_ratio", &[]), 1.0);
    let verbose = first.get("/readyz?verbose").expect("it serves").body;
    assert!(verbose.contains("[+]agreement 3 of 3"), "{verbose}");
    third.signal(Signal::STOP);
    // A newcomer changes the table; who stands still cannot have taken it over.
    let fourth = Agent::start("n4", &wan);
    first.wait_for("four alive", |table| count(table, "alive") == 4);
    let waited = fourth.command(&["wait", "--converged", "--timeout", "1s"]);
    let said = String::from_utf8_lossy(&waited.stderr);
    assert_eq!(waited.status.code(), Some(1), "{waited:?}");
    assert!(said.contains("n3"), "{said}");
    third.signal(Signal::CONT);
    let waited = fourth.command(&["wait", "--converged", "--timeout", "60s"]);
    assert!(waited.status.success(), "{waited:?}");
}

#[test]
fn sigterm_is_a_leave_that_all_know_and_the_exit_code_is_0() {
    let [first, second, mut third] = three();
    third.signal(Signal::TERM);
    assert!(third.wait_for_end().success());
    for agent in [&first, &second] {
        agent.wait_for("n3 left", |table| status(table, "n3") == "left");
        assert_eq!(events(agent, "member-suspect"), 0.0);
    }
}

#[test]
fn a_leave_over_http_says_how_many_know_and_ends_the_agent() {
    let [first, _second, mut third] = three();
    let answer = third.post("/v1/leave", "").expect("it serves");
    assert_eq!(answer.status, 202, "{}", answer.body);
    let report: Value = serde_json::from_str(&answer.body).expect("JSON");
    assert_eq!(
        (report["acknowledged"].as_u64(), report["expected"].as_u64()),
        (Some(2), Some(2))
    );
    assert!(third.wait_for_end().success());
    first.wait_for("n3 left", |table| status(table, "n3") == "left");
}

/// pathosDev/actor-ts#1452: an observer that stood still woke up and declared everybody dead.
#[test]
fn an_agent_stopped_for_two_seconds_is_not_dead_and_declares_nobody_dead() {
    let agents = three();
    let [first, second, third] = &agents;
    let beat =
        |agent: &Agent| member(&agent.members(0).expect("it serves"), "n3")["version"].as_u64();
    third.signal(Signal::STOP);
    let stopped = beat(first);
    // Two of the others' own probe periods pass, whatever the load of this machine.
    let periods = |agent: &Agent| agent.get("/v1/members/n1").map(|answer| answer.body);
    let version = |body: String| {
        let parsed: Value = serde_json::from_str(&body).ok()?;
        parsed["version"].as_u64()
    };
    let start = periods(first).and_then(version).expect("a version");
    poll("two periods", || {
        periods(first)
            .and_then(version)
            .filter(|now| *now >= start + 2)
    });
    third.signal(Signal::CONT);
    poll("n3 goes on", || {
        beat(first).filter(|now| Some(*now) > stopped)
    });
    for agent in [first, second, third] {
        agent.wait_for("three alive", |table| count(table, "alive") == 3);
        assert_eq!(events(agent, "member-dead"), 0.0);
    }
}

/// grafana/mimir#10866, hashicorp/consul#2461: ready before joined, or never looking again.
#[test]
fn an_unreachable_join_address_keeps_the_agent_unready_and_is_tried_until_it_answers() {
    let first = Agent::start("n1", &[]);
    let address = first.gossip.clone();
    let mut first = first;
    first.kill();
    let second = Agent::start("n2", &["--join", &address]);
    second.wait_for_status("/readyz", 503);
    second.wait_for_status("/livez", 200);
    let verbose = second.get("/readyz?verbose").expect("it serves");
    assert!(
        verbose.status == 503 && verbose.body.contains("[-]"),
        "{}",
        verbose.body
    );
    let first = Agent::start("n1", &["--bind", &address]);
    second.wait_for_status("/readyz", 200);
    for agent in [&first, &second] {
        agent.wait_for("two alive", |table| count(table, "alive") == 2);
    }
}

/// hashicorp/consul#2868: a join list that named only the node itself.
#[test]
fn an_agent_that_joins_itself_is_alone_and_ready() {
    let probe = Agent::start("n1", &[]);
    let address = probe.gossip.clone();
    drop(probe);
    let agent = Agent::start("n1", &["--bind", &address, "--join", &address]);
    agent.wait_for_status("/readyz", 200);
    agent.wait_for("itself alone", |table| count(table, "alive") == 1);
}

/// hashicorp/memberlist#241, grafana/agent PR#4988: clusters that merged, or refused with EOF.
#[test]
fn another_cluster_is_refused_and_says_so() {
    let ours = Agent::start("n1", &["--cluster", "a"]);
    let theirs = Agent::start("n2", &["--cluster", "b"]);
    let body = format!("{{\"addresses\":[\"{}\"]}}", ours.gossip);
    let answer = theirs.post("/v1/join", &body).expect("it serves");
    assert_eq!(answer.status, 502, "{}", answer.body);
    assert!(answer.body.contains("cluster"), "{}", answer.body);
    let joined = theirs.command(&["join", &ours.gossip]);
    let said = String::from_utf8_lossy(&joined.stderr).into_owned()
        + &String::from_utf8_lossy(&joined.stdout);
    assert_eq!(joined.status.code(), Some(1), "{joined:?}");
    assert!(said.contains("another cluster"), "{said}");
    for agent in [&ours, &theirs] {
        let table = agent.members(0).expect("it serves");
        assert_eq!(table["members"].as_array().map(Vec::len), Some(1));
    }
    poll("the refusal counted", || {
        (ours.metric("rumord_rejected_total", &["reason=\"cluster\""]) >= 1.0).then_some(())
    });
}

/// grafana/agent#3919: a name conflict at the join hung the node.
#[test]
fn a_second_agent_of_one_name_is_refused_and_the_first_untouched() {
    let [first, second, third] = three();
    let intruder = Agent::start("n3", &["--join", &first.gossip]);
    let readiness = intruder.wait_for_status("/readyz", 503);
    assert!(!readiness.body.is_empty());
    let body = format!("{{\"addresses\":[\"{}\"]}}", second.gossip);
    let answer = intruder.post("/v1/join", &body).expect("it serves");
    assert!(
        answer.status == 502 && answer.body.contains("holds this name"),
        "{}",
        answer.body
    );
    let table = third.members(0).expect("it serves");
    assert_eq!(count(&table, "alive"), 3);
    assert_eq!(generation(&first, "n3"), generation(&third, "n3"));
}

/// hashicorp/memberlist#236, grafana/pyroscope#2116: garbage, also during the start, crashed it.
#[test]
fn garbage_is_counted_and_changes_nothing() {
    let [first, second, _third] = three();
    let before = first.members(0).expect("it serves");
    let frame = [b"rM\x01\x00".as_slice(), &[0; 4], &[1]].concat();
    for length in 0..64 {
        first.send_datagram(&vec![0xa5; length]);
        first.send_datagram(&[&frame[..], &vec![0xff; length]].concat());
    }
    poll("all of it counted", || {
        (first.metric("rumord_rejected_total", &[]) >= 128.0).then_some(())
    });
    let after = first.members(0).expect("it serves");
    assert_eq!(before["fingerprint"], after["fingerprint"]);
    assert_eq!(count(&second.members(0).expect("it serves"), "alive"), 3);
}

#[test]
fn a_data_directory_keeps_the_identity_and_serves_one_agent() {
    let dir = std::env::temp_dir().join(format!("rumord-it-{}", std::process::id()));
    let text = dir.to_str().expect("a plain path").to_owned();
    let mut seen = Vec::new();
    for _ in 0..3 {
        let mut agent = Agent::start("n1", &["--data-dir", &text]);
        let own = agent.get("/v1/self").expect("it serves").body;
        let own: Value = serde_json::from_str(&own).expect("JSON");
        seen.push((own["node_id"].clone(), own["generation"].as_u64()));
        agent.kill();
    }
    assert!(
        seen.windows(2).all(|pair| pair[0].0 == pair[1].0),
        "{seen:?}"
    );
    assert!(
        seen.windows(2).all(|pair| pair[0].1 < pair[1].1),
        "{seen:?}"
    );
    std::fs::remove_dir_all(&dir).expect("it was made here");
}
