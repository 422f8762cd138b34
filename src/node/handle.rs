//! The handle with which a program uses a running node.

use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use thiserror::Error;
use tokio::sync::{mpsc, oneshot, watch};

use super::backlog::Backlog;
use super::event_log::EventLog;
use super::snapshot::{Readiness, Snapshot};
use super::store::{AcceptError, Accepted, Draft, Offer, Store};
use crate::member::{
    EVENT_PAYLOAD_BYTES_MAX, EventError, EventRef, Generation, MetadataError, NodeName,
};
use crate::protocol::{DeliveryState, Forgetting, JoinOutcome, MetadataChange, MetadataOutcome};

/// The node has stopped; the handle only shows its last snapshot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("the node has stopped")]
pub struct Stopped;

/// How one join address, as it was given, answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JoinResult {
    /// The address or name as given.
    pub address: String,
    /// How it ended. A name with several addresses counts as joined when one of them admits.
    pub outcome: Result<JoinOutcome, ResolveError>,
}

/// A join address that stands for no address this node can reach.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{address} cannot be resolved ({reason}); check the name and the DNS server")]
pub struct ResolveError {
    /// What was given.
    pub address: String,
    /// What the resolver said, or which version of IP is missing.
    pub reason: String,
}

/// Which of a node's self-descriptions: it has another version after every change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MetadataVersion {
    /// The life it belongs to.
    pub generation: Generation,
    /// Counts the changes in this life.
    pub version: u32,
}

/// Which self-description a change is meant for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Expected {
    /// Whatever it is now.
    Any,
    /// One of these.
    OneOf(Vec<MetadataVersion>),
    /// One that has the service to be changed.
    Present,
    /// One that has not.
    Absent,
}

/// How a change of the self-description ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Described {
    /// What it did.
    pub outcome: MetadataOutcome,
    /// The self-description it left.
    pub version: MetadataVersion,
}

