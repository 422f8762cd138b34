//! When a batch of changes is followed by a look whether it has reached everybody.

/// Changes that are a batch.
const BATCH: u64 = 8;
/// Looks after one batch, at most.
const CHECKS_MAX: u8 = 5;

/// Counts changes, and the looks after a batch of them.
#[derive(Debug, Default)]
pub struct Settle {
    revision: u64,
    changes: u64,
    checks: u8,
}

impl Settle {
    /// The table is at `revision`; whether there has been a batch whose spread is not confirmed.
    pub fn count(&mut self, revision: u64) -> bool {
        self.changes = self
            .changes
            .saturating_add(revision - self.revision.min(revision));
        self.revision = revision;
        self.changes >= BATCH
    }

    /// One look was taken; whether another is to follow if it does not show equal tables.
    pub fn checked(&mut self) -> bool {
        self.checks += 1;
        let more = self.checks < CHECKS_MAX;
        if !more {
            (self.changes, self.checks) = (0, 0);
        }
        more
    }

    /// Equal tables were seen; whether looks were under way, which are over then. Before the first
    /// look, equality says nothing of a batch that still spreads.
    pub fn is_over(&mut self) -> bool {
        let begun = self.checks > 0;
        if begun {
            (self.changes, self.checks) = (0, 0);
        }
        begun
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_batch_is_looked_after_and_not_for_ever() {
        let mut settle = Settle::default();
        assert!(!settle.count(7));
        assert!(settle.count(8) && !settle.is_over(), "not begun");
        let looks = 1 + (0..100).take_while(|_| settle.checked()).count();
        assert_eq!(looks, usize::from(CHECKS_MAX));
        assert!(!settle.count(15));
    }

    #[test]
    fn equal_tables_end_the_looks() {
        let mut settle = Settle::default();
        settle.count(100);
        settle.checked();
        assert!(settle.is_over() && !settle.count(107) && settle.count(108));
    }
}
