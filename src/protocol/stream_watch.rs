//! Whether streams still get through. Datagrams would hide a broken stream path until somebody has
//! to join or to be repaired over it, so one member a minute is asked over a stream, in turn.

use std::collections::BTreeSet;
use std::time::Duration;

use super::outbox::ExchangeId;
use crate::member::NameHash;
use crate::time::Instant;

/// Time between two such questions of one node.
const PERIOD: Duration = Duration::from_secs(60);

/// Whose turn it is, and what became of the streams that this node opened.
#[derive(Debug)]
pub struct StreamWatch {
    next: Instant,
    asked: NameHash,
    /// Streams still open on which an answer has come: no more than are open.
    answered: BTreeSet<ExchangeId>,
    answered_at: Option<Instant>,
}

impl StreamWatch {
    /// The first question comes within a period of `now`, at a moment that follows from the node's
    /// own name: nodes that start together do not ask together.
    #[must_use]
    pub fn new(own: NameHash, now: Instant) -> Self {
        let share = u64::from_be_bytes(own.to_wire()) as f64 / u64::MAX as f64;
        StreamWatch {
            next: now + PERIOD.mul_f64(share),
            asked: own,
            answered: BTreeSet::new(),
            answered_at: None,
        }
    }

    /// Whom to ask now: the next of the `active` members, which are sorted, if it is time.
    pub fn take_due(&mut self, active: &[NameHash], now: Instant) -> Option<NameHash> {
        if now < self.next {
            return None;
        }
        let after = active.partition_point(|&member| member <= self.asked);
        let member = *active.get(after).or(active.first())?;
        self.asked = member;
        self.next = now + PERIOD;
        Some(member)
    }

    /// An answer has come on a stream that this node opened.
    pub fn heard(&mut self, exchange: ExchangeId, now: Instant) {
        self.answered.insert(exchange);
        self.answered_at = Some(now);
    }

    /// A stream that this node opened has ended; whether an answer had come on it.
    pub fn ended(&mut self, exchange: ExchangeId) -> bool {
        self.answered.remove(&exchange)
    }

    /// When the latest answer came.
    #[must_use]
    pub fn answered_at(&self) -> Option<Instant> {
        self.answered_at
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn member(n: u64) -> NameHash {
        NameHash::from_wire(n.to_be_bytes())
    }

    #[test]
    fn all_members_have_their_turn_once_a_minute() {
        let mut watch = StreamWatch::new(member(3), Instant::ORIGIN);
        let active = [member(1), member(2), member(5), member(9)];
        let mut now = Instant::ORIGIN;
        let mut asked = Vec::new();
        while asked.len() < 8 {
            now = now + Duration::from_secs(1);
            asked.extend(watch.take_due(&active, now).map(|member| (now, member)));
        }
        let turns: Vec<_> = asked.iter().map(|&(_, member)| member).collect();
        assert_eq!(turns[..4], [5, 9, 1, 2].map(member));
        assert_eq!(turns[..4], turns[4..]);
        assert!(
            asked
                .windows(2)
                .all(|pair| pair[1].0.since(pair[0].0) == PERIOD)
        );
        assert_eq!(watch.take_due(&[], now + PERIOD), None);
    }

    #[test]
    fn an_answer_is_told_from_an_end_without_one() {
        let mut watch = StreamWatch::new(member(u64::MAX), Instant::ORIGIN);
        let now = Instant::ORIGIN + PERIOD;
        assert_eq!(watch.answered_at(), None);
        watch.heard(ExchangeId(1), now);
        assert_eq!(watch.answered_at(), Some(now));
        assert!(watch.ended(ExchangeId(1)));
        assert!(!watch.ended(ExchangeId(1)), "it is forgotten");
        assert!(!watch.ended(ExchangeId(2)));
    }
}
