//! Questions about the cluster, answered from outside of it.

use std::net::SocketAddr;
use std::sync::Arc;

use rumord::member::{NodeName, Status};
use rumord::protocol::{Event, EventKind, MemberEvent, Stats};
use rumord::time::Instant;

use super::World;
use crate::checker::Violation;
use crate::network::Tally;
use crate::process::{Process, ProcessId};

/// One thing that a node said about a member.
#[derive(Clone, Copy, Debug)]
pub struct MemberNews<'a> {
    /// When, in the world's time.
    pub at: Instant,
    /// Who said it.
    pub observer: ProcessId,
    /// What.
    pub event: &'a MemberEvent,
}

impl World {
    /// How many deliveries and deadlines were handled so far.
    #[must_use]
    pub fn events(&self) -> u64 {
        self.events
    }

    /// The world's time.
    #[must_use]
    pub fn now(&self) -> Instant {
        self.now
    }

    /// A process.
    #[must_use]
    pub fn process(&self, id: ProcessId) -> &Process {
        &self.processes[id.0]
    }

    /// All processes that were ever started, in the order of starting.
    pub fn processes(&self) -> impl Iterator<Item = &Process> {
        self.processes.iter()
    }

    /// The processes that have not ended.
    pub fn up(&self) -> impl Iterator<Item = &Process> {
        self.processes.iter().filter(|process| process.is_up())
    }

    /// Where a process listens.
    #[must_use]
    pub fn address(&self, id: ProcessId) -> SocketAddr {
        self.processes[id.0].address
    }

    /// The status that `observer` shows for the member of `subject`; `None` if it lists none.
    #[must_use]
    pub fn status(&self, observer: ProcessId, subject: ProcessId) -> Option<Status> {
        let name = &self.processes[subject.0].name;
        self.processes[observer.0].node.status_of(name)
    }

    /// For every process that is up, what it shows: the names and their statuses.
    #[must_use]
    pub fn matrix(&self) -> Vec<(ProcessId, Vec<(NodeName, Status)>)> {
        let row = |process: &Process| {
            let shown = |record: &Arc<rumord::member::Record>| {
                let status = process.node.status_of(&record.name)?;
                Some((record.name.clone(), status))
            };
            (
                process.id,
                process.node.records().filter_map(shown).collect(),
            )
        };
        self.up().map(row).collect()
    }

    /// Whether every process that is up shows every process of its cluster that is up as alive, in
    /// its present life.
    #[must_use]
    pub fn all_alive(&self) -> bool {
        self.up().all(|observer| {
            self.up()
                .filter(|subject| subject.cluster == observer.cluster)
                .all(|subject| shows_alive(observer, subject))
        })
    }

    /// Whether all other processes that are up show the member of `subject` with `status`.
    #[must_use]
    pub fn everyone_sees(&self, subject: ProcessId, status: Status) -> bool {
        let subject = &self.processes[subject.0];
        self.up()
            .filter(|observer| observer.name != subject.name && observer.cluster == subject.cluster)
            .all(|observer| observer.node.status_of(&subject.name) == Some(status))
    }

    /// Whether all other processes that are up show the member of `subject` as dead.
    #[must_use]
    pub fn everyone_buries(&self, subject: ProcessId) -> bool {
        self.everyone_sees(subject, Status::Dead)
    }

    /// Whether all other processes that are up show this very process as alive.
    #[must_use]
    pub fn everyone_sees_life(&self, subject: ProcessId) -> bool {
        let subject = &self.processes[subject.0];
        self.up()
            .filter(|observer| observer.cluster == subject.cluster)
            .all(|observer| shows_alive(observer, subject))
    }

    /// Everything that was said about members, by all processes.
    pub fn news(&self) -> impl Iterator<Item = MemberNews<'_>> {
        self.processes.iter().flat_map(|process| {
            let observer = process.id;
            process.events.iter().filter_map(move |(at, event)| {
                let Event::Member(event) = event else {
                    return None;
                };
                Some(MemberNews {
                    at: *at,
                    observer,
                    event,
                })
            })
        })
    }

    /// Everything that was said about members since this was last asked, in the order of time and
    /// with who said it. It is not kept any longer.
    pub fn take_news(&mut self) -> Vec<(Instant, ProcessId, MemberEvent)> {
        let mut news = Vec::new();
        for process in &mut self.processes {
            let id = process.id;
            let member = |(at, event)| match event {
                Event::Member(event) => Some((at, id, event)),
                _ => None,
            };
            news.extend(process.events.drain(..).filter_map(member));
        }
        news.sort_by_key(|(at, _, _)| *at);
        news
    }

    /// What was said of `kind` about the member of `subject`, at `since` or later.
    pub fn news_of(
        &self,
        subject: ProcessId,
        kind: EventKind,
        since: Instant,
    ) -> impl Iterator<Item = MemberNews<'_>> {
        let name = &self.processes[subject.0].name;
        self.news().filter(move |news| {
            news.at >= since && news.event.kind == kind && news.event.member == *name
        })
    }

    /// Counters of all processes, added up by `read`.
    pub fn total(&self, read: impl Fn(&Stats) -> u64) -> u64 {
        let count = |process: &Process| read(process.node.stats());
        self.processes.iter().map(count).sum()
    }

    /// The network's books.
    #[must_use]
    pub fn tally(&self) -> &Tally {
        self.network.tally()
    }

    /// Datagrams that rules keep back.
    #[must_use]
    pub fn held(&self) -> usize {
        self.network.held()
    }

    /// The trace, empty if none is written.
    #[must_use]
    pub fn trace(&self) -> &str {
        self.trace.text()
    }

    /// Invariants that did not hold, where the run was told to keep them.
    #[must_use]
    pub fn violations(&self) -> &[Violation] {
        self.checker.violations()
    }
}

fn shows_alive(observer: &Process, subject: &Process) -> bool {
    let own = subject.node.state().generation;
    observer
        .node
        .record_of(&subject.name)
        .is_some_and(|record| {
            record.standing.instance() == (own, subject.node_id)
                && observer.node.status_of(&subject.name) == Some(Status::Alive)
        })
}
