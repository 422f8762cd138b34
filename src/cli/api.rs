//! The daemon's JSON, as far as the commands read it.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Deserialize;

use super::Failure;
use super::client::Client;

/// The member table.
#[derive(Deserialize, Clone, Debug)]
pub(super) struct Table {
    /// Grows with every change.
    pub(super) index: u64,
    /// Of the whole table, whatever the filter.
    pub(super) counts: Counts,
    /// Sorted by name.
    pub(super) members: Vec<Member>,
}

/// Members by status.
#[derive(Deserialize, Clone, Copy, Debug)]
pub(super) struct Counts {
    pub(super) alive: usize,
    pub(super) suspect: usize,
    pub(super) dead: usize,
    pub(super) left: usize,
}

/// One member.
#[derive(Deserialize, Clone, Debug)]
pub(super) struct Member {
    pub(super) name: String,
    pub(super) address: Option<String>,
    pub(super) status: String,
    pub(super) generation: u64,
    pub(super) incarnation: u64,
    pub(super) phi: f64,
    pub(super) rtt_ms: Option<f64>,
    pub(super) since: String,
    pub(super) tags: BTreeMap<String, String>,
}

/// Whether all members agree.
#[derive(Deserialize, Clone, Debug)]
pub(super) struct Agreement {
    pub(super) alive: usize,
    pub(super) agree: usize,
    pub(super) laggards: Vec<String>,
    pub(super) converged: bool,
    pub(super) fingerprint: String,
}

impl Counts {
    /// All listed members.
    pub(super) const fn total(self) -> usize {
        self.alive + self.suspect + self.dead + self.left
    }
}

impl Client {
    /// The table as soon as its index is above `after`, or as it is when `wait` is over. With 0
    /// it comes at once.
    ///
    /// # Errors
    /// The daemon is not reachable, or answered with a problem.
    pub(super) fn table(&self, after: u64, wait: Duration) -> Result<Table, Failure> {
        self.get_blocking("/v1/members", &blocking(after, wait), wait)
    }

    /// Whether all members agree, as soon as they do or when `wait` is over.
    ///
    /// # Errors
    /// The daemon is not reachable, or answered with a problem.
    pub(super) fn agreement(&self, wait: Duration) -> Result<Agreement, Failure> {
        let query = [("wait", format!("{}ms", wait.as_millis()))];
        self.get_blocking("/v1/agreement", &query, wait)
    }
}

/// The query parameters of a blocking read.
pub(super) fn blocking(after: u64, wait: Duration) -> Vec<(&'static str, String)> {
    vec![
        ("index", after.to_string()),
        ("wait", format!("{}ms", wait.as_millis())),
    ]
}
