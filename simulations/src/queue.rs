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
#[derive(Debug)]
pub struct Queue<T> {
    heap: BinaryHeap<Reverse<Entry<T>>>,
    sequence: u64,
}

#[derive(Debug)]
struct Entry<T> {
    key: (Instant, Class, u64),
    item: T,
}

impl<T> Queue<T> {
    /// An empty queue.
    #[must_use]
    pub fn new() -> Self {
        Queue {
            heap: BinaryHeap::new(),
            sequence: 0,
        }
    }

    /// Puts `item` in, due `at`.
    pub fn push(&mut self, at: Instant, class: Class, item: T) {
        let key = (at, class, self.sequence);
        self.sequence += 1;
        self.heap.push(Reverse(Entry { key, item }));
    }

    /// When the next item is due.
    #[must_use]
    pub fn next_at(&self) -> Option<Instant> {
        self.heap.peek().map(|Reverse(entry)| entry.key.0)
    }

    /// Takes the next item, with the instant it is due.
    pub fn pop(&mut self) -> Option<(Instant, T)> {
        let Reverse(entry) = self.heap.pop()?;
        Some((entry.key.0, entry.item))
    }

    /// All items, in no order.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.heap.iter().map(|Reverse(entry)| &entry.item)
    }
}

impl<T> Default for Queue<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> PartialEq for Entry<T> {
    fn eq(&self, other: &Self) -> bool {
        self.key == other.key
    }
}

impl<T> Eq for Entry<T> {}

impl<T> PartialOrd for Entry<T> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl<T> Ord for Entry<T> {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.key.cmp(&other.key)
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
    }
}
