//! What the simulator's commands print and write: figures within bounds, the same bytes again.

use clap::Parser;
use rumord_sim::commands::{CommandLine, run};
use rumord_sim::converge::{Spreader, Trial, converge};
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

/// Scenarios of many members that all have much to do.
const LARGE: [&str; 12] = [
    "restart-of-all",
    "cold-start",
    "steady-joins",
    "missed-update",
    "steady-changes",
    "lossy-nodes",
    "lossy-nodes-in",
    "lossy-nodes-out",
    "loss-jump",
    "long-pauses",
    "quarter-crash",
    "halves",
];

fn assert_holds(name: &str) {
    let (told, trouble) = printed(&["scenario", name, "--seed", "2"]);
    assert_eq!(trouble, None, "{told}");
    assert!(told.contains("\n  holds\n"), "{told}");
}

#[test]
#[cfg_attr(debug_assertions, ignore = "takes minutes; run it with --release")]
fn every_large_scenario_holds() {
    LARGE.into_iter().for_each(assert_holds);
}

#[test]
fn every_named_scenario_holds() {
    let (list, _) = printed(&["scenario"]);
    assert_eq!(list.lines().count(), 52, "{list}");
    let names = list.lines().filter_map(|line| line.split(' ').next());
    for name in names.filter(|name| !LARGE.contains(name)) {
        assert_holds(name);
    }
    let (_, trouble) = printed(&["scenario", "no-such"]);
    assert!(trouble.is_some_and(|trouble| trouble.contains("lists them")));
}

/// Mean time until all know a change, in milliseconds, over `runs` runs of 50 changes.
fn mean_time(nodes: usize, loss: f64, spreader: Spreader, runs: u64) -> f64 {
    let mut milliseconds = Vec::new();
    for seed in 1..=runs {
        let times = converge(&Trial {
            nodes,
            loss,
            changes: 50,
            together: if spreader == Spreader::Product { 1 } else { 50 },
            spreader,
            seed,
        });
        assert_eq!(times.lost, 0, "N = {nodes}, seed {seed}");
        milliseconds.extend(times.milliseconds);
    }
    Sample::new(milliseconds).mean()
}

/// The time until all know grows with the logarithm of the size.
#[test]
fn a_doubling_of_the_cluster_costs_a_fraction_of_a_millisecond() {
    let mean = |nodes| mean_time(nodes, 0.0, Spreader::Product, 1);
    let sizes = [16, 32, 64, 128, 256].map(|nodes| (libm::log2(nodes as f64), mean(nodes)));
    let line = Line::through(&sizes).expect("five sizes");
    println!("{line:?}");
    assert!(line.r_squared > 0.98, "{line:?}");
    assert!((0.2..0.5).contains(&line.slope), "{line:?}");
}

/// SWIM's infection, as others have simulated it: push in the ping and pull in the ack, round-robin
/// targets at fixed random phases, every message carrying everything. Periods until all know.
#[test]
fn the_infection_alone_is_as_fast_as_the_literature_says() {
    let expected = [
        (16, 0.0, 2.61),
        (64, 0.0, 3.96),
        (256, 0.0, 5.15),
        (16, 0.3, 4.87),
        (64, 0.3, 7.53),
        (256, 0.3, 9.99),
    ];
    for (nodes, loss, periods) in expected {
        let mean = mean_time(nodes, loss, Spreader::Infection, 10) / 1000.0;
        println!("N = {nodes}, loss {loss}: {mean:.3}, expected {periods}");
        assert!(
            (mean / periods - 1.0).abs() < 0.06,
            "{nodes}, {loss}: {mean}"
        );
    }
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
        let deaths = table.lines().filter(|line| line.starts_with("deaths "));
        let counts = deaths.map(|line| line.split_whitespace().nth(2));
        assert_eq!(counts.collect::<Vec<_>>(), [Some("0"); 2], "{table}");
        let file = |name: &str| std::fs::read_to_string(path.join(name)).expect("it was written");
        assert_eq!(file("detect.jsonl").lines().count(), 20);
        assert!(file("mistakes.svg").contains("per member and hour"));
    }
    std::fs::remove_dir_all(&path).expect("it was made");
}

