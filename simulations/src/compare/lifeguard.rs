//! SWIM and Lifeguard in the world that our own core has: the same queue, the same network, the
//! same forks of the seed.
//!
//! SWIM with suspicion as in Das, Gupta and Motivala, DSN 2002; Lifeguard as in Dadgar, Phillips
//! and Currey, DSN 2018, with the settings of memberlist: local health, nacks, the buddy system,
//! confirmed suspicions, gossip beside the probes, and exchanges of tables. A member joins by such
//! an exchange. There is no ping over a stream, and nobody seeks who was declared dead: that is
//! left to programs above them. Bytes are estimated: 24 a message and 18 an update.

mod host;
mod message;
mod news;
mod node;
mod settings;

use std::collections::{BTreeSet, VecDeque};
use std::net::SocketAddr;
use std::time::Duration;

use rand::rngs::Xoshiro256PlusPlus;
use rand::{Rng, SeedableRng};
use rumord::time::Instant;

use self::host::{Happening, Host};
use self::message::{Message, UPDATE_BYTES, Update};
use self::node::{Node, Out, Timer};
pub use self::settings::{Logarithm, Settings, Suspicion};
use super::contender::{Change, Contender, Member, Sent, Setting, View};
use super::foca::{address_of, member_at};
use super::host::{Condition, receive};
use crate::forks::{Consumer, fork};
use crate::network::{Content, Dropped, Network, Packet, Sending};
use crate::process::UNSENT_PACKETS_MAX;
use crate::queue::{Class, Queue};
use crate::rules::{Carried, Effect, Hosts, Rule, RuleId};

/// How long a member that knows nobody waits before it asks again.
const JOIN_AGAIN: Duration = Duration::from_secs(1);
/// Incarnations that one life may use up: the next life begins above them.
const LIFE: u32 = 1 << 16;

/// Members in simulated time.
pub struct LifeguardWorld {
    settings: Settings,
    keeping: bool,
    now: Instant,
    queue: Queue<Happening>,
    network: Network,
    hosts: Vec<Host>,
    cuts: Vec<RuleId>,
    told: Option<(Member, u32)>,
    changes: Vec<Change>,
    stream_bytes: u64,
    rng: Xoshiro256PlusPlus,
}

impl LifeguardWorld {
    /// An empty world of members with these parameters.
    #[must_use]
    pub fn with(setting: &Setting, settings: Settings) -> Self {
        LifeguardWorld {
            settings,
            keeping: setting.keeping,
            now: Instant::ORIGIN,
            queue: Queue::new(),
            network: Network::new(setting.seed, setting.link),
            hosts: Vec::new(),
            cuts: Vec::new(),
            told: None,
            changes: Vec::new(),
            stream_bytes: 0,
            rng: fork(setting.seed, Consumer::Nodes),
        }
    }

    fn host(&mut self, member: Member, run: u32) -> Host {
        let rng = Xoshiro256PlusPlus::seed_from_u64(self.rng.next_u64());
        Host {
            node: Node::new(self.settings, member, run * LIFE + 1, rng),
            address: SocketAddr::V4(address_of(member)),
            condition: Condition::Running,
            run,
            inbox: VecDeque::new(),
            unsent: Vec::new(),
            late: Vec::new(),
        }
    }

    fn start(&mut self) -> Member {
        let member = Member(self.hosts.len());
        let host = self.host(member, 0);
        self.hosts.push(host);
        member
    }

    /// Lets a member act, and everything that it causes happen.
    fn act(&mut self, member: Member, action: impl FnOnce(&mut Node, Instant, &mut Out)) {
        let mut out = Out::default();
        let host = &mut self.hosts[member.0];
        action(&mut host.node, self.now, &mut out);
        let (run, from) = (host.run, host.address);
        for (at, timer) in out.timers {
            let happening = Happening::Timer(member, run, timer);
            self.queue.push(at, Class::Deadline, happening);
        }
        for (to, message) in out.sends {
            let packet = Packet {
                from,
                to: SocketAddr::V4(address_of(to)),
                payload: message.encode(),
                content: Content::Intact,
            };
            self.send(member, packet);
        }
        for peer in out.exchanges {
            self.exchange(member, peer);
        }
        if self.keeping {
            let (at, observer) = (self.now, member);
            let change = |(subject, to, why)| Change {
                at,
                observer,
                subject,
                to,
                why,
            };
            self.changes.extend(out.changes.into_iter().map(change));
        }
    }

