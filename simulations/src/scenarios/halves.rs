//! Clusters of several sizes fall into two halves.

use rumord::protocol::EventKind;

use super::Scenario;
use super::stage::{Stage, seconds, tolerance};
use crate::process::ProcessId;
use crate::world::World;

/// How many members.
const SIZES: [usize; 3] = [4, 20, 1000];

pub(super) const SCENARIO: Scenario = Scenario {
    name: "halves",
    story: "4, 20 and 1,000 members are cut into halves: each has buried the other in 11 s",
    play,
};

fn play(stage: &mut Stage) -> Result<(), String> {
    for count in SIZES {
        let nodes = stage.full(count);
        let (left, right) = nodes.split_at(count / 2);
        let since = stage.world.now();
        stage.world.partition(left);
        let bound = tolerance() + seconds(6);
        let what = format!("{count}: each half has buried the other after");
        // Who was missing last is looked at first.
        let (mut from_left, mut from_right) = (0, 0);
        stage.within(&what, bound, |world| {
            bury(world, left, right, &mut from_left) && bury(world, right, left, &mut from_right)
        })?;
        stage.world.run_for(seconds(10));
        for half in [left, right] {
            nobody_within(&stage.world, half, since)?;
        }
        stage.tell(&format!("{count}: of its own half declared dead"), 0);
    }
    Ok(())
}

/// Whether all of `observers` show all of `others` as gone.
fn bury(world: &World, observers: &[ProcessId], others: &[ProcessId], from: &mut usize) -> bool {
    let gone = |observer: ProcessId, other: ProcessId| {
        let status = world.status(observer, other);
        status.is_some_and(|status| !status.is_active())
    };
    while let Some(&other) = others.get(*from) {
        if !observers.iter().all(|&observer| gone(observer, other)) {
            return false;
        }
        *from += 1;
    }
    true
}

/// Demands that no member of `half` was declared dead by another.
fn nobody_within(
    world: &World,
    half: &[ProcessId],
    since: rumord::time::Instant,
) -> Result<(), String> {
    let names: Vec<_> = half.iter().map(|&id| &world.process(id).name).collect();
    let mut dead = world.news().filter(|news| {
        news.at >= since
            && news.event.kind == EventKind::MemberDead
            && half.contains(&news.observer)
            && names.contains(&&news.event.member)
    });
    match dead.next() {
        Some(news) => Err(format!("{} said {:?}", news.observer, news.event)),
        None => Ok(()),
    }
}