/// The last words of a table's row.
fn row<'a>(table: &'a str, name: &str) -> Vec<&'a str> {
    let row = table.lines().find(|line| line.starts_with(name));
    row.expect("a row").split_whitespace().collect()
}

/// Members come back as new lives, and each crash is found like the first.
#[test]
fn several_crash_in_one_cluster_one_after_the_other() {
    let arguments = ["detect", "--nodes", "12", "--runs", "2", "--crashes", "6"];
    for profile in ["local", "lan", "wan"] {
        let (table, trouble) = printed(&[&arguments[..], &["--profile", profile]].concat());
        assert_eq!(trouble, None, "{table}");
        assert_eq!(row(&table, "known everywhere")[2], "12", "{table}");
        let declared: f64 = row(&table, "first declared")[3].parse().expect("seconds");
        let tolerance = match profile {
            "local" => 2.0,
            "lan" => 5.0,
            _ => 10.0,
        };
        assert!((tolerance..tolerance + 2.0).contains(&declared), "{table}");
    }
}

/// foca has no defence against loss: what it gets wrong is told, and is no failure of ours.
#[test]
fn mistakes_of_healthy_clusters_are_counted_with_their_lengths() {
    let arguments = [
        "detect",
        "--nodes",
        "16",
        "--loss",
        "0.3",
        "--healthy",
        "300",
        "--runs",
        "2",
    ];
    let (table, trouble) = printed(&[&arguments[..], &["--detector", "slots,foca"]].concat());
    assert_eq!(trouble, None, "{table}");
    let (ours, theirs) = table.split_once("16, foca").expect("two tables");
    assert_eq!(row(ours, "deaths")[2], "0", "{table}");
    assert_eq!(row(ours, "mistakes")[2], "9600", "2 runs of 16 for 300 s");
    let deaths = row(theirs, "deaths");
    let [count, recurrence, mean]: [f64; 3] =
        [2, 3, 4].map(|place| deaths[place].parse().expect("a figure"));
    assert!(count > 10.0 && mean > 0.0, "{table}");
    assert!((count * recurrence / 9600.0 - 1.0).abs() < 0.01, "{table}");
}

#[test]
fn impossible_detections_are_refused_with_the_remedy() {
    let (_, trouble) = printed(&["detect", "--nodes", "1,8"]);
    assert!(trouble.is_some_and(|trouble| trouble.contains("give --nodes 2 or more")));
    let (_, trouble) = printed(&["detect", "--loss", "0.01", "--burst", "1"]);
    assert!(trouble.is_some_and(|trouble| trouble.contains("or no --burst")));
}

/// Lifeguard's experiment, one combination of each kind.
#[test]
fn slow_members_harm_nobody_else() {
    let arguments = [
        "interval",
        "--nodes",
        "32",
        "--slow",
        "2,8",
        "--length",
        "2048,8192",
        "--between",
        "64,4096",
        "--lasting",
        "30",
        "--detector",
        "slots,lifeguard",
    ];
    let (table, trouble) = printed(&arguments);
    assert_eq!(trouble, None, "{table}");
    let ours = table.lines().filter(|line| line.contains(" slots "));
    let figures: Vec<Vec<&str>> = ours.map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(
        figures.len(),
        4,
        "two anomalies at two numbers of members: {table}"
    );
    for row in &figures {
        assert_eq!((row[3], row[5], row[6]), ("4", "0", "0"), "{table}");
    }
    let (_, trouble) = printed(&["interval", "--nodes", "8", "--slow", "7"]);
    assert!(trouble.is_some_and(|trouble| trouble.contains("give a smaller --slow")));
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
