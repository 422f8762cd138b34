//! Query parameters: each is known, and given as often as it may be.

use std::time::Duration;

use axum::extract::{FromRequestParts, Query};
use axum::http::request::Parts;

use super::problem::Problem;

/// Longest text of one query parameter, in bytes.
const VALUE_BYTES_MAX: usize = 1024;

/// The query's parameters in the order given.
pub(super) struct Parameters(Vec<(String, String)>);

impl<S: Sync> FromRequestParts<S> for Parameters {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, Problem> {
        let Query(pairs) = Query::<Vec<(String, String)>>::try_from_uri(&parts.uri)
            .map_err(|error| Problem::parameter("", &error.body_text()))?;
        match pairs
            .iter()
            .find(|(_, value)| value.len() > VALUE_BYTES_MAX)
        {
            Some((name, _)) => Err(Problem::parameter(name, "at most 1024 bytes; shorten it")),
            None => Ok(Parameters(pairs)),
        }
    }
}

impl Parameters {
    /// Refuses parameters that the route does not know: a misspelt filter must not match all.
    pub(super) fn allow(&self, known: &[&str]) -> Result<(), Problem> {
        match self
            .0
            .iter()
            .find(|(name, _)| !known.contains(&name.as_str()))
        {
            Some((name, _)) if known.is_empty() => {
                Err(Problem::parameter(name, "this route takes none; remove it"))
            }
            Some((name, _)) => {
                let remedy = format!("not known here; this route takes {}", known.join(", "));
                Err(Problem::parameter(name, &remedy))
            }
            None => Ok(()),
        }
    }

    /// Every value given under `name`.
    pub(super) fn all(&self, name: &'static str) -> impl Iterator<Item = &str> {
        self.0
            .iter()
            .filter(move |(key, _)| key == name)
            .map(|(_, value)| value.as_str())
    }

    /// The value given under `name`, which may be given once.
    pub(super) fn one(&self, name: &'static str) -> Result<Option<&str>, Problem> {
        let mut values = self.all(name);
        let first = values.next();
        match values.next() {
            Some(_) => Err(Problem::parameter(name, "given twice; keep one")),
            None => Ok(first),
        }
    }

    /// The unsigned integer under `name`.
    pub(super) fn integer(&self, name: &'static str) -> Result<Option<u64>, Problem> {
        let refuse = |_| Problem::parameter(name, "must be an integer from 0 to 2^64 - 1");
        self.one(name)?
            .map(|text| text.parse().map_err(refuse))
            .transpose()
    }

    /// The duration under `name`.
    pub(super) fn duration(&self, name: &'static str) -> Result<Option<Duration>, Problem> {
        let refuse = |_| Problem::parameter(name, "must be a duration like 500ms, 30s or 5m");
        self.one(name)?
            .map(|text| humantime::parse_duration(text).map_err(refuse))
            .transpose()
    }
}
