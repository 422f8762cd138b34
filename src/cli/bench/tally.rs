//! What a load has seen.

use std::collections::{BTreeMap, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Duration;

use super::connection::Answer;

/// Statuses, lengths and bodies of the answers of one or all connections.
#[derive(Default)]
pub(super) struct Tally {
    pub(super) statuses: BTreeMap<u16, u64>,
    /// Answers that did not come.
    pub(super) errors: u64,
    /// The first reason.
    pub(super) reason: Option<String>,
    micros: Vec<u32>,
    bodies: HashSet<u64>,
}

impl Tally {
    /// Counts an answer that took so long.
    pub(super) fn note(&mut self, answer: &Answer, took: Duration) {
        *self.statuses.entry(answer.status).or_default() += 1;
        self.micros
            .push(u32::try_from(took.as_micros()).unwrap_or(u32::MAX));
        let mut hasher = DefaultHasher::new();
        answer.body.hash(&mut hasher);
        self.bodies.insert(hasher.finish());
    }

    /// Counts an answer that did not come.
    pub(super) fn fail(&mut self, reason: &str) {
        self.errors += 1;
        self.reason.get_or_insert_with(|| reason.to_owned());
    }

    /// Takes in what another connection has seen.
    pub(super) fn add(&mut self, other: Tally) {
        for (status, count) in other.statuses {
            *self.statuses.entry(status).or_default() += count;
        }
        self.errors += other.errors;
        self.reason = self.reason.take().or(other.reason);
        self.micros.extend(other.micros);
        self.bodies.extend(other.bodies);
    }

    /// Answers of this status.
    pub(super) fn count(&self, status: u16) -> u64 {
        self.statuses.get(&status).copied().unwrap_or(0)
    }

    /// All answers.
    pub(super) fn answers(&self) -> u64 {
        self.statuses.values().sum()
    }

    /// Bodies that differ.
    pub(super) fn distinct_bodies(&self) -> usize {
        self.bodies.len()
    }

    /// The length that a share of the answers, from 0 to 1, did not exceed, in milliseconds.
    pub(super) fn percentile(&mut self, share: f64) -> f64 {
        self.micros.sort_unstable();
        let last = self.micros.len().saturating_sub(1);
        let at = (last as f64 * share).round() as usize;
        self.micros
            .get(at)
            .map_or(0.0, |&micros| f64::from(micros) / 1000.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_add_up_over_connections() {
        let answer = |status, body: &str| Answer {
            status,
            body: body.into(),
        };
        let (mut one, mut other) = (Tally::default(), Tally::default());
        one.note(&answer(201, "a"), Duration::from_millis(1));
        one.note(&answer(200, "a"), Duration::from_millis(2));
        other.note(&answer(200, "b"), Duration::from_millis(9));
        other.fail("reset");
        one.add(other);
        assert_eq!((one.answers(), one.count(200), one.count(201)), (3, 2, 1));
        assert_eq!((one.errors, one.distinct_bodies()), (1, 2));
        assert_eq!((one.percentile(0.5), one.percentile(0.99)), (2.0, 9.0));
        assert_eq!(one.reason.as_deref(), Some("reset"));
    }
}
