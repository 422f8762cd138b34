//! A member in the world, and what is due to happen to it.

use std::collections::VecDeque;
use std::net::SocketAddr;

use super::message::Update;
use super::node::{Node, Timer};
use crate::compare::contender::Member;
use crate::compare::host::Condition;
use crate::network::Packet;

/// Something that is due; void in another run of the member than the one it names.
#[derive(Debug)]
pub enum Happening {
    /// A datagram reaches an address.
    Datagram(Packet),
    /// A timer has run out.
    Timer(Member, u32, Timer),
    /// A member is itself again.
    Resume(Member, u32),
    /// A table reaches a member, over a stream; who is to get the answer, if it is to be answered.
    Table(Member, u32, Vec<Update>, Option<Member>),
    /// A member that knows nobody asks this one.
    Join(Member, u32, Member),
}

/// A member, and what waits there.
pub struct Host {
    /// The protocol.
    pub node: Node,
    /// Where it listens.
    pub address: SocketAddr,
    /// What is the matter with it.
    pub condition: Condition,
    /// Counts its starts.
    pub run: u32,
    /// Datagrams that have come while it could not handle them.
    pub inbox: VecDeque<Packet>,
    /// Datagrams that it wanted to send while nothing went out.
    pub unsent: Vec<Packet>,
    /// Timers that have run out while it stood still.
    pub late: Vec<Timer>,
}
