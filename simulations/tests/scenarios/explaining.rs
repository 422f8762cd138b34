//! A verdict explains itself: who asked when, who saw the same, which rule fired, what refuted it.

use std::time::Duration;

use rumord::member::Status;
use rumord::protocol::{
    CasePhase, CaseReport, Config, Event, EventKind, Evidence, Explanation, PHI_MAX, ProbeOutcome,
    ProbeReport, ProbeWay, Refutation,
};
use rumord_sim::{ProcessId, Restart, World};

use crate::stage::{cluster, seconds, settled};

/// What `observer` says of `subject`.
fn explain(world: &World, observer: ProcessId, subject: ProcessId) -> Explanation {
    let process = world.process(observer);
    let now = process.clock.local(world.now());
    let name = &world.process(subject).name;
    let explained = process.node.explain(name, now);
    explained.unwrap_or_else(|| panic!("{observer} does not list {subject}"))
}

/// phi of `subject` in the table of `observer`.
fn shown_phi(world: &World, observer: ProcessId, subject: ProcessId) -> f64 {
    let process = world.process(observer);
    let now = process.clock.local(world.now());
    let name = &world.process(subject).name;
    let mut members = process.node.members(now);
    let shown = members.find(|member| member.name == *name);
    shown.expect("it is listed").phi
}

fn assert_oldest_first(probes: &[ProbeReport]) {
    let ages: Vec<Duration> = probes.iter().map(|probe| probe.ago).collect();
    assert!(ages.is_sorted_by(|one, other| one >= other), "{ages:?}");
}

/// The parts of a case add up, and its times are in order.
fn assert_consistent(report: &CaseReport) {
    let sum = report.own_misses + report.witnessed + report.heartbeats;
    assert!((sum - report.phi).abs() < 1e-9, "{report:#?}");
    let named: f64 = report.witnesses.iter().map(|it| it.decades).sum();
    assert!(named <= report.witnessed + 1e-9, "{report:#?}");
    assert!(report.witnesses.len() <= report.witness_count.min(12));
    for witness in &report.witnesses {
        assert!(
            witness.answers > 0 && witness.ago <= report.began,
            "{report:#?}"
        );
        assert!((0.0..=1.0).contains(&witness.miss_rate), "{report:#?}");
    }
    assert!(report.suspected.unwrap_or_default() <= report.began);
    assert!(report.probes.len() <= 16);
    assert_oldest_first(&report.probes);
}

/// All that a death rests on is in its evidence.
fn assert_complete(evidence: &Evidence, others: usize) {
    let report = evidence
        .report
        .as_ref()
        .expect("an own verdict has a report");
    assert_consistent(report);
    let config = Config::lan();
    assert_eq!(evidence.rule, "own");
    assert_eq!(
        (evidence.phi, evidence.witnesses),
        (report.phi, report.witness_count)
    );
    assert_eq!(report.phase, CasePhase::Final);
    assert_eq!(report.thresholds.pause_tolerance, config.pause_tolerance);
    assert!(report.phi >= report.thresholds.phi_dead, "{report:#?}");
    assert!(report.late_phi >= report.thresholds.phi_late, "{report:#?}");
    assert!(report.witness_count >= others.min(3), "{report:#?}");
    assert!(report.reachable >= others.min(3), "{report:#?}");
    assert!(
        report.suspected >= Some(config.pause_tolerance),
        "{report:#?}"
    );
    assert!(evidence.silence >= report.began, "{report:#?}");
    assert_eq!(report.lateness, Duration::ZERO);
    assert!(report.contact < config.probe_period, "{report:#?}");
    let asked = |way, outcome| {
        let mut probes = report.probes.iter();
        probes.any(|probe| (probe.way, probe.outcome) == (way, outcome))
    };
    assert!(asked(ProbeWay::Direct, ProbeOutcome::Missed), "{report:#?}");
    assert!(
        asked(ProbeWay::Relayed, ProbeOutcome::Nacked),
        "{report:#?}"
    );
    assert!(!report.probes.iter().any(|it| it.observer.is_none()));
}

