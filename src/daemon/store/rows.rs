//! The rows of the database: the node and the members.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rusqlite::{Connection, Transaction, params};

use crate::member::{Generation, NodeId};
use crate::node::Remembered;

/// Who runs on the database.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Identity {
    /// The cluster's name at the last start.
    pub(super) cluster: String,
    /// The node's id.
    pub(super) node_id: u64,
    /// The generation last started, or raised to.
    pub(super) generation: u64,
}

/// A member as it is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct MemberRow {
    pub(super) address: String,
    pub(super) node_id: u64,
    pub(super) generation: u64,
    /// None for a member that is alive: it is seen for as long as the database is written.
    pub(super) last_seen: Option<SystemTime>,
}

/// Writes the row of the node; the end of the log is not known from here on.
pub(super) fn write_node(transaction: &Transaction, identity: &Identity) -> rusqlite::Result<()> {
    transaction.execute(
        "insert into node (only, cluster, node_id, generation, seen_ms) values (0, ?1, ?2, ?3, 0)
         on conflict (only) do update set cluster = ?1, node_id = ?2, generation = ?3",
        params![
            identity.cluster,
            identity.node_id.cast_signed(),
            identity.generation.cast_signed()
        ],
    )?;
    Ok(())
}

/// The node, its next event id if it ended in order, and when it last wrote.
pub(super) fn read_node(
    connection: &Connection,
) -> rusqlite::Result<(Identity, Option<u64>, SystemTime)> {
    let query = "select cluster, node_id, generation, next_event_id, seen_ms from node";
    connection.query_row(query, [], |row| {
        let identity = Identity {
            cluster: row.get(0)?,
            node_id: row.get::<_, i64>(1)?.cast_unsigned(),
            generation: row.get::<_, i64>(2)?.cast_unsigned(),
        };
        let next = row.get::<_, Option<i64>>(3)?.map(i64::cast_unsigned);
        Ok((identity, next, time(row.get(4)?)))
    })
}

/// Makes a new run durable: its generation, and that the end of its log is not known. What another
/// cluster left is dropped.
pub(super) fn begin_run(connection: &mut Connection, run: &Identity) -> rusqlite::Result<()> {
    let transaction = connection.transaction()?;
    let stored: String = transaction.query_row("select cluster from node", [], |row| row.get(0))?;
    if stored != run.cluster {
        transaction.execute_batch(
            "delete from member; delete from event; delete from user_event; delete from event_key;
             delete from event_mark; delete from idempotency;",
        )?;
    }
    // Whoever worked on a request under a key is gone.
    transaction.execute("delete from idempotency where status is null", [])?;
    write_node(&transaction, run)?;
    transaction.execute("update node set next_event_id = null", [])?;
    transaction.commit()
}

/// Notes when the database was last written, and the next event id at the end of a run.
pub(super) fn note_time(
    transaction: &Transaction,
    seen: SystemTime,
    next_event_id: Option<u64>,
) -> rusqlite::Result<()> {
    transaction.execute(
        "update node set seen_ms = ?1, next_event_id = ?2",
        params![millis(seen), next_event_id.map(u64::cast_signed)],
    )?;
    Ok(())
}

/// All members; those that were alive were last seen at `seen`. One that no member can be is left
/// out.
pub(super) fn read_members(
    connection: &Connection,
    seen: SystemTime,
) -> rusqlite::Result<Vec<Remembered>> {
    let query = "select name, address, node_id, generation, last_seen_ms from member";
    let mut statement = connection.prepare(query)?;
    let rows = statement.query_map([], |row| {
        let (name, address): (String, String) = (row.get(0)?, row.get(1)?);
        let last_seen: Option<i64> = row.get(4)?;
        let (Ok(name), Ok(address)) = (name.parse(), address.parse()) else {
            return Ok(None);
        };
        Ok(Some(Remembered {
            name,
            address,
            node_id: NodeId(row.get::<_, i64>(2)?.cast_unsigned()),
            generation: Generation(row.get::<_, i64>(3)?.cast_unsigned()),
            last_seen: last_seen.map_or(seen, time),
        }))
    })?;
    rows.filter_map(Result::transpose).collect()
}

/// Inserts or replaces a member.
pub(super) fn write_member(
    transaction: &Transaction,
    name: &str,
    row: &MemberRow,
) -> rusqlite::Result<()> {
    let mut statement = transaction.prepare_cached(
        "insert or replace into member (name, address, node_id, generation, last_seen_ms)
         values (?1, ?2, ?3, ?4, ?5)",
    )?;
    statement.execute(params![
        name,
        row.address,
        row.node_id.cast_signed(),
        row.generation.cast_signed(),
        row.last_seen.map(millis)
    ])?;
    Ok(())
}

/// Removes a member.
pub(super) fn delete_member(transaction: &Transaction, name: &str) -> rusqlite::Result<()> {
    let mut statement = transaction.prepare_cached("delete from member where name = ?1")?;
    statement.execute([name])?;
    Ok(())
}

/// Milliseconds since 1970; times before it count as then.
pub(super) fn millis(time: SystemTime) -> i64 {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}

/// Times before 1970 count as then.
pub(super) fn time(millis: i64) -> SystemTime {
    let since = Duration::from_millis(u64::try_from(millis).unwrap_or(0));
    UNIX_EPOCH.checked_add(since).unwrap_or(UNIX_EPOCH)
}
