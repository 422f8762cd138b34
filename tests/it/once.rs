//! Requests that are sent again, to one node or to several.

use std::collections::BTreeMap;
use std::io::Write;
use std::thread;

use serde_json::{Value, json};

use crate::agent::{Agent, Answer, count, poll};
use crate::eventing::user_events;
use crate::stores::Dir;

/// Keys that are sent to three nodes at once.
const KEYS: usize = 100;

fn body(payload: &str) -> String {
    json!({ "name": "charge", "payload": payload }).to_string()
}

/// How often each uid is in the log.
fn uids(agent: &Agent) -> BTreeMap<String, usize> {
    let mut uids = BTreeMap::new();
    for event in user_events(agent) {
        let uid = event["uid"].as_str().expect("a uid").to_owned();
        *uids.entry(uid).or_default() += 1;
    }
    uids
}

fn three() -> Vec<Agent> {
    let mut agents = vec![Agent::start("n1", &["--profile", "local"])];
    for name in ["n2", "n3"] {
        let join = agents[0].gossip.clone();
        agents.push(Agent::start(name, &["--profile", "local", "--join", &join]));
    }
    for agent in &agents {
        agent.wait_for("three alive", |table| count(table, "alive") == 3);
    }
    agents
}

/// The client times out at one node and retries at another: still one event.
#[test]
fn the_same_key_at_three_nodes_at_once_is_one_event_everywhere() {
    let agents = three();
    for n in 0..KEYS {
        let key = format!("order-{n}");
        let sent: Vec<Answer> = thread::scope(|scope| {
            let send = |agent| {
                let key = &key;
                scope.spawn(move || agent_post(agent, &body("5"), key))
            };
            let senders: Vec<_> = agents.iter().map(send).collect();
            let answers = senders.into_iter().map(|sender| sender.join());
            answers.map(|answer| answer.expect("no panic")).collect()
        });
        let uid = |answer: &Answer| {
            let json: Value = serde_json::from_str(&answer.body).expect("JSON");
            json["uid"].as_str().expect("a uid").to_owned()
        };
        let first = uid(&sent[0]);
        for answer in &sent {
            // Each node was asked for the first time.
            assert_eq!((answer.status, uid(answer)), (201, first.clone()));
        }
    }
    for agent in &agents {
        let uids = poll("all keys", || {
            let uids = uids(agent);
            (uids.len() == KEYS).then_some(uids)
        });
        assert!(uids.values().all(|&times| times == 1), "{uids:?}");
        // A repeat anywhere is the same event.
        let again = agent_post(agent, &body("5"), "order-7");
        assert_eq!(again.status, 200);
    }
}

fn agent_post(agent: &Agent, body: &str, key: &str) -> Answer {
    agent.post_once("/v1/events", body, key).expect("it serves")
}

/// An event that came from another node is this node's under its key too.
#[test]
fn a_retry_at_another_node_finds_the_event_and_another_body_is_refused() {
    let agents = three();
    let first = agent_post(&agents[0], &body("5"), "k");
    assert_eq!(first.status, 201);
    let first: Value = serde_json::from_str(&first.body).expect("JSON");
    poll("the event", || {
        uids(&agents[1])
            .contains_key(first["uid"].as_str()?)
            .then_some(())
    });
    let other = agent_post(&agents[1], &body("6"), "k");
    assert_eq!(other.status, 422, "{}", other.body);
    // The wrong request leaves the key to the right one.
    assert_eq!(agent_post(&agents[1], &body("5"), "k").status, 201);
    assert_eq!(agent_post(&agents[1], &body("5"), "k").status, 200);
    assert_eq!(agent_post(&agents[1], &body("6"), "k").status, 422);
    poll("the event", || {
        uids(&agents[2])
            .contains_key(first["uid"].as_str()?)
            .then_some(())
    });
    let retry = agent_post(&agents[2], &body("5"), "k");
    assert_eq!(retry.status, 201, "the first request at this node");
    let retry: Value = serde_json::from_str(&retry.body).expect("JSON");
    for field in ["uid", "origin", "origin_generation", "sequence"] {
        assert_eq!(retry[field], first[field], "{field}");
    }
    let own = user_events(&agents[2]);
    assert_eq!((own.len(), &own[0]["id"]), (1, &retry["id"]));
}

