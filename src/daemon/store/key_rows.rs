//! The rows of idempotency keys: who works on a request, and what was answered.

use std::time::{Duration, SystemTime};

use rusqlite::{Connection, OptionalExtension, Transaction, params};

use super::batch::KeyCount;
use super::keys::{Answer, Keyed, Token};
use super::rows::millis;
use crate::member::EventKey;

/// For how long an answer is remembered.
pub(super) const LIFETIME: Duration = Duration::from_secs(24 * 3600);
/// For how long a request may be worked on before a repeat may be, too: several times what the
/// longest, a leave or a join, takes.
pub(super) const LEASE: Duration = Duration::from_secs(60);
/// What a row takes beside its texts and its answer, in bytes.
const ROW_BYTES: usize = 128;
/// Rows that expire in one step.
const EXPIRE_MAX: i64 = 10_000;

/// What is known under a key.
pub(super) struct Known {
    pub(super) fingerprint: [u8; 32],
    /// Until when somebody may work on it, and what was answered, if it was.
    pub(super) lease_ms: i64,
    pub(super) answer: Option<Answer>,
}

/// What is known under a key at `now`; what has expired is not.
pub(super) fn find(
    transaction: &Transaction,
    keyed: &Keyed,
    now: SystemTime,
) -> rusqlite::Result<Option<Known>> {
    let mut statement = transaction.prepare_cached(
        "select fingerprint, lease_ms, status, headers, body from idempotency
         where scope = ?1 and key = ?2 and expires_ms > ?3",
    )?;
    let row = statement.query_row(params![keyed.scope, keyed.key, millis(now)], |row| {
        let status: Option<u16> = row.get(2)?;
        let headers: Option<String> = row.get(3)?;
        Ok(Known {
            fingerprint: row.get(0)?,
            lease_ms: row.get(1)?,
            answer: match status {
                Some(status) => Some(Answer {
                    status,
                    headers: serde_json::from_str(&headers.unwrap_or_default()).unwrap_or_default(),
                    body: row.get(4)?,
                }),
                None => None,
            },
        })
    });
    row.optional()
}

/// Takes the key for `owner`, if it is free at `now`: unknown, expired, or in the hands of somebody
/// whose lease is over. One statement decides.
pub(super) fn take(
    transaction: &Transaction,
    keyed: &Keyed,
    owner: Token,
    now: SystemTime,
    lease: Duration,
) -> rusqlite::Result<bool> {
    let mut statement = transaction.prepare_cached(
        "insert into idempotency
         (scope, key, fingerprint, owner, lease_ms, bytes, created_ms, expires_ms)
         values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)
         on conflict (scope, key) do update set
         fingerprint = excluded.fingerprint, owner = excluded.owner,
         lease_ms = excluded.lease_ms, event_key = null, status = null, headers = null,
         body = null, bytes = excluded.bytes, created_ms = excluded.created_ms,
         expires_ms = excluded.expires_ms
         where idempotency.expires_ms <= excluded.created_ms
         or (idempotency.status is null and idempotency.lease_ms <= excluded.created_ms
             and idempotency.fingerprint = excluded.fingerprint)
         returning 1",
    )?;
    let now_ms = millis(now);
    let taken: Option<i64> = statement
        .query_row(
            params![
                keyed.scope,
                keyed.key,
                keyed.fingerprint,
                owner.0.cast_signed(),
                now_ms.saturating_add(lease.as_millis() as i64),
                bytes(keyed, None) as i64,
                now_ms,
                now_ms.saturating_add(LIFETIME.as_millis() as i64),
            ],
            |row| row.get(0),
        )
        .optional()?;
    Ok(taken.is_some())
}

