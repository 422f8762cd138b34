//! The entries of the ledger.

use crate::member::{Incarnation, NameHash, Standing, Status};
use crate::time::Instant;

use super::super::outbox::{ProbeWay, Refutation};
use super::super::stats::ProbeOutcome;

/// A question about a member, and how it ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ProbeNote {
    /// When it was sent.
    pub sent_at: Instant,
    /// The relay, or who had this node ask; itself otherwise.
    pub other: NameHash,
    /// Microseconds to the answer; 0 without one.
    pub round_trip: u32,
    /// Which way it went.
    pub way: ProbeWay,
    /// How it ended.
    pub outcome: ProbeOutcome,
}

/// phi and its parts at one moment: see `PhiSample`.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct PhiNote {
    /// When.
    pub at: Instant,
    /// Decades of the case, own misses' part, witnesses' part, after the pause tolerance.
    pub phi: f64,
    /// Those of own pings without answer.
    pub own_misses: f64,
    /// Those of witnesses.
    pub witnessed: f64,
    /// Those collected after the pause tolerance.
    pub late_phi: f64,
    /// phi of the heartbeats alone.
    pub heartbeat_phi: f64,
    /// Distinct witnesses.
    pub witnesses: u32,
}

/// Who told what of a member.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AccusationNote {
    /// Who told it.
    pub by: Option<NameHash>,
    /// When.
    pub at: Instant,
    /// What.
    pub status: Status,
    /// Of which incarnation.
    pub incarnation: Incarnation,
}

impl AccusationNote {
    /// That `by` told `claim` at `at`.
    #[must_use]
    pub fn of(by: Option<NameHash>, claim: Standing, at: Instant) -> Self {
        AccusationNote {
            by,
            at,
            status: claim.status,
            incarnation: claim.incarnation,
        }
    }

    /// Whether it is one.
    #[must_use]
    pub fn is_doubt(&self) -> bool {
        matches!(self.status, Status::Suspect | Status::Dead)
    }

    /// Whether the same member told the same before.
    #[must_use]
    pub fn repeats(&self, other: &AccusationNote) -> bool {
        self.by == other.by && self.accusation() == other.accusation()
    }

    /// What it says.
    #[must_use]
    pub fn accusation(&self) -> (Status, Incarnation) {
        (self.status, self.incarnation)
    }
}

/// How a suspicion or verdict was lifted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RefutationNote {
    /// By what.
    pub how: Refutation,
    /// Who brought it, unless the member itself.
    pub by: Option<NameHash>,
    /// When.
    pub at: Instant,
    /// What it lifted.
    pub lifted: Status,
    /// The incarnation from then on.
    pub incarnation: Incarnation,
}

/// What one witness of the latest case has said.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct WitnessNote {
    /// Who.
    pub witness: NameHash,
    /// How often it said that it gets no answer.
    pub answers: u32,
    /// Its own share of misses, as it last said.
    pub miss_rate: f64,
    /// When it last said so.
    pub at: Instant,
}