/// Two nodes take different requests under one key while they cannot know of each other.
#[test]
fn of_two_requests_under_one_key_one_counts_and_the_other_learns_it() {
    let first = Agent::start("n1", &["--profile", "local"]);
    let second = Agent::start("n2", &["--profile", "local"]);
    assert_eq!(agent_post(&first, &body("5"), "k").status, 201);
    // Taken later by the clock, so that it does not count.
    thread::sleep(std::time::Duration::from_millis(20));
    assert_eq!(agent_post(&second, &body("6"), "k").status, 201);
    let before = crate::stores::head(&second);
    publish_other(&first);
    let join = json!({ "addresses": [first.gossip] }).to_string();
    assert_eq!(
        second.post("/v1/join", &join).expect("it serves").status,
        200
    );
    let conflict = poll("the conflict", || {
        let events = crate::stores::events(&second, before);
        events.into_iter().find(|event| event["kind"] == "conflict")
    });
    assert_eq!(
        (
            &conflict["payload"],
            &conflict["origin"],
            &conflict["overruled"]["origin"]
        ),
        (&json!("5"), &json!("n1"), &json!("n2"))
    );
    assert_eq!(conflict["overruled"]["id"], before);
    let retry = agent_post(&second, &body("6"), "k");
    assert_eq!(retry.status, 422, "{}", retry.body);
    assert_eq!(agent_post(&first, &body("5"), "k").status, 200);
    assert_eq!(agent_post(&second, &body("5"), "k").status, 201);
    let conflicts = |agent: &Agent| {
        let all = crate::stores::events(agent, 0);
        all.iter()
            .filter(|event| event["kind"] == "conflict")
            .count()
    };
    assert_eq!((conflicts(&first), conflicts(&second)), (0, 1));
}

/// Events sent before two clusters meet are not owed; those under the key come with the rest.
fn publish_other(agent: &Agent) {
    let answer = agent.post("/v1/events", &body("other")).expect("it serves");
    assert_eq!(answer.status, 201);
}

/// Every route that changes something takes a key, also one whose effect is not in the store.
#[test]
fn a_repeated_change_of_tags_is_one_change() {
    let dir = Dir::new();
    let data = dir.data("n1");
    let agent = Agent::start("n1", &["--data-dir", &data]);
    let join = json!({ "addresses": [agent.gossip] }).to_string();
    let first = agent.post_once("/v1/join", &join, "j").expect("it serves");
    let again = agent.post_once("/v1/join", &join, "j").expect("it serves");
    assert_eq!((first.status, again.status), (200, 200));
    assert_eq!(first.body, again.body);
    let lease = json!({ "for": "60s" }).to_string();
    let first = agent
        .post_once("/v1/maintenance", &lease, "m")
        .expect("it serves");
    let again = agent
        .post_once("/v1/maintenance", &lease, "m")
        .expect("it serves");
    assert_eq!(first.body, again.body, "not a new lease");
    let other = agent
        .post_once("/v1/maintenance", &lease, "j")
        .expect("it serves");
    assert_eq!(other.status, 422);
    assert_eq!(agent.metric("rumord_idempotency_keys", &[]), 2.0);
}

/// The load of the issue, for a moment: one key is one event, whatever is asked at once.
#[test]
fn the_load_with_one_key_is_one_event() {
    let agent = Agent::start("n1", &[]);
    for (arguments, events) in [(&["--key", "k"][..], Some(1)), (&[], None)] {
        let command = [&["bench", "charge", "--seconds", "2"], arguments].concat();
        let before = uids(&agent).len();
        let output = agent.command(&command);
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(
            output.status.success(),
            "{said}{}",
            String::from_utf8_lossy(&output.stderr)
        );
        if let Some(events) = events {
            assert!(said.contains("distinct bodies  1\n"), "{said}");
            assert_eq!(uids(&agent).len() - before, events);
        }
    }
}

/// A client asks for a leave and hangs up: the process does not end before the answer is remembered,
/// and the same request after a restart leaves nothing a second time.
#[test]
fn a_leave_whose_client_hung_up_is_done_once() {
    let dir = Dir::new();
    let data = dir.data("n1");
    let arguments = ["--profile", "local", "--data-dir", &data];
    for round in 0..10 {
        let key = format!("leave-{round}");
        let mut agent = Agent::start("n1", &arguments);
        let mut stream = std::net::TcpStream::connect(&agent.http).expect("it serves");
        let request = format!(
            "POST /v1/leave HTTP/1.1\r\nHost: localhost\r\nIdempotency-Key: {key}\r\n\
             Content-Length: 0\r\n\r\n"
        );
        stream.write_all(request.as_bytes()).expect("it is read");
        thread::sleep(std::time::Duration::from_micros(200 * round));
        drop(stream);
        // A request that was not read at all is no request: ask once more.
        let asked = agent.post_once("/v1/leave", "", &key);
        assert!(asked.is_none_or(|answer| [202, 409].contains(&answer.status)));
        agent.wait_for_end();
        let again = Agent::start("n1", &arguments);
        let repeat = again.post_once("/v1/leave", "", &key).expect("it serves");
        assert_eq!(repeat.status, 202);
        let own = again.get("/readyz").expect("it serves");
        assert_eq!(own.status, 200, "it has not left again: {}", own.body);
    }
}
