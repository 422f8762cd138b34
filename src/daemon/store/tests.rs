//! Restarts, second processes, damaged files and wrong clocks.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};

use super::*;

mod events;
mod keeping;
mod keys;

const NOW: u64 = RELEASE_UNIX_SECONDS + 1000;
const DAY: u64 = 24 * 3600;

/// A directory of its own for each test, removed at its end.
struct TestDir(PathBuf);

impl TestDir {
    fn new() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("rumord-store-{}-{number}", std::process::id());
        let path = std::env::temp_dir().join(name);
        fs::create_dir(&path).expect("a fresh directory");
        TestDir(path)
    }

    fn data(&self) -> PathBuf {
        self.0.join("data")
    }

    fn file(&self) -> PathBuf {
        self.data().join(database::FILE)
    }

    fn open(&self, now: u64) -> Result<SqliteStore, StoreError> {
        SqliteStore::open(&self.data(), "default", now, || 0xabcd)
    }

    /// A data directory whose database is these bytes.
    fn holding(bytes: &[u8]) -> Self {
        let dir = TestDir::new();
        fs::create_dir(dir.data()).expect("created");
        fs::write(dir.file(), bytes).expect("written");
        dir
    }

    fn with_generation(generation: u64) -> Self {
        let dir = TestDir::new();
        fs::create_dir(dir.data()).expect("created");
        let identity = Identity {
            cluster: "default".into(),
            node_id: 0xff,
            generation,
        };
        drop(database::create(&dir.file(), &identity).expect("created"));
        dir
    }

    /// What is in the directory, without SQLite's own companions.
    fn files(&self) -> Vec<String> {
        let entries = fs::read_dir(self.data()).expect("there");
        let name = |entry: io::Result<fs::DirEntry>| {
            let name = entry.expect("readable").file_name();
            name.to_string_lossy().into_owned()
        };
        let mut names: Vec<String> = entries.map(name).collect();
        names.retain(|name| !name.ends_with("-wal") && !name.ends_with("-shm"));
        names.sort();
        names
    }
}

