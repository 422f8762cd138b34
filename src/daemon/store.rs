//! What an agent keeps across restarts, in one SQLite database in its data directory.
//!
//! The generation must grow with every start, or the cluster takes the new process for an echo of
//! the old one. It is therefore on disk before the first packet is sent. A lock, held for as long
//! as the process lives, keeps two processes from being one member.
//!
//! Members and events are written by a thread of their own, in groups: nothing waits for the disk
//! but a raised generation. While the disk fails, memory is the truth, and it is written out as
//! soon as the disk takes it. A crash loses the last milliseconds of the log, and no id of it is
//! given out twice: the log of the next run starts at its generation times 2^20.

mod database;
mod rows;
mod writer;

use std::fs::{DirBuilder, File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use thiserror::Error;

use crate::member::{Generation, NodeId};
use crate::node::{EventLog, Kept, Restored, Store, StoreCondition};
use crate::protocol::RELEASE_UNIX_SECONDS;

use rows::Identity;
use writer::{Progress, Request, Writer};

/// How far ahead of the clock a generation may be: what peers accept, one day.
const GENERATION_LEAD_SECONDS_MAX: u64 = 24 * 3600;
/// Requests that may wait for the writer: further ones that only wake it are not needed.
const REQUESTS_MAX: usize = 64;
/// How long a raised generation, or the last write at the end, may take.
const PATIENCE: Duration = Duration::from_secs(5);

const LOCK_FILE: &str = "lock";

/// Exit code of a bad configuration.
const BAD_CONFIGURATION: u8 = 78;

/// The store of this run. Its data directory stays locked until it is dropped.
pub struct SqliteStore {
    node_id: NodeId,
    generation: Generation,
    restored: Mutex<Restored>,
    requests: Option<SyncSender<Request>>,
    writer: Option<JoinHandle<()>>,
    /// Whether the writer was given up waiting for.
    stuck: AtomicBool,
    progress: Arc<Mutex<Progress>>,
    /// The log that is kept, once there is one.
    events: OnceLock<EventLog>,
    _lock: File,
}

/// Why there is no store. The operator's to repair; nothing in the directory was changed, except
/// that the directory and its lock file may have been created.
#[derive(Debug, Error)]
pub enum StoreError {
    /// The directory cannot be had.
    #[error("{}: cannot be made a data directory ({source}); check --data-dir", dir.display())]
    Directory {
        /// What --data-dir names.
        dir: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// Another process uses the directory.
    #[error(
        "{}: another rumord runs on this data directory; stop it, or give this one its own \
         --data-dir",
        dir.display()
    )]
    InUse {
        /// The directory.
        dir: PathBuf,
    },
    /// The database cannot be read or written.
    #[error(
        "{}: cannot be read or written ({reason}); check permissions and free space",
        path.display()
    )]
    File {
        /// The database.
        path: PathBuf,
        /// What the system or SQLite said.
        reason: String,
    },
    /// The file is a database of something else.
    #[error(
        "{}: is a database, but none of rumord; move it away, or name another --data-dir",
        path.display()
    )]
    Foreign {
        /// The database.
        path: PathBuf,
    },
    /// A later version wrote the file.
    #[error(
        "{}: was written by a later rumord (schema {found}, this one knows {known}); run that \
         one, or move the file away to start as a new node",
        path.display()
    )]
    Newer {
        /// The database.
        path: PathBuf,
        /// Its schema.
        found: u32,
        /// The newest schema known here.
        known: u32,
    },
    /// The clock was once far ahead, or is now far behind.
    #[error(
        "{}: generation {generation} is {ahead_days} days ahead of the clock, and peers would \
         refuse it; set the clock right, or remove the file and accept that peers that remember \
         this name may refuse it until then",
        path.display()
    )]
    Poisoned {
        /// The database.
        path: PathBuf,
        /// The generation it holds.
        generation: u64,
        /// How many days it is ahead, rounded down.
        ahead_days: u64,
    },
}

impl StoreError {
    /// The process's exit code: bad configuration.
    #[must_use]
    pub fn exit_code(&self) -> u8 {
        BAD_CONFIGURATION
    }
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
        let progress = Arc::default();
        let (requests, received) = sync_channel(REQUESTS_MAX);
        let writer = Writer::new(path, connection, identity.clone(), Arc::clone(&progress));
        let thread = std::thread::Builder::new()
            .name("store".into())
            .spawn(move || writer.run(&received))
            .map_err(|source| StoreError::Directory {
                dir: dir.into(),
                source,
            })?;
        Ok(SqliteStore {
            node_id: NodeId(identity.node_id),
            generation: Generation(generation),
            restored: Mutex::new(restored),
            requests: Some(requests),
            writer: Some(thread),
            stuck: AtomicBool::new(false),
            progress,
            events: OnceLock::new(),
            _lock: lock,
        })
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

    fn progress(&self) -> MutexGuard<'_, Progress> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
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
        self.progress().written = written;
        // A second log would be none of this run.
        let _ = self.events.set(kept.events.clone());
        let _ = self.request(Request::Follow { kept, written });
    }

    fn wake(&self) {
        // A full queue wakes it as well.
        let _ = self
            .requests
            .as_ref()
            .map(|requests| requests.try_send(Request::Wake));
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
        let progress = self.progress();
        let head = self.events.get().map_or(0, EventLog::head);
        StoreCondition {
            failure: progress.failure.clone(),
            failures: progress.failures,
            unsaved_events: head.saturating_sub(progress.written),
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
        members: Vec::new(),
        events: Vec::new(),
        next_event_id: restored.next_event_id,
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
