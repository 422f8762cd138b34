//! Embedded nodes over real sockets, in one process.

use std::net::{Ipv6Addr, SocketAddr};
use std::time::Duration;

use rumord::member::{Generation, NodeId, Status};
use rumord::node::{Node, Options, start};
use rumord::protocol::JoinOutcome;
use tokio::time::timeout;

/// Far more than anything here takes; reaching it is a failure, not a measurement.
pub const BOUND: Duration = Duration::from_secs(60);

pub async fn node(name: &str, id: u64, join: &[&Node]) -> Node {
    node_on(SocketAddr::from(([127, 0, 0, 1], 0)), name, id, join).await
}

async fn node_on(bind: SocketAddr, name: &str, id: u64, join: &[&Node]) -> Node {
    let name = name.parse().expect("a valid name");
    let mut options = Options::new(name, Generation(1_700_000_000), NodeId(id));
    options.bind = bind;
    options.join = join
        .iter()
        .map(|node| node.snapshot().node.bound.to_string())
        .collect();
    start(options).await.expect("loopback sockets are free")
}

/// Waits until `node` shows `count` members of `status`.
pub async fn wait_for(node: &Node, status: Status, count: usize) {
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

#[tokio::test]
async fn nodes_find_each_other_over_ipv6() {
    let bind = SocketAddr::from((Ipv6Addr::LOCALHOST, 0));
    let first = node_on(bind, "n1", 1, &[]).await;
    let second = node_on(bind, "n2", 2, &[&first]).await;
    for node in [&first, &second] {
        wait_for(node, Status::Alive, 2).await;
    }
}

#[tokio::test]
async fn all_agree_soon_after_a_change() {
    let first = node("n1", 1, &[]).await;
    let second = node("n2", 2, &[&first]).await;
    let third = node("n3", 3, &[&second]).await;
    for node in [&first, &second, &third] {
        wait_for(node, Status::Alive, 3).await;
        let pause = Duration::from_millis(100);
        let mut converged = node.await_agreement(BOUND, pause).await.expect("it runs");
        let agreed = converged.wait_for(|converged| *converged);
        timeout(BOUND, agreed)
            .await
            .expect("in time")
            .expect("it runs");
        let agreement = node.snapshot().agreement.clone();
        assert_eq!((agreement.alive, agreement.agree), (3, 3));
    }
}

/// The last handle is the node's life: without it nobody could ever stop it.
#[tokio::test]
async fn a_node_stops_with_its_last_handle() {
    let first = node("n1", 1, &[]).await;
    let address = first.snapshot().node.bound;
    let mut changes = first.changes();
    drop(first);
    let stopped = async { while changes.changed().await.is_ok() {} };
    timeout(BOUND, stopped).await.expect("it stops");
    node_on(address, "n1", 1, &[]).await;
}

#[tokio::test]
async fn a_join_says_how_each_address_answered() {
    let first = node("n1", 1, &[]).await;
    let second = node("n2", 2, &[]).await;
    let address = |node: &Node| node.snapshot().node.bound.to_string();
    let closed = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    let nobody = closed.local_addr().expect("bound").to_string();
    drop(closed);
    let asked = vec![address(&first), address(&second), nobody.clone()];
    let results = second.join(asked).await.expect("it runs");
    let outcome = |wanted: &str| {
        let result = results.iter().find(|result| result.address == wanted);
        result
            .expect("every address is answered")
            .outcome
            .clone()
            .expect("resolved")
    };
    assert!(matches!(
        outcome(&address(&first)),
        JoinOutcome::Joined { .. }
    ));
    assert_eq!(outcome(&address(&second)), JoinOutcome::Itself);
    assert_eq!(outcome(&nobody), JoinOutcome::Unreachable);
    wait_for(&first, Status::Alive, 2).await;
}