/// Remembers the answer, if `owner` still has the key; and the event that it speaks of.
pub(super) fn complete(
    transaction: &Transaction,
    keyed: &Keyed,
    owner: Token,
    answer: &Answer,
    event: Option<EventKey>,
) -> rusqlite::Result<bool> {
    let mut statement = transaction.prepare_cached(
        "update idempotency set status = ?4, headers = ?5, body = ?6, bytes = ?7, event_key = ?8
         where scope = ?1 and key = ?2 and owner = ?3 and status is null",
    )?;
    let changed = statement.execute(params![
        keyed.scope,
        keyed.key,
        owner.0.cast_signed(),
        answer.status,
        headers_text(answer),
        answer.body,
        bytes(keyed, Some(answer)) as i64,
        event.map(|EventKey(bytes)| bytes),
    ])?;
    Ok(changed > 0)
}

/// Forgets the key, if `owner` still has it and has not answered.
pub(super) fn abandon(
    transaction: &Transaction,
    keyed: &Keyed,
    owner: Token,
) -> rusqlite::Result<bool> {
    let mut statement = transaction.prepare_cached(
        "delete from idempotency
         where scope = ?1 and key = ?2 and owner = ?3 and status is null",
    )?;
    let changed = statement.execute(params![keyed.scope, keyed.key, owner.0.cast_signed()])?;
    Ok(changed > 0)
}

/// Forgets what was answered for the event of this key, which another one has overruled: who asks
/// again is told what counts. What that frees.
pub(super) fn release(
    transaction: &Transaction,
    EventKey(event): EventKey,
) -> rusqlite::Result<KeyCount> {
    let mut statement = transaction
        .prepare_cached("delete from idempotency where event_key = ?1 returning bytes")?;
    let bytes = statement.query_map([event], |row| row.get::<_, i64>(0))?;
    let mut freed = KeyCount::default();
    for bytes in bytes {
        freed.keys += 1;
        freed.bytes += bytes?.unsigned_abs();
    }
    Ok(freed)
}

/// Removes what a commit that failed may have left.
pub(super) fn undo(transaction: &Transaction, keyed: &Keyed) -> rusqlite::Result<()> {
    transaction.execute(
        "delete from idempotency where scope = ?1 and key = ?2",
        params![keyed.scope, keyed.key],
    )?;
    Ok(())
}

/// Drops some of what has expired at `now`.
pub(super) fn expire(transaction: &Transaction, now: SystemTime) -> rusqlite::Result<usize> {
    transaction.execute(
        "delete from idempotency where rowid in
         (select rowid from idempotency where expires_ms <= ?1 limit ?2)",
        params![millis(now), EXPIRE_MAX],
    )
}

/// How many keys there are, and how many bytes they take.
pub(super) fn measure(connection: &Connection) -> rusqlite::Result<KeyCount> {
    let query = "select count(*), ifnull(sum(bytes), 0) from idempotency";
    connection.query_row(query, [], |row| {
        let (keys, bytes): (i64, i64) = (row.get(0)?, row.get(1)?);
        Ok(KeyCount {
            keys: keys.unsigned_abs(),
            bytes: bytes.unsigned_abs(),
        })
    })
}

/// What a key takes, whatever has become of it; `None` where it is not there.
pub(super) fn held_bytes(
    transaction: &Transaction,
    keyed: &Keyed,
) -> rusqlite::Result<Option<u64>> {
    let mut statement = transaction
        .prepare_cached("select bytes from idempotency where scope = ?1 and key = ?2")?;
    let bytes = statement.query_row(params![keyed.scope, keyed.key], |row| row.get::<_, i64>(0));
    Ok(bytes.optional()?.map(i64::unsigned_abs))
}

/// What a key and its answer take.
pub(super) fn bytes(keyed: &Keyed, answer: Option<&Answer>) -> usize {
    let answer = answer.map_or(0, |answer| {
        let headers = answer.headers.iter();
        let headers: usize = headers.map(|(name, value)| name.len() + value.len()).sum();
        headers + answer.body.len()
    });
    ROW_BYTES + keyed.scope.len() + keyed.key.len() + answer
}

fn headers_text(answer: &Answer) -> String {
    // Pairs of strings always serialize.
    serde_json::to_string(&answer.headers).unwrap_or_default()
}
