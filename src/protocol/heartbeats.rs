//! Heartbeats: which are told of, and what is taken from those told.

use std::time::Duration;

use super::spreading::Cargo;
use super::table::Entry;
use super::{ArrivalWindow, Node, Rejection};
use crate::member::{HeartbeatState, NameHash};
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
        for (member, entry) in self.table.around(cursor).take(4 * wanted) {
            if picked.len() == wanted {
                break;
            }
            cursor = member;
            if Some(member) != peer {
                picked.extend(self.heartbeat_entry(member, entry));
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

    /// Records a heartbeat that somebody passed on.
    pub(super) fn hear_passed_on(&mut self, entry: &HeartbeatEntry) {
        let (Some(member), Some(age)) =
            (self.table.active_with(entry.member), entry.age.duration())
        else {
            return;
        };
        let Some(held) = self.table.get(member).map(Entry::heartbeat) else {
            return;
        };
        if GenerationLow::of(held.generation) == entry.generation {
            let beat = HeartbeatState {
                generation: held.generation,
                version: entry.version.nearest(held.version),
            };
            self.hear_heartbeat(member, beat, age);
        }
    }

    pub(super) fn hear_heartbeat(&mut self, member: NameHash, beat: HeartbeatState, age: Duration) {
        let counted_at = self.now.before(age);
        let entry = self.table.get_mut(member);
        let Some(entry) = entry.filter(|_| member != self.local.hash) else {
            return;
        };
        if beat.generation != entry.record.standing.generation {
            return;
        }
        let held = entry.heartbeat();
        if held.accepts(beat) {
            entry.version = beat.version;
            entry.arrivals.record(counted_at.since(entry.counted_at));
            entry.counted_at = entry.counted_at.max(counted_at);
        } else if beat > held {
            self.stats.rejected.add(Rejection::Heartbeat, 1);
        }
    }
}
