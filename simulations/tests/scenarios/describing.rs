//! Tags and services of running nodes: as fast as other news, whatever their size.

use std::time::Duration;

use rumord::member::{METADATA_BYTES_MAX, Status, Tags};
use rumord::protocol::{Direction, EventKind, MetadataChange, Transport};
use rumord::wire::MessageKind;
use rumord_sim::{Link, ProcessId, Restart, World};

use crate::stage::{quiet_cluster, seconds, settled, summary};

fn tags(pairs: &[(&str, &str)]) -> Tags {
    let owned = |(key, value): &(&str, &str)| ((*key).to_owned(), (*value).to_owned());
    pairs.iter().map(owned).collect()
}

/// `bytes` bytes of tags, other ones for another `number`.
fn large(bytes: usize, number: usize) -> Tags {
    let value = |n: usize, length: usize| format!("{number:08}{n:08}").repeat(length / 16 + 1);
    let full = bytes / 1024;
    let mut tags: Tags = (0..full)
        .map(|n| (format!("{n:04}"), value(n, 1020)[..1020].to_owned()))
        .collect();
    let rest = bytes - full * 1024;
    if rest > 4 {
        tags.insert("rest".into(), value(full, rest)[..rest - 4].to_owned());
    }
    tags
}

fn set_tags(world: &mut World, id: ProcessId, tags: Tags) {
    world.describe(id, &MetadataChange::Tags(tags));
}

fn shown(world: &World, observer: ProcessId, subject: ProcessId) -> Option<Tags> {
    let name = &world.process(subject).name;
    let record = world.process(observer).node.record_of(name)?;
    Some(record.current_metadata()?.tags.clone())
}

/// Tags change, one at a time, without loss and then with 10 %.
fn one_at_a_time(count: usize, changes: usize) {
    let (mut world, nodes) = quiet_cluster(1, count);
    for loss in [0.0, 0.1] {
        world.set_usual_link(Link::LAN.losing(loss));
        let mut lengths = Vec::new();
        for (number, &node) in nodes.iter().enumerate().skip(1).take(changes) {
            let value = format!("{number}-{loss}");
            set_tags(&mut world, node, tags(&[("v", &value)]));
            let known = world.run_until(seconds(1.0), |world| world.everyone_reads(node));
            lengths.push(known.unwrap_or_else(|| panic!("{count} at {loss}: not in time")));
            world.run_for(seconds(1.5));
        }
        println!("tags, N = {count}, loss {loss}: {}", summary(lengths));
    }
}

#[test]
fn a_tag_change_among_a_hundred_is_known_in_milliseconds() {
    one_at_a_time(100, 60);
}

#[test]
fn a_tag_change_among_a_thousand_is_known_in_milliseconds() {
    one_at_a_time(1000, 8);
}

/// 64 KiB of tags, as much as a member may have, are shown by all within 3 s; the checker looks at
/// every datagram's length.
#[test]
fn tags_as_large_as_they_may_be_are_known_within_three_seconds() {
    for loss in [0.0, 0.1] {
        let mut lengths = Vec::new();
        for seed in 1..=4 {
            let (mut world, nodes) = settled(seed, 50);
            world.set_usual_link(Link::LAN.losing(loss));
            for (number, &node) in nodes.iter().enumerate().take(3) {
                set_tags(&mut world, node, large(METADATA_BYTES_MAX, number));
                let known = world.run_until(seconds(3.0), |world| world.everyone_reads(node));
                lengths.push(known.unwrap_or_else(|| panic!("loss {loss}: not in time")));
                world.run_for(seconds(5.0));
                let reads = world.run_until(Duration::ZERO, |world| world.everyone_reads(node));
                assert!(reads.is_some(), "and keep them");
            }
            let key = |direction| (direction, MessageKind::Values, Transport::Stream);
            let sent = world.total(|stats| stats.messages.get(key(Direction::Sent)));
            assert!(sent >= 3 * 49, "{sent} pulls");
            assert!(sent <= 3 * 49 * 2, "{sent} pulls of 147 needed");
        }
        println!("64 KiB, N = 50, loss {loss}: {}", summary(lengths));
    }
}

/// cortexproject/cortex#4327, prometheus/alertmanager#1412: an update larger than a packet sat at
/// the head of the queue for ever. The next ones flow.
#[test]
fn small_news_passes_by_a_large_update() {
    let (mut world, nodes) = settled(5, 30);
    set_tags(&mut world, nodes[1], large(METADATA_BYTES_MAX, 1));
    set_tags(&mut world, nodes[2], tags(&[("zone", "a")]));
    world.crash(nodes[3]);
    let fresh = world.restart(nodes[3], Restart::default());
    let small = world.run_until(seconds(0.3), |world| {
        world.everyone_reads(nodes[2]) && world.everyone_sees_life(fresh)
    });
    assert!(small.is_some(), "in milliseconds");
    let large = world.run_until(seconds(3.0), |world| world.everyone_reads(nodes[1]));
    assert!(large.is_some());
    let told = world.run_until(seconds(20.0), |world| {
        let mut up = world.up();
        up.all(|process| process.node.state().queued_updates == 0)
    });
    assert!(told.is_some(), "and nothing stays in the queue");
}

