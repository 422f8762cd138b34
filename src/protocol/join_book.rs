//! The addresses this node was told to join through, and when each is tried again.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use rand::RngExt;
use rand::rngs::Xoshiro256PlusPlus;

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

/// Where a join address stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum JoinState {
    /// Is tried at this instant.
    Waiting(Instant),
    /// A stream to it is open.
    Asking,
    /// This member has admitted this node there.
    Joined(NameHash),
    /// Is this node's own.
    Itself,
}

#[derive(Clone, Copy, Debug)]
struct JoinAddress {
    state: JoinState,
    tries: u32,
    silent_since: Instant,
    /// Heard from, not given, and not joined through yet.
    heard: bool,
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
    pub fn wish(&mut self, address: SocketAddr, now: Instant) -> bool {
        if let Some(held) = self.addresses.get_mut(&address) {
            held.heard = false;
            if held.state != JoinState::Asking {
                *held = JoinAddress {
                    state: JoinState::Waiting(now),
                    tries: 0,
                    silent_since: now,
                    heard: false,
                };
            }
            return true;
        }
        if self.addresses.len() >= JOIN_ADDRESSES_MAX && !self.make_room() {
            return false;
        }
        self.insert(address, now, false);
        true
    }

    /// Somebody at `address` has shown that this node is listed there. It is tried once, at once,
    /// if no other address is just being asked. Whether it will be.
    pub fn hear(&mut self, address: SocketAddr, now: Instant) -> bool {
        let asking = self
            .addresses
            .values()
            .any(|held| held.state == JoinState::Asking);
        let heard = self.addresses.values().filter(|held| held.heard).count();
        let fresh = !asking
            && heard < HEARD_MAX
            && self.addresses.len() < JOIN_ADDRESSES_MAX
            && !self.addresses.contains_key(&address);
        if fresh {
            self.insert(address, now, true);
        }
        fresh
    }

    fn insert(&mut self, address: SocketAddr, now: Instant, heard: bool) {
        let fresh = JoinAddress {
            state: JoinState::Waiting(now),
            tries: 0,
            silent_since: now,
            heard,
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

    /// When the next address is due.
    #[must_use]
    pub fn next_due(&self) -> Option<Instant> {
        let due = |address: &JoinAddress| match address.state {
            JoinState::Waiting(at) => Some(at),
            _ => None,
        };
        self.addresses.values().filter_map(due).min()
    }

    /// An address that is due at `now`; it counts as asked from here on.
    pub fn take_due(&mut self, now: Instant) -> Option<SocketAddr> {
        let due = |held: &JoinAddress| matches!(held.state, JoinState::Waiting(at) if at <= now);
        let (&address, held) = self.addresses.iter_mut().find(|(_, held)| due(held))?;
        held.state = JoinState::Asking;
        Some(address)
    }

    /// `address` has admitted this node, or is its own.
    pub fn settle(&mut self, address: SocketAddr, state: JoinState) {
        if let Some(held) = self.addresses.get_mut(&address) {
            held.state = state;
            held.tries = 0;
            if let JoinState::Joined(_) = state {
                held.heard = false;
            }
        }
    }

    /// `address` did not admit this node: it is tried again after a pause, with jitter so that a
    /// fleet that started together does not ask together.
    pub fn retry(&mut self, address: SocketAddr, now: Instant, rng: &mut Xoshiro256PlusPlus) {
        if self.addresses.get(&address).is_some_and(|held| held.heard) {
            self.addresses.remove(&address);
            return;
        }
        let first_pause = self.first_pause;
        if let Some(held) = self.addresses.get_mut(&address) {
            let patient = now.since(held.silent_since) >= PATIENCE;
            let max = if patient { PAUSE_MAX_LATER } else { PAUSE_MAX };
            let pause = first_pause.saturating_mul(1 << held.tries.min(16)).min(max);
            held.tries += 1;
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

    #[test]
    fn an_address_is_retried_for_ever_with_growing_pauses() {
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(1);
        let mut book = JoinBook::new(Duration::from_millis(300));
        let address = "127.0.0.1:1".parse().expect("valid");
        let mut now = Instant::ORIGIN;
        book.wish(address, now);
        let mut pauses = Vec::new();
        for _ in 0..200 {
            assert_eq!(book.take_due(now), Some(address));
            assert_eq!(book.take_due(now), None, "it is being asked");
            book.retry(address, now, &mut rng);
            let due = book.next_due().expect("never given up");
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
        book.wish(own, Instant::ORIGIN);
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
        book.wish(given, now);
        assert_eq!(book.take_due(now), Some(given));
        let heard = |n: u16| SocketAddr::from(([127, 0, 0, 2], n));
        assert!(!book.hear(heard(1), now), "one is being asked");
        book.retry(given, now, &mut rng);
        let taken = (1..100).filter(|&n| book.hear(heard(n), now)).count();
        assert_eq!(taken, HEARD_MAX);
        for _ in 0..HEARD_MAX {
            let tried = book.take_due(now).expect("heard addresses are due");
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
            assert!(book.wish(([127, 0, 0, 1], port).into(), Instant::ORIGIN));
        }
        let further = ([127, 0, 0, 2], 1).into();
        assert!(!book.wish(further, Instant::ORIGIN));
        // A name in DNS may have another address every day.
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(1);
        let first = book.take_due(Instant::ORIGIN).expect("all are due");
        book.retry(first, Instant::ORIGIN, &mut rng);
        assert!(book.wish(further, Instant::ORIGIN));
        assert_eq!(book.addresses.len(), JOIN_ADDRESSES_MAX);
        assert!(!book.addresses.contains_key(&first));
    }

    #[test]
    fn what_was_given_while_it_was_asked_as_heard_is_tried_for_ever() {
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(1);
        let mut book = JoinBook::new(Duration::from_millis(300));
        let (address, now) = (([127, 0, 0, 1], 1).into(), Instant::ORIGIN);
        assert!(book.hear(address, now));
        assert_eq!(book.take_due(now), Some(address));
        assert!(book.wish(address, now));
        book.retry(address, now, &mut rng);
        assert!(book.next_due().is_some());
    }
}
