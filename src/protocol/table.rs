//! The membership table: records under their precedence, and what can be computed from them.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::member::{NameHash, Record, Standing, Status, keyed_hash};
use crate::time::Instant;
use crate::wire::Age;

/// Most members a table holds, dead ones included; further ones are refused.
pub const MEMBERS_MAX: usize = 100_000;

const FINGERPRINT_DOMAIN: u64 = 3;

/// One member, with whatever state `P` the caller keeps about it as a peer.
#[derive(Debug)]
pub struct Entry<P> {
    /// What is told to others.
    pub record: Record,
    /// Since when it has its status; for dead and left members adjusted by the age they came with,
    /// so that no path makes a death younger.
    pub since: Instant,
    /// Whether it is shown, told and part of the fingerprint. False for a tombstone that has
    /// passed its retention and only refuses what is older than itself.
    pub listed: bool,
    /// Whether this node alone holds it for dead, without contact to anybody.
    pub isolated_verdict: bool,
    /// The caller's.
    pub peer: P,
}

impl<P> Entry<P> {
    /// The status as shown: the told one, or the verdict of an isolated node.
    #[must_use]
    pub fn shown_status(&self) -> Status {
        if self.isolated_verdict {
            Status::Dead
        } else {
            self.record.standing.status
        }
    }

    /// Seconds since it died or left; 0 while it is active.
    #[must_use]
    pub fn age(&self, now: Instant) -> Age {
        if self.record.standing.status.is_active() {
            return Age(0);
        }
        Age(u32::try_from(now.since(self.since).as_secs()).unwrap_or(u32::MAX))
    }
}

/// What a merge changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Change {
    /// The standing before; `None` for a new member.
    pub before: Option<Standing>,
    /// The standing now.
    pub after: Standing,
    /// Whether the name's spelling, address, tags, services or wire versions changed.
    pub metadata: bool,
}

/// The records of all members, the own one included.
#[derive(Debug)]
pub struct Table<P> {
    entries: BTreeMap<NameHash, Entry<P>>,
    /// Alive and suspect members without the local one, sorted: the hash ring.
    active: Vec<NameHash>,
    /// Dead members (not left), sorted.
    dead: Vec<NameHash>,
    /// Dead and left members, tombstones that are not listed any more included: what is swept.
    gone: BTreeSet<NameHash>,
    local: NameHash,
    retention: Duration,
    fingerprint: u64,
    revision: u64,
    changed_at: Instant,
}

impl<P> Table<P> {
    /// An empty table of the node `local`. Dead and left members are listed for `retention`, and
    /// remembered as long again.
    #[must_use]
    pub fn new(local: NameHash, retention: Duration, now: Instant) -> Self {
        Table {
            entries: BTreeMap::new(),
            active: Vec::new(),
            dead: Vec::new(),
            gone: BTreeSet::new(),
            local,
            retention,
            fingerprint: 0,
            revision: 0,
            changed_at: now,
        }
    }

    /// The member under this hash.
    #[must_use]
    pub fn get(&self, member: NameHash) -> Option<&Entry<P>> {
        self.entries.get(&member)
    }

    /// The member under this hash; its record is changed only by [`merge`](Table::merge).
    pub fn get_mut(&mut self, member: NameHash) -> Option<&mut Entry<P>> {
        self.entries.get_mut(&member)
    }

    /// All entries in the order of their hashes.
    pub fn iter(&self) -> impl Iterator<Item = (NameHash, &Entry<P>)> {
        self.entries.iter().map(|(&member, entry)| (member, entry))
    }

    /// Alive and suspect members other than the local one, in ring order.
    #[must_use]
    pub fn active(&self) -> &[NameHash] {
        &self.active
    }

    /// Dead members, those that left excepted.
    #[must_use]
    pub fn dead(&self) -> &[NameHash] {
        &self.dead
    }

