//! Embedded nodes over real sockets, in one process.

use std::net::{Ipv6Addr, SocketAddr};
use std::time::Duration;

use rumord::member::{
    Delivery, EVENT_PAYLOAD_BYTES_MAX, EventKey, EventName, EventRef, Generation, NodeId, Status,
};
use rumord::node::{AcceptError, Draft, Logged, Node, Options, PublishError, start};
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

fn draft(key: Option<u8>, payload: &[u8]) -> Draft {
    Draft {
        delivery: Delivery::AtLeastOnce,
        key: key.map(|byte| EventKey([byte; 16])),
        name: EventName::new("deploy").expect("valid"),
        payload: payload.to_vec(),
    }
}

#[tokio::test]
async fn a_program_sends_events_and_learns_who_has_them() {
    let first = node("n1", 1, &[]).await;
    let second = node("n2", 2, &[&first]).await;
    wait_for(&first, Status::Alive, 2).await;
    wait_for(&second, Status::Alive, 2).await;
    let sent = first.publish(draft(Some(7), b"v1")).await.expect("ready");
    assert_eq!(first.publish(draft(Some(7), b"v1")).await, Ok(sent.clone()));
    let reused = Err(PublishError::Store(AcceptError::KeyReused));
    assert_eq!(first.publish(draft(Some(7), b"v2")).await, reused);
    let large = vec![0; EVENT_PAYLOAD_BYTES_MAX + 1];
    let refused = first.publish(draft(None, &large)).await;
    assert!(
        matches!(refused, Err(PublishError::Event(_))),
        "{refused:?}"
    );
    let arrived = async {
        let mut changes = second.events().changes();
        loop {
            let page = second.events().read(0, 100);
            let users = page.entries.iter().filter_map(|entry| match &entry.what {
                Logged::User(event) => Some(event.payload.clone()),
                _ => None,
            });
            let users: Vec<_> = users.collect();
            if !users.is_empty() {
                return users;
            }
            changes.changed().await.expect("it lives");
        }
    };
    let arrived = timeout(BOUND, arrived).await.expect("in time");
    assert_eq!(arrived, [b"v1"]);
    let event = EventRef {
        origin: sent.origin.hash(),
        generation: sent.generation,
        delivery: Delivery::AtLeastOnce,
        sequence: sent.sequence,
    };
    let known = async {
        while first
            .delivery(event)
            .await
            .expect("it runs")
            .is_none_or(|it| !it.owed.is_empty())
        {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(BOUND, known).await.expect("in time");
    let has = first.delivery(event).await.expect("it runs").expect("kept");
    assert_eq!(has.delivered.len(), 2);
    assert_eq!(first.backlog().now().events, 0);
    first.leave().await.expect("it runs");
    let left = first.publish(draft(None, b"x")).await;
    let gone = matches!(left, Err(PublishError::Stopped(_) | PublishError::NotReady));
    assert!(gone, "{left:?}");
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