#[test]
fn a_death_is_explained_in_full_and_stays_so() {
    for (seed, count) in [(1, 4), (2, 5), (3, 20), (4, 20), (5, 60)] {
        let (mut world, nodes) = settled(seed, count);
        let victim = nodes[1];
        let crashed = world.now();
        world.crash(victim);
        let buried = world.run_until(seconds(10.0), |world| world.everyone_buries(victim));
        assert!(buried.is_some(), "seed {seed}");
        let told = world.news_of(victim, EventKind::MemberDead, crashed);
        let verdicts: Vec<(ProcessId, Evidence)> = told
            .map(|news| {
                (
                    news.observer,
                    news.event.evidence.clone().expect("a verdict"),
                )
            })
            .collect();
        assert_eq!(verdicts.len(), count - 1, "seed {seed}");
        // Long enough for the dead to be looked at many times, and for all that is kept of routine
        // to be replaced.
        world.run_for(seconds(400.0));
        let mut deciders = 0;
        for (observer, evidence) in verdicts {
            let later = explain(&world, observer, victim);
            assert_eq!(later.rule, evidence.rule, "seed {seed}");
            assert_oldest_first(&later.probes);
            if evidence.rule == "told" {
                assert!(evidence.told_by.is_some() && evidence.report.is_none());
                assert_eq!(later.told_by, evidence.told_by);
                assert!(later.accusers.iter().any(|it| it.by == evidence.told_by));
                continue;
            }
            deciders += 1;
            assert_complete(&evidence, count - 2);
            let verdict = later.verdict.expect("kept");
            assert_eq!(
                (verdict.status, &verdict.evidence),
                (Status::Dead, &evidence)
            );
            assert!(
                verdict.ago > seconds(390.0),
                "seed {seed}: {:?}",
                verdict.ago
            );
            assert_eq!(later.rule_ago, Some(verdict.ago));
            assert!(
                later.phi.iter().all(|it| it.ago >= verdict.ago),
                "only the case's"
            );
            assert!(
                later.phi.iter().map(|it| it.phi).is_sorted(),
                "{:#?}",
                later.phi
            );
            let last = later.phi.last().expect("phi was sampled");
            assert!(last.phi >= later.thresholds.phi_dead && last.witnesses >= 2);
        }
        assert!(deciders > 0, "seed {seed}");
    }
}

#[test]
fn a_refuted_suspicion_says_who_raised_it_and_what_lifted_it() {
    let mut by_answer = 0;
    for seed in 1..=5 {
        let (mut world, nodes) = settled(seed, 6);
        let sleeper = nodes[2];
        let since = world.now();
        world.pause(sleeper, seconds(3.0));
        world.run_for(seconds(20.0));
        assert!(world.all_alive(), "seed {seed}");
        let raised = world.news_of(sleeper, EventKind::MemberSuspect, since);
        let raised: Vec<(ProcessId, Evidence)> = raised
            .map(|news| {
                (
                    news.observer,
                    news.event.evidence.clone().expect("a verdict"),
                )
            })
            .collect();
        assert!(raised.iter().any(|(_, it)| it.rule == "own"), "seed {seed}");
        for (observer, evidence) in &raised {
            let now = explain(&world, *observer, sleeper);
            let lifted = now.refutations.iter().map(|it| (it.lifted, it.how));
            let lifted: Vec<_> = lifted.collect();
            assert!(
                lifted.contains(&(Status::Suspect, Refutation::Incarnation)),
                "seed {seed}: {lifted:?}"
            );
            assert!(now.rule == "answered" || now.rule == "told", "{}", now.rule);
            if evidence.rule == "own" {
                let report = evidence.report.as_ref().expect("its own");
                assert_consistent(report);
                assert!(report.phi >= report.thresholds.phi_suspect);
                assert_eq!(now.verdict.expect("kept").status, Status::Suspect);
                let answers = lifted.iter().filter(|it| it.1 != Refutation::Incarnation);
                by_answer += answers.count();
            }
        }
        let own = explain(&world, sleeper, sleeper);
        assert_eq!((&*own.rule, own.heartbeats), ("self", None));
        assert!(own.accusers.iter().any(|it| it.status == Status::Suspect));
        assert!(
            own.refutations
                .iter()
                .any(|it| it.how == Refutation::Incarnation)
        );
        let late: Duration = own.own.lateness.iter().map(|&(_, by)| by).sum();
        assert!(
            late >= seconds(1.0),
            "seed {seed}: it stood still itself, {late:?}"
        );
    }
    assert!(
        by_answer > 0,
        "an accuser may hear the member before its refutation"
    );
}