    fn send(&mut self, member: Member, packet: Packet) {
        let host = &mut self.hosts[member.0];
        if host.condition == Condition::Blocked {
            if host.unsent.len() < UNSENT_PACKETS_MAX {
                host.unsent.push(packet);
            }
            return;
        }
        if let Sending::UnderWay(arrival, again) = self.network.send(self.now, packet) {
            for (at, packet) in std::iter::once(arrival).chain(again.map(|copy| *copy)) {
                self.queue
                    .push(at, Class::Delivery, Happening::Datagram(packet));
            }
        }
    }

    /// A member sends its table to another over a stream, and gets that one's.
    fn exchange(&mut self, member: Member, peer: Member) {
        let table = self.hosts[member.0].node.all();
        if self.hosts[member.0].condition == Condition::Running {
            self.send_table(member, peer, table, Some(member));
        }
    }

    fn send_table(&mut self, from: Member, to: Member, table: Vec<Update>, asker: Option<Member>) {
        let Some(run) = self.hosts.get(to.0).map(|host| host.run) else {
            return;
        };
        let bytes = UPDATE_BYTES * table.len();
        self.stream_bytes += bytes as u64;
        let [from, address] = [from, to].map(|member| self.hosts[member.0].address);
        let rules = self.network.rules();
        let cut = rules.is_cut(from, address, Carried::Streams)
            || rules.is_cut(address, from, Carried::Streams);
        if !cut {
            let delay = self.network.stream_delay(from, address, bytes);
            let table = Happening::Table(to, run, table, asker);
            self.queue.push(self.now + delay, Class::Delivery, table);
        }
    }

    fn on_table(&mut self, member: Member, table: &[Update], asker: Option<Member>) {
        // A stream to a process that stands still times out.
        if self.hosts[member.0].condition != Condition::Running {
            return;
        }
        if let Some(asker) = asker {
            let own = self.hosts[member.0].node.all();
            self.send_table(member, asker, own, None);
        }
        self.act(member, |node, now, out| node.merge(now, table, out));
    }

