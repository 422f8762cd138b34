//! One run of a foca member, and what it has from the world: a network, timers, an ear.

use std::collections::VecDeque;
use std::net::{SocketAddr, SocketAddrV4};
use std::time::Duration;

use foca::{Foca, NoCustomBroadcast, Notification, PostcardCodec, Runtime};
use rand::rngs::Xoshiro256PlusPlus;
use rumord::time::Instant;

use super::identity::Identity;
use crate::compare::contender::{Change, Member, View};
use crate::compare::host::Condition;
use crate::network::{Content, Network, Packet, Sending};
use crate::process::UNSENT_PACKETS_MAX;
use crate::queue::{Class, Queue};

/// The protocol, of one member.
pub type Core = Foca<Identity, PostcardCodec, Xoshiro256PlusPlus, NoCustomBroadcast>;
/// A timer of a member.
pub type Timer = foca::Timer<Identity>;

/// Something that is due.
#[derive(Debug)]
pub enum Happening {
    /// A datagram reaches an address.
    Datagram(Packet),
    /// A timer of a member has run out; void in another run than this one.
    Timer(Member, u64, Timer),
    /// A member that stood still is itself again; void in another run.
    Resume(Member, u64),
    /// A member announces itself to these, unless it knows somebody by then; void in another run.
    Announce(Member, u64, Vec<Member>),
}

/// A member, and what it says about the others.
pub struct Host {
    /// The protocol.
    pub foca: Core,
    /// Where it listens.
    pub address: SocketAddrV4,
    /// What is the matter with it.
    pub condition: Condition,
    /// Counts its starts: timers of an earlier run are void.
    pub run: u64,
    /// Of each member, the life that it shows as active.
    pub shown: Vec<Option<u64>>,
    /// How often it was forced to take a new identity.
    pub rejoins: u64,
    /// Datagrams that wait in its socket.
    pub inbox: VecDeque<Packet>,
    /// Timers that have run out while it stood still.
    pub late: Vec<Timer>,
    /// Datagrams that it wanted to send while nothing went out.
    pub unsent: Vec<Packet>,
}

impl Host {
    /// Whether it has not ended.
    #[must_use]
    pub fn is_up(&self) -> bool {
        self.condition != Condition::Stopped
    }

    /// The present life.
    #[must_use]
    pub fn life(&self) -> u64 {
        self.foca.identity().bump
    }

    /// The life of `member` that it shows as active.
    #[must_use]
    pub fn shows(&self, member: Member) -> Option<u64> {
        self.shown.get(member.0).copied().flatten()
    }
}

/// foca's runtime: it acts on everything at once, as foca's documentation advises.
pub struct Surroundings<'a> {
    /// The world's time.
    pub now: Instant,
    /// Who acts.
    pub member: Member,
    /// Its run.
    pub run: u64,
    /// Where it listens.
    pub address: SocketAddrV4,
    /// How much later than asked for its timers run out: it started that much later.
    pub delay: Duration,
    /// What happens next.
    pub queue: &'a mut Queue<Happening>,
    /// The network.
    pub network: &'a mut Network,
    /// Where datagrams wait, if nothing goes out.
    pub unsent: Option<&'a mut Vec<Packet>>,
    /// See [`Host::shown`].
    pub shown: &'a mut Vec<Option<u64>>,
    /// See [`Host::rejoins`].
    pub rejoins: &'a mut u64,
    /// Where changes are kept, if they are.
    pub changes: Option<&'a mut Vec<Change>>,
}

impl Surroundings<'_> {
    fn show(&mut self, of: &Identity, life: Option<u64>) {
        let member = member_at(of.address.into());
        if self.shown.len() <= member.0 {
            self.shown.resize(member.0 + 1, None);
        }
        let before = self.shown[member.0];
        self.shown[member.0] = life;
        // foca tells nobody of its suspicions.
        let to = match (before, life) {
            (Some(_), None) => View::Dead,
            (None, Some(_)) => View::Alive,
            _ => return,
        };
        if let Some(changes) = &mut self.changes {
            changes.push(Change {
                at: self.now,
                observer: self.member,
                subject: member,
                to,
                why: None,
            });
        }
    }

    fn is_shown(&self, of: &Identity) -> bool {
        let shown = self.shown.get(member_at(of.address.into()).0);
        shown.is_some_and(Option::is_some)
    }
}

impl Runtime<Identity> for Surroundings<'_> {
    fn notify(&mut self, notification: Notification<'_, Identity>) {
        match notification {
            Notification::MemberUp(identity) => self.show(identity, Some(identity.bump)),
            Notification::MemberDown(identity) => self.show(identity, None),
            // Whether it is active follows in a notification of its own, if that has changed.
            Notification::Rename(_, identity) if self.is_shown(identity) => {
                self.show(identity, Some(identity.bump));
            }
            Notification::Rejoin(_) => *self.rejoins += 1,
            _ => {}
        }
    }

    fn send_to(&mut self, to: Identity, data: &[u8]) {
        let packet = Packet {
            from: SocketAddr::V4(self.address),
            to: SocketAddr::V4(to.address),
            payload: data.to_vec(),
            content: Content::Intact,
        };
        match &mut self.unsent {
            Some(unsent) if unsent.len() >= UNSENT_PACKETS_MAX => {}
            Some(unsent) => unsent.push(packet),
            None => send(self.now, packet, self.network, self.queue),
        }
    }

    fn submit_after(&mut self, timer: Timer, after: Duration) {
        let happening = Happening::Timer(self.member, self.run, timer);
        let at = self.now + after + self.delay;
        self.queue.push(at, Class::Deadline, happening);
    }
}

/// A datagram goes out.
pub fn send(now: Instant, packet: Packet, network: &mut Network, queue: &mut Queue<Happening>) {
    if let Sending::UnderWay(arrival, again) = network.send(now, packet) {
        for (at, packet) in std::iter::once(arrival).chain(again.map(|copy| *copy)) {
            queue.push(at, Class::Delivery, Happening::Datagram(packet));
        }
    }
}

/// The member that listens at `address`: addresses count as members do.
#[must_use]
pub fn member_at(address: SocketAddr) -> Member {
    let SocketAddr::V4(address) = address else {
        return Member(usize::MAX);
    };
    let [_, a, b, c] = address.ip().octets();
    let number = u32::from_be_bytes([0, a, b, c]);
    Member((number as usize).wrapping_sub(1))
}

/// Where `member` listens.
#[must_use]
pub fn address_of(member: Member) -> SocketAddrV4 {
    let [_, a, b, c] = (member.0 as u32 + 1).to_be_bytes();
    SocketAddrV4::new([10, a, b, c].into(), super::PORT)
}
