//! A node whose table a test writes.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};

use crate::daemon::http::{Membership, Pending};
use crate::member::{
    EventRef, Generation, Incarnation, Metadata, NodeId, NodeName, Service, Status, Tags, Version,
    WireRange,
};
use crate::node::{
    Backlog, DescribeError, Described, EventLog, Expected, JoinResult, LeaveReport, MemberView,
    MetadataVersion, NodeView, Quality, Readiness, ResolveError, Snapshot, Stopped, StoreCondition,
};
use crate::protocol::{
    AgreementState, DeliveryState, EventBacklog, Forgetting, JoinOutcome, MetadataChange,
    MetadataOutcome, RefusalReason, Stats,
};

/// Forgets that may run at a time.
const HELD: usize = 64;

/// Shows what the test stores in it.
pub(super) struct FakeNode {
    snapshot: Mutex<Arc<Snapshot>>,
    changes: Mutex<Option<watch::Sender<u64>>>,
    receiver: watch::Receiver<u64>,
    converged: watch::Sender<bool>,
    waits: Mutex<Vec<(Duration, Duration)>>,
    /// The log, which begins at event 1.
    pub(super) log: EventLog,
    /// What waits to be told.
    pub(super) backlog: Backlog,
    /// How far every event has come.
    pub(super) delivery: Mutex<Option<DeliveryState>>,
    /// Changes of the self-description that were made.
    pub(super) changes_made: AtomicUsize,
    /// Forgets wait for a permit of it.
    gate: Arc<Semaphore>,
    /// Forgets that were begun.
    pub(super) begun: AtomicUsize,
}

impl FakeNode {
    pub(super) fn new(snapshot: Snapshot) -> Arc<Self> {
        let (sender, receiver) = watch::channel(snapshot.index);
        Arc::new(FakeNode {
            snapshot: Mutex::new(Arc::new(snapshot)),
            changes: Mutex::new(Some(sender)),
            receiver,
            converged: watch::channel(false).0,
            waits: Mutex::default(),
            log: EventLog::new(Generation(0), Vec::new(), None),
            backlog: Backlog::default(),
            delivery: Mutex::default(),
            changes_made: AtomicUsize::new(0),
            gate: Arc::new(Semaphore::new(HELD)),
            begun: AtomicUsize::new(0),
        })
    }

    /// Publishes a changed snapshot.
    pub(super) fn change(&self, change: impl FnOnce(&mut Snapshot)) {
        let mut shown = self.snapshot.lock().expect("unpoisoned");
        let mut next = Snapshot::clone(&shown);
        change(&mut next);
        let (index, converged) = (next.index, next.agreement.converged);
        *shown = Arc::new(next);
        if let Some(changes) = &*self.changes.lock().expect("unpoisoned") {
            changes.send_replace(index);
        }
        self.converged.send_replace(converged);
    }

    /// Has forgets wait until this is dropped.
    pub(super) async fn hold(&self) -> OwnedSemaphorePermit {
        let all = u32::try_from(HELD).expect("small");
        let gate = Arc::clone(&self.gate);
        gate.acquire_many_owned(all).await.expect("never closed")
    }

