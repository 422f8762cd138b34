//! The addresses this node was told to join through, and when each is tried again.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use rand::RngExt;
use rand::rngs::Xoshiro256PlusPlus;
use rand::seq::IteratorRandom;

use crate::member::NameHash;
use crate::time::Instant;

/// Most join addresses.
pub const JOIN_ADDRESSES_MAX: usize = 256;
/// Longest pause between two tries of an address in its first ten minutes, and after them.
const PAUSE_MAX: Duration = Duration::from_secs(5);
const PAUSE_MAX_LATER: Duration = Duration::from_secs(30);
const PATIENCE: Duration = Duration::from_secs(600);

/// Addresses that were not given but heard from, at most: a sender's address can be forged.
const HEARD_MAX: usize = 4;

/// Members asked instead of one address that was busy, before it is tried again itself.
const DETOURS_MAX: u8 = 16;

/// How many addresses are asked at a time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Manner {
    /// One, and the next when that does not answer soon: one table is enough to join.
    InTurn,
    /// All that are due.
    AtOnce,
}

/// Where a join address stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum JoinState {
    /// Is tried at this instant.
    Waiting(Instant),
    /// A stream to it, or to one that it named, is open since then.
    Asking(Instant),
    /// This member has admitted this node there.
    Joined(NameHash),
    /// Is this node's own.
    Itself,
}

#[derive(Clone, Debug)]
struct JoinAddress {
    state: JoinState,
    tries: u32,
    silent_since: Instant,
    /// How it came into the book.
    origin: Origin,
    /// Where to go on, as who was busy there said.
    others: Vec<SocketAddr>,
    /// How often that was done since it was tried itself.
    detours: u8,
}

/// How an address came into the book.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Origin {
    /// It is to be asked, whoever is known there.
    Wished,
    /// It is one of several, any of which will do: who is known there need not be asked.
    Listed,
    /// Heard from, not given, and not joined through yet.
    Heard,
}

/// All join addresses. None is given up while there is room: an island must find the others when
/// they appear. A name whose addresses change for ever would fill it; then the address that has
/// been tried in vain for longest makes room.
#[derive(Debug, Default)]
pub struct JoinBook {
    addresses: BTreeMap<SocketAddr, JoinAddress>,
    first_pause: Duration,
}

impl JoinBook {
    /// No addresses; an unanswered one is tried again after `first_pause`, then after twice that,
    /// and so on.
    #[must_use]
    pub fn new(first_pause: Duration) -> Self {
        JoinBook {
            addresses: BTreeMap::new(),
            first_pause,
        }
    }

    /// Has `address` tried at once. False when there are too many, and none was tried in vain.
    pub fn wish(&mut self, address: SocketAddr, now: Instant, origin: Origin) -> bool {
        if let Some(held) = self.addresses.get_mut(&address) {
            held.origin = origin;
            if !matches!(held.state, JoinState::Asking(_)) {
                self.insert(address, now, origin);
            }
            return true;
        }
        if self.addresses.len() >= JOIN_ADDRESSES_MAX && !self.make_room() {
            return false;
        }
        self.insert(address, now, origin);
        true
    }

    /// Somebody at `address` has shown that this node is listed there. It is tried once, at once,
    /// if no other address is just being asked. Whether it will be.
    pub fn hear(&mut self, address: SocketAddr, now: Instant) -> bool {
        let asking = self
            .addresses
            .values()
            .any(|held| matches!(held.state, JoinState::Asking(_)));
        let heard = |held: &&JoinAddress| held.origin == Origin::Heard;
        let heard = self.addresses.values().filter(heard).count();
        let fresh = !asking
            && heard < HEARD_MAX
            && self.addresses.len() < JOIN_ADDRESSES_MAX
            && !self.addresses.contains_key(&address);
        if fresh {
            self.insert(address, now, Origin::Heard);
        }
        fresh
    }

