//! The rows of the log: what happened to members, what clients sent, under which keys, and how far
//! every origin is known.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use rusqlite::types::Type;
use rusqlite::{Connection, OptionalExtension, Row, Transaction, params};

use super::super::digest::{Sum, content_of};
use super::super::event::EventJson;
use super::rows::{millis, time};
use crate::member::{
    Delivery, EventKey, EventName, EventRef, Generation, NameHash, NodeName, UserEvent,
};
use crate::node::{LogEntry, Logged, MARK_GENERATIONS_MAX};
use crate::protocol::EventMark;

/// For how long what clients sent is kept for members that were away, and its keys for repeats.
pub(super) const RETENTION: Duration = Duration::from_secs(24 * 3600);
/// Copies of events that are not in the log, and keys of events: the oldest make room.
const COPIES_MAX: i64 = 16_384;
pub(super) const EVENT_KEYS_MAX: i64 = 131_072;

/// The event that counts under a key.
pub(super) struct KeyRow {
    pub(super) log_id: u64,
    pub(super) origin: NodeName,
    pub(super) generation: Generation,
    pub(super) sequence: u64,
    pub(super) content: Sum,
    pub(super) unix_ms: u64,
}

/// Appends an entry to the log.
pub(super) fn log(transaction: &Transaction, entry: &LogEntry) -> rusqlite::Result<()> {
    match &entry.what {
        Logged::User(event) => {
            write_user_event(transaction, event, entry.time, Some(entry.id))?;
            write_key(transaction, event, entry)
        }
        Logged::Conflict(conflict) => {
            write_body(transaction, entry)?;
            write_key(transaction, &conflict.event, entry)
        }
        Logged::Member(_) => write_body(transaction, entry),
    }
}

fn write_body(transaction: &Transaction, entry: &LogEntry) -> rusqlite::Result<()> {
    let mut statement =
        transaction.prepare_cached("insert or replace into event (id, body) values (?1, ?2)")?;
    let body = serde_json::to_string(&EventJson::new(entry))
        .map_err(|error| rusqlite::Error::ToSqlConversionFailure(error.into()))?;
    statement.execute(params![entry.id.cast_signed(), body])?;
    Ok(())
}

/// Keeps an event, at `kept`, with its number in the log, if it is there.
pub(super) fn write_user_event(
    transaction: &Transaction,
    event: &UserEvent,
    kept: SystemTime,
    log_id: Option<u64>,
) -> rusqlite::Result<()> {
    let mut statement = transaction.prepare_cached(
        "insert or replace into user_event
         (origin, generation, delivery, sequence, key, name, payload, unix_ms, kept_ms, log_id)
         values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)",
    )?;
    statement.execute(params![
        event.origin.as_str(),
        event.generation.0.cast_signed(),
        delivery_number(event.delivery),
        event.sequence.cast_signed(),
        event.key.map(|EventKey(bytes)| bytes),
        event.name.as_str(),
        event.payload,
        event.unix_ms.cast_signed(),
        millis(kept),
        log_id.map(u64::cast_signed),
    ])?;
    Ok(())
}

/// From now on `event` is the one that counts under its key, and `entry` tells it.
fn write_key(
    transaction: &Transaction,
    event: &UserEvent,
    entry: &LogEntry,
) -> rusqlite::Result<()> {
    let Some(EventKey(key)) = event.key else {
        return Ok(());
    };
    let mut statement = transaction.prepare_cached(
        "insert or replace into event_key
         (key, log_id, origin, generation, sequence, content, unix_ms, kept_ms)
         values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
    )?;
    statement.execute(params![
        key,
        entry.id.cast_signed(),
        event.origin.as_str(),
        event.generation.0.cast_signed(),
        event.sequence.cast_signed(),
        content_of(event),
        event.unix_ms.cast_signed(),
        millis(entry.time),
    ])?;
    Ok(())
}

