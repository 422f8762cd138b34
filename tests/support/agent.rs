//! Agent processes for tests and benchmarks: started on free loopback ports, ended when dropped.

use std::io::{BufRead, BufReader};
use std::net::UdpSocket;
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

/// Far more than anything takes here; reaching it is a failure, not a measurement.
pub const BOUND: Duration = Duration::from_secs(60);

/// A process that has been started and has not yet said that it is ready.
pub struct Starting(Child);

/// A running agent. It is killed when dropped.
pub struct Agent {
    child: Child,
    /// Where it gossips.
    pub gossip: String,
    /// Where it serves HTTP.
    pub http: String,
}

/// An answer over HTTP.
pub struct Answer {
    /// Status code.
    pub status: u16,
    /// Body.
    pub body: String,
}

impl Starting {
    /// Starts an agent with further `arguments`.
    pub fn spawn(name: &str, arguments: &[&str]) -> Self {
        Self::spawn_by(&[], name, arguments)
    }

    /// Starts an agent by the command `wrapper`, which runs the command after it; none if empty.
    pub fn spawn_by(wrapper: &[&str], name: &str, arguments: &[&str]) -> Self {
        let program = env!("CARGO_BIN_EXE_rumord");
        let mut command = match wrapper {
            [] => Command::new(program),
            [first, rest @ ..] => {
                let mut command = Command::new(first);
                command.args(rest).arg(program);
                command
            }
        };
        for (variable, _) in std::env::vars_os() {
            if variable.to_string_lossy().starts_with("RUMORD_") {
                command.env_remove(variable);
            }
        }
        command.args(["agent", "--name", name, "--log-level", "error"]);
        if !arguments.contains(&"--http") {
            command.args(["--http", "127.0.0.1:0"]);
        }
        if !arguments.contains(&"--bind") {
            command.args(["--bind", "127.0.0.1:0"]);
        }
        command
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::piped());
        Starting(command.spawn().expect("the agent starts"))
    }

    /// Waits for the line that says that it serves.
    pub fn ready(mut self) -> Agent {
        let stdout = self.0.stdout.take().expect("it is piped");
        let mut line = String::new();
        BufReader::new(stdout)
            .read_line(&mut line)
            .expect("the agent writes a line");
        assert!(line.starts_with("ready name="), "{line:?}");
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
    /// Starts an agent and waits until it serves.
    pub fn start(name: &str, arguments: &[&str]) -> Self {
        Starting::spawn(name, arguments).ready()
    }

    /// Runs a client command of the program against this agent, to its end.
    pub fn command(&self, arguments: &[&str]) -> Output {
        Command::new(env!("CARGO_BIN_EXE_rumord"))
            .args(arguments)
            .args(["--http", &format!("http://{}", self.http)])
            .stdin(Stdio::null())
            .output()
            .expect("the program runs")
    }

    /// The process's number.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// `GET path`; `None` when the agent does not answer.
    pub fn get(&self, path: &str) -> Option<Answer> {
        answer(client().get(format!("http://{}{path}", self.http)).call())
    }

    /// `POST path` with a JSON body.
    pub fn post(&self, path: &str, body: &str) -> Option<Answer> {
        let url = format!("http://{}{path}", self.http);
        answer(
            client()
                .post(url)
                .header("Content-Type", "application/json")
                .send(body),
        )
    }

    /// `POST path` with a JSON body and an idempotency key.
    pub fn post_once(&self, path: &str, body: &str, key: &str) -> Option<Answer> {
        let url = format!("http://{}{path}", self.http);
        let request = client().post(url).header("Idempotency-Key", key);
        answer(
            request
                .header("Content-Type", "application/json")
                .send(body),
        )
    }

    /// `PUT path` with a JSON body.
    pub fn put(&self, path: &str, body: &str) -> Option<Answer> {
        let url = format!("http://{}{path}", self.http);
        let request = client().put(url);
        answer(
            request
                .header("Content-Type", "application/json")
                .send(body),
        )
    }

    /// The table, once its index is above `index`.
    pub fn members(&self, index: u64) -> Option<Value> {
        let answer = self.get(&format!("/v1/members?index={index}&wait=10s"))?;
        serde_json::from_str(&answer.body).ok()
    }

    /// The table reduced to the member `name`, once the index is above `index`.
    pub fn row(&self, name: &str, index: u64) -> Option<Value> {
        let path = format!("/v1/members?name={name}&index={index}&wait=10s");
        serde_json::from_str(&self.get(&path)?.body).ok()
    }

    /// Waits until the table satisfies `wanted`, and returns it.
    pub fn wait_for(&self, what: &str, wanted: impl Fn(&Value) -> bool) -> Value {
        let start = Instant::now();
        let mut index = 0;
        let mut last = Value::Null;
        while start.elapsed() < BOUND {
            if let Some(table) = self.members(index) {
                if wanted(&table) {
                    return table;
                }
                index = table["index"].as_u64().unwrap_or(0);
                last = table;
            }
        }
        panic!("{} never saw {what}: {last:#}", self.http);
    }

    /// Waits until `path` is answered with `status`.
    pub fn wait_for_status(&self, path: &str, status: u16) -> Answer {
        poll(path, || {
            self.get(path).filter(|answer| answer.status == status)
        })
    }

    /// The sum of all series of the metric `name` that carry every one of `labels`.
    pub fn metric(&self, name: &str, labels: &[&str]) -> f64 {
        let metrics = self.get("/metrics").expect("it serves").body;
        let series =
            |line: &&str| line.starts_with(name) && labels.iter().all(|label| line.contains(label));
        let value = |line: &str| line.rsplit(' ').next()?.parse::<f64>().ok();
        metrics.lines().filter(series).filter_map(value).sum()
    }

    /// Sends it a signal.
    pub fn signal(&self, signal: Signal) {
        let pid = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw);
        kill_process(pid.expect("a process number"), signal).expect("it is ours and runs");
    }

    /// Ends it without notice.
    pub fn kill(&mut self) {
        self.child.kill().expect("it is ours");
        self.child.wait().expect("it was killed");
    }

    /// Waits until it has ended by itself.
    pub fn wait_for_end(&mut self) -> ExitStatus {
        let child = &mut self.child;
        poll("the end of the process", || {
            child.try_wait().expect("it is ours")
        })
    }

    /// Sends bytes to its gossip port.
    pub fn send_datagram(&self, payload: &[u8]) {
        let socket = UdpSocket::bind("127.0.0.1:0").expect("a free port");
        socket
            .send_to(payload, &self.gossip)
            .expect("loopback takes it");
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Asks `question` until it has an answer.
pub fn poll<T>(what: &str, mut question: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    while start.elapsed() < BOUND {
        if let Some(answer) = question() {
            return answer;
        }
        thread::sleep(Duration::from_millis(5));
    }
    panic!("never: {what}");
}

/// How many members have `status`.
pub fn count(table: &Value, status: &str) -> u64 {
    table["counts"][status].as_u64().unwrap_or(0)
}

/// The member called `name`; null when it is not listed.
pub fn member<'a>(table: &'a Value, name: &str) -> &'a Value {
    let members = table["members"].as_array();
    members
        .and_then(|members| members.iter().find(|member| member["name"] == name))
        .unwrap_or(&Value::Null)
}

fn client() -> ureq::Agent {
    let config = ureq::Agent::config_builder()
        .timeout_global(Some(Duration::from_secs(20)))
        .http_status_as_error(false);
    ureq::Agent::new_with_config(config.build())
}

fn answer(result: Result<ureq::http::Response<ureq::Body>, ureq::Error>) -> Option<Answer> {
    let mut response = result.ok()?;
    let status = response.status().as_u16();
    Some(Answer {
        status,
        body: response.body_mut().read_to_string().ok()?,
    })
}
