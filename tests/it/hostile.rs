//! Peers that break off, and names written another way: what sockets and tables must bear.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::Duration;

use crate::agent::{Agent, count, member, poll};

/// Less than the agent grants a request that is under way, so that an agent that waits for
/// nothing is told from one that closes.
const BEFORE_PATIENCE_ENDS: Duration = Duration::from_secs(6);

/// Sends `bytes`, says that nothing follows, and reads until the agent closes.
fn converse(agent: &Agent, bytes: &[u8]) -> std::io::Result<Vec<u8>> {
    let mut stream = TcpStream::connect(&agent.gossip)?;
    stream.set_read_timeout(Some(BEFORE_PATIENCE_ENDS))?;
    stream.write_all(bytes)?;
    stream.shutdown(Shutdown::Write)?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).map(|_| answer)
}

/// Every health check of the port held one of the places for streams for ten seconds.
#[test]
fn a_stream_that_deserves_no_answer_is_closed() {
    let agent = Agent::start("n1", &[]);
    let nothing = converse(&agent, b"").expect("closed, not timed out");
    assert_eq!(nothing, b"");
    let garbage = converse(&agent, b"\0\0\0\x08garbage!").expect("closed, not timed out");
    assert_eq!(garbage, b"");
    poll("the garbage counted", || {
        (agent.metric("rumord_rejected_total", &["reason=\"not-ours\""]) >= 1.0).then_some(())
    });
}

/// The first spelling stuck everywhere but at the node itself.
#[test]
fn a_name_written_another_way_after_a_restart_is_shown_that_way_by_all() {
    let first = Agent::start("n1", &[]);
    let mut second = Agent::start("N2", &["--join", &first.gossip]);
    first.wait_for("N2", |table| count(table, "alive") == 2);
    second.kill();
    let second = Agent::start("n2", &["--join", &first.gossip]);
    for agent in [&first, &second] {
        // The second lists itself before it has joined.
        let joined = |table: &serde_json::Value| count(table, "alive") == 2;
        let table = agent.wait_for("n2", |table| {
            joined(table) && !member(table, "n2").is_null()
        });
        assert_eq!(table["members"].as_array().map(Vec::len), Some(2));
    }
}
