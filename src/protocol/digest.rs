//! Which records of two tables differ, found out from salted numbers.
//!
//! A record counts as the same where its owner and everything that the fingerprint covers are the
//! same; only records that are part of the fingerprint take part. Two numbers of four bytes are
//! equal by chance once in 2^32, two sums of a bucket once in 65,536: the fingerprints still differ
//! then, and the next exchange has another salt.

use crate::member::NameHash;
use crate::wire::{
    Bucket, BucketSum, DIGEST_BUCKETS, DIGEST_IDS_MAX, IDS_MAX, Salt, ShortId, Summary,
};

/// A record that is told: whose it is, and its part of the fingerprint.
pub type Told = (NameHash, u64);

/// What two tables lack of each other.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Lacking {
    /// Own records that the other table lacks.
    pub there: Vec<NameHash>,
    /// The ids of its records that the own one lacks.
    pub here: Vec<ShortId>,
}

/// The digest of a table: ids while they are few, sums of buckets otherwise.
#[must_use]
pub fn summary(salt: Salt, table: &[Told]) -> Summary {
    if table.len() <= DIGEST_IDS_MAX {
        let ids: Vec<ShortId> = table.iter().map(|&(_, record)| id(salt, record)).collect();
        return Summary::Records(ids.into());
    }
    Summary::Buckets(sums(salt, table).into())
}

/// What this table and one with the records of these `ids` lack of each other.
#[must_use]
pub fn compare(salt: Salt, table: &[Told], ids: &[ShortId]) -> Lacking {
    lacking(salt, table.iter().copied(), ids.to_vec())
}

/// The buckets whose sums are not these, each with the ids of the own records in it. Buckets that
/// the list leaves out count as empty.
#[must_use]
pub fn differing(salt: Salt, table: &[Told], theirs: &[BucketSum]) -> Vec<Bucket> {
    let own = sums(salt, table);
    let mut ids = vec![Vec::new(); DIGEST_BUCKETS];
    let differs = |place: usize| own[place] != theirs.get(place).copied().unwrap_or_default();
    for &(member, record) in table {
        let place = bucket(salt, member);
        if differs(place) {
            ids[place].push(id(salt, record));
        }
    }
    let named = ids
        .into_iter()
        .zip(0..)
        .filter(|(_, place)| differs(*place));
    named
        .map(|(ids, place): (Vec<ShortId>, usize)| Bucket {
            number: place as u16,
            ids: ids.into(),
        })
        .collect()
}

/// What this table and the other, which holds just these records in these buckets, lack of each
/// other there.
#[must_use]
pub fn compare_buckets(salt: Salt, table: &[Told], buckets: &[Bucket]) -> Lacking {
    let mut named = [false; DIGEST_BUCKETS];
    let mut ids = Vec::new();
    for bucket in buckets {
        if let Some(named) = named.get_mut(usize::from(bucket.number)) {
            *named = true;
            ids.extend_from_slice(&bucket.ids);
        }
    }
    let inside = table
        .iter()
        .filter(|(member, _)| named[bucket(salt, *member)]);
    lacking(salt, inside.copied(), ids)
}

/// The members whose records have these ids.
#[must_use]
pub fn find(salt: Salt, table: &[Told], ids: &[ShortId]) -> Vec<NameHash> {
    let mut ids = ids.to_vec();
    ids.sort_unstable();
    let asked = |record: u64| ids.binary_search(&id(salt, record)).is_ok();
    let found = table.iter().filter(|(_, record)| asked(*record));
    found.map(|&(member, _)| member).collect()
}

fn lacking(salt: Salt, table: impl Iterator<Item = Told>, mut ids: Vec<ShortId>) -> Lacking {
    ids.sort_unstable();
    ids.dedup();
    let mut held = vec![false; ids.len()];
    let mut there = Vec::new();
    for (member, record) in table {
        match ids.binary_search(&id(salt, record)) {
            Ok(place) => held[place] = true,
            Err(_) => there.push(member),
        }
    }
    let mut here: Vec<ShortId> = ids
        .into_iter()
        .zip(held)
        .filter_map(|(id, held)| (!held).then_some(id))
        .collect();
    here.truncate(IDS_MAX);
    Lacking { there, here }
}

fn sums(salt: Salt, table: &[Told]) -> Vec<BucketSum> {
    let mut sums = vec![BucketSum::default(); DIGEST_BUCKETS];
    for &(member, record) in table {
        let sum = &mut sums[bucket(salt, member)].0;
        *sum = sum.wrapping_add((mixed(salt, record) >> 32) as u16);
    }
    sums
}

