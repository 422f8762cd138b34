//! Agents that are killed at random moments while clients send events, and retry.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rand::rngs::Xoshiro256PlusPlus;
use rand::{RngExt, SeedableRng};
use serde_json::json;

use crate::agent::{Agent, BOUND, count, poll};
use crate::eventing::user_events;
use crate::stores::Dir;

/// Clients that send at a time.
const CLIENTS: u64 = 4;
/// Pause of a client between two events, so that the logs hold all of them.
const PAUSE: Duration = Duration::from_millis(50);
/// Longest time between two kills, in milliseconds.
const LIFE_MS_MAX: u64 = 400;

#[test]
fn a_killed_agent_loses_and_doubles_no_event_that_it_has_answered() {
    kill_repeatedly(8, 1);
}

#[test]
#[ignore = "takes minutes; the same as above with 200 kills"]
fn two_hundred_kills_lose_and_double_no_event() {
    kill_repeatedly(200, 2);
}

/// One of three agents is killed so often, at moments drawn from `rng_seed`. Each time it is back,
/// all that was answered has to be everywhere, once.
fn kill_repeatedly(kills: u32, rng_seed: u64) {
    let dir = Dir::new();
    let data = ["n1", "n2", "n3"].map(|name| dir.data(name));
    let line = ["--profile", "local", "--data-dir", &data[0]];
    let mut victim = Agent::start("n1", &line);
    let others = [("n2", &data[1]), ("n3", &data[2])].map(|(name, data)| {
        let join = victim.gossip.as_str();
        let line = ["--profile", "local", "--join", join, "--data-dir", data];
        Agent::start(name, &line)
    });
    victim.wait_for("three alive", |table| count(table, "alive") == 3);
    let (gossip, http) = (victim.gossip.clone(), victim.http.clone());
    let again = [&line[..], &["--bind", &gossip, "--http", &http]].concat();
    let (over, answered) = (AtomicBool::new(false), Mutex::new(Vec::new()));
    let next = AtomicU64::new(0);
    thread::scope(|scope| {
        for _ in 0..CLIENTS {
            scope.spawn(|| send(&http, &over, &next, &answered));
        }
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(rng_seed);
        for _ in 0..kills {
            let life = Duration::from_millis(rng.random_range(0..LIFE_MS_MAX));
            thread::sleep(life);
            victim.kill();
            victim = Agent::start("n1", &again);
            let answered = answered.lock().expect("unpoisoned").clone();
            for agent in [&victim, &others[0], &others[1]] {
                check(agent, &answered, &over);
            }
        }
        over.store(true, Ordering::Relaxed);
    });
    let answered = answered.into_inner().expect("unpoisoned");
    assert!(answered.len() as u32 >= kills, "{} answers", answered.len());
    for agent in [&victim, &others[0], &others[1]] {
        let times = check(agent, &answered, &over);
        assert_eq!(times, answered.len(), "nothing that was not sent");
    }
}

/// Waits until every event that was answered is in the log; none is there twice. How many there
/// are.
fn check(agent: &Agent, answered: &[String], over: &AtomicBool) -> usize {
    let times = until_all(agent, answered, over);
    let wrong: Vec<_> = times.iter().filter(|(_, times)| **times != 1).collect();
    assert!(wrong.is_empty(), "{}: {wrong:?}", agent.http);
    times.len()
}

/// Sends events until it is over, each until it is answered.
fn send(http: &str, over: &AtomicBool, next: &AtomicU64, answered: &Mutex<Vec<String>>) {
    let config = ureq::Agent::config_builder()
        .timeout_global(Some(Duration::from_secs(5)))
        .http_status_as_error(false);
    let client = ureq::Agent::new_with_config(config.build());
    while !over.load(Ordering::Relaxed) {
        let key = format!("event-{}", next.fetch_add(1, Ordering::Relaxed));
        let body = json!({ "name": "charge", "payload": key }).to_string();
        poll("an answer", || {
            let request = client.post(format!("http://{http}/v1/events"));
            let request = request.header("Idempotency-Key", &key);
            let request = request.header("Content-Type", "application/json");
            let status = request.send(&body).ok()?.status().as_u16();
            assert!(matches!(status, 200 | 201 | 429 | 503), "{status}");
            (status < 300).then_some(())
        });
        answered.lock().expect("unpoisoned").push(key);
        thread::sleep(PAUSE);
    }
}

/// How often each event is in the log, once all that were answered are.
fn until_all(agent: &Agent, answered: &[String], over: &AtomicBool) -> BTreeMap<String, u32> {
    let began = Instant::now();
    loop {
        let times = times(agent);
        let missing: Vec<_> = answered
            .iter()
            .filter(|key| !times.contains_key(*key))
            .collect();
        if missing.is_empty() {
            return times;
        }
        if began.elapsed() > BOUND {
            // The clients are not to go on while this is told.
            over.store(true, Ordering::Relaxed);
            panic!("never came: {missing:?} to {}", agent.http);
        }
        thread::sleep(Duration::from_millis(50));
    }
}

/// How often each event is in the log.
fn times(agent: &Agent) -> BTreeMap<String, u32> {
    let mut times = BTreeMap::new();
    for event in user_events(agent) {
        let key = event["payload"].as_str().expect("text").to_owned();
        *times.entry(key).or_default() += 1;
    }
    times
}
