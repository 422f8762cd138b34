//! All faults end.

use std::time::Duration;

use rumord::member::Generation;
use rumord::protocol::EventKind;

use super::fault::{Slot, name};
use super::run::Run;
use crate::link::{Link, Loss};
use crate::process::{Lateness, ProcessId};
use crate::world::{GenerationChoice, Restart};

/// What an operator needs to restart a node.
const OPERATOR_TIME: Duration = Duration::from_millis(1100);
/// Generations that are further ahead of the true time are refused by all nodes.
const AHEAD_MAX: Duration = Duration::from_secs(24 * 3600);
/// Loss that stays after all faults have ended.
const CALM_LOSS: f64 = 0.05;

impl Run<'_> {
    /// All faults end. Whoever is not of the core is down from now on, and whoever is comes back.
    /// What no protocol can settle, an operator does, who stops the node and starts it again: where
    /// two processes used one name; where a clock that was behind gave a generation below one that
    /// the name had before, or so often that raising it once was not enough; where a node was
    /// forgotten; and where a clock that was far ahead gave, or let pass, a generation that all
    /// others refuse; and where a node that nobody has admitted yet knows only of others that are
    /// down, he tells it of one that is not.
    pub(super) fn heal(&mut self) {
        self.troubles.end(self.world.now());
        self.world.set_usual_link(calm(self.plan.link));
        for (slot, twin) in std::mem::take(&mut self.twins) {
            self.world.crash(twin);
            self.stop(slot);
        }
        for slot in 0..self.slots.len() {
            if let Some(id) = self.slots[slot] {
                self.world.correct_wall_clock(id);
            }
            if !self.plan.core.contains(&slot) || self.must_restart(slot) {
                self.stop(slot);
            } else if let Some(id) = self.running(slot) {
                self.world.delay_timers(id, Lateness::None);
                self.world.resume(id);
            }
        }
        // Generations are seconds: another one begins.
        self.world.run_for(OPERATOR_TIME);
        for &slot in &self.plan.core {
            if self.running(slot).is_none() {
                let way = Restart {
                    generation: GenerationChoice::Exactly(self.fresh_generation(slot)),
                    ..Restart::default()
                };
                let restarted = self.restart(slot, way);
                debug_assert!(
                    restarted.is_some(),
                    "every slot is started before faults end"
                );
            }
        }
        for &slot in &self.plan.core {
            if let Some(id) = self.running(slot).filter(|_| self.is_lost(slot)) {
                let others = self.plan.core.iter().filter(|&&other| other != slot);
                let known: Vec<_> = others
                    .filter_map(|&other| self.running(other))
                    .map(|other| self.world.address(other))
                    .collect();
                self.world.join(id, &known);
            }
        }
    }

    /// Whether a node has not been admitted, and will not be by those that it knows of.
    fn is_lost(&self, slot: Slot) -> bool {
        let joins = &self.plan.starts[slot].join;
        let admitted = |id| self.world.process(id).node.state().ready;
        !self.running(slot).is_some_and(admitted)
            && joins
                .iter()
                .all(|other| *other == slot || !self.plan.core.contains(other))
    }

    fn must_restart(&self, slot: Slot) -> bool {
        self.running(slot).is_some_and(|id| {
            let process = self.world.process(id);
            let state = process.node.state();
            let refused = |generation| generation > self.latest_accepted();
            let mut held = process.node.records();
            let earlier = self.earlier_generation(slot, id);
            // It has taken another generation once, and may not again.
            let raised = state.generation > process.generation;
            state.leaving
                || self.is_forgotten(id)
                || earlier > Some(state.generation)
                || (raised && earlier == Some(state.generation))
                || held.any(|record| refused(record.standing.generation))
        })
    }

    /// Whether somebody has forgotten this life: it knows, or will be told.
    fn is_forgotten(&self, id: ProcessId) -> bool {
        let process = self.world.process(id);
        let generation = process.node.state().generation;
        self.world.news().any(|news| {
            news.event.kind == EventKind::MemberForgotten
                && news.event.member == process.name
                && news.event.generation >= generation
        })
    }

    /// The last generation that a node with a right clock accepts.
    fn latest_accepted(&self) -> Generation {
        Generation((self.world.wall_clock(0) + AHEAD_MAX).as_secs())
    }

    /// The largest generation that others than `but` may remember of the name at a slot.
    fn earlier_generation(&self, slot: Slot, but: ProcessId) -> Option<Generation> {
        let name = name(slot);
        let of_name = self
            .world
            .processes()
            .filter(|process| process.id != but && process.name.as_str() == name);
        of_name
            .map(|process| process.node.state().generation)
            .filter(|&generation| generation <= self.latest_accepted())
            .max()
    }

    /// What a data directory that was never lost gives, after an impossible one was removed.
    fn fresh_generation(&self, slot: Slot) -> Generation {
        let clock = self.world.wall_clock(0).as_secs();
        let last = self.slots[slot].map(|id| self.world.process(id).node.state().generation);
        let last = last.filter(|&last| last <= self.latest_accepted());
        let earlier = self.slots[slot].and_then(|id| self.earlier_generation(slot, id));
        let next = last.max(earlier).map_or(0, |generation| generation.0 + 1);
        Generation(clock.max(next))
    }

    fn stop(&mut self, slot: Slot) {
        if let Some(id) = self.slots[slot] {
            self.world.crash(id);
        }
    }
}

/// The link after all faults have ended: as slow as before, and nearly as lossy.
fn calm(link: Link) -> Link {
    Link {
        loss: Loss::Independent(link.loss.share().min(CALM_LOSS)),
        corrupted: 0.0,
        ..link
    }
}