    fn step_until(&mut self, end: Instant) -> bool {
        let due = self.queue.next_at().filter(|&at| at <= end);
        let Some((at, happening)) = due.and_then(|_| self.queue.pop()) else {
            self.now = end;
            return false;
        };
        self.now = at;
        let runs = |world: &Self, member: Member, run| world.hosts[member.0].run == run;
        match happening {
            Happening::Datagram(packet) => self.arrive(packet),
            Happening::Timer(member, run, timer) if runs(self, member, run) => {
                self.on_timer(member, timer);
            }
            Happening::Resume(member, run) if runs(self, member, run) => self.resume(member),
            Happening::Table(member, run, table, asker) if runs(self, member, run) => {
                self.on_table(member, &table, asker);
            }
            Happening::Join(member, run, contact) if runs(self, member, run) => {
                self.join(member, contact);
            }
            _ => {}
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
        let from = member_at(packet.from);
        if let Some(message) = Message::decode(&packet.payload) {
            self.act(member, |node, now, out| {
                node.handle(now, from, &message, out)
            });
        }
    }

    fn on_timer(&mut self, member: Member, timer: Timer) {
        let host = &mut self.hosts[member.0];
        match host.condition {
            Condition::Stopped => {}
            Condition::Paused => host.late.push(timer),
            Condition::Running | Condition::Blocked => {
                self.act(member, |node, now, out| node.fire(now, timer, out));
            }
        }
    }

    fn impair(&mut self, member: Member, condition: Condition, length: Duration) {
        let host = &mut self.hosts[member.0];
        if host.condition == Condition::Running {
            host.condition = condition;
            let resume = Happening::Resume(member, host.run);
            self.queue.push(self.now + length, Class::Fault, resume);
        }
    }

    /// What waits goes out, then what has come is handled, then late timers in their order.
    fn resume(&mut self, member: Member) {
        let host = &mut self.hosts[member.0];
        if host.condition == Condition::Stopped {
            return;
        }
        host.condition = Condition::Running;
        let unsent = std::mem::take(&mut host.unsent);
        let inbox = std::mem::take(&mut host.inbox);
        let late = std::mem::take(&mut host.late);
        for packet in unsent {
            self.send(member, packet);
        }
        for packet in inbox {
            self.take(member, &packet);
        }
        for timer in late {
            self.act(member, |node, now, out| node.fire(now, timer, out));
        }
    }

    /// A member that knows nobody asks `contact`, and looks again after a while.
    fn join(&mut self, member: Member, contact: Member) {
        let host = &self.hosts[member.0];
        if !host.node.is_alone() || host.condition == Condition::Stopped {
            return;
        }
        self.exchange(member, contact);
        let again = Happening::Join(member, self.hosts[member.0].run, contact);
        self.queue
            .push(self.now + JOIN_AGAIN, Class::Deadline, again);
    }

    /// Others that run.
    fn others(&self, member: Member) -> impl Iterator<Item = &Host> {
        let up = move |(place, host): &(usize, &Host)| {
            *place != member.0 && host.condition != Condition::Stopped
        };
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

impl Contender for LifeguardWorld {
    fn empty(setting: &Setting) -> Self {
        LifeguardWorld::with(setting, Settings::lifeguard(setting.profile))
    }

    fn start_full(&mut self, count: usize) -> Vec<Member> {
        let members: Vec<Member> = (0..count).map(|_| self.start()).collect();
        for &member in &members {
            let others = members.clone();
            self.act(member, |node, now, out| {
                for other in others {
                    node.know(other, 1, now);
                }
                node.begin(now, out);
            });
        }
        members
    }

    fn start_joining(&mut self, through: Member) -> Member {
        let member = self.start();
        self.act(member, Node::begin);
        self.join(member, through);
        member
    }

    fn crash(&mut self, member: Member) {
        let host = &mut self.hosts[member.0];
        host.condition = Condition::Stopped;
        host.late.clear();
        host.unsent.clear();
        for _ in host.inbox.drain(..) {
            self.network.drop(Dropped::NoListener);
        }
    }

    /// The new life takes an incarnation above all of the old one's, as if that were stored.
    fn restart(&mut self, member: Member) {
        let run = self.hosts[member.0].run + 1;
        self.hosts[member.0] = self.host(member, run);
        self.act(member, Node::begin);
        let others = (0..self.hosts.len()).map(Member);
        let up = |other: &Member| {
            *other != member && self.hosts[other.0].condition != Condition::Stopped
        };
        if let Some(contact) = others.into_iter().find(up) {
            self.join(member, contact);
        }
    }

    fn pause(&mut self, member: Member, length: Duration) {
        self.impair(member, Condition::Paused, length);
    }

    fn block_io(&mut self, member: Member, length: Duration) {
        self.impair(member, Condition::Blocked, length);
    }

    fn isolate(&mut self, side: &[Member]) {
        let addresses = side.iter().map(|&member| self.hosts[member.0].address);
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

    fn tell_change(&mut self, member: Member) {
        let node = &mut self.hosts[member.0].node;
        node.tell_of_itself();
        self.told = Some((member, node.incarnation()));
    }

    fn run_for(&mut self, length: Duration) {
        let end = self.now + length;
        while self.step_until(end) {}
    }

    fn now(&self) -> Instant {
        self.now
    }

    fn is_change_known(&self) -> bool {
        self.told.is_some_and(|(member, told)| {
            let knows = |other: &Host| other.node.shows(member).is_some_and(|it| it.1 >= told);
            self.others(member).all(knows)
        })
    }

    fn is_shown_alive(&self, member: Member) -> bool {
        let life = self.hosts[member.0].run * LIFE;
        self.others(member).all(|other| {
            let shown = other.node.shows(member);
            shown.is_some_and(|(view, incarnation)| view == View::Alive && incarnation > life)
        })
    }

    fn is_held_dead(&self, member: Member) -> bool {
        let dead = |host: &Host| {
            let shown = host.node.shows(member);
            shown.is_none_or(|(view, _)| view == View::Dead)
        };
        self.others(member).all(dead)
    }

    fn take_changes(&mut self) -> Vec<Change> {
        std::mem::take(&mut self.changes)
    }

    /// Nobody is forced to: who is accused refutes.
    fn rejoins(&self) -> Vec<(Member, u64)> {
        Vec::new()
    }

    fn sent(&self) -> Sent {
        let tally = self.network.tally();
        Sent {
            datagrams: tally.sent,
            bytes: tally.bytes + self.stream_bytes,
        }
    }
}
