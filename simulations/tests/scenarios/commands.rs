//! What the simulator's commands print and write: figures within bounds, the same bytes again.

use clap::Parser;
use rumord_sim::commands::{CommandLine, run};
use rumord_sim::converge::{Trial, converge};
use rumord_sim::fit::{Line, Sample};

/// What a command line prints, and why it failed.
pub fn printed(arguments: &[&str]) -> (String, Option<String>) {
    let all = ["rumord-sim"].iter().chain(arguments);
    let command_line = CommandLine::try_parse_from(all).expect("a command line");
    let mut out = Vec::new();
    let trouble = run(&command_line, &mut out).err();
    let text = String::from_utf8(out).expect("text");
    (text, trouble.map(|trouble| trouble.to_string()))
}

/// A directory of this test's own, empty.
pub fn directory(name: &str) -> std::path::PathBuf {
    let path = std::env::temp_dir().join(format!("rumord-sim-{}-{name}", std::process::id()));
    let _ = std::fs::remove_dir_all(&path);
    path
}

#[test]
fn every_named_scenario_holds() {
    let (list, _) = printed(&["scenario"]);
    assert_eq!(list.lines().count(), 12, "{list}");
    let (told, trouble) = printed(&["scenario", "all", "--seed", "2"]);
    assert_eq!(trouble, None, "{told}");
    assert_eq!(told.matches("\n  holds\n").count(), 12, "{told}");
    let (_, trouble) = printed(&["scenario", "no-such"]);
    assert!(trouble.is_some_and(|trouble| trouble.contains("lists them")));
}

/// The time until all know grows with the logarithm of the size.
#[test]
fn a_doubling_of_the_cluster_costs_a_fraction_of_a_millisecond() {
    let mean = |nodes: usize| {
        let mut milliseconds = Vec::new();
        for seed in [1, 2] {
            let loss = 0.0;
            let times = converge(&Trial { nodes, loss, seed });
            assert_eq!(times.lost, 0, "N = {nodes}");
            milliseconds.extend(times.milliseconds);
        }
        Sample::new(milliseconds).mean()
    };
    let sizes = [16, 32, 64, 128, 256, 512].map(|nodes| (libm::log2(nodes as f64), mean(nodes)));
    let line = Line::through(&sizes).expect("six sizes");
    println!("{line:?}");
    assert!(line.r_squared > 0.98, "{line:?}");
    assert!((0.2..0.5).contains(&line.slope), "{line:?}");
}

#[test]
fn converge_writes_the_same_bytes_on_any_number_of_threads() {
    let written = |threads: &str| {
        let path = directory(&format!("converge-{threads}"));
        let out = path.to_str().expect("a plain path").to_owned();
        let shared = [
            "converge", "--nodes", "16..64", "--loss", "0,0.1", "--runs", "1",
        ];
        let arguments = [&shared[..], &["--threads", threads, "--out", &out]].concat();
        let (table, trouble) = printed(&arguments);
        assert_eq!(trouble, None, "{table}");
        let file = |name: &str| std::fs::read_to_string(path.join(name)).expect("it was written");
        let files = (table, file("converge.jsonl"), file("converge.svg"));
        std::fs::remove_dir_all(&path).expect("it was made");
        files
    };
    let (table, lines, picture) = written("1");
    assert!(table.contains("ms per doubling"), "{table}");
    assert_eq!(lines.lines().count(), 6 + 4, "{lines}");
    assert!(picture.contains("<polygon"), "a band");
    assert!((table, lines, picture) == written("2"));
}

#[test]
fn detect_finds_every_crash_and_accuses_nobody_else() {
    let path = directory("detect");
    let out = path.to_str().expect("a plain path").to_owned();
    for schedule in ["slots", "round-robin"] {
        let arguments = [
            "detect",
            "--nodes",
            "20",
            "--runs",
            "10",
            "--loss",
            "0,0.1",
            "--schedule",
            schedule,
            "--out",
            &out,
        ];
        let (table, trouble) = printed(&arguments);
        assert_eq!(trouble, None, "{table}");
        assert_eq!(table.matches("0 deaths").count(), 2, "{table}");
        let file = |name: &str| std::fs::read_to_string(path.join(name)).expect("it was written");
        assert_eq!(file("detect.jsonl").lines().count(), 20);
        assert!(file("mistakes.svg").contains("per member and hour"));
    }
    std::fs::remove_dir_all(&path).expect("it was made");
}

#[test]
fn a_file_that_no_swarm_wrote_is_no_replay() {
    let path = directory("replay");
    std::fs::create_dir_all(&path).expect("a directory");
    let file = path.join("x.json");
    std::fs::write(&file, "{}").expect("a file");
    let (_, trouble) = printed(&["replay", file.to_str().expect("a plain path")]);
    assert!(trouble.is_some_and(|trouble| trouble.contains("give one a swarm wrote")));
    std::fs::remove_dir_all(&path).expect("it was made");
}
