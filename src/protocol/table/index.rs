//! Members in the order of their hashes, each with the place of its entry.

use crate::member::NameHash;
use crate::wire::NameHashHigh;

/// Up to so many members a plain search is the quicker one.
const SMALL: usize = 64;
/// How far from the guess is looked first: one line of cache.
const STEP: usize = 8;

/// A sorted list of members: the hash ring. Twelve bytes a member; finding touches little memory,
/// and taking in a member that comes last is free.
#[derive(Debug, Default)]
pub struct Index {
    members: Vec<NameHash>,
    /// Where the entry of the member at the same position is.
    places: Vec<u32>,
}

impl Index {
    /// The members, sorted.
    #[must_use]
    pub fn members(&self) -> &[NameHash] {
        &self.members
    }

    /// Where the entry of `member` is.
    #[must_use]
    pub fn find(&self, member: NameHash) -> Option<usize> {
        Some(self.place(self.position(member).ok()?))
    }

    /// Where the entry of the member at `position` is.
    #[must_use]
    pub fn place(&self, position: usize) -> usize {
        self.places[position] as usize
    }

    /// Where `member` stands in the order, or would stand.
    ///
    /// # Errors
    /// It is not there.
    pub fn position(&self, member: NameHash) -> Result<usize, usize> {
        if self.members.last().is_none_or(|&last| last < member) {
            return Err(self.members.len());
        }
        if self.members.len() <= SMALL {
            return self.members.binary_search(&member);
        }
        let (from, to) = self.neighbourhood(member);
        match self.members[from..to].binary_search(&member) {
            Ok(step) => Ok(from + step),
            Err(step) => Err(from + step),
        }
    }

    /// The position of the only member whose hash has the high half `high`; looked for at `near`
    /// first.
    #[must_use]
    pub fn single_with(&self, high: NameHashHigh, near: usize) -> Option<usize> {
        let at = |position: usize| self.members.get(position).map(|&it| NameHashHigh::of(it));
        let is_first = at(near) == Some(high) && (near == 0 || at(near - 1) != Some(high));
        let first = match is_first {
            true => near,
            false => match self.position(high.least()) {
                Ok(position) | Err(position) => position,
            },
        };
        (at(first) == Some(high) && at(first + 1) != Some(high)).then_some(first)
    }

    /// A range that holds the position of `member`. Hashes are evenly spread, so the value tells
    /// about where it is, give or take the square root of their number: the search begins there
    /// and doubles its steps until the member lies between two of them.
    fn neighbourhood(&self, member: NameHash) -> (usize, usize) {
        let count = self.members.len();
        let share = u128::from(u64::from_be_bytes(member.to_wire()));
        let guess = ((share * count as u128) >> 64) as usize;
        let (mut from, mut to, mut step) = (guess, guess, STEP);
        while from > 0 && self.members[from - 1] >= member {
            from = from.saturating_sub(step);
            step *= 2;
        }
        while to < count && self.members[to] <= member {
            to = (to + step).min(count);
            step *= 2;
        }
        (from, to)
    }

    /// Makes room for exactly `more` members.
    pub fn reserve(&mut self, more: usize) {
        self.members.reserve_exact(more);
        self.places.reserve_exact(more);
    }

    /// Takes `member` in, or notes that its entry has moved.
    pub fn set(&mut self, member: NameHash, place: usize) {
        let place = place as u32; // at most `MEMBERS_MAX`
        match self.position(member) {
            Ok(position) => self.places[position] = place,
            Err(position) => {
                grow_gently(&mut self.members);
                grow_gently(&mut self.places);
                self.members.insert(position, member);
                self.places.insert(position, place);
            }
        }
    }

    /// Takes in a member that comes after all others.
    pub fn push(&mut self, member: NameHash, place: usize) {
        debug_assert!(self.members.last().is_none_or(|&last| last < member));
        self.members.push(member);
        self.places.push(place as u32);
    }

    /// Takes `member` out, if it is there.
    pub fn remove(&mut self, member: NameHash) {
        if let Ok(position) = self.position(member) {
            self.members.remove(position);
            self.places.remove(position);
        }
    }

