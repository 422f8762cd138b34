//! Handlers and webhooks of real agents.

use std::fmt::Write as _;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::sync::mpsc::{Receiver, channel};
use std::thread;

use serde_json::Value;

use crate::agent::{Agent, BOUND, poll};
use crate::stores::Dir;

/// An HTTP server that answers one post after the other with the next of its statuses, and for ever
/// with the last of them. What it was posted comes out of the receiver.
fn server(statuses: &'static [u16]) -> (String, Receiver<(String, Value)>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("loopback");
    let url = format!("http://{}/hook", listener.local_addr().expect("bound"));
    let (seen, posts) = channel();
    thread::spawn(move || {
        for (number, stream) in listener.incoming().enumerate() {
            let status = statuses[number.min(statuses.len() - 1)];
            let post = take_post(stream.expect("a connection"), status);
            if seen.send(post).is_err() {
                return;
            }
        }
    });
    (url, posts)
}

/// Reads one post, and answers it: its key and its body.
fn take_post(mut stream: TcpStream, status: u16) -> (String, Value) {
    let (mut bytes, mut buffer) = (Vec::new(), [0; 4096]);
    loop {
        let read = stream.read(&mut buffer).expect("it is sent");
        bytes.extend_from_slice(&buffer[..read]);
        let text = String::from_utf8_lossy(&bytes).into_owned();
        if let Some((head, body)) = text.split_once("\r\n\r\n")
            && let Ok(body) = serde_json::from_str(body)
        {
            let mut answer = String::new();
            let _ = write!(answer, "HTTP/1.1 {status} X\r\nContent-Length: 0\r\n\r\n");
            stream.write_all(answer.as_bytes()).expect("it is read");
            let key = head.lines().find_map(|line| {
                let (name, value) = line.split_once(": ")?;
                name.eq_ignore_ascii_case("idempotency-key")
                    .then(|| value.to_owned())
            });
            return (key.expect("every call has a key"), body);
        }
    }
}

fn configured(dir: &Dir, text: &str) -> String {
    let path = dir.data("rumord.toml");
    std::fs::write(&path, text).expect("a fresh directory");
    path
}

fn calls(agent: &Agent) -> Vec<Value> {
    let body = agent.get("/v1/outbox").expect("it serves").body;
    let json: Value = serde_json::from_str(&body).expect("JSON");
    json["calls"].as_array().expect("a list").clone()
}

fn send(agent: &Agent, name: &str, payload: &str) {
    let sent = agent.command(&["event", name, payload]);
    assert!(
        sent.status.success(),
        "{}",
        String::from_utf8_lossy(&sent.stderr)
    );
}

#[test]
fn a_webhook_is_posted_what_its_filter_wants() {
    let dir = Dir::new();
    let (url, posts) = server(&[204]);
    let config = configured(
        &dir,
        &format!(
            "[[webhook]]\nname = \"deploys\"\nurl = \"{url}\"\nkinds = [\"user\"]\n\
             names = [\"deploy\"]\ntags = {{ zone = \"a\" }}\n"
        ),
    );
    let agent = Agent::start("n1", &["--config", &config, "--tag", "zone=a"]);
    send(&agent, "other", "x");
    send(&agent, "deploy", "v1");
    send(&agent, "deploy", "v2");
    for expected in ["v1", "v2"] {
        let (key, event) = posts.recv_timeout(BOUND).expect("it is posted");
        assert_eq!(event["payload"], expected);
        assert_eq!(
            (event["kind"].as_str(), event["origin"].as_str()),
            (Some("user"), Some("n1"))
        );
        assert_eq!(key, event["id"].to_string());
    }
    poll("nothing waits any more", || {
        calls(&agent).is_empty().then_some(())
    });
}

