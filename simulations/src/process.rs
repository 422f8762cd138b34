//! One run of a node, and what may be wrong with it.

use std::collections::VecDeque;
use std::fmt;
use std::net::SocketAddr;
use std::time::Duration;

use rumord::member::{Generation, NodeId, NodeName};
use rumord::protocol::{Event, ExchangeId, Node, StreamId, Transmit};
use rumord::time::Instant;

use crate::network::Packet;
use crate::streams::Frames;

/// Datagrams that wait in the socket of a process that stands still; further ones are dropped.
pub const SOCKET_PACKETS_MAX: usize = 2000;

/// Names a process. A restarted node is another process.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct ProcessId(pub(crate) usize);

impl fmt::Display for ProcessId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "p{}", self.0)
    }
}

/// What is the matter with a process.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Condition {
    /// Nothing.
    Running,
    /// It stands still: what arrives waits, and its timers will be late.
    Paused,
    /// It stands still, and what arrives is lost.
    Outage,
    /// Its timers run, but it neither sends nor receives until the end.
    IoBlocked,
    /// It has ended.
    Stopped,
}

/// Something that has arrived at a process and waits until it can handle it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Arrival {
    /// A datagram.
    Datagram(Packet),
    /// Frames of a stream that somebody opened.
    Request {
        /// The stream.
        stream: StreamId,
        /// Who opened it.
        from: SocketAddr,
        /// The request.
        frames: Frames,
    },
    /// The answer on a stream that this process opened, and its end.
    Answer {
        /// The stream.
        exchange: ExchangeId,
        /// The answer.
        frames: Frames,
    },
    /// The end of a stream that this process opened.
    Ended {
        /// The stream.
        exchange: ExchangeId,
    },
}

/// A process's monotonic clock: it starts anywhere, and may run too fast or too slow.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Clock {
    /// When the process started, in the world's time.
    pub started: Instant,
    /// What its clock showed then.
    pub origin: Instant,
    /// How much too fast it runs, in millionths; above -1,000,000.
    pub drift_ppm: i32,
}

impl Clock {
    /// What it shows at `at` in the world's time.
    #[must_use]
    pub fn local(&self, at: Instant) -> Instant {
        let passed = at.since(self.started);
        if self.drift_ppm == 0 {
            return self.origin + passed;
        }
        let passed = passed.as_nanos();
        self.origin + Duration::from_nanos((passed * self.rate() / 1_000_000) as u64)
    }

    /// The first instant of the world's time at which it shows `local` or later.
    #[must_use]
    pub fn reaches(&self, local: Instant) -> Instant {
        let passed = local.since(self.origin);
        if self.drift_ppm == 0 {
            return self.started + passed;
        }
        let nanos = (passed.as_nanos() * 1_000_000).div_ceil(self.rate());
        self.started + Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }

    fn rate(&self) -> u128 {
        (1_000_000 + i64::from(self.drift_ppm)).max(1) as u128
    }
}

/// One run of a node.
pub struct Process {
    /// Its number.
    pub id: ProcessId,
    /// The member's name.
    pub name: NodeName,
    /// The cluster's name.
    pub cluster: String,
    /// The generation with which it started.
    pub generation: Generation,
    /// Which process holds the name.
    pub node_id: NodeId,
    /// Where it listens.
    pub address: SocketAddr,
    /// What is the matter with it.
    pub condition: Condition,
    /// The core; of a stopped process, as it last was.
    pub node: Node,
    /// Its clock.
    pub clock: Clock,
    /// What it said, in the world's time; without the noise of single probes.
    pub events: Vec<(Instant, Event)>,
    /// How often its condition has changed: an end that was planned for an earlier one is void.
    pub(crate) changes: u64,
    /// When the queue holds its next deadline.
    pub(crate) armed: Option<Instant>,
    pub(crate) inbox: VecDeque<Arrival>,
    pub(crate) unsent: Vec<Transmit>,
}

impl Process {
    /// Whether it has not ended.
    #[must_use]
    pub fn is_up(&self) -> bool {
        self.condition != Condition::Stopped
    }

    /// Datagrams that have arrived and were not handled yet.
    pub(crate) fn waiting_datagrams(&self) -> usize {
        let datagram = |arrival: &&Arrival| matches!(arrival, Arrival::Datagram(_));
        self.inbox.iter().filter(datagram).count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_reaches_an_instant_no_earlier_than_it_shows_it() {
        for drift_ppm in [-200, 0, 1, 77, 500_000] {
            let clock = Clock {
                started: Instant::from_nanos(5_000_000_003),
                origin: Instant::from_nanos(77_000_000_007),
                drift_ppm,
            };
            for nanos in [1, 999, 1_000_000_007, 86_400_000_000_001] {
                let local = clock.origin + Duration::from_nanos(nanos);
                let at = clock.reaches(local);
                assert!(clock.local(at) >= local, "{drift_ppm} {nanos}");
                let before = at.before(Duration::from_nanos(1));
                assert!(clock.local(before) < local || before < clock.started);
            }
        }
    }
}
