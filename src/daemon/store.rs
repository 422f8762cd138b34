//! What an agent keeps, in one SQLite database: across restarts in its data directory, or in memory
//! where it has none.
//!
//! The generation must grow with every start, or the cluster takes the new process for an echo of
//! the old one. It is therefore on disk before the first packet is sent. A lock, held for as long
//! as the process lives, keeps two processes from being one member.
//!
//! Members and events are written by a thread of their own, in groups: nothing of the protocol
//! waits for the disk but a raised generation. While the disk fails, memory is the truth about
//! members, and it is written out as soon as the disk takes it. A crash loses the last milliseconds
//! of what happened to them, and no id of the log is given out twice: that of the next run starts
//! at its generation times 2^20.
//!
//! What clients are told is durable before they are told it: an event, the answer under its
//! idempotency key, and its place in the log are one transaction.

mod batch;
mod call_rows;
mod calls;
mod database;
mod error;
mod event_rows;
mod inbox;
mod journal;
mod key_rows;
mod keys;
mod parking;
mod rows;
mod writer;

use std::fs::{DirBuilder, File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use rusqlite::Connection;
use tokio::sync::oneshot;

use super::telemetry::Metrics;
use crate::member::{Generation, NodeId};
use crate::node::{
    AcceptError, Arrival, EventLog, Kept, Marks, Offer, Restored, Store, StoreCondition,
};
use crate::protocol::RELEASE_UNIX_SECONDS;

pub use error::StoreError;
pub use keys::{Answer, KEY_BYTES_MAX, KEYS_MAX, Keyed, Outcome, Post, Token, Verdict};

use batch::{Task, Waiting};
use inbox::{Request, Shared};
use rows::Identity;
use writer::{Medium, Writer};

/// How far ahead of the clock a generation may be: what peers accept, one day.
const GENERATION_LEAD_SECONDS_MAX: u64 = 24 * 3600;
/// Requests that may wait for the writer: further ones that only wake it are not needed, and others
/// are turned away.
const REQUESTS_MAX: usize = 4096;
/// How long a raised generation, or the last write at the end, may take.
const PATIENCE: Duration = Duration::from_secs(5);

const LOCK_FILE: &str = "lock";

/// The store of this run. Its data directory stays locked until it is dropped.
pub struct SqliteStore {
    node_id: NodeId,
    generation: Generation,
    restored: Mutex<Restored>,
    requests: Option<SyncSender<Request>>,
    writer: Option<JoinHandle<()>>,
    /// Whether the writer was given up waiting for.
    stuck: AtomicBool,
    shared: Arc<Shared>,
    /// The log that is kept, once there is one.
    events: OnceLock<EventLog>,
    _lock: Option<File>,
}

impl SqliteStore {
    /// Locks `dir`, which is created where absent, and starts a new generation of the identity in
    /// it: larger than the last one, and at least the clock's `now_unix_seconds`. It is on disk
    /// when this returns. `random` makes the node id of a directory that has none.
    ///
    /// What another cluster left is dropped, but not its generation: that must not be lost. A
    /// damaged database is moved aside and replaced by an empty one, loudly.
    ///
    /// # Errors
    /// See [`StoreError`].
    pub fn open(
        dir: &Path,
        cluster: &str,
        now_unix_seconds: u64,
        random: impl FnOnce() -> u64,
    ) -> Result<Self, StoreError> {
        let lock = lock(dir)?;
        let path = dir.join(database::FILE);
        let found = database::find(&path)?;
        let last = found.as_ref().map(|found| found.identity.clone());
        let generation = match &last {
            Some(last) => next_generation(last.generation, now_unix_seconds, &path)?,
            None => now_unix_seconds,
        };
        let identity = Identity {
            cluster: cluster.into(),
            node_id: last.map_or_else(random, |last| last.node_id),
            generation,
        };
        let failed = |error: rusqlite::Error| StoreError::File {
            path: path.clone(),
            reason: error.to_string(),
        };
        let (mut connection, restored) = match found {
            Some(found) => {
                let restored = of_cluster(found.restored, &found.identity.cluster, cluster);
                (found.connection, restored)
            }
            None => {
                let connection = database::create(&path, &identity).map_err(failed)?;
                (connection, Restored::default())
            }
        };
        rows::begin_run(&mut connection, &identity).map_err(failed)?;
        let medium = Medium::File(path.clone());
        Self::start(medium, connection, identity, restored, Some(lock)).map_err(failed)
    }

    /// A store of an agent without a data directory: nothing outlives the process.
    ///
    /// # Errors
    /// The system gave no memory or no thread.
    pub fn in_memory(
        cluster: &str,
        generation: Generation,
        node_id: NodeId,
    ) -> Result<Self, StoreError> {
        let identity = Identity {
            cluster: cluster.into(),
            node_id: node_id.0,
            generation: generation.0,
        };
        let start = || {
            let connection = database::create_in_memory(&identity)?;
            let restored = Restored::default();
            Self::start(Medium::Memory, connection, identity.clone(), restored, None)
        };
        start().map_err(|error: rusqlite::Error| StoreError::Memory(error.to_string()))
    }

    fn start(
        medium: Medium,
        connection: Connection,
        identity: Identity,
        restored: Restored,
        lock: Option<File>,
    ) -> rusqlite::Result<Self> {
        let shared = Arc::<Shared>::default();
        let (node_id, generation) = (identity.node_id, identity.generation);
        let (requests, received) = sync_channel(REQUESTS_MAX);
        let marks = Marks::of(&restored.marks);
        let writer = Writer::new(medium, connection, identity, marks, Arc::clone(&shared))?;
        let thread = std::thread::Builder::new()
            .name("store".into())
            .spawn(move || writer.run(&received))
            .map_err(|error| rusqlite::Error::ToSqlConversionFailure(error.into()))?;
        Ok(SqliteStore {
            node_id: NodeId(node_id),
            generation: Generation(generation),
            restored: Mutex::new(restored),
            requests: Some(requests),
            writer: Some(thread),
            stuck: AtomicBool::new(false),
            shared,
            events: OnceLock::new(),
            _lock: lock,
        })
    }

    /// Has commits, and events of clients, counted in `metrics` from now on.
    pub fn count_in(&self, metrics: &Arc<Metrics>) {
        // Whoever came first stays.
        let _ = self.shared.metrics.set(Arc::clone(metrics));
    }

    /// Takes an event of a client, under a key or without one.
    pub async fn post(&self, post: Post) -> Outcome {
        let (reply, answer) = oneshot::channel();
        let task = Task::Post(post);
        if self.hand_over(task, Waiting::Outcome(reply)).is_err() {
            return Outcome::Full;
        }
        answer.await.unwrap_or_else(|_| ended())
    }

    /// Takes a key for a request, so that the caller works on it, or says what has become of it.
    /// Waits up to `patience` while somebody else works on it.
    pub async fn begin(&self, keyed: Keyed, patience: Duration) -> Outcome {
        self.begin_for(keyed, key_rows::LEASE, patience).await
    }

    async fn begin_for(&self, keyed: Keyed, lease: Duration, patience: Duration) -> Outcome {
        let task = Task::Begin {
            keyed: keyed.clone(),
            lease,
        };
        let (reply, mut answer) = oneshot::channel();
        if self
            .hand_over(task, Waiting::Begin(keyed, lease, reply))
            .is_err()
        {
            return Outcome::Full;
        }
        match tokio::time::timeout(patience, &mut answer).await {
            Ok(answered) => answered.unwrap_or_else(|_| ended()),
            Err(_) => {
                // What was said in this moment counts.
                answer.close();
                answer.try_recv().unwrap_or(Outcome::Running)
            }
        }
    }

    /// Remembers the answer to a request. False when it is in other hands by now, or cannot be
    /// written.
    pub async fn complete(&self, keyed: Keyed, token: Token, answer: Answer) -> bool {
        self.settle(Task::Complete {
            keyed,
            token,
            answer,
        })
        .await
    }

    /// Forgets a request that had no effect, so that a repeat is worked on. False as above.
    pub async fn abandon(&self, keyed: Keyed, token: Token) -> bool {
        self.settle(Task::Abandon { keyed, token }).await
    }

    async fn settle(&self, task: Task) -> bool {
        let (reply, answer) = oneshot::channel();
        self.hand_over(task, Waiting::Done(reply)).is_ok() && answer.await.unwrap_or(false)
    }

    /// Gives the writer something to do, unless too much waits.
    fn hand_over(&self, task: Task, waiting: Waiting) -> Result<(), Waiting> {
        let request = Request::Task(Box::new(task), waiting);
        let sent = self
            .requests
            .as_ref()
            .map(|requests| requests.try_send(request));
        match sent {
            Some(Err(TrySendError::Full(Request::Task(_, waiting)))) => Err(waiting),
            // Dropped, who waits learns that the writer has ended.
            _ => Ok(()),
        }
    }

    /// Tells a restart of this node from a stranger with its name.
    #[must_use]
    pub fn node_id(&self) -> NodeId {
        self.node_id
    }

    /// The generation that this run started with.
    #[must_use]
    pub fn generation(&self) -> Generation {
        self.generation
    }

    /// Writes what is not written yet, and notes that the run ended in order, so that the log goes
    /// on without a gap. Waits for the disk, but not for ever.
    pub fn close(&self) {
        let (done, wait) = sync_channel(1);
        if self.request(Request::Close { done })
            && wait.recv_timeout(PATIENCE) == Err(RecvTimeoutError::Timeout)
        {
            self.stuck.store(true, Ordering::Relaxed);
            tracing::warn!("the data directory takes too long to write; the last events are lost");
        }
    }

    /// False when the writer has ended.
    fn request(&self, request: Request) -> bool {
        let requests = self.requests.as_ref();
        requests.is_some_and(|requests| requests.send(request).is_ok())
    }
}

impl Store for SqliteStore {
    fn load(&self) -> Restored {
        let mut restored = self.restored.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut restored)
    }

    fn follow(&self, kept: Kept) {
        // A writer that has ended keeps nothing.
        let written = kept.events.head();
        self.shared.progress().written = written;
        // A second log would be none of this run.
        let _ = self.events.set(kept.events.clone());
        let _ = self.request(Request::Follow {
            kept: Box::new(kept),
            written,
        });
    }

    fn wake(&self) {
        // A full queue wakes it as well.
        let _ = self
            .requests
            .as_ref()
            .map(|requests| requests.try_send(Request::Wake));
    }

    fn accept(&self, offer: Offer) {
        let Offer {
            draft,
            place,
            reply,
        } = offer;
        let task = Task::Accept { draft, place };
        if let Err(Waiting::Accept(reply)) = self.hand_over(task, Waiting::Accept(reply)) {
            // An error means that the caller has gone.
            let _ = reply.send(Err(AcceptError::Busy));
        }
    }

    fn receive(&self, arrivals: Vec<Arrival>) {
        self.shared.leave(arrivals);
        self.wake();
    }

    /// Never lowers what is stored.
    fn persist_generation(&self, generation: Generation) -> io::Result<()> {
        let (done, wait) = sync_channel(1);
        let request = Request::Generation {
            generation: generation.0,
            done,
        };
        let ended = || io::Error::other("the store's writer has ended");
        if !self.request(request) {
            return Err(ended());
        }
        match wait.recv_timeout(PATIENCE) {
            Ok(result) => result.map_err(io::Error::other),
            Err(RecvTimeoutError::Timeout) => Err(io::ErrorKind::TimedOut.into()),
            Err(RecvTimeoutError::Disconnected) => Err(ended()),
        }
    }

    fn condition(&self) -> StoreCondition {
        let progress = self.shared.progress();
        let head = self.events.get().map_or(0, EventLog::head);
        StoreCondition {
            failure: progress.failure.clone(),
            failures: progress.failures,
            unsaved_events: head.saturating_sub(progress.written),
            unsaved_arrivals: self.shared.count_arrivals(),
            keys: progress.keys,
        }
    }
}