/// The event that counts under `key`.
pub(super) fn read_key(
    transaction: &Transaction,
    EventKey(key): EventKey,
) -> rusqlite::Result<Option<KeyRow>> {
    let mut statement = transaction.prepare_cached(
        "select log_id, origin, generation, sequence, content, unix_ms from event_key
         where key = ?1",
    )?;
    let row = statement.query_row([key], |row| {
        Ok(KeyRow {
            log_id: unsigned(row, 0)?,
            origin: parsed(row, 1)?,
            generation: Generation(unsigned(row, 2)?),
            sequence: unsigned(row, 3)?,
            content: row.get(4)?,
            unix_ms: unsigned(row, 5)?,
        })
    });
    row.optional()
}

/// The log, sorted by id, and all events of clients that may still be owed to somebody, by number.
/// What is no event of this version is left out, and shows as a gap.
pub(super) fn read_log(
    connection: &Connection,
) -> rusqlite::Result<(Vec<LogEntry>, Vec<Arc<UserEvent>>)> {
    let mut entries = read_bodies(connection)?;
    let mut kept = Vec::new();
    let mut statement = connection.prepare(
        "select origin, generation, delivery, sequence, key, name, payload, unix_ms, kept_ms,
         log_id from user_event order by generation, origin, delivery, sequence",
    )?;
    let mut rows = statement.query([])?;
    let now = SystemTime::now();
    while let Some(row) = rows.next()? {
        let event = Arc::new(user_event(row)?);
        let at = time(row.get(8)?);
        if now.duration_since(at).unwrap_or_default() < RETENTION {
            kept.push(Arc::clone(&event));
        }
        if let Some(id) = row.get::<_, Option<i64>>(9)? {
            entries.push(LogEntry {
                id: id.cast_unsigned(),
                time: at,
                what: Logged::User(event),
            });
        }
    }
    entries.sort_by_key(|entry| entry.id);
    Ok((entries, kept))
}

fn read_bodies(connection: &Connection) -> rusqlite::Result<Vec<LogEntry>> {
    let mut statement = connection.prepare("select id, body from event order by id")?;
    let rows = statement.query_map([], |row| {
        let (id, body): (i64, String) = (row.get(0)?, row.get(1)?);
        let event = serde_json::from_str::<EventJson>(&body).ok();
        let entry = event.and_then(EventJson::into_entry);
        Ok(entry.filter(|entry| entry.id == id.cast_unsigned()))
    })?;
    rows.filter_map(Result::transpose).collect()
}

fn user_event(row: &Row) -> rusqlite::Result<UserEvent> {
    let name: String = row.get(5)?;
    Ok(UserEvent {
        origin: parsed(row, 0)?,
        generation: Generation(unsigned(row, 1)?),
        delivery: match row.get(2)? {
            AT_MOST_ONCE => Delivery::AtMostOnce,
            _ => Delivery::AtLeastOnce,
        },
        sequence: unsigned(row, 3)?,
        key: row.get::<_, Option<[u8; 16]>>(4)?.map(EventKey),
        unix_ms: unsigned(row, 7)?,
        name: EventName::new(&name).map_err(|error| unreadable(5, error))?,
        payload: row.get(6)?,
    })
}

/// Notes that `upto` and what came before it is durable; only the newest lives of its origin keep
/// their marks.
pub(super) fn write_mark(transaction: &Transaction, upto: &EventRef) -> rusqlite::Result<()> {
    let origin = u64::from_be_bytes(upto.origin.to_wire()).cast_signed();
    let delivery = delivery_number(upto.delivery);
    let mut statement = transaction.prepare_cached(
        "insert or replace into event_mark (origin, delivery, generation, upto)
         values (?1, ?2, ?3, ?4)",
    )?;
    let generation = upto.generation.0.cast_signed();
    statement.execute(params![
        origin,
        delivery,
        generation,
        upto.sequence.cast_signed()
    ])?;
    let mut statement = transaction.prepare_cached(
        "delete from event_mark where origin = ?1 and delivery = ?2 and generation not in
         (select generation from event_mark where origin = ?1 and delivery = ?2
          order by generation desc limit ?3)",
    )?;
    statement.execute(params![origin, delivery, MARK_GENERATIONS_MAX as i64])?;
    Ok(())
}

