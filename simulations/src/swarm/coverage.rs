//! What happened how often: a swarm that never did something has not tested it.

use std::collections::BTreeMap;
use std::fmt;

use rumord::protocol::{
    Direction, Event, EventKind, JoinOutcome, ProbeKind, ProbeOutcome, RefusalReason,
    SuspicionOutcome,
};
use rumord::wire::MessageKind;
use serde::{Deserialize, Serialize};

use super::fault::Fault;
use super::saying::What;
use super::sending::Sending;
use crate::network::Dropped;
use crate::world::World;

/// A group of countable things, and one of them.
type Item = (&'static str, &'static str);

/// Counts over one run, or over a swarm.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Coverage {
    /// By group, then by word.
    counts: BTreeMap<String, BTreeMap<String, u64>>,
}

impl Coverage {
    /// Counts one.
    pub fn count(&mut self, group: &'static str, word: &'static str) {
        self.add(group, word, 1);
    }

    fn add(&mut self, group: &str, word: &str, amount: u64) {
        let words = self.counts.entry(group.to_owned()).or_default();
        *words.entry(word.to_owned()).or_insert(0) += amount;
    }

    /// Adds another run's counts.
    pub fn merge(&mut self, other: &Coverage) {
        for (group, word, amount) in other.counts() {
            self.add(group, word, amount);
        }
    }

    /// All counts with their groups and words, sorted.
    pub fn counts(&self) -> impl Iterator<Item = (&str, &str, u64)> {
        self.counts.iter().flat_map(|(group, words)| {
            let words = words.iter();
            words.map(move |(word, &amount)| (group.as_str(), word.as_str(), amount))
        })
    }

    /// Counts everything that a world has seen since it began.
    pub fn take_in(&mut self, world: &World) {
        for process in world.processes() {
            let stats = process.node.stats();
            for ((direction, kind, _), amount) in stats.messages.iter() {
                if direction == Direction::Received {
                    self.add("message", kind.as_str(), amount);
                }
            }
            for ((kind, outcome), amount) in stats.probes.iter() {
                self.add("probe", kind.as_str(), amount);
                self.add("outcome", outcome.as_str(), amount);
            }
            for (outcome, amount) in stats.suspicions.iter() {
                self.add("suspicion", outcome.as_str(), amount);
            }
            for (_, event) in &process.events {
                self.take_event(event);
            }
        }
        let tally = world.tally();
        for (reason, &amount) in &tally.dropped {
            self.add("lost", reason.as_str(), amount);
        }
        self.add("link", "duplicated", tally.duplicated);
        self.add("link", "delayed", tally.delayed);
        self.add("link", "damaged", tally.damaged);
    }

    fn take_event(&mut self, event: &Event) {
        match event {
            Event::Member(event) => self.count("event", event.kind.as_str()),
            Event::Join { outcome, .. } => self.count("join", join_word(outcome)),
            Event::GenerationRaised(_) => self.count("event", "generation-raised"),
            Event::LeaveCompleted { .. } => self.count("event", "leave-completed"),
            Event::User(_) => self.count("event", "user"),
            Event::UserMissed { .. } => self.count("event", "user-missed"),
            Event::MetadataSet(_) => self.count("event", "metadata-set"),
            Event::ClockSkew { .. } => self.count("event", "clock-skew"),
            Event::StartedOver { .. } => self.count("event", "started-over"),
            Event::Mistake { status, .. } => self.count("mistake", status.as_str()),
            Event::ProbeAnswered(_) | Event::Late(_) => {}
        }
    }

    fn amount(&self, group: &str, word: &str) -> u64 {
        let words = self.counts.get(group);
        words
            .and_then(|words| words.get(word))
            .copied()
            .unwrap_or(0)
    }

    /// What a swarm must have done, and this one has not.
    #[must_use]
    pub fn missing(&self) -> Vec<Item> {
        let mut listed: Vec<Item> = Vec::new();
        listed.extend(Fault::WORDS.map(|word| ("fault", word)));
        listed.extend(What::WORDS.map(|word| ("saying", word)));
        listed.extend(Sending::WORDS.map(|word| ("sending", word)));
        listed.extend(
            MessageKind::ALL
                .iter()
                .map(|kind| ("message", kind.as_str())),
        );
        listed.extend(EventKind::ALL.iter().map(|kind| ("event", kind.as_str())));
        listed.extend(["generation-raised", "leave-completed"].map(|word| ("event", word)));
        listed.extend(ProbeKind::ALL.iter().map(|kind| ("probe", kind.as_str())));
        listed.extend(ProbeOutcome::ALL.iter().map(|it| ("outcome", it.as_str())));
        listed.extend(
            SuspicionOutcome::ALL
                .iter()
                .map(|it| ("suspicion", it.as_str())),
        );
        listed.extend(["suspect", "dead"].map(|word| ("mistake", word)));
        let joins = [
            "joined",
            "itself",
            "unreachable",
            "name-conflict",
            "future-generation",
        ];
        listed.extend(joins.map(|word| ("join", word)));
        let lost = [
            Dropped::Loss,
            Dropped::Cut,
            Dropped::NoListener,
            Dropped::Outage,
        ];
        listed.extend(lost.map(|reason| ("lost", reason.as_str())));
        listed.extend(["duplicated", "delayed", "damaged"].map(|word| ("link", word)));
        listed.retain(|&(group, word)| self.amount(group, word) == 0);
        listed
    }
}

fn join_word(outcome: &JoinOutcome) -> &'static str {
    match outcome {
        JoinOutcome::Joined { .. } => "joined",
        JoinOutcome::Itself => "itself",
        JoinOutcome::Unreachable => "unreachable",
        JoinOutcome::Refused(RefusalReason::Unavailable) => "unavailable",
        JoinOutcome::Refused(reason) => reason.as_str(),
    }
}

impl fmt::Display for Coverage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut group = "";
        for (of, word, amount) in self.counts() {
            if of != group {
                let start = if group.is_empty() { "" } else { "\n" };
                write!(f, "{start}  {of:<10}")?;
                group = of;
            }
            write!(f, " {word} {amount}")?;
        }
        Ok(())
    }
}
