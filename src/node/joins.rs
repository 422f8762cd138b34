//! Join requests of the program, and the join list: resolving, asking again, answering.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};

use super::handle::{JoinResult, ResolveError};
use super::resolve::{JoinAddress, resolve};
use crate::protocol::JoinOutcome;

/// Names are looked up again this often while the node has joined nobody, and afterwards: DNS may
/// have been stale or late at the start (prometheus/alertmanager#1449, grafana/mimir#10866).
const RESOLVE_SOON: Duration = Duration::from_secs(5);
const RESOLVE_LATER: Duration = Duration::from_secs(30);

/// A join address as given, and what the resolver said of it.
pub(super) type Resolved = (String, Result<Vec<SocketAddr>, ResolveError>);

/// Results of a resolving task.
#[derive(Debug)]
pub(super) struct Lookup {
    resolved: Vec<Resolved>,
    reply: Option<oneshot::Sender<Vec<JoinResult>>>,
}

/// A command that waits until each of its addresses has answered.
#[derive(Debug)]
struct Pending {
    reply: oneshot::Sender<Vec<JoinResult>>,
    settled: Vec<JoinResult>,
    open: Vec<Open>,
}

/// A join address of such a command: which of its socket addresses have not answered, and the best
/// answer so far.
#[derive(Debug)]
struct Open {
    address: String,
    waiting: BTreeSet<SocketAddr>,
    best: Option<JoinOutcome>,
}

/// The driver's book of joins.
#[derive(Debug)]
pub(super) struct Joins {
    list: Vec<String>,
    told: BTreeSet<SocketAddr>,
    unresolved: BTreeMap<String, String>,
    pending: Vec<Pending>,
    lookups: mpsc::Sender<Lookup>,
}

impl Joins {
    /// For the configured join `list`; results of lookups come by the receiver.
    pub(super) fn new(list: Vec<String>) -> (Self, mpsc::Receiver<Lookup>) {
        let (lookups, results) = mpsc::channel(16);
        let joins = Joins {
            list,
            told: BTreeSet::new(),
            unresolved: BTreeMap::new(),
            pending: Vec::new(),
            lookups,
        };
        (joins, results)
    }

    /// Looks the join list up.
    pub(super) fn look_up_list(&self) {
        if !self.list.is_empty() {
            self.spawn_lookup(self.list.clone(), None);
        }
    }

    /// Looks the addresses of a command up.
    pub(super) fn look_up(&self, addresses: Vec<String>, reply: oneshot::Sender<Vec<JoinResult>>) {
        self.spawn_lookup(addresses, Some(reply));
    }

    fn spawn_lookup(
        &self,
        addresses: Vec<String>,
        reply: Option<oneshot::Sender<Vec<JoinResult>>>,
    ) {
        let lookups = self.lookups.clone();
        tokio::spawn(async move {
            let mut resolved = Vec::with_capacity(addresses.len());
            for address in addresses {
                let found = resolve(&address).await;
                resolved.push((address, found));
            }
            // An error means that the driver has stopped.
            let _ = lookups.send(Lookup { resolved, reply }).await;
        });
    }

    /// How long until the list is to be looked up again; `None` when it holds only IP addresses.
    pub(super) fn look_up_again(&self, joined: Joined) -> Option<Duration> {
        let named = |text: &String| matches!(JoinAddress::parse(text), JoinAddress::Name(..));
        self.list.iter().any(named).then_some(match joined {
            Joined::NotYet => RESOLVE_SOON,
            Joined::Yes => RESOLVE_LATER,
        })
    }

    /// Takes a lookup's results in; returns the addresses to be joined.
    pub(super) fn take(&mut self, lookup: Lookup) -> Vec<SocketAddr> {
        let found: BTreeSet<SocketAddr> = lookup
            .resolved
            .iter()
            .filter_map(|(_, found)| found.as_ref().ok())
            .flatten()
            .copied()
            .collect();
        match lookup.reply {
            Some(reply) => {
                self.expect(lookup.resolved, reply);
                found.into_iter().collect()
            }
            // Those of the list that were told already are retried by the core.
            None => {
                self.warn_unresolved(&lookup.resolved);
                let fresh = found.difference(&self.told).copied().collect();
                if lookup.resolved.iter().all(|(_, found)| found.is_ok()) {
                    // What a name no longer stands for is forgotten: it may come back one day.
                    self.told.clear();
                }
                self.told.extend(found);
                fresh
            }
        }
    }

    fn expect(&mut self, resolved: Vec<Resolved>, reply: oneshot::Sender<Vec<JoinResult>>) {
        let mut pending = Pending {
            reply,
            settled: Vec::new(),
            open: Vec::new(),
        };
        for (address, found) in resolved {
            match found {
                Ok(found) => {
                    let waiting = found.into_iter().collect();
                    pending.open.push(Open {
                        address,
                        waiting,
                        best: None,
                    });
                }
                Err(error) => {
                    pending.settled.push(JoinResult {
                        address,
                        outcome: Err(error),
                    });
                }
            }
        }
        self.pending.push(pending);
        self.answer_complete();
    }

