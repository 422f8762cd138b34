//! The database file: found, created, or moved aside when damaged.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use rusqlite::{Connection, ErrorCode, OpenFlags};

use super::call_rows;
use super::rows::{self, Identity};
use super::{StoreError, event_rows};
use crate::node::Restored;

/// Its name in the data directory.
pub(super) const FILE: &str = "rumord.db";
/// What every SQLite database begins with.
const MAGIC: &[u8; 16] = b"SQLite format 3\0";
/// Marks a database as one of this daemon: "rumd".
const APPLICATION_ID: u32 = 0x7275_6d64;
/// The schema written here.
const SCHEMA: u32 = 2;
/// How long to wait for somebody who reads the file with another program.
const BUSY_TIMEOUT: Duration = Duration::from_secs(2);

const TABLES: &str = "
    create table node (
        only integer primary key check (only = 0),
        cluster text not null,
        node_id integer not null,
        generation integer not null,
        seen_ms integer not null,
        next_event_id integer
    ) strict;
    create table member (
        name text primary key,
        address text not null,
        node_id integer not null,
        generation integer not null,
        last_seen_ms integer
    ) strict, without rowid;
    create table event (id integer primary key, body text not null) strict;
";
/// What schema 2 has beyond schema 1. `user_event` holds what clients sent, with its number in the
/// log, if it is there; `event_key` which of them counts under a key; `event_mark` how far every
/// origin is known; `idempotency` what was answered under a key, or who works on it.
const TABLES_SINCE_2: &str = "
    create table user_event (
        origin text not null,
        generation integer not null,
        delivery integer not null,
        sequence integer not null,
        key blob,
        name text not null,
        payload blob not null,
        unix_ms integer not null,
        kept_ms integer not null,
        log_id integer,
        primary key (origin, generation, delivery, sequence)
    ) strict;
    create unique index user_event_log on user_event (log_id) where log_id is not null;
    create index user_event_copy on user_event (kept_ms) where log_id is null;
    create table event_key (
        key blob primary key,
        log_id integer not null,
        origin text not null,
        generation integer not null,
        sequence integer not null,
        content blob not null,
        unix_ms integer not null,
        kept_ms integer not null
    ) strict, without rowid;
    create index event_key_age on event_key (kept_ms);
    create table event_mark (
        origin integer not null,
        delivery integer not null,
        generation integer not null,
        upto integer not null,
        primary key (origin, delivery, generation)
    ) strict, without rowid;
    create table idempotency (
        scope text not null,
        key text not null,
        fingerprint blob not null,
        owner integer not null,
        lease_ms integer not null,
        event_key blob,
        status integer,
        headers text,
        body blob,
        bytes integer not null,
        created_ms integer not null,
        expires_ms integer not null,
        primary key (scope, key)
    ) strict;
    create index idempotency_expiry on idempotency (expires_ms);
    create index idempotency_event on idempotency (event_key) where event_key is not null;
";
/// Statements that a connection keeps prepared.
const STATEMENTS_MAX: usize = 64;

/// An open database, who ran on it, and what they left.
pub(super) struct Found {
    pub(super) connection: Connection,
    /// As it was stored.
    pub(super) identity: Identity,
    pub(super) restored: Restored,
}

/// What the first bytes of a file say.
enum Header {
    Absent,
    Damaged,
    Foreign,
    Ours { schema: u32 },
}

/// Opens the database at `path`, if there is one. A damaged one is moved aside, and counts as none.
pub(super) fn find(path: &Path) -> Result<Option<Found>, StoreError> {
    let failed = |reason: String| StoreError::File {
        path: path.into(),
        reason,
    };
    match header(path).map_err(|error| failed(error.to_string()))? {
        Header::Absent => return Ok(None),
        Header::Foreign => return Err(StoreError::Foreign { path: path.into() }),
        Header::Ours { schema } if schema > SCHEMA => {
            return Err(StoreError::Newer {
                path: path.into(),
                found: schema,
                known: SCHEMA,
            });
        }
        Header::Ours { .. } => match read(path) {
            Ok(found) => return Ok(Some(found)),
            Err(error) if !is_damage(&error) => return Err(failed(error.to_string())),
            Err(error) => tracing::error!(%error, "the database is damaged"),
        },
        Header::Damaged => tracing::error!("the database is damaged: it has no valid header"),
    }
    let kept = move_aside(path).map_err(|error| failed(error.to_string()))?;
    tracing::error!(
        kept = %kept.display(),
        "started with an empty database instead: this node has a new node id, and has forgotten \
         the members and events it knew"
    );
    Ok(None)
}

fn header(path: &Path) -> io::Result<Header> {
    let mut file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Header::Absent),
        Err(error) => return Err(error),
    };
    let mut bytes = [0; 100];
    match file.read_exact(&mut bytes) {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(Header::Damaged),
        Err(error) => return Err(error),
    }
    let number = |at: usize| {
        let [a, b, c, d] = [bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]];
        u32::from_be_bytes([a, b, c, d])
    };
    // File format, offsets 60 (user version) and 68 (application id).
    Ok(match (bytes.starts_with(MAGIC), number(68)) {
        (false, _) => Header::Damaged,
        (true, APPLICATION_ID) => Header::Ours { schema: number(60) },
        (true, _) => Header::Foreign,
    })
}

