//! A sweep in parts: merged, it is the same bytes as one command; what does not fit is named.

use std::fs;
use std::path::{Path, PathBuf};

use crate::commands::{directory, printed};

/// Commands that are made in parts, each with several runs.
const COMMANDS: [&[&str]; 5] = [
    &["detect", "--nodes", "4", "--loss", "0,0.1", "--runs", "3"],
    &[
        "detect",
        "--nodes",
        "4..8",
        "--loss",
        "0,0.2",
        "--burst",
        "0.5",
        "--healthy",
        "40",
        "--detector",
        "slots,round-robin,foca",
        "--runs",
        "2",
    ],
    &[
        "converge", "--nodes", "4..16", "--loss", "0,0.1", "--runs", "2",
    ],
    &["swarm", "--seeds", "1..7"],
    &[
        "interval",
        "--nodes",
        "8",
        "--slow",
        "1,3",
        "--length",
        "512",
        "--between",
        "64",
        "--lasting",
        "10",
        "--apart",
        "--detector",
        "slots,swim",
        "--runs",
        "2",
    ],
];

fn text(path: &Path) -> &str {
    path.to_str().expect("a plain path")
}

/// The names and texts of all files in a directory.
fn files(path: &Path) -> Vec<(String, String)> {
    let entries = fs::read_dir(path).expect("a directory");
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.expect("a file").path()).collect();
    paths.sort();
    let name = |path: &Path| path.file_name().map(|name| name.to_string_lossy().into());
    let read = |path: PathBuf| {
        let text = fs::read_to_string(&path).expect("a text");
        (name(&path).expect("a name"), text)
    };
    paths.into_iter().map(read).collect()
}

/// Makes one shard of `command`; returns why it failed.
fn make(command: &[&str], shard: &str, out: &Path) -> Option<String> {
    let sweep = [&["sweep", "--shard", shard], command, &["--out", text(out)]];
    printed(&sweep.concat()).1
}

/// A sweep of two shards of a small `detect`, each with three runs.
fn two_shards(name: &str) -> PathBuf {
    let path = directory(name);
    for shard in ["0/2", "1/2"] {
        assert_eq!(make(COMMANDS[0], shard, &path), None);
    }
    path
}

/// What `merge` says about parts that are no sweep.
fn refused(paths: &[&Path]) -> String {
    let paths = paths.iter().map(|path| text(path));
    let arguments: Vec<&str> = std::iter::once("merge").chain(paths).collect();
    let (told, trouble) = printed(&arguments);
    assert_eq!(told, "", "nothing is reported");
    trouble.expect("it is refused")
}

#[test]
fn merged_parts_are_the_same_bytes_as_one_command() {
    for command in COMMANDS {
        let whole = directory("whole");
        let expected = printed(&[command, &["--out", text(&whole)]].concat());
        assert_eq!(expected.1, None, "{}", expected.0);
        for count in 1..=3 {
            let (parts, merged) = (directory("parts"), directory("merged"));
            for index in 0..count {
                assert_eq!(make(command, &format!("{index}/{count}"), &parts), None);
            }
            assert_eq!(files(&parts).len(), count, "one file each, none beside it");
            let told = printed(&["merge", text(&parts), "--out", text(&merged)]);
            assert!(told == expected, "{} parts of {command:?}", count);
            assert!(files(&merged) == files(&whole), "files of {command:?}");
            for path in [parts, merged] {
                fs::remove_dir_all(path).expect("it was made");
            }
        }
        fs::remove_dir_all(whole).expect("it was made");
    }
}

/// The seeds that a swarm's failure lists; none without one.
fn failed_seeds(trouble: &Option<String>) -> Vec<u64> {
    let Some(reason) = trouble else {
        return Vec::new();
    };
    let list = reason.strip_prefix("failed with the seeds [");
    let list = list.and_then(|list| list.strip_suffix(']'));
    let seeds = list.expect("the reason lists them").split(", ");
    seeds.map(|seed| seed.parse().expect("a seed")).collect()
}

/// Also for runs that fail: the same report, the same reason, and the failing seeds' files.
#[test]
fn a_broken_promise_is_told_by_its_shard_and_by_the_merge() {
    let broken = "heartbeats-revive-the-dead";
    let command = ["swarm", "--seeds", "10..13", "--broken", broken];
    let (whole, merged, parts) = (directory("b"), directory("b-merged"), directory("b-parts"));
    let expected = printed(&[&command[..], &["--out", text(&whole)]].concat());
    let failed = failed_seeds(&expected.1);
    assert!(failed.len() >= 2, "broken cores are caught: {failed:?}");
    for (shard, odd) in [("0/2", 0), ("1/2", 1)] {
        let mut own = failed.clone();
        own.retain(|seed| seed % 2 == odd);
        assert_eq!(failed_seeds(&make(&command, shard, &parts)), own, "{shard}");
    }
    let told = printed(&["merge", text(&parts), "--out", text(&merged)]);
    assert!(told == expected, "{}", told.0);
    assert!(files(&merged) == files(&whole));
    let kept = files(&merged).len();
    assert_eq!(kept, 1 + failed.len(), "a file for each failing seed");
    for path in [whole, merged, parts] {
        fs::remove_dir_all(path).expect("it was made");
    }
}

