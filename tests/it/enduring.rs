//! What a node costs when it has stopped, and how it answers while it is flooded.

use std::net::UdpSocket;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rumord::member::{Generation, NodeId};
use rumord::node::{Node, Options, start};
use tokio::runtime::Handle;
use tokio::time::timeout;

use crate::agent::{Agent, BOUND, count};

/// How often a node is started and stopped.
const TIMES: u64 = 200;
/// How long one stop may take.
const STOP_BOUND: Duration = Duration::from_secs(5);
/// Members that do not answer.
const SILENT: u64 = 20;
/// How long the flood lasts.
const FLOOD: Duration = Duration::from_secs(3);
/// Far above what an answer takes on a machine that does nothing else.
const ANSWER_BOUND: Duration = Duration::from_secs(1);

/// hashicorp/memberlist#71, grafana/dskit PR#1047: tasks and sockets stayed after a stop. In a
/// process of its own, where nothing else opens files.
#[test]
fn two_hundred_stops_leave_nothing_behind() {
    let own = std::env::current_exe().expect("it runs");
    let output = Command::new(own)
        .args([
            "--exact",
            "enduring::starts_and_stops",
            "--ignored",
            "--nocapture",
        ])
        .output()
        .expect("it starts");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success() && text.contains("1 passed"),
        "{text}"
    );
}

#[test]
#[ignore = "run by the test above in a process of its own"]
fn starts_and_stops() {
    let runtime = tokio::runtime::Runtime::new().expect("threads");
    runtime.block_on(async {
        let first = node("first", &[]).await;
        let join = [first.snapshot().node.bound.to_string()];
        // What is made once and kept is made now.
        stop(node("n0", &join).await, 0).await;
        settle(&first, usize::MAX, usize::MAX).await;
        let (tasks, files) = (tasks(), files());
        for number in 1..=TIMES {
            let node = node(&format!("n{number}"), &join).await;
            stop(node, number).await;
        }
        settle(&first, tasks, files).await;
    });
}

async fn node(name: &str, join: &[String]) -> Node {
    let name = name.parse().expect("a valid name");
    let mut options = Options::new(name, Generation(1_700_000_000), NodeId(1));
    options.join = join.to_vec();
    // Those that stopped without a word are waited for in vain.
    options.leave_timeout = Duration::from_millis(100);
    start(options).await.expect("loopback sockets are free")
}

/// In order, or by dropping the handle, also in the midst of its join.
async fn stop(node: Node, number: u64) {
    let began = Instant::now();
    let mut changes = node.changes();
    match number % 2 {
        0 => drop(node),
        _ => {
            let _ = node.leave().await.expect("it runs");
        }
    }
    let stopped = async { while changes.changed().await.is_ok() {} };
    timeout(STOP_BOUND, stopped)
        .await
        .expect("it stops in time");
    assert!(began.elapsed() < STOP_BOUND, "{:?}", began.elapsed());
}

/// Waits until there are no more tasks and files than these.
async fn settle(first: &Node, most_tasks: usize, most_files: usize) {
    let began = Instant::now();
    while tasks() > most_tasks || files() > most_files {
        let held = (tasks(), files());
        let members = first.snapshot().members.len();
        assert!(
            began.elapsed() < BOUND,
            "{held:?} tasks and files instead of {most_tasks} and {most_files}, {members} members"
        );
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

fn tasks() -> usize {
    Handle::current().metrics().num_alive_tasks()
}

fn files() -> usize {
    std::fs::read_dir("/proc/self/fd").expect("Linux").count()
}

/// hashicorp/consul#4011, #8504, canonical/microcloud#845: status calls hung while gossip was
/// heavy, or while dead members were being asked.
#[test]
fn status_is_answered_during_a_flood_and_with_silent_members() {
    let agent = Agent::start("n1", &[]);
    let runtime = tokio::runtime::Runtime::new().expect("threads");
    let join = [agent.gossip.clone()];
    let silent = runtime.block_on(async {
        let mut nodes = Vec::new();
        for n in 0..SILENT {
            nodes.push(node(&format!("silent{n}"), &join).await);
        }
        nodes
    });
    agent.wait_for("everybody", |table| count(table, "alive") == SILENT + 1);
    // Without a word: their sockets close, and nobody answers any more.
    drop(silent);
    let over = AtomicBool::new(false);
    let mut lengths = thread::scope(|scope| {
        scope.spawn(|| flood(&agent, &over));
        let mut lengths = Vec::new();
        let began = Instant::now();
        while began.elapsed() < FLOOD {
            for path in ["/v1/self", "/livez", "/v1/members"] {
                let asked = Instant::now();
                let answer = agent.get(path).expect("it serves");
                assert_eq!(answer.status, 200, "{path}");
                lengths.push(asked.elapsed());
            }
            thread::sleep(Duration::from_millis(10));
        }
        over.store(true, Ordering::Relaxed);
        lengths
    });
    lengths.sort();
    let p99 = lengths[(lengths.len() - 1) * 99 / 100];
    assert!(lengths.len() >= 30, "{}", lengths.len());
    assert!(p99 < ANSWER_BOUND, "p99 {p99:?} of {}", lengths.len());
    println!("p99 {p99:?} of {} answers", lengths.len());
    assert!(
        agent.metric("rumord_rejected_total", &[]) >= 10_000.0,
        "it was flooded"
    );
}

/// Garbage, and frames that begin well, as fast as they can be sent.
fn flood(agent: &Agent, over: &AtomicBool) {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a free port");
    let frame = [b"rM\x01\x00".as_slice(), &[0; 4], &[1], &[0xff; 200]].concat();
    while !over.load(Ordering::Relaxed) {
        for payload in [&frame[..], &frame[..9], &[0xa5; 1200]] {
            // A full buffer loses it, as networks do.
            let _ = socket.send_to(payload, &agent.gossip);
        }
    }
}
