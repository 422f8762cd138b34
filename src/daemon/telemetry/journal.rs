//! One log line for each thing that happened to a member, and for join addresses that fail.

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;
use std::time::Duration;

use crate::daemon::http::refusal;
use crate::member::{NodeName, Status};
use crate::protocol::{Event, EventKind, JoinOutcome, MemberEvent};

/// Events that may wait to be logged; more are dropped and counted.
const EVENTS_MAX: usize = 8192;
/// Join addresses whose last failure is remembered; beyond it the memory starts afresh.
const ADDRESSES_MAX: usize = 1024;

/// Hands events to the thread that logs them.
pub(super) struct Journal {
    events: SyncSender<Event>,
    dropped: Arc<AtomicU64>,
}

impl Journal {
    /// Starts the thread.
    ///
    /// # Errors
    /// The system gave no thread.
    pub(super) fn start() -> io::Result<Self> {
        let (events, queue) = sync_channel(EVENTS_MAX);
        let dropped = Arc::new(AtomicU64::new(0));
        let count = dropped.clone();
        thread::Builder::new()
            .name("journal".into())
            .spawn(move || write(&queue, &count))?;
        Ok(Journal { events, dropped })
    }

    /// Queues `event` if it makes a line. Never waits.
    pub(super) fn note(&self, event: &Event) {
        let quiet = matches!(event, Event::ProbeAnswered(_) | Event::Late(_));
        if !quiet && self.events.try_send(event.clone()).is_err() {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }
}

fn write(queue: &Receiver<Event>, dropped: &AtomicU64) {
    let mut joins = JoinFailures::default();
    for event in queue {
        match &event {
            Event::Member(change) => log_member(change),
            Event::Join { address, outcome } => {
                if joins.is_news(*address, outcome) {
                    log_join(*address, outcome);
                }
            }
            Event::GenerationRaised(generation) => {
                tracing::info!(%generation, "took a generation past an earlier life");
            }
            Event::StartedOver { slept } => {
                tracing::warn!(
                    ?slept,
                    "this node did not run for long; it starts with an empty table and joins again"
                );
            }
            Event::LeaveCompleted {
                acknowledged,
                expected,
            } => {
                tracing::info!(acknowledged, expected, "left the cluster");
            }
            Event::Mistake {
                member,
                status,
                lasted,
            } => log_mistake(member, *status, *lasted),
            Event::ClockSkew { seconds, wrong } => log_skew(*seconds, *wrong),
            Event::User(_)
            | Event::UserMissed { .. }
            | Event::MetadataSet(_)
            | Event::ProbeAnswered(_)
            | Event::Late(_) => {}
        }
        let lost = dropped.swap(0, Ordering::Relaxed);
        if lost > 0 {
            tracing::warn!(lost, "more happened than could be logged");
        }
    }
}

fn log_skew(seconds: i32, wrong: bool) {
    if wrong {
        tracing::warn!(
            ahead_seconds = seconds,
            "the wall clock differs from the other members'; nobody is judged by it, but set it \
             right before the next start"
        );
    } else {
        tracing::info!(ahead_seconds = seconds, "the wall clock is right again");
    }
}

fn log_mistake(member: &NodeName, status: Status, lasted: Duration) {
    let member = member.as_str();
    if status == Status::Dead {
        tracing::warn!(
            member,
            ?lasted,
            "was declared dead and is not; `rumord explain {member}` says why"
        );
    } else {
        tracing::debug!(member, ?lasted, "was suspected and is alive");
    }
}

fn log_member(event: &MemberEvent) {
    // The level is part of a call site, so a line that exists at two levels is written twice here.
    macro_rules! line {
        ($level:ident) => {{
            let evidence = event.evidence.as_ref();
            tracing::$level!(
                kind = event.kind.as_str(),
                member = %event.member,
                address = event.address.map(tracing::field::display),
                other_address = event.rival.map(tracing::field::display),
                generation = event.generation.0,
                incarnation = event.incarnation.0,
                from = event.from.map(tracing::field::display),
                to = %event.to,
                rule = evidence.map(|evidence| &*evidence.rule),
                phi = evidence.map(|evidence| evidence.phi),
                witnesses = evidence.map(|evidence| evidence.witnesses),
                silence = evidence.map(|evidence| tracing::field::debug(evidence.silence)),
                "{} {}", event.member, phrase(event.kind)
            )
        }};
    }
    match event.kind {
        EventKind::MemberSuspect
        | EventKind::MemberDead
        | EventKind::MemberForgotten
        | EventKind::Conflict
        | EventKind::Isolated => line!(warn),
        _ => line!(info),
    }
}

const fn phrase(kind: EventKind) -> &'static str {
    match kind {
        EventKind::MemberUp => "is alive",
        EventKind::MemberSuspect => "is suspected",
        EventKind::MemberDead => "is dead",
        EventKind::MemberLeft => "has left",
        EventKind::MemberForgotten => "was removed for good",
        EventKind::MemberRestarted => "has restarted",
        EventKind::MemberUpdated => "has changed",
        EventKind::Conflict => {
            "is the name of two processes; rename or stop one, /readyz?verbose says more"
        }
        EventKind::Isolated => "has lost or regained contact with everybody",
    }
}

fn log_join(address: SocketAddr, outcome: &JoinOutcome) {
    match outcome {
        JoinOutcome::Joined { members } => tracing::info!(%address, members, "joined"),
        JoinOutcome::Itself => tracing::info!(%address, "join address is this node's own"),
        JoinOutcome::Refused(reason) => tracing::warn!(
            %address, reason = reason.as_str(), "join refused: {}", refusal(*reason)
        ),
        JoinOutcome::Unreachable => tracing::warn!(
            %address, "join address does not answer; it is tried again, \
             check the address and that a node runs there"
        ),
    }
}

/// The last failure of each join address: a failure is news once, until it changes.
#[derive(Default)]
struct JoinFailures(BTreeMap<SocketAddr, &'static str>);

impl JoinFailures {
    fn is_news(&mut self, address: SocketAddr, outcome: &JoinOutcome) -> bool {
        let failure = match outcome {
            JoinOutcome::Joined { .. } => {
                self.0.remove(&address);
                return true;
            }
            JoinOutcome::Itself => "itself",
            JoinOutcome::Refused(reason) => reason.as_str(),
            JoinOutcome::Unreachable => "unreachable",
        };
        if self.0.len() >= ADDRESSES_MAX && !self.0.contains_key(&address) {
            self.0.clear();
        }
        self.0.insert(address, failure) != Some(failure)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::RefusalReason;

    #[test]
    fn a_join_failure_is_news_once_until_it_changes() {
        let mut joins = JoinFailures::default();
        let address = "127.0.0.1:7480".parse().expect("valid");
        let mut is_news = |outcome| joins.is_news(address, &outcome);
        assert!(is_news(JoinOutcome::Unreachable));
        assert!(!is_news(JoinOutcome::Unreachable));
        assert!(is_news(JoinOutcome::Refused(RefusalReason::Cluster)));
        assert!(!is_news(JoinOutcome::Refused(RefusalReason::Cluster)));
        assert!(is_news(JoinOutcome::Unreachable));
        assert!(is_news(JoinOutcome::Joined { members: 2 }));
        assert!(is_news(JoinOutcome::Unreachable));
    }
}