    fn insert(&mut self, address: SocketAddr, now: Instant, origin: Origin) {
        let fresh = JoinAddress {
            state: JoinState::Waiting(now),
            tries: 0,
            silent_since: now,
            origin,
            others: Vec::new(),
            detours: 0,
        };
        self.addresses.insert(address, fresh);
    }

    /// Drops the address that has been tried in vain for longest, if there is one.
    fn make_room(&mut self) -> bool {
        let in_vain =
            |held: &JoinAddress| held.tries > 0 && matches!(held.state, JoinState::Waiting(_));
        let oldest = self
            .addresses
            .iter()
            .filter(|(_, held)| in_vain(held))
            .min_by_key(|(_, held)| held.silent_since)
            .map(|(&address, _)| address);
        oldest.is_some_and(|address| self.addresses.remove(&address).is_some())
    }

    /// Before when no further address is asked.
    fn not_before(&self, manner: Manner) -> Option<Instant> {
        let asked = self.addresses.values().filter_map(|held| match held.state {
            JoinState::Asking(since) if manner == Manner::InTurn => Some(since),
            _ => None,
        });
        asked.max().map(|since| since + self.first_pause)
    }

    /// When the next address is due.
    #[must_use]
    pub fn next_due(&self, manner: Manner) -> Option<Instant> {
        let due = |address: &JoinAddress| match address.state {
            JoinState::Waiting(at) => Some(at),
            _ => None,
        };
        let first = self.addresses.values().filter_map(due).min()?;
        Some(first.max(self.not_before(manner).unwrap_or(first)))
    }

    /// An address that is due at `now`, any one: a fleet that starts together has the same list.
    /// It counts as asked from here on.
    pub fn take_due(
        &mut self,
        now: Instant,
        manner: Manner,
        rng: &mut Xoshiro256PlusPlus,
    ) -> Option<(SocketAddr, Origin)> {
        if self.not_before(manner).is_some_and(|at| now < at) {
            return None;
        }
        let due = |held: &JoinAddress| matches!(held.state, JoinState::Waiting(at) if at <= now);
        let due = self.addresses.iter_mut().filter(|(_, held)| due(held));
        let (&address, held) = due.choose(rng)?;
        held.state = JoinState::Asking(now);
        Some((address, held.origin))
    }

    /// Who listens at `address` has too much to do, and named `others`: one to be asked instead.
    pub fn redirect(
        &mut self,
        address: SocketAddr,
        others: Vec<SocketAddr>,
        now: Instant,
    ) -> Option<SocketAddr> {
        self.addresses.get_mut(&address)?.others = others;
        self.detour(address, now)
    }

    /// One of those named instead of `address` that was not asked yet, to be asked now.
    pub fn detour(&mut self, address: SocketAddr, now: Instant) -> Option<SocketAddr> {
        let held = self.addresses.get_mut(&address)?;
        let other = held.others.pop()?;
        held.detours += 1;
        held.state = JoinState::Asking(now);
        (held.detours <= DETOURS_MAX).then_some(other)
    }

    /// `address` has admitted this node, or is its own.
    pub fn settle(&mut self, address: SocketAddr, state: JoinState) {
        if let Some(held) = self.addresses.get_mut(&address) {
            held.state = state;
            held.tries = 0;
            held.detours = 0;
            held.others.clear();
            if matches!(state, JoinState::Joined(_)) && held.origin == Origin::Heard {
                held.origin = Origin::Listed;
            }
        }
    }

    /// `address` did not admit this node: it is tried again after a pause, with jitter so that a
    /// fleet that started together does not ask together.
    pub fn retry(&mut self, address: SocketAddr, now: Instant, rng: &mut Xoshiro256PlusPlus) {
        let heard = |held: &JoinAddress| held.origin == Origin::Heard;
        if self.addresses.get(&address).is_some_and(heard) {
            self.addresses.remove(&address);
            return;
        }
        let first_pause = self.first_pause;
        if let Some(held) = self.addresses.get_mut(&address) {
            let patient = now.since(held.silent_since) >= PATIENCE;
            let max = if patient { PAUSE_MAX_LATER } else { PAUSE_MAX };
            let pause = first_pause.saturating_mul(1 << held.tries.min(16)).min(max);
            held.tries += 1;
            held.detours = 0;
            held.others.clear();
            held.state = JoinState::Waiting(now + pause.mul_f64(rng.random_range(0.75..1.25)));
        }
    }