#[test]
fn a_node_that_is_cut_off_says_that_it_is_the_sick_one() {
    for (seed, count) in [(1, 3), (2, 5), (3, 20)] {
        let (mut world, nodes) = settled(seed, count);
        let alone = nodes[0];
        let rules = world.partition(&[alone]);
        world.run_for(seconds(30.0));
        let shown = |world: &World| {
            let dead = nodes[1..].iter().copied();
            dead.filter(|&other| world.status(alone, other) == Some(Status::Dead))
                .collect::<Vec<_>>()
        };
        let dead = shown(&world);
        assert!(!dead.is_empty(), "seed {seed}");
        for &other in &dead {
            let explained = explain(&world, alone, other);
            assert_eq!(explained.rule, "isolated", "seed {seed}");
            assert!(explained.own.isolated);
            assert!(
                explained.own.contact > Some(seconds(20.0)),
                "{:?}",
                explained.own
            );
            let verdict = explained.verdict.expect("it is its own");
            assert_eq!(
                (&*verdict.evidence.rule, verdict.status),
                ("isolated", Status::Dead)
            );
            assert_consistent(verdict.evidence.report.as_ref().expect("its own"));
        }
        for rule in rules {
            world.lift(rule);
        }
        let back = world.run_until(seconds(20.0), World::all_alive);
        assert!(back.is_some(), "seed {seed}: {:?}", world.matrix());
        for &other in &dead {
            let explained = explain(&world, alone, other);
            assert!(!explained.own.isolated);
            let mut lifted = explained.refutations.iter();
            assert!(lifted.any(|it| it.lifted == Status::Dead), "seed {seed}");
        }
    }
}

/// Dead, and back in the same life: that death was wrong, for as long as it stood. A restart is no
/// mistake.
#[test]
fn false_deaths_are_counted_with_how_long_they_stood() {
    let (mut world, nodes) = settled(7, 5);
    let sleeper = nodes[1];
    world.pause(sleeper, seconds(40.0));
    world.run_for(seconds(41.0));
    assert!(world.run_until(seconds(20.0), World::all_alive).is_some());
    for process in world.up().filter(|process| process.id != sleeper) {
        assert_eq!(process.node.stats().false_deaths, 1, "{}", process.id);
        let mistakes = process.events.iter().filter_map(|(_, event)| match event {
            Event::Mistake { status, lasted, .. } => Some((*status, *lasted)),
            _ => None,
        });
        let deaths: Vec<Duration> = mistakes
            .filter(|&(status, _)| status == Status::Dead)
            .map(|(_, lasted)| lasted)
            .collect();
        let in_time = |lasted: &Duration| (seconds(33.0)..seconds(36.5)).contains(lasted);
        assert!(
            deaths.len() == 1 && deaths.iter().all(in_time),
            "{deaths:?}"
        );
    }
    let victim = nodes[2];
    world.crash(victim);
    world.run_until(seconds(10.0), |world| world.everyone_buries(victim));
    let phi = |world: &World| shown_phi(world, nodes[0], victim);
    let early = phi(&world);
    world.run_for(seconds(600.0));
    let late = phi(&world);
    assert!(
        3.0 < early && early < late && late <= PHI_MAX,
        "{early}, then {late}"
    );
    world.restart(victim, Restart::default());
    assert!(world.run_until(seconds(20.0), World::all_alive).is_some());
    assert_eq!(world.process(nodes[0]).node.stats().false_deaths, 1);
}

/// A large cluster that has been through much: what is kept stays within its limits, and a member
/// that is known from others only says from whom.
#[test]
fn what_is_kept_is_bounded_and_hearsay_names_the_teller() {
    let (mut world, nodes) = cluster(1, 60);
    world.run_for(seconds(5.0));
    let observer = nodes[0];
    let mut hearsay = 0;
    for &other in &nodes[1..] {
        let explained = explain(&world, observer, other);
        if explained.rule == "told" {
            hearsay += usize::from(explained.told_by.is_some());
        }
    }
    assert!(hearsay > 0, "in five seconds a node talks to few of sixty");
    for round in 0..4 {
        for &node in &nodes[10 * (round + 1)..10 * (round + 2)] {
            world.pause(node, seconds(3.0));
        }
        world.run_for(seconds(40.0));
    }
    world.run_for(seconds(60.0));
    let everybody = nodes
        .iter()
        .flat_map(|&one| nodes.iter().map(move |&other| (one, other)));
    for (one, other) in everybody {
        let explained = explain(&world, one, other);
        assert!(explained.probes.len() <= 32 && explained.phi.len() <= 16);
        assert!(explained.accusers.len() <= 8 && explained.refutations.len() <= 8);
        assert!(explained.own.lateness.len() <= 16);
    }
}
