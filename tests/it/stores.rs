//! What agents keep in their data directories, and what they do when the disk does not keep it.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, Resource, Rlimit, prlimit};
use serde_json::Value;

use crate::agent::{Agent, Starting, count, member, poll};

/// A directory of its own, removed at its end.
pub struct Dir(PathBuf);

impl Dir {
    pub fn new() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("rumord-stores-{}-{number}", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir(&path).expect("a fresh directory");
        Dir(path)
    }

    /// A data directory in it.
    pub fn data(&self, name: &str) -> String {
        let path = self.0.join(name);
        path.to_str().expect("a plain path").to_owned()
    }
}

impl Drop for Dir {
    fn drop(&mut self) {
        // Best effort: a leftover directory harms no other test.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// The events after `after`.
pub fn events(agent: &Agent, after: u64) -> Vec<Value> {
    let path = format!("/v1/events?limit=1000&after={after}");
    let body = agent.get(&path).expect("it serves").body;
    let page: Value = serde_json::from_str(&body).expect("JSON");
    page["events"].as_array().expect("a list").clone()
}

/// The kinds of the events after `after` about `name`.
pub fn kinds(agent: &Agent, after: u64, name: &str) -> Vec<String> {
    let about = |event: &Value| event["member"] == name;
    let kind = |event: &Value| event["kind"].as_str().expect("a kind").to_owned();
    let all = events(agent, after);
    all.iter().filter(|event| about(event)).map(kind).collect()
}

/// The last id given out.
pub fn head(agent: &Agent) -> u64 {
    let body = agent.get("/v1/events?limit=0").expect("it serves").body;
    let page: Value = serde_json::from_str(&body).expect("JSON");
    page["head"].as_u64().expect("a number")
}

fn node_id(agent: &Agent) -> Value {
    let own = agent.get("/v1/self").expect("it serves").body;
    serde_json::from_str::<Value>(&own).expect("JSON")["node_id"].clone()
}

fn three_alive(agents: &[&Agent]) {
    for agent in agents {
        agent.wait_for("three alive", |table| count(table, "alive") == 3);
    }
}

/// Agents called n1, n2 and so on, each with its data directory.
fn keeping(dir: &Dir, number: usize) -> Vec<Agent> {
    let mut agents: Vec<Agent> = Vec::new();
    for n in 1..=number {
        let data = dir.data(&format!("n{n}"));
        let mut arguments = vec!["--profile", "local", "--data-dir", &data];
        let first = agents.first().map(|first| first.gossip.clone());
        if let Some(first) = &first {
            arguments.extend(["--join", first]);
        }
        agents.push(Agent::start(&format!("n{n}"), &arguments));
    }
    agents
}

/// Starts the agent of a data directory again, at `bind` and without a join address.
fn again(dir: &Dir, name: &str, bind: &str) -> Agent {
    let data = dir.data(name);
    let arguments = ["--profile", "local", "--data-dir", &data, "--bind", bind];
    Agent::start(name, &arguments)
}

/// hashicorp/consul#924, hashicorp/serf#333: after a full stop the missing were not listed, and
/// nodes looked only for those that had been alive.
#[test]
fn after_a_power_cut_agents_find_each_other_and_show_who_is_missing() {
    let dir = Dir::new();
    let mut agents = keeping(&dir, 3);
    three_alive(&agents.iter().collect::<Vec<_>>());
    let gossip: Vec<String> = agents.iter().map(|agent| agent.gossip.clone()).collect();
    for agent in &agents {
        // What has been seen is on the disk within a second or two.
        poll("the members are kept", || {
            kept_members(agent, &dir).filter(|&kept| kept == 2)
        });
    }
    agents.iter_mut().for_each(Agent::kill);
    let first = again(&dir, "n1", &gossip[0]);
    let second = again(&dir, "n2", &gossip[1]);
    for agent in [&first, &second] {
        let table = agent.wait_for("two alive and one missing", |table| {
            count(table, "alive") == 2 && member(table, "n3")["rule"] == "stored"
        });
        assert_eq!(member(&table, "n3")["status"], "dead");
        assert_eq!(member(&table, "n3")["address"], gossip[2].as_str());
        assert!(
            kinds(agent, 0, "n3")
                .iter()
                .all(|kind| kind != "member-dead")
        );
    }
    let third = again(&dir, "n3", &gossip[2]);
    three_alive(&[&first, &second, &third]);
    let table = first.members(0).expect("it serves");
    assert!(member(&table, "n3").get("rule").is_none());
}

/// How many members the database of `agent` holds.
fn kept_members(agent: &Agent, dir: &Dir) -> Option<i64> {
    let own = agent.get("/v1/self")?.body;
    let own: Value = serde_json::from_str(&own).ok()?;
    let path = format!("{}/rumord.db", dir.data(own["name"].as_str()?));
    let database = rusqlite::Connection::open(path).ok()?;
    let count = database.query_row("select count(*) from member", [], |row| row.get(0));
    count.ok()
}

/// hashicorp/consul#843, hashicorp/nomad#3837: clusters merged through what a data directory held.
#[test]
fn a_data_directory_of_another_cluster_brings_nobody_along() {
    let dir = Dir::new();
    let first = Agent::start("n1", &["--cluster", "a"]);
    let data = dir.data("n2");
    let to_a = [
        "--cluster",
        "a",
        "--data-dir",
        &data,
        "--join",
        &first.gossip,
    ];
    let mut second = Agent::start("n2", &to_a);
    second.wait_for("two alive", |table| count(table, "alive") == 2);
    let (before, bind) = (node_id(&second), second.gossip.clone());
    poll("the members are kept", || {
        kept_members(&second, &dir).filter(|&kept| kept == 1)
    });
    second.kill();
    let in_b = ["--cluster", "b", "--data-dir", &data, "--bind", &bind];
    let second = Agent::start("n2", &in_b);
    assert_eq!(node_id(&second), before);
    let body = format!("{{\"addresses\":[\"{}\"]}}", second.gossip);
    let answer = first.post("/v1/join", &body).expect("it serves");
    assert_eq!(answer.status, 502, "{}", answer.body);
    let table = second.members(0).expect("it serves");
    assert_eq!(
        table["members"].as_array().map(Vec::len),
        Some(1),
        "{table:#}"
    );
    assert_eq!(kept_members(&second, &dir), Some(0));
}

/// Killed at any moment the database is whole, the generation grows, and no id is used twice.
#[test]
fn an_agent_killed_at_any_moment_starts_again_from_a_whole_database() {
    let dir = Dir::new();
    let data = dir.data("n1");
    let mut seen: Vec<Value> = Vec::new();
    let mut identity = None;
    for delay in [0, 1, 2, 4, 8, 15, 30, 60, 120, 250] {
        let mut agent = Agent::start("n1", &["--data-dir", &data]);
        let id = node_id(&agent);
        assert_eq!(
            *identity.get_or_insert(id.clone()),
            id,
            "a new identity: it was damaged"
        );
        let log = events(&agent, 0);
        for pair in log.windows(2) {
            assert!(pair[0]["id"].as_u64() < pair[1]["id"].as_u64(), "{log:?}");
        }
        for event in &seen {
            let same_id = |other: &&Value| other["id"] == event["id"];
            let held = log.iter().find(same_id);
            assert!(
                held.is_none_or(|held| held == event),
                "{event} became {held:?}"
            );
        }
        let peer = Agent::start("n2", &["--join", &agent.gossip]);
        peer.wait_for("two alive", |table| count(table, "alive") == 2);
        thread::sleep(Duration::from_millis(delay));
        seen.extend(events(&agent, 0));
        agent.kill();
    }
    let files = std::fs::read_dir(&data).expect("there").flatten();
    let damaged = files.filter(|file| file.file_name().to_string_lossy().contains("damaged"));
    assert_eq!(damaged.count(), 0);
    let agent = Agent::start("n1", &["--data-dir", &data]);
    let log = events(&agent, 0);
    assert!(log.len() >= 5, "most of ten were written in time: {log:?}");
}

/// hashicorp/consul#1744, #332, serf PR#428: a disk that took nothing for a while stopped the
/// node, or was never written again.
#[test]
fn a_disk_that_takes_nothing_for_a_while_stops_nothing_and_misses_nothing() {
    let dir = Dir::new();
    let data = dir.data("n1");
    // Files must not grow: the signal that says so ends a program unless it is ignored.
    let shell = "trap '' XFSZ; exec \"$0\" \"$@\"";
    let mut first = Starting::spawn_by(&["sh", "-c", shell], "n1", &["--data-dir", &data]).ready();
    let second = Agent::start("n2", &["--join", &first.gossip]);
    second.wait_for("two alive", |table| count(table, "alive") == 2);
    limit_files(&first, Some(0));
    let third = Agent::start("n3", &["--join", &second.gossip]);
    three_alive(&[&first, &second, &third]);
    poll("the failure shows", || {
        let ready = first.get("/readyz?verbose")?;
        let told = ready.status == 200 && ready.body.contains("[-]store ");
        let counted = first.metric("rumord_store_failing", &[]) == 1.0;
        (told && counted).then_some(())
    });
    assert!(first.metric("rumord_store_failures_total", &[]) >= 1.0);
    limit_files(&first, None);
    poll("the recovery shows", || {
        let ready = first.get("/readyz?verbose")?;
        let unsaved = first.metric("rumord_queue_length", &["queue=\"store\""]);
        (ready.body.contains("[+]store ok") && unsaved == 0.0).then_some(())
    });
    let before = events(&first, 0);
    first.kill();
    let first = Agent::start("n1", &["--data-dir", &data]);
    assert_eq!(events(&first, 0)[..before.len()], before);
}

/// Lets the files of an agent grow to `bytes` at most.
fn limit_files(agent: &Agent, bytes: Option<u64>) {
    let pid = i32::try_from(agent.pid()).ok().and_then(Pid::from_raw);
    let limit = Rlimit {
        current: bytes,
        maximum: None,
    };
    prlimit(pid, Resource::Fsize, limit).expect("it is ours");
}
