//! Who is known to hold the own table: one bit for each member it calls alive.
//!
//! Equal fingerprints are equal tables, so they are equal lists of alive members, and a place in
//! that list is the same member on both nodes. Under another fingerprint it may be another member:
//! the bits are emptied by any change of the own one, and never carried over.

use std::time::Duration;

use crate::time::Instant;
use crate::wire::{self, Centiseconds, HOLDER_BYTES_MAX, HolderMap, HolderPlaces, Holders, Wish};

/// Longest time for which a wish is told; who still waits then says so again.
const WISH_MAX: Duration = Duration::from_secs(60);
/// A wish that lasts shorter is not taken from others: it must end.
const WISH_MIN: Duration = Duration::from_secs(1);
/// Bounds of the pause between two messages for a wish.
const PAUSE_MIN: Duration = Duration::from_millis(50);
const PAUSE_MAX: Duration = Duration::from_secs(1);

/// What was told contradicts the table that it speaks of. The sender's fault.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Implausible;

/// The bits, and whether somebody waits until all are set.
#[derive(Debug, Default)]
pub struct Agreement {
    /// The fingerprint that they are about.
    table: u64,
    /// How many there are.
    members: usize,
    /// How many are set.
    held: usize,
    bits: Vec<u64>,
    wish: Option<Wished>,
}

/// Somebody waits.
#[derive(Clone, Copy, Debug)]
struct Wished {
    until: Instant,
    pause: Duration,
}

impl Agreement {
    /// Whether the bits are about the table with this fingerprint.
    #[must_use]
    pub fn is_about(&self, table: u64) -> bool {
        self.members > 0 && self.table == table
    }

    /// The own table has this fingerprint from now on, and calls so many `members` alive, of which
    /// this node is the one at `own`. Of the others nothing is known.
    pub fn begin(&mut self, table: u64, members: usize, own: usize) {
        self.table = table;
        self.members = members;
        self.held = 0;
        self.bits.clear();
        self.bits.resize(members.div_ceil(64), 0);
        self.note(own);
    }

    /// The member at `place` holds the table.
    pub fn note(&mut self, place: usize) {
        if place < self.members && !self.holds(place) {
            self.bits[place / 64] |= 1 << (place % 64);
            self.held += 1;
        }
    }

    /// Whether the member at `place` is known to hold the table.
    #[must_use]
    pub fn holds(&self, place: usize) -> bool {
        let word = self.bits.get(place / 64);
        word.is_some_and(|word| word >> (place % 64) & 1 == 1)
    }

