//! What the stories of a thousand members have in common.

use std::collections::BTreeSet;
use std::time::Duration;

use super::stage::Stage;
use crate::link::Link;
use crate::process::ProcessId;
use crate::world::{Checking, Keeping, Options, World};

/// How many members.
pub(super) const MEMBERS: usize = 1000;
/// How often it is looked whether tables are equal.
const LOOK: Duration = Duration::from_millis(10);

/// An empty world for a thousand nodes, with a share of lost datagrams. Nobody looks at the
/// invariants, and nobody keeps what is said: that would take longer than the run.
pub(super) fn world(seed: u64, loss: f64) -> World {
    World::new(Options {
        checking: Checking::Nothing,
        keeping: Keeping::Nothing,
        link: Link::LAN.losing(loss),
        ..Options::seeded(seed)
    })
}

/// A thousand that know each other, in such a world, after some quiet time.
pub(super) fn full(stage: &mut Stage, loss: f64) -> Vec<ProcessId> {
    stage.world = world(stage.seed(), loss);
    let nodes = stage.world.start_full(MEMBERS);
    stage.world.run_for(Duration::from_secs(5));
    nodes
}

/// Whether all tables are equal and hold as many members as run.
pub(super) fn equal(world: &World) -> bool {
    let mut tables = world.up().map(|process| process.node.fingerprint());
    let first = tables.next();
    if !tables.all(|table| Some(table) == first) {
        return false;
    }
    let count = world.up().count();
    let mut processes = world.up();
    let listed = processes
        .next()
        .map(|process| process.node.records().count());
    listed.is_some_and(|listed| listed >= count)
}

/// Runs until all tables are equal; how long that took from now on.
pub(super) fn until_equal(world: &mut World, bound: Duration) -> Option<Duration> {
    let since = world.now();
    loop {
        if equal(world) {
            return Some(world.now().since(since));
        }
        if world.now().since(since) >= bound {
            return None;
        }
        world.run_for(LOOK);
    }
}

/// How many different tables there are, and how many members the smallest and the largest hold.
pub(super) fn apart(world: &World) -> String {
    let tables: BTreeSet<u64> = world
        .up()
        .map(|process| process.node.fingerprint())
        .collect();
    let sizes: BTreeSet<usize> = world
        .up()
        .map(|process| process.node.records().count())
        .collect();
    let (least, most) = (sizes.first(), sizes.last());
    let ready = world.up().filter(|process| process.node.state().ready);
    format!(
        "{} tables of {} to {} members, {} ready",
        tables.len(),
        least.unwrap_or(&0),
        most.unwrap_or(&0),
        ready.count()
    )
}

/// How the loss of a part of a story is told.
pub(super) fn percent(loss: f64) -> String {
    format!("loss {:.0} %", loss * 100.0)
}