/// The bucket of a member, whatever is said of it: so a record and its successor share one.
fn bucket(salt: Salt, member: NameHash) -> usize {
    let member = u64::from_be_bytes(member.to_wire());
    mixed(salt, member) as usize % DIGEST_BUCKETS
}

fn id(salt: Salt, record: u64) -> ShortId {
    ShortId(mixed(salt, record) as u32)
}

/// A number that shows nothing of `value` without `salt`, nor with another salt (the finalizer of
/// MurmurHash3, Appleby 2011).
fn mixed(salt: Salt, value: u64) -> u64 {
    let mut mixed = value ^ salt.0;
    mixed = (mixed ^ (mixed >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
    mixed = (mixed ^ (mixed >> 33)).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    mixed ^ (mixed >> 33)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(members: std::ops::Range<u64>) -> Vec<Told> {
        let spread = |n: u64| n.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ (n << 7);
        let told = |n: u64| (NameHash::from_wire(spread(n).to_be_bytes()), spread(n + 77));
        members.map(told).collect()
    }

    fn changed(mut table: Vec<Told>, places: impl Iterator<Item = usize>) -> Vec<Told> {
        places.for_each(|place| table[place].1 ^= 0x5555_0000_1234);
        table
    }

    /// Plays an exchange between two tables; how many each lacks of the other.
    fn exchange(salt: Salt, one: &[Told], other: &[Told]) -> (usize, usize) {
        match summary(salt, one) {
            Summary::Records(ids) => {
                let lacking = compare(salt, other, &ids);
                assert_eq!(find(salt, one, &lacking.here).len(), lacking.here.len());
                (lacking.there.len(), lacking.here.len())
            }
            Summary::Buckets(theirs) => {
                let lacking = compare_buckets(salt, one, &differing(salt, other, &theirs));
                assert_eq!(find(salt, other, &lacking.here).len(), lacking.here.len());
                (lacking.here.len(), lacking.there.len())
            }
        }
    }

    #[test]
    fn equal_tables_differ_in_nothing() {
        for count in [0, 1, 200, 201, 5000] {
            let table = table(0..count);
            assert_eq!(exchange(Salt(3), &table, &table), (0, 0), "{count}");
        }
    }

    #[test]
    fn just_what_differs_is_exchanged() {
        for count in [10, 200, 201, 1000, 10_000] {
            for differing in [1, 7, 10, 100, 1000] {
                let base = table(0..count);
                let places = (0..base.len()).step_by(base.len().div_ceil(differing));
                let changes = places.clone().count();
                let other = changed(base.clone(), places);
                let mut missed = 0;
                for salt in 1..=20 {
                    let moved = exchange(Salt(salt << 40), &base, &other);
                    assert_eq!(moved.0, moved.1);
                    missed += usize::from(moved.0 != changes);
                }
                assert!(missed <= 1, "{count}, {differing}: missed {missed} times");
            }
        }
    }

    /// The asker has few records and the other many, or none at all.
    #[test]
    fn a_part_of_a_table_is_completed() {
        for (held, all) in [(0, 5), (0, 1000), (150, 1000), (300, 1000), (1000, 150)] {
            let (one, other) = (table(0..held), table(0..all));
            let lacks = all.saturating_sub(held) as usize;
            let spare = held.saturating_sub(all) as usize;
            assert_eq!(
                exchange(Salt(9), &one, &other),
                (lacks, spare),
                "{held} of {all}"
            );
        }
    }

    /// What is hidden by one salt is found with the next.
    #[test]
    fn what_collides_under_one_salt_does_not_under_another() {
        let base = table(0..1000);
        let other = changed(base.clone(), 0..1);
        let found = |salt: u64| exchange(Salt(salt), &base, &other).0;
        let hidden = (1..1_000_000).find(|&salt| found(salt * 0x1_0001_0001) == 0);
        let hidden = hidden.expect("once in 65,536") * 0x1_0001_0001;
        assert_eq!((found(hidden), found(hidden + 1)), (0, 1));
    }

    /// A hostile peer may name buckets twice, or such as there are not, and list less than all.
    #[test]
    fn odd_buckets_and_short_lists_are_borne() {
        let table = table(0..1000);
        let odd = |number: u16| Bucket {
            number,
            ids: vec![ShortId(1), ShortId(1)].into(),
        };
        let lacking = compare_buckets(Salt(1), &table, &[odd(7), odd(7), odd(65_535), odd(512)]);
        assert_eq!(lacking.here, [ShortId(1)]);
        assert!(lacking.there.len() < 20);
        let all = differing(Salt(1), &table, &[]);
        let listed: usize = all.iter().map(|bucket| bucket.ids.len()).sum();
        assert_eq!(listed, 1000);
    }
}
