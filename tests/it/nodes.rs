//! Embedded nodes over real sockets, in one process.

use std::time::Duration;

use rumord::member::{Generation, NodeId, Status};
use rumord::node::{Node, Options, start};
use tokio::time::timeout;

/// Far more than anything here takes; reaching it is a failure, not a measurement.
const BOUND: Duration = Duration::from_secs(60);

async fn node(name: &str, id: u64, join: &[&Node]) -> Node {
    let name = name.parse().expect("a valid name");
    let mut options = Options::new(name, Generation(1_700_000_000), NodeId(id));
    options.join = join
        .iter()
        .map(|node| node.snapshot().node.bound.to_string())
        .collect();
    start(options).await.expect("loopback sockets are free")
}

/// Waits until `node` shows `count` members of `status`.
async fn wait_for(node: &Node, status: Status, count: usize) {
    let mut changes = node.changes();
    let reached = async {
        while node.snapshot().count(status) != count {
            changes.changed().await.expect("the node runs");
        }
    };
    timeout(BOUND, reached)
        .await
        .unwrap_or_else(|_| panic!("never {count} {status}"));
}

#[tokio::test]
async fn nodes_find_each_other_and_leave() {
    let first = node("n1", 1, &[]).await;
    let second = node("n2", 2, &[&first]).await;
    let third = node("n3", 3, &[&first]).await;
    for node in [&first, &second, &third] {
        wait_for(node, Status::Alive, 3).await;
    }
    let report = third.leave().await.expect("it runs");
    assert_eq!((report.acknowledged, report.expected), (2, 2));
    timeout(BOUND, third.stopped())
        .await
        .expect("a node that has left stops");
    for node in [&first, &second] {
        wait_for(node, Status::Left, 1).await;
    }
}
