//! The thread that writes: it alone touches the database, in as few commits as it can.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use rusqlite::Connection;

use super::database;
use super::rows::{self, Identity, MemberRow};
use crate::member::Status;
use crate::node::{Kept, Snapshot};

/// Events of one commit at most.
const COMMIT_EVENTS_MAX: usize = 4096;
/// How long to gather after the first event of a commit: what comes together is written together.
const LINGER: Duration = Duration::from_millis(5);
/// How often the members are looked at.
const TICK: Duration = Duration::from_secs(1);
/// How often it is noted that the members that are alive were seen.
const SEEN_PERIOD: Duration = Duration::from_secs(10);
/// Pauses after failures in a row: the first, and the longest.
const RETRY_MIN: Duration = Duration::from_millis(250);
const RETRY_MAX: Duration = Duration::from_secs(5);

/// What is asked of the writer.
pub(super) enum Request {
    /// Keep this from now on.
    Follow {
        kept: Kept,
        /// The last event that the database already has.
        written: u64,
    },
    /// There are new events.
    Wake,
    /// Make a generation durable.
    Generation {
        generation: u64,
        done: SyncSender<Result<(), String>>,
    },
    /// The run ends in order.
    Close { done: SyncSender<()> },
}

/// How the writer gets on, for others to see.
#[derive(Debug, Default)]
pub(super) struct Progress {
    /// What went wrong last, while it goes wrong.
    pub(super) failure: Option<String>,
    /// Failures since the start.
    pub(super) failures: u64,
    /// The last event written.
    pub(super) written: u64,
}

/// How much has been written.
#[derive(Default)]
struct Written {
    /// The last event.
    event: u64,
    /// The oldest event that was not deleted.
    oldest: u64,
    members: BTreeMap<String, MemberRow>,
    /// The snapshot's index that the members are of.
    index: Option<u64>,
    /// When it was noted that the members are seen.
    seen: Option<Instant>,
}

pub(super) struct Writer {
    path: PathBuf,
    /// None after a failure, until it could be opened again.
    connection: Option<Connection>,
    identity: Identity,
    kept: Option<Kept>,
    written: Written,
    progress: Arc<Mutex<Progress>>,
    /// Failures in a row.
    failing: u32,
    retry_at: Instant,
}

impl Writer {
    pub(super) fn new(
        path: PathBuf,
        connection: Connection,
        identity: Identity,
        progress: Arc<Mutex<Progress>>,
    ) -> Self {
        Writer {
            path,
            connection: Some(connection),
            identity,
            kept: None,
            written: Written::default(),
            progress,
            failing: 0,
            retry_at: Instant::now(),
        }
    }

    /// Serves until the store is closed or dropped.
    pub(super) fn run(mut self, requests: &Receiver<Request>) {
        let mut next = None;
        loop {
            let request = match next.take() {
                Some(request) => Ok(request),
                None => requests.recv_timeout(self.pause()),
            };
            let request = match request {
                Ok(request) => Some(request),
                Err(RecvTimeoutError::Timeout) => None,
                Err(RecvTimeoutError::Disconnected) => return,
            };
            match request {
                Some(Request::Follow { kept, written }) => {
                    self.written.event = written;
                    self.kept = Some(kept);
                }
                Some(Request::Generation { generation, done }) => {
                    self.identity.generation = self.identity.generation.max(generation);
                    // An error means that nobody waits any more.
                    let _ = done.send(self.attempt(Self::save_identity));
                }
                Some(Request::Close { done }) => {
                    self.close();
                    let _ = done.send(());
                    return;
                }
                Some(Request::Wake) => {
                    thread::sleep(LINGER);
                    next = requests
                        .try_iter()
                        .find(|more| !matches!(more, Request::Wake));
                }
                None => {}
            }
            if Instant::now() >= self.retry_at {
                // What fails is noted, and tried again.
                let _ = self.attempt(Self::save);
            }
        }
    }

    fn pause(&self) -> Duration {
        match self.failing {
            0 => TICK,
            _ => self.retry_at.saturating_duration_since(Instant::now()),
        }
    }

    /// Does `work`, and keeps the books about its failures.
    fn attempt(
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
        if self.connection.is_none() && !self.path.exists() {
            // Somebody removed it.
            self.connection = Some(database::create(&self.path, &self.identity)?);
            self.written = Written::default();
        } else if self.connection.is_none() {
            self.connection = Some(database::connect(&self.path)?);
        }
        Ok(())
    }

