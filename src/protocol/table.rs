//! The membership table: records under their precedence, and what can be computed from them.
//!
//! Each member costs 60 bytes, beside its record, which all holders can share: an entry of 48 and
//! twelve in the index by hash.

mod entry;
#[cfg(test)]
mod histories;
mod index;
#[cfg(test)]
mod model;
mod roster;
#[cfg(test)]
mod tests;

use std::cell::Cell;
use std::sync::Arc;
use std::time::Duration;

use entry::change;
pub use entry::{Change, Entry};
use index::{Index, grow_gently, merged};
pub use roster::Roster;

use crate::member::{NameHash, Record, Status, Version};
use crate::time::Instant;
use crate::wire::{NameHashHigh, RecordUpdate};

/// Most members a table holds, dead ones included; further ones are refused.
pub const MEMBERS_MAX: usize = 100_000;

/// How far two nodes may be apart in retiring one of the dead: they sweep once a period, an age
/// is told in whole seconds and loses one on the way, and a clock drifts by up to this share.
const AGE_MARGIN: Duration = Duration::from_secs(5);
const AGE_MARGIN_SHARE: u32 = 5000;

/// The records of all members, the own one included.
#[derive(Debug)]
pub struct Table<A> {
    /// In no order: the indexes say where each is.
    entries: Vec<Entry<A>>,
    /// Where the local member's entry is.
    own: Option<usize>,
    /// Who was looked up last, and where that was: a message asks for its sender several times.
    asked: Cell<Option<(NameHash, usize)>>,
    /// Where on the ring was looked last: a walk around it goes on from there.
    walked: Cell<usize>,
    /// Alive and suspect members without the local one: the hash ring.
    active: Index,
    /// Dead and left members, tombstones that are not listed any more included: what is swept.
    gone: Index,
    /// Listed dead members (not left), sorted.
    dead: Vec<NameHash>,
    local: NameHash,
    retention: Duration,
    fingerprint: u64,
    revision: u64,
    changed_at: Instant,
}

impl<A> Table<A> {
    /// An empty table of the node `local`. Dead and left members are listed for `retention`, and
    /// remembered as long again.
    #[must_use]
    pub fn new(local: NameHash, retention: Duration, now: Instant) -> Self {
        Table {
            entries: Vec::new(),
            own: None,
            asked: Cell::new(None),
            walked: Cell::new(0),
            active: Index::default(),
            gone: Index::default(),
            dead: Vec::new(),
            local,
            retention,
            fingerprint: 0,
            revision: 0,
            changed_at: now,
        }
    }

    /// The member under this hash.
    #[must_use]
    pub fn get(&self, member: NameHash) -> Option<&Entry<A>> {
        Some(&self.entries[self.place_of(member)?])
    }

    /// The member under this hash; its record is changed only by [`merge`](Table::merge).
    pub fn get_mut(&mut self, member: NameHash) -> Option<&mut Entry<A>> {
        let place = self.place_of(member)?;
        Some(&mut self.entries[place])
    }

    fn place_of(&self, member: NameHash) -> Option<usize> {
        if member == self.local {
            return self.own;
        }
        if let Some((asked, place)) = self.asked.get()
            && asked == member
        {
            return Some(place);
        }
        let place = self
            .active
            .find(member)
            .or_else(|| self.gone.find(member))?;
        self.asked.set(Some((member, place)));
        Some(place)
    }

    /// All entries in the order of their hashes.
    pub fn iter(&self) -> impl Iterator<Item = (NameHash, &Entry<A>)> {
        let own = self.own.map(|place| (self.local, place));
        let others = merged(self.active.iter(), self.gone.iter());
        merged(others, own.into_iter()).map(|(member, place)| (member, &self.entries[place]))
    }

    /// Alive and suspect members other than the local one, in ring order.
    #[must_use]
    pub fn active(&self) -> &[NameHash] {
        self.active.members()
    }

    /// The only active member but the local one whose hash has this high half, and its position on
    /// the ring; it is looked for `near` one first.
    pub fn active_with(
        &mut self,
        high: NameHashHigh,
        near: usize,
    ) -> Option<(usize, &mut Entry<A>)> {
        let position = self.active.single_with(high, near)?;
        Some((position, &mut self.entries[self.active.place(position)]))
    }

    /// Whether `member` is among the active ones.
    #[must_use]
    pub fn is_active(&self, member: NameHash) -> bool {
        let entry = self.get(member).filter(|_| member != self.local);
        entry.is_some_and(|entry| entry.record.standing.status.is_active())
    }

    /// The active member at `position` on the ring.
    ///
    /// # Panics
    /// The ring is shorter.
    #[must_use]
    pub fn active_at(&self, position: usize) -> (NameHash, &Entry<A>) {
        self.walked.set(position);
        let place = self.active.place(position);
        (self.active.members()[position], &self.entries[place])
    }

