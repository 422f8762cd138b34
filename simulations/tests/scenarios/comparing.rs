//! Another protocol in the same world: it is driven as it wants to be, and so can be compared.

use std::time::Duration;

use rumord_sim::compare::contender::{Change, Contender, Member, Profile, Setting, View};
use rumord_sim::compare::lifeguard::Settings;
use rumord_sim::compare::{FocaWorld, LifeguardWorld, RumordWorld};

use crate::commands::{directory, printed};
use crate::stage::seconds;

fn settled<C: Contender>(nodes: usize, loss: f64, seed: u64) -> (C, Vec<Member>) {
    let mut contender = C::empty(&Setting::lan(nodes, loss, seed));
    let members = contender.start_full(nodes);
    contender.run_for(seconds(10.0));
    (contender, members)
}

/// Verdicts of death so far.
fn verdicts(contender: &mut impl Contender) -> Vec<Change> {
    let mut changes = contender.take_changes();
    changes.retain(|change| change.to == View::Dead);
    changes
}

/// Until all hold `victim` for dead after it crashes.
fn crash<C: Contender>(seed: u64) -> Duration {
    let (mut contender, members) = settled::<C>(10, 0.0, seed);
    let crashed = contender.now();
    contender.crash(members[3]);
    while !contender.is_held_dead(members[3]) {
        contender.run_for(Duration::from_millis(1));
        assert!(contender.now().since(crashed) < seconds(30.0), "missed");
    }
    let verdicts = verdicts(&mut contender);
    assert_eq!(verdicts.len(), members.len() - 1, "{verdicts:?}");
    assert!(verdicts.iter().all(|verdict| verdict.subject == members[3]));
    contender.now().since(crashed)
}

/// foca suspects for four seconds at this size, and needs a probe and a period before.
#[test]
fn both_find_a_crash_in_the_same_world() {
    for seed in 1..=5 {
        let foca = crash::<FocaWorld>(seed);
        assert!((4.5..20.0).contains(&foca.as_secs_f64()), "{foca:?}");
        let rumord = crash::<RumordWorld>(seed);
        assert!((4.5..8.0).contains(&rumord.as_secs_f64()), "{rumord:?}");
    }
}

/// Lifeguard suspects for 4 to 24 s at this size: 4, once two others have confirmed it.
#[test]
fn lifeguard_finds_a_crash_when_it_is_confirmed() {
    for seed in 1..=5 {
        let found = crash::<LifeguardWorld>(seed).as_secs_f64();
        assert!((5.0..20.0).contains(&found), "seed {seed}: {found}");
    }
}

/// What its authors gave it against slow members, each by itself: a suspicion that rides on the
/// ping of the suspect, and verdicts that wait for confirmations. Without, at 30 % loss, most are
/// wrong.
#[test]
fn lifeguard_is_wrong_less_often_than_swim() {
    let wrong = |settings: Settings| {
        let setting = Setting::lan(32, 0.3, 4);
        let mut contender = LifeguardWorld::with(&setting, settings);
        contender.start_full(32);
        contender.run_for(seconds(120.0));
        verdicts(&mut contender).len()
    };
    let swim = wrong(Settings::swim(Profile::Lan));
    let lifeguard = wrong(Settings::lifeguard(Profile::Lan));
    assert!(swim > 500 && lifeguard < swim / 20, "{swim}, {lifeguard}");
}

fn comes_back<C: Contender>() {
    let (mut contender, members) = settled::<C>(8, 0.0, 1);
    contender.crash(members[2]);
    contender.run_for(seconds(2.0));
    contender.restart(members[2]);
    assert!(!contender.is_shown_alive(members[2]), "nobody has heard");
    contender.run_for(seconds(5.0));
    assert!(contender.is_shown_alive(members[2]));
    contender.pause(members[1], seconds(3.0));
    let before = contender.sent();
    contender.run_for(seconds(20.0));
    assert!(contender.sent().datagrams > before.datagrams);
    assert!(members.iter().all(|&each| contender.is_shown_alive(each)));
}

#[test]
fn all_come_back_after_a_restart_and_a_pause() {
    comes_back::<RumordWorld>();
    comes_back::<FocaWorld>();
    comes_back::<LifeguardWorld>();
}

