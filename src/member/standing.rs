//! Restart numbers, statuses, and the order between two claims about one member.

use std::cmp::Ordering;
use std::fmt;

/// How far an incarnation may run ahead of the last one seen of a life.
const INCARNATION_JUMP_MAX: u32 = 1 << 16;

/// Restart number of a name: larger after each restart, fixed for one run.
///
/// Made as the larger of the persisted one plus one and the clock's unix seconds.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Generation(pub u64);

impl fmt::Display for Generation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Counter within a generation; only its owner raises it, and only to refute an accusation.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Incarnation(pub u32);

impl Incarnation {
    /// The incarnation that refutes an accusation made at this one; saturates.
    #[must_use]
    pub const fn past(self) -> Incarnation {
        Incarnation(self.0.saturating_add(1))
    }

    /// Whether `next`, told of the same life, can be true: the owner raises it by refuting, which
    /// takes seconds each time. A claim far beyond would leave nothing to refute it with.
    #[must_use]
    pub const fn accepts(self, next: Incarnation) -> bool {
        next.0 <= self.0.saturating_add(INCARNATION_JUMP_MAX)
    }

    /// The largest one taken of a life not known before: a refutation a second for half a year.
    pub const FIRST_MAX: Incarnation = Incarnation(1 << 24);
}

impl fmt::Display for Incarnation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Counter of heartbeats within a generation: grows every probe period and with every change.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Version(pub u64);

/// 64 random bits that tell a restart of a node from a stranger who took its name.
///
/// Persisted beside the generation; random per process where nothing is persisted.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct NodeId(pub u64);

impl fmt::Debug for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

impl fmt::Display for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

/// What the cluster believes of a member. The order is the precedence at equal incarnation
/// (SWIM section 4.2, with `Left` on top: who announced leave never comes back in that generation).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Status {
    /// Answers, or has not given reason for doubt.
    Alive,
    /// Silent for longer than loss explains; it may refute.
    Suspect,
    /// Silent beyond the pause tolerance.
    Dead,
    /// Announced that it leaves.
    Left,
}

impl Status {
    /// All statuses, in order of precedence.
    pub const ALL: [Status; 4] = [Status::Alive, Status::Suspect, Status::Dead, Status::Left];

    /// The lower-case word used in every interface.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Status::Alive => "alive",
            Status::Suspect => "suspect",
            Status::Dead => "dead",
            Status::Left => "left",
        }
    }

    /// Whether a member of this status still takes part: it is probed and gossiped to.
    #[must_use]
    pub const fn is_active(self) -> bool {
        matches!(self, Status::Alive | Status::Suspect)
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// One claim about a member, in the order that decides between two of them.
///
/// The order *is* the precedence function: the larger standing wins. Part by part:
/// a later life beats every claim about an earlier one; a removal (`forgotten`) stands above
/// every refutation of its generation; `strikes` counts evictions for being lossy, which the owner
/// alone may match; the instance breaks the tie between two processes that chose one generation;
/// who has left stays so, whatever its life is said to have refuted before; the incarnation is the
/// owner's refutation; the status decides the rest.
///
/// ```
/// use rumord::member::{Generation, Incarnation, Standing, Status};
/// let alive = Standing::alive(Generation(7), Default::default());
/// let suspect = Standing { status: Status::Suspect, ..alive };
/// let refuted = Standing { incarnation: Incarnation(1), ..alive };
/// assert!(suspect > alive && refuted > suspect);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Standing {
    /// Which life of the name.
    pub generation: Generation,
    /// Whether an operator removed the member for good. Its status then is `Left`.
    pub forgotten: bool,
    /// How many times this life was evicted for losing packets.
    pub strikes: u16,
    /// Which process holds the name.
    pub node_id: NodeId,
    /// The owner's refutation counter.
    pub incarnation: Incarnation,
    /// What is claimed.
    pub status: Status,
}

impl Standing {
    /// Most strikes taken from a member not known before.
    pub const STRIKES_FIRST_MAX: u16 = 1024;
    /// Most evictions of one life that can have been missed: the quarantines between them would
    /// have taken hours.
    const STRIKES_MISSED_MAX: u16 = 16;

