//! Which events a reader asked for.

use super::super::event::{USER_KIND, kind};
use super::problem::Problem;
use super::query::Parameters;
use crate::node::{EventLog, LogEntry, Logged, Page};
use crate::protocol::EventKind;

/// Entries that are looked at in one piece.
const PIECE: usize = 1024;

/// A conjunction of conditions; empty ones match everything.
#[derive(Clone, Debug, Default)]
pub(super) struct Wanted {
    kinds: Vec<&'static str>,
    name: Option<String>,
}

impl Wanted {
    /// Reads the conditions of a query.
    ///
    /// # Errors
    /// Names the parameter that cannot be used.
    pub(super) fn from_query(query: &Parameters) -> Result<Self, Problem> {
        let words = query.all("kind").flat_map(|list| list.split(','));
        Ok(Wanted {
            kinds: words.map(known).collect::<Result<_, _>>()?,
            name: query.one("name")?.map(str::to_owned),
        })
    }

    /// Whether `entry` fulfils every condition.
    fn matches(&self, entry: &LogEntry) -> bool {
        let name = match &entry.what {
            Logged::User(event) => Some(&event.name),
            Logged::Conflict(conflict) => Some(&conflict.event.name),
            _ => None,
        };
        let named = |wanted: &String| name.is_some_and(|name| name.as_str() == wanted);
        (self.kinds.is_empty() || self.kinds.contains(&kind(&entry.what)))
            && self.name.as_ref().is_none_or(named)
    }

    /// Up to `limit` wanted entries after the cursor `after`; the next cursor is behind all that
    /// were looked at.
    pub(super) fn read(&self, log: &EventLog, after: u64, limit: usize) -> Page {
        if self.kinds.is_empty() && self.name.is_none() {
            return log.read(after, limit);
        }
        let mut found = log.read(after, 0);
        found.next = match found.reset {
            Some(_) => found.next,
            None => after,
        };
        while found.entries.len() < limit {
            let page = log.read(found.next, PIECE);
            if page.entries.is_empty() {
                found.next = page.next;
                break;
            }
            for entry in page.entries {
                if found.entries.len() == limit {
                    break;
                }
                found.next = entry.id;
                if self.matches(&entry) {
                    found.entries.push(entry);
                }
            }
            found.head = page.head;
        }
        found
    }
}

fn known(word: &str) -> Result<&'static str, Problem> {
    let mut kinds = EventKind::ALL.iter().map(|kind| kind.as_str());
    let mut kinds = kinds.by_ref().chain([USER_KIND]);
    kinds.find(|kind| *kind == word.trim()).ok_or_else(|| {
        let all: Vec<_> = EventKind::ALL.iter().map(|kind| kind.as_str()).collect();
        Problem::parameter(
            "kind",
            &format!("must be of {}, {USER_KIND}", all.join(", ")),
        )
    })
}
