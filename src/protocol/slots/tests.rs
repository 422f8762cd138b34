//! Who probes whom, and that nobody is forgotten.

use std::collections::BTreeMap;

use super::*;

const PERIOD: Duration = Duration::from_secs(1);

fn members(count: u64) -> Vec<NameHash> {
    let name = |n: u64| crate::member::keyed_hash(1, &n.to_be_bytes()).to_be_bytes();
    let mut members: Vec<_> = (0..count).map(|n| NameHash::from_wire(name(n))).collect();
    members.sort();
    members
}

/// Every member begins its periods at a phase of its own.
fn start(member: NameHash) -> Option<PeriodStart> {
    let phase = u64::from_be_bytes(member.to_wire()) % 1_000_000_000;
    let number = (phase % 1000) as u16;
    Some(PeriodStart {
        at: Instant::from_nanos(phase),
        number,
    })
}

/// All probes of `cluster` in `seconds`, by target.
fn probes(cluster: &[NameHash], seconds: u64) -> BTreeMap<NameHash, Vec<Instant>> {
    let end = Instant::from_nanos(seconds * 1_000_000_000);
    let mut probes: BTreeMap<NameHash, Vec<Instant>> = BTreeMap::new();
    for &observer in cluster {
        let others: Vec<_> = cluster.iter().copied().filter(|&m| m != observer).collect();
        let mut slots = Slots::new(observer, PERIOD, Instant::ORIGIN + PERIOD);
        while let Some(due) = slots.next_due(&others, start).filter(|&due| due < end) {
            for target in slots.take_due(due, &others, start) {
                probes.entry(target.member).or_default().push(due);
            }
        }
    }
    probes.values_mut().for_each(|times| times.sort());
    probes
}

#[test]
fn every_member_is_probed_once_in_each_of_its_periods() {
    for size in [2, 3, 5, 9, 10, 20, 128] {
        let cluster = members(size);
        let probes = probes(&cluster, 42);
        assert_eq!(
            probes.len(),
            cluster.len(),
            "somebody of {size} is not observed"
        );
        for (target, times) in &probes {
            for pair in times.windows(2) {
                assert_eq!(pair[1].since(pair[0]), PERIOD, "{target:?} of {size}");
            }
            assert!(times.len() >= 39, "{} probes of {size}", times.len());
        }
    }
}

#[test]
fn each_node_probes_about_one_member_per_period() {
    let cluster = members(128);
    let observer = cluster[7];
    let others: Vec<_> = cluster.iter().copied().filter(|&m| m != observer).collect();
    let mut slots = Slots::new(observer, PERIOD, Instant::ORIGIN);
    let mut count = 0;
    while let Some(due) = slots
        .next_due(&others, start)
        .filter(|d| d.as_nanos() < 80e9 as u64)
    {
        count += slots.take_due(due, &others, start).len();
    }
    assert!((70..=90).contains(&count), "{count} probes in 80 periods");
}

/// The start of a period is heard a little earlier or later with every message.
#[test]
fn a_period_start_heard_with_jitter_does_not_repeat_or_skip_a_probe() {
    let cluster = members(20);
    let others = &cluster[1..];
    let mut slots = Slots::new(cluster[0], PERIOD, Instant::ORIGIN);
    let mut times: BTreeMap<NameHash, Vec<Instant>> = BTreeMap::new();
    let mut step = 0;
    loop {
        step += 1;
        let jitter = Duration::from_millis(step % 7);
        let heard = |member| {
            let start = start(member)?;
            Some(PeriodStart {
                at: start.at + jitter,
                ..start
            })
        };
        let due = slots.next_due(others, heard).expect("others exist");
        if due.as_nanos() > 100_000_000_000 {
            break;
        }
        for &member in others {
            slots.heard(member, heard(member));
        }
        let due = slots.next_due(others, heard).expect("others exist");
        for duty in slots.take_due(due, others, heard) {
            times.entry(duty.member).or_default().push(due);
        }
    }
    for pair in times.values().flat_map(|times| times.windows(2)) {
        assert!(
            pair[1].since(pair[0]) > PERIOD - Duration::from_millis(10),
            "{pair:?}"
        );
    }
    let probes: usize = times.values().map(Vec::len).sum();
    assert!(
        (90..=110).contains(&probes),
        "{probes} probes in 100 periods"
    );
}

