//! The rows of the outbox: who is still to be told of which event.

use std::time::SystemTime;

use rusqlite::{Connection, OptionalExtension, Row, Transaction, params};

use super::rows::{millis, time};
use crate::daemon::outbox::{Call, CallView, NextCall, Redriven, Settled, Target};

/// Calls of one target that wait; what comes beyond parks the oldest.
const WAITING_MAX: i64 = 10_000;
/// Calls of one target that are parked; what comes beyond drops the oldest.
const PARKED_MAX: i64 = 10_000;

/// The table of calls, since schema 2.
pub(super) const TABLE: &str = "
    create table call (
        id integer primary key autoincrement,
        target text not null,
        event_id integer not null,
        body text not null,
        attempts integer not null default 0,
        parked integer not null default 0,
        due_ms integer not null,
        error text,
        created_ms integer not null
    ) strict;
    create index call_due on call (target, parked, due_ms, id);
    create unique index call_event on call (event_id, target);
";

/// What cannot be made any more without an operator.
const OVERFLOW: &str = "too many calls waited for this target";
const NO_TARGET: &str = "the configuration has no target of this name any more";

/// Writes a call of `target` for the event `event_id`, which is `body`, unless it is there.
pub(super) fn write(
    transaction: &Transaction<'_>,
    target: &Target,
    (event_id, body): (u64, &str),
    now: SystemTime,
) -> rusqlite::Result<()> {
    let mut statement = transaction.prepare_cached(
        "insert into call (target, event_id, body, due_ms, created_ms)
         values (?1, ?2, ?3, ?4, ?4) on conflict (event_id, target) do nothing",
    )?;
    statement.execute(params![
        target.name,
        event_id.cast_signed(),
        body,
        millis(now)
    ])?;
    Ok(())
}

/// Removes the calls for the event `first` and those after it, which came of a transaction that is
/// not durable after all.
pub(super) fn undo(transaction: &Transaction<'_>, first: u64) -> rusqlite::Result<()> {
    let first = first.cast_signed();
    transaction.execute("delete from call where event_id >= ?1", [first])?;
    Ok(())
}

/// What `target` is to do next at `now`: the oldest call that is due.
pub(super) fn next(
    connection: &Connection,
    target: &str,
    now: SystemTime,
) -> rusqlite::Result<NextCall> {
    let mut due = connection.prepare_cached(
        "select id, event_id, body, attempts from call
         where target = ?1 and parked = 0 and due_ms <= ?2 order by id limit 1",
    )?;
    let call = due.query_row(params![target, millis(now)], |row| {
        Ok(Call {
            id: row.get::<_, i64>(0)?.cast_unsigned(),
            event: row.get::<_, i64>(1)?.cast_unsigned(),
            body: row.get(2)?,
            attempts: row.get(3)?,
        })
    });
    if let Some(call) = call.optional()? {
        return Ok(NextCall::Now(call));
    }
    let mut later = connection
        .prepare_cached("select min(due_ms) from call where target = ?1 and parked = 0")?;
    let at: Option<i64> = later.query_row([target], |row| row.get(0))?;
    Ok(at.map_or(NextCall::Later, |at| NextCall::At(time(at))))
}

/// Keeps how the call `id` has ended.
pub(super) fn settle(
    transaction: &Transaction<'_>,
    id: u64,
    settled: &Settled,
) -> rusqlite::Result<()> {
    let id = id.cast_signed();
    match settled {
        Settled::Done => transaction.execute("delete from call where id = ?1", [id]),
        Settled::Retry { at, error } => transaction.execute(
            "update call set attempts = attempts + 1, due_ms = ?2, error = ?3 where id = ?1",
            params![id, millis(*at), error],
        ),
        Settled::Parked { error } => transaction.execute(
            "update call set attempts = attempts + 1, parked = 1, error = ?2 where id = ?1",
            params![id, error],
        ),
    }?;
    Ok(())
}

