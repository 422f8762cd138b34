//! Who this node is, kept across restarts in its data directory.
//!
//! The generation must grow with every start, or the cluster takes the new process for an echo of
//! the old one. It is therefore on disk before the first packet is sent. A lock, held for as long
//! as the process lives, keeps two processes from being one member.

mod file;

use std::fs::{DirBuilder, File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use thiserror::Error;

use crate::member::{Generation, NodeId};
use crate::node::Store;
use crate::protocol::RELEASE_UNIX_SECONDS;

use file::Record;

/// How far ahead of the clock a generation may be: what peers accept, one day.
const GENERATION_LEAD_SECONDS_MAX: u64 = 24 * 3600;

const IDENTITY_FILE: &str = "identity.json";
const LOCK_FILE: &str = "lock";

/// Exit code of a bad configuration.
const BAD_CONFIGURATION: u8 = 78;

/// The identity of this run. Its data directory stays locked until it is dropped.
#[derive(Debug)]
pub struct Identity {
    node_id: NodeId,
    generation: Generation,
    path: PathBuf,
    /// What the file holds; locked while it is written.
    stored: Mutex<Record>,
    _lock: File,
}

/// Why there is no identity. The operator's to repair; nothing in the directory was changed,
/// except that the directory and its lock file may have been created.
#[derive(Debug, Error)]
pub enum IdentityError {
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
    /// The identity cannot be read or written.
    #[error(
        "{}: cannot be read or written ({source}); check permissions and free space",
        path.display()
    )]
    File {
        /// The identity file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The file is not one that this daemon wrote.
    #[error(
        "{}: holds no identity ({reason}); restore it, or move it away to start as a new node",
        path.display()
    )]
    Corrupt {
        /// The identity file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// The clock was once far ahead, or is now far behind.
    #[error(
        "{}: generation {generation} is {ahead_days} days ahead of the clock, and peers would \
         refuse it; set the clock right, or remove the file and accept that peers that remember \
         this name may refuse it until then",
        path.display()
    )]
    Poisoned {
        /// The identity file.
        path: PathBuf,
        /// What it holds.
        generation: u64,
        /// How many days it is ahead, rounded down.
        ahead_days: u64,
    },
}

impl IdentityError {
    /// The process's exit code: bad configuration.
    #[must_use]
    pub fn exit_code(&self) -> u8 {
        BAD_CONFIGURATION
    }
}

impl Identity {
    /// Locks `dir`, which is created where absent, and starts a new generation of the identity in
    /// it: larger than the last one, and at least the clock's `now_unix_seconds`. It is on disk
    /// when this returns. `random` makes the node id of a directory that has none.
    ///
    /// An identity of another cluster is taken over: it is the generation that must not be lost.
    ///
    /// # Errors
    /// See [`IdentityError`].
    pub fn open(
        dir: &Path,
        cluster: &str,
        now_unix_seconds: u64,
        random: impl FnOnce() -> u64,
    ) -> Result<Identity, IdentityError> {
        let lock = lock(dir)?;
        let path = dir.join(IDENTITY_FILE);
        let last = file::read(&path)?;
        let generation = match &last {
            Some(last) => next_generation(last.generation, now_unix_seconds, &path)?,
            None => now_unix_seconds,
        };
        let node_id = last.map_or_else(random, |last| last.node_id);
        let record = Record {
            cluster: cluster.into(),
            node_id,
            generation,
        };
        file::write(&path, &record).map_err(|source| IdentityError::File {
            path: path.clone(),
            source,
        })?;
        Ok(Identity {
            node_id: NodeId(node_id),
            generation: Generation(generation),
            path,
            stored: Mutex::new(record),
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
}

impl Store for Identity {
    /// Never lowers what is stored.
    fn persist_generation(&self, generation: Generation) -> io::Result<()> {
        let mut stored = self.stored.lock().unwrap_or_else(PoisonError::into_inner);
        let raised = Record {
            generation: generation.0.max(stored.generation),
            ..stored.clone()
        };
        file::write(&self.path, &raised)?;
        *stored = raised;
        Ok(())
    }
}

/// Creates `dir` for its owner alone, where absent, and takes its lock.
fn lock(dir: &Path) -> Result<File, IdentityError> {
    let failed = |source| IdentityError::Directory {
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
        Err(TryLockError::WouldBlock) => Err(IdentityError::InUse { dir: dir.into() }),
        Err(TryLockError::Error(source)) => Err(failed(source)),
    }
}

fn next_generation(last: u64, now: u64, path: &Path) -> Result<u64, IdentityError> {
    let latest = now
        .max(RELEASE_UNIX_SECONDS)
        .saturating_add(GENERATION_LEAD_SECONDS_MAX);
    if last > latest {
        return Err(IdentityError::Poisoned {
            path: path.into(),
            generation: last,
            ahead_days: (last - now) / (24 * 3600),
        });
    }
    Ok(now.max(last.saturating_add(1)))
}

#[cfg(test)]
mod tests;
