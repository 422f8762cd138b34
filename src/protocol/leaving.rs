//! Leaving: telling every member, and waiting until it knows.

use std::collections::BTreeSet;
use std::time::Duration;

use super::dissemination::Form;
use super::probe::Purpose;
use super::streams::Exchange;
use super::{Event, Life, Node, Outbox, Timer};
use crate::member::{NameHash, Status};
use crate::time::Instant;

/// Pause between two rounds of telling those that have not acknowledged.
const ROUND: Duration = Duration::from_millis(100);
/// How long the answer to a join is waited for: it says who is to be told.
const ADMISSION_WAIT: Duration = Duration::from_secs(1);
/// Members told in one round: a large cluster is told in several.
const ROUND_MEMBERS_MAX: usize = 200;

/// The state of leaving.
#[derive(Debug)]
pub(super) struct Leaving {
    /// Who is to know.
    expected: BTreeSet<NameHash>,
    /// Who of them has not acknowledged.
    untold: BTreeSet<NameHash>,
    acknowledged: usize,
    /// Whether nobody is to know, because the name is another process's.
    silent: bool,
    since: Instant,
    until: Instant,
    completed: bool,
}

impl Node {
    /// Leave: the own status is Left from now on, and is never refuted.
    pub(super) fn on_leave(&mut self, timeout: Duration, out: &mut Outbox) {
        if self.leaving.is_some() {
            return;
        }
        // The name of a silent node is another process's, and that one does not leave.
        let silent = std::mem::replace(&mut self.life, Life::Leaving) == Life::Silent;
        if !silent {
            let standing = self.own_standing().with_status(Status::Left);
            self.set_own_standing(standing, Form::Status);
        }
        self.leaving = Some(Leaving {
            expected: BTreeSet::new(),
            untold: BTreeSet::new(),
            acknowledged: 0,
            silent,
            since: self.now,
            until: self.now + timeout,
            completed: false,
        });
        self.on_leave_round(out);
    }

    /// Tells those that have not acknowledged. A ping does it: it names the receiver, carries the
    /// own record first, and its ack says that it was merged.
    pub(super) fn on_leave_round(&mut self, out: &mut Outbox) {
        let joining = self.is_being_admitted();
        let Some(leaving) = &mut self.leaving else {
            return;
        };
        let active = self.table.active().iter().copied();
        for member in active.filter(|_| !leaving.silent) {
            if leaving.expected.insert(member) {
                leaving.untold.insert(member);
            }
        }
        leaving
            .untold
            .retain(|&member| self.table.is_active(member));
        let waits = joining && self.now.since(leaving.since) < ADMISSION_WAIT;
        if (leaving.untold.is_empty() && !waits) || self.now >= leaving.until {
            self.complete_leave(out);
            return;
        }
        let round: Vec<NameHash> = leaving
            .untold
            .iter()
            .copied()
            .take(ROUND_MEMBERS_MAX)
            .collect();
        let left = leaving.until.since(self.now);
        for member in round {
            self.tell_leave(member, out);
        }
        self.timers.set(Timer::Leave, self.now, left.min(ROUND));
    }

    /// Whether somebody may just have admitted this node, and not yet said who is to be told.
    fn is_being_admitted(&self) -> bool {
        let asks = |exchange: &Exchange| matches!(exchange, Exchange::Join { .. });
        self.exchanges.values().any(asks)
    }

    /// A question whether to admit this node has been answered, or not.
    pub(super) fn on_admission_ended(&mut self, out: &mut Outbox) {
        if self.leaving.as_ref().is_some_and(|it| !it.completed) {
            self.on_leave_round(out);
        }
    }

    fn tell_leave(&mut self, member: NameHash, out: &mut Outbox) {
        // Each of these pings must carry the leave, however often it rode already.
        let due = self.now + self.config.push_gap;
        let urgency = super::dissemination::Urgency::First;
        self.news
            .publish(self.local.hash, Form::Status, urgency, due);
        self.ping(member, Purpose::Leave, out);
    }

    /// `member` has acknowledged a ping that carried the leave.
    pub(super) fn note_leave_known(&mut self, member: NameHash, out: &mut Outbox) {
        let Some(leaving) = &mut self.leaving else {
            return;
        };
        if leaving.untold.remove(&member) {
            leaving.acknowledged += 1;
        }
        if leaving.untold.is_empty() {
            self.on_leave_round(out);
        }
    }

    fn complete_leave(&mut self, out: &mut Outbox) {
        self.timers.cancel(Timer::Leave);
        if let Some(leaving) = &mut self.leaving
            && !leaving.completed
        {
            leaving.completed = true;
            let (acknowledged, expected) = (leaving.acknowledged, leaving.expected.len());
            out.events.push(Event::LeaveCompleted {
                acknowledged,
                expected,
            });
        }
    }
}
