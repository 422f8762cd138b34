//! Members in the order of their hashes, each with the place of its entry.

use crate::member::NameHash;

/// A sorted list of members: the hash ring. Twelve bytes a member; finding is a binary search in
/// memory that lies together, and taking in a member that comes last is free.
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
        let position = self.members.binary_search(&member).ok()?;
        Some(self.places[position] as usize)
    }

    /// Makes room for exactly `more` members.
    pub fn reserve(&mut self, more: usize) {
        self.members.reserve_exact(more);
        self.places.reserve_exact(more);
    }

    /// Takes `member` in, or notes that its entry has moved.
    pub fn set(&mut self, member: NameHash, place: usize) {
        let place = place as u32; // at most `MEMBERS_MAX`
        match self.members.binary_search(&member) {
            Ok(position) => self.places[position] = place,
            Err(position) => {
                grow_gently(&mut self.members);
                grow_gently(&mut self.places);
                self.members.insert(position, member);
                self.places.insert(position, place);
            }
        }
    }

    /// Takes `member` out, if it is there.
    pub fn remove(&mut self, member: NameHash) {
        if let Ok(position) = self.members.binary_search(&member) {
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
