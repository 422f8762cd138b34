//! One node of the cluster: a child process that ends with its parent.

use std::ffi::OsString;
use std::io::{self, BufRead, BufReader};
use std::net::SocketAddr;
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::Sender;
use std::thread;
use std::time::{Duration, Instant};

use super::Happening;
use crate::daemon::ready::Ready;

/// Pause between two looks at whether a child has exited.
const LOOK_PAUSE: Duration = Duration::from_millis(10);

/// A running node.
pub(super) struct Node {
    /// Its number in the cluster, from 0.
    pub(super) number: usize,
    /// What it said when it served; `None` before.
    pub(super) ready: Option<Ready>,
    process: Child,
    /// Its leash: the node leaves when this is closed, also by the end of this process.
    stdin: Option<ChildStdin>,
}

/// What the node is started with.
pub(super) struct Plan<'a> {
    /// Its number in the cluster, from 0.
    pub(super) number: usize,
    /// Where it serves HTTP.
    pub(super) http: SocketAddr,
    /// The gossip address it joins through.
    pub(super) join: Option<&'a Ready>,
}

impl Node {
    /// Starts the node; what it prints, and its end, are told through `happens`.
    ///
    /// # Errors
    /// The program cannot be started again.
    pub(super) fn start(plan: &Plan<'_>, happens: Sender<Happening>) -> io::Result<Self> {
        let mut command = Command::new(std::env::current_exe()?);
        command.args(arguments(plan));
        // Settings of the surrounding shell, such as a data directory, are not for all of them.
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("RUMORD_") {
                command.env_remove(name);
            }
        }
        // Its own group: Ctrl-C is for this process, which then ends the children in order.
        command
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        let mut process = command.spawn()?;
        let stdin = process.stdin.take();
        let node = Node {
            number: plan.number,
            ready: None,
            process,
            stdin,
        };
        node.listen(happens)
    }

    fn listen(mut self, happens: Sender<Happening>) -> io::Result<Self> {
        let child = self.number;
        if let Some(stdout) = self.process.stdout.take() {
            let read = move || {
                for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                    let _ = happens.send(Happening::Said { child, line });
                }
                let _ = happens.send(Happening::Ended { child });
            };
            thread::Builder::new()
                .name(format!("n{}", child + 1))
                .spawn(read)?;
        }
        Ok(self)
    }

    /// Its process id.
    pub(super) fn pid(&self) -> u32 {
        self.process.id()
    }

    /// Asks it to leave.
    pub(super) fn release(&mut self) {
        self.stdin = None;
    }

    /// Its exit status once it has exited; `None` when it has not until `deadline`.
    pub(super) fn exited(&mut self, deadline: Instant) -> Option<ExitStatus> {
        loop {
            if let Ok(Some(status)) = self.process.try_wait() {
                return Some(status);
            }
            if Instant::now() >= deadline {
                return None;
            }
            thread::sleep(LOOK_PAUSE);
        }
    }

    /// Ends it at once.
    pub(super) fn kill(&mut self) {
        // Fails only when it has exited already.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        self.kill();
    }
}

fn arguments(plan: &Plan<'_>) -> Vec<OsString> {
    let name = format!("n{}", plan.number + 1);
    let http = plan.http.to_string();
    let mut words = vec![
        "agent",
        "--name",
        &name,
        "--cluster",
        "dev",
        "--bind",
        "127.0.0.1:0",
        "--http",
        &http,
        "--stop-on-stdin-eof",
        "--log-level",
        "error",
    ];
    let join = plan.join.map(|ready| ready.gossip.to_string());
    if let Some(address) = &join {
        words.extend(["--join", address]);
    }
    words.into_iter().map(OsString::from).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn later_nodes_join_through_the_first() {
        let first = "ready name=n1 gossip=127.0.0.1:4000 http=off"
            .parse()
            .expect("valid");
        let http = "127.0.0.1:0".parse().expect("valid");
        let words = arguments(&Plan {
            number: 1,
            http,
            join: Some(&first),
        });
        let line = words.join(" ".as_ref()).into_string().expect("text");
        assert_eq!(
            line,
            "agent --name n2 --cluster dev --bind 127.0.0.1:0 --http 127.0.0.1:0 \
             --stop-on-stdin-eof --log-level error --join 127.0.0.1:4000"
        );
    }
}
