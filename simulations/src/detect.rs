//! How long a crash takes to be found, and how often somebody is accused wrongly.

use std::time::Duration;

use rand::RngExt;
use rumord::protocol::{Config, EventKind};
use rumord::time::Instant;
use serde::{Deserialize, Serialize};

use crate::forks::{Consumer, fork};
use crate::link::Link;
use crate::process::ProcessId;
use crate::world::{Checking, Keeping, Options, World};

/// How long a cluster runs before the first crash.
const WARM_UP: Duration = Duration::from_secs(30);
/// Time between two crashes, beyond the pause tolerance.
const REST: Duration = Duration::from_secs(10);
/// A crash that is not known everywhere after so many tolerances was missed.
const MISSED_TOLERANCES: u32 = 12;
/// How often it is looked whether all know.
const LOOK: Duration = Duration::from_millis(1);
/// Above so many members invariants are not looked at.
const CHECKED_MAX: usize = 64;

/// What is measured.
#[derive(Clone, Debug, PartialEq)]
pub struct Watchfulness {
    /// Members.
    pub nodes: usize,
    /// Share of datagrams that is lost, 0 to 1.
    pub loss: f64,
    /// The protocol's parameters.
    pub config: Config,
    /// The seed of this run.
    pub seed: u64,
}

/// What one run has shown.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Finding {
    /// From the crash until somebody suspected it, in seconds.
    pub suspected: Option<f64>,
    /// Until somebody declared it dead.
    pub declared: Option<f64>,
    /// Until all had it for dead.
    pub known: Option<f64>,
    /// Suspicions that were raised against members that ran, over the whole run.
    pub false_suspicions: u64,
    /// Verdicts of death against members that ran, over the whole run.
    pub false_deaths: u64,
    /// Members times the seconds they ran; the one that crashed counts until then.
    pub member_seconds: f64,
}

/// One run: a cluster of members that know each other, of which one crashes at a random moment.
#[must_use]
pub fn detect(what: &Watchfulness) -> Finding {
    let mut world = World::new(Options {
        config: what.config.clone(),
        link: Link::LAN.losing(what.loss),
        keeping: Keeping::Events,
        checking: if what.nodes <= CHECKED_MAX {
            Checking::Everything
        } else {
            Checking::Nothing
        },
        ..Options::seeded(what.seed)
    });
    let mut rng = fork(what.seed, Consumer::Scenario);
    let nodes = world.start_full(what.nodes);
    world.run_for(WARM_UP + Duration::from_micros(rng.random_range(0..2_000_000)));
    let victim = nodes[rng.random_range(0..nodes.len())];
    let crashed = world.now();
    world.crash(victim);
    let known = wait_until_known(&mut world, victim, what.config.pause_tolerance);
    world.run_for(what.config.pause_tolerance + REST);
    let lived = |until: Instant| until.since(Instant::ORIGIN).as_secs_f64();
    Finding {
        suspected: first(&world, victim, EventKind::MemberSuspect, crashed),
        declared: first(&world, victim, EventKind::MemberDead, crashed),
        known,
        false_suspicions: mistakes(&world, victim, EventKind::MemberSuspect, crashed),
        false_deaths: mistakes(&world, victim, EventKind::MemberDead, crashed),
        member_seconds: lived(world.now()) * (nodes.len() - 1) as f64 + lived(crashed),
    }
}

fn wait_until_known(world: &mut World, victim: ProcessId, tolerance: Duration) -> Option<f64> {
    let crashed = world.now();
    // Nobody can be sure earlier; looking costs time.
    world.run_for(tolerance.mul_f64(0.8));
    while world.now().since(crashed) < MISSED_TOLERANCES * tolerance {
        if world.everyone_buries(victim) {
            return Some(world.now().since(crashed).as_secs_f64());
        }
        world.run_for(LOOK);
    }
    None
}

fn first(world: &World, victim: ProcessId, kind: EventKind, crashed: Instant) -> Option<f64> {
    let news = world.news_of(victim, kind, crashed);
    let first = news.map(|news| news.at).min()?;
    Some(first.since(crashed).as_secs_f64())
}

/// Accusations by own evidence against members that ran, each observer's counted.
fn mistakes(world: &World, victim: ProcessId, kind: EventKind, crashed: Instant) -> u64 {
    let name = &world.process(victim).name;
    let wrong = world.news().filter(|news| {
        let own = news
            .event
            .evidence
            .as_ref()
            .is_some_and(|evidence| evidence.rule != "told");
        news.event.kind == kind && own && (news.event.member != *name || news.at < crashed)
    });
    wrong.count() as u64
}
