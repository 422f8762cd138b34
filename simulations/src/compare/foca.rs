//! foca 2.0 (<https://docs.rs/foca/2.0.0>) in the world that our own core has: the same queue, the
//! same network, the same forks of the seed.
//!
//! It is driven as its documentation and its example of an agent say: `Config::new_lan` for the
//! size of the cluster, identities that renew themselves, the postcard codec, timers handed back
//! when they run out. A member that knows nobody goes on announcing itself. A process that stood
//! still first reads what has come, then hands over the timers that have run out, in their order:
//! the kindest case.

mod host;
mod identity;

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::num::NonZeroU32;
use std::time::Duration;

use ::foca::{Config, Foca, PostcardCodec};
use rand::rngs::Xoshiro256PlusPlus;
use rand::{Rng, RngExt, SeedableRng};
use rumord::time::Instant;

pub use identity::Identity;

use super::contender::{Change, Contender, Member, Sent, Setting};
use super::host::{Condition, receive};
use crate::forks::{Consumer, fork};
use crate::network::{Dropped, Network, Packet};
use crate::queue::{Class, Queue};
use crate::rules::{Carried, Effect, Hosts, Rule, RuleId};
use host::{Core, Happening, Host, Surroundings, Timer};
pub use host::{address_of, member_at};

/// The port of every member.
const PORT: u16 = 7480;
/// The first life of a member that starts with the world; foca's example takes the clock's seconds.
const EPOCH_SECONDS: u64 = rumord::protocol::RELEASE_UNIX_SECONDS;
/// Members that a restarted one announces itself to.
const CONTACTS: usize = 3;
/// How long a member that knows nobody waits before it announces itself again.
const ANNOUNCE_AGAIN: Duration = Duration::from_secs(1);

/// foca members in simulated time.
pub struct FocaWorld {
    setting: Setting,
    config: Config,
    now: Instant,
    queue: Queue<Happening>,
    network: Network,
    hosts: Vec<Host>,
    cuts: Vec<RuleId>,
    told: Option<(Member, u64)>,
    changes: Vec<Change>,
    rng: Xoshiro256PlusPlus,
}

impl FocaWorld {
    fn new_host(&mut self, member: Member, run: u64) -> Host {
        let identity = Identity {
            address: address_of(member),
            bump: EPOCH_SECONDS + self.now.as_nanos() / 1_000_000_000,
        };
        let rng = Xoshiro256PlusPlus::seed_from_u64(self.rng.next_u64());
        Host {
            foca: Foca::new(identity, self.config.clone(), rng, PostcardCodec),
            address: identity.address,
            condition: Condition::Running,
            run,
            shown: vec![None; self.hosts.len()],
            rejoins: 0,
            inbox: Default::default(),
            late: Vec::new(),
            unsent: Vec::new(),
        }
    }

    fn start(&mut self) -> Member {
        let member = Member(self.hosts.len());
        let host = self.new_host(member, 0);
        self.hosts.push(host);
        member
    }

