//! One agent process, and what the system and the agent say about it.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::Value;

/// Clock ticks per second in /proc: fixed by the kernel's interface.
const TICKS_PER_SECOND: f64 = 100.0;
/// IPv4 and UDP headers of one datagram.
const DATAGRAM_HEADER_BYTES: f64 = 28.0;

/// A running agent. It is killed when dropped.
pub struct Agent {
    child: Child,
    /// Where it gossips.
    pub gossip: String,
    /// Where it serves HTTP.
    pub http: String,
}

/// Counters of an agent at one instant.
pub struct Usage {
    /// CPU time used.
    pub cpu_ms: f64,
    /// Resident memory.
    pub resident_mib: f64,
    /// Sent by UDP, headers included.
    pub udp_bytes: f64,
    /// Sent by TCP, payload.
    pub tcp_bytes: f64,
}

/// A process that has been started and has not yet said that it is ready.
pub struct Starting(Child);

impl Starting {
    /// Starts an agent on free loopback ports.
    pub fn spawn(name: &str, join: Option<&str>) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_rumord"));
        command.args([
            "agent",
            "--name",
            name,
            "--cluster",
            "bench",
            "--bind",
            "127.0.0.1:0",
        ]);
        command.args(["--http", "127.0.0.1:0", "--log-level", "error"]);
        if let Some(join) = join {
            command.args(["--join", join]);
        }
        let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn();
        Starting(child.expect("the agent starts"))
    }

    /// Waits for the line that says that it serves.
    pub fn ready(mut self) -> Agent {
        let stdout = self.0.stdout.take().expect("it is piped");
        let mut line = String::new();
        BufReader::new(stdout)
            .read_line(&mut line)
            .expect("the agent writes a line");
        let field = |key: &str| {
            let word = line
                .split_whitespace()
                .find_map(|word| word.strip_prefix(key));
            word.unwrap_or_else(|| panic!("no {key} in {line:?}"))
                .to_owned()
        };
        Agent {
            gossip: field("gossip="),
            http: field("http="),
            child: self.0,
        }
    }
}

impl Agent {
    /// The table, once its index is above `index`; `None` when the agent does not answer.
    pub fn members(&self, index: u64) -> Option<Value> {
        get(&format!(
            "http://{}/v1/members?index={index}&wait=10s",
            self.http
        ))
        .and_then(|body| serde_json::from_str(&body).ok())
    }

    /// Ends it without notice.
    pub fn kill(&mut self) {
        self.child.kill().expect("it is ours");
        self.child.wait().expect("it was killed");
    }

    /// What it has used so far.
    pub fn usage(&self) -> Usage {
        let proc = |file: &str| {
            std::fs::read_to_string(format!("/proc/{}/{file}", self.child.id()))
                .expect("the agent runs")
        };
        let stat = proc("stat");
        let fields: Vec<&str> = stat
            .rsplit(')')
            .next()
            .unwrap_or("")
            .split_whitespace()
            .collect();
        let ticks = |place: usize| fields[place].parse::<f64>().expect("a number");
        let status = proc("status");
        let resident_kib: f64 = status
            .lines()
            .find_map(|line| line.strip_prefix("VmRSS:"))
            .and_then(|rest| rest.split_whitespace().next()?.parse().ok())
            .expect("VmRSS is there");
        let metrics = get(&format!("http://{}/metrics", self.http)).expect("it serves");
        let bytes = |transport: &str| {
            sum(
                &metrics,
                "rumord_bytes_total",
                &["direction=\"sent\"", transport],
            )
        };
        let datagrams = sum(
            &metrics,
            "rumord_messages_total",
            &["direction=\"sent\"", "transport=\"datagram\""],
        );
        Usage {
            // utime and stime are fields 14 and 15; 11 and 12 after the name.
            cpu_ms: (ticks(11) + ticks(12)) * 1000.0 / TICKS_PER_SECOND,
            resident_mib: resident_kib / 1024.0,
            udp_bytes: bytes("transport=\"datagram\"") + datagrams * DATAGRAM_HEADER_BYTES,
            tcp_bytes: bytes("transport=\"stream\""),
        }
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        // It may have been killed already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn get(url: &str) -> Option<String> {
    let config = ureq::Agent::config_builder().timeout_global(Some(Duration::from_secs(20)));
    let client = ureq::Agent::new_with_config(config.build());
    client
        .get(url)
        .call()
        .ok()?
        .body_mut()
        .read_to_string()
        .ok()
}

/// The sum of all series of `name` that carry every one of `labels`.
fn sum(metrics: &str, name: &str, labels: &[&str]) -> f64 {
    let series =
        |line: &&str| line.starts_with(name) && labels.iter().all(|label| line.contains(label));
    metrics
        .lines()
        .filter(series)
        .filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok())
        .sum()
}
