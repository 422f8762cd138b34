//! What the hosts of simulated protocols other than ours have in common.

use std::collections::VecDeque;

use crate::network::{Dropped, Network, Packet};
use crate::process::SOCKET_PACKETS_MAX;

/// What is the matter with a host.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Condition {
    /// Nothing.
    Running,
    /// It stands still: datagrams and timers wait.
    Paused,
    /// Its timers run, and nothing goes in or out.
    Blocked,
    /// It has ended.
    Stopped,
}

/// A datagram reaches the host in this `condition`: the datagram, if it is handled now. Else it
/// waits in the `inbox`, or is lost.
pub fn receive(
    condition: Condition,
    inbox: &mut VecDeque<Packet>,
    packet: Packet,
    network: &mut Network,
) -> Option<Packet> {
    match condition {
        Condition::Stopped => {
            network.drop(Dropped::NoListener);
        }
        Condition::Running => return Some(packet),
        _ if inbox.len() >= SOCKET_PACKETS_MAX => {
            network.drop(Dropped::SocketFull);
        }
        _ => inbox.push_back(packet),
    }
    None
}
