//! Random faults against random clusters: what must hold in all of them, and that it is checked.

use std::ops::ControlFlow;

use rumord_sim::parallel::in_order;
use rumord_sim::swarm::{Failure, Manner, Plan, attempt, shrink};
use rumord_sim::trace::Tracing;
use rumord_sim::world::Tampering;

use crate::commands::printed;

#[test]
fn a_swarm_passes_on_any_number_of_threads() {
    let two = printed(&["swarm", "--seeds", "1..60", "--threads", "2"]);
    assert_eq!(two.1, None, "{}", two.0);
    assert!(two.0.contains("60 runs, 0 failed"), "{}", two.0);
    let one = printed(&["swarm", "--seeds", "1..60", "--threads", "1"]);
    assert!(one == two, "another number of threads, another output");
}

/// Schedules that found something. Each says what.
#[test]
fn schedules_that_once_failed_pass() {
    let found: [(u64, &[usize]); 4] = [
        // All listed a life whose join had been admitted without its hearing of it; its join
        // addresses were gone since, and it never became ready.
        (81042, &[11, 15]),
        (81153, &[10, 11, 12]),
        // One of the last two had believed nobody while its clock was behind; the other, isolated,
        // asked it for nothing but to relay, and relays answer only whom they know.
        (21991, &[1, 4, 7, 9]),
        (31601, &[5, 8]),
    ];
    for (seed, faults) in found {
        let kept = faults.iter().copied().collect();
        for plan in [Plan::draw(seed).keeping(&kept), Plan::draw(seed)] {
            let outcome = attempt(&plan, Manner::PLAIN);
            assert_eq!(outcome.failure, None, "{plan}");
        }
    }
}

#[test]
fn a_replay_is_the_same_run() {
    let once = printed(&["replay", "--seed", "3"]);
    assert_eq!(once.1, None);
    assert!(once.0.lines().count() > 1000, "a trace");
    assert!(once == printed(&["replay", "--seed", "3"]));
}

/// The failures of the first `seeds` seeds with nodes that are broken in this way.
fn failures(tampering: Tampering, seeds: u64) -> Vec<(u64, Failure)> {
    let manner = Manner {
        tracing: Tracing::Off,
        tampering,
    };
    let seeds: Vec<u64> = (1..=seeds).collect();
    let mut failures = Vec::new();
    let work = |&seed: &u64| attempt(&Plan::draw(seed), manner).failure;
    in_order(&seeds, 2, work, |&seed, failure| {
        failures.extend(failure.map(|failure| (seed, failure)));
        ControlFlow::Continue(())
    });
    failures
}

#[test]
fn a_broken_core_is_caught_by_name() {
    let mistakes = [
        (Tampering::HeartbeatsReviveTheDead, "only-the-owner-refutes"),
        (Tampering::RefutationsRaiseNothing, "the-core-agrees"),
        (Tampering::SuspicionIsAVerdict, "nobody-alive-is-buried"),
    ];
    for (tampering, invariant) in mistakes {
        let failures = failures(tampering, 16);
        let caught = failures
            .iter()
            .filter(|(_, failure)| failure.invariant == invariant);
        assert!(caught.count() >= 3, "{tampering:?}: {failures:?}");
    }
}

#[test]
fn a_failing_schedule_is_made_small() {
    let manner = Manner {
        tracing: Tracing::Off,
        tampering: Tampering::HeartbeatsReviveTheDead,
    };
    let mut sizes = Vec::new();
    for (seed, failure) in failures(manner.tampering, 6).iter().take(3) {
        let plan = Plan::draw(*seed);
        let enough = shrink(&plan, manner, &failure.invariant);
        assert!(enough.len() <= plan.faults.len().div_ceil(2), "{plan}");
        let again = attempt(&plan.keeping(&enough), manner).failure;
        assert_eq!(
            again.map(|again| again.invariant),
            Some(failure.invariant.clone())
        );
        sizes.push(enough.len());
    }
    assert!(sizes.iter().any(|&size| size <= 2), "{sizes:?}");
}

/// What a swarm writes about a failing seed can be replayed, and fails again.
#[test]
fn a_failing_seed_leaves_a_file_that_fails_again() {
    let path = std::env::temp_dir().join(format!("rumord-sim-{}-swarm", std::process::id()));
    let out = path.to_str().expect("a plain path").to_owned();
    let broken = "heartbeats-revive-the-dead";
    let arguments = [
        "swarm", "--seeds", "1..10", "--broken", broken, "--out", &out,
    ];
    let (told, trouble) = printed(&arguments);
    assert!(trouble.is_some_and(|trouble| trouble.contains("failed with the seeds")));
    assert!(told.contains("rumord-sim replay --seed"), "{told}");
    let files = std::fs::read_dir(&path).expect("it was made");
    let mut files = files.map(|file| file.expect("a file").path());
    let file = files
        .find(|file| {
            file.extension()
                .is_some_and(|extension| extension == "json")
        })
        .expect("one per failing seed");
    let (trace, trouble) = printed(&["replay", file.to_str().expect("a plain path")]);
    assert!(trouble.is_some_and(|trouble| trouble.contains("only-the-owner-refutes")));
    assert!(trace.contains(" violation only-the-owner-refutes"));
    std::fs::remove_dir_all(&path).expect("it was made");
}