    /// Says once that a name does not resolve, and once that it does again.
    fn warn_unresolved(&mut self, resolved: &[Resolved]) {
        for (address, found) in resolved {
            match found {
                Err(error) if self.unresolved.get(address) != Some(&error.reason) => {
                    tracing::warn!("join address {error}; it is looked up again until it resolves");
                    self.unresolved
                        .insert(address.clone(), error.reason.clone());
                }
                Ok(_) if self.unresolved.remove(address).is_some() => {
                    tracing::info!(address, "the join address resolves now");
                }
                _ => {}
            }
        }
    }

    /// A socket address has answered, or failed.
    pub(super) fn settle(&mut self, address: SocketAddr, outcome: &JoinOutcome) {
        for open in self
            .pending
            .iter_mut()
            .flat_map(|pending| &mut pending.open)
        {
            if open.waiting.remove(&address) {
                let better = open
                    .best
                    .as_ref()
                    .is_none_or(|best| rank(outcome) < rank(best));
                if better {
                    open.best = Some(outcome.clone());
                }
            }
        }
        self.answer_complete();
    }

    fn answer_complete(&mut self) {
        for pending in &mut self.pending {
            let (done, open): (Vec<Open>, Vec<Open>) = std::mem::take(&mut pending.open)
                .into_iter()
                .partition(|open| open.waiting.is_empty() || joined(open.best.as_ref()));
            pending.open = open;
            pending
                .settled
                .extend(done.into_iter().map(|open| JoinResult {
                    address: open.address,
                    outcome: Ok(open.best.unwrap_or(JoinOutcome::Unreachable)),
                }));
        }
        let complete = self
            .pending
            .extract_if(.., |pending| pending.open.is_empty());
        for mut pending in complete {
            pending
                .settled
                .sort_by(|one, other| one.address.cmp(&other.address));
            // An error means that the caller has gone.
            let _ = pending.reply.send(pending.settled);
        }
    }
}

/// Whether the node belongs to a cluster already.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Joined {
    NotYet,
    Yes,
}

fn joined(outcome: Option<&JoinOutcome>) -> bool {
    matches!(outcome, Some(JoinOutcome::Joined { .. }))
}

/// Smaller is better.
fn rank(outcome: &JoinOutcome) -> u8 {
    match outcome {
        JoinOutcome::Joined { .. } => 0,
        JoinOutcome::Itself => 1,
        JoinOutcome::Refused(_) => 2,
        JoinOutcome::Unreachable => 3,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(port: u16) -> SocketAddr {
        ([127, 0, 0, 1], port).into()
    }

    /// hashicorp/consul#1711: only the first of several addresses counted, or an early failure
    /// hid a later success.
    #[tokio::test]
    async fn every_address_gets_its_own_answer() {
        let (mut joins, _lookups) = Joins::new(Vec::new());
        let (reply, mut answer) = oneshot::channel();
        let unresolved = ResolveError {
            address: "x".into(),
            reason: "no".into(),
        };
        let resolved = vec![
            ("many".into(), Ok(vec![address(1), address(2), address(3)])),
            ("dead".into(), Ok(vec![address(4)])),
            ("x".into(), Err(unresolved.clone())),
        ];
        let told = joins.take(Lookup {
            resolved,
            reply: Some(reply),
        });
        assert_eq!(told.len(), 4);
        joins.settle(address(1), &JoinOutcome::Unreachable);
        joins.settle(address(4), &JoinOutcome::Unreachable);
        assert!(
            answer.try_recv().is_err(),
            "two addresses of `many` are open"
        );
        joins.settle(address(2), &JoinOutcome::Joined { members: 3 });
        let results = answer.await.expect("complete");
        let outcomes: Vec<_> = results.into_iter().map(|result| result.outcome).collect();
        assert_eq!(
            outcomes,
            [
                Ok(JoinOutcome::Unreachable),
                Ok(JoinOutcome::Joined { members: 3 }),
                Err(unresolved)
            ]
        );
    }

    #[tokio::test]
    async fn the_join_list_is_told_to_the_core_once() {
        let (mut joins, _lookups) = Joins::new(vec!["127.0.0.1:1".into()]);
        let found = || Lookup {
            resolved: vec![("127.0.0.1:1".into(), Ok(vec![address(1)]))],
            reply: None,
        };
        assert_eq!(joins.take(found()), [address(1)]);
        assert!(joins.take(found()).is_empty());
        let moved = || Lookup {
            resolved: vec![("n1".into(), Ok(vec![address(2)]))],
            reply: None,
        };
        assert_eq!(joins.take(moved()), [address(2)]);
        assert_eq!(joins.take(found()), [address(1)], "it came back");
        assert_eq!(
            joins.look_up_again(Joined::NotYet),
            None,
            "an IP address needs no lookup"
        );
    }
}
