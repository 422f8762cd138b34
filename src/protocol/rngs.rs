//! The core's random numbers, all of one seed.

use rand::rngs::Xoshiro256PlusPlus;
use rand::{Rng, SeedableRng};

/// One generator per consumer, so that a draw added in one place does not shift all others.
pub struct Rngs {
    /// Whom to probe.
    pub schedule: Xoshiro256PlusPlus,
    /// Whom to ask to relay.
    pub relays: Xoshiro256PlusPlus,
    /// Whom to tell.
    pub spread: Xoshiro256PlusPlus,
    /// Which of the dead to look for.
    pub contact: Xoshiro256PlusPlus,
    /// Which of the remembered to look for.
    pub remembered: Xoshiro256PlusPlus,
    /// When to try a join address again.
    pub join: Xoshiro256PlusPlus,
    /// Salts and question numbers of exchanges, and with whom.
    pub exchange: Xoshiro256PlusPlus,
}

impl Rngs {
    /// All generators of the seed.
    #[must_use]
    pub fn new(rng_seed: u64) -> Self {
        let fork = |consumer: u64| {
            Xoshiro256PlusPlus::seed_from_u64(
                rng_seed ^ consumer.wrapping_mul(0x9e37_79b9_7f4a_7c15),
            )
        };
        Rngs {
            schedule: fork(1),
            relays: fork(2),
            spread: fork(3),
            contact: fork(4),
            join: fork(5),
            exchange: fork(6),
            remembered: fork(7),
        }
    }

    /// A number from 0 to 1, for the offset of the own periods.
    pub fn share(&mut self) -> f64 {
        f64::from(self.schedule.next_u32()) / f64::from(u32::MAX)
    }

    /// A number to begin counting questions at.
    pub fn first_seq(&mut self) -> u32 {
        self.relays.next_u32()
    }
}
