//! Peers that send slowly, or take nothing: they cost nobody else anything.

use std::net::SocketAddr;
use std::time::Duration;

use rumord::member::{Generation, Status, Version};
use rumord::node::Node;
use rumord::protocol::JoinOutcome;
use rumord::wire::{
    self, Ask, Carrier, ClusterTag, Digest, List, Message, MessageKind, Salt, Sender, Summary,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};

use crate::nodes::{BOUND, node, wait_for};

/// More than there are places for streams.
const SLOW: usize = 300;
/// Streams that ask as they should, all at once.
const HONEST: usize = 100;

fn cluster() -> ClusterTag {
    ClusterTag::of("default")
}

/// A frame with its length: a digest of no records.
fn question() -> Vec<u8> {
    let name: rumord::member::NodeName = "stranger".parse().expect("a valid name");
    let digest = Message::Digest(Digest {
        sender: Sender {
            member: name.hash(),
            generation: Generation(1_700_000_000),
            version: Version(1),
        },
        ask: Ask(7),
        cookie: None,
        salt: Salt(1),
        summary: Summary::Records(List::default()),
        extensions: List::default(),
    });
    let frame = wire::encode(cluster(), &digest);
    let length = u32::try_from(frame.len()).expect("a short frame");
    [&length.to_be_bytes()[..], &frame].concat()
}

/// Asks over a stream; the kind of the answer.
async fn ask(to: SocketAddr) -> std::io::Result<MessageKind> {
    let mut stream = TcpStream::connect(to).await?;
    stream.write_all(&question()).await?;
    stream.shutdown().await?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await?;
    let frame = answer.get(4..).unwrap_or_default();
    let message = wire::decode(cluster(), frame, Carrier::Stream);
    Ok(message.expect("a well-formed answer").kind())
}

/// Sends a byte a second for ever, on a new stream whenever one is cut.
async fn trickle(to: SocketAddr) {
    loop {
        if let Ok(mut stream) = TcpStream::connect(to).await {
            while stream.write_all(&[0]).await.is_ok() {
                sleep(Duration::from_secs(1)).await;
            }
        }
        sleep(Duration::from_millis(50)).await;
    }
}

fn attack(to: SocketAddr) -> JoinSet<()> {
    let mut attackers = JoinSet::new();
    for _ in 0..SLOW {
        attackers.spawn(trickle(to));
    }
    attackers
}

/// hashicorp/memberlist#259, #229, grafana/alloy#2916: with too many slow syncs at once the node
/// became unresponsive and did not recover.
#[tokio::test(flavor = "multi_thread")]
async fn while_hundreds_send_slowly_others_are_served() {
    let first = node("n1", 1, &[]).await;
    let to = first.snapshot().node.bound;
    let attackers = attack(to);
    sleep(Duration::from_millis(500)).await;
    let mut honest = JoinSet::new();
    for _ in 0..HONEST {
        // One may be cut to make room while all places are fought for: it asks again, as nodes do.
        honest.spawn(async move {
            loop {
                match ask(to).await {
                    Ok(kind) => return kind,
                    Err(_) => sleep(Duration::from_millis(100)).await,
                }
            }
        });
    }
    let all = timeout(BOUND, honest.join_all()).await;
    let kinds = all.expect("every honest question is answered");
    let served = |kind: MessageKind| kinds.iter().filter(|&&it| it == kind).count();
    let (told, busy) = (served(MessageKind::Difference), served(MessageKind::Busy));
    assert_eq!(told + busy, HONEST, "{kinds:?}");
    assert!(told >= 8, "{told} were told, {busy} were sent elsewhere");
    let second = node("n2", 2, &[&first]).await;
    for node in [&first, &second] {
        wait_for(node, Status::Alive, 2).await;
    }
    drop(attackers);
    let third = node("n3", 3, &[&first]).await;
    for node in [&first, &second, &third] {
        wait_for(node, Status::Alive, 3).await;
    }
}

/// A peer that accepts streams and neither reads nor answers.
async fn black_hole() -> (SocketAddr, tokio::task::JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = listener.local_addr().expect("bound");
    let holding = tokio::spawn(async move {
        let mut held = Vec::new();
        while let Ok((stream, _)) = listener.accept().await {
            held.push(stream);
        }
    });
    (address, holding)
}

/// Asks again and again, and never takes an answer.
async fn ask_and_never_read(to: SocketAddr) {
    let mut held = Vec::new();
    loop {
        if let Ok(mut stream) = TcpStream::connect(to).await
            && stream.write_all(&question()).await.is_ok()
        {
            held.push(stream);
        }
        sleep(Duration::from_millis(20)).await;
    }
}

/// How often `node` was answered by a ping so far.
fn answered(node: &Node) -> u64 {
    let probes = &node.snapshot().node.stats.probes;
    let acked = |&((_, outcome), _): &((_, rumord::protocol::ProbeOutcome), u64)| {
        outcome == rumord::protocol::ProbeOutcome::Acked
    };
    probes.iter().filter(acked).map(|(_, count)| count).sum()
}

/// grafana/dskit#192, weaveworks/weave#445, #3795: a peer that took no bytes blocked the only
/// sender, and with it joins, status and gossip.
#[tokio::test(flavor = "multi_thread")]
async fn a_peer_that_takes_nothing_stalls_nobody() {
    let first = node("n1", 1, &[]).await;
    let second = node("n2", 2, &[&first]).await;
    for node in [&first, &second] {
        wait_for(node, Status::Alive, 2).await;
    }
    let (hole, holding) = black_hole().await;
    let joining = {
        let first = first.clone();
        tokio::spawn(async move { first.join(vec![hole.to_string()]).await })
    };
    let mut asking = JoinSet::new();
    asking.spawn(ask_and_never_read(first.snapshot().node.bound));
    let (since, before) = (Instant::now(), answered(&first));
    let third = node("n3", 3, &[&first]).await;
    for node in [&first, &second, &third] {
        wait_for(node, Status::Alive, 3).await;
    }
    let mut changes = first.changes();
    let more = async {
        while answered(&first) < before + 3 {
            let _ = timeout(Duration::from_millis(100), changes.changed()).await;
        }
    };
    timeout(BOUND, more).await.expect("pings go on");
    let suspected = first.snapshot().count(Status::Suspect) + first.snapshot().count(Status::Dead);
    assert_eq!(suspected, 0, "after {:?}", since.elapsed());
    let joined = timeout(BOUND, joining).await.expect("cut at its deadline");
    let results = joined.expect("no panic").expect("the node runs");
    assert_eq!(results[0].outcome, Ok(JoinOutcome::Unreachable));
    holding.abort();
}
