//! Which members a reader asked for.

use std::collections::{BTreeMap, BTreeSet};

use super::problem::Problem;
use super::query::Parameters;
use crate::member::{Status, keyed_hash};
use crate::node::MemberView;

/// Keeps the filter's hash apart from other uses of the keyed hash.
const FILTER_HASH_DOMAIN: u64 = 0x6874_7470;

/// A conjunction of conditions; empty ones match everything.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Filter {
    statuses: BTreeSet<Status>,
    /// Tags that must be there, with a value where one was asked for.
    tags: BTreeSet<(String, Option<String>)>,
    service: Option<String>,
    name: Option<String>,
}

impl Filter {
    /// Names of the parameters a filter is read from.
    pub(super) const PARAMETERS: [&'static str; 4] = ["status", "tag", "service", "name"];

    /// Reads the filter of a query.
    ///
    /// # Errors
    /// Names the parameter that cannot be used.
    pub(super) fn from_query(query: &Parameters) -> Result<Self, Problem> {
        let mut filter = Filter {
            service: non_empty(query, "service")?,
            name: non_empty(query, "name")?,
            ..Filter::default()
        };
        for word in query.all("status").flat_map(|list| list.split(',')) {
            filter.statuses.insert(status(word.trim())?);
        }
        for tag in query.all("tag") {
            filter.tags.insert(condition(tag)?);
        }
        Ok(filter)
    }

    /// Whether `member` fulfils every condition.
    pub(super) fn matches(&self, member: &MemberView) -> bool {
        (self.statuses.is_empty() || self.statuses.contains(&member.status))
            && self
                .name
                .as_ref()
                .is_none_or(|name| member.name.as_str().eq_ignore_ascii_case(name))
            && self
                .tags
                .iter()
                .all(|(key, value)| has_tag(member, key, value.as_deref()))
            && self
                .service
                .as_ref()
                .is_none_or(|service| has_service(member, service))
    }

    /// Tells two filters apart; the same for the same conditions in another order; 0 for none.
    pub(super) fn hash(&self) -> u64 {
        if *self == Filter::default() {
            return 0;
        }
        keyed_hash(FILTER_HASH_DOMAIN, format!("{self:?}").as_bytes())
    }
}

fn non_empty(query: &Parameters, name: &'static str) -> Result<Option<String>, Problem> {
    match query.one(name)? {
        Some("") => Err(Problem::parameter(
            name,
            "is empty; give a name or leave it out",
        )),
        value => Ok(value.map(str::to_owned)),
    }
}

fn status(word: &str) -> Result<Status, Problem> {
    Status::ALL
        .into_iter()
        .find(|status| status.as_str() == word)
        .ok_or_else(|| Problem::parameter("status", "must be of alive, suspect, dead, left"))
}

fn condition(tag: &str) -> Result<(String, Option<String>), Problem> {
    let (key, value) = match tag.split_once(':') {
        Some((key, value)) => (key, Some(value.to_owned())),
        None => (tag, None),
    };
    if key.is_empty() {
        return Err(Problem::parameter(
            "tag",
            "must be KEY:VALUE, or KEY for any value",
        ));
    }
    Ok((key.to_owned(), value))
}

fn has_tag(member: &MemberView, key: &str, value: Option<&str>) -> bool {
    let tags: Option<&BTreeMap<_, _>> = member.metadata.as_ref().map(|metadata| &metadata.tags);
    match (tags.and_then(|tags| tags.get(key)), value) {
        (Some(held), Some(wanted)) => held == wanted,
        (held, None) => held.is_some(),
        (None, Some(_)) => false,
    }
}

fn has_service(member: &MemberView, name: &str) -> bool {
    member.metadata.as_ref().is_some_and(|metadata| {
        metadata
            .services
            .iter()
            .any(|service| service.name.as_str().eq_ignore_ascii_case(name))
    })
}