    /// Alive and suspect members, the local one included.
    #[must_use]
    pub fn size(&self) -> usize {
        self.active.len() + 1
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

    /// Merges `record`, decided `age` ago where it is dead or left. `None` when nothing changed
    /// that a reader would see, or when the record is about an unknown member and too old to be
    /// learnt, or the table is full.
    pub fn merge(
        &mut self,
        now: Instant,
        record: &Record,
        age: Age,
        new_peer: impl FnOnce() -> P,
    ) -> Option<Change> {
        let member = record.name.hash();
        let decided = now.before(Duration::from_secs(age.0.into()));
        if !self.entries.contains_key(&member) {
            return self.learn(now, member, record, decided, new_peer());
        }
        let before_hash = self.listed_hash(member);
        let entry = self.entries.get_mut(&member)?;
        let before = entry.record.standing;
        let spelling_before = entry.record.name.clone();
        let metadata_before = entry.record.current_metadata().cloned();
        entry.record.merge(record);
        let after = entry.record.standing;
        let metadata = entry.record.current_metadata() != metadata_before.as_ref()
            || entry.record.name != spelling_before;
        if after.status != before.status || after.instance() != before.instance() {
            // Repeating a verdict must not make the death younger (quickwit-oss/chitchat PR#123).
            entry.since = if after.status.is_active() {
                now
            } else {
                decided
            };
        } else if !after.status.is_active() && record.standing == after {
            entry.since = entry.since.min(decided);
        }
        if after.status.is_active() {
            entry.listed = true;
        }
        if before == after && !metadata {
            return None;
        }
        entry.isolated_verdict = false;
        self.reindex(member, after.status);
        self.note_change(now, before_hash, self.listed_hash(member));
        Some(Change {
            before: Some(before),
            after,
            metadata,
        })
    }

    fn learn(
        &mut self,
        now: Instant,
        member: NameHash,
        record: &Record,
        decided: Instant,
        peer: P,
    ) -> Option<Change> {
        let status = record.standing.status;
        let since = if status.is_active() { now } else { decided };
        if self.entries.len() >= MEMBERS_MAX || now.since(since) >= self.retention {
            return None;
        }
        let record = record.clone();
        let after = record.standing;
        let entry = Entry {
            record,
            since,
            listed: true,
            isolated_verdict: false,
            peer,
        };
        self.entries.insert(member, entry);
        self.reindex(member, status);
        self.note_change(now, 0, self.listed_hash(member));
        Some(Change {
            before: None,
            after,
            metadata: true,
        })
    }

    /// Sets or lifts the verdict of an isolated node.
    pub fn set_isolated_verdict(&mut self, member: NameHash, verdict: bool) {
        if let Some(entry) = self.entries.get_mut(&member)
            && entry.isolated_verdict != verdict
        {
            entry.isolated_verdict = verdict;
            self.revision += 1;
        }
    }

    /// Stops listing what has passed its retention, and forgets what has passed it twice.
    pub fn sweep(&mut self, now: Instant) {
        let passed = |entry: &Entry<P>, times: u32| {
            now.since(entry.since) >= self.retention.saturating_mul(times)
        };
        let gone = || {
            self.gone
                .iter()
                .filter_map(|&member| Some((member, self.entries.get(&member)?)))
        };
        let unlisted: Vec<NameHash> = gone()
            .filter(|(_, entry)| entry.listed && passed(entry, 1))
            .map(|(member, _)| member)
            .collect();
        let purged: Vec<NameHash> = gone()
            .filter(|(_, entry)| passed(entry, 2))
            .map(|(member, _)| member)
            .collect();
        for member in unlisted {
            let before = self.listed_hash(member);
            if let Some(entry) = self.entries.get_mut(&member) {
                entry.listed = false;
            }
            remove(&mut self.dead, member);
            self.note_change(now, before, 0);
        }
        for member in purged {
            self.gone.remove(&member);
            self.entries.remove(&member);
        }
    }

    fn reindex(&mut self, member: NameHash, status: Status) {
        remove(&mut self.active, member);
        remove(&mut self.dead, member);
        self.gone.remove(&member);
        if member == self.local {
            return;
        }
        if !status.is_active() {
            self.gone.insert(member);
        }
        match status {
            Status::Alive | Status::Suspect => insert(&mut self.active, member),
            Status::Dead => insert(&mut self.dead, member),
            Status::Left => {}
        }
    }

    fn note_change(&mut self, now: Instant, before: u64, after: u64) {
        self.revision += 1;
        if before != after {
            self.fingerprint = self.fingerprint.wrapping_sub(before).wrapping_add(after);
            self.changed_at = now;
        }
    }

    fn listed_hash(&self, member: NameHash) -> u64 {
        match self.entries.get(&member) {
            Some(entry) if entry.listed => record_hash(member, &entry.record),
            _ => 0,
        }
    }
}

/// What one record adds to the fingerprint.
fn record_hash(member: NameHash, record: &Record) -> u64 {
    let standing = &record.standing;
    let status = match standing.status {
        Status::Suspect => Status::Alive,
        status => status,
    };
    let metadata = record
        .current_metadata()
        .map_or(u64::MAX, |metadata| metadata.version.into());
    let mut bytes = [0; 43];
    bytes[..8].copy_from_slice(&member.to_wire());
    bytes[8..16].copy_from_slice(&standing.generation.0.to_be_bytes());
    bytes[16..24].copy_from_slice(&standing.node_id.0.to_be_bytes());
    bytes[24..28].copy_from_slice(&standing.incarnation.0.to_be_bytes());
    bytes[28..30].copy_from_slice(&standing.strikes.to_be_bytes());
    bytes[30] = status as u8;
    bytes[31] = u8::from(standing.forgotten);
    bytes[32..40].copy_from_slice(&metadata.to_be_bytes());
    keyed_hash(FINGERPRINT_DOMAIN, &bytes)
}

fn insert(sorted: &mut Vec<NameHash>, member: NameHash) {
    if let Err(place) = sorted.binary_search(&member) {
        sorted.insert(place, member);
    }
}

fn remove(sorted: &mut Vec<NameHash>, member: NameHash) {
    if let Ok(place) = sorted.binary_search(&member) {
        sorted.remove(place);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::member::{Generation, HeartbeatState, Incarnation, NodeId};

    const HOUR: Duration = Duration::from_secs(3600);

    fn record(name: &str, generation: u64, incarnation: u32, status: Status) -> Record {
        let generation = Generation(generation);
        Record {
            name: name.parse().expect("valid"),
            standing: Standing {
                incarnation: Incarnation(incarnation),
                status,
                ..Standing::alive(generation, NodeId(1))
            },
            heartbeat: HeartbeatState::default(),
            metadata: None,
        }
    }

    fn table() -> Table<()> {
        let local: crate::member::NodeName = "local".parse().expect("valid");
        Table::new(local.hash(), 24 * HOUR, Instant::ORIGIN)
    }

    fn merge(table: &mut Table<()>, now: Instant, record: &Record) -> Option<Change> {
        table.merge(now, record, Age(0), || ())
    }

    #[test]
    fn equal_tables_have_equal_fingerprints_whatever_the_order() {
        let now = Instant::ORIGIN;
        let records = [
            record("a", 1, 0, Status::Alive),
            record("b", 1, 0, Status::Dead),
            record("b", 1, 1, Status::Alive),
            record("c", 2, 0, Status::Left),
        ];
        let (mut forth, mut back) = (table(), table());
        records
            .iter()
            .for_each(|record| _ = merge(&mut forth, now, record));
        records
            .iter()
            .rev()
            .for_each(|record| _ = merge(&mut back, now, record));
        assert_eq!(forth.fingerprint(), back.fingerprint());
        assert_ne!(forth.fingerprint(), table().fingerprint());
        assert_eq!(forth.active().len(), 2);
    }

    #[test]
    fn a_suspicion_leaves_the_fingerprint_alone_but_is_a_revision() {
        let mut table = table();
        merge(
            &mut table,
            Instant::ORIGIN,
            &record("a", 1, 0, Status::Alive),
        );
        let (fingerprint, revision) = (table.fingerprint(), table.revision());
        merge(
            &mut table,
            Instant::ORIGIN,
            &record("a", 1, 0, Status::Suspect),
        );
        assert_eq!(table.fingerprint(), fingerprint);
        assert!(table.revision() > revision);
    }

    /// uber-node/ringpop-node PR#15, quickwit-oss/chitchat#94: stale claims had side effects.
    #[test]
    fn stale_claims_change_nothing() {
        let mut table = table();
        merge(
            &mut table,
            Instant::ORIGIN,
            &record("a", 2, 1, Status::Suspect),
        );
        for stale in [
            record("a", 2, 0, Status::Dead),
            record("a", 2, 1, Status::Alive),
            record("a", 1, 9, Status::Left),
        ] {
            assert_eq!(merge(&mut table, Instant::ORIGIN, &stale), None);
        }
        assert_eq!(table.iter().count(), 1);
    }

    /// quickwit-oss/chitchat PR#123: every repeated verdict renewed the time of death.
    #[test]
    fn repeated_verdicts_keep_the_first_time_of_death() {
        let mut table = table();
        let death = Instant::ORIGIN + 100 * HOUR;
        merge(&mut table, death, &record("a", 1, 0, Status::Alive));
        let dead = record("a", 1, 0, Status::Dead);
        merge(&mut table, death, &dead);
        for later in 1..23 {
            merge(&mut table, death + later * HOUR, &dead);
            table.sweep(death + later * HOUR);
        }
        let member = dead.name.hash();
        assert!(table.get(member).expect("remembered").listed);
        table.sweep(death + 24 * HOUR);
        assert!(!table.get(member).expect("a silent fence").listed);
        assert_eq!(
            merge(
                &mut table,
                death + 25 * HOUR,
                &record("a", 1, 0, Status::Alive)
            ),
            None
        );
        table.sweep(death + 48 * HOUR);
        assert!(table.get(member).is_none());
    }

    #[test]
    fn old_deaths_of_strangers_are_not_learnt() {
        let mut table = table();
        let now = Instant::ORIGIN + 100 * HOUR;
        let dead = record("a", 1, 0, Status::Dead);
        assert_eq!(table.merge(now, &dead, Age(24 * 3600), || ()), None);
        assert!(table.merge(now, &dead, Age(24 * 3600 - 1), || ()).is_some());
    }

    #[test]
    fn a_fence_lets_a_new_life_pass() {
        let mut table = table();
        let death = Instant::ORIGIN + 100 * HOUR;
        merge(&mut table, death, &record("a", 5, 0, Status::Dead));
        table.sweep(death + 30 * HOUR);
        let change = merge(
            &mut table,
            death + 30 * HOUR,
            &record("a", 6, 0, Status::Alive),
        );
        assert!(change.is_some_and(|change| change.before != Some(change.after)));
        assert!(
            table
                .get(record("a", 6, 0, Status::Alive).name.hash())
                .expect("back")
                .listed
        );
    }
}