#[test]
fn a_call_that_fails_is_tried_again_and_one_that_is_refused_is_parked_until_it_is_redriven() {
    let dir = Dir::new();
    let (url, posts) = server(&[503, 204, 400, 204]);
    let config = configured(
        &dir,
        &format!(
            "[[webhook]]\nname = \"hook\"\nurl = \"{url}\"\nkinds = [\"user\"]\nattempts = 3\n"
        ),
    );
    let agent = Agent::start("n1", &["--config", &config]);
    send(&agent, "deploy", "v1");
    let first = posts.recv_timeout(BOUND).expect("it is posted");
    let again = posts.recv_timeout(BOUND).expect("it is posted again");
    assert_eq!(first, again);
    send(&agent, "deploy", "v2");
    let refused = posts.recv_timeout(BOUND).expect("it is posted");
    let parked = poll("it is parked", || {
        calls(&agent)
            .into_iter()
            .find(|call| call["state"] == "parked")
    });
    assert_eq!(parked["target"], "hook");
    assert_eq!(parked["event"], refused.1["id"]);
    assert!(
        parked["error"]
            .as_str()
            .is_some_and(|error| error.contains("400")),
        "{parked}"
    );
    let listed = agent.command(&["outbox", "list"]);
    let listed = String::from_utf8_lossy(&listed.stdout).into_owned();
    assert!(listed.contains("parked"), "{listed}");
    let id = parked["id"].to_string();
    assert!(agent.command(&["outbox", "redrive", &id]).status.success());
    assert_eq!(
        posts.recv_timeout(BOUND).expect("it is posted again"),
        refused
    );
    poll("nothing waits any more", || {
        calls(&agent).is_empty().then_some(())
    });
    let unknown = agent.command(&["outbox", "redrive", &id]);
    assert_eq!(unknown.status.code(), Some(1));
}

/// hashicorp/serf#369, psviderski/uncloud#291: a handler that sleeps for each of many events, and one
/// that prints without end, hold up neither another target nor the table, the log and the API.
#[test]
fn a_sleeping_handler_holds_up_nothing() {
    let dir = Dir::new();
    let told = dir.data("told");
    let config = configured(
        &dir,
        &format!(
            "[[handler]]\nname = \"sleeper\"\ncommand = [\"sleep\", \"600\"]\n\
             [[handler]]\nname = \"printer\"\ncommand = [\"yes\"]\ntimeout = \"2s\"\n\
             [[handler]]\nname = \"teller\"\nkinds = [\"user\"]\n\
             command = [\"sh\", \"-c\", \"echo $RUMORD_EVENT_NAME $RUMORD_EVENT_PAYLOAD >> {told}\"]\n"
        ),
    );
    let agent = Agent::start("n1", &["--config", &config, "--profile", "local"]);
    for number in 0..30 {
        send(&agent, "tick", &number.to_string());
    }
    let expected: String = (0..30).map(|number| format!("tick {number}\n")).collect();
    poll("the third is told everything in order", || {
        let text = std::fs::read_to_string(&told).unwrap_or_default();
        (text == expected).then_some(())
    });
    let other = Agent::start("n2", &["--profile", "local", "--join", &agent.gossip]);
    other.wait_for("two alive", |table| table["counts"]["alive"] == 2);
    agent.wait_for("two alive", |table| table["counts"]["alive"] == 2);
    let waiting = calls(&agent);
    assert!(
        waiting.iter().any(|call| call["target"] == "sleeper"),
        "{waiting:?}"
    );
}

/// The event and the wish to tell of it are one transaction: what was acknowledged is told, though
/// the agent was killed before.
#[test]
fn a_call_survives_the_death_of_the_agent() {
    let dir = Dir::new();
    let (data, told) = (dir.data("n1"), dir.data("told"));
    let gate = dir.data("gate");
    let script = format!("test -e {gate} && echo $RUMORD_EVENT_PAYLOAD >> {told}");
    let config = configured(
        &dir,
        &format!(
            "[[handler]]\nname = \"teller\"\nkinds = [\"user\"]\nattempts = 100\n\
             command = [\"sh\", \"-c\", \"{script}\"]\n"
        ),
    );
    let arguments = ["--config", &config, "--data-dir", &data];
    let mut agent = Agent::start("n1", &arguments);
    send(&agent, "deploy", "v1");
    agent.kill();
    std::fs::write(&gate, "").expect("ours");
    let agent = Agent::start("n1", &arguments);
    poll("it is told after all", || {
        let text = std::fs::read_to_string(Path::new(&told)).unwrap_or_default();
        text.starts_with("v1\n").then_some(())
    });
    poll("nothing waits any more", || {
        calls(&agent).is_empty().then_some(())
    });
}
