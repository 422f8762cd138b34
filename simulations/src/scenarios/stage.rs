//! What scenarios begin with, and how they tell what they see.

use std::collections::BTreeMap;
use std::time::Duration;

use rand::rngs::Xoshiro256PlusPlus;
use rumord::member::NodeName;
use rumord::protocol::{Config, EventKind};
use rumord::time::Instant;

use crate::fit::Sample;
use crate::forks::{Consumer, fork};
use crate::link::Link;
use crate::process::ProcessId;
use crate::world::{Checking, OnViolation, Options, World};

/// A world, and the figures that a scenario tells.
pub struct Stage {
    /// The world; a scenario may begin with another.
    pub world: World,
    /// What to tell, and the figure.
    pub figures: Vec<(String, String)>,
    seed: u64,
}

impl Stage {
    /// An empty stage.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        let options = Options {
            on_violation: OnViolation::Keep,
            ..Options::seeded(seed)
        };
        Stage {
            world: World::new(options),
            figures: Vec::new(),
            seed,
        }
    }

    /// The seed of the run.
    #[must_use]
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// A cluster that has run for half a minute: every member has been probed many times.
    pub(super) fn settled(&mut self, count: usize) -> Vec<ProcessId> {
        let nodes = self.world.start_cluster(count);
        self.world.run_for(Duration::from_secs(30));
        nodes
    }

    /// The same with members that know each other from the start, in a world of its own. Nobody
    /// looks at the invariants: in a large cluster that takes longer than the run.
    pub(super) fn full(&mut self, count: usize) -> Vec<ProcessId> {
        self.full_on(count, Link::LAN)
    }

    /// The same on other links.
    pub(super) fn full_on(&mut self, count: usize, link: Link) -> Vec<ProcessId> {
        self.world = World::new(Options {
            checking: Checking::Nothing,
            link,
            ..Options::seeded(self.seed)
        });
        let nodes = self.world.start_full(count);
        self.world.run_for(Duration::from_secs(30));
        nodes
    }

    /// What the scenario draws at random.
    pub(super) fn rng(&self) -> Xoshiro256PlusPlus {
        fork(self.seed, Consumer::Scenario)
    }

    /// Tells a figure.
    pub(super) fn tell(&mut self, what: &str, figure: impl ToString) {
        self.figures.push((what.to_owned(), figure.to_string()));
    }

    /// Tells how many exchanges there were.
    pub(super) fn tell_exchanges(&mut self) {
        let all = self.world.total(|stats| stats.exchanges);
        let needless = self.world.total(|stats| stats.exchanges_needless);
        let failed = self.world.total(|stats| stats.exchanges_failed);
        let text = format!("{all}, {needless} needless, {failed} failed");
        self.tell("exchanges", text);
    }

    /// Waits until `holds`, and tells how long it took.
    pub(super) fn within(
        &mut self,
        what: &str,
        bound: Duration,
        holds: impl FnMut(&World) -> bool,
    ) -> Result<Duration, String> {
        match self.world.run_until(bound, holds) {
            Some(length) => {
                self.tell(what, format!("{:.3} s", length.as_secs_f64()));
                Ok(length)
            }
            None => Err(format!("{what}: not within {bound:?}")),
        }
    }

    /// Demands that since `since` nobody was declared dead but `except`.
    pub(super) fn nobody_else_dies(
        &mut self,
        since: Instant,
        except: &[ProcessId],
    ) -> Result<(), String> {
        let names: Vec<_> = except
            .iter()
            .map(|&id| &self.world.process(id).name)
            .collect();
        let mut dead = self.world.news().filter(|news| {
            news.at >= since
                && news.event.kind == EventKind::MemberDead
                && !names.contains(&&news.event.member)
        });
        if let Some(news) = dead.next() {
            return Err(format!("{} said {:?}", news.observer, news.event));
        }
        drop(dead);
        self.tell("others declared dead", 0);
        Ok(())
    }

    /// Demands that somebody said `kind` of each of `subjects` not later than `bound` after
    /// `since`, and tells how long it took.
    pub(super) fn each_within(
        &mut self,
        what: &str,
        bound: Duration,
        (subjects, kind, since): (&[ProcessId], EventKind, Instant),
    ) -> Result<(), String> {
        let first = first_said(&self.world, kind, since);
        let mut lengths = Vec::new();
        for &subject in subjects {
            let name = &self.world.process(subject).name;
            let Some(&at) = first.get(name).filter(|at| at.since(since) <= bound) else {
                return Err(format!("{what}: {name} not within {bound:?}"));
            };
            lengths.push(at.since(since).as_secs_f64());
        }
        let lengths = Sample::new(lengths);
        let (mean, longest) = (lengths.mean(), lengths.quantile(1.0));
        self.tell(what, format!("{mean:.3} s mean, {longest:.3} s longest"));
        Ok(())
    }

    /// When somebody first said `kind` of `subject` after `since`, told as a length.
    pub(super) fn first(
        &mut self,
        what: &str,
        subject: ProcessId,
        kind: EventKind,
        since: Instant,
    ) {
        let first = self
            .world
            .news_of(subject, kind, since)
            .map(|news| news.at)
            .min();
        let text = first.map_or("never".to_owned(), |at| {
            format!("{:.3} s", at.since(since).as_secs_f64())
        });
        self.tell(what, text);
    }
}

/// When somebody first said `kind` of each member, at `since` or later.
fn first_said(world: &World, kind: EventKind, since: Instant) -> BTreeMap<&NodeName, Instant> {
    let mut first = BTreeMap::new();
    let news = world.news().filter(|news| news.event.kind == kind);
    for news in news.filter(|news| news.at >= since) {
        let at = first.entry(&news.event.member).or_insert(news.at);
        *at = news.at.min(*at);
    }
    first
}

/// How long a process may stand still in these worlds.
pub(super) fn tolerance() -> Duration {
    Config::lan().pause_tolerance
}

/// So many milliseconds.
pub(super) const fn milliseconds(count: u64) -> Duration {
    Duration::from_millis(count)
}

/// So many seconds.
pub(super) const fn seconds(count: u64) -> Duration {
    Duration::from_secs(count)
}
