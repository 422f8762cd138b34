//! Whom to tell of which events, and how.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::member::Tags;

/// How often a call is tried unless told otherwise.
pub const ATTEMPTS_DEFAULT: u32 = 8;
/// Most attempts of a call.
pub const ATTEMPTS_MAX: u32 = 100;
/// How long one attempt may take unless told otherwise.
pub const TIMEOUT_DEFAULT: Duration = Duration::from_secs(30);
/// Longest time that one attempt may take.
pub const TIMEOUT_MAX: Duration = Duration::from_secs(3600);

/// Pause after the first failed attempt; it doubles with each.
const RETRY_MIN: Duration = Duration::from_secs(1);
/// Longest pause between two attempts.
const RETRY_MAX: Duration = Duration::from_secs(300);

/// Somebody who is told of events.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// What it is called, by the rules of member names.
    pub name: String,
    /// How it is told.
    pub action: Action,
    /// Which events it is told of.
    pub filter: Filter,
    /// How long one attempt may take.
    pub timeout: Duration,
    /// After how many failed attempts a call is parked.
    pub attempts: u32,
}

/// How a target is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// A program is run: the event is on its standard input, and in its environment.
    Program {
        /// The program and its arguments; no shell takes part.
        command: Vec<String>,
    },
    /// The event is posted.
    Webhook {
        /// Where to: an `http://` URL.
        url: String,
        /// Headers beside those that every call has.
        headers: BTreeMap<String, String>,
    },
}

/// Which events are wanted: those that pass every list; an empty one lets all through.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    /// Kinds, as the log calls them.
    pub kinds: Vec<String>,
    /// Names of members for their changes, names of events for those that clients sent.
    pub names: Vec<String>,
    /// Tags that the member has: the one that changed, or the one that an event came from.
    pub tags: Tags,
}

/// What a filter looks at in an event.
#[derive(Clone, Copy, Debug)]
pub struct Subject<'a> {
    /// Its kind.
    pub kind: &'a str,
    /// The member's name, or the event's.
    pub name: &'a str,
    /// The tags of the member, when they are known.
    pub tags: Option<&'a Tags>,
}

impl Filter {
    /// Whether an event is wanted.
    #[must_use]
    pub fn takes(&self, subject: &Subject<'_>) -> bool {
        let among = |list: &[String], word: &str| {
            list.is_empty() || list.iter().any(|item| item.eq_ignore_ascii_case(word))
        };
        let tagged = || {
            self.tags.iter().all(|(key, value)| {
                let held = subject.tags.and_then(|tags| tags.get(key));
                held == Some(value)
            })
        };
        among(&self.kinds, subject.kind) && among(&self.names, subject.name) && tagged()
    }
}

impl Target {
    /// How long to wait after so many failed attempts; `None` after the last.
    #[must_use]
    pub fn pause_after(&self, attempts: u32) -> Option<Duration> {
        if attempts >= self.attempts {
            return None;
        }
        let doublings = attempts.saturating_sub(1).min(16);
        Some(RETRY_MIN.saturating_mul(1 << doublings).min(RETRY_MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tags(pairs: &[(&str, &str)]) -> Tags {
        let pair = |&(key, value): &(&str, &str)| (key.to_owned(), value.to_owned());
        pairs.iter().map(pair).collect()
    }

    #[test]
    fn a_filter_wants_what_passes_all_its_lists() {
        let have = tags(&[("role", "db"), ("zone", "a")]);
        let subject = Subject {
            kind: "member-dead",
            name: "n3",
            tags: Some(&have),
        };
        let filter = |kinds: &[&str], names: &[&str], wanted: &[(&str, &str)]| Filter {
            kinds: kinds.iter().map(|&kind| kind.into()).collect(),
            names: names.iter().map(|&name| name.into()).collect(),
            tags: tags(wanted),
        };
        assert!(filter(&[], &[], &[]).takes(&subject));
        assert!(filter(&["user", "member-dead"], &["N3"], &[("role", "db")]).takes(&subject));
        assert!(!filter(&["user"], &[], &[]).takes(&subject));
        assert!(!filter(&[], &["n4"], &[]).takes(&subject));
        assert!(!filter(&[], &[], &[("role", "web")]).takes(&subject));
        let unknown = Subject {
            tags: None,
            ..subject
        };
        assert!(!filter(&[], &[], &[("role", "db")]).takes(&unknown));
        assert!(filter(&[], &["n3"], &[]).takes(&unknown));
    }

    #[test]
    fn pauses_double_up_to_a_limit_and_end_with_the_attempts() {
        let target = Target {
            name: "pager".into(),
            action: Action::Program {
                command: vec!["true".into()],
            },
            filter: Filter::default(),
            timeout: TIMEOUT_DEFAULT,
            attempts: 30,
        };
        let seconds = |n| target.pause_after(n).map(|pause| pause.as_secs());
        assert_eq!(seconds(1), Some(1));
        assert_eq!(seconds(4), Some(8));
        assert_eq!(seconds(29), Some(300));
        assert_eq!(seconds(30), None);
    }
}
