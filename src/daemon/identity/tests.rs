//! Restarts, second processes, damaged files and wrong clocks.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::sync::atomic::{AtomicU32, Ordering};

use super::*;

const NOW: u64 = RELEASE_UNIX_SECONDS + 1000;
const DAY: u64 = 24 * 3600;

/// A directory of its own for each test, removed at its end.
struct TestDir(PathBuf);

impl TestDir {
    fn new() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("rumord-identity-{}-{number}", std::process::id());
        let path = std::env::temp_dir().join(name);
        fs::create_dir(&path).expect("a fresh directory");
        TestDir(path)
    }

    fn data(&self) -> PathBuf {
        self.0.join("data")
    }

    fn file(&self) -> PathBuf {
        self.data().join(IDENTITY_FILE)
    }

    fn open(&self, now: u64) -> Result<Identity, IdentityError> {
        Identity::open(&self.data(), "default", now, || 0xabcd)
    }

    /// A data directory that holds `text` as its identity.
    fn holding(text: &str) -> Self {
        let dir = TestDir::new();
        fs::create_dir(dir.data()).expect("created");
        fs::write(dir.file(), text).expect("written");
        dir
    }

    fn with_generation(generation: u64) -> Self {
        Self::holding(&format!(
            r#"{{"cluster":"default","node_id":"00000000000000ff","generation":{generation}}}"#
        ))
    }
}

impl Drop for TestDir {
    fn drop(&mut self) {
        // Best effort: a leftover directory harms no other test.
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn refusal(result: Result<Identity, IdentityError>) -> String {
    let error = result.expect_err("must be refused");
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
    let again = Identity::open(&dir.data(), "default", NOW, || 7).expect("opened");
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
    let text = fs::read_to_string(dir.file()).expect("there");
    let expected = format!(
        "{{\"cluster\":\"default\",\"node_id\":\"000000000000abcd\",\"generation\":{NOW}}}\n"
    );
    assert_eq!(text, expected);
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

/// A process killed between writing and renaming leaves its temporary file, whole or torn.
#[test]
fn what_a_killed_process_left_behind_is_harmless() {
    let dir = TestDir::with_generation(NOW);
    fs::write(file::temporary(&dir.file()), r#"{"cluster":"def"#).expect("written");
    let identity = dir.open(NOW).expect("opened");
    assert_eq!(
        (identity.node_id(), identity.generation()),
        (NodeId(0xff), Generation(NOW + 1))
    );
    assert!(!file::temporary(&dir.file()).exists());
}

#[test]
fn a_damaged_or_foreign_file_is_refused_and_left_alone() {
    let foreign = [
        "",
        "{",
        "[]",
        r#"{"cluster":"default"}"#,
        r#"{"cluster":"default","node_id":"xyz","generation":1}"#,
        r#"{"cluster":"default","node_id":"+0000000000000ff","generation":1}"#,
        r#"{"cluster":"default","node_id":"00000000000000ff","generation":-1}"#,
    ];
    for text in foreign {
        let dir = TestDir::holding(text);
        let message = refusal(dir.open(NOW));
        assert!(
            message.contains("identity.json") && message.contains("move it away"),
            "{message}"
        );
        assert_eq!(fs::read_to_string(dir.file()).expect("there"), text);
    }
}

#[test]
fn an_identity_of_another_cluster_is_taken_over() {
    let dir = TestDir::with_generation(NOW);
    let moved = Identity::open(&dir.data(), "other", NOW, || 1).expect("opened");
    assert_eq!(
        (moved.node_id(), moved.generation()),
        (NodeId(0xff), Generation(NOW + 1))
    );
    assert!(
        fs::read_to_string(dir.file())
            .expect("there")
            .contains("\"other\"")
    );
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
    let dir = TestDir::holding("a file, not a directory");
    let below = dir.file().join("data");
    let message = refusal(Identity::open(&below, "default", NOW, || 1));
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

/// Permissions do not bind the superuser, so a directory in the way of the file stands in.
#[test]
fn a_failed_write_is_reported_and_works_again_once_the_cause_is_gone() {
    let dir = TestDir::new();
    let identity = dir.open(NOW).expect("opened");
    let obstacle = file::temporary(&dir.file());
    fs::create_dir(&obstacle).expect("created");
    assert!(identity.persist_generation(Generation(NOW + 10)).is_err());
    let kept = fs::read_to_string(dir.file()).expect("there");
    assert!(
        kept.contains(&format!("{NOW}}}")),
        "the old file is intact: {kept}"
    );
    fs::remove_dir(&obstacle).expect("removed");
    identity
        .persist_generation(Generation(NOW + 10))
        .expect("written");
}