/// Up to `limit` calls, those that are parked first, then in their order.
pub(super) fn list(connection: &Connection, limit: usize) -> rusqlite::Result<Vec<CallView>> {
    let mut statement = connection.prepare_cached(
        "select id, target, event_id, attempts, parked, due_ms, error, created_ms from call
         order by parked desc, id limit ?1",
    )?;
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    statement.query_map([limit], view)?.collect()
}

fn view(row: &Row<'_>) -> rusqlite::Result<CallView> {
    Ok(CallView {
        id: row.get::<_, i64>(0)?.cast_unsigned(),
        target: row.get(1)?,
        event: row.get::<_, i64>(2)?.cast_unsigned(),
        attempts: row.get(3)?,
        parked: row.get(4)?,
        due: time(row.get(5)?),
        error: row.get(6)?,
        created: time(row.get(7)?),
    })
}

/// Has the call `id` made again at `now`, with all its attempts, if one of `targets` is its own.
pub(super) fn redrive(
    transaction: &Transaction<'_>,
    id: u64,
    targets: &[Target],
    now: SystemTime,
) -> rusqlite::Result<Redriven> {
    let key = id.cast_signed();
    let query = "select target from call where id = ?1";
    let target: Option<String> = transaction
        .query_row(query, [key], |row| row.get(0))
        .optional()?;
    let Some(target) = target else {
        return Ok(Redriven::Unknown);
    };
    if targets.iter().all(|known| known.name != target) {
        return Ok(Redriven::NoTarget(target));
    }
    transaction.execute(
        "update call set parked = 0, attempts = 0, due_ms = ?2 where id = ?1",
        params![key, millis(now)],
    )?;
    let query = "select id, target, event_id, attempts, parked, due_ms, error, created_ms
                 from call where id = ?1";
    transaction
        .query_row(query, [key], view)
        .map(Redriven::Again)
}

/// Parks what waits for none of `targets`.
pub(super) fn park_others(
    transaction: &Transaction<'_>,
    targets: &[Target],
) -> rusqlite::Result<usize> {
    let query = "select distinct target from call where parked = 0";
    let mut statement = transaction.prepare(query)?;
    let held = statement.query_map([], |row| row.get::<_, String>(0))?;
    let held = held.collect::<rusqlite::Result<Vec<String>>>()?;
    let mut parked = 0;
    for name in held {
        if targets.iter().all(|target| target.name != name) {
            parked += transaction.execute(
                "update call set parked = 1, error = ?2 where target = ?1 and parked = 0",
                params![name, NO_TARGET],
            )?;
        }
    }
    Ok(parked)
}

/// Parks and drops what is too much; how many calls were dropped.
pub(super) fn bound(transaction: &Transaction<'_>, targets: &[Target]) -> rusqlite::Result<usize> {
    let mut dropped = 0;
    for target in targets {
        let name = &target.name;
        transaction.execute(
            "update call set parked = 1, error = ?2 where id in (
                 select id from call where target = ?1 and parked = 0
                 order by id desc limit -1 offset ?3)",
            params![name, OVERFLOW, WAITING_MAX],
        )?;
        dropped += transaction.execute(
            "delete from call where id in (
                 select id from call where target = ?1 and parked = 1
                 order by id desc limit -1 offset ?2)",
            params![name, PARKED_MAX],
        )?;
    }
    Ok(dropped)
}

