//! The members, as they are kept: whom the next run shall look for.

use std::collections::BTreeMap;
use std::time::{Duration, Instant, SystemTime};

use super::super::rows::{self, MemberRow};
use super::Writer;
use crate::member::Status;
use crate::node::Snapshot;

/// How often it is noted that the members that are alive were seen.
const SEEN_PERIOD: Duration = Duration::from_secs(10);

/// What has been written of them.
#[derive(Default)]
pub(super) struct WrittenMembers {
    rows: BTreeMap<String, MemberRow>,
    /// The snapshot's index that the rows are of.
    index: Option<u64>,
    /// When it was noted that they are seen.
    seen: Option<Instant>,
}

impl WrittenMembers {
    /// They are to be written once more, whenever that was last done.
    pub(super) fn is_seen_again(&mut self) {
        self.seen = None;
    }
}

impl Writer {
    pub(super) fn save_members(&mut self, snapshot: &Snapshot) -> rusqlite::Result<()> {
        let seen = self.written.members.seen;
        let due = seen.is_none_or(|seen| seen.elapsed() >= SEEN_PERIOD);
        if self.written.members.index == Some(snapshot.index) && !due {
            return Ok(());
        }
        let Some(connection) = &mut self.connection else {
            return Ok(());
        };
        let members = member_rows(snapshot);
        let held = &self.written.members.rows;
        let transaction = connection.transaction()?;
        if self.written.members.index.is_none() {
            // What an earlier run left is in the snapshot, as far as it is still remembered.
            transaction.execute("delete from member", [])?;
        }
        for (name, row) in &members {
            if held.get(name) != Some(row) {
                rows::write_member(&transaction, name, row)?;
            }
        }
        for name in held.keys().filter(|name| !members.contains_key(*name)) {
            rows::delete_member(&transaction, name)?;
        }
        rows::note_time(&transaction, SystemTime::now(), None)?;
        transaction.commit()?;
        self.written.members = WrittenMembers {
            rows: members,
            index: Some(snapshot.index),
            seen: Some(Instant::now()),
        };
        Ok(())
    }
}

/// The members to be kept: all that have not left, and whom the table has forgotten.
fn member_rows(snapshot: &Snapshot) -> BTreeMap<String, MemberRow> {
    let listed = snapshot.members.iter().filter_map(|member| {
        let wanted = !member.local && !member.stored && member.status != Status::Left;
        let address = member.address.filter(|_| wanted)?;
        let dead = member.status == Status::Dead && !member.isolated_verdict;
        let row = MemberRow {
            address: address.to_string(),
            node_id: member.node_id.0,
            generation: member.generation.0,
            last_seen: dead.then_some(member.since),
        };
        Some((member.name.to_string(), row))
    });
    let remembered = snapshot.remembered.iter().map(|member| {
        let row = MemberRow {
            address: member.address.to_string(),
            node_id: member.node_id.0,
            generation: member.generation.0,
            last_seen: Some(member.last_seen),
        };
        (member.name.to_string(), row)
    });
    remembered.chain(listed).collect()
}