    /// All members with the places of their entries.
    pub fn iter(&self) -> impl Iterator<Item = (NameHash, usize)> {
        let places = self.places.iter().map(|&place| place as usize);
        self.members.iter().copied().zip(places)
    }
}

/// Room for one more, growing by an eighth: doubling would leave half of a large table unused.
pub fn grow_gently<T>(list: &mut Vec<T>) {
    if list.len() == list.capacity() {
        list.reserve_exact(list.len() / 8 + 4);
    }
}

/// Two sorted sequences as one.
pub fn merged<T: Ord>(
    left: impl Iterator<Item = T>,
    right: impl Iterator<Item = T>,
) -> impl Iterator<Item = T> {
    let (mut left, mut right) = (left.peekable(), right.peekable());
    std::iter::from_fn(move || match (left.peek(), right.peek()) {
        (Some(a), Some(b)) if b < a => right.next(),
        (Some(_), _) => left.next(),
        (None, _) => right.next(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn who(n: u64) -> NameHash {
        NameHash::from_wire(n.to_be_bytes())
    }

    #[test]
    fn members_are_found_whatever_the_order_they_came_in() {
        let mut index = Index::default();
        for n in [5, 1, 9, 3, 7] {
            index.set(who(n), n as usize * 10);
        }
        index.remove(who(9));
        index.remove(who(2));
        index.set(who(3), 33);
        let all: Vec<_> = index.iter().collect();
        assert_eq!(
            all,
            [(who(1), 10), (who(3), 33), (who(5), 50), (who(7), 70)]
        );
        assert_eq!(index.find(who(3)), Some(33));
        assert_eq!(index.find(who(9)), None);
    }

    /// Names can be chosen so that their hashes lie close together: that may be slow, not wrong.
    #[test]
    fn positions_are_right_however_the_hashes_lie() {
        let even = |n: u64| n << 54;
        let low = |n: u64| n * 3;
        let high = |n: u64| u64::MAX - 5 * (1000 - n);
        let sizes = [SMALL as u64, 999];
        for (hash, size) in [even, low, high]
            .into_iter()
            .flat_map(|it| sizes.map(|n| (it, n)))
        {
            let mut index = Index::default();
            for n in 1..=size {
                index.set(who(hash(n)), n as usize);
            }
            let sorted = index.members().to_vec();
            for n in 0..1000 {
                for near in [
                    hash(n).saturating_sub(1),
                    hash(n),
                    hash(n).saturating_add(1),
                ] {
                    let expected = sorted.binary_search(&who(near));
                    assert_eq!(index.position(who(near)), expected, "{near}");
                }
            }
        }
    }

    #[test]
    fn half_a_hash_means_one_member_or_nobody_wherever_it_is_looked_for_first() {
        let mut index = Index::default();
        for hash in [
            1,
            7 << 32,
            (8 << 32) + 5,
            (8 << 32) + 9,
            (9 << 32) + 1,
            u64::MAX,
        ] {
            index.set(who(hash), 0);
        }
        for near in 0..8 {
            let found = [0, 6, 7, 8, 9, u32::MAX].map(|n| index.single_with(NameHashHigh(n), near));
            let expected = [Some(0), None, Some(1), None, Some(4), Some(5)];
            assert_eq!(found, expected, "near {near}");
        }
        assert_eq!(Index::default().single_with(NameHashHigh(0), 0), None);
    }

    #[test]
    fn two_sorted_sequences_are_one() {
        let all: Vec<_> = merged([1, 4, 6].into_iter(), [2, 3, 7, 8].into_iter()).collect();
        assert_eq!(all, [1, 2, 3, 4, 6, 7, 8]);
    }

    #[test]
    fn growing_leaves_little_unused() {
        let mut list = Vec::new();
        for n in 0..10_000 {
            grow_gently(&mut list);
            list.push(n);
        }
        assert!(list.capacity() < 11_300, "{}", list.capacity());
    }
}
