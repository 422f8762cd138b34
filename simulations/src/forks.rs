//! One generator per consumer, all from one seed.
//!
//! With a single generator, one more draw anywhere would change everything after it: a run with a
//! node more, or with loss, could not be compared with the run without.

use rand::SeedableRng;
use rand::rngs::Xoshiro256PlusPlus;

/// Who draws.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Consumer {
    /// Delays of datagrams.
    Latency = 1,
    /// Whether a datagram is lost.
    Loss = 2,
    /// How long bursts of loss last.
    Bursts = 3,
    /// Duplication, reordering and corruption.
    Mischief = 4,
    /// Delays and stalls of streams.
    Streams = 5,
    /// Seeds, identities and clocks of nodes.
    Nodes = 6,
    /// What a scenario draws for itself.
    Scenario = 7,
    /// When starved processes run, and how late slow timers are.
    Hosts = 8,
    /// What the nodes of a swarm say of themselves.
    Sayings = 9,
    /// What clients send through the nodes of a swarm.
    Sendings = 10,
}

/// The generator of `consumer` in the run with `seed`.
#[must_use]
pub fn fork(seed: u64, consumer: Consumer) -> Xoshiro256PlusPlus {
    let salt = (consumer as u64).wrapping_mul(0xd1b5_4a32_d192_ed03);
    Xoshiro256PlusPlus::seed_from_u64(seed.rotate_left(17) ^ salt)
}

#[cfg(test)]
mod tests {
    use rand::Rng;

    use super::*;

    #[test]
    fn forks_are_repeatable_and_apart() {
        let first = |seed, consumer| fork(seed, consumer).next_u64();
        assert_eq!(first(1, Consumer::Loss), first(1, Consumer::Loss));
        assert_ne!(first(1, Consumer::Loss), first(1, Consumer::Latency));
        assert_ne!(first(1, Consumer::Loss), first(2, Consumer::Loss));
    }
}