impl Drop for SqliteStore {
    /// The lock goes when nobody writes any more; a writer that is stuck is left behind.
    fn drop(&mut self) {
        self.requests = None;
        let stuck = self.stuck.load(Ordering::Relaxed);
        if let Some(writer) = self.writer.take().filter(|_| !stuck) {
            // A panic of the writer has been told by its thread.
            let _ = writer.join();
        }
    }
}

fn ended() -> Outcome {
    Outcome::Failed("its writer has ended".into())
}

/// What was restored if it is of this `cluster`; otherwise only where its log ended.
fn of_cluster(restored: Restored, stored: &str, cluster: &str) -> Restored {
    if stored == cluster {
        return restored;
    }
    tracing::warn!(
        stored,
        cluster,
        members = restored.members.len(),
        events = restored.events.len(),
        "the data directory is of another cluster: its members and events are dropped"
    );
    Restored {
        next_event_id: restored.next_event_id,
        ..Restored::default()
    }
}

/// Creates `dir` for its owner alone, where absent, and takes its lock.
fn lock(dir: &Path) -> Result<File, StoreError> {
    let failed = |source| StoreError::Directory {
        dir: dir.into(),
        source,
    };
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(dir)
        .map_err(failed)?;
    let file = OpenOptions::new()
        .create(true)
        .write(true)
        .truncate(false)
        .mode(0o600)
        .open(dir.join(LOCK_FILE))
        .map_err(failed)?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(StoreError::InUse { dir: dir.into() }),
        Err(TryLockError::Error(source)) => Err(failed(source)),
    }
}

fn next_generation(last: u64, now: u64, path: &Path) -> Result<u64, StoreError> {
    let latest = now
        .max(RELEASE_UNIX_SECONDS)
        .saturating_add(GENERATION_LEAD_SECONDS_MAX);
    if last > latest {
        return Err(StoreError::Poisoned {
            path: path.into(),
            generation: last,
            ahead_days: (last - now) / (24 * 3600),
        });
    }
    Ok(now.max(last.saturating_add(1)))
}

#[cfg(test)]
mod tests;