/// Why a node's self-description was not changed.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum DescribeError {
    /// The node has stopped.
    #[error(transparent)]
    Stopped(#[from] Stopped),
    /// It is another by now than the one that the change was meant for.
    #[error("tags, services or maintenance have changed meanwhile; read them again and retry")]
    Stale,
    /// The service that is to be changed is not offered.
    #[error("this node does not offer the service")]
    Missing,
    /// The service that is to be added is offered.
    #[error("this node offers the service already")]
    Exists,
    /// The change breaks a rule.
    #[error(transparent)]
    Refused(#[from] MetadataError),
}

/// Why an event was not published. Nothing of it was kept.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum PublishError {
    /// The node has stopped.
    #[error(transparent)]
    Stopped(#[from] Stopped),
    /// The node is not part of the cluster.
    #[error("this node is not part of the cluster; wait until it is ready")]
    NotReady,
    /// Too many events wait to be told.
    #[error("too many events wait to be told; send this one again in a second")]
    Full,
    /// It breaks a rule.
    #[error(transparent)]
    Event(#[from] EventError),
    /// The store did not take it.
    #[error(transparent)]
    Store(#[from] AcceptError),
}

/// How many members acknowledged a leave.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LeaveReport {
    /// Members that know.
    pub acknowledged: usize,
    /// Members that were alive.
    pub expected: usize,
}

/// What a handle asks of the driver.
pub(super) enum Command {
    Join {
        addresses: Vec<String>,
        reply: oneshot::Sender<Vec<JoinResult>>,
    },
    Forget {
        name: NodeName,
        reply: oneshot::Sender<Forgetting>,
    },
    Leave {
        reply: oneshot::Sender<LeaveReport>,
    },
    Describe {
        change: MetadataChange,
        expected: Expected,
        reply: oneshot::Sender<Result<Described, DescribeError>>,
    },
    Delivery {
        event: EventRef,
        reply: oneshot::Sender<Option<DeliveryState>>,
    },
    AwaitAgreement {
        length: Duration,
        pause: Duration,
    },
}

/// A running node, as its program sees it. Cheap to clone; the node stops when `leave` has
/// completed or when the last handle is dropped.
#[derive(Clone)]
pub struct Node {
    pub(super) snapshot: Arc<ArcSwap<Snapshot>>,
    pub(super) changes: watch::Receiver<u64>,
    pub(super) converged: watch::Receiver<bool>,
    pub(super) commands: mpsc::Sender<Command>,
    pub(super) events: EventLog,
    pub(super) store: Arc<dyn Store>,
    pub(super) backlog: Backlog,
}

impl Node {
    /// The newest picture of the table. Never waits.
    #[must_use]
    pub fn snapshot(&self) -> Arc<Snapshot> {
        self.snapshot.load_full()
    }

    /// Follows the snapshot's index: the receiver wakes when it has grown, and sees `Err` from
    /// `changed` when the node has stopped.
    #[must_use]
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.changes.clone()
    }

    /// The log of what happened. It stays readable when the node has stopped.
    #[must_use]
    pub fn events(&self) -> &EventLog {
        &self.events
    }

    /// What waits to be told.
    #[must_use]
    pub fn backlog(&self) -> &Backlog {
        &self.backlog
    }

    /// Sends an event to all members. It is durable and in the log when this returns.
    ///
    /// # Errors
    /// Nothing was sent, and nothing is kept.
    pub async fn publish(&self, draft: Draft) -> Result<Accepted, PublishError> {
        if draft.payload.len() > EVENT_PAYLOAD_BYTES_MAX {
            return Err(EventError::LargePayload(draft.payload.len()).into());
        }
        if self.commands.is_closed() {
            return Err(Stopped.into());
        }
        if self.snapshot().node.readiness != Readiness::Ready {
            return Err(PublishError::NotReady);
        }
        let place = self.backlog.enter(draft.payload.len());
        let (reply, answer) = oneshot::channel();
        self.store.accept(Offer {
            draft,
            place: place.ok_or(PublishError::Full)?,
            reply,
        });
        Ok(answer.await.map_err(|_| Stopped)??)
    }

    /// How far an event that this node sent at least once has come; `None` for all others, and for
    /// those that are not kept any more.
    ///
    /// # Errors
    /// [`Stopped`] when the node has stopped.
    pub async fn delivery(&self, event: EventRef) -> Result<Option<DeliveryState>, Stopped> {
        let (reply, answer) = oneshot::channel();
        self.commands
            .send(Command::Delivery { event, reply })
            .await
            .map_err(|_| Stopped)?;
        answer.await.map_err(|_| Stopped)
    }

    /// Contacts `addresses` (each an IP address or DNS name with or without a port, or a service's
    /// name, which begins with `_`) and waits until every one has answered or failed. Those that
    /// failed are retried in the background. A node that was forgotten begins a new life by it.
    ///
    /// # Errors
    /// [`Stopped`] when the node has stopped.
    pub async fn join(&self, addresses: Vec<String>) -> Result<Vec<JoinResult>, Stopped> {
        let (reply, answer) = oneshot::channel();
        self.commands
            .send(Command::Join { addresses, reply })
            .await
            .map_err(|_| Stopped)?;
        answer.await.map_err(|_| Stopped)
    }

    /// Removes the member `name` for good, cluster-wide; says how far that has come. Asked again,
    /// through any node, the answer is how far it has come since. A member that is held alive is
    /// asked first whether it runs.
    ///
    /// # Errors
    /// [`Stopped`] when the node has stopped.
    pub async fn forget(&self, name: NodeName) -> Result<Forgetting, Stopped> {
        let (reply, answer) = oneshot::channel();
        self.commands
            .send(Command::Forget { name, reply })
            .await
            .map_err(|_| Stopped)?;
        answer.await.map_err(|_| Stopped)
    }

    /// Tells all alive members that this node leaves, waits for their acknowledgements (at most
    /// the leave timeout), and stops the node. A second call gets the same answer.
    ///
    /// # Errors
    /// [`Stopped`] when the node had stopped already.
    pub async fn leave(&self) -> Result<LeaveReport, Stopped> {
        let (reply, answer) = oneshot::channel();
        self.commands
            .send(Command::Leave { reply })
            .await
            .map_err(|_| Stopped)?;
        answer.await.map_err(|_| Stopped)
    }

    /// Changes what this node says of itself and tells the others, if its self-description is still
    /// the expected one. The change shows in the next snapshot; it is not persisted.
    ///
    /// # Errors
    /// Nothing was changed: the node has stopped, another change came first, or a rule is broken.
    pub async fn describe(
        &self,
        change: MetadataChange,
        expected: Expected,
    ) -> Result<Described, DescribeError> {
        let (reply, answer) = oneshot::channel();
        let command = Command::Describe {
            change,
            expected,
            reply,
        };
        self.commands.send(command).await.map_err(|_| Stopped)?;
        answer.await.map_err(|_| Stopped)?
    }

    /// Follows whether all members are known to agree: the receiver wakes when that has changed,
    /// and sees `Err` from `changed` when the node has stopped. For `length` the members are asked
    /// to tell what they know of it more often: each that does not know it of all sends a message
    /// to a random other one every `pause`.
    ///
    /// # Errors
    /// [`Stopped`] when the node has stopped.
    pub async fn await_agreement(
        &self,
        length: Duration,
        pause: Duration,
    ) -> Result<watch::Receiver<bool>, Stopped> {
        self.commands
            .send(Command::AwaitAgreement { length, pause })
            .await
            .map_err(|_| Stopped)?;
        Ok(self.converged.clone())
    }

    /// Waits until the node has stopped.
    pub async fn stopped(&self) {
        let mut changes = self.changes.clone();
        while changes.changed().await.is_ok() {}
    }
}
