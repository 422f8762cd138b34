//! Drawing faults.

use std::collections::BTreeSet;
use std::time::Duration;

use rand::RngExt;
use rand::rngs::Xoshiro256PlusPlus;
use rumord::member::Generation;
use rumord::protocol::RELEASE_UNIX_SECONDS;

use super::fault::{Fault, Slot};
use super::plan::Planned;
use crate::process::Lateness;
use crate::rules::Carried;
use crate::world::{AddressChoice, GenerationChoice, NodeIdChoice, Restart};

/// Most faults of a run, the restarts after crashes not counted.
const FAULTS_MAX: usize = 16;
/// Longest pause between two faults.
const GAP_MS_MAX: u64 = 12_000;
/// Longest time between the end of a node and its return.
const DOWN_MS_MAX: u64 = 25_000;
/// Longest mean by which slow timers are late.
const LATE_MS_MAX: u64 = 150;
/// The period of a coarse timer.
const TICK: Duration = Duration::from_micros(15_625);
/// A wall clock is set by up to two to the power of this in seconds, 17 years.
const STEP_LOG2_MAX: f64 = 29.0;
/// Longest time between two restarts of a rolling deployment.
const DEPLOY_MS_MAX: u64 = 4000;
/// A generation that a clock far behind gives.
const EARLY_GENERATION: Generation = Generation(RELEASE_UNIX_SECONDS + 60);

/// Faults for a cluster of `nodes`, from `begin` on, in the order of time.
pub fn draw_faults(
    nodes: usize,
    begin: Duration,
    tolerance: Duration,
    rng: &mut Xoshiro256PlusPlus,
) -> Vec<Planned> {
    let mut faults = Vec::new();
    let mut at = begin;
    for _ in 0..rng.random_range(1..=FAULTS_MAX) {
        at += Duration::from_millis(rng.random_range(1..GAP_MS_MAX));
        let fault = draw_fault(nodes, tolerance, rng);
        if let Fault::Crash(slot) | Fault::Leave(slot) | Fault::StepClock(slot, _) = fault
            && rng.random_bool(0.7)
        {
            let down = Duration::from_millis(rng.random_range(1..DOWN_MS_MAX));
            let fault = Fault::Restart(slot, draw_way(rng));
            faults.push(Planned {
                at: at + down,
                fault,
            });
        }
        faults.push(Planned { at, fault });
    }
    faults.sort_by_key(|planned| planned.at);
    faults
}

fn draw_fault(nodes: usize, tolerance: Duration, rng: &mut Xoshiro256PlusPlus) -> Fault {
    let slot: Slot = rng.random_range(0..nodes);
    let other = (slot + rng.random_range(1..nodes)) % nodes;
    let length = draw_length(tolerance, rng);
    match rng.random_range(0..25) {
        0 | 1 => Fault::Crash(slot),
        2 => Fault::Restart(slot, draw_way(rng)),
        3 => Fault::Leave(slot),
        4 => Fault::Pause(slot, length),
        5 => Fault::Crowd(slot),
        6 => Fault::Outage(slot, length),
        7 => Fault::BlockIo(slot, length),
        8 => Fault::DeafSlots(slot, rng.random_range(3..20)),
        9 => Fault::OneWayCut(slot, other, draw_carried(rng), length),
        10 => Fault::Cut(slot, other, draw_carried(rng), length),
        11 | 12 => Fault::Partition(draw_side(nodes, rng), length),
        13 => Fault::Deafen(slot, draw_carried(rng), length),
        14 => Fault::Mute(slot, draw_carried(rng), length),
        15 => Fault::Hold(slot, other, length),
        16 => Fault::Lossy(slot, rng.random_range(0.3..1.0), length),
        17 => Fault::Starve(slot, 2 * length),
        18 => Fault::SlowTimers(slot, draw_lateness(rng), 2 * length),
        19 | 20 => Fault::StepClock(slot, draw_step(rng)),
        21 => Fault::Deploy(draw_gap(rng), draw_deploy_way(rng)),
        22 | 23 => Fault::Forget(other, slot),
        _ => Fault::Twin(slot, length),
    }
}

/// Half of them are shorter than the pause tolerance, and harm nobody.
fn draw_length(tolerance: Duration, rng: &mut Xoshiro256PlusPlus) -> Duration {
    let longest = if rng.random_bool(0.5) { 0.9 } else { 5.0 };
    let millis = tolerance.as_millis() as f64 * rng.random_range(0.01..longest);
    Duration::from_millis(millis as u64)
}

fn draw_lateness(rng: &mut Xoshiro256PlusPlus) -> Lateness {
    match rng.random_range(0..3) {
        0 => Lateness::Grid(TICK),
        _ => Lateness::Mean(Duration::from_millis(rng.random_range(1..LATE_MS_MAX))),
    }
}

/// Seconds to years, forth or back.
fn draw_step(rng: &mut Xoshiro256PlusPlus) -> i64 {
    let size = libm::exp2(rng.random_range(0.0..STEP_LOG2_MAX)) as i64;
    if rng.random_bool(0.5) { size } else { -size }
}

fn draw_gap(rng: &mut Xoshiro256PlusPlus) -> Duration {
    Duration::from_millis(rng.random_range(100..DEPLOY_MS_MAX))
}

fn draw_carried(rng: &mut Xoshiro256PlusPlus) -> Carried {
    match rng.random_range(0..4) {
        0 => Carried::Datagrams,
        1 => Carried::Streams,
        _ => Carried::Everything,
    }
}

fn draw_side(nodes: usize, rng: &mut Xoshiro256PlusPlus) -> BTreeSet<Slot> {
    let size = rng.random_range(1..nodes);
    let first = rng.random_range(0..nodes);
    (first..first + size).map(|slot| slot % nodes).collect()
}

/// A deployment leaves the hosts as they are: were all to move, nobody could be found at the join
/// addresses that they were given.
fn draw_deploy_way(rng: &mut Xoshiro256PlusPlus) -> Restart {
    Restart {
        address: AddressChoice::Kept,
        ..draw_way(rng)
    }
}

/// Who keeps a node id keeps a data directory, and with it the last generation.
fn draw_way(rng: &mut Xoshiro256PlusPlus) -> Restart {
    let address = if rng.random_bool(0.7) {
        AddressChoice::Kept
    } else {
        AddressChoice::Fresh
    };
    let (node_id, generation) = match rng.random_range(0..5) {
        0 => (NodeIdChoice::Fresh, GenerationChoice::Next),
        1 => (NodeIdChoice::Fresh, GenerationChoice::Clock),
        2 => (
            NodeIdChoice::Fresh,
            GenerationChoice::Exactly(EARLY_GENERATION),
        ),
        _ => (NodeIdChoice::Kept, GenerationChoice::Next),
    };
    Restart {
        generation,
        node_id,
        address,
    }
}
