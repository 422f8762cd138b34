//! A host: its namespace, its packet filter, and at most one agent.

use std::process::{Command, Output};

use serde_json::Value;

use crate::agent::{Agent, Answer, Starting, member};
use crate::lab::Space;
use crate::tools;

/// One host of a network.
pub struct Host {
    // Before the namespace: an agent ends before its network.
    agent: Option<Agent>,
    space: Space,
    wrapper: Vec<String>,
}

impl Host {
    /// A host without an agent.
    pub fn new(space: Space) -> Self {
        Host {
            agent: None,
            space,
            wrapper: Vec::new(),
        }
    }

    /// Starts its agent and waits until it serves.
    pub fn start(&mut self, name: &str, arguments: &[&str]) {
        let mut all = vec!["--cluster", "lab"];
        if !arguments.contains(&"--bind") {
            all.extend(["--bind", "0.0.0.0:7480"]);
        }
        all.extend(arguments);
        let wrapper: Vec<&str> = self.wrapper.iter().map(String::as_str).collect();
        let starting = || Starting::spawn_by(&wrapper, name, &all).ready();
        self.agent = Some(self.space.inside(starting));
    }

    /// Its agent will ask the name server at `server`, named by a `file` that is written for it.
    pub fn use_name_server(&mut self, server: &str, file: &str) {
        let text = format!("nameserver {server}\noptions timeout:1 attempts:1\n");
        std::fs::write(file, text).expect("the directory is ours");
        let script = format!("mount --bind {file} /etc/resolv.conf && exec \"$@\"");
        let wrapper = ["unshare", "--mount", "--", "sh", "-c", &script, "sh"];
        self.wrapper = wrapper.map(str::to_owned).to_vec();
    }

    /// Kills its agent, if it runs one.
    pub fn kill(&mut self) {
        self.agent = None;
    }

    /// Whether it runs an agent.
    pub fn runs(&self) -> bool {
        self.agent.is_some()
    }

    /// Does `work` with the agent, inside the namespace.
    pub fn ask<T: Send>(&self, work: impl FnOnce(&Agent) -> T + Send) -> T {
        let agent = self.agent.as_ref().expect("the host runs an agent");
        self.space.inside(|| work(agent))
    }

    /// Does `work` inside the namespace.
    pub fn inside<T: Send>(&self, work: impl FnOnce() -> T + Send) -> T {
        self.space.inside(work)
    }

    /// Waits until the agent's table satisfies `wanted`.
    pub fn wait_for(&self, what: &str, wanted: impl Fn(&Value) -> bool + Send) -> Value {
        self.ask(|agent| agent.wait_for(what, wanted))
    }

    /// The table as it is.
    pub fn table(&self) -> Value {
        self.ask(|agent| agent.members(0)).expect("it serves")
    }

    /// `GET path`.
    pub fn get(&self, path: &str) -> Answer {
        self.ask(|agent| agent.get(path)).expect("it serves")
    }

    /// How often a change of `kind` was an event.
    pub fn events(&self, kind: &str) -> u64 {
        let label = format!("kind=\"{kind}\"");
        self.ask(|agent| agent.metric("rumord_events_total", &[&label])) as u64
    }

    /// Runs `rumord` as a client of its agent.
    pub fn client(&self, arguments: &[&str]) -> Output {
        self.ask(|agent| {
            Command::new(env!("CARGO_BIN_EXE_rumord"))
                .args(arguments)
                .env("RUMORD_HTTP", format!("http://{}", agent.http))
                .output()
                .expect("the program starts")
        })
    }

    /// Runs lines of `ip`.
    pub fn ip(&self, script: &str) {
        self.space
            .inside(|| tools::run("ip", &["-batch", "-"], script));
    }

    /// Filters what arrives by `rules` of nftables, in the place of earlier ones. What leaves is
    /// never dropped: no network tells the sender.
    pub fn filter(&self, rules: &str) {
        self.nft(&format!(
            "table inet faults {{\n}}\ndelete table inet faults\n\
             table inet faults {{\nchain arriving {{\n\
             type filter hook input priority 0; policy accept;\n{rules}\n}}\n}}\n"
        ));
    }

    /// Takes the filter away.
    pub fn mend(&self) {
        self.nft("delete table inet faults\n");
    }

    /// Runs a script of nftables.
    pub fn nft(&self, script: &str) {
        self.space
            .inside(|| tools::run("nft", &["-f", "-"], script));
    }
}

/// The status of the member called `name`.
pub fn status(table: &Value, name: &str) -> String {
    let word = member(table, name)["status"].as_str();
    word.unwrap_or("unknown").to_owned()
}
