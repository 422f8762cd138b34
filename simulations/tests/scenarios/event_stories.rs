//! The scenarios about user events hold, with other seeds than the command's.

use crate::commands::printed;

fn holds(name: &str, seeds: std::ops::RangeInclusive<u64>) {
    for seed in seeds {
        let seed = seed.to_string();
        let (told, trouble) = printed(&["scenario", name, "--seed", &seed]);
        assert_eq!(trouble, None, "{name}, seed {seed}: {told}");
        assert!(told.contains("  holds"), "{told}");
    }
}

#[test]
fn events_cross_a_partition_once_it_heals() {
    holds("event-partition", 11..=14);
}

#[test]
fn a_sender_that_restarts_goes_on_telling() {
    holds("sender-restarts", 11..=14);
}

/// hashicorp/serf#465, hashicorp/serf#692: old events were shown again after a restart.
#[test]
fn a_member_that_restarts_misses_nothing_and_sees_nothing_twice() {
    holds("receiver-restarts", 11..=14);
}

#[test]
fn a_lost_acknowledgement_takes_the_other_path() {
    holds("lost-acks", 11..=12);
}

#[test]
fn large_events_are_pulled_once() {
    holds("large-event", 11..=12);
}

#[test]
fn replayed_packets_show_nothing_twice() {
    holds("replayed-packets", 11..=14);
}

#[test]
fn events_of_a_dead_member_are_told_by_those_that_have_them() {
    holds("dead-origin", 11..=14);
}

#[test]
fn a_flood_of_events_delays_no_news_of_members() {
    holds("event-flood", 11..=11);
}

#[test]
fn a_thousand_members_acknowledge_soon_at_any_loss() {
    holds("events-at-loss", 11..=11);
}

/// The command reports every cell, and fails where a promise is broken.
#[test]
fn the_command_tells_times_questions_and_bytes() {
    let arguments = ["events", "--nodes", "50", "--loss", "0,0.1", "--runs", "2"];
    let (told, trouble) = printed(&arguments);
    assert_eq!(trouble, None, "{told}");
    assert_eq!(told.lines().count(), 4, "{told}");
    assert!(told.contains("all 50 members"), "{told}");
}
