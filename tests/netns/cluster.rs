//! Clusters of one agent on each host of a network, and what all of them must show.

use std::thread;
use std::time::Duration;

use crate::agent::count;
use crate::lab::{Lab, v4};

/// Longer than silence takes to become a death: what was going to be accused has been by then.
const LONGER_THAN_A_DEATH: Duration = Duration::from_secs(8);

/// Agents n1 to n`hosts`, each joined through the first two, once all see all.
pub fn cluster(hosts: usize) -> Lab {
    let mut lab = Lab::new(hosts);
    let (first, second) = (v4(1).to_string(), v4(2).to_string());
    for (host, number) in lab.hosts.iter_mut().zip(1..) {
        let name = format!("n{number}");
        host.start(&name, &["--join", &first, "--join", &second]);
    }
    all_alive(&lab);
    lab
}

/// Waits until all tables show all agents alive and nobody else.
pub fn all_alive(lab: &Lab) {
    let agents = lab.hosts.iter().filter(|host| host.runs()).count();
    alive(lab, agents);
}

/// Waits until the tables of all agents show `members` alive and nobody else.
pub fn alive(lab: &Lab, members: usize) {
    let whole = |table: &serde_json::Value| {
        count(table, "alive") == members as u64
            && table["members"]
                .as_array()
                .is_some_and(|rows| rows.len() == members)
    };
    lab.on_all(|host| {
        if host.runs() {
            host.wait_for("all alive", whole);
        }
    });
}

/// Waits for longer than a death takes, and until all are alive.
pub fn calm(lab: &Lab) {
    thread::sleep(LONGER_THAN_A_DEATH);
    all_alive(lab);
}

/// Watches for longer than a death takes: nobody must have been declared dead by any agent, and
/// all be alive.
pub fn nobody_dies(lab: &Lab) {
    calm(lab);
    for host in lab.hosts.iter().filter(|host| host.runs()) {
        assert_eq!(host.events("member-dead"), 0, "{:#}", host.table());
    }
}
