//! Liveness: what must hold a while after all faults have ended, and why it does not yet.

use std::time::Duration;

use rumord::member::Status;
use rumord::protocol::{Config, EventKind};
use rumord::time::Instant;

use crate::process::ProcessId;
use crate::world::World;

/// The core agrees this soon after all faults have ended. Join addresses that were dead are tried
/// again every 30 s at worst, and whoever is down has to be found so.
pub const WITHIN: Duration = Duration::from_secs(90);

/// How far nodes may be apart in retiring one of the dead: for so long their tables may differ.
pub const RETIRING: Duration = Duration::from_secs(5);

/// How long agreement is then watched.
#[must_use]
pub fn steady_for(config: &Config) -> Duration {
    2 * config.pause_tolerance + Duration::from_secs(5)
}

/// What is demanded.
#[derive(Debug)]
pub struct Demand {
    /// Who must agree; everybody else is down.
    pub core: Vec<ProcessId>,
}

impl Demand {
    /// Whether every node of the core shows exactly the core as alive, in its present lives, and
    /// all their tables are equal.
    ///
    /// # Errors
    /// Why not yet.
    pub fn pending(&self, world: &World) -> Result<(), String> {
        let first = self
            .core
            .first()
            .map(|&id| world.process(id).node.fingerprint());
        for &id in &self.core {
            let observer = world.process(id);
            if !observer.node.state().ready {
                return Err(format!("{} has not joined", observer.name));
            }
            for &subject in &self.core {
                self.shows_alive(world, id, subject)?;
            }
            for record in observer.node.records() {
                let member = &record.name;
                let is_core = self
                    .core
                    .iter()
                    .any(|&id| world.process(id).name == *member);
                let status = observer.node.status_of(member);
                if !is_core && status.is_some_and(Status::is_active) {
                    let status = status.map_or("unknown", Status::as_str);
                    return Err(format!(
                        "{} shows {member} {status}, it is down",
                        observer.name
                    ));
                }
            }
            if Some(observer.node.fingerprint()) != first {
                return Err(format!("{} has another table", observer.name));
            }
            self.reads_the_same(world, id)?;
        }
        Ok(())
    }

    /// The same, and each node of the core knows that all others hold its table.
    ///
    /// # Errors
    /// Why not yet.
    pub fn pending_knowledge(&self, world: &World) -> Result<(), String> {
        self.pending(world)?;
        let mut core = self.core.iter().map(|&id| world.process(id));
        match core.find(|process| !process.node.has_converged()) {
            Some(process) => {
                let known = process.node.agreeing();
                Err(format!("{} knows only of {known} that agree", process.name))
            }
            None => Ok(()),
        }
    }

    fn shows_alive(&self, world: &World, id: ProcessId, subject: ProcessId) -> Result<(), String> {
        let (observer, subject) = (world.process(id), world.process(subject));
        let own = (subject.node.state().generation, subject.node_id);
        let status = observer.node.status_of(&subject.name);
        let held = observer.node.record_of(&subject.name);
        let same = held.is_some_and(|held| held.standing.instance() == own);
        if status == Some(Status::Alive) && same {
            return Ok(());
        }
        let life = if same { "" } else { " in another life" };
        let status = status.map_or("unknown", Status::as_str);
        Err(format!(
            "{} shows {} {status}{life}",
            observer.name, subject.name
        ))
    }

    /// Whether `id` shows of every member what the first shows, and of the core what each member of
    /// it says of itself.
    fn reads_the_same(&self, world: &World, id: ProcessId) -> Result<(), String> {
        let observer = world.process(id);
        let first = self.core.first().map(|&first| world.process(first));
        for record in observer.node.records() {
            let name = &record.name;
            let owner = self.core.iter().map(|&id| world.process(id));
            let owner = owner.into_iter().find(|process| process.name == *name);
            let said = match (owner, first) {
                (Some(owner), _) => owner.node.own_metadata(),
                (None, Some(first)) => first
                    .node
                    .record_of(name)
                    .and_then(|record| record.current_metadata()),
                (None, None) => None,
            };
            if record.current_metadata() != said {
                return Err(format!("{} reads other tags of {name}", observer.name));
            }
        }
        Ok(())
    }

    /// Whether it still holds, and nobody of the core was declared dead since `agreed`.
    ///
    /// # Errors
    /// What was found.
    pub fn steady(&self, world: &World, agreed: Instant) -> Result<(), String> {
        let names: Vec<_> = self
            .core
            .iter()
            .map(|&id| &world.process(id).name)
            .collect();
        let dead = world.news().find(|news| {
            news.at > agreed
                && news.event.kind == EventKind::MemberDead
                && names.contains(&&news.event.member)
        });
        if let Some(news) = dead {
            return Err(format!("{} said {:?}", news.observer, news.event));
        }
        self.pending(world)
    }
}