    /// Addresses that have admitted this node, and the members that did.
    pub fn joined(&self) -> impl Iterator<Item = (SocketAddr, NameHash)> {
        self.addresses
            .iter()
            .filter_map(|(&address, held)| match held.state {
                JoinState::Joined(member) => Some((address, member)),
                _ => None,
            })
    }

    /// Has every address that admitted this node, or is just being asked, tried at once: what came
    /// of it is void.
    pub fn resume(&mut self, now: Instant) {
        for held in self.addresses.values_mut() {
            if held.state != JoinState::Itself {
                held.state = JoinState::Waiting(now);
                held.tries = 0;
            }
        }
    }

    /// Whether nothing but this node itself is behind the addresses, or there are none.
    #[must_use]
    pub fn is_alone(&self) -> bool {
        self.addresses
            .values()
            .all(|held| held.state == JoinState::Itself)
    }
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;

    use super::*;
    use Manner::{AtOnce, InTurn};

    const MS: Duration = Duration::from_millis(1);

    fn rng() -> Xoshiro256PlusPlus {
        Xoshiro256PlusPlus::seed_from_u64(1)
    }

    fn local(port: u16) -> SocketAddr {
        ([127, 0, 0, 1], port).into()
    }

    fn taken(book: &mut JoinBook, now: Instant, manner: Manner) -> Option<SocketAddr> {
        let due = book.take_due(now, manner, &mut rng());
        due.map(|(address, _)| address)
    }

    #[test]
    fn an_address_is_retried_for_ever_with_growing_pauses() {
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(1);
        let mut book = JoinBook::new(Duration::from_millis(300));
        let address = "127.0.0.1:1".parse().expect("valid");
        let mut now = Instant::ORIGIN;
        book.wish(address, now, Origin::Wished);
        let mut pauses = Vec::new();
        for _ in 0..200 {
            assert_eq!(taken(&mut book, now, AtOnce), Some(address));
            assert_eq!(taken(&mut book, now, AtOnce), None, "it is being asked");
            book.retry(address, now, &mut rng);
            let due = book.next_due(AtOnce).expect("never given up");
            pauses.push(due.since(now));
            now = due;
        }
        assert!(pauses[0] < Duration::from_millis(400));
        assert!(pauses[20] < Duration::from_secs(7));
        assert!(*pauses.last().expect("many") > Duration::from_secs(22));
    }

    /// hashicorp/consul#2868, grafana/agent#4465: a join list that named only the node itself.
    #[test]
    fn a_list_of_oneself_is_being_alone() {
        let mut book = JoinBook::new(Duration::from_millis(300));
        assert!(book.is_alone());
        let own = "127.0.0.1:1".parse().expect("valid");
        book.wish(own, Instant::ORIGIN, Origin::Wished);
        assert!(!book.is_alone());
        book.settle(own, JoinState::Itself);
        assert!(book.is_alone());
    }

    /// The sender of a datagram can be forged: what is heard must not drive out what was given.
    #[test]
    fn few_heard_addresses_are_tried_and_each_once() {
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(1);
        let mut book = JoinBook::new(Duration::from_millis(300));
        let now = Instant::ORIGIN;
        let given = ([127, 0, 0, 1], 1).into();
        book.wish(given, now, Origin::Wished);
        assert_eq!(taken(&mut book, now, AtOnce), Some(given));
        let heard = |n: u16| SocketAddr::from(([127, 0, 0, 2], n));
        assert!(!book.hear(heard(1), now), "one is being asked");
        book.retry(given, now, &mut rng);
        let heard_of = (1..100).filter(|&n| book.hear(heard(n), now)).count();
        assert_eq!(heard_of, HEARD_MAX);
        for _ in 0..HEARD_MAX {
            let tried = taken(&mut book, now, AtOnce).expect("heard addresses are due");
            book.retry(tried, now, &mut rng);
        }
        assert_eq!(
            book.addresses.len(),
            1,
            "only what was given is tried again"
        );
        assert!(!book.hear(given, now));
    }

