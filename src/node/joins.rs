//! Join requests of the program, and the join list: resolving, asking again, answering.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};

use super::handle::{JoinResult, ResolveError};
use super::resolve::{Family, JoinAddress, resolve};
use crate::protocol::JoinOutcome;

/// Names are looked up again this often while the node has joined nobody, and afterwards: DNS may
/// have been stale or late at the start (prometheus/alertmanager#1449, grafana/mimir#10866).
const RESOLVE_SOON: Duration = Duration::from_secs(5);
const RESOLVE_LATER: Duration = Duration::from_secs(30);

/// Who wants to know a join address.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Asker {
    /// The join list.
    List,
    /// The command of this number.
    Command(u64),
}

/// What became of a join address as it was given.
#[derive(Debug)]
pub(super) struct Lookup {
    address: String,
    found: Result<Vec<SocketAddr>, ResolveError>,
    asker: Asker,
}

/// A command that waits until each of its addresses has answered.
#[derive(Debug)]
struct Pending {
    number: u64,
    reply: oneshot::Sender<Vec<JoinResult>>,
    /// Addresses that are being looked up.
    looked_up: usize,
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
    /// Each once.
    list: BTreeSet<String>,
    family: Family,
    /// Addresses of the list that are being looked up.
    listed: usize,
    /// What the core was told of each address of the list.
    told: BTreeMap<String, BTreeSet<SocketAddr>>,
    unresolved: BTreeMap<String, String>,
    commands: u64,
    pending: Vec<Pending>,
    lookups: mpsc::Sender<Lookup>,
}

impl Joins {
    /// For the configured join `list` of a node of `family`; results of lookups come by the
    /// receiver.
    pub(super) fn new(list: Vec<String>, family: Family) -> (Self, mpsc::Receiver<Lookup>) {
        let (lookups, results) = mpsc::channel(16);
        let joins = Joins {
            list: list.into_iter().collect(),
            family,
            listed: 0,
            told: BTreeMap::new(),
            unresolved: BTreeMap::new(),
            commands: 0,
            pending: Vec::new(),
            lookups,
        };
        (joins, results)
    }

    /// Looks the join list up, unless that is still being done.
    pub(super) fn look_up_list(&mut self) {
        if self.listed == 0 {
            self.listed = self.list.len();
            for address in &self.list {
                self.spawn_lookup(address.clone(), Asker::List);
            }
        }
    }

    /// Looks the addresses of a command up.
    pub(super) fn look_up(
        &mut self,
        addresses: Vec<String>,
        reply: oneshot::Sender<Vec<JoinResult>>,
    ) {
        let addresses: BTreeSet<String> = addresses.into_iter().collect();
        self.commands += 1;
        let number = self.commands;
        self.pending.push(Pending {
            number,
            reply,
            looked_up: addresses.len(),
            settled: Vec::new(),
            open: Vec::new(),
        });
        for address in addresses {
            self.spawn_lookup(address, Asker::Command(number));
        }
        self.answer_complete();
    }

    /// Each by itself: a name that takes long must not keep the others waiting.
    fn spawn_lookup(&self, address: String, asker: Asker) {
        let (lookups, family) = (self.lookups.clone(), self.family);
        tokio::spawn(async move {
            let found = resolve(&address, family).await;
            let lookup = Lookup {
                address,
                found,
                asker,
            };
            // An error means that the driver has stopped.
            let _ = lookups.send(lookup).await;
        });
    }

    /// How long until the list is to be looked up again; `None` when it holds only IP addresses.
    pub(super) fn look_up_again(&self, joined: Joined) -> Option<Duration> {
        let named = |text: &String| !matches!(JoinAddress::parse(text), JoinAddress::Literal(_));
        self.list.iter().any(named).then_some(match joined {
            Joined::NotYet => RESOLVE_SOON,
            Joined::Yes => RESOLVE_LATER,
        })
    }

    /// Takes a lookup's result in; returns the addresses to be joined.
    pub(super) fn take(&mut self, lookup: Lookup) -> Vec<SocketAddr> {
        match lookup.asker {
            Asker::Command(number) => self.take_for_command(number, lookup.address, lookup.found),
            Asker::List => {
                self.listed = self.listed.saturating_sub(1);
                self.warn_unresolved(&lookup.address, &lookup.found);
                self.take_for_list(lookup.address, lookup.found)
            }
        }
    }

    /// Those that were told already are retried by the core. What a name no longer stands for is
    /// forgotten: it may come back one day.
    fn take_for_list(
        &mut self,
        address: String,
        found: Result<Vec<SocketAddr>, ResolveError>,
    ) -> Vec<SocketAddr> {
        let Ok(found) = found else {
            return Vec::new();
        };
        let known = |found: &SocketAddr| self.told.values().any(|told| told.contains(found));
        let fresh = found.iter().filter(|found| !known(found));
        let fresh = fresh.copied().collect();
        self.told.insert(address, found.into_iter().collect());
        fresh
    }