#[test]
fn shards_from_several_places_are_merged_in_any_order() {
    let (here, there) = (directory("here"), directory("there"));
    assert_eq!(make(COMMANDS[0], "0/2", &there), None);
    assert_eq!(make(COMMANDS[0], "1/2", &here), None);
    let file = there.join("detect-0-of-2.jsonl");
    let merged = printed(&["merge", text(&here), text(&file)]);
    assert_eq!(merged, printed(COMMANDS[0]));
    for path in [here, there] {
        fs::remove_dir_all(path).expect("it was made");
    }
}

#[test]
fn missing_and_doubled_shards_are_named() {
    let path = two_shards("missing");
    let second = path.join("detect-1-of-2.jsonl");
    let doubled = refused(&[&path, &second]);
    assert!(doubled.contains("are both shard 1/2"), "{doubled}");
    fs::remove_file(&second).expect("it was made");
    let missing = refused(&[&path]);
    assert!(
        missing.starts_with("1 of 2 shards missing: 1/2;"),
        "{missing}"
    );
    fs::remove_dir_all(&path).expect("it was made");
    fs::create_dir_all(&path).expect("a directory");
    assert!(refused(&[&path]).contains("holds no file of a sweep"));
    fs::remove_dir_all(path).expect("it was made");
}

#[test]
fn parts_of_different_sweeps_are_not_merged() {
    let path = directory("different");
    let other = ["detect", "--nodes", "4", "--loss", "0,0.1", "--runs", "2"];
    assert_eq!(make(COMMANDS[0], "0/2", &path), None);
    assert_eq!(make(&other, "1/2", &path), None);
    let runs = refused(&[&path]);
    assert!(
        runs.contains("detect-1-of-2.jsonl are of different sweeps: runs is 3 and 2;"),
        "{runs}"
    );
    assert_eq!(make(COMMANDS[0], "2/3", &path), None);
    assert!(refused(&[&path]).contains("different sweeps: "));
    assert_eq!(make(COMMANDS[3], "1/2", &path), None);
    assert!(refused(&[&path]).contains("different sweeps: "));
    fs::remove_dir_all(path).expect("it was made");
}

#[test]
fn a_damaged_part_is_named_with_its_line() {
    let path = two_shards("damaged");
    let file = path.join("detect-1-of-2.jsonl");
    let whole = fs::read_to_string(&file).expect("a text");
    let lines: Vec<&str> = whole.lines().collect();
    assert_eq!(lines.len(), 1 + 3, "a header and three runs");
    let header = lines[0];
    let version = header.replace(env!("CARGO_PKG_VERSION"), "0.0.0");
    let cases: [(&str, String, &str); 8] = [
        (
            "cut in a line",
            whole[..whole.len() - 20].into(),
            ":4: no finding of detect (EOF",
        ),
        (
            "cut after a line",
            lines[..3].join("\n"),
            ":3: ends before run 5; make it again",
        ),
        (
            "a line too much",
            whole.clone() + lines[3],
            ":5: run 5 does not belong here",
        ),
        (
            "a line of another",
            whole.replace("\"run\":3", "\"run\":2"),
            ":3: run 2 does not",
        ),
        (
            "no JSON",
            whole.replace(lines[1], "x"),
            ":2: no finding of detect (expected value",
        ),
        (
            "another program's",
            whole.replace(header, "{\"a\":1}"),
            ":1: no header of a sweep (unk",
        ),
        ("empty", String::new(), ":1: no header of a sweep (EOF"),
        (
            "another version",
            whole.replace(header, &version),
            ":1: written by version 0.0.0",
        ),
    ];
    for (what, damaged, expected) in cases {
        fs::write(&file, damaged).expect("it was made");
        let refused = refused(&[&path]);
        let start = format!("{}{expected}", file.display());
        assert!(refused.starts_with(&start), "{what}: {refused}");
    }
    fs::remove_dir_all(path).expect("it was made");
}

/// Another build of the same version may know arguments that this one does not.
#[test]
fn an_unknown_argument_is_not_left_out() {
    let path = directory("unknown");
    assert_eq!(make(COMMANDS[0], "0/1", &path), None);
    let file = path.join("detect-0-of-1.jsonl");
    let whole = fs::read_to_string(&file).expect("a text");
    let more = whole.replace("\"runs\":3", "\"runs\":3,\"walks\":3");
    assert_ne!(more, whole);
    fs::write(&file, more).expect("it was made");
    assert!(refused(&[&path]).contains("\"walks\":3} are no arguments of detect"));
    fs::remove_dir_all(path).expect("it was made");
}

#[test]
fn a_sweep_without_a_shard_or_a_place_is_refused() {
    let (_, trouble) = printed(&["sweep", "detect", "--out", "x"]);
    assert!(trouble.is_some_and(|trouble| trouble.contains("give --shard i/n")));
    let (_, trouble) = printed(&["sweep", "--shard", "0/2", "detect"]);
    assert!(trouble.is_some_and(|trouble| trouble.contains("give --out DIR")));
}

/// A progress bar is for terminals: pipes get the table and nothing else.
#[test]
fn progress_is_not_shown_in_pipes() {
    let program = env!("CARGO_BIN_EXE_rumord-sim");
    let output = std::process::Command::new(program)
        .args(["detect", "--nodes", "4", "--runs", "2"])
        .output()
        .expect("it runs");
    assert!(output.status.success());
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
    let table = printed(&["detect", "--nodes", "4", "--runs", "2"]).0;
    assert_eq!(String::from_utf8_lossy(&output.stdout), table);
}
