//! A disk that fails, a file that goes away, and the end of a run.

use std::fmt;
use std::time::{Duration, Instant, SystemTime};

use rusqlite::Connection;

use super::super::batch::KeyCount;
use super::super::{database, rows};
use super::{Medium, Writer, Written};

/// Pauses after failures in a row: the first, and the longest.
const RETRY_MIN: Duration = Duration::from_millis(250);
const RETRY_MAX: Duration = Duration::from_secs(5);

impl Writer {
    /// Does `work`, and keeps the books about its failures.
    pub(super) fn attempt(
        &mut self,
        work: impl FnOnce(&mut Self) -> rusqlite::Result<()>,
    ) -> Result<(), String> {
        match self.reopened().and_then(|()| work(self)) {
            Ok(()) => {
                self.recovered();
                Ok(())
            }
            Err(error) => {
                let reason = error.to_string();
                self.failed(&error, &reason);
                Err(reason)
            }
        }
    }

    fn reopened(&mut self) -> rusqlite::Result<()> {
        let Medium::File(path) = &self.medium else {
            return Ok(());
        };
        if self.connection.is_none() && !path.exists() {
            // Somebody removed it.
            let connection = database::create(path, &self.identity)?;
            self.begin_anew(connection);
        } else if self.connection.is_none() {
            self.connection = Some(database::connect(path)?);
        }
        Ok(())
    }

    /// Memory still holds all that matters, but for the keys of requests.
    fn begin_anew(&mut self, connection: Connection) {
        self.connection = Some(connection);
        self.written = Written::default();
        self.count = KeyCount::default();
        self.doubt = None;
    }

    fn failed(&mut self, error: &rusqlite::Error, reason: &str) {
        if self.failing == 0 {
            tracing::error!(
                medium = %self.medium, reason,
                "cannot write the store: the node goes on without, and tries again"
            );
        }
        let pause = RETRY_MIN
            .saturating_mul(1 << self.failing.min(8))
            .min(RETRY_MAX);
        self.failing = self.failing.saturating_add(1);
        self.retry_at = Instant::now() + pause;
        let mut progress = self.shared.progress();
        progress.failure = Some(reason.to_owned());
        progress.failures += 1;
        drop(progress);
        if matches!(self.medium, Medium::File(_)) {
            // A connection may keep an error of the disk; a new one does not.
            self.connection = None;
            if database::is_damage(error) {
                self.rebuild();
            }
        }
    }

    fn recovered(&mut self) {
        if self.failing > 0 {
            tracing::warn!(medium = %self.medium, "the store is written again");
            self.failing = 0;
            self.retry_at = Instant::now();
            self.shared.progress().failure = None;
        }
    }

    /// The file was damaged under the running node.
    fn rebuild(&mut self) {
        let Medium::File(path) = &self.medium else {
            return;
        };
        match database::move_aside(path) {
            Ok(kept) => tracing::error!(
                kept = %kept.display(),
                "the database was damaged and is written anew from memory"
            ),
            Err(error) => tracing::error!(%error, "cannot move the damaged database away"),
        }
        match database::create(path, &self.identity) {
            Ok(connection) => {
                self.begin_anew(connection);
                self.retry_at = Instant::now();
            }
            Err(error) => tracing::error!(%error, "cannot create the database"),
        }
    }

    /// The last words of a run.
    pub(super) fn close(&mut self) {
        let outcome = self.attempt(|writer| {
            writer.written.members.is_seen_again();
            writer.written.oldest = 0;
            writer.save()?;
            let next = writer.kept.as_ref().map(|kept| kept.events.head() + 1);
            let Some(connection) = &mut writer.connection else {
                return Ok(());
            };
            let transaction = connection.transaction()?;
            rows::note_time(&transaction, SystemTime::now(), next)?;
            transaction.commit()
        });
        if let (Ok(()), Some(connection)) = (outcome, self.connection.take()) {
            // The last connection to be closed puts the write-ahead log into the file; what it
            // cannot put there, the next start does.
            let _ = connection.close();
        }
    }
}

impl fmt::Display for Medium {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Medium::File(path) => path.display().fmt(f),
            Medium::Memory => f.write_str("memory"),
        }
    }
}