    /// Lets a member's foca act, and everything that it causes happen. Its timers run out `delay`
    /// later than it asks for.
    fn act(
        &mut self,
        member: Member,
        delay: Duration,
        action: impl FnOnce(&mut Core, Surroundings<'_>),
    ) {
        let Host {
            foca,
            address,
            run,
            shown,
            rejoins,
            condition,
            unsent,
            ..
        } = &mut self.hosts[member.0];
        let surroundings = Surroundings {
            now: self.now,
            member,
            run: *run,
            address: *address,
            delay,
            queue: &mut self.queue,
            network: &mut self.network,
            unsent: (*condition == Condition::Blocked).then_some(unsent),
            shown,
            rejoins,
            changes: self.setting.keeping.then_some(&mut self.changes),
        };
        action(foca, surroundings);
    }

    fn step_until(&mut self, end: Instant) -> bool {
        let due = self.queue.next_at().filter(|&at| at <= end);
        let Some((at, happening)) = due.and_then(|_| self.queue.pop()) else {
            self.now = end;
            return false;
        };
        self.now = at;
        match happening {
            Happening::Datagram(packet) => self.arrive(packet),
            Happening::Timer(member, run, timer) => self.on_timer(member, run, timer),
            Happening::Resume(member, run) => self.on_resume(member, run),
            Happening::Announce(member, run, contacts) => self.announce(member, run, contacts),
        }
        true
    }

    fn arrive(&mut self, packet: Packet) {
        let member = member_at(packet.to);
        let Some(host) = self.hosts.get_mut(member.0) else {
            self.network.drop(Dropped::NoListener);
            return;
        };
        let (inbox, network) = (&mut host.inbox, &mut self.network);
        if let Some(packet) = receive(host.condition, inbox, packet, network) {
            self.take(member, &packet);
        }
    }

    fn take(&mut self, member: Member, packet: &Packet) {
        self.network.note_delivered();
        self.act(member, Duration::ZERO, |foca, surroundings| {
            // What cannot be read is dropped, as foca's example of an agent does it.
            let _ = foca.handle_data(&packet.payload, surroundings);
        });
    }

    fn on_timer(&mut self, member: Member, run: u64, timer: Timer) {
        let host = &mut self.hosts[member.0];
        match host.condition {
            _ if host.run != run => {}
            Condition::Stopped => {}
            Condition::Paused => host.late.push(timer),
            Condition::Running | Condition::Blocked => self.fire(member, timer),
        }
    }

    fn fire(&mut self, member: Member, timer: Timer) {
        self.act(member, Duration::ZERO, |foca, surroundings| {
            // Its errors tell of timers that came too late; foca goes on by itself.
            let _ = foca.handle_timer(timer, surroundings);
        });
    }

    fn impair(&mut self, member: Member, condition: Condition, length: Duration) {
        let host = &mut self.hosts[member.0];
        if host.condition == Condition::Running {
            host.condition = condition;
            let resume = Happening::Resume(member, host.run);
            self.queue.push(self.now + length, Class::Fault, resume);
        }
    }

    fn on_resume(&mut self, member: Member, run: u64) {
        let host = &mut self.hosts[member.0];
        if host.run != run || host.condition == Condition::Stopped {
            return;
        }
        host.condition = Condition::Running;
        for packet in std::mem::take(&mut host.unsent) {
            host::send(self.now, packet, &mut self.network, &mut self.queue);
        }
        let inbox = std::mem::take(&mut host.inbox);
        let late = std::mem::take(&mut host.late);
        for packet in inbox {
            self.take(member, &packet);
        }
        for timer in late {
            self.fire(member, timer);
        }
    }

    /// A member that knows nobody announces itself, and looks again after a while: who handles a
    /// member without members is left to its driver (caio/foca#17).
    fn announce(&mut self, member: Member, run: u64, contacts: Vec<Member>) {
        let host = &self.hosts[member.0];
        if host.run != run || !host.is_up() || host.foca.num_members() > 0 {
            return;
        }
        if host.condition == Condition::Running {
            for &contact in &contacts {
                let to = *self.hosts[contact.0].foca.identity();
                self.act(member, Duration::ZERO, |foca, surroundings| {
                    // An identity always fits into a datagram.
                    let _ = foca.announce(to, surroundings);
                });
            }
        }
        let again = Happening::Announce(member, run, contacts);
        self.queue
            .push(self.now + ANNOUNCE_AGAIN, Class::Deadline, again);
    }

    /// Others that run.
    fn others(&self, member: Member) -> impl Iterator<Item = &Host> {
        let up = move |(place, host): &(usize, &Host)| *place != member.0 && host.is_up();
        let hosts = self.hosts.iter().enumerate();
        hosts.filter(up).map(|(_, host)| host)
    }

    fn lay_cut(&mut self, from: &Hosts, to: &Hosts) {
        self.cuts.push(self.network.lay(Rule {
            from: from.clone(),
            to: to.clone(),
            carried: Carried::Everything,
            effect: Effect::Lose(1.0),
        }));
    }
}

impl Contender for FocaWorld {
    fn empty(setting: &Setting) -> Self {
        let nodes = u32::try_from(setting.nodes).unwrap_or(u32::MAX);
        FocaWorld {
            setting: *setting,
            config: Config::new_lan(NonZeroU32::new(nodes).unwrap_or(NonZeroU32::MIN)),
            now: Instant::ORIGIN,
            queue: Queue::new(),
            network: Network::new(setting.seed, setting.link),
            hosts: Vec::new(),
            cuts: Vec::new(),
            told: None,
            changes: Vec::new(),
            rng: fork(setting.seed, Consumer::Nodes),
        }
    }

