//! What a quiet cluster costs.

use crate::stage::{seconds, sent, settled};

/// IP and UDP headers of one datagram.
const HEADERS: u64 = 28;

#[test]
fn an_idle_cluster_costs_little() {
    for count in [5, 20, 100] {
        let (mut world, _) = settled(1, count);
        let before = sent(&world);
        world.run_for(seconds(100.0));
        let after = sent(&world);
        let per_node = |total: u64| total as f64 / 100.0 / count as f64;
        let messages = per_node(after.0 - before.0);
        let bytes = per_node(after.1 - before.1 + HEADERS * (after.0 - before.0));
        println!("idle, N = {count}: {messages:.2} messages, {bytes:.0} bytes per node and second");
        assert!(messages < 2.5, "N = {count}: {messages}");
        assert!(bytes < 400.0, "N = {count}: {bytes}");
    }
}
