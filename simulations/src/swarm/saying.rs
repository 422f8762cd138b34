//! What nodes say of themselves while faults happen: tags small and large, and planned absences.

use std::fmt;
use std::time::Duration;

use rand::RngExt;
use rumord::member::{Lease, METADATA_BYTES_MAX, Tags};
use rumord::protocol::MetadataChange;

use super::fault::{Slot, name};
use crate::forks::{Consumer, fork};

/// Most sayings of a run.
const SAYINGS_MAX: usize = 6;
/// Longest planned absence: it must be over well before the core is to agree who is down.
const ABSENCE_MS_MAX: u64 = 30_000;

/// Somebody says something new of itself.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Saying {
    /// When, since the run began.
    pub at: Duration,
    /// Who.
    pub slot: Slot,
    /// What.
    pub what: What,
}

/// What is said.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum What {
    /// Tags of so many bytes.
    Tags(usize),
    /// A planned absence.
    Absence(Duration),
    /// None any more.
    Presence,
}

impl What {
    /// The words for all, for counting.
    pub const WORDS: [&'static str; 4] = ["tags", "large-tags", "absence", "presence"];

    /// The word for it.
    #[must_use]
    pub fn word(self) -> &'static str {
        let place = match self {
            What::Tags(..=256) => 0,
            What::Tags(_) => 1,
            What::Absence(_) => 2,
            What::Presence => 3,
        };
        Self::WORDS[place]
    }
}

impl Saying {
    /// The change of the node, other tags for another `number`.
    #[must_use]
    pub fn change(&self, number: usize) -> MetadataChange {
        match self.what {
            What::Tags(bytes) => {
                let key = format!("k{number}");
                let value = "v".repeat(bytes.saturating_sub(key.len()));
                MetadataChange::Tags(Tags::from([(key, value)]))
            }
            What::Absence(length) => MetadataChange::BeginMaintenance(Lease {
                length,
                reason: String::new(),
            }),
            What::Presence => MetadataChange::EndMaintenance,
        }
    }
}

impl fmt::Display for Saying {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = name(self.slot);
        match self.what {
            What::Tags(bytes) => write!(f, "{name} says {bytes} bytes of tags"),
            What::Absence(length) => write!(f, "{name} says that it is away for {length:?}"),
            What::Presence => write!(f, "{name} says that it is not away"),
        }
    }
}

/// Sayings of `nodes` up to `ends`, in the order of time.
#[must_use]
pub fn draw_sayings(seed: u64, nodes: usize, ends: Duration) -> Vec<Saying> {
    let mut rng = fork(seed, Consumer::Sayings);
    let count = rng.random_range(0..=SAYINGS_MAX);
    let mut sayings: Vec<_> = (0..count)
        .map(|_| Saying {
            at: ends.mul_f64(rng.random_range(0.1..1.0)),
            slot: rng.random_range(0..nodes),
            what: match rng.random_range(0..10) {
                0..4 => What::Tags(rng.random_range(8..=256)),
                4..7 => {
                    let most = libm::log2(METADATA_BYTES_MAX as f64);
                    What::Tags(libm::exp2(rng.random_range(8.1..most)) as usize)
                }
                7 | 8 => {
                    let millis = rng.random_range(1000..ABSENCE_MS_MAX);
                    What::Absence(Duration::from_millis(millis))
                }
                _ => What::Presence,
            },
        })
        .collect();
    sayings.sort_by_key(|saying| saying.at);
    sayings
}
