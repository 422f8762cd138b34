//! A cluster of agents, and what is measured on it.

use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::agent::{Agent, BOUND, Starting, count, member};
use crate::usage::Usage;

/// Running agents; the first is the one that the others joined through.
pub struct Cluster {
    agents: Vec<Agent>,
}

/// Cost per agent and second.
pub struct Idle {
    /// CPU.
    pub cpu_ms_per_second: f64,
    /// Memory, at the end.
    pub resident_mib: f64,
    /// UDP with headers.
    pub udp_bytes_per_second: f64,
    /// TCP payload.
    pub tcp_bytes_per_second: f64,
}

impl Cluster {
    /// Starts `nodes` agents; the seconds from the start of the last process until every table
    /// shows all alive.
    pub fn start(nodes: usize) -> (Self, f64) {
        let first = Agent::start("n1", &["--cluster", "bench"]);
        let join = first.gossip.clone();
        let starting: Vec<Starting> = (2..=nodes)
            .map(|number| spawn(&format!("n{number}"), &join))
            .collect();
        let started = Instant::now();
        let mut agents = vec![first];
        agents.extend(starting.into_iter().map(Starting::ready));
        let cluster = Cluster { agents };
        let took = cluster.wait_all(started, &|table| count(table, "alive") == nodes as u64);
        (cluster, took)
    }

    /// Kills one agent after it has been a member for `age`; the seconds until it is dead in every
    /// other table. It is started again.
    pub fn kill_one(&mut self, age: Duration) -> f64 {
        thread::sleep(age);
        let victim = self.agents.len() - 1;
        let name = format!("n{}", victim + 1);
        let mut agent = self.agents.remove(victim);
        let killed = Instant::now();
        agent.kill();
        let took = self.wait_all(killed, &|table| status(table, &name) == "dead");
        self.start_again(&name);
        took
    }

    /// Kills one agent and starts it again at once; the seconds from its start until every table
    /// shows it alive with another generation.
    pub fn restart_one(&mut self) -> f64 {
        let victim = self.agents.len() - 1;
        let name = format!("n{}", victim + 1);
        let before = self.agents[0]
            .members(0)
            .map(|table| generation(&table, &name));
        self.agents.remove(victim).kill();
        self.start_again_after(&name, before)
    }

    fn start_again(&mut self, name: &str) {
        self.start_again_after(name, None);
    }

    fn start_again_after(&mut self, name: &str, before: Option<u64>) -> f64 {
        let started = Instant::now();
        let join = self.agents[0].gossip.clone();
        self.agents.push(spawn(name, &join).ready());
        let nodes = self.agents.len() as u64;
        self.wait_all(started, &|table| {
            count(table, "alive") == nodes && Some(generation(table, name)) != before
        })
    }

    /// Waits until the table of every agent satisfies `wanted`; the seconds since `start`.
    fn wait_all(&self, start: Instant, wanted: &(dyn Fn(&Value) -> bool + Sync)) -> f64 {
        thread::scope(|scope| {
            let waits: Vec<_> = self
                .agents
                .iter()
                .map(|agent| scope.spawn(move || wait(agent, start, wanted)))
                .collect();
            waits
                .into_iter()
                .map(|wait| wait.join().expect("it reached what was wanted"))
                .fold(0.0, f64::max)
        })
    }

    /// Leaves the cluster alone for `length`, and says what it cost.
    pub fn idle(&self, length: Duration) -> Idle {
        // Let the traces of the last restart die away first.
        thread::sleep(Duration::from_secs(3));
        let before: Vec<_> = self.agents.iter().map(Usage::of).collect();
        thread::sleep(length);
        let after: Vec<_> = self.agents.iter().map(Usage::of).collect();
        let mean =
            |of: &dyn Fn(usize) -> f64| (0..after.len()).map(of).sum::<f64>() / after.len() as f64;
        let seconds = length.as_secs_f64();
        Idle {
            cpu_ms_per_second: mean(&|n| after[n].cpu_ms - before[n].cpu_ms) / seconds,
            resident_mib: mean(&|n| after[n].resident_mib),
            udp_bytes_per_second: mean(&|n| after[n].udp_bytes - before[n].udp_bytes) / seconds,
            tcp_bytes_per_second: mean(&|n| after[n].tcp_bytes - before[n].tcp_bytes) / seconds,
        }
    }
}

fn wait(agent: &Agent, start: Instant, wanted: &(dyn Fn(&Value) -> bool + Sync)) -> f64 {
    let mut index = 0;
    loop {
        if let Some(table) = agent.members(index) {
            if wanted(&table) {
                return start.elapsed().as_secs_f64();
            }
            index = table["index"].as_u64().unwrap_or(0);
        }
        assert!(
            start.elapsed() < BOUND,
            "{} never saw what was wanted",
            agent.http
        );
    }
}

fn spawn(name: &str, join: &str) -> Starting {
    Starting::spawn(name, &["--cluster", "bench", "--join", join])
}

fn status<'a>(table: &'a Value, name: &str) -> &'a str {
    member(table, name)["status"].as_str().unwrap_or("unknown")
}

fn generation(table: &Value, name: &str) -> u64 {
    member(table, name)["generation"].as_u64().unwrap_or(0)
}