fn read(path: &Path) -> rusqlite::Result<Found> {
    let mut connection = connect(path)?;
    let verdict: String = connection.query_row("pragma quick_check(1)", [], |row| row.get(0))?;
    if verdict != "ok" {
        return Err(damage(&verdict));
    }
    migrate(&mut connection)?;
    let (identity, next_event_id, seen) = rows::read_node(&connection)?;
    let (events, user_events) = event_rows::read_log(&connection)?;
    let restored = Restored {
        members: rows::read_members(&connection, seen)?,
        events,
        next_event_id,
        user_events,
        marks: event_rows::read_marks(&connection)?,
    };
    Ok(Found {
        connection,
        identity,
        restored,
    })
}

/// Brings a database of an earlier version to the present schema, in place and in one step.
fn migrate(connection: &mut Connection) -> rusqlite::Result<()> {
    let found: u32 = connection.pragma_query_value(None, "user_version", |row| row.get(0))?;
    if found >= SCHEMA {
        return Ok(());
    }
    let transaction = connection.transaction()?;
    transaction.execute_batch(TABLES_SINCE_2)?;
    transaction.execute_batch(call_rows::TABLE)?;
    transaction.pragma_update(None, "user_version", SCHEMA)?;
    transaction.commit()?;
    tracing::info!(
        from = found,
        to = SCHEMA,
        "the database was brought to the present schema"
    );
    Ok(())
}

/// A database in memory, of a node that keeps nothing beyond its process.
pub(super) fn create_in_memory(identity: &Identity) -> rusqlite::Result<Connection> {
    let mut connection = Connection::open_in_memory()?;
    connection.set_prepared_statement_cache_capacity(STATEMENTS_MAX);
    fill(&mut connection, identity)?;
    Ok(connection)
}

/// Puts all tables into an empty database.
fn fill(connection: &mut Connection, identity: &Identity) -> rusqlite::Result<()> {
    let transaction = connection.transaction()?;
    transaction.execute_batch(TABLES)?;
    transaction.execute_batch(TABLES_SINCE_2)?;
    transaction.execute_batch(call_rows::TABLE)?;
    transaction.pragma_update(None, "user_version", SCHEMA)?;
    rows::write_node(&transaction, identity)?;
    transaction.commit()
}

/// Opens an existing database.
pub(super) fn connect(path: &Path) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags)?;
    connection.busy_timeout(BUSY_TIMEOUT)?;
    connection.set_prepared_statement_cache_capacity(STATEMENTS_MAX);
    // Every commit is on the disk when it returns; readers of the file do not block it.
    connection.pragma_update(None, "synchronous", "full")?;
    connection.pragma_update(None, "mmap_size", 0)?;
    Ok(connection)
}

/// Creates the database with all its tables beside its place, and then puts it there: a file of
/// this name is whole, whenever the process is killed.
pub(super) fn create(path: &Path, identity: &Identity) -> rusqlite::Result<Connection> {
    let fresh = beside(path, ".new");
    for file in with_companions(&fresh) {
        // Absent as a rule; what cannot be removed fails below.
        let _ = fs::remove_file(file);
    }
    OpenOptions::new()
        .create(true)
        .truncate(true)
        .write(true)
        .mode(0o600)
        .open(&fresh)
        .map_err(refused)?;
    let mut connection = connect(&fresh)?;
    connection.pragma_update(None, "application_id", APPLICATION_ID)?;
    fill(&mut connection, identity)?;
    connection.pragma_update(None, "journal_mode", "wal")?;
    connection.close().map_err(|(_, error)| error)?;
    fs::rename(&fresh, path).map_err(refused)?;
    let dir = path.parent().unwrap_or(Path::new("."));
    File::open(dir)
        .and_then(|dir| dir.sync_all())
        .map_err(refused)?;
    connect(path)
}

/// Moves a damaged database away, with the files that belong to it, and says where it is now.
pub(super) fn move_aside(path: &Path) -> io::Result<PathBuf> {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    let kept = beside(
        path,
        &format!(".damaged-{}", now.unwrap_or_default().as_secs()),
    );
    fs::rename(path, &kept)?;
    let companions = with_companions(path)
        .into_iter()
        .zip(with_companions(&kept));
    for (from, to) in companions.skip(1) {
        match fs::rename(from, to) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    Ok(kept)
}

/// Whether an error says that the file is not what was written.
pub(super) fn is_damage(error: &rusqlite::Error) -> bool {
    use rusqlite::Error;
    match error.sqlite_error_code() {
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => true,
        // A table or column that is not there.
        Some(ErrorCode::Unknown) => true,
        Some(_) => false,
        None => matches!(
            error,
            Error::QueryReturnedNoRows
                | Error::InvalidColumnType(..)
                | Error::FromSqlConversionFailure(..)
                | Error::IntegralValueOutOfRange(..)
        ),
    }
}

fn damage(reason: &str) -> rusqlite::Error {
    let code = rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_CORRUPT);
    rusqlite::Error::SqliteFailure(code, Some(reason.into()))
}

fn refused(error: io::Error) -> rusqlite::Error {
    let code = rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_CANTOPEN);
    rusqlite::Error::SqliteFailure(code, Some(error.to_string()))
}

/// The file, its write-ahead log and the log's index.
fn with_companions(path: &Path) -> [PathBuf; 3] {
    [path.into(), beside(path, "-wal"), beside(path, "-shm")]
}

fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name: OsString = path.into();
    name.push(suffix);
    name.into()
}