    /// Whether `claim`, about the same instance, can be true as to its evictions.
    #[must_use]
    pub const fn accepts_strikes(&self, claim: Standing) -> bool {
        claim.strikes <= self.strikes.saturating_add(Self::STRIKES_MISSED_MAX)
    }

    /// The claim with which a process starts its life.
    #[must_use]
    pub const fn alive(generation: Generation, node_id: NodeId) -> Self {
        Standing {
            generation,
            forgotten: false,
            strikes: 0,
            node_id,
            incarnation: Incarnation(0),
            status: Status::Alive,
        }
    }

    /// The same life with another status.
    #[must_use]
    pub const fn with_status(self, status: Status) -> Self {
        Standing { status, ..self }
    }

    /// The same life removed for good.
    #[must_use]
    pub const fn forgotten(self) -> Self {
        Standing {
            forgotten: true,
            status: Status::Left,
            ..self
        }
    }

    /// What decides between two claims, most important first.
    const fn precedence(&self) -> (Generation, bool, u16, NodeId, bool, Incarnation, Status) {
        (
            self.generation,
            self.forgotten,
            self.strikes,
            self.node_id,
            matches!(self.status, Status::Left),
            self.incarnation,
            self.status,
        )
    }

    /// The (generation, process) this claim speaks of.
    #[must_use]
    pub const fn instance(&self) -> (Generation, NodeId) {
        (self.generation, self.node_id)
    }
}

impl Ord for Standing {
    fn cmp(&self, other: &Self) -> Ordering {
        self.precedence().cmp(&other.precedence())
    }
}

impl PartialOrd for Standing {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn standing(generation: u64, incarnation: u32, status: Status) -> Standing {
        Standing {
            incarnation: Incarnation(incarnation),
            status,
            ..Standing::alive(Generation(generation), NodeId(9))
        }
    }

    /// uber-node/ringpop-node PR#15: at one incarnation the order of alive and faulty was open.
    #[test]
    fn precedence_is_the_documented_table() {
        use Status::{Alive, Dead, Left, Suspect};
        let ascending = [
            standing(1, 0, Alive),
            standing(1, 0, Suspect),
            standing(1, 0, Dead),
            standing(1, 1, Alive),
            standing(1, 1, Suspect),
            standing(1, 2, Alive),
            // Who has left never refutes.
            standing(1, 0, Left),
            standing(1, 1, Left),
            Standing {
                node_id: NodeId(10),
                ..standing(1, 0, Alive)
            },
            Standing {
                strikes: 1,
                ..standing(1, 0, Alive)
            },
            Standing {
                strikes: 1,
                ..standing(1, 0, Left)
            },
            standing(1, 0, Alive).forgotten(),
            standing(2, 0, Alive),
        ];
        for pair in ascending.windows(2) {
            assert!(
                pair[0] < pair[1],
                "{:?} must lose to {:?}",
                pair[0],
                pair[1]
            );
        }
    }

    #[test]
    fn an_incarnation_far_beyond_the_last_one_is_not_true() {
        let held = Incarnation(7);
        assert!(held.accepts(Incarnation(0)) && held.accepts(Incarnation(7 + (1 << 16))));
        assert!(!held.accepts(Incarnation(8 + (1 << 16))));
        assert!(!held.accepts(Incarnation(u32::MAX)));
        assert!(Incarnation(u32::MAX - 1).accepts(Incarnation(u32::MAX)));
    }

    #[test]
    fn more_evictions_than_can_have_been_missed_are_not_true() {
        let held = standing(1, 0, Status::Alive);
        let claim = |strikes| Standing { strikes, ..held };
        assert!(held.accepts_strikes(claim(0)) && held.accepts_strikes(claim(16)));
        assert!(!held.accepts_strikes(claim(17)));
        assert!(claim(u16::MAX).accepts_strikes(claim(u16::MAX)));
    }

    #[test]
    fn refuting_the_largest_incarnation_does_not_wrap() {
        assert_eq!(Incarnation(u32::MAX).past(), Incarnation(u32::MAX));
    }
}