    /// The places of those that are known to hold it, in order.
    pub fn places(&self) -> impl Iterator<Item = usize> + '_ {
        let words = self.bits.iter().enumerate();
        words.flat_map(|(number, &word)| {
            let set = (0..64).filter(move |bit| word >> bit & 1 == 1);
            set.map(move |bit| 64 * number + bit)
        })
    }

    /// How many are known to hold it.
    #[must_use]
    pub fn held(&self) -> usize {
        self.held
    }

    /// Whether all are known to hold it.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.held == self.members
    }

    /// What a node with the same table knows.
    ///
    /// # Errors
    /// It cannot be about that table; nothing of it is taken.
    pub fn merge(&mut self, told: &Holders) -> Result<(), Implausible> {
        let map = match told {
            Holders::Untold => return Ok(()),
            Holders::All if self.is_complete() => return Ok(()),
            Holders::All => {
                (0..self.members).for_each(|place| self.note(place));
                return Ok(());
            }
            Holders::Some(map) => map,
        };
        if map.members as usize != self.members {
            return Err(Implausible);
        }
        let mut told = self.read(&map.places)?;
        if let HolderPlaces::Missing(_) = map.places {
            told.iter_mut().for_each(|word| *word = !*word);
            self.trim(&mut told);
        }
        self.held = 0;
        for (word, told) in self.bits.iter_mut().zip(told) {
            *word |= told;
            self.held += word.count_ones() as usize;
        }
        Ok(())
    }

    /// The places that are told as bits.
    fn read(&self, places: &HolderPlaces) -> Result<Vec<u64>, Implausible> {
        let mut bits = vec![0; self.bits.len()];
        match places {
            HolderPlaces::Map(bytes) => {
                if bytes.len() != self.members.div_ceil(8) {
                    return Err(Implausible);
                }
                for (place, &byte) in bytes.iter().enumerate() {
                    bits[place / 8] |= u64::from(byte) << (place % 8 * 8);
                }
                let before = bits.clone();
                self.trim(&mut bits);
                if bits != before {
                    return Err(Implausible);
                }
            }
            HolderPlaces::Held(gaps) | HolderPlaces::Missing(gaps) => {
                let mut next = 0_usize;
                for &gap in gaps.iter() {
                    let place = next.saturating_add(gap as usize);
                    if place >= self.members {
                        return Err(Implausible);
                    }
                    bits[place / 64] |= 1 << (place % 64);
                    next = place + 1;
                }
            }
        }
        Ok(bits)
    }

    /// Clears the bits beyond the last member.
    fn trim(&self, bits: &mut [u64]) {
        if let (Some(last), used @ 1..) = (bits.last_mut(), self.members % 64) {
            *last &= (1 << used) - 1;
        }
    }

    /// What is known, in at most `room` bytes; nothing where that is too little.
    #[must_use]
    pub fn told(&self, now: Instant, room: usize) -> Holders {
        if self.is_complete() {
            return Holders::All;
        }
        let missing = self.members - self.held;
        let listed = self.held.min(missing) <= HOLDER_BYTES_MAX.min(self.members / 8);
        let places = match listed {
            true if missing < self.held => HolderPlaces::Missing(self.gaps(false).into()),
            true => HolderPlaces::Held(self.gaps(true).into()),
            false if self.members.div_ceil(8) <= HOLDER_BYTES_MAX => self.map(),
            false => return Holders::Untold,
        };
        let holders = Holders::Some(HolderMap {
            members: u32::try_from(self.members).unwrap_or(u32::MAX),
            wish: self.told_wish(now),
            places,
        });
        if wire::holder_bytes(&holders) > room {
            return Holders::Untold;
        }
        holders
    }

    fn map(&self) -> HolderPlaces {
        let bytes = self.bits.iter().flat_map(|word| word.to_le_bytes());
        let bytes: Vec<u8> = bytes.take(self.members.div_ceil(8)).collect();
        HolderPlaces::Map(bytes.into())
    }

    /// The places whose bit is `set`, as gaps.
    fn gaps(&self, set: bool) -> Vec<u32> {
        let mut next = 0;
        let places = (0..self.members).filter(|&place| self.holds(place) == set);
        let gap = |place| {
            let gap = place - next;
            next = place + 1;
            gap as u32 // fewer members than `MEMBERS_MAX`
        };
        places.map(gap).collect()
    }

    /// Somebody waits on this node for `length`, and wants a message every `pause`.
    pub fn wish(&mut self, now: Instant, length: Duration, pause: Duration) {
        let until = now + length;
        let pause = pause.clamp(PAUSE_MIN, PAUSE_MAX);
        self.wish = Some(match self.wish.filter(|held| held.until > now) {
            Some(held) => Wished {
                until: held.until.max(until),
                pause: held.pause.min(pause),
            },
            None => Wished { until, pause },
        });
    }

    /// Somebody waits elsewhere. A wish is passed on for three quarters of its time: however often
    /// it goes to and fro, and however long messages take, it ends.
    pub fn hear_wish(&mut self, now: Instant, told: Wish) {
        let (Some(left), Some(pause)) = (told.left.duration(), told.pause.duration()) else {
            return;
        };
        let left = left.min(WISH_MAX) * 3 / 4;
        if left >= WISH_MIN {
            self.wish(now, left, pause);
        }
    }

    fn told_wish(&self, now: Instant) -> Wish {
        match self.wish {
            Some(wish) if wish.until > now => Wish {
                left: Centiseconds::from_duration(wish.until.since(now).min(WISH_MAX)),
                pause: Centiseconds::from_duration(wish.pause),
            },
            _ => Wish::NONE,
        }
    }

    /// The pause between two messages, while somebody waits and not all is known.
    #[must_use]
    pub fn wanted(&self, now: Instant) -> Option<Duration> {
        let wish = self.wish.filter(|wish| wish.until > now)?;
        (!self.is_complete()).then_some(wish.pause)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const NOW: Instant = Instant::from_nanos(1_000_000_000);
    const SECOND: Duration = Duration::from_secs(1);

    fn agreement(members: usize, held: impl IntoIterator<Item = usize>) -> Agreement {
        let mut agreement = Agreement::default();
        agreement.begin(1, members, 0);
        held.into_iter().for_each(|place| agreement.note(place));
        agreement
    }

    fn map(members: u32, places: HolderPlaces) -> Holders {
        Holders::Some(HolderMap {
            members,
            wish: Wish::NONE,
            places,
        })
    }

    proptest! {
        /// Whatever the form in which it is told, the other one knows it then, and nothing else.
        #[test]
        fn what_is_told_is_known_and_no_more(
            members in 1..400_usize,
            draws in prop::collection::vec(0..400_usize, 0..400),
            mostly: bool,
        ) {
            let drawn = |place: &usize| draws.contains(place) != mostly;
            let held = (0..members).filter(|place| *place == 0 || drawn(place));
            let held: Vec<usize> = held.collect();
            let told = agreement(members, held.iter().copied()).told(NOW, 1300);
            let mut other = agreement(members, [members - 1]);
            prop_assert_eq!(other.merge(&told), Ok(()));
            for place in 0..members {
                let expected = held.contains(&place) || place == members - 1;
                prop_assert_eq!(other.holds(place), expected);
            }
            let expected = (0..members).filter(|&place| other.holds(place)).count();
            prop_assert_eq!(other.held(), expected);
        }
    }

    /// The place of a member in one list is the place of another in the next: what was known of the
    /// table before a change says nothing of the table after it.
    #[test]
    fn any_other_fingerprint_empties_the_bits() {
        let mut agreement = agreement(3, [1, 2]);
        assert!(agreement.is_complete());
        assert!(agreement.is_about(1) && !agreement.is_about(2));
        agreement.begin(2, 3, 1);
        assert_eq!((agreement.held(), agreement.holds(1)), (1, true));
    }

    #[test]
    fn hostile_bits_are_refused_as_a_whole() {
        let mut held = agreement(10, []);
        let gaps = |gaps: Vec<u32>| HolderPlaces::Held(gaps.into());
        for told in [
            map(9, gaps(vec![1])),
            map(11, gaps(vec![1])),
            map(u32::MAX, gaps(vec![1])),
            map(10, gaps(vec![1, 8])),
            map(10, gaps(vec![u32::MAX, u32::MAX])),
            map(10, HolderPlaces::Missing(vec![10].into())),
            map(10, HolderPlaces::Map(vec![0xff].into())),
            map(10, HolderPlaces::Map(vec![0xff, 0x03, 0].into())),
            map(10, HolderPlaces::Map(vec![0xff, 0x04].into())),
        ] {
            assert_eq!(held.merge(&told), Err(Implausible), "{told:?}");
            assert_eq!(held.held(), 1, "{told:?}");
        }
        let good = map(10, HolderPlaces::Map(vec![0xff, 0x03].into()));
        assert_eq!(held.merge(&good), Ok(()));
        assert!(held.is_complete());
    }

    #[test]
    fn the_shortest_form_is_told_and_only_where_it_fits() {
        let bytes = |held: usize| wire::holder_bytes(&agreement(1000, 0..held).told(NOW, 1300));
        assert!(
            bytes(1) < 15 && bytes(999) < 15,
            "{}, {}",
            bytes(1),
            bytes(999)
        );
        assert!((125..140).contains(&bytes(500)), "{}", bytes(500));
        assert_eq!(agreement(1000, 0..1000).told(NOW, 0), Holders::All);
        assert_eq!(agreement(1000, 0..500).told(NOW, 100), Holders::Untold);
        assert_eq!(
            agreement(50_000, 0..25_000).told(NOW, 9999),
            Holders::Untold
        );
        assert!(bytes(10) < 25, "{}", bytes(10));
    }

    /// It goes to and fro between two nodes far apart, each way taking a tenth of a second.
    #[test]
    fn a_wish_ends_by_itself() {
        let (mut one, mut other) = (agreement(2, []), agreement(2, []));
        one.wish(NOW, 30 * SECOND, SECOND / 5);
        let mut now = NOW;
        while one.wanted(now).is_some() || other.wanted(now).is_some() {
            now = now + SECOND / 10;
            other.hear_wish(now, one.told_wish(now.before(SECOND / 10)));
            one.hear_wish(now, other.told_wish(now.before(SECOND / 10)));
            assert!(now.since(NOW) < 31 * SECOND);
        }
        assert!(now.since(NOW) >= 30 * SECOND);
    }

    #[test]
    fn a_wish_of_others_is_bounded() {
        let mut held = agreement(2, []);
        held.hear_wish(
            NOW,
            Wish {
                left: Centiseconds(u16::MAX),
                pause: Centiseconds(1),
            },
        );
        assert_eq!(held.wanted(NOW), None, "an unknown length");
        held.hear_wish(
            NOW,
            Wish {
                left: Centiseconds(65_000),
                pause: Centiseconds(0),
            },
        );
        assert_eq!(held.wanted(NOW), Some(PAUSE_MIN));
        assert_eq!(held.wanted(NOW + WISH_MAX), None);
    }
}