/// A status does not wait for metadata that nobody can give yet: here the streams are cut.
#[test]
fn a_status_is_adopted_before_the_metadata_has_come() {
    let (mut world, nodes) = settled(6, 10);
    let old = tags(&[("zone", "a")]);
    set_tags(&mut world, nodes[1], old.clone());
    world.run_for(seconds(1.0));
    let cut = world.mute(nodes[1], rumord_sim::Carried::Streams);
    set_tags(&mut world, nodes[1], large(2000, 1));
    world.leave(nodes[1], seconds(1.0));
    let left = world.run_until(seconds(0.5), |world| {
        world.everyone_sees(nodes[1], Status::Left)
    });
    assert!(left.is_some());
    assert_eq!(
        shown(&world, nodes[0], nodes[1]),
        Some(old),
        "the last complete"
    );
    world.lift(cut);
}

/// The holder that was asked first is gone before it answers: another is asked.
#[test]
fn a_pull_that_fails_is_made_from_another_holder() {
    for seed in 1..=6 {
        let (mut world, nodes) = settled(seed, 20);
        set_tags(&mut world, nodes[1], large(METADATA_BYTES_MAX, 1));
        let some = world.run_until(seconds(3.0), |world| {
            let reads =
                |&&id: &&ProcessId| shown(world, id, nodes[1]) == shown(world, nodes[1], nodes[1]);
            nodes.iter().filter(reads).count() >= 3
        });
        assert!(some.is_some());
        world.crash(nodes[1]);
        let all = world.run_until(seconds(10.0), |world| {
            let first = shown(world, nodes[0], nodes[1]);
            world
                .up()
                .all(|process| shown(world, process.id, nodes[1]) == first)
                && first.is_some_and(|tags| tags.len() > 10)
        });
        assert!(all.is_some(), "seed {seed}");
    }
}

/// scylladb/scylladb#3798: values of a new life with smaller versions were ignored, and values of
/// the old life stayed.
#[test]
fn a_new_life_with_lower_versions_replaces_everything() {
    for bytes in [100, 5000] {
        let (mut world, nodes) = settled(7, 8);
        for round in 0..20 {
            let mut old = large(bytes, round);
            old.extend(tags(&[("a", "1"), ("b", "1")]));
            set_tags(&mut world, nodes[2], old);
            world.run_for(seconds(0.2));
        }
        world.crash(nodes[2]);
        let fresh = world.restart(nodes[2], Restart::default());
        set_tags(&mut world, fresh, tags(&[("a", "2")]));
        let known = world.run_until(seconds(2.0), |world| world.everyone_reads(fresh));
        assert!(known.is_some(), "{bytes} bytes");
        for process in world.up() {
            let shown = shown(&world, process.id, fresh);
            assert_eq!(shown, Some(tags(&[("a", "2")])), "{}", process.name);
        }
    }
}

/// quickwit-oss/quickwit#4562, quickwit-oss/chitchat PR#114: the last words of a member that died
/// reached some, and the others never learnt them.
#[test]
fn survivors_agree_on_the_last_words_of_the_dead() {
    for seed in 1..=8 {
        let (mut world, nodes) = settled(seed, 5);
        world.set_usual_link(Link::LAN.losing(0.2));
        set_tags(&mut world, nodes[4], tags(&[("x", "1")]));
        let told = world.run_until(seconds(1.0), |world| {
            nodes[..4]
                .iter()
                .any(|&id| shown(world, id, nodes[4]) == Some(tags(&[("x", "1")])))
        });
        assert!(told.is_some(), "seed {seed}");
        world.crash(nodes[4]);
        world.run_for(seconds(12.0));
        for &id in &nodes[..4] {
            assert_eq!(
                world.status(id, nodes[4]),
                Some(Status::Dead),
                "seed {seed}"
            );
            assert_eq!(
                shown(&world, id, nodes[4]),
                Some(tags(&[("x", "1")])),
                "seed {seed}"
            );
        }
    }
}

/// Who joins hears of large metadata with the table, and who joins with some is heard of.
#[test]
fn large_metadata_is_there_after_a_join() {
    let (mut world, nodes) = settled(9, 10);
    set_tags(&mut world, nodes[1], large(40_000, 1));
    world.run_for(seconds(3.0));
    let address = world.address(nodes[0]);
    let late = world.start(rumord_sim::Start::named("late").joining([address]));
    set_tags(&mut world, late, large(50_000, 2));
    let known = world.run_until(seconds(3.0), |world| {
        world.everyone_reads(nodes[1]) && world.everyone_reads(late)
    });
    assert!(known.is_some());
    for &id in &nodes {
        let up = world.news_of(late, EventKind::MemberUp, rumord::time::Instant::ORIGIN);
        assert_eq!(up.filter(|news| news.observer == id).count(), 1, "{id}");
    }
}
