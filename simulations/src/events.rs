//! How long one event takes until its sender knows that all have it, and what that costs.

use std::time::Duration;

use rand::RngExt;
use rumord::member::Delivery;
use rumord::protocol::{Direction, EventCount, Stats, Transport};
use serde::{Deserialize, Serialize};

use crate::forks::{Consumer, fork};
use crate::link::Link;
use crate::process::ProcessId;
use crate::world::{Checking, Keeping, Options, World};

/// How long a cluster runs before the event.
const WARM_UP: Duration = Duration::from_secs(1);
/// Bytes are counted for so long after the sender knows: additions may still be under way.
const AFTER: Duration = Duration::from_millis(500);
/// An event that not all have acknowledged after this has failed.
pub const KNOWN_LATEST: Duration = Duration::from_secs(60);
/// Bytes of the event's payload.
const PAYLOAD: usize = 200;
/// Bytes of a datagram beside its payload: IP and UDP headers, and sealing.
const DATAGRAM_BYTES: u64 = 28 + 40;

/// One run: a cluster of its own, and an event in it.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Trial {
    /// Members.
    pub nodes: usize,
    /// Share of datagrams that is lost, 0 to 1.
    pub loss: f64,
    /// The seed of this run.
    pub seed: u64,
}

/// What one trial has shown.
#[derive(Clone, Default, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Spread {
    /// Until the sender knew that all have it, in milliseconds; `None` if it did not in time.
    pub milliseconds: Option<f64>,
    /// Questions to members that had not acknowledged.
    pub asked: u64,
    /// Messages with acknowledgements that the sender received.
    pub acks: u64,
    /// Bytes sent by a member, in the mean: everything, its pings included.
    pub bytes_mean: f64,
    /// Bytes sent by the member that sent most.
    pub bytes_busiest: u64,
}

/// Runs one trial: members that know each other from the start, and an event of one of them that is
/// sent at least once.
#[must_use]
pub fn spread(trial: &Trial) -> Spread {
    let seed = trial.seed ^ (trial.nodes as u64).rotate_left(32) ^ trial.loss.to_bits();
    let mut world = World::new(Options {
        link: Link::LAN.losing(trial.loss),
        keeping: Keeping::Nothing,
        checking: Checking::Nothing,
        ..Options::seeded(seed)
    });
    let nodes = world.start_full(trial.nodes);
    world.run_for(WARM_UP);
    let mut rng = fork(seed, Consumer::Scenario);
    let sender = nodes[rng.random_range(0..nodes.len())];
    let before = sent_bytes(&world, &nodes);
    let Some(&event) = world
        .publish(sender, Delivery::AtLeastOnce, vec![vec![7; PAYLOAD]])
        .first()
    else {
        return Spread::default();
    };
    let mut heard = None;
    let known = world.run_until(KNOWN_LATEST, |world| {
        let acks = acks_of(world, sender);
        heard.replace(acks) != Some(acks) && world.sender_knows(sender, &event)
    });
    let known = known.filter(|_| world.everyone_has(&event));
    world.run_for(AFTER);
    let sent: Vec<u64> = sent_bytes(&world, &nodes)
        .iter()
        .zip(before)
        .map(|(after, before)| after - before)
        .collect();
    let stats = world.process(sender).node.stats();
    Spread {
        milliseconds: known.map(|length| length.as_secs_f64() * 1000.0),
        asked: stats.events.get(EventCount::Asked),
        acks: stats.events.get(EventCount::Acks),
        bytes_mean: sent.iter().sum::<u64>() as f64 / sent.len() as f64,
        bytes_busiest: sent.iter().copied().max().unwrap_or_default(),
    }
}

fn acks_of(world: &World, sender: ProcessId) -> u64 {
    let stats = world.process(sender).node.stats();
    stats.events.get(EventCount::Acks)
}

/// What each has sent so far, with the headers of all datagrams.
fn sent_bytes(world: &World, nodes: &[ProcessId]) -> Vec<u64> {
    let sent = |stats: &Stats| {
        let streams = stats.bytes.get((Direction::Sent, Transport::Stream));
        let payloads = stats.bytes.get((Direction::Sent, Transport::Datagram));
        let datagrams = stats
            .messages
            .iter()
            .filter(|((direction, _, by), _)| {
                (*direction, *by) == (Direction::Sent, Transport::Datagram)
            })
            .map(|(_, count)| count)
            .sum::<u64>();
        streams + payloads + DATAGRAM_BYTES * datagrams
    };
    let of = |&id: &ProcessId| sent(world.process(id).node.stats());
    nodes.iter().map(of).collect()
}
