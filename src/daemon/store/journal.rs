//! What follows from an entry of the log, in the transaction that makes it durable: its row, and
//! the calls of those who are to be told.

use std::sync::Arc;

use rusqlite::Transaction;

use super::{call_rows, event_rows};
use crate::daemon::event::{self, EventJson};
use crate::daemon::outbox::{Subject, Target};
use crate::member::Tags;
use crate::node::{Kept, LogEntry, Logged, Snapshot};

/// Entries that are read at a time.
const PAGE: usize = 4096;

/// Takes entries in, within one transaction.
#[derive(Clone)]
pub(super) struct Journal<'a> {
    pub(super) transaction: &'a Transaction<'a>,
    /// Who is told of events.
    pub(super) targets: &'a [Target],
    /// The members, for what their tags say.
    snapshot: Arc<Snapshot>,
    /// Whoever is to be told of this entry and those before it has a call already: a database that
    /// is made anew gets the log once more.
    told: u64,
}

impl<'a> Journal<'a> {
    /// The journal of a transaction, for the log and the members in `kept`.
    pub(super) fn new(
        transaction: &'a Transaction<'a>,
        targets: &'a [Target],
        kept: &Kept,
        told: u64,
    ) -> Self {
        Journal {
            transaction,
            targets,
            snapshot: kept.snapshot.load_full(),
            told,
        }
    }

    /// Takes in the entries of the log after `written`, and returns the last one.
    pub(super) fn catch_up(&self, kept: &Kept, mut written: u64) -> rusqlite::Result<u64> {
        loop {
            let page = kept.events.read(written, PAGE);
            for entry in &page.entries {
                self.log(entry)?;
            }
            written = page.next;
            if page.entries.is_empty() {
                return Ok(written);
            }
        }
    }

    /// Takes an entry in: every entry comes through here, in the order of the log.
    pub(super) fn log(&self, entry: &LogEntry) -> rusqlite::Result<()> {
        event_rows::log(self.transaction, entry)?;
        if self.targets.is_empty() || entry.id <= self.told {
            return Ok(());
        }
        self.call(entry)
    }

    fn call(&self, entry: &LogEntry) -> rusqlite::Result<()> {
        let subject = self.subject(&entry.what);
        let wanting = self.targets.iter();
        let mut wanting = wanting
            .filter(|target| target.filter.takes(&subject))
            .peekable();
        if wanting.peek().is_none() {
            return Ok(());
        }
        let body = serde_json::to_string(&EventJson::new(entry))
            .map_err(|error| rusqlite::Error::ToSqlConversionFailure(error.into()))?;
        for target in wanting {
            call_rows::write(self.transaction, target, (entry.id, &body), entry.time)?;
        }
        Ok(())
    }

    fn subject<'b>(&'b self, what: &'b Logged) -> Subject<'b> {
        let (name, member) = match what {
            Logged::Member(event) => (event.member.as_str(), &event.member),
            Logged::User(event) => (event.name.as_str(), &event.origin),
            Logged::Conflict(conflict) => (conflict.event.name.as_str(), &conflict.event.origin),
        };
        Subject {
            kind: event::kind(what),
            name,
            tags: self.tags(member.as_str()),
        }
    }

    fn tags(&self, member: &str) -> Option<&Tags> {
        let metadata = self.snapshot.member(member)?.metadata.as_ref()?;
        Some(&metadata.tags)
    }
}
