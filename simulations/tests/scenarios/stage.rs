//! What most scenarios begin and end with.

use std::time::Duration;

use rumord::member::Status;
use rumord::protocol::{Direction, EventKind, Transport};
use rumord::time::Instant;
use rumord_sim::world::{Checking, Keeping};
use rumord_sim::{Options, ProcessId, World};

/// A cluster of `count` nodes that all see all alive.
pub fn cluster(seed: u64, count: usize) -> (World, Vec<ProcessId>) {
    let mut world = World::new(Options::seeded(seed));
    let nodes = world.start_cluster(count);
    (world, nodes)
}

/// The same after it has run for a minute: every member has been probed many times.
pub fn settled(seed: u64, count: usize) -> (World, Vec<ProcessId>) {
    let (mut world, nodes) = cluster(seed, count);
    world.run_for(Duration::from_secs(60));
    (world, nodes)
}

/// Members that know each other from the start.
pub fn quiet_cluster(seed: u64, count: usize) -> (World, Vec<ProcessId>) {
    let mut world = World::new(Options {
        keeping: Keeping::Nothing,
        checking: checking(count),
        ..Options::seeded(seed)
    });
    let nodes = world.start_full(count);
    world.run_for(seconds(10.0));
    (world, nodes)
}

/// Whether to look at the invariants: a large table is looked through so slowly that they are left
/// to smaller clusters.
pub fn checking(count: usize) -> Checking {
    if count > 100 {
        Checking::Nothing
    } else {
        Checking::Everything
    }
}

/// A length of so many seconds.
pub fn seconds(seconds: f64) -> Duration {
    Duration::from_secs_f64(seconds)
}

/// Everyone who was reported dead since `since`, and by whom; empty when nobody was.
pub fn deaths(world: &World, since: Instant) -> Vec<String> {
    let dead = world
        .news()
        .filter(|news| news.at >= since && news.event.kind == EventKind::MemberDead);
    dead.map(|news| {
        let (member, evidence) = (&news.event.member, &news.event.evidence);
        format!("{:?} {}: {member} {evidence:?}", news.at, news.observer)
    })
    .collect()
}

/// The same without those about `except`.
pub fn other_deaths(world: &World, since: Instant, except: &[ProcessId]) -> Vec<String> {
    let names: Vec<_> = except.iter().map(|&id| &world.process(id).name).collect();
    let dead = world.news().filter(|news| {
        news.at >= since
            && news.event.kind == EventKind::MemberDead
            && !names.contains(&&news.event.member)
    });
    dead.map(|news| format!("{:?} {}: {:?}", news.at, news.observer, news.event))
        .collect()
}

/// How many observers said `kind` about `subject` since `since`: the counts, one per process that
/// is up and not of that name.
pub fn counts(
    world: &World,
    subject: ProcessId,
    kind: EventKind,
    since: Instant,
) -> Vec<(ProcessId, usize)> {
    let name = &world.process(subject).name;
    let count = |observer: ProcessId| {
        world
            .news_of(subject, kind, since)
            .filter(|news| news.observer == observer)
            .count()
    };
    world
        .up()
        .filter(|process| process.name != *name)
        .map(|process| (process.id, count(process.id)))
        .collect()
}

/// Asserts that every observer said `kind` about `subject` exactly `times`.
#[track_caller]
pub fn assert_each_said(
    world: &World,
    subject: ProcessId,
    kind: EventKind,
    times: usize,
    since: Instant,
) {
    for (observer, said) in counts(world, subject, kind, since) {
        assert_eq!(said, times, "{observer} on {kind:?} of {subject}");
    }
}

/// The statuses that `observer` shows of `others`.
pub fn views(world: &World, observer: ProcessId, others: &[ProcessId]) -> Vec<Option<Status>> {
    others
        .iter()
        .map(|&other| world.status(observer, other))
        .collect()
}

/// Mean, median, 99th percentile and maximum, in milliseconds, as text.
pub fn summary(mut lengths: Vec<Duration>) -> String {
    lengths.sort();
    let ms = |length: Duration| length.as_secs_f64() * 1000.0;
    let at = |share: f64| lengths[((lengths.len() - 1) as f64 * share) as usize];
    let mean = lengths.iter().copied().map(ms).sum::<f64>() / lengths.len() as f64;
    format!(
        "mean {mean:.1}, p50 {:.1}, p99 {:.1}, max {:.1} ms of {}",
        ms(at(0.5)),
        ms(at(0.99)),
        ms(at(1.0)),
        lengths.len()
    )
}

/// Datagrams and the bytes of their payload, sent by all nodes so far.
pub fn sent(world: &World) -> (u64, u64) {
    let messages = world.total(|stats| {
        let datagrams = stats.messages.iter().filter(|&((direction, _, by), _)| {
            (direction, by) == (Direction::Sent, Transport::Datagram)
        });
        datagrams.map(|(_, count)| count).sum()
    });
    let key = (Direction::Sent, Transport::Datagram);
    let bytes = world.total(|stats| stats.bytes.get(key));
    (messages, bytes)
}

/// Runs for `length`, and returns how many datagrams each node sent per second in the mean.
pub fn datagrams_per_second(world: &mut World, length: Duration) -> f64 {
    let before = sent(world).0;
    world.run_for(length);
    let nodes = world.up().count() as f64;
    (sent(world).0 - before) as f64 / length.as_secs_f64() / nodes
}
