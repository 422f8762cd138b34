//! Watching one claim spread, without asking every node after every event.

use rumord::member::{NodeName, Standing, Status};
use rumord::protocol::Node;
use rumord::time::Instant;
use rumord::wire::{self, Age, ClusterTag, Gossip, Message, News, Sender, StatusUpdate, Update};

use super::World;
use crate::process::ProcessId;

/// Names a claim that is watched.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WatchId(usize);

/// A claim, and who does not know it yet.
#[derive(Debug)]
pub(super) struct Watch {
    member: NodeName,
    at_least: Standing,
    unaware: Vec<bool>,
    missing: usize,
    since: Instant,
    known_at: Option<Instant>,
}

impl Watch {
    fn look(&mut self, id: ProcessId, node: &Node, now: Instant) {
        let unaware = self.unaware.get(id.0).copied().unwrap_or(false);
        let held = || node.record_of(&self.member).map(|record| record.standing);
        if unaware && held().is_some_and(|held| held >= self.at_least) {
            self.unaware[id.0] = false;
            self.missing -= 1;
            if self.missing == 0 {
                self.known_at = Some(now);
            }
        }
    }
}

impl World {
    /// Watches until all processes that are up hold a claim about the member of `subject` that is
    /// not below `at_least`.
    pub fn watch(&mut self, subject: ProcessId, at_least: Standing) -> WatchId {
        let unaware: Vec<bool> = self
            .processes
            .iter()
            .map(|process| process.is_up())
            .collect();
        let mut watch = Watch {
            member: self.processes[subject.0].name.clone(),
            at_least,
            missing: unaware.iter().filter(|&&unaware| unaware).count(),
            unaware,
            since: self.now,
            known_at: None,
        };
        for process in &self.processes {
            watch.look(process.id, &process.node, self.now);
        }
        self.watches.push(watch);
        WatchId(self.watches.len() - 1)
    }

    /// How long it took until all knew; `None` as long as somebody does not.
    #[must_use]
    pub fn known_after(&self, id: WatchId) -> Option<std::time::Duration> {
        let watch = &self.watches[id.0];
        watch.known_at.map(|at| at.since(watch.since))
    }

    /// A process has changed its table.
    pub(super) fn look_at_watches(&mut self, id: ProcessId) {
        let (node, now) = (&self.processes[id.0].node, self.now);
        for watch in self.watches.iter_mut().filter(|watch| watch.missing > 0) {
            watch.look(id, node, now);
        }
    }

    /// Somebody accuses `subject`, which refutes at once: one change, made by its owner, that
    /// leaves the cluster as it was. The claim is watched.
    pub fn accuse(&mut self, accuser: ProcessId, subject: ProcessId) -> Option<WatchId> {
        let (from, process) = (self.address(accuser), &self.processes[subject.0]);
        let held = process.node.record_of(&process.name)?.standing;
        let accuser = &self.processes[accuser.0];
        let news = News {
            sender: Sender {
                member: accuser.name.hash(),
                generation: accuser.node.state().generation,
                version: Default::default(),
            },
            gossip: Gossip {
                updates: vec![Update::Status(StatusUpdate::of(
                    process.name.hash(),
                    &held.with_status(Status::Suspect),
                    Age(0),
                ))]
                .into(),
                ..Gossip::default()
            },
        };
        let refuted = Standing {
            incarnation: held.incarnation.past(),
            ..held
        };
        let payload = wire::encode(ClusterTag::of(&process.cluster), &Message::News(news));
        let watch = self.watch(subject, refuted);
        self.inject(from, subject, &payload);
        Some(watch)
    }
}