    /// Where on the ring of active members the first one after `member` stands; the length of the
    /// ring after the last.
    #[must_use]
    pub fn ring_after(&self, member: NameHash) -> usize {
        let walked = self.walked.get();
        if self.active.members().get(walked) == Some(&member) {
            return walked + 1;
        }
        match self.active.position(member) {
            Ok(position) => position + 1,
            Err(position) => position,
        }
    }

    /// Dead members, those that left excepted, sorted.
    #[must_use]
    pub fn dead(&self) -> &[NameHash] {
        &self.dead
    }

    /// Alive and suspect members, the local one included.
    #[must_use]
    pub fn size(&self) -> usize {
        self.active.members().len() + 1
    }

    /// Equal for equal tables: the sum of a keyed hash of every listed record, without heartbeats
    /// and with suspect counted as alive.
    #[must_use]
    pub fn fingerprint(&self) -> u64 {
        self.fingerprint
    }

    /// Counts the changes a reader of the table would see.
    #[must_use]
    pub fn revision(&self) -> u64 {
        self.revision
    }

    /// When the fingerprint last changed.
    #[must_use]
    pub fn changed_at(&self) -> Instant {
        self.changed_at
    }

    /// Takes the members of `roster` in, as if each had been learnt now.
    ///
    /// # Panics
    /// The table knows somebody beside the local member already.
    pub fn enrol(&mut self, now: Instant, roster: &Roster, no_arrivals: A)
    where
        A: Copy,
    {
        assert!(self.size() == 1 && self.gone.members().is_empty());
        self.entries.reserve_exact(roster.members().len());
        self.active.reserve(roster.members().len());
        for (record, hash) in roster.members() {
            let member = record.name.hash();
            if member == self.local {
                continue;
            }
            self.active.push(member, self.entries.len());
            self.entries.push(Entry {
                record: Arc::clone(record),
                version: Version(1),
                counted_at: now,
                since: now,
                listed: true,
                isolated_verdict: false,
                arrivals: no_arrivals,
            });
            self.note_change(now, 0, *hash);
        }
    }

    /// Merges what is told. `None` when nothing changed that a reader would see, or when it is
    /// about an unknown member and too old to be learnt, or the table is full.
    pub fn merge(
        &mut self,
        now: Instant,
        told: &RecordUpdate,
        no_arrivals: impl FnOnce() -> A,
    ) -> Option<Change> {
        let member = told.record.name.hash();
        let decided = now.before(told.age.duration());
        let Some(place) = self.place_of(member) else {
            return self.learn(now, told, decided, no_arrivals());
        };
        let entry = &mut self.entries[place];
        let (record_before, hash_before) = (Arc::clone(&entry.record), entry.listed_hash());
        entry.record = Record::joined(&record_before, &told.record);
        entry.join_version(&record_before, told);
        let (before, claim) = (record_before.standing, told.record.standing);
        let since = entry.since;
        let another = entry.note_since(before, claim, now, decided);
        // A later death than the one behind a fence is listed everywhere else too, and one that
        // has passed its retention nowhere.
        if another {
            entry.listed = now.since(entry.since) < self.retention;
        }
        let change = change(&record_before, &entry.record, since)?;
        entry.isolated_verdict = false;
        let hash_after = entry.listed_hash();
        self.reindex(member, place, change.after.status);
        self.note_change(now, hash_before, hash_after);
        Some(change)
    }

    fn learn(
        &mut self,
        now: Instant,
        told: &RecordUpdate,
        decided: Instant,
        arrivals: A,
    ) -> Option<Change> {
        let after = told.record.standing;
        let since = if after.status.is_active() {
            now
        } else {
            decided
        };
        if self.entries.len() >= MEMBERS_MAX || now.since(since) >= self.retention {
            return None;
        }
        let entry = Entry {
            record: Arc::clone(&told.record),
            version: told.version,
            counted_at: now,
            since,
            listed: true,
            isolated_verdict: false,
            arrivals,
        };
        let hash = entry.listed_hash();
        grow_gently(&mut self.entries);
        self.entries.push(entry);
        self.reindex(
            told.record.name.hash(),
            self.entries.len() - 1,
            after.status,
        );
        self.note_change(now, 0, hash);
        Some(Change {
            before: None,
            after,
            metadata: true,
            since: now,
        })
    }

    /// Something beside the records that a reader sees has changed.
    pub fn note_seen_change(&mut self) {
        self.revision += 1;
    }

    /// Sets or lifts the verdict of an isolated node.
    pub fn set_isolated_verdict(&mut self, member: NameHash, verdict: bool) {
        if let Some(entry) = self.get_mut(member)
            && entry.isolated_verdict != verdict
        {
            entry.isolated_verdict = verdict;
            self.revision += 1;
        }
    }

