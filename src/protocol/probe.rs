//! The questions this node has asked and not yet closed.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::time::Duration;

use crate::member::NameHash;
use crate::time::Instant;
use crate::wire::{ProbeSeq, Target};

use super::outbox::{ExchangeId, StreamId};

/// Most questions kept, answered ones excluded; beyond it the oldest are dropped.
pub const PROBES_MAX: usize = 4096;

/// Why a question was asked; it decides what an answer, or its absence, means.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Purpose {
    /// The period's probe.
    Scheduled,
    /// A further ping of an open case.
    Case,
    /// A ping-req of an open case, through this relay.
    Relayed {
        /// The relay.
        relay: NameHash,
        /// Whether it has said that it gets no answer; one may come late.
        denied: bool,
    },
    /// A ping over a stream.
    Stream(ExchangeId),
    /// A ping on behalf of a member whose ping-req said so.
    Relay {
        /// Who asked.
        requester: SocketAddr,
        /// As which member.
        asker: NameHash,
        /// Its sequence number.
        seq: ProbeSeq,
        /// Whether the wait was prolonged because this node was late.
        prolonged: bool,
    },
    /// A look whether a dead member is back.
    Contact,
    /// A look whether somebody is where a member of earlier times was reached.
    Remembered {
        /// Where.
        address: SocketAddr,
    },
    /// A question whether the holder of a name runs, before another instance may take it.
    Admission(StreamId),
    /// A look whether tables are equal.
    Check,
    /// A look of this node, which was evicted, whether it is answered again.
    Try,
    /// A look whether a path carries datagrams, or the largest.
    Path {
        /// The largest.
        large: bool,
    },
    /// A ping that tells that this node leaves.
    Leave,
    /// A ping that tells that this member is forgotten.
    Forget(NameHash),
}

impl Purpose {
    /// Whether an answer, or a miss of somebody who then proves alive, tells how much is lost. What
    /// this node asks for others, or of the dead, does not: there only answers would count.
    #[must_use]
    pub const fn measures_loss(self) -> bool {
        matches!(self, Purpose::Scheduled | Purpose::Case | Purpose::Check)
    }
}

/// One open question.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Probe {
    /// About whom.
    pub target: Target,
    /// When it was asked.
    pub sent_at: Instant,
    /// Why.
    pub purpose: Purpose,
    /// Whether its timeout has passed; it is kept so that a late answer still counts.
    pub timed_out: bool,
}

/// All open questions by sequence number.
#[derive(Debug)]
pub struct ProbeBook {
    /// In the order of asking, which is that of their numbers, wrapping.
    open: VecDeque<(ProbeSeq, Probe)>,
    next: u32,
}

impl ProbeBook {
    /// An empty book whose numbers start at `first`: a random one, so that answers to an earlier
    /// life are not taken for answers to this one.
    #[must_use]
    pub fn new(first: u32) -> Self {
        ProbeBook {
            open: VecDeque::new(),
            next: first,
        }
    }

    /// A number for a question whose answer says nothing about a member.
    pub fn number(&mut self) -> ProbeSeq {
        let seq = ProbeSeq(self.next);
        self.next = self.next.wrapping_add(1);
        seq
    }

    /// Enters a question and gives it a number.
    pub fn ask(&mut self, target: Target, sent_at: Instant, purpose: Purpose) -> ProbeSeq {
        let seq = self.number();
        if self.open.len() >= PROBES_MAX {
            self.open.pop_front();
        }
        let probe = Probe {
            target,
            sent_at,
            purpose,
            timed_out: false,
        };
        self.open.push_back((seq, probe));
        seq
    }

    /// The question with this number.
    #[must_use]
    pub fn get(&self, seq: ProbeSeq) -> Option<&Probe> {
        Some(&self.open[self.place(seq)?].1)
    }

    /// The question with this number, to be changed.
    pub fn get_mut(&mut self, seq: ProbeSeq) -> Option<&mut Probe> {
        let place = self.place(seq)?;
        Some(&mut self.open[place].1)
    }

    /// Takes the question with this number out.
    pub fn close(&mut self, seq: ProbeSeq) -> Option<Probe> {
        let place = self.place(seq)?;
        self.open.remove(place).map(|(_, probe)| probe)
    }

    /// Open questions asked on behalf of others.
    #[must_use]
    pub fn relaying(&self) -> usize {
        let relayed =
            |probe: &&Probe| matches!(probe.purpose, Purpose::Relay { .. }) && !probe.timed_out;
        let probes = self.open.iter().map(|(_, probe)| probe);
        probes.filter(relayed).count()
    }

