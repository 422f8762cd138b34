//! Values of arguments that several commands take.

use std::collections::BTreeSet;
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use clap::Args;
use rumord::protocol::MEMBERS_MAX;
use serde::{Deserialize, Serialize};

use super::Trouble;
use crate::compare::contender::Profile;
use crate::compare::measure::Protocol;
use crate::compare::measures;
use crate::interval::Anomaly;
use crate::world::{TAMPERING_WORDS, Tampering};

/// How many runs go on at once, and where their results go.
#[derive(Debug, Default, Args)]
pub struct Running {
    /// Threads, at most 256; the output is the same for every number of them
    #[arg(long, default_value_t = 2)]
    pub threads: usize,
    /// Directory for what is written: JSON lines and pictures, named like the command
    #[arg(long)]
    pub out: Option<PathBuf>,
}

/// Flags of commands whose runs are numbered from a first seed.
#[derive(Debug, Args, Serialize, Deserialize)]
pub struct Seeded {
    /// The seed of the first run; the next run has the next seed
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    #[command(flatten)]
    #[serde(skip)]
    pub running: Running,
}

impl Seeded {
    /// The seeds of so many runs, at least one; each is run `times` times.
    ///
    /// # Errors
    /// There are more of them than one command should hold, or than there are seeds.
    pub fn seeds(&self, runs: u64, times: usize) -> Result<Vec<u64>, Trouble> {
        let first = self.seed;
        if runs.saturating_mul(times as u64) > RUNS_MAX {
            let text =
                format!("{runs} runs of {times} kinds are too many; at most {RUNS_MAX} in all");
            return Err(Trouble::Usage(text));
        }
        let Some(last) = first.checked_add(runs.max(1) - 1) else {
            let text = format!("{runs} runs from seed {first} are too many; give a smaller --seed");
            return Err(Trouble::Usage(text));
        };
        Span { first, last }.seeds()
    }
}

/// Runs of one command, at most: their findings are held until the report.
const RUNS_MAX: u64 = 1_000_000;

/// The longest time that a run may be asked for.
const YEAR_SECONDS: f64 = 365.0 * 24.0 * 3600.0;

/// A range of numbers, both ends included: `1..200`, or one number.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct Span {
    /// The first.
    pub first: u64,
    /// The last.
    pub last: u64,
}

impl Span {
    /// All of them, as seeds.
    ///
    /// # Errors
    /// There are more of them than one command should hold.
    pub fn seeds(&self) -> Result<Vec<u64>, Trouble> {
        if self.last - self.first >= RUNS_MAX {
            let text = format!("{self} is too much for one command; give at most {RUNS_MAX} runs");
            return Err(Trouble::Usage(text));
        }
        Ok((self.first..=self.last).collect())
    }

    /// The first, and its doubles up to the last.
    #[must_use]
    pub fn doubles(&self) -> Vec<usize> {
        let double = |&number: &u64| number.checked_mul(2);
        std::iter::successors(Some(self.first.max(1)), double)
            .take_while(|number| *number <= self.last)
            .map(|number| number as usize)
            .collect()
    }
}

impl FromStr for Span {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let number = |part: &str| {
            part.parse()
                .map_err(|_| format!("{part:?} is not a number; give A..B, or one number"))
        };
        let (first, last) = match text.split_once("..") {
            Some((first, last)) => (number(first)?, number(last.trim_start_matches('='))?),
            None => (number(text)?, number(text)?),
        };
        if first > last {
            return Err(format!(
                "{first} is above {last}; give the smaller one first"
            ));
        }
        Ok(Span { first, last })
    }
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}..{}", self.first, self.last)
    }
}

impl From<Span> for String {
    fn from(span: Span) -> Self {
        span.to_string()
    }
}

impl TryFrom<String> for Span {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

/// Sizes of clusters: `2,3,20`, or `16..4096` for the first and its doubles.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Sizes(pub Vec<usize>);

impl FromStr for Sizes {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut sizes = Vec::new();
        for part in text.split(',') {
            sizes.extend(clusters(part)?.doubles());
        }
        Ok(Sizes(sizes))
    }
}

/// A length of time in seconds, above 0 and at most a year.
pub fn positive_seconds(text: &str) -> Result<f64, String> {
    let length = text.parse().ok();
    let fits = |length: &f64| (0.001..=YEAR_SECONDS).contains(length);
    length
        .filter(fits)
        .ok_or_else(|| format!("{text:?} is no length of time; give seconds, 0.001 to a year"))
}

/// Numbers of faults, as `3,7,9`; `none` for no fault.
pub fn fault_numbers(text: &str) -> Result<BTreeSet<usize>, String> {
    if text == "none" {
        return Ok(BTreeSet::new());
    }
    let number = |part: &str| {
        part.parse()
            .map_err(|_| format!("{part:?} is not a fault's number; give 3,7,9 or none"))
    };
    text.split(',').map(number).collect()
}

