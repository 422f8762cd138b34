//! The children as a whole: started in order, introduced, ended together.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::mpsc::{Receiver, Sender};
use std::time::{Duration, Instant};

use super::Happening;
use super::child::{Node, Plan};
use crate::cli::client::Client;
use crate::cli::table::align;
use crate::cli::{EXIT_FAILED, Failure};
use crate::daemon::ready::Ready;

/// How long a node may take to serve.
const START_TIMEOUT: Duration = Duration::from_secs(20);
/// How long leaving may take; nodes give themselves five seconds.
const END_TIMEOUT: Duration = Duration::from_secs(8);
/// How long a process may take to exit after it closed its stdout.
const EXIT_TIMEOUT: Duration = Duration::from_secs(5);

/// Running nodes by number.
#[derive(Default)]
pub(super) struct Cluster {
    nodes: BTreeMap<usize, Node>,
}

impl Cluster {
    /// Starts the first node, then the others, which join through it. False when the user
    /// interrupted it.
    ///
    /// # Errors
    /// A node cannot be started, or does not serve.
    pub(super) fn start(
        &mut self,
        count: u16,
        http: SocketAddr,
        happens: &Sender<Happening>,
        happenings: &Receiver<Happening>,
    ) -> Result<bool, Failure> {
        let deadline = Instant::now() + START_TIMEOUT;
        self.add(
            &Plan {
                number: 0,
                http,
                join: None,
            },
            happens,
        )?;
        if !self.await_ready(happenings, deadline)? {
            return Ok(false);
        }
        let first = self.nodes.get(&0).and_then(|node| node.ready.clone());
        let any_port = SocketAddr::from(([127, 0, 0, 1], 0));
        for number in 1..usize::from(count) {
            self.add(
                &Plan {
                    number,
                    http: any_port,
                    join: first.as_ref(),
                },
                happens,
            )?;
        }
        self.await_ready(happenings, deadline)
    }

    fn add(&mut self, plan: &Plan<'_>, happens: &Sender<Happening>) -> Result<(), Failure> {
        let node = Node::start(plan, happens.clone()).map_err(|error| {
            Failure::new(
                EXIT_FAILED,
                format!("cannot start n{} ({error})", plan.number + 1),
            )
        })?;
        self.nodes.insert(plan.number, node);
        Ok(())
    }

    /// Waits until every node serves. False when the user interrupted it.
    fn await_ready(
        &mut self,
        happenings: &Receiver<Happening>,
        deadline: Instant,
    ) -> Result<bool, Failure> {
        while self.nodes.values().any(|node| node.ready.is_none()) {
            let left = deadline.saturating_duration_since(Instant::now());
            match happenings.recv_timeout(left) {
                Ok(Happening::Said { child, line }) => self.note(child, &line),
                Ok(Happening::Ended { child }) => {
                    let message = format!("{}; its message is above", self.reap(child).trim_end());
                    return Err(Failure::new(EXIT_FAILED, message));
                }
                Ok(Happening::Interrupted) => return Ok(false),
                Ok(Happening::Changed(_)) => {}
                Err(_) => {
                    let message = "a node did not serve within 20 s; the machine may be too busy";
                    return Err(Failure::new(EXIT_FAILED, message));
                }
            }
        }
        Ok(true)
    }

    fn note(&mut self, child: usize, line: &str) {
        if let (Some(node), Ok(ready)) = (self.nodes.get_mut(&child), line.parse()) {
            node.ready = Some(ready);
        }
    }

    /// Whether every node has exited.
    pub(super) fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// A client of every node's HTTP, by number.
    pub(super) fn clients(&self) -> BTreeMap<usize, Client> {
        let client = |(number, node): (&usize, &Node)| Some((*number, client(node)?));
        self.nodes.iter().filter_map(client).collect()
    }

    /// Who runs where, and what to try.
    pub(super) fn introduction(&self) -> String {
        let mut rows = vec![["NAME", "PID", "GOSSIP", "HTTP"].map(str::to_owned)];
        for node in self.nodes.values() {
            let Some(ready) = &node.ready else { continue };
            let http = ready
                .http
                .map_or("off".into(), |address| address.to_string());
            let pid = node.pid().to_string();
            rows.push([ready.name.to_string(), pid, ready.gossip.to_string(), http]);
        }
        let mut text = align(&rows);
        if let Some(client) = self.nodes.get(&0).and_then(client) {
            text.push_str(&format!("\n{}\n", client.url("/v1/members")));
        }
        if let Some(last) = self.nodes.values().next_back() {
            text.push_str(&format!("try: kill -9 {}\n", last.pid()));
        }
        text.push('\n');
        text
    }

    /// Takes note of a node's end and says how it ended.
    pub(super) fn reap(&mut self, child: usize) -> String {
        let Some(mut node) = self.nodes.remove(&child) else {
            return String::new();
        };
        let pid = node.pid();
        let how = match node.exited(Instant::now() + EXIT_TIMEOUT) {
            Some(status) => status.to_string(),
            None => "its stdout closed, but it runs; it is killed".into(),
        };
        format!("n{} (pid {pid}) has ended: {how}\n", child + 1)
    }

    /// Asks every node to leave, waits, kills those that have not by then, and says how many.
    pub(super) fn end(&mut self) -> String {
        let deadline = Instant::now() + END_TIMEOUT;
        self.nodes.values_mut().for_each(Node::release);
        let mut killed = 0;
        for (_, mut node) in std::mem::take(&mut self.nodes) {
            if node.exited(deadline).is_none() {
                node.kill();
                killed += 1;
            }
        }
        match killed {
            0 => "all nodes have left\n".into(),
            _ => format!("{killed} nodes did not leave in time and were killed\n"),
        }
    }
}

fn client(node: &Node) -> Option<Client> {
    let address = node.ready.as_ref().and_then(|ready: &Ready| ready.http)?;
    Some(Client::new(format!("http://{address}")))
}