    #[test]
    fn the_number_of_addresses_is_bounded() {
        let mut book = JoinBook::new(Duration::from_millis(300));
        for port in 1..=JOIN_ADDRESSES_MAX as u16 {
            assert!(book.wish(
                ([127, 0, 0, 1], port).into(),
                Instant::ORIGIN,
                Origin::Wished
            ));
        }
        let further = ([127, 0, 0, 2], 1).into();
        assert!(!book.wish(further, Instant::ORIGIN, Origin::Wished));
        // A name in DNS may have another address every day.
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(1);
        let first = taken(&mut book, Instant::ORIGIN, AtOnce).expect("all are due");
        book.retry(first, Instant::ORIGIN, &mut rng);
        assert!(book.wish(further, Instant::ORIGIN, Origin::Wished));
        assert_eq!(book.addresses.len(), JOIN_ADDRESSES_MAX);
        assert!(!book.addresses.contains_key(&first));
    }

    #[test]
    fn what_was_given_while_it_was_asked_as_heard_is_tried_for_ever() {
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(1);
        let mut book = JoinBook::new(Duration::from_millis(300));
        let (address, now) = (([127, 0, 0, 1], 1).into(), Instant::ORIGIN);
        assert!(book.hear(address, now));
        assert_eq!(taken(&mut book, now, AtOnce), Some(address));
        assert!(book.wish(address, now, Origin::Wished));
        book.retry(address, now, &mut rng);
        assert!(book.next_due(AtOnce).is_some());
    }

    /// One table is enough to join; but an address that does not answer holds nobody up.
    #[test]
    fn in_turn_the_next_is_asked_when_one_does_not_answer_soon() {
        let mut book = JoinBook::new(300 * MS);
        let now = Instant::ORIGIN;
        for port in 1..=3 {
            book.wish(local(port), now, Origin::Listed);
        }
        let first = taken(&mut book, now, InTurn).expect("all are due");
        assert_eq!(taken(&mut book, now + 299 * MS, InTurn), None);
        assert_eq!(book.next_due(InTurn), Some(now + 300 * MS));
        assert!(taken(&mut book, now + 300 * MS, InTurn).is_some_and(|next| next != first));
        assert_eq!(taken(&mut book, now + 301 * MS, InTurn), None);
        assert!(taken(&mut book, now + 301 * MS, AtOnce).is_some());
    }

    #[test]
    fn a_refused_address_makes_room_for_the_next_at_once() {
        let mut book = JoinBook::new(300 * MS);
        let now = Instant::ORIGIN;
        book.wish(local(1), now, Origin::Listed);
        book.wish(local(2), now, Origin::Listed);
        let first = taken(&mut book, now, InTurn).expect("all are due");
        book.retry(first, now, &mut rng());
        assert!(taken(&mut book, now, InTurn).is_some_and(|next| next != first));
    }

    /// Who always names another must not be followed for ever.
    #[test]
    fn detours_end() {
        let mut book = JoinBook::new(300 * MS);
        let now = Instant::ORIGIN;
        book.wish(local(1), now, Origin::Listed);
        taken(&mut book, now, InTurn);
        assert_eq!(
            book.redirect(local(1), vec![local(3), local(2)], now),
            Some(local(2))
        );
        assert_eq!(book.detour(local(1), now), Some(local(3)));
        assert_eq!(book.detour(local(1), now), None);
        let more = (0..1000).take_while(|_| book.redirect(local(1), vec![local(9)], now).is_some());
        assert_eq!(more.count() + 2, usize::from(DETOURS_MAX));
        book.retry(local(1), now, &mut rng());
        assert!(
            book.redirect(local(1), vec![local(9)], now).is_some(),
            "tried anew"
        );
    }
}