impl Drop for TestDir {
    fn drop(&mut self) {
        // Best effort: a leftover directory harms no other test.
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn refusal(result: Result<SqliteStore, StoreError>) -> String {
    let error = result.err().expect("must be refused");
    assert_eq!(error.exit_code(), 78);
    let message = error.to_string();
    assert!(!message.contains('\n'), "{message}");
    message
}

#[test]
fn a_restart_keeps_the_node_id_and_raises_the_generation() {
    let dir = TestDir::new();
    let first = dir.open(NOW).expect("opened");
    assert_eq!(
        (first.node_id(), first.generation()),
        (NodeId(0xabcd), Generation(NOW))
    );
    drop(first);
    let again = SqliteStore::open(&dir.data(), "default", NOW, || 7).expect("opened");
    assert_eq!(
        (again.node_id(), again.generation()),
        (NodeId(0xabcd), Generation(NOW + 1))
    );
    drop(again);
    let later = dir.open(NOW + 60).expect("opened");
    assert_eq!(later.generation(), Generation(NOW + 60));
}

#[test]
fn the_generation_is_on_disk_before_it_is_used() {
    let dir = TestDir::new();
    let _running = dir.open(NOW).expect("opened");
    let reader = Connection::open(dir.file()).expect("opened");
    let stored: i64 = reader
        .query_row("select generation from node", [], |row| row.get(0))
        .expect("there");
    assert_eq!(stored.cast_unsigned(), NOW);
}

#[test]
fn the_directory_and_the_file_are_for_their_owner_alone() {
    let dir = TestDir::new();
    let _running = dir.open(NOW).expect("opened");
    let mode = |path| fs::metadata(path).expect("there").permissions().mode() & 0o777;
    assert_eq!(mode(dir.data()), 0o700);
    assert_eq!(mode(dir.file()), 0o600);
}

#[test]
fn a_clock_that_ran_backwards_does_not_lower_the_generation() {
    let dir = TestDir::with_generation(NOW);
    assert_eq!(
        dir.open(0).expect("opened").generation(),
        Generation(NOW + 1)
    );
}

#[test]
fn a_second_process_on_the_directory_is_refused() {
    let dir = TestDir::new();
    let running = dir.open(NOW).expect("opened");
    let message = refusal(dir.open(NOW));
    assert!(
        message.contains("another rumord") && message.contains("--data-dir"),
        "{message}"
    );
    drop(running);
    assert!(dir.open(NOW).is_ok(), "the lock goes with its holder");
}

#[test]
fn a_poisoned_generation_is_refused_with_the_remedy() {
    let dir = TestDir::with_generation(NOW + 14 * 365 * DAY);
    let message = refusal(dir.open(NOW));
    assert!(
        message.contains("5110 days ahead") && message.contains("set the clock"),
        "{message}"
    );
    assert!(
        dir.open(NOW + 14 * 365 * DAY).is_ok(),
        "the clock was set right"
    );
    refusal(TestDir::with_generation(u64::MAX).open(NOW));
}

#[test]
fn a_day_ahead_is_accepted_and_the_release_counts_as_a_clock() {
    assert!(TestDir::with_generation(NOW + DAY).open(NOW).is_ok());
    refusal(TestDir::with_generation(NOW + DAY + 1).open(NOW));
    assert!(
        TestDir::with_generation(RELEASE_UNIX_SECONDS + DAY)
            .open(0)
            .is_ok()
    );
}

#[test]
fn a_directory_that_cannot_be_made_is_refused() {
    let dir = TestDir::holding(b"a file, not a directory");
    let below = dir.file().join("data");
    let message = refusal(SqliteStore::open(&below, "default", NOW, || 1));
    assert!(message.contains("check --data-dir"), "{message}");
}

#[test]
fn a_raised_generation_is_kept_and_never_lowered() {
    let dir = TestDir::new();
    let identity = dir.open(NOW).expect("opened");
    identity
        .persist_generation(Generation(NOW + 10))
        .expect("written");
    identity
        .persist_generation(Generation(NOW + 5))
        .expect("written");
    drop(identity);
    assert_eq!(
        dir.open(NOW).expect("opened").generation(),
        Generation(NOW + 11)
    );
}

/// A process killed while it creates the database leaves it beside its place.
#[test]
fn what_a_killed_process_left_behind_is_harmless() {
    let dir = TestDir::with_generation(NOW);
    let torn = dir.data().join("rumord.db.new");
    fs::rename(dir.file(), &torn).expect("moved");
    let store = dir.open(NOW + 5).expect("opened");
    assert_eq!(
        (store.node_id(), store.generation()),
        (NodeId(0xabcd), Generation(NOW + 5))
    );
    assert!(!torn.exists());
}

#[test]
fn a_database_of_something_else_is_refused_and_left_alone() {
    let dir = TestDir::new();
    fs::create_dir(dir.data()).expect("created");
    let other = Connection::open(dir.file()).expect("created");
    other
        .execute_batch("create table mine (x);")
        .expect("written");
    drop(other);
    let bytes = fs::read(dir.file()).expect("there");
    let message = refusal(dir.open(NOW));
    assert!(message.contains("none of rumord"), "{message}");
    assert_eq!(fs::read(dir.file()).expect("there"), bytes);
    assert_eq!(dir.files(), ["lock", "rumord.db"]);
}

#[test]
fn a_database_of_a_later_version_is_refused_and_left_alone() {
    let dir = TestDir::with_generation(NOW);
    let later = Connection::open(dir.file()).expect("opened");
    later
        .pragma_update(None, "user_version", 7)
        .expect("written");
    drop(later);
    let bytes = fs::read(dir.file()).expect("there");
    let message = refusal(dir.open(NOW));
    assert!(
        message.contains("schema 7") && message.contains("later rumord"),
        "{message}"
    );
    assert_eq!(fs::read(dir.file()).expect("there"), bytes);
}

#[test]
fn a_damaged_database_is_moved_aside_and_replaced() {
    let mut torn_inside = fs::read(TestDir::with_generation(NOW).file()).expect("there");
    torn_inside[200..].fill(0xa5);
    let damaged: [&[u8]; 4] = [b"", b"{", &[0; 8192], &torn_inside];
    for bytes in damaged {
        let dir = TestDir::holding(bytes);
        let store = dir.open(NOW).expect("never a crash loop");
        assert_eq!(
            (store.node_id(), store.generation()),
            (NodeId(0xabcd), Generation(NOW))
        );
        drop(store);
        let files = dir.files();
        let [_lock, _database, aside] = &files[..] else {
            panic!("{files:?}");
        };
        assert!(aside.starts_with("rumord.db.damaged-"), "{files:?}");
        assert_eq!(fs::read(dir.data().join(aside)).expect("kept"), bytes);
        assert!(dir.open(NOW).is_ok());
    }
}
