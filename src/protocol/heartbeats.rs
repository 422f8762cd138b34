//! Heartbeats: which are told of, and what is taken from those told.

use std::time::Duration;

use super::spreading::Cargo;
use super::table::Entry;
use super::{ArrivalWindow, Node, Rejection};
use crate::member::{HeartbeatState, NameHash};
use crate::time::Instant;
use crate::wire::{Centiseconds, GenerationLow, HeartbeatEntry, NameHashHigh, VersionLow};

/// Upper bound of one heartbeat's bytes.
const HEARTBEAT_BYTES_MAX: usize = 10;
/// Heartbeats older than this are not passed on.
const HEARTBEAT_AGE_MAX: Duration = Duration::from_secs(600);

impl Node {
    /// Heartbeats of the members that were told of least recently: the walk around the ring goes
    /// on where the last message stopped.
    pub(super) fn pick_heartbeats(
        &mut self,
        peer: Option<NameHash>,
        cargo: &mut Cargo,
    ) -> Vec<HeartbeatEntry> {
        let wanted = self
            .config
            .heartbeats_per_message
            .min(cargo.room / HEARTBEAT_BYTES_MAX);
        let mut cursor = self.heartbeat_cursor;
        let mut picked = Vec::with_capacity(wanted);
        // A bounded look: members without a recent heartbeat are passed over.
        let ring = self.table.active().len();
        let mut position = self.table.ring_after(cursor);
        for _ in 0..ring.min(4 * wanted) {
            if picked.len() == wanted {
                break;
            }
            position = if position < ring { position } else { 0 };
            let (member, entry) = self.table.active_at(position);
            position += 1;
            cursor = member;
            if Some(member) != peer
                && let Some(beat) = self.heartbeat_entry(member, entry)
            {
                picked.push(beat);
            }
        }
        self.heartbeat_cursor = cursor;
        cargo.room -= picked.len() * HEARTBEAT_BYTES_MAX;
        picked
    }

    fn heartbeat_entry(
        &self,
        member: NameHash,
        entry: &Entry<ArrivalWindow>,
    ) -> Option<HeartbeatEntry> {
        let version = entry.version;
        let age = self.now.since(entry.counted_at);
        (version.0 > 0 && age < HEARTBEAT_AGE_MAX).then(|| HeartbeatEntry {
            member: NameHashHigh::of(member),
            generation: GenerationLow::of(entry.record.standing.generation),
            version: VersionLow::of(version),
            age: Centiseconds::from_duration(age),
        })
    }

    /// Records heartbeats that somebody passed on: of neighbours on the ring, most often.
    pub(super) fn hear_passed_on(&mut self, told: &[HeartbeatEntry]) {
        let mut near = 0;
        for told in told {
            self.hear_of_another(told, &mut near);
        }
    }

    /// The same of one, that is probably `near` a position on the ring.
    fn hear_of_another(&mut self, told: &HeartbeatEntry, near: &mut usize) {
        let Some(age) = told.age.duration() else {
            return;
        };
        let Some((position, entry)) = self.table.active_with(told.member, *near) else {
            return;
        };
        *near = position + 1;
        let held = entry.heartbeat();
        if GenerationLow::of(held.generation) != told.generation {
            return;
        }
        let beat = HeartbeatState {
            generation: held.generation,
            version: told.version.nearest(held.version),
        };
        if !count_heartbeat(entry, beat, self.now.before(age)) {
            self.reject(Rejection::Heartbeat);
        }
    }

    /// Records a heartbeat that its member counted `age` ago.
    pub(super) fn hear_heartbeat(&mut self, member: NameHash, beat: HeartbeatState, age: Duration) {
        if member == self.local.hash {
            return;
        }
        if let Some(entry) = self.table.get_mut(member)
            && !count_heartbeat(entry, beat, self.now.before(age))
        {
            self.reject(Rejection::Heartbeat);
        }
    }
}

/// Takes over `beat`, counted at `counted_at`, where it is a newer one of the life that the entry
/// is about; whether it can be true.
fn count_heartbeat(
    entry: &mut Entry<ArrivalWindow>,
    beat: HeartbeatState,
    counted_at: Instant,
) -> bool {
    let held = entry.heartbeat();
    if beat.generation != held.generation || beat.version <= held.version {
        return true;
    }
    if !held.accepts(beat) {
        return false;
    }
    entry.version = beat.version;
    entry.arrivals.record(counted_at.since(entry.counted_at));
    entry.counted_at = entry.counted_at.max(counted_at);
    true
}
