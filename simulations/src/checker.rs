//! Invariants that hold after every event, each a function with its reason.
//!
//! The checker looks from outside: it keeps what it saw of every process and compares. It knows
//! nothing of how the core reaches its conclusions.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::time::Duration;

use rumord::member::{Generation, NameHash, NodeId, Record, Standing, Status};
use rumord::protocol::{Config, Event, EventKind, MemberEvent};
use rumord::time::Instant;
use rumord::wire::{self, Carrier, ClusterTag, SEALING_BYTES, STREAM_FRAME_BYTES_MAX};

use crate::network::Tally;
use crate::process::{Process, ProcessId};

/// Tables up to this size are looked through after every change.
const SMALL_TABLE: usize = 128;
/// Larger ones at most this often: looking takes time in proportion to their size.
const LARGE_TABLE_PAUSE: Duration = Duration::from_millis(100);

/// An invariant that does not hold.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Violation {
    /// The name of the invariant.
    pub invariant: &'static str,
    /// When it was found.
    pub at: Instant,
    /// On which process; `None` for the network.
    pub process: Option<ProcessId>,
    /// What was found.
    pub detail: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let process = self.process.map_or_else(|| "-".into(), |id| id.to_string());
        write!(f, "{} on {process}: {}", self.invariant, self.detail)
    }
}

/// What was last seen of one process's table.
#[derive(Debug)]
struct Seen {
    revision: u64,
    at: Instant,
    standings: BTreeMap<NameHash, Standing>,
}

type Life = (NameHash, u64, NodeId);

/// Everything that the invariants need to remember.
#[derive(Debug, Default)]
pub struct Checker {
    seen: BTreeMap<ProcessId, Seen>,
    owners: BTreeMap<Life, Standing>,
    tables: BTreeMap<u64, u64>,
    held: BTreeMap<(NameHash, Generation), BTreeSet<u64>>,
    agreeing: BTreeMap<ProcessId, (u64, usize)>,
    damaged: u64,
    violations: Vec<Violation>,
}

impl Checker {
    /// Looks at a process that has just handled something.
    ///
    /// # Errors
    /// The first invariant that does not hold.
    pub fn inspect(&mut self, now: Instant, process: &Process) -> Result<(), Violation> {
        self.note_table(process);
        self.invariant_who_agrees_has_held_the_table(now, process)?;
        let revision = process.node.revision();
        let seen = self.seen.get(&process.id);
        if seen.is_some_and(|seen| seen.revision == revision) {
            return Ok(());
        }
        if let Some(record) = process.node.record_of(&process.name) {
            let (generation, node_id) = record.standing.instance();
            let life = (process.name.hash(), generation.0, node_id);
            // Copies of one identity share a life: each may have refuted.
            let own = self.owners.entry(life).or_insert(record.standing);
            *own = record.standing.max(*own);
        }
        let rests = |seen: &Seen| {
            seen.standings.len() > SMALL_TABLE && now.since(seen.at) < LARGE_TABLE_PAUSE
        };
        if seen.is_some_and(rests) {
            return Ok(());
        }
        self.invariant_view_never_moves_back(now, process)?;
        self.invariant_only_the_owner_refutes(now, process)?;
        self.invariant_equal_fingerprints_mean_equal_tables(now, process)?;
        let standings = process.node.records().map(|r| (r.name.hash(), r.standing));
        let seen = Seen {
            revision,
            at: now,
            standings: standings.collect(),
        };
        self.seen.insert(process.id, seen);
        Ok(())
    }

    fn note_table(&mut self, process: &Process) {
        let life = (process.name.hash(), process.node.state().generation);
        let tables = self.held.entry(life).or_default();
        tables.insert(process.node.fingerprint());
    }

    /// Looks at something that a process says.
    ///
    /// # Errors
    /// The first invariant that does not hold.
    pub fn inspect_event(
        &self,
        now: Instant,
        process: &Process,
        event: &Event,
        config: &Config,
    ) -> Result<(), Violation> {
        let Event::Member(event) = event else {
            return Ok(());
        };
        self.invariant_nobody_accuses_itself(now, process, event)?;
        self.invariant_no_verdict_within_the_tolerance(now, process, event, config)
    }

