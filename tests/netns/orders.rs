//! Join lists that name every node, the node itself included, in all orders of starting.

use std::thread;
use std::time::Duration;

use crate::cluster::all_alive;
use crate::lab::{Lab, v4};

const ORDERS: [[usize; 3]; 6] = [
    [1, 2, 3],
    [1, 3, 2],
    [2, 1, 3],
    [2, 3, 1],
    [3, 1, 2],
    [3, 2, 1],
];
/// Pauses between the starts: at once, and long enough for a node to have found nobody.
const PAUSES: [Duration; 3] = [
    Duration::ZERO,
    Duration::from_millis(700),
    Duration::from_secs(2),
];

/// hashicorp/consul#2868, akka/akka#25820, grafana/agent#4465: joining oneself counted as success,
/// and nodes that started together made two clusters that never met.
pub fn lists_with_oneself_make_one_cluster_in_every_order() {
    let lists: Vec<String> = (1..=3).map(|number| v4(number).to_string()).collect();
    let mut arguments = Vec::new();
    lists
        .iter()
        .for_each(|address| arguments.extend(["--join", address]));
    thread::scope(|scope| {
        for (order, pause) in ORDERS.iter().zip(PAUSES.iter().cycle()) {
            let arguments = &arguments;
            scope.spawn(move || {
                let mut lab = Lab::new(3);
                for number in order {
                    lab.hosts[number - 1].start(&format!("n{number}"), arguments);
                    thread::sleep(*pause);
                }
                all_alive(&lab);
                for host in &lab.hosts {
                    assert_eq!(host.get("/readyz").status, 200);
                }
            });
        }
    });
}