    /// Waits until so many forgets were begun.
    pub(super) async fn until_begun(&self, count: usize) {
        let begun = async {
            while self.begun.load(Ordering::Relaxed) < count {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        let soon = Duration::from_secs(20);
        tokio::time::timeout(soon, begun).await.expect("in time");
    }

    /// For how long agreement was waited for, and the pauses wanted.
    pub(super) fn waits(&self) -> Vec<(Duration, Duration)> {
        self.waits.lock().expect("unpoisoned").clone()
    }

    /// Stops, as after a leave.
    pub(super) fn stop(&self) {
        self.changes.lock().expect("unpoisoned").take();
    }

    /// Readers that follow the index now.
    pub(super) fn followers(&self) -> usize {
        let changes = self.changes.lock().expect("unpoisoned");
        // One receiver is the node's own.
        changes
            .as_ref()
            .map_or(0, |changes| changes.receiver_count() - 1)
    }
}

impl FakeNode {
    fn redescribe(
        &self,
        change: MetadataChange,
        expected: &Expected,
    ) -> Result<Described, DescribeError> {
        let shown = self.snapshot.lock().expect("unpoisoned").clone();
        let held = shown.members[0].metadata.as_deref().expect("its own");
        let version = |metadata: &Metadata| MetadataVersion {
            generation: metadata.generation,
            version: metadata.version,
        };
        if let Expected::OneOf(versions) = expected
            && !versions.contains(&version(held))
        {
            return Err(DescribeError::Stale);
        }
        if let MetadataChange::PutService(Service { name, .. })
        | MetadataChange::RemoveService(name) = &change
        {
            let offers = held.services.iter().any(|service| service.name == *name);
            match expected {
                Expected::Present if !offers => return Err(DescribeError::Missing),
                Expected::Absent if offers => return Err(DescribeError::Exists),
                _ => {}
            }
        } else if *expected == Expected::Absent {
            return Err(DescribeError::Exists);
        }
        let mut next = held.clone();
        next.version += 1;
        let mut until = None;
        let named = |name: &NodeName| held.services.iter().any(|service| service.name == *name);
        let outcome = match change {
            MetadataChange::Tags(tags) => {
                next.tags = tags;
                MetadataOutcome::Changed
            }
            MetadataChange::PutService(service) => {
                let known = named(&service.name);
                next.services.retain(|held| held.name != service.name);
                next.services.push(service);
                if known {
                    MetadataOutcome::Changed
                } else {
                    MetadataOutcome::Added
                }
            }
            MetadataChange::RemoveService(name) if !named(&name) => MetadataOutcome::Absent,
            MetadataChange::RemoveService(name) => {
                next.services.retain(|held| held.name != name);
                MetadataOutcome::Changed
            }
            MetadataChange::BeginMaintenance(lease) => {
                until = Some(shown.node.started + lease.length);
                next.maintenance = Some(lease);
                MetadataOutcome::Changed
            }
            MetadataChange::EndMaintenance => MetadataOutcome::Unchanged,
        };
        next.check()?;
        self.changes_made.fetch_add(1, Ordering::Relaxed);
        let version = version(&next);
        self.change(|snapshot| {
            snapshot.members[0].maintenance_until = until;
            snapshot.members[0].metadata = Some(Arc::new(next));
        });
        Ok(Described { outcome, version })
    }
}

impl Membership for FakeNode {
    fn snapshot(&self) -> Arc<Snapshot> {
        self.snapshot.lock().expect("unpoisoned").clone()
    }

    fn changes(&self) -> watch::Receiver<u64> {
        self.receiver.clone()
    }

    fn await_agreement(
        &self,
        length: Duration,
        pause: Duration,
    ) -> Pending<Result<watch::Receiver<bool>, Stopped>> {
        self.waits.lock().expect("unpoisoned").push((length, pause));
        let converged = self.converged.subscribe();
        Box::pin(async move { Ok(converged) })
    }

    fn events(&self) -> EventLog {
        self.log.clone()
    }

    fn backlog(&self) -> Backlog {
        self.backlog.clone()
    }

    fn delivery(&self, _event: EventRef) -> Pending<Result<Option<DeliveryState>, Stopped>> {
        let state = self.delivery.lock().expect("unpoisoned").clone();
        Box::pin(async move { Ok(state) })
    }

    /// The address says how it answers.
    fn join(&self, addresses: Vec<String>) -> Pending<Result<Vec<JoinResult>, Stopped>> {
        let results = addresses.into_iter().map(answer).collect();
        Box::pin(async { Ok(results) })
    }

    /// The name says how far it has come.
    fn forget(&self, name: NodeName) -> Pending<Result<Forgetting, Stopped>> {
        let second = Duration::from_secs(1);
        let answer = match name.as_str() {
            "n1" => Forgetting::Itself,
            "n2" => Forgetting::Asking { left: 2 * second },
            "n3" => Forgetting::Spreading { known: 1, alive: 2 },
            "gone" => Forgetting::Spreading { known: 2, alive: 2 },
            "running" => Forgetting::Refused { ago: second },
            "busy" => Forgetting::Busy,
            "early" => Forgetting::NotReady,
            _ => Forgetting::Unknown,
        };
        self.begun.fetch_add(1, Ordering::Relaxed);
        let gate = Arc::clone(&self.gate);
        Box::pin(async move {
            let _permit = gate.acquire().await;
            Ok(answer)
        })
    }

    fn leave(&self) -> Pending<Result<LeaveReport, Stopped>> {
        let stopped = self.changes.lock().expect("unpoisoned").is_none();
        let report = LeaveReport {
            acknowledged: 1,
            expected: 2,
        };
        Box::pin(async move { if stopped { Err(Stopped) } else { Ok(report) } })
    }

    /// Changes the shown snapshot, much as a node would.
    fn describe(
        &self,
        change: MetadataChange,
        expected: Expected,
    ) -> Pending<Result<Described, DescribeError>> {
        let stopped = self.changes.lock().expect("unpoisoned").is_none();
        let answer = if stopped {
            Err(DescribeError::Stopped(Stopped))
        } else {
            self.redescribe(change, &expected)
        };
        Box::pin(async move { answer })
    }
}

fn answer(address: String) -> JoinResult {
    let outcome = match address.as_str() {
        "joined" => Ok(JoinOutcome::Joined { members: 3 }),
        "itself" => Ok(JoinOutcome::Itself),
        "refused" => Ok(JoinOutcome::Refused(RefusalReason::Cluster)),
        "unresolvable" => {
            let reason = "no such host".into();
            Err(ResolveError {
                address: address.clone(),
                reason,
            })
        }
        _ => Ok(JoinOutcome::Unreachable),
    };
    JoinResult { address, outcome }
}

/// n1 (this node) and n2 alive, n3 dead.
pub(in crate::daemon) fn snapshot() -> Snapshot {
    let web = Service {
        name: "web".parse().expect("valid"),
        port: 8080,
        tags: Tags::from([("v".into(), "2".into())]),
    };
    let n1 = MemberView {
        local: true,
        rtt: None,
        ..member("n1", &[("zone", "a")], vec![web])
    };
    let n2 = member("n2", &[("zone", "b"), ("canary", "")], Vec::new());
    let n3 = MemberView {
        status: Status::Dead,
        address: None,
        metadata: None,
        phi: 9.81234,
        ..member("n3", &[], Vec::new())
    };
    Snapshot {
        cluster: "default".into(),
        local: n1.name.clone(),
        index: 42,
        fingerprint: 0x9f86_d081_884c,
        agreement: agreement(),
        unreached: Vec::new(),
        made: std::time::Instant::now(),
        members: vec![n1, n2, n3],
        remembered: Vec::new(),
        explanations: Arc::default(),
        node: node(),
    }
}

fn agreement() -> AgreementState {
    AgreementState {
        fingerprint: 0x9f86_d081_884c,
        alive: 2,
        agree: 2,
        laggards: Vec::new(),
        converged: true,
        stable_for: Duration::from_millis(1500),
    }
}

fn node() -> NodeView {
    NodeView {
        node_id: NodeId(0xab),
        bound: "127.0.0.1:7480".parse().expect("valid"),
        readiness: Readiness::Ready,
        rival: None,
        clock_skew: 0,
        isolated: false,
        local_health: 0,
        miss_rate: 0.015_25,
        stream_answered: Some(SystemTime::UNIX_EPOCH + Duration::from_secs(1_764_516_060)),
        started: SystemTime::UNIX_EPOCH + Duration::from_millis(1_764_516_000_000),
        queued_updates: 0,
        backlog: EventBacklog::default(),
        store: StoreCondition::default(),
        quality: Quality::default(),
        stats: Stats::default(),
    }
}

fn member(name: &str, tags: &[(&str, &str)], services: Vec<Service>) -> MemberView {
    let address = "127.0.0.1:7480".parse().expect("valid");
    let tags = tags
        .iter()
        .map(|(key, value)| (key.to_string(), value.to_string()))
        .collect();
    let metadata = Metadata {
        generation: Generation(1_764_516_000),
        node_id: NodeId(1),
        version: 0,
        address,
        tags,
        services,
        wire: WireRange { min: 1, max: 1 },
        maintenance: None,
    };
    MemberView {
        name: name.parse().expect("valid"),
        address: Some(address),
        status: Status::Alive,
        local: false,
        node_id: NodeId(1),
        generation: Generation(1_764_516_000),
        version: Version(345),
        incarnation: Incarnation(0),
        phi: 0.0,
        rtt: Some(Duration::from_micros(312)),
        since: SystemTime::UNIX_EPOCH + Duration::from_millis(1_764_516_000_250),
        metadata: Some(Arc::new(metadata)),
        maintenance_until: None,
        isolated_verdict: false,
        stored: false,
    }
}