    fn failed(&mut self, error: &rusqlite::Error, reason: &str) {
        // A connection may keep an error of the disk; a new one does not.
        self.connection = None;
        if self.failing == 0 {
            tracing::error!(
                path = %self.path.display(), reason,
                "cannot write the data directory: the node goes on without, and tries again"
            );
        }
        let pause = RETRY_MIN
            .saturating_mul(1 << self.failing.min(8))
            .min(RETRY_MAX);
        self.failing = self.failing.saturating_add(1);
        self.retry_at = Instant::now() + pause;
        let mut progress = self.progress();
        progress.failure = Some(reason.to_owned());
        progress.failures += 1;
        drop(progress);
        if database::is_damage(error) {
            self.rebuild();
        }
    }

    fn recovered(&mut self) {
        if self.failing > 0 {
            tracing::warn!(path = %self.path.display(), "the data directory is written again");
            self.failing = 0;
            self.progress().failure = None;
        }
    }

    /// The file was damaged under the running node: memory still holds all that matters.
    fn rebuild(&mut self) {
        match database::move_aside(&self.path) {
            Ok(kept) => tracing::error!(
                kept = %kept.display(),
                "the database was damaged and is written anew from memory"
            ),
            Err(error) => tracing::error!(%error, "cannot move the damaged database away"),
        }
        match database::create(&self.path, &self.identity) {
            Ok(connection) => {
                self.connection = Some(connection);
                self.written = Written::default();
                self.retry_at = Instant::now();
            }
            Err(error) => tracing::error!(%error, "cannot create the database"),
        }
    }

    fn save_identity(&mut self) -> rusqlite::Result<()> {
        let Some(connection) = &mut self.connection else {
            return Ok(());
        };
        let transaction = connection.transaction()?;
        rows::write_node(&transaction, &self.identity)?;
        transaction.commit()
    }

    /// Writes all that is new.
    fn save(&mut self) -> rusqlite::Result<()> {
        let Some(kept) = self.kept.clone() else {
            return Ok(());
        };
        self.save_events(&kept)?;
        let snapshot = kept.snapshot.load();
        self.save_members(&snapshot)
    }

    fn save_events(&mut self, kept: &Kept) -> rusqlite::Result<()> {
        loop {
            let page = kept.events.read(self.written.event, COMMIT_EVENTS_MAX);
            let oldest = kept.events.oldest();
            let nothing = page.entries.is_empty() && oldest == self.written.oldest;
            let Some(connection) = self.connection.as_mut().filter(|_| !nothing) else {
                return Ok(());
            };
            let transaction = connection.transaction()?;
            for entry in &page.entries {
                rows::write_event(&transaction, entry)?;
            }
            rows::delete_events_before(&transaction, oldest)?;
            transaction.commit()?;
            self.written.event = page.next;
            self.progress().written = page.next;
            self.written.oldest = oldest;
        }
    }

    fn save_members(&mut self, snapshot: &Snapshot) -> rusqlite::Result<()> {
        let seen = self.written.seen;
        let due = seen.is_none_or(|seen| seen.elapsed() >= SEEN_PERIOD);
        if self.written.index == Some(snapshot.index) && !due {
            return Ok(());
        }
        let Some(connection) = &mut self.connection else {
            return Ok(());
        };
        let members = member_rows(snapshot);
        let held = &self.written.members;
        let transaction = connection.transaction()?;
        if self.written.index.is_none() {
            // What an earlier run left is in the snapshot, as far as it is still remembered.
            transaction.execute("delete from member", [])?;
        }
        for (name, row) in &members {
            if held.get(name) != Some(row) {
                rows::write_member(&transaction, name, row)?;
            }
        }
        for name in held.keys().filter(|name| !members.contains_key(*name)) {
            rows::delete_member(&transaction, name)?;
        }
        rows::note_time(&transaction, SystemTime::now(), None)?;
        transaction.commit()?;
        self.written.members = members;
        self.written.index = Some(snapshot.index);
        self.written.seen = Some(Instant::now());
        Ok(())
    }

    /// The last words of a run.
    fn close(&mut self) {
        let outcome = self.attempt(|writer| {
            writer.written.seen = None;
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

    fn progress(&self) -> MutexGuard<'_, Progress> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The members to be kept: all that have not left, and whom the table has forgotten.
fn member_rows(snapshot: &Snapshot) -> BTreeMap<String, MemberRow> {
    let listed = snapshot.members.iter().filter_map(|member| {
        let wanted = !member.local && !member.stored && member.status != Status::Left;
        let address = member.address.filter(|_| wanted)?;
        let dead = member.status == Status::Dead && !member.isolated_verdict;
        let row = MemberRow {
            address: address.to_string(),
            node_id: member.node_id.0,
            generation: member.generation.0,
            last_seen: dead.then_some(member.since),
        };
        Some((member.name.to_string(), row))
    });
    let remembered = snapshot.remembered.iter().map(|member| {
        let row = MemberRow {
            address: member.address.to_string(),
            node_id: member.node_id.0,
            generation: member.generation.0,
            last_seen: Some(member.last_seen),
        };
        (member.name.to_string(), row)
    });
    remembered.chain(listed).collect()
}