/// The way of breaking nodes with this word.
pub fn tampering(word: &str) -> Result<Tampering, String> {
    Tampering::from_word(word)
        .ok_or_else(|| format!("{word:?} is no way to break it; take one of {TAMPERING_WORDS:?}"))
}

/// Who detects, by the word for it.
pub fn detector(word: &str) -> Result<String, String> {
    let words = Protocol::DETECTORS.map(|(word, _)| word);
    match words.contains(&word) {
        true => Ok(word.to_owned()),
        false => Err(format!("{word:?} is no detector; take some of {words:?}")),
    }
}

/// Those who detect, of words that [`detector`] has passed.
pub fn detectors(words: &[String]) -> impl Iterator<Item = Protocol> {
    let named = |word: &String| {
        let found = Protocol::DETECTORS.iter().find(|(named, _)| named == word);
        found.map(|(_, protocol)| *protocol)
    };
    words.iter().filter_map(named)
}

/// An anomaly by its word.
pub fn anomaly(word: &str) -> Result<String, String> {
    match Anomaly::from_word(word) {
        Some(_) => Ok(word.to_owned()),
        None => Err(format!(
            "{word:?} is no anomaly; take some of {:?}",
            Anomaly::WORDS
        )),
    }
}

/// A profile by its word.
pub fn profile(word: &str) -> Result<String, String> {
    match Profile::from_word(word) {
        Some(_) => Ok(word.to_owned()),
        None => Err(format!(
            "{word:?} is no profile; take one of {:?}",
            Profile::WORDS
        )),
    }
}

/// A share between 0 and 0.9.
pub fn loss(text: &str) -> Result<f64, String> {
    let share: f64 = text
        .parse()
        .map_err(|_| format!("{text:?} is not a number"))?;
    if (0.0..=0.9).contains(&share) {
        Ok(share)
    } else {
        Err(format!("{share} is out of range; loss is 0 to 0.9"))
    }
}

/// A number of members that can be taken apart into halves and quarters.
pub fn members(text: &str) -> Result<usize, String> {
    let count: usize = text
        .parse()
        .map_err(|_| format!("{text:?} is not a number"))?;
    match count {
        4..=MEMBERS_MAX => Ok(count),
        ..4 => Err(format!("{count} members are too few; give 4 or more")),
        _ => Err(too_many(count)),
    }
}

/// How many members one cluster may have, as a command line says it.
pub fn cluster(text: &str) -> Result<usize, String> {
    let count: usize = text
        .parse()
        .map_err(|_| format!("{text:?} is not a number"))?;
    if count > MEMBERS_MAX {
        return Err(too_many(count));
    }
    Ok(count)
}

/// An amount of memory.
pub fn gibibytes(text: &str) -> Result<f64, String> {
    let amount = text.parse().ok().filter(|amount| *amount > 0.0);
    amount.ok_or_else(|| format!("{text:?} is no amount of memory; give GiB, as 18"))
}

/// A range of sizes of clusters.
pub fn clusters(text: &str) -> Result<Span, String> {
    let span: Span = text.parse()?;
    match usize::try_from(span.last) {
        Ok(..=MEMBERS_MAX) => Ok(span),
        _ => Err(too_many(span.last)),
    }
}

fn too_many(count: impl fmt::Display) -> String {
    format!("{count} members are too many; a node knows at most {MEMBERS_MAX}")
}

/// The word of a measure.
pub fn measure(word: &str) -> Result<String, String> {
    let words = measures::ALL.map(|measure| measure.word);
    if words.contains(&word) {
        Ok(word.to_owned())
    } else {
        Err(format!("{word:?} is no measure; take some of {words:?}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_span_is_two_numbers_or_one() {
        let span = |text: &str| text.parse::<Span>();
        let seeds = |text: &str| span(text).map(|span| span.seeds().ok());
        assert_eq!(seeds("3..5"), Ok(Some(vec![3, 4, 5])));
        assert_eq!(seeds("7"), Ok(Some(vec![7])));
        assert_eq!(seeds("0..18446744073709551615"), Ok(None), "too many");
        assert_eq!(
            span("16..100").map(|span| span.doubles()),
            Ok(vec![16, 32, 64])
        );
        assert!(span("5..3").is_err());
        assert!(span("a..3").is_err());
    }

    #[test]
    fn a_cluster_to_compare_has_halves_and_quarters() {
        assert_eq!(members("4"), Ok(4));
        let few = members("3").expect_err("too few");
        assert!(few.contains("give 4 or more"), "{few}");
        assert_eq!(measure("crash"), Ok("crash".to_owned()));
        let unknown = measure("crush").expect_err("no measure");
        assert!(unknown.contains("mass-crash"), "{unknown}");
    }
}
