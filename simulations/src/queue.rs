//! What happens next: one queue for everything, in one order.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use rumord::time::Instant;

/// What comes first among things due at one instant.
///
/// Deliveries come before deadlines, because a node hands over everything received before it lets
/// time pass; faults come between, so that a pause that ends now ends before the deadlines.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Class {
    /// Something reaches a node.
    Delivery,
    /// A fault begins or ends.
    Fault,
    /// A node's clock has reached its deadline.
    Deadline,
}

/// A queue ordered by (instant, class, sequence): things of one class that are due at one instant
/// come out in the order in which they went in.
///
/// The heap orders keys alone; what they stand for keeps its place, because moving whole packets
/// up and down the heap takes longer than all the comparing.
#[derive(Debug)]
pub struct Queue<T> {
    heap: BinaryHeap<Reverse<Key>>,
    items: Vec<Option<T>>,
    free: Vec<usize>,
    sequence: u64,
}

/// The order, and where the item is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Key {
    at: Instant,
    class: Class,
    sequence: u64,
    place: usize,
}

impl<T> Queue<T> {
    /// An empty queue.
    #[must_use]
    pub fn new() -> Self {
        Queue {
            heap: BinaryHeap::new(),
            items: Vec::new(),
            free: Vec::new(),
            sequence: 0,
        }
    }

    /// Puts `item` in, due `at`.
    pub fn push(&mut self, at: Instant, class: Class, item: T) {
        let place = match self.free.pop() {
            Some(place) => {
                self.items[place] = Some(item);
                place
            }
            None => {
                self.items.push(Some(item));
                self.items.len() - 1
            }
        };
        self.heap.push(Reverse(Key {
            at,
            class,
            sequence: self.sequence,
            place,
        }));
        self.sequence += 1;
    }

    /// When the next item is due.
    #[must_use]
    pub fn next_at(&self) -> Option<Instant> {
        self.heap.peek().map(|Reverse(key)| key.at)
    }

    /// Takes the next item, with the instant it is due.
    pub fn pop(&mut self) -> Option<(Instant, T)> {
        let Reverse(Key { at, place, .. }) = self.heap.pop()?;
        let item = self.items[place].take()?;
        self.free.push(place);
        Some((at, item))
    }

    /// All items, in no order.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.items.iter().flatten()
    }
}

impl<T> Default for Queue<T> {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deliveries_come_before_faults_before_deadlines_then_first_in_first_out() {
        let mut queue = Queue::new();
        let (early, late) = (Instant::from_nanos(1), Instant::from_nanos(2));
        queue.push(late, Class::Delivery, "late");
        queue.push(early, Class::Deadline, "deadline");
        queue.push(early, Class::Fault, "fault");
        queue.push(early, Class::Delivery, "first");
        queue.push(early, Class::Delivery, "second");
        let order: Vec<_> = std::iter::from_fn(|| queue.pop())
            .map(|(_, item)| item)
            .collect();
        assert_eq!(order, ["first", "second", "fault", "deadline", "late"]);
        queue.push(late, Class::Fault, "again");
        assert_eq!(queue.iter().collect::<Vec<_>>(), [&"again"]);
        assert_eq!(queue.pop(), Some((late, "again")));
        assert_eq!(queue.pop(), None);
    }
}
