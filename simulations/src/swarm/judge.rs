//! Whether a verdict of death was deserved.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use rumord::member::{Generation, Incarnation, NodeName};
use rumord::protocol::{Config, Event, EventKind, MemberEvent};
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
    /// Deaths declared, excusably, by nodes that had nobody to ask.
    alone: BTreeSet<Claim>,
    fences: Fences,
}

/// Up to which generation an observer has forgotten a member.
#[derive(Debug, Default)]
struct Fences(BTreeMap<(ProcessId, NodeName), Generation>);

impl Fences {
    /// A node that has forgotten a life never speaks of it again: an operator removed it for good.
    fn note(
        &mut self,
        observer: &Process,
        at: Instant,
        event: &MemberEvent,
    ) -> Result<(), Failure> {
        let of_member = (observer.id, event.member.clone());
        let fence = self.0.entry(of_member).or_default();
        if event.kind == EventKind::MemberForgotten {
            *fence = event.generation.max(*fence);
        } else if event.generation <= *fence && event.member != observer.name {
            return Err(Failure {
                invariant: "the-forgotten-stay-so".to_owned(),
                at,
                detail: format!("{} on {}: {event:?}", observer.name, observer.id),
            });
        }
        Ok(())
    }
}

/// Which life, and which incarnation of it, was declared dead.
type Claim = (NodeName, Generation, Incarnation);

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
        let mut told = Vec::new();
        for observer in world.processes() {
            let heard = self.heard.entry(observer.id).or_insert(0);
            let news = &observer.events[*heard..];
            *heard = observer.events.len();
            for (at, event) in news {
                let Event::Member(event) = event else {
                    continue;
                };
                self.fences.note(observer, *at, event)?;
                if event.kind != EventKind::MemberDead {
                    continue;
                }
                let case = Case {
                    world,
                    troubles,
                    config,
                    observer,
                    at: *at,
                    event,
                };
                if case.is_excused() {
                    if case.is_alone() {
                        self.alone.insert(claim(event));
                    }
                } else {
                    told.push(case);
                }
            }
        }
        let own =
            |case: &Case<'_>| case.rule() != "told" || !self.alone.contains(&claim(case.event));
        match told.into_iter().find(own) {
            Some(case) => Err(case.failure()),
            None => Ok(()),
        }
    }
}

fn claim(event: &MemberEvent) -> Claim {
    (event.member.clone(), event.generation, event.incarnation)
}

/// One verdict that somebody announced.
struct Case<'a> {
    world: &'a World,
    troubles: &'a Troubles,
    config: &'a Config,
    observer: &'a Process,
    at: Instant,
    event: &'a MemberEvent,
}

impl Case<'_> {
    fn is_excused(&self) -> bool {
        let Some(slot) = slot_of(&self.event.member) else {
            return true;
        };
        if !lives(self.world, self.event) {
            return true;
        }
        let tolerance = self.config.pause_tolerance;
        let back = match self.rule() {
            "told" => TOLD_TIME,
            _ => EVIDENCE_TOLERANCES * tolerance + EVIDENCE_TIME,
        };
        let window = Interval {
            since: self.at.before(back),
            until: self.at,
        };
        let nodes: BTreeSet<_> = self
            .world
            .processes()
            .map(|process| &process.name)
            .collect();
        let mut slots = vec![slot];
        if self.is_alone() {
            match slot_of(&self.observer.name) {
                Some(own) => slots.push(own),
                None => return true,
            }
        }
        self.troubles
            .excuse(&slots, &window, nodes.len(), tolerance)
    }

    /// Whether nobody confirmed it: one of two, or one that is cut off from everybody, cannot tell
    /// its own trouble from another's.
    fn is_alone(&self) -> bool {
        self.event.evidence.as_ref().is_some_and(|evidence| {
            let own = evidence.rule == "own" && evidence.witnesses == 0;
            own || evidence.rule == "isolated"
        })
    }

    fn rule(&self) -> &str {
        let evidence = self.event.evidence.as_ref();
        evidence.map_or("told", |evidence| &evidence.rule)
    }

    fn failure(&self) -> Failure {
        let (observer, event) = (self.observer, self.event);
        Failure {
            invariant: "nobody-alive-is-buried".to_owned(),
            at: self.at,
            detail: format!("{} on {}: {event:?}", observer.name, observer.id),
        }
    }
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
            && !state.forgotten
    })
}

/// The slot whose nodes have this name.
fn slot_of(member: &NodeName) -> Option<Slot> {
    let number: Slot = member.as_str().strip_prefix('n')?.parse().ok()?;
    number.checked_sub(1)
}