    /// Stops listing what has passed its retention, and forgets what has passed it twice; returns
    /// whom it has forgotten.
    pub fn sweep(&mut self, now: Instant) -> Vec<NameHash> {
        if self.gone.members().is_empty() {
            return Vec::new();
        }
        let passed = |place: usize, times: u32| {
            now.since(self.entries[place].since) >= self.retention.saturating_mul(times)
        };
        let passed = |times: u32| -> Vec<(NameHash, usize)> {
            let gone = self.gone.iter();
            gone.filter(|&(_, place)| passed(place, times)).collect()
        };
        let (unlisted, purged) = (passed(1), passed(2));
        for (member, place) in unlisted {
            let entry = &mut self.entries[place];
            let before = entry.listed_hash();
            if std::mem::take(&mut entry.listed) {
                self.list_dead(member, false);
                self.note_change(now, before, 0);
            }
        }
        let purged: Vec<NameHash> = purged.into_iter().map(|(member, _)| member).collect();
        for &member in &purged {
            self.purge(member);
        }
        purged
    }

    /// Takes out all active members but the local one.
    pub fn drop_active(&mut self, now: Instant) {
        for member in self.active.members().to_vec() {
            let Some(place) = self.active.find(member) else {
                continue;
            };
            let before = self.entries[place].listed_hash();
            self.active.remove(member);
            self.take_out(place);
            self.note_change(now, before, 0);
        }
    }

    /// Whether the difference to the table with the fingerprint `other` is that one of the two has
    /// stopped listing some of the dead a little earlier: clocks drift and tables are swept at
    /// different instants. The dead are retired in the order of their age, so what the other has
    /// retired or still lists is the beginning of that order or its end.
    #[must_use]
    pub fn differs_by_age(&self, now: Instant, other: u64) -> bool {
        let margin = AGE_MARGIN + self.retention / AGE_MARGIN_SHARE;
        let near = |entry: &&Entry<A>| {
            let age = now.since(entry.since);
            age + margin >= self.retention && age <= self.retention + margin
        };
        let entries = self.gone.iter().map(|(_, place)| &self.entries[place]);
        let mut near: Vec<&Entry<A>> = entries.filter(near).collect();
        near.sort_unstable_by_key(|entry| (entry.since, entry.record.name.hash()));
        let (listed, retired): (Vec<_>, Vec<_>) = near.into_iter().partition(|it| it.listed);
        let mut ahead = self.fingerprint;
        let mut behind = self.fingerprint;
        let other_is_ahead = listed.iter().any(|entry| {
            ahead = ahead.wrapping_sub(entry::record_hash(&entry.record));
            ahead == other
        });
        let mut other_is_behind = || {
            retired.iter().rev().any(|entry| {
                behind = behind.wrapping_add(entry::record_hash(&entry.record));
                behind == other
            })
        };
        other_is_ahead || other_is_behind()
    }

    /// Takes a gone member out.
    fn purge(&mut self, member: NameHash) {
        let Some(place) = self.gone.find(member) else {
            return;
        };
        self.gone.remove(member);
        self.take_out(place);
    }

    /// Takes an entry that is in no index any more out; the last one takes its place.
    fn take_out(&mut self, place: usize) {
        self.entries.swap_remove(place);
        self.asked.set(None);
        let Some(moved) = self.entries.get(place) else {
            return;
        };
        let (moved, active) = (
            moved.record.name.hash(),
            moved.record.standing.status.is_active(),
        );
        if moved == self.local {
            self.own = Some(place);
        } else if active {
            self.active.set(moved, place);
        } else {
            self.gone.set(moved, place);
        }
    }

    /// The member at `place` has `status` now.
    fn reindex(&mut self, member: NameHash, place: usize, status: Status) {
        if member == self.local {
            self.own = Some(place);
            return;
        }
        if status.is_active() {
            self.gone.remove(member);
            self.active.set(member, place);
        } else {
            self.active.remove(member);
            self.gone.set(member, place);
        }
        self.list_dead(member, self.entries[place].listed && status == Status::Dead);
    }

    fn list_dead(&mut self, member: NameHash, is_dead: bool) {
        match (self.dead.binary_search(&member), is_dead) {
            (Err(position), true) => self.dead.insert(position, member),
            (Ok(position), false) => _ = self.dead.remove(position),
            _ => {}
        }
    }

    fn note_change(&mut self, now: Instant, before: u64, after: u64) {
        self.revision += 1;
        if before != after {
            self.fingerprint = self.fingerprint.wrapping_sub(before).wrapping_add(after);
            self.changed_at = now;
        }
    }
}
