//! The thread that writes: it alone touches the database, in as few commits as it can.
//!
//! It takes all that waits, up to a bound, into one transaction, and answers when that is durable;
//! meanwhile the next group gathers. An event of a client is in the log, and told to anybody, only
//! after the commit that holds it.

mod disk;
mod doubt;
mod members;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use rusqlite::{Connection, TransactionBehavior};

use super::batch::{Batch, KeyCount, Said, Scene, Task, Waiting, Work};
use super::calls;
use super::event_rows;
use super::inbox::{Inbox, Request, Shared};
use super::journal::Journal;
use super::key_rows;
use super::keys::Outcome;
use super::parking::Parking;
use super::rows::{self, Identity};
use crate::daemon::event::kind;
use crate::member::Generation;
use crate::node::{AcceptError, Arrival, Durable, Kept, Marks, Reservation};
use doubt::Doubt;
use members::WrittenMembers;

/// How long to gather after the first transition of a commit: what comes together is written
/// together. Nobody waits for those, as for the rest.
const LINGER: Duration = Duration::from_millis(5);
/// How often the members are looked at.
const TICK: Duration = Duration::from_secs(1);
/// Entries that have left the log, and leave the database for their own sake.
const DELETED_TOGETHER: u64 = 4096;
/// How often what is too old is dropped.
const SWEEP_PERIOD: Duration = Duration::from_secs(10);

/// Where the database is.
pub(super) enum Medium {
    /// In a file, which may fail, and be opened again.
    File(PathBuf),
    /// In the process.
    Memory,
}

/// How much has been written.
#[derive(Default)]
struct Written {
    /// The last event.
    event: u64,
    /// The oldest event that was not deleted.
    oldest: u64,
    /// Whether all marks are there: not in a database that was made anew.
    marks: bool,
    members: WrittenMembers,
}

pub(super) struct Writer {
    medium: Medium,
    /// None after a failure, until it could be opened again.
    connection: Option<Connection>,
    identity: Identity,
    kept: Option<Kept>,
    written: Written,
    /// Up to which entry of the log those who are to be told have calls.
    told: u64,
    marks: Marks,
    count: KeyCount,
    last_token: u64,
    doubt: Option<Doubt>,
    parking: Parking,
    shared: Arc<Shared>,
    /// Failures in a row.
    failing: u32,
    retry_at: Instant,
    sweep_at: Instant,
}

impl Writer {
    pub(super) fn new(
        medium: Medium,
        connection: Connection,
        identity: Identity,
        marks: Marks,
        shared: Arc<Shared>,
    ) -> rusqlite::Result<Self> {
        let count = key_rows::measure(&connection)?;
        shared.progress().keys = count.keys;
        Ok(Writer {
            medium,
            connection: Some(connection),
            identity,
            kept: None,
            written: Written {
                marks: true,
                ..Written::default()
            },
            told: 0,
            marks,
            count,
            last_token: 0,
            doubt: None,
            parking: Parking::default(),
            shared,
            failing: 0,
            retry_at: Instant::now(),
            sweep_at: Instant::now() + SWEEP_PERIOD,
        })
    }

    /// Serves until the store is closed or dropped.
    pub(super) fn run(mut self, requests: &Receiver<Request>) {
        loop {
            let mut inbox = Inbox::default();
            inbox.take(self.parking.ready());
            if inbox.is_empty() && !self.has_backlog() {
                match requests.recv_timeout(self.pause()) {
                    Ok(request) => inbox.add(request),
                    Err(RecvTimeoutError::Timeout) => {}
                    Err(RecvTimeoutError::Disconnected) => return,
                }
            }
            if inbox.is_woken_only() && !self.shared.has_arrivals() {
                thread::sleep(LINGER);
            }
            inbox.fill(requests);
            self.serve(&mut inbox);
            if self.control(inbox.control.take()).is_break() {
                return;
            }
            if Instant::now() >= self.retry_at {
                // What fails is noted, and tried again.
                let _ = self.attempt(Self::save);
            }
        }
    }