/// How many calls wait, and how many are parked.
pub(super) fn count(connection: &Connection) -> rusqlite::Result<(u64, u64)> {
    let mut statement = connection.prepare_cached(
        "select count(*) - coalesce(sum(parked), 0), coalesce(sum(parked), 0) from call",
    )?;
    statement.query_row([], |row| {
        let (waiting, parked): (i64, i64) = (row.get(0)?, row.get(1)?);
        Ok((waiting.cast_unsigned(), parked.cast_unsigned()))
    })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::daemon::outbox::{ATTEMPTS_DEFAULT, Action, Filter, TIMEOUT_DEFAULT};

    const SECOND: Duration = Duration::from_secs(1);

    fn target(name: &str) -> Target {
        Target {
            name: name.into(),
            action: Action::Program {
                command: vec!["true".into()],
            },
            filter: Filter::default(),
            timeout: TIMEOUT_DEFAULT,
            attempts: ATTEMPTS_DEFAULT,
        }
    }

    fn now() -> SystemTime {
        SystemTime::UNIX_EPOCH + 1000 * SECOND
    }

    fn database() -> Connection {
        let connection = Connection::open_in_memory().expect("memory");
        connection.execute_batch(TABLE).expect("valid");
        connection
    }

    fn fill(transaction: &Transaction<'_>, name: &str, events: std::ops::Range<u64>) {
        for event in events {
            write(transaction, &target(name), (event, "{}"), now()).expect("valid");
        }
    }

    fn due(transaction: &Transaction<'_>, at: SystemTime) -> Option<u64> {
        match next(transaction, "a", at).expect("valid") {
            NextCall::Now(call) => Some(call.event),
            NextCall::At(_) | NextCall::Later => None,
        }
    }

    #[test]
    fn a_call_waits_its_turn_and_others_go_before_it() {
        let mut connection = database();
        let transaction = connection.transaction().expect("valid");
        fill(&transaction, "a", 7..9);
        fill(&transaction, "b", 7..8);
        assert_eq!(due(&transaction, now()), Some(7));
        let retry = Settled::Retry {
            at: now() + 5 * SECOND,
            error: "busy".into(),
        };
        settle(&transaction, 1, &retry).expect("valid");
        assert_eq!(due(&transaction, now()), Some(8));
        settle(&transaction, 2, &Settled::Done).expect("valid");
        let later = next(&transaction, "a", now()).expect("valid");
        assert_eq!(later, NextCall::At(now() + 5 * SECOND));
        assert_eq!(due(&transaction, now() + 5 * SECOND), Some(7));
        let parked = Settled::Parked {
            error: "gone".into(),
        };
        settle(&transaction, 1, &parked).expect("valid");
        assert_eq!(
            next(&transaction, "a", now()).expect("valid"),
            NextCall::Later
        );
        assert_eq!(count(&transaction).expect("valid"), (1, 1));
        let calls = list(&transaction, 10).expect("valid");
        assert_eq!(
            (calls[0].id, calls[0].attempts, calls[0].parked),
            (1, 2, true)
        );
        assert_eq!(calls[0].error.as_deref(), Some("gone"));
    }

    #[test]
    fn what_is_parked_is_made_again_when_told_to() {
        let mut connection = database();
        let transaction = connection.transaction().expect("valid");
        fill(&transaction, "a", 7..8);
        let parked = Settled::Parked {
            error: "gone".into(),
        };
        settle(&transaction, 1, &parked).expect("valid");
        let redriven = |id, names: &[&str]| {
            let targets: Vec<Target> = names.iter().map(|name| target(name)).collect();
            redrive(&transaction, id, &targets, now()).expect("valid")
        };
        assert_eq!(redriven(9, &["a"]), Redriven::Unknown);
        assert_eq!(redriven(1, &["b"]), Redriven::NoTarget("a".into()));
        assert!(matches!(redriven(1, &["a"]), Redriven::Again(call) if call.attempts == 0));
        assert_eq!(due(&transaction, now()), Some(7));
    }

    #[test]
    fn calls_of_nobody_are_parked_and_the_oldest_make_room() {
        let mut connection = database();
        let transaction = connection.transaction().expect("valid");
        fill(&transaction, "gone", 1..3);
        let most = WAITING_MAX.unsigned_abs();
        fill(&transaction, "a", 1..most + 4);
        assert_eq!(park_others(&transaction, &[target("a")]).expect("valid"), 2);
        assert_eq!(bound(&transaction, &[target("a")]).expect("valid"), 0);
        assert_eq!(count(&transaction).expect("valid"), (most, 5));
        assert_eq!(due(&transaction, now()), Some(4));
        undo(&transaction, 4).expect("valid");
        assert_eq!(count(&transaction).expect("valid"), (0, 5));
    }
}
