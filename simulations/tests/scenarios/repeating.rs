//! The same seed, the same bytes.

use rumord_sim::trace::Tracing;
use rumord_sim::{Carried, Link, Options, Restart, World};

use crate::stage::seconds;

/// A bit of everything, as a trace.
fn eventful_run(seed: u64) -> String {
    let mut world = World::new(Options {
        tracing: Tracing::On,
        link: Link {
            duplicated: 0.05,
            reordered: 0.1,
            reordered_by: seconds(0.05),
            ..Link::LAN.losing(0.1)
        },
        ..Options::seeded(seed)
    });
    let nodes = world.start_cluster(8);
    world.pause(nodes[1], seconds(3.0));
    world.run_for(seconds(5.0));
    world.crash(nodes[2]);
    let cut = world.cut(nodes[3], nodes[4], Carried::Everything);
    world.run_for(seconds(10.0));
    world.lift(cut);
    world.restart(nodes[2], Restart::default());
    world.leave(nodes[5], seconds(1.0));
    world.run_for(seconds(10.0));
    world.trace().to_owned()
}

#[test]
fn one_seed_is_one_run() {
    let (first, second) = (eventful_run(7), eventful_run(7));
    assert!(first.len() > 50_000, "{} bytes", first.len());
    let differs = first.lines().zip(second.lines()).find(|(a, b)| a != b);
    assert_eq!(differs, None);
    assert!(first == second);
}

#[test]
fn another_seed_is_another_run() {
    assert!(eventful_run(7) != eventful_run(8));
}

/// Every kind of line occurs, so that the comparison compares something.
#[test]
fn the_trace_shows_what_happened() {
    let trace = eventful_run(9);
    let verbs = [
        "start", "join", "pause", "resume", "stop", "lay", "lift", "leave", "send", "hear", "lose",
        "connect", "request", "answer", "wake", "event",
    ];
    for verb in verbs {
        let shown = trace
            .lines()
            .any(|line| line.split(' ').nth(2) == Some(verb));
        assert!(shown, "no line says {verb}");
    }
}