    /// Takes out the unanswered pings of `target` that were sent before `proof`, the sending of
    /// one it answered: losses, then, and not signs of death. Returns how many there were. What an
    /// earlier life did not answer is no loss: it was dead.
    pub fn settle(&mut self, target: Target, proof: Instant) -> usize {
        let lost = |probe: &Probe| {
            probe.timed_out
                && probe.target == target
                && probe.sent_at < proof
                && probe.purpose.measures_loss()
        };
        let before = self.open.len();
        self.open.retain(|(_, probe)| !lost(probe));
        before - self.open.len()
    }

    /// Drops what was asked more than `age` ago: no answer is awaited any more.
    pub fn expire(&mut self, now: Instant, age: Duration) {
        self.open
            .retain(|(_, probe)| now.since(probe.sent_at) <= age);
    }

    /// Where the question of this number is.
    fn place(&self, seq: ProbeSeq) -> Option<usize> {
        let (first, _) = self.open.front()?;
        let after_first = |seq: ProbeSeq| seq.0.wrapping_sub(first.0);
        let sought = after_first(seq);
        let place = self
            .open
            .binary_search_by_key(&sought, |&(seq, _)| after_first(seq));
        place.ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::member::Generation;

    fn target(n: u64) -> Target {
        Target {
            member: NameHash::from_wire(n.to_be_bytes()),
            generation: Generation(1),
        }
    }

    #[test]
    fn the_book_is_bounded_and_numbers_wrap() {
        let mut book = ProbeBook::new(u32::MAX);
        let first = book.ask(target(1), Instant::ORIGIN, Purpose::Scheduled);
        assert_eq!(first, ProbeSeq(u32::MAX));
        assert_eq!(
            book.ask(target(1), Instant::ORIGIN, Purpose::Scheduled),
            ProbeSeq(0)
        );
        for _ in 0..2 * PROBES_MAX {
            book.ask(target(1), Instant::ORIGIN, Purpose::Scheduled);
        }
        assert_eq!(book.open.len(), PROBES_MAX);
    }

    #[test]
    fn only_earlier_unanswered_pings_are_losses() {
        let second = Duration::from_secs(1);
        let mut book = ProbeBook::new(0);
        let early = book.ask(target(1), Instant::ORIGIN, Purpose::Scheduled);
        let late = book.ask(target(1), Instant::ORIGIN + 2 * second, Purpose::Case);
        let other = book.ask(target(2), Instant::ORIGIN, Purpose::Case);
        for seq in [early, late, other] {
            book.get_mut(seq).expect("open").timed_out = true;
        }
        let proof = Instant::ORIGIN + second;
        let reborn = Target {
            generation: Generation(2),
            ..target(1)
        };
        assert_eq!(book.settle(reborn, proof), 0, "the dead answer nothing");
        assert_eq!(book.settle(target(1), proof), 1);
        assert!(book.get(early).is_none() && book.get(late).is_some() && book.get(other).is_some());
    }

    proptest::proptest! {
        #[test]
        fn questions_are_as_in_a_plain_list(
            before_wrap in 0..40u32,
            steps in proptest::collection::vec((0..8u8, 0..60u32, 0..4u64), 1..120),
        ) {
            let first = before_wrap.wrapping_neg();
            let (mut book, mut list) = (ProbeBook::new(first), Vec::<(ProbeSeq, Probe)>::new());
            let mut now = Instant::ORIGIN;
            for (what, n, seconds) in steps {
                let seq = ProbeSeq(first.wrapping_add(n).wrapping_sub(3));
                let length = Duration::from_secs(seconds);
                match what {
                    0..4 => {
                        let purpose = [Purpose::Case, Purpose::Contact][n as usize % 2];
                        let seq = book.ask(target(seconds), now, purpose);
                        list.push((seq, *book.get(seq).expect("open")));
                    }
                    4 => {
                        let place = list.iter().position(|it| it.0 == seq);
                        assert_eq!(book.close(seq), place.map(|place| list.remove(place).1));
                    }
                    5 => {
                        book.expire(now, length);
                        list.retain(|(_, probe)| now.since(probe.sent_at) <= length);
                    }
                    _ => now = now + length,
                }
                assert!(book.open.iter().eq(&list));
                let sought = list.iter().find(|it| it.0 == seq);
                assert_eq!(book.get(seq), sought.map(|(_, probe)| probe));
            }
        }
    }
}