    fn control(&mut self, request: Option<Request>) -> std::ops::ControlFlow<()> {
        match request {
            Some(Request::Follow { kept, written }) => {
                self.written.event = written;
                self.told = written;
                // What waits for targets that are no more is parked at once.
                self.sweep_at = Instant::now();
                self.identity.generation = self.identity.generation.max(kept.generation.0);
                self.kept = Some(*kept);
            }
            Some(Request::Generation { generation, done }) => {
                self.identity.generation = self.identity.generation.max(generation);
                // An error means that nobody waits any more.
                let _ = done.send(self.attempt(Self::save_identity));
            }
            Some(Request::Close { done }) => {
                self.close();
                let _ = done.send(());
                return std::ops::ControlFlow::Break(());
            }
            Some(Request::Task(..) | Request::Wake) | None => {}
        }
        std::ops::ControlFlow::Continue(())
    }

    /// Whether more has come of others than fitted into the last transaction.
    fn has_backlog(&self) -> bool {
        Instant::now() >= self.retry_at && self.shared.has_arrivals()
    }

    fn pause(&self) -> Duration {
        match self.failing {
            0 => TICK,
            _ => self.retry_at.saturating_duration_since(Instant::now()),
        }
    }

    /// Does what was asked for, and answers.
    fn serve(&mut self, inbox: &mut Inbox) {
        let arrivals = self.shared.take_arrivals();
        if inbox.tasks.is_empty() && arrivals.is_empty() {
            return;
        }
        let (tasks, waiting): (Vec<Task>, Vec<Waiting>) = inbox.tasks.drain(..).unzip();
        let outcome = if self.kept.is_none() {
            Err("no node runs on the store yet".to_owned())
        } else if Instant::now() < self.retry_at {
            Err(self.shared.progress().failure.clone().unwrap_or_default())
        } else {
            self.attempt_work(tasks, arrivals.clone())
        };
        match outcome {
            Ok(said) => said
                .into_iter()
                .zip(waiting)
                .for_each(|(said, waiting)| self.answer(said, waiting)),
            Err(reason) => {
                self.shared.give_back(arrivals);
                waiting
                    .into_iter()
                    .for_each(|waiting| refuse(waiting, &reason));
            }
        }
    }

    fn attempt_work(
        &mut self,
        tasks: Vec<Task>,
        arrivals: Vec<Arrival>,
    ) -> Result<Vec<Said>, String> {
        let mut said = Vec::new();
        self.attempt(|writer| {
            said = writer.transact(tasks, arrivals)?;
            Ok(())
        })?;
        Ok(said)
    }

    /// One transaction: the transitions that are not written yet, what came of others, and what was
    /// asked for.
    fn transact(
        &mut self,
        tasks: Vec<Task>,
        arrivals: Vec<Arrival>,
    ) -> rusqlite::Result<Vec<Said>> {
        let (Some(kept), Some(connection)) = (self.kept.clone(), &mut self.connection) else {
            return Err(rusqlite::Error::InvalidQuery);
        };
        // Nobody else reserves ids of this log.
        let Some(reservation) = kept.events.reserve() else {
            return Err(rusqlite::Error::InvalidQuery);
        };
        let began = Instant::now();
        let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        doubt::undo(&transaction, self.doubt.as_ref())?;
        let journal = Journal::new(&transaction, self.shared.targets(), &kept, self.told);
        journal.catch_up(&kept, self.written.event)?;
        let scene = Scene {
            journal,
            local: &kept.local,
            generation: Generation(self.identity.generation),
            marks: &self.marks,
            now: SystemTime::now(),
            first: reservation.first(),
            last_token: self.last_token,
            count: self.count,
        };
        let mut batch = Batch::new(scene);
        for arrival in arrivals {
            batch.take(arrival)?;
        }
        let oldest = kept.events.oldest();
        if oldest != self.written.oldest {
            event_rows::delete_before(&transaction, oldest)?;
        }
        let said = tasks.into_iter().map(|task| batch.run(task));
        let said = said.collect::<rusqlite::Result<Vec<Said>>>()?;
        let work = batch.finish()?;
        let committing = Instant::now();
        self.doubt = Some(Doubt::of(&work, reservation.first(), self.doubt.take()));
        transaction.commit()?;
        self.doubt = None;
        self.written.oldest = oldest;
        self.shared
            .committed(committing - began, committing.elapsed());
        self.publish(work, reservation, &kept);
        Ok(said)
    }

    /// What is durable is seen, told, and acknowledged.
    fn publish(&mut self, work: Work, reservation: Reservation, kept: &Kept) {
        work.marks()
            .iter()
            .for_each(|upto| self.marks.advance(upto));
        self.count = work.count;
        self.last_token = work.last_token;
        self.note_written(reservation.first() - 1 + work.entries.len() as u64);
        for (_, what) in &work.entries {
            self.shared.logged(kind(what));
        }
        reservation.fill(work.entries);
        let mut progress = self.shared.progress();
        progress.keys = self.count.keys;
        drop(progress);
        if !work.own.is_empty() {
            kept.tell(Durable::Own(work.own));
        }
        if !work.received.is_empty() {
            kept.tell(Durable::Received(work.received));
        }
    }

