//! Members of earlier times that the table does not list: where they were reached.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use crate::member::{Generation, NameHash, Remembered};
use crate::time::Instant;

/// Most of them that are remembered for their address alone; those that were seen last stay.
pub const ADDRESSES_MAX: usize = 256;
/// After so long without an answer an address is asked less often.
const PATIENCE: Duration = Duration::from_secs(600);
/// Pause between two questions to such an address.
const SILENT_PAUSE: Duration = Duration::from_secs(30);
/// Pause after an answer: it leads to a join, which may be refused.
const ANSWERED_PAUSE: Duration = Duration::from_secs(5);

#[derive(Debug)]
struct Held {
    member: Remembered,
    /// The silence in `member` is as of this instant.
    noted_at: Instant,
    /// Since when its address has not answered, as far as this run has asked.
    silent_since: Instant,
    /// When it may be asked next.
    due: Instant,
}

/// All of them, by the hash of their names.
#[derive(Debug, Default)]
pub struct MemoryBook {
    held: BTreeMap<NameHash, Held>,
    revision: u64,
}

impl MemoryBook {
    /// Remembers `member` from `now` on.
    pub fn remember(&mut self, member: Remembered, now: Instant) {
        self.revision += u64::from(member.stored);
        let held = Held {
            noted_at: now,
            silent_since: now,
            due: now,
            member,
        };
        self.held.insert(held.member.name.hash(), held);
    }

    /// Forgets whom the table lists, as `is_listed` says. Who has been silent for `retention` is
    /// no longer shown, and only so many of those keep their place.
    pub fn tidy(
        &mut self,
        now: Instant,
        retention: Duration,
        is_listed: impl Fn(NameHash) -> bool,
    ) {
        self.held.retain(|&member, _| !is_listed(member));
        let mut hidden = Vec::new();
        for (&member, held) in &mut self.held {
            let silence = held.silence(now);
            if silence >= retention && std::mem::take(&mut held.member.stored) {
                self.revision += 1;
            }
            if !held.member.stored {
                hidden.push((silence, member));
            }
        }
        if hidden.len() > ADDRESSES_MAX {
            hidden.sort_unstable();
            for (_, member) in hidden.drain(ADDRESSES_MAX..) {
                self.held.remove(&member);
            }
        }
    }

    /// All, in the order of their hashes, as of `now`.
    pub fn iter(&self, now: Instant) -> impl Iterator<Item = (NameHash, Remembered)> + '_ {
        self.held.iter().map(move |(&member, held)| {
            let silence = held.silence(now);
            let remembered = Remembered {
                silence,
                ..held.member.clone()
            };
            (member, remembered)
        })
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.held.is_empty()
    }

    /// Those that may be asked at `now`.
    #[must_use]
    pub fn due(&self, now: Instant) -> Vec<NameHash> {
        let due = self.held.iter().filter(|(_, held)| held.due <= now);
        due.map(|(&member, _)| member).collect()
    }

    /// Where and by which generation `member` was reached.
    #[must_use]
    pub fn reached(&self, member: NameHash) -> Option<(SocketAddr, Generation)> {
        let member = &self.held.get(&member)?.member;
        Some((member.address, member.generation))
    }

    /// `member` is being asked.
    pub fn asked(&mut self, member: NameHash, now: Instant) {
        if let Some(held) = self.held.get_mut(&member)
            && now.since(held.silent_since) >= PATIENCE
        {
            held.due = now + SILENT_PAUSE;
        }
    }

    /// Somebody has answered where `member` was reached.
    pub fn answered(&mut self, member: NameHash, now: Instant) {
        if let Some(held) = self.held.get_mut(&member) {
            held.silent_since = now;
            held.due = now + ANSWERED_PAUSE;
        }
    }

    /// Counts the changes that a reader of the shown members sees, beside those of the table.
    #[must_use]
    pub fn revision(&self) -> u64 {
        self.revision
    }
}

impl Held {
    fn silence(&self, now: Instant) -> Duration {
        self.member.silence.saturating_add(now.since(self.noted_at))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::member::NodeId;

    const HOUR: Duration = Duration::from_secs(3600);

    fn member(n: u16, silence: Duration, stored: bool) -> Remembered {
        Remembered {
            name: format!("n{n}").parse().expect("valid"),
            address: ([127, 0, 0, 1], n).into(),
            node_id: NodeId(n.into()),
            generation: Generation(1),
            silence,
            stored,
        }
    }

    #[test]
    fn a_silent_address_is_asked_every_half_minute_after_ten_minutes() {
        let mut book = MemoryBook::default();
        let start = Instant::ORIGIN;
        book.remember(member(1, HOUR, false), start);
        let hash = member(1, HOUR, false).name.hash();
        book.asked(hash, start);
        assert_eq!(book.due(start).len(), 1, "at a constant rate at first");
        let later = start + PATIENCE;
        book.asked(hash, later);
        assert!(book.due(later + SILENT_PAUSE / 2).is_empty());
        assert_eq!(book.due(later + SILENT_PAUSE).len(), 1);
        book.answered(hash, later);
        assert!(book.due(later + ANSWERED_PAUSE / 2).is_empty());
        book.asked(hash, later + ANSWERED_PAUSE);
        assert_eq!(book.due(later + ANSWERED_PAUSE).len(), 1);
    }

    #[test]
    fn the_shown_ones_are_hidden_in_time_and_the_hidden_ones_are_bounded() {
        let mut book = MemoryBook::default();
        let start = Instant::ORIGIN;
        for n in 0..300 {
            book.remember(member(n, HOUR * u32::from(n % 30), true), start);
        }
        let revision = book.revision();
        let shown = |book: &MemoryBook, now| book.iter(now).filter(|(_, m)| m.stored).count();
        book.tidy(start, 24 * HOUR, |_| false);
        assert_eq!((shown(&book, start), book.iter(start).count()), (240, 300));
        assert_eq!(book.revision(), revision + 60);
        let later = start + 24 * HOUR;
        book.tidy(later, 24 * HOUR, |_| false);
        assert_eq!(shown(&book, later), 0);
        assert_eq!(book.iter(later).count(), ADDRESSES_MAX);
        let oldest = book.iter(later).map(|(_, m)| m.silence).max();
        assert!(oldest < Some(53 * HOUR), "{oldest:?}");
    }

    #[test]
    fn whom_the_table_lists_is_forgotten_here() {
        let mut book = MemoryBook::default();
        book.remember(member(1, HOUR, true), Instant::ORIGIN);
        let hash = member(1, HOUR, true).name.hash();
        book.tidy(Instant::ORIGIN, 24 * HOUR, |member| member == hash);
        assert!(book.is_empty());
        assert_eq!(book.reached(hash), None);
    }
}