fn knows_change_and_newcomer<C: Contender>() {
    let (mut contender, members) = settled::<C>(8, 0.0, 3);
    assert!(!contender.is_change_known(), "nothing was told");
    contender.tell_change(members[5]);
    assert!(!contender.is_change_known(), "nobody has heard");
    contender.run_for(seconds(40.0));
    assert!(contender.is_change_known());
    let new = contender.start_joining(members[0]);
    assert!(!contender.is_shown_alive(new), "nobody has heard");
    contender.run_for(seconds(40.0));
    assert!(contender.is_shown_alive(new));
}

#[test]
fn all_tell_of_a_change_and_of_a_newcomer() {
    knows_change_and_newcomer::<RumordWorld>();
    knows_change_and_newcomer::<FocaWorld>();
    knows_change_and_newcomer::<LifeguardWorld>();
}

fn parts_and_meets<C: Contender>() {
    let (mut contender, members) = settled::<C>(8, 0.0, 2);
    contender.isolate(&members[..4]);
    contender.run_for(seconds(30.0));
    assert!(!contender.is_shown_alive(members[0]), "it was cut off");
    contender.reconnect();
    contender.run_for(seconds(280.0));
    assert!(members.iter().all(|&each| contender.is_shown_alive(each)));
}

#[test]
fn both_are_one_again_after_a_partition() {
    parts_and_meets::<RumordWorld>();
    parts_and_meets::<FocaWorld>();
}

/// What our core does for certain: in ten minutes of 10 % loss nobody that runs is held for dead.
#[test]
fn loss_makes_our_core_hold_nobody_for_dead() {
    let (mut contender, _) = settled::<RumordWorld>(10, 0.1, 1);
    contender.run_for(seconds(600.0));
    assert_eq!(verdicts(&mut contender), Vec::new());
}

#[test]
fn compare_writes_the_same_bytes_on_any_number_of_threads() {
    let told = |threads: &str| {
        let path = directory(&format!("compare-{threads}"));
        let out = path.to_str().expect("text");
        let arguments = [
            "compare",
            "--nodes",
            "5",
            "--loss",
            "0.1",
            "--runs",
            "2",
            "--threads",
            threads,
            "--out",
            out,
        ];
        let (text, trouble) = printed(&arguments);
        assert_eq!(trouble, None);
        let read = |name: &str| std::fs::read_to_string(path.join(name)).expect(name);
        let files = [read("compare.jsonl"), read("compare.svg")];
        std::fs::remove_dir_all(&path).expect("removed");
        (text, files)
    };
    let (text, [lines, picture]) = told("1");
    assert_eq!((text.clone(), [lines.clone(), picture.clone()]), told("2"));
    assert!(text.contains("5 members, loss 10 %, 2 runs"), "{text}");
    // 8 measures, 4 protocols, 2 runs.
    assert_eq!(lines.lines().count(), 64, "{lines}");
    assert!(picture.contains("SWIM formula"), "{picture}");
}

/// A wall clock decides these figures, so only their shape is sure.
#[test]
fn the_table_of_speeds_has_a_line_for_each_size() {
    let (text, trouble) = printed(&["compare", "--speed", "--nodes", "4,8", "--runs", "1"]);
    assert_eq!(trouble, None);
    let lines: Vec<&str> = text.lines().collect();
    assert!(lines[0].contains("depends on the machine"), "{text}");
    assert_eq!(lines.len(), 4, "{text}");
    for (line, nodes) in lines[2..].iter().zip(["4", "8"]) {
        let cells: Vec<&str> = line.split_whitespace().collect();
        assert_eq!(cells[0], nodes, "{text}");
        let ratio: f64 = cells[5].parse().expect("a ratio");
        assert!(ratio > 0.0, "{text}");
    }
}

/// An announcement that is lost is made again: at 50 % loss three in four are, there or back.
#[test]
fn foca_joins_though_announcements_are_lost() {
    for seed in 1..=4 {
        let mut contender = FocaWorld::empty(&Setting::lan(3, 0.5, seed));
        let members = contender.start_full(2);
        let new = contender.start_joining(members[0]);
        let start = contender.now();
        while !contender.is_shown_alive(new) {
            contender.run_for(Duration::from_millis(100));
            assert!(contender.now().since(start) < seconds(60.0), "seed {seed}");
        }
    }
}
