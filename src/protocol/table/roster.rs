//! Members that many nodes of a simulation begin with.

use std::sync::Arc;

use super::entry::record_hash;
use crate::member::Record;

/// Alive members that many nodes of a simulation begin with, sorted and hashed once for all.
#[derive(Debug)]
pub struct Roster {
    members: Vec<(Arc<Record>, u64)>,
}

impl Roster {
    /// A roster of these members; each counts as having sent its first heartbeat.
    ///
    /// # Panics
    /// Two have one name, or one is not active.
    #[must_use]
    pub fn new(records: impl IntoIterator<Item = Arc<Record>>) -> Self {
        let hashed = records.into_iter().map(|record| {
            assert!(record.standing.status.is_active(), "{}", record.name);
            let hash = record_hash(&record);
            (record, hash)
        });
        let mut members: Vec<_> = hashed.collect();
        let member = |entry: &(Arc<Record>, u64)| entry.0.name.hash();
        members.sort_by_key(member);
        let twice = members
            .windows(2)
            .find(|pair| member(&pair[0]) == member(&pair[1]));
        assert!(twice.is_none(), "{twice:?}");
        Roster { members }
    }

    /// All members in the order of their hashes, each with what it adds to the fingerprint.
    #[must_use]
    pub(super) fn members(&self) -> &[(Arc<Record>, u64)] {
        &self.members
    }
}