    fn answer(&mut self, said: Said, waiting: Waiting) {
        match (said, waiting) {
            (Said::Accept(result), Waiting::Accept(reply)) => {
                // An error means that the caller has gone, here and below.
                let _ = reply.send(result);
            }
            (Said::Outcome(Outcome::Running), Waiting::Begin(keyed, lease, reply)) => {
                self.parking.park(keyed, lease, reply);
            }
            (Said::Outcome(Outcome::Begun(token)), Waiting::Begin(keyed, _, reply)) => {
                // Nobody is left to do the work: the next one may.
                let heard = reply.send(Outcome::Begun(token)).is_ok();
                if !heard {
                    self.parking.abandon(keyed, token);
                }
            }
            (Said::Outcome(outcome), Waiting::Outcome(reply) | Waiting::Begin(_, _, reply)) => {
                let _ = reply.send(outcome);
            }
            (Said::Told(told), _) => told(),
            (Said::Settled(keyed, done), waiting) => {
                self.parking.release(&keyed);
                if let Waiting::Done(reply) = waiting {
                    let _ = reply.send(done);
                }
            }
            _ => {}
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

    /// Writes all that is new, and drops what is old.
    fn save(&mut self) -> rusqlite::Result<()> {
        let Some(kept) = self.kept.clone() else {
            return Ok(());
        };
        self.save_events(&kept)?;
        self.sweep()?;
        let snapshot = kept.snapshot.load();
        self.save_members(&snapshot)
    }

    fn save_events(&mut self, kept: &Kept) -> rusqlite::Result<()> {
        let (head, oldest) = (kept.events.head(), kept.events.oldest());
        // What has left the log leaves with the next commit, or together.
        let nothing = head == self.written.event
            && oldest.saturating_sub(self.written.oldest) < DELETED_TOGETHER;
        let marks = !self.written.marks;
        let Some(connection) = self.connection.as_mut().filter(|_| !nothing || marks) else {
            return Ok(());
        };
        let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        doubt::undo(&transaction, self.doubt.as_ref())?;
        let journal = Journal::new(&transaction, self.shared.targets(), kept, self.told);
        let written = journal.catch_up(kept, self.written.event)?;
        drop(journal);
        event_rows::delete_before(&transaction, oldest)?;
        if marks {
            for mark in self.marks.iter() {
                event_rows::write_mark(&transaction, &mark.upto)?;
            }
        }
        transaction.commit()?;
        self.doubt = None;
        self.written.marks = true;
        self.note_written(written);
        self.written.oldest = oldest;
        Ok(())
    }

    /// The log is durable up to here, with the calls of those who are to be told.
    fn note_written(&mut self, event: u64) {
        self.written.event = event;
        self.shared.progress().written = event;
        if event > self.told {
            self.told = event;
            self.shared.wake_callers();
        }
    }

    fn sweep(&mut self) -> rusqlite::Result<()> {
        let due = Instant::now() >= self.sweep_at;
        let Some(connection) = self.connection.as_mut().filter(|_| due) else {
            return Ok(());
        };
        let now = SystemTime::now();
        let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        event_rows::sweep(&transaction, now)?;
        key_rows::expire(&transaction, now)?;
        let count = key_rows::measure(&transaction)?;
        let calls = calls::sweep(&transaction, self.shared.targets())?;
        transaction.commit()?;
        self.count = count;
        self.shared.measured(calls);
        self.shared.progress().keys = count.keys;
        self.parking.sweep();
        self.sweep_at = Instant::now() + SWEEP_PERIOD;
        Ok(())
    }
}

fn refuse(waiting: Waiting, reason: &str) {
    match waiting {
        Waiting::Accept(reply) => {
            // An error means that the caller has gone, here and below.
            let _ = reply.send(Err(AcceptError::Failed(reason.into())));
        }
        Waiting::Outcome(reply) | Waiting::Begin(_, _, reply) => {
            let _ = reply.send(Outcome::Failed(reason.into()));
        }
        Waiting::Done(reply) => {
            let _ = reply.send(false);
        }
        Waiting::Nobody => {}
    }
}
