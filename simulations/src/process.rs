//! One run of a node, and what may be wrong with it.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::net::SocketAddr;
use std::time::Duration;

use rand::rngs::Xoshiro256PlusPlus;
use rumord::member::{Delivery, Generation, NodeId, NodeName};
use rumord::protocol::{Event, ExchangeId, Node, StreamId, Transmit};
use rumord::time::Instant;

use crate::link::exponential;
use crate::network::Packet;
use crate::store::EventStore;
use crate::streams::Frames;

/// Datagrams that wait in the socket of a process that stands still; further ones are dropped.
pub const SOCKET_PACKETS_MAX: usize = 2000;
/// Datagrams that wait in the socket of a process whose IO is blocked; it drops further ones. Linux
/// accounts for 768 bytes and more of each, and lets 212,992 wait.
pub const UNSENT_PACKETS_MAX: usize = 277;

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

/// How late a process's timers are, while it handles what arrives at once.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Lateness {
    /// Not at all.
    None,
    /// They fire at multiples of this only, as where the operating system's timer is coarse.
    Grid(Duration),
    /// By a random time with this mean, exponentially distributed, for each deadline.
    Mean(Duration),
}

impl fmt::Display for Lateness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Lateness::None => f.write_str("on time"),
            Lateness::Grid(grid) => write!(f, "every {grid:?}"),
            Lateness::Mean(mean) => write!(f, "{mean:?} late"),
        }
    }
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
    /// The end of a stream that somebody opened.
    Closed {
        /// The stream.
        stream: StreamId,
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
    /// How far its host's wall clock is ahead of the true time, in seconds; it may be behind.
    pub wall_ahead: i64,
    /// How late its timers are.
    pub lateness: Lateness,
    /// What it said, in the world's time; without the noise of single probes.
    pub events: Vec<(Instant, Event)>,
    /// The user events in its data directory.
    pub store: EventStore,
    /// The number of the last event that it sent, of each life and kind of delivery.
    pub(crate) sent: BTreeMap<(Generation, Delivery), u64>,
    /// When it ended, in the world's time.
    pub(crate) ended_at: Option<Instant>,
    /// How often its condition has changed: an end that was planned for an earlier one is void.
    pub(crate) changes: u64,
    /// Until when it gets too little of its host's processor.
    pub(crate) starved_until: Option<Instant>,
    /// The deadline whose lateness was drawn last, by its own clock, and when it fires.
    pub(crate) late: Option<(Instant, Instant)>,
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

    /// Whether its timers run.
    pub(crate) fn runs(&self) -> bool {
        matches!(self.condition, Condition::Running | Condition::IoBlocked)
    }

    /// When its next deadline fires, in the world's time. How late that is, is drawn once for each
    /// deadline: asking again changes nothing.
    pub(crate) fn fires_at(&mut self, rng: &mut Xoshiro256PlusPlus) -> Instant {
        let deadline = self.node.next_deadline();
        let reached = self.clock.reaches(deadline);
        match (self.lateness, self.late) {
            (Lateness::None, _) => reached,
            (Lateness::Grid(grid), _) => next_multiple(reached, grid),
            (Lateness::Mean(_), Some((drawn_for, at))) if drawn_for == deadline => at,
            (Lateness::Mean(mean), _) => {
                let at = reached + exponential(mean, rng);
                self.late = Some((deadline, at));
                at
            }
        }
    }

    /// Keeps what is to be sent once its IO is no longer blocked; a datagram is dropped when too
    /// many wait.
    pub(crate) fn send_later(&mut self, transmit: Transmit) {
        let datagram = |transmit: &Transmit| matches!(transmit, Transmit::Datagram { .. });
        let waiting = || self.unsent.iter().filter(|unsent| datagram(unsent)).count();
        if !datagram(&transmit) || waiting() < UNSENT_PACKETS_MAX {
            self.unsent.push(transmit);
        }
    }

    /// Datagrams that have arrived and were not handled yet.
    pub(crate) fn waiting_datagrams(&self) -> usize {
        let datagram = |arrival: &&Arrival| matches!(arrival, Arrival::Datagram(_));
        self.inbox.iter().filter(datagram).count()
    }
}

/// The first multiple of `grid` that is not before `at`.
fn next_multiple(at: Instant, grid: Duration) -> Instant {
    let grid = grid.as_nanos().max(1) as u64;
    Instant::from_nanos(at.as_nanos().div_ceil(grid).saturating_mul(grid))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn coarse_timers_fire_at_the_next_tick() {
        let grid = Duration::from_micros(15_625);
        for (at, tick) in [(0, 0), (1, 15_625_000), (15_625_000, 15_625_000)] {
            let fires = next_multiple(Instant::from_nanos(at), grid);
            assert_eq!(fires, Instant::from_nanos(tick), "{at}");
        }
        let never = next_multiple(Instant::FAR_FUTURE, grid);
        assert!(never >= Instant::from_nanos(u64::MAX - 15_625_000));
    }

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