/// The start is heard later, the slot is looked at in vain, and then it is heard earlier.
#[test]
fn a_start_that_moves_around_its_slot_does_not_lose_the_duty() {
    let cluster = members(20);
    let others = &cluster[1..];
    let mut slots = Slots::new(cluster[0], PERIOD, Instant::ORIGIN);
    let due = slots.next_due(others, start).expect("others exist");
    let moved = |member, later| {
        let start = start(member)?;
        let at = start.at + Duration::from_millis(later);
        Some(PeriodStart { at, ..start })
    };
    for &member in others {
        slots.heard(member, moved(member, 5));
    }
    assert!(slots.take_due(due, others, start).is_empty());
    for &member in others {
        slots.heard(member, moved(member, 0));
    }
    let again = slots.next_due(others, start).expect("others exist");
    assert!(again.since(due) <= Duration::from_millis(5), "{again:?}");
}

#[test]
fn a_member_not_heard_yet_is_probed_at_once_and_once_a_period() {
    let cluster = members(20);
    let others = &cluster[1..];
    let now = Instant::ORIGIN + 5 * PERIOD;
    let mut slots = Slots::new(cluster[0], PERIOD, now);
    let observed = slots.take_due(now, others, |_| None).len();
    assert!(observed > 0);
    assert!(slots.take_due(now, others, |_| None).is_empty());
    assert_eq!(slots.next_due(others, |_| None), Some(now + PERIOD));
    let again = slots.take_due(now + PERIOD, others, |_| None).len();
    assert_eq!(again, observed);
}

#[test]
fn slots_slept_through_are_not_made_up_for() {
    let cluster = members(20);
    let others = &cluster[1..];
    let mut slots = Slots::new(cluster[0], PERIOD, Instant::ORIGIN);
    let late = Instant::ORIGIN + 100 * PERIOD;
    assert!(slots.take_due(late, others, start).len() <= usize::from(RINGS));
    assert!(slots.next_due(others, start).is_some_and(|due| due > late));
    assert!(slots.take_due(late, others, start).is_empty());
}

#[test]
fn duties_follow_the_members() {
    let cluster = members(20);
    let mut slots = Slots::new(cluster[0], PERIOD, Instant::ORIGIN);
    assert_eq!(slots.next_due(&[], start), None);
    slots.members_changed();
    let gone = successor(cluster[0], &cluster[1..], 3).expect("others exist");
    let rest: Vec<_> = cluster[1..]
        .iter()
        .copied()
        .filter(|&m| m != gone)
        .collect();
    for _ in 0..200 {
        let due = slots.next_due(&rest, start).expect("others exist");
        let duties = slots.take_due(due, &rest, start);
        assert!(duties.iter().all(|duty| duty.member != gone));
    }
}

#[test]
fn observers_are_those_whose_duty_the_member_is() {
    for count in [5, 9, 40] {
        let cluster = members(count);
        let (asking, rest) = (cluster[0], &cluster[1..]);
        for &accused in rest {
            let mut expected: Vec<_> = rest.iter().copied().filter(|&it| it != accused).collect();
            if rest.len() > usize::from(RINGS) {
                expected.retain(|&other| {
                    let others: Vec<_> = rest.iter().copied().filter(|&it| it != other).collect();
                    successors(other, &others)
                        .iter()
                        .any(|duty| duty.member == accused)
                });
            }
            let found = observers(accused, rest);
            assert_eq!(found, expected, "{count} without {asking:?}");
        }
    }
}