    /// What was found of a user event that came out; see [`EventStore`](crate::store::EventStore).
    /// Damaged bytes may say anything.
    ///
    /// # Errors
    /// An invariant does not hold.
    pub fn invariant_events(
        &self,
        now: Instant,
        process: &Process,
        taken: Result<(), (&'static str, String)>,
    ) -> Result<(), Violation> {
        match taken {
            Err((invariant, detail)) if self.damaged == 0 => {
                broken(invariant, now, process, detail)
            }
            _ => Ok(()),
        }
    }

    /// Damaged bytes were delivered: nothing follows any more from what others are known to have
    /// said.
    pub fn note_damaged(&mut self) {
        self.damaged += 1;
    }

    /// Keeps a violation.
    pub fn keep(&mut self, violation: Violation) {
        self.violations.push(violation);
    }

    /// All violations that were kept.
    #[must_use]
    pub fn violations(&self) -> &[Violation] {
        &self.violations
    }

    /// What a node holds of a member only ever moves up in the order of standings, in which the
    /// later claim wins. If it moved back, two nodes that heard the same claims in different
    /// orders would disagree for ever.
    fn invariant_view_never_moves_back(
        &self,
        now: Instant,
        process: &Process,
    ) -> Result<(), Violation> {
        let Some(seen) = self.seen.get(&process.id) else {
            return Ok(());
        };
        for record in process.node.records() {
            let before = seen.standings.get(&record.name.hash());
            if before.is_some_and(|before| *before > record.standing) {
                let detail = format!("{}: {before:?} became {:?}", record.name, record.standing);
                return broken("view-never-moves-back", now, process, detail);
            }
        }
        Ok(())
    }

    /// Nobody holds an incarnation of a life above the one its owner has reached: only the owner
    /// raises it. Otherwise an accusation could not be refuted by the next one, and any node could
    /// speak for any other.
    fn invariant_only_the_owner_refutes(
        &self,
        now: Instant,
        process: &Process,
    ) -> Result<(), Violation> {
        if self.damaged > 0 {
            return Ok(());
        }
        for record in process.node.records() {
            let (generation, node_id) = record.standing.instance();
            let life = (record.name.hash(), generation.0, node_id);
            let own = self.owners.get(&life);
            if own.is_none_or(|own| own.incarnation < record.standing.incarnation) {
                let detail = format!("{}: {:?}, owner {own:?}", record.name, record.standing);
                return broken("only-the-owner-refutes", now, process, detail);
            }
        }
        Ok(())
    }

    /// Two nodes with equal fingerprints hold equal tables, suspect counted as alive. Agreement is
    /// read off the fingerprints, and a difference they hide would never be repaired.
    fn invariant_equal_fingerprints_mean_equal_tables(
        &mut self,
        now: Instant,
        process: &Process,
    ) -> Result<(), Violation> {
        let fingerprint = process.node.fingerprint();
        let table = digest(process.node.records().map(Arc::as_ref));
        let known = *self.tables.entry(fingerprint).or_insert(table);
        if known != table {
            let detail = format!("fingerprint {fingerprint:016x} stands for two tables");
            return broken("equal-fingerprints-mean-equal-tables", now, process, detail);
        }
        Ok(())
    }

    /// Whoever a node counts as agreeing has held, in the life that the node lists, a table with
    /// the node's fingerprint. An operator restarts the next member because of it.
    fn invariant_who_agrees_has_held_the_table(
        &mut self,
        now: Instant,
        process: &Process,
    ) -> Result<(), Violation> {
        let table = process.node.fingerprint();
        let agreeing = (table, process.node.agreeing());
        if self.agreeing.insert(process.id, agreeing) == Some(agreeing) || self.damaged > 0 {
            return Ok(());
        }
        for record in process.node.known_holders() {
            let life = (record.name.hash(), record.standing.generation);
            let held = self.held.get(&life);
            if !held.is_some_and(|held| held.contains(&table)) {
                let detail = format!("{} never held {table:016x}", record.name);
                return broken("who-agrees-has-held-the-table", now, process, detail);
            }
        }
        Ok(())
    }

    /// No node reports itself as suspect or dead: it knows better, and a reader of its table would
    /// take it out of service. Only an eviction for losing packets it accepts, until it has tried
    /// itself.
    fn invariant_nobody_accuses_itself(
        &self,
        now: Instant,
        process: &Process,
        event: &MemberEvent,
    ) -> Result<(), Violation> {
        let accuses = matches!(event.kind, EventKind::MemberSuspect | EventKind::MemberDead);
        let evicted = event
            .evidence
            .as_ref()
            .is_some_and(|it| it.rule == "degraded");
        if accuses && !evicted && event.member.hash() == process.name.hash() {
            let detail = format!("{event:?}");
            return broken("nobody-accuses-itself", now, process, detail);
        }
        Ok(())
    }

    /// A node that declares somebody dead by its own evidence has had no sign of life from it for
    /// at least the pause tolerance. That is the promise by which operators choose the tolerance.
    fn invariant_no_verdict_within_the_tolerance(
        &self,
        now: Instant,
        process: &Process,
        event: &MemberEvent,
        config: &Config,
    ) -> Result<(), Violation> {
        let Some(evidence) = &event.evidence else {
            return Ok(());
        };
        let verdict = event.kind == EventKind::MemberDead && evidence.rule == "own";
        if verdict && evidence.silence < config.pause_tolerance {
            let detail = format!("{event:?}");
            return broken("no-verdict-within-the-tolerance", now, process, detail);
        }
        Ok(())
    }

    /// Every datagram decodes, and leaves room for sealing within the largest datagram: a longer
    /// one would be lost on some networks and never on the author's.
    ///
    /// # Errors
    /// It does not.
    pub fn invariant_datagram_fits_and_decodes(
        &self,
        now: Instant,
        process: &Process,
        payload: &[u8],
        bytes_max: usize,
    ) -> Result<(), Violation> {
        let decoded = wire::decode(tag(process), payload, Carrier::Datagram);
        if payload.len() + SEALING_BYTES > bytes_max || decoded.is_err() {
            let detail = format!("{} bytes, {:?}", payload.len(), decoded.err());
            return broken("datagram-fits-and-decodes", now, process, detail);
        }
        Ok(())
    }

    /// Every frame of a stream decodes and is within the largest frame: the receiver drops a
    /// longer one, and a table that cannot be told cannot be joined.
    ///
    /// # Errors
    /// It does not.
    pub fn invariant_frame_fits_and_decodes(
        &self,
        now: Instant,
        process: &Process,
        frame: &[u8],
    ) -> Result<(), Violation> {
        let decoded = wire::decode(tag(process), frame, Carrier::Stream);
        if frame.len() > STREAM_FRAME_BYTES_MAX || decoded.is_err() {
            let detail = format!("{} bytes, {:?}", frame.len(), decoded.err());
            return broken("frame-fits-and-decodes", now, process, detail);
        }
        Ok(())
    }

    /// After a deadline the next one lies in the future; otherwise a driver would spin.
    ///
    /// # Errors
    /// It does not.
    pub fn invariant_deadline_moves_on(
        &self,
        now: Instant,
        process: &Process,
    ) -> Result<(), Violation> {
        let (local, next) = (process.clock.local(now), process.node.next_deadline());
        if next <= local {
            let detail = format!("{next:?} at {local:?}");
            return broken("deadline-moves-on", now, process, detail);
        }
        Ok(())
    }

    /// Every datagram sent was delivered, dropped for a reason, or is under way (`open` of them
    /// were found): a simulator that loses some without a trace proves nothing.
    ///
    /// # Errors
    /// The books do not balance.
    pub fn invariant_packets_are_conserved(
        &self,
        now: Instant,
        tally: &Tally,
        open: u64,
    ) -> Result<(), Violation> {
        if tally.open() == open {
            return Ok(());
        }
        Err(Violation {
            invariant: "packets-are-conserved",
            at: now,
            process: None,
            detail: format!("{open} under way, but {tally:?}"),
        })
    }
}

fn broken(
    invariant: &'static str,
    at: Instant,
    process: &Process,
    detail: String,
) -> Result<(), Violation> {
    Err(Violation {
        invariant,
        at,
        process: Some(process.id),
        detail,
    })
}

fn tag(process: &Process) -> ClusterTag {
    ClusterTag::of(&process.cluster)
}

/// A number for what a table says, made in another way than the core's fingerprint.
fn digest<'a>(records: impl Iterator<Item = &'a Record>) -> u64 {
    let mut hasher = DefaultHasher::new();
    for record in records {
        let mut told = record.standing;
        if told.status == Status::Suspect {
            told.status = Status::Alive;
        }
        let metadata = record.current_metadata();
        let place = metadata.map(|metadata| (metadata.version, metadata.address));
        (record.name.hash(), told, place).hash(&mut hasher);
    }
    hasher.finish()
}