    /// Everybody is told of everybody with `apply_many`, which foca offers for a table from
    /// elsewhere. Each starts at a moment of its own within a period.
    fn start_full(&mut self, count: usize) -> Vec<Member> {
        let members: Vec<Member> = (0..count).map(|_| self.start()).collect();
        let identity = |member: &Member| *self.hosts[member.0].foca.identity();
        let all: Vec<Identity> = members.iter().map(identity).collect();
        for &member in &members {
            let delay = self.config.probe_period.mul_f64(self.rng.random::<f64>());
            let own = address_of(member);
            let others = all.iter().filter(|other| other.address != own);
            let others = others.map(|&other| ::foca::Member::alive(other));
            self.act(member, delay, |foca, surroundings| {
                // Nothing is broadcast, so nothing has to fit into a datagram.
                let _ = foca.apply_many(others, false, surroundings);
            });
        }
        members
    }

    fn start_joining(&mut self, through: Member) -> Member {
        let member = self.start();
        self.announce(member, 0, vec![through]);
        member
    }

    fn crash(&mut self, member: Member) {
        let host = &mut self.hosts[member.0];
        host.condition = Condition::Stopped;
        host.late.clear();
        for _ in host.inbox.drain(..) {
            self.network.drop(Dropped::NoListener);
        }
    }

    fn restart(&mut self, member: Member) {
        let others = (0..self.hosts.len()).map(Member);
        let up = |&other: &Member| other != member && self.hosts[other.0].is_up();
        let contacts: Vec<Member> = others.filter(up).take(CONTACTS).collect();
        let run = self.hosts[member.0].run + 1;
        self.hosts[member.0] = self.new_host(member, run);
        self.announce(member, run, contacts);
    }

    fn pause(&mut self, member: Member, length: Duration) {
        self.impair(member, Condition::Paused, length);
    }

    fn block_io(&mut self, member: Member, length: Duration) {
        self.impair(member, Condition::Blocked, length);
    }

    fn isolate(&mut self, side: &[Member]) {
        let addresses = side
            .iter()
            .map(|&member| SocketAddr::V4(address_of(member)));
        let addresses: BTreeSet<SocketAddr> = addresses.collect();
        let [inside, outside] = [Hosts::Only(addresses.clone()), Hosts::AllBut(addresses)];
        self.lay_cut(&inside, &outside);
        self.lay_cut(&outside, &inside);
    }

    fn reconnect(&mut self) {
        for cut in std::mem::take(&mut self.cuts) {
            // A cut loses datagrams and holds none back.
            self.network.lift(cut);
        }
    }

    /// An identity that carries something that changes is changed with `change_identity`: "intended
    /// to be used when identities carry metadata that occasionally changes".
    fn tell_change(&mut self, member: Member) {
        let Some(new) = ::foca::Identity::renew(self.hosts[member.0].foca.identity()) else {
            return;
        };
        self.told = Some((member, new.bump));
        self.act(member, Duration::ZERO, |foca, surroundings| {
            // It differs from the old one and fits into a datagram.
            let _ = foca.change_identity(new, surroundings);
        });
    }

    fn run_for(&mut self, length: Duration) {
        let end = self.now + length;
        while self.step_until(end) {}
    }

    fn now(&self) -> Instant {
        self.now
    }

    fn is_change_known(&self) -> bool {
        self.told.is_some_and(|(member, life)| {
            self.others(member)
                .all(|other| other.shows(member) >= Some(life))
        })
    }

    fn is_shown_alive(&self, member: Member) -> bool {
        let life = self.hosts[member.0].life();
        self.others(member)
            .all(|other| other.shows(member) == Some(life))
    }

    fn is_held_dead(&self, member: Member) -> bool {
        self.others(member)
            .all(|other| other.shows(member).is_none())
    }

    fn take_changes(&mut self) -> Vec<Change> {
        std::mem::take(&mut self.changes)
    }

    fn rejoins(&self) -> Vec<(Member, u64)> {
        let members = (0..self.hosts.len()).map(Member);
        members
            .zip(self.hosts.iter().map(|host| host.rejoins))
            .collect()
    }

    fn sent(&self) -> Sent {
        let tally = self.network.tally();
        Sent {
            datagrams: tally.sent,
            bytes: tally.bytes,
        }
    }
}
