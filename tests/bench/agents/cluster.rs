//! A cluster of agents, and what is measured on it.

use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::Value;

use crate::agent::{Agent, BOUND, Starting, count, member};
use crate::usage::Usage;

/// Until every watching request has reached its agent and the last change has calmed down.
const QUIET: Duration = Duration::from_millis(700);
/// Longer than it takes from a resumption to the verdict of a case that was not dropped.
const AFTER_PAUSE: Duration = Duration::from_secs(3);

/// Running agents; the first is the one that the others joined through.
pub struct Cluster {
    agents: Vec<Agent>,
    profile: String,
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
    /// Starts `nodes` agents with this profile; the seconds from the start of the last process until every table
    /// shows all alive.
    pub fn start(nodes: usize, profile: &str) -> (Self, f64) {
        let first = Agent::start("n1", &["--cluster", "bench", "--profile", profile]);
        let join = first.gossip.clone();
        let starting: Vec<Starting> = (2..=nodes)
            .map(|number| spawn(&format!("n{number}"), &join, profile))
            .collect();
        let started = Instant::now();
        let mut agents = vec![first];
        agents.extend(starting.into_iter().map(Starting::ready));
        let profile = profile.to_owned();
        let cluster = Cluster { agents, profile };
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
        let kill = || agent.kill();
        let took = all_show(&self.agents, &name, kill, &|row| {
            status(row, &name) == "dead"
        });
        self.start_again(&name);
        took
    }

    /// Has the agent whose turn it is stand still for `length`, and then the cluster calm down; how
    /// many verdicts of death the agents have seen meanwhile.
    pub fn pause_one(&self, turn: usize, length: Duration) -> u64 {
        let before = self.deaths();
        let paused = &self.agents[turn * 7 % self.agents.len()];
        paused.signal(Signal::STOP);
        thread::sleep(length);
        paused.signal(Signal::CONT);
        // Longer than a case that was opened meanwhile takes to its verdict.
        thread::sleep(AFTER_PAUSE);
        self.deaths() - before
    }

    /// Members that were ever dead in a table, over all tables.
    fn deaths(&self) -> u64 {
        let label = ["kind=\"member-dead\""];
        let seen = |agent: &Agent| agent.metric("rumord_events_total", &label) as u64;
        self.agents.iter().map(seen).sum()
    }

    /// Kills one agent and starts it again at once; the seconds from its start until every other
    /// table shows it alive with another generation.
    pub fn restart_one(&mut self) -> f64 {
        let name = format!("n{}", self.agents.len());
        let before = self.agents[0]
            .row(&name, 0)
            .map(|row| generation(&row, &name));
        self.agents.pop().expect("there are several").kill();
        let (join, mut again) = (self.agents[0].gossip.clone(), None);
        let start = || again = Some(spawn(&name, &join, &self.profile));
        let took = all_show(&self.agents, &name, start, &|row| {
            status(row, &name) == "alive" && Some(generation(row, &name)) != before
        });
        self.agents.extend(again.map(Starting::ready));
        took
    }

    /// Has one agent leave; the seconds from the request until every other table shows it left. It
    /// is started again.
    pub fn leave_one(&mut self) -> f64 {
        let name = format!("n{}", self.agents.len());
        let mut agent = self.agents.pop().expect("there are several");
        let leave = || {
            let answer = agent.post("/v1/leave", "{}").expect("it serves");
            assert_eq!(answer.status, 202, "{}", answer.body);
        };
        let took = all_show(&self.agents, &name, leave, &|row| {
            status(row, &name) == "left"
        });
        agent.wait_for_end();
        self.start_again(&name);
        took
    }

    /// Changes a tag of the agent whose turn it is; the seconds from the request until every table
    /// shows it.
    pub fn tag_one(&self, change: usize) -> f64 {
        let owner = change * 7 % self.agents.len();
        let (name, value) = (format!("n{}", owner + 1), format!("v{change}"));
        let body = format!("{{\"color\":\"{value}\"}}");
        let tag = || {
            let answer = self.agents[owner]
                .put("/v1/self/tags", &body)
                .expect("it serves");
            assert_eq!(answer.status, 200, "{}", answer.body);
        };
        all_show(&self.agents, &name, tag, &|row| {
            member(row, &name)["tags"]["color"] == value.as_str()
        })
    }

    fn start_again(&mut self, name: &str) {
        let started = Instant::now();
        let join = self.agents[0].gossip.clone();
        self.agents.push(spawn(name, &join, &self.profile).ready());
        let nodes = self.agents.len() as u64;
        self.wait_all(started, &|table| count(table, "alive") == nodes);
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

/// Does `act` while every agent is being watched; the seconds from its beginning until the row of
/// the member `name` is as `wanted` in the tables of all.
fn all_show(
    agents: &[Agent],
    name: &str,
    act: impl FnOnce(),
    wanted: &(dyn Fn(&Value) -> bool + Sync),
) -> f64 {
    let watched = &Barrier::new(agents.len() + 1);
    thread::scope(|scope| {
        let waits: Vec<_> = agents
            .iter()
            .map(|agent| scope.spawn(move || watch(agent, name, watched, wanted)))
            .collect();
        watched.wait();
        thread::sleep(QUIET);
        let started = Instant::now();
        act();
        waits
            .into_iter()
            .map(|wait| wait.join().expect("it showed what was wanted"))
            .map(|shown| shown.saturating_duration_since(started).as_secs_f64())
            .fold(0.0, f64::max)
    })
}

/// When the row of `name` became as `wanted`. Follows the table from before `watched` is passed.
fn watch(
    agent: &Agent,
    name: &str,
    watched: &Barrier,
    wanted: &(dyn Fn(&Value) -> bool + Sync),
) -> Instant {
    let index = |table: &Value| table["index"].as_u64().unwrap_or(0);
    let mut seen = agent.row(name, 0).map_or(0, |table| index(&table));
    watched.wait();
    let started = Instant::now();
    loop {
        if let Some(table) = agent.row(name, seen) {
            if wanted(&table) {
                return Instant::now();
            }
            seen = index(&table);
        }
        assert!(
            started.elapsed() < BOUND,
            "{} never showed what was wanted of {name}",
            agent.http
        );
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

fn spawn(name: &str, join: &str, profile: &str) -> Starting {
    let arguments = ["--cluster", "bench", "--profile", profile, "--join", join];
    Starting::spawn(name, &arguments)
}

fn status<'a>(table: &'a Value, name: &str) -> &'a str {
    member(table, name)["status"].as_str().unwrap_or("unknown")
}

fn generation(table: &Value, name: &str) -> u64 {
    member(table, name)["generation"].as_u64().unwrap_or(0)
}
