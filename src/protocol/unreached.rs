//! What this node makes of all that it is told about who does not reach whom.

use super::Node;
use super::stats::labels;
use crate::member::{NameHash, NodeName};
use crate::time::Instant;
use crate::wire::{Unreached, Ways};

labels! {
    /// How a member is reached by one transport.
    Reach {
        /// It answers.
        Reachable = "reachable",
        /// It does not answer.
        Unreachable = "unreachable",
        /// It answers short datagrams, not the largest.
        ShortOnly = "short-only",
        /// It was not asked.
        Unknown = "unknown",
    }
}

labels! {
    /// Why an observer does not reach a member, as far as both their reports tell.
    ReachCause {
        /// Datagrams pass in neither direction, streams do.
        UdpBlocked = "udp-blocked",
        /// Streams do not pass, datagrams do.
        TcpBlocked = "tcp-blocked",
        /// What the observer sends does not arrive, what the subject sends does.
        OneWayThere = "one-way",
        /// What the observer sends arrives, what the subject sends does not.
        OneWayBack = "one-way",
        /// The largest datagrams do not pass.
        Mtu = "mtu",
        /// Neither datagrams nor streams pass, though others reach the subject.
        NoPath = "no-path",
    }
}

/// An observer that does not reach a member which others, or streams, show to be alive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnreachedPair {
    /// Who does not reach.
    pub observer: NodeName,
    /// Whom.
    pub subject: NodeName,
    /// By datagram.
    pub datagram: Reach,
    /// By stream.
    pub stream: Reach,
    /// Whether datagrams of the subject arrive at the observer.
    pub heard: bool,
    /// Since when, in this node's time.
    pub since: Instant,
    /// The likely cause.
    pub cause: ReachCause,
}

impl Node {
    /// Who does not reach whom, as far as this node was told, in the order of the names. Members
    /// that are dead or have left reach nobody and are not listed.
    #[must_use]
    pub fn unreached(&self) -> Vec<UnreachedPair> {
        let mut pairs = Vec::new();
        for (observer, report) in self.sight.reports.iter() {
            for (told, since) in &report.unreached {
                let known = self
                    .active_name(observer)
                    .zip(self.active_name(told.subject));
                if let Some((observer_name, subject)) = known
                    && told.subject != observer
                {
                    pairs.push(UnreachedPair {
                        observer: observer_name,
                        subject,
                        datagram: datagram_reach(told.ways),
                        stream: stream_reach(told.ways),
                        heard: told.ways.heard,
                        since: *since,
                        cause: self.cause(observer, told),
                    });
                }
            }
        }
        pairs.sort_by(|one, other| {
            (&one.observer, &one.subject).cmp(&(&other.observer, &other.subject))
        });
        pairs
    }

    fn active_name(&self, member: NameHash) -> Option<NodeName> {
        let active = member == self.local.hash || self.table.is_active(member);
        let entry = self.table.get(member).filter(|_| active)?;
        Some(entry.record.name.clone())
    }

    /// What both ends say together.
    fn cause(&self, observer: NameHash, told: &Unreached) -> ReachCause {
        let ways = told.ways;
        let back = self.sight.reports.get(told.subject).and_then(|report| {
            let about = |(back, _): &&(Unreached, Instant)| back.subject == observer;
            report.unreached.iter().find(about)
        });
        let heard_there = back.is_some_and(|(back, _)| back.ways.heard);
        match ways {
            Ways {
                datagrams_lost: true,
                heard: true,
                ..
            } => ReachCause::OneWayThere,
            Ways {
                datagrams_lost: true,
                ..
            } if heard_there => ReachCause::OneWayBack,
            Ways {
                datagrams_lost: true,
                streams_lost: true,
                ..
            } => ReachCause::NoPath,
            Ways {
                datagrams_lost: true,
                ..
            } => ReachCause::UdpBlocked,
            Ways {
                streams_lost: true, ..
            } => ReachCause::TcpBlocked,
            _ => ReachCause::Mtu,
        }
    }
}

fn datagram_reach(ways: Ways) -> Reach {
    match ways {
        Ways {
            datagrams_lost: true,
            ..
        } => Reach::Unreachable,
        Ways {
            large_lost: true, ..
        } => Reach::ShortOnly,
        _ => Reach::Reachable,
    }
}

fn stream_reach(ways: Ways) -> Reach {
    match ways {
        Ways {
            streams_lost: true, ..
        } => Reach::Unreachable,
        Ways {
            streams_pass: true, ..
        } => Reach::Reachable,
        _ => Reach::Unknown,
    }
}
