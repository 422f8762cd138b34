//! Why there is no store.

use std::io;
use std::path::PathBuf;

use thiserror::Error;

/// Exit code of a bad configuration.
const BAD_CONFIGURATION: u8 = 78;

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
    /// There is no memory, or no thread.
    #[error("cannot keep events in memory ({0}); check the process's limits")]
    Memory(String),
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
