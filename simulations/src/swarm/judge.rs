//! Whether a verdict of death was deserved.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use rumord::member::NodeName;
use rumord::protocol::{Config, Event, EventKind, Evidence, MemberEvent};
use rumord::time::Instant;

use super::fault::Slot;
use super::run::Failure;
use super::troubles::{Interval, Troubles};
use crate::process::{Process, ProcessId};
use crate::world::World;

/// What a node went through in so many pause tolerances, and this time, excuses a verdict by
/// evidence.
const EVIDENCE_TOLERANCES: u32 = 3;
/// See [`EVIDENCE_TOLERANCES`].
const EVIDENCE_TIME: Duration = Duration::from_secs(5);
/// A verdict that was told may be that old: it waited behind a cut, or in a process that stood
/// still.
const TOLD_TIME: Duration = Duration::from_secs(300);

/// What has been judged so far.
#[derive(Debug, Default)]
pub struct Judge {
    heard: BTreeMap<ProcessId, usize>,
}

impl Judge {
    /// A member that runs, that can be reached, and that has not stood still for longer than the
    /// tolerance lately, is not declared dead: every such verdict takes a healthy service out of
    /// rotation.
    ///
    /// # Errors
    /// The first verdict that nothing excuses.
    pub fn invariant_nobody_alive_is_buried(
        &mut self,
        world: &World,
        troubles: &Troubles,
        config: &Config,
    ) -> Result<(), Failure> {
        for observer in world.processes() {
            let heard = self.heard.entry(observer.id).or_insert(0);
            let news = &observer.events[*heard..];
            *heard = observer.events.len();
            for (at, event) in news {
                let Event::Member(event) = event else {
                    continue;
                };
                if event.kind == EventKind::MemberDead
                    && !is_excused(world, troubles, config, observer, *at, event)
                {
                    return Err(Failure {
                        invariant: "nobody-alive-is-buried".to_owned(),
                        at: *at,
                        detail: format!("{} on {}: {event:?}", observer.name, observer.id),
                    });
                }
            }
        }
        Ok(())
    }
}

fn is_excused(
    world: &World,
    troubles: &Troubles,
    config: &Config,
    observer: &Process,
    at: Instant,
    event: &MemberEvent,
) -> bool {
    let Some(slot) = slot_of(&event.member) else {
        return true;
    };
    if !lives(world, event) {
        return true;
    }
    let evidence = event.evidence.as_ref();
    let back = match evidence.map_or("told", |evidence| evidence.rule) {
        "told" => TOLD_TIME,
        _ => EVIDENCE_TOLERANCES * config.pause_tolerance + EVIDENCE_TIME,
    };
    let window = Interval {
        since: at.before(back),
        until: at,
    };
    let nodes: BTreeSet<_> = world.processes().map(|process| &process.name).collect();
    let excused = |slot| troubles.excuse(slot, &window, nodes.len(), config.pause_tolerance);
    excused(slot) || (is_alone(evidence) && slot_of(&observer.name).is_none_or(excused))
}

/// Whether nobody confirmed it: one of two, or one that is cut off from everybody, cannot tell its
/// own trouble from another's.
fn is_alone(evidence: Option<&Evidence>) -> bool {
    evidence.is_some_and(|evidence| {
        let own = evidence.rule == "own" && evidence.witnesses == 0;
        own || evidence.rule == "isolated"
    })
}

/// Whether the life that the event is about goes on.
fn lives(world: &World, event: &MemberEvent) -> bool {
    world.up().any(|process| {
        let state = process.node.state();
        process.name == event.member
            && state.generation == event.generation
            && event
                .address
                .is_none_or(|address| address == process.address)
            && !state.leaving
    })
}

/// The slot whose nodes have this name.
fn slot_of(member: &NodeName) -> Option<Slot> {
    let number: Slot = member.as_str().strip_prefix('n')?.parse().ok()?;
    number.checked_sub(1)
}