    fn take_for_command(
        &mut self,
        number: u64,
        address: String,
        found: Result<Vec<SocketAddr>, ResolveError>,
    ) -> Vec<SocketAddr> {
        let pending = self.pending.iter_mut().find(|held| held.number == number);
        let Some(pending) = pending else {
            return Vec::new();
        };
        pending.looked_up = pending.looked_up.saturating_sub(1);
        let asked = match found {
            Ok(found) => {
                pending.open.push(Open {
                    address,
                    waiting: found.iter().copied().collect(),
                    best: None,
                });
                found
            }
            Err(error) => {
                pending.settled.push(JoinResult {
                    address,
                    outcome: Err(error),
                });
                Vec::new()
            }
        };
        self.answer_complete();
        asked
    }

    /// Says once that a name does not resolve, and once that it does again.
    fn warn_unresolved(&mut self, address: &str, found: &Result<Vec<SocketAddr>, ResolveError>) {
        match found {
            Err(error) if self.unresolved.get(address) != Some(&error.reason) => {
                tracing::warn!("join address {error}; it is looked up again until it resolves");
                self.unresolved
                    .insert(address.to_owned(), error.reason.clone());
            }
            Ok(_) if self.unresolved.remove(address).is_some() => {
                tracing::info!(address, "the join address resolves now");
            }
            _ => {}
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
        let complete = self.pending.extract_if(.., |pending| {
            pending.open.is_empty() && pending.looked_up == 0
        });
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

    fn found(asker: Asker, name: &str, ports: &[u16]) -> Lookup {
        Lookup {
            address: name.into(),
            found: Ok(ports.iter().copied().map(address).collect()),
            asker,
        }
    }

    fn failed(asker: Asker, name: &str) -> Lookup {
        let error = ResolveError {
            address: name.into(),
            reason: "no".into(),
        };
        Lookup {
            address: name.into(),
            found: Err(error),
            asker,
        }
    }

    /// hashicorp/consul#1711: only the first of several addresses counted, or an early failure
    /// hid a later success.
    #[tokio::test]
    async fn every_address_gets_its_own_answer() {
        let (mut joins, _lookups) = Joins::new(Vec::new(), Family::V4);
        let (reply, mut answer) = oneshot::channel();
        let names = ["many", "dead", "x", "dead"];
        joins.look_up(names.map(str::to_owned).to_vec(), reply);
        let asker = Asker::Command(1);
        assert_eq!(joins.take(found(asker, "dead", &[4])), [address(4)]);
        joins.settle(address(4), &JoinOutcome::Unreachable);
        assert!(answer.try_recv().is_err(), "two are still looked up");
        assert_eq!(joins.take(found(asker, "many", &[1, 2, 3])).len(), 3);
        assert!(joins.take(failed(asker, "x")).is_empty());
        joins.settle(address(1), &JoinOutcome::Unreachable);
        assert!(
            answer.try_recv().is_err(),
            "two addresses of `many` are open"
        );
        joins.settle(address(2), &JoinOutcome::Joined { members: 3 });
        let results = answer.await.expect("complete");
        let outcomes: Vec<_> = results
            .into_iter()
            .map(|result| result.outcome.map_err(|error| error.reason))
            .collect();
        assert_eq!(
            outcomes,
            [
                Ok(JoinOutcome::Unreachable),
                Ok(JoinOutcome::Joined { members: 3 }),
                Err("no".into())
            ]
        );
    }

    #[tokio::test]
    async fn the_join_list_is_told_to_the_core_once() {
        let (mut joins, _lookups) = Joins::new(vec!["n1".into(), "n2".into()], Family::V4);
        let list = Asker::List;
        assert_eq!(joins.take(found(list, "n1", &[1])), [address(1)]);
        assert!(joins.take(found(list, "n1", &[1])).is_empty());
        assert!(joins.take(found(list, "n2", &[1])).is_empty(), "told by n1");
        assert!(joins.take(failed(list, "n2")).is_empty());
        assert_eq!(joins.take(found(list, "n2", &[2])), [address(2)], "moved");
        assert!(joins.take(found(list, "n1", &[2])).is_empty());
        assert_eq!(joins.take(found(list, "n1", &[1])), [address(1)], "back");
    }

    #[tokio::test]
    async fn only_names_are_looked_up_again() {
        let again = |list: &[&str], joined| {
            let list = list.iter().map(|&text| text.to_owned()).collect();
            Joins::new(list, Family::V4).0.look_up_again(joined)
        };
        assert_eq!(again(&["127.0.0.1:1", "[::1]:1"], Joined::NotYet), None);
        assert_eq!(again(&["n1"], Joined::NotYet), Some(RESOLVE_SOON));
        let service = ["127.0.0.1:1", "_rumord._tcp.x"];
        assert_eq!(again(&service, Joined::Yes), Some(RESOLVE_LATER));
    }

    #[tokio::test]
    async fn a_list_that_is_being_looked_up_is_not_looked_up_twice() {
        let (mut joins, mut lookups) = Joins::new(vec!["127.0.0.1:1".into()], Family::V4);
        joins.look_up_list();
        joins.look_up_list();
        let lookup = lookups.recv().await.expect("looked up");
        assert!(lookups.try_recv().is_err(), "once");
        assert_eq!(joins.take(lookup), [address(1)]);
        joins.look_up_list();
        assert!(lookups.recv().await.is_some());
    }
}
