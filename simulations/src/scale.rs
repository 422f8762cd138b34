//! How much memory and time a cluster takes whose members all know each other.

use std::time::{Duration, Instant as WallInstant};

use crate::world::{Checking, Keeping, Options, World};

/// A member crashes when so much of the time is left: enough for everybody to find out.
const CRASH_BEFORE_END: Duration = Duration::from_secs(15);

/// What one run of one large cluster has shown. Times of the wall and memory depend on the machine.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Scale {
    /// How long it took to set the cluster up, in seconds of the wall.
    pub setup: f64,
    /// How long the virtual time took, in seconds of the wall.
    pub wall: f64,
    /// Deliveries and deadlines that were handled.
    pub events: u64,
    /// Memory of the process before there were any members, in bytes; `None` where the system does
    /// not say.
    pub empty: Option<u64>,
    /// The most it has ever been.
    pub peak: Option<u64>,
    /// From the crash of one member until all others held it for dead, in virtual seconds; `None`
    /// when that did not come about.
    pub buried: Option<f64>,
    /// Whether all tables are equal in the end.
    pub agreed: bool,
}

/// Runs `nodes` members with full tables for `length`, and crashes one of them on the way.
#[must_use]
pub fn scale(nodes: usize, length: Duration, seed: u64) -> Scale {
    let empty = memory("VmRSS:");
    let started = WallInstant::now();
    let mut world = World::new(Options {
        keeping: Keeping::Nothing,
        checking: Checking::Nothing,
        ..Options::seeded(seed)
    });
    let members = world.start_full(nodes);
    let setup = started.elapsed().as_secs_f64();
    let started = WallInstant::now();
    world.run_for(length.saturating_sub(CRASH_BEFORE_END));
    let crashed = world.now();
    world.crash(members[0]);
    let end = crashed + length.min(CRASH_BEFORE_END);
    let found = world.run_until(end.since(crashed), |world| {
        world.everyone_buries(members[0])
    });
    world.run_for(end.since(world.now()));
    let mut fingerprints = world.up().map(|process| process.node.fingerprint());
    let first = fingerprints.next();
    Scale {
        setup,
        wall: started.elapsed().as_secs_f64(),
        events: world.events(),
        empty,
        peak: memory("VmHWM:"),
        buried: found.map(|length| length.as_secs_f64()),
        agreed: fingerprints.all(|fingerprint| Some(fingerprint) == first),
    }
}

/// A figure of Linux about this process's memory, in bytes.
fn memory(figure: &str) -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix(figure))?;
    let kibibytes: u64 = line.trim().trim_end_matches(" kB").parse().ok()?;
    Some(kibibytes * 1024)
}