/// All marks.
pub(super) fn read_marks(connection: &Connection) -> rusqlite::Result<Vec<EventMark>> {
    let mut statement =
        connection.prepare("select origin, delivery, generation, upto from event_mark")?;
    let rows = statement.query_map([], |row| {
        Ok(EventMark {
            upto: EventRef {
                origin: NameHash::from_wire(unsigned(row, 0)?.to_be_bytes()),
                delivery: match row.get(1)? {
                    AT_MOST_ONCE => Delivery::AtMostOnce,
                    _ => Delivery::AtLeastOnce,
                },
                generation: Generation(unsigned(row, 2)?),
                sequence: unsigned(row, 3)?,
            },
        })
    })?;
    rows.collect()
}

/// Drops the entries before `oldest`.
pub(super) fn delete_before(transaction: &Transaction, oldest: u64) -> rusqlite::Result<()> {
    let oldest = oldest.cast_signed();
    let mut statement = transaction.prepare_cached("delete from event where id < ?1")?;
    statement.execute([oldest])?;
    let mut statement = transaction.prepare_cached("delete from user_event where log_id < ?1")?;
    statement.execute([oldest])?;
    Ok(())
}

/// Removes what a commit that failed may have left: the entries from `first` on, and these events.
pub(super) fn undo(
    transaction: &Transaction,
    first: u64,
    events: &[Arc<UserEvent>],
) -> rusqlite::Result<()> {
    let first = first.cast_signed();
    for statement in [
        "delete from event where id >= ?1",
        "delete from user_event where log_id >= ?1",
        "delete from event_key where log_id >= ?1",
    ] {
        transaction.execute(statement, [first])?;
    }
    for event in events {
        transaction.execute(
            "delete from user_event where log_id is null and origin = ?1 and generation = ?2
             and delivery = ?3 and sequence = ?4",
            params![
                event.origin.as_str(),
                event.generation.0.cast_signed(),
                delivery_number(event.delivery),
                event.sequence.cast_signed()
            ],
        )?;
    }
    Ok(())
}

/// Drops copies and keys that are too old at `now`, or too many.
pub(super) fn sweep(transaction: &Transaction, now: SystemTime) -> rusqlite::Result<()> {
    let oldest = millis(now).saturating_sub(RETENTION.as_millis() as i64);
    transaction.execute(
        "delete from user_event where log_id is null and (kept_ms < ?1 or rowid in
         (select rowid from user_event where log_id is null order by kept_ms desc
          limit -1 offset ?2))",
        params![oldest, COPIES_MAX],
    )?;
    transaction.execute(
        "delete from event_key where kept_ms < ?1 or key in
         (select key from event_key order by kept_ms desc limit -1 offset ?2)",
        params![oldest, EVENT_KEYS_MAX],
    )?;
    Ok(())
}

const AT_MOST_ONCE: i64 = 0;

const fn delivery_number(delivery: Delivery) -> i64 {
    match delivery {
        Delivery::AtMostOnce => AT_MOST_ONCE,
        Delivery::AtLeastOnce => 1,
    }
}

fn unsigned(row: &Row, column: usize) -> rusqlite::Result<u64> {
    row.get::<_, i64>(column).map(i64::cast_unsigned)
}

fn parsed(row: &Row, column: usize) -> rusqlite::Result<NodeName> {
    let text: String = row.get(column)?;
    text.parse().map_err(|error| unreadable(column, error))
}

fn unreadable(
    column: usize,
    error: impl std::error::Error + Send + Sync + 'static,
) -> rusqlite::Error {
    rusqlite::Error::FromSqlConversionFailure(column, Type::Text, error.into())
}
