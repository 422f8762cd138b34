//! One of several equal parts of a sweep.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// Part `index` of `count`, counted from 0 as Kubernetes counts the pods of an Indexed Job.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct Shard {
    /// From 0 to `count - 1`.
    pub index: usize,
    /// At least 1.
    pub count: usize,
}

impl Shard {
    /// The numbers, below `end`, of this shard's runs: every `count`-th. Neighbours are alike in
    /// size, so that all shards take about as long.
    pub fn numbers(self, end: usize) -> impl Iterator<Item = usize> {
        (self.index..end).step_by(self.count)
    }
}

impl fmt::Display for Shard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.index, self.count)
    }
}

impl FromStr for Shard {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let number = |part: &str| part.parse::<usize>().ok();
        let parts = text.split_once('/');
        let numbers = parts.and_then(|(index, count)| number(index).zip(number(count)));
        let Some((index, count)) = numbers else {
            return Err(format!(
                "{text:?} is no shard; give i/n, as 0/4 for the first of four"
            ));
        };
        if index >= count {
            let count = count.max(1);
            return Err(format!(
                "there is no shard {text}; i counts from 0, so give 0/{count} to {}/{count}",
                count - 1
            ));
        }
        Ok(Shard { index, count })
    }
}

impl From<Shard> for String {
    fn from(shard: Shard) -> Self {
        shard.to_string()
    }
}

impl TryFrom<String> for Shard {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shards_count_from_zero() {
        let shard = |text: &str| text.parse::<Shard>();
        assert_eq!(shard("0/1"), Ok(Shard { index: 0, count: 1 }));
        assert_eq!(
            shard("2/3").map(|shard| shard.to_string()),
            Ok("2/3".into())
        );
        let above = shard("3/3").expect_err("three are 0 to 2");
        assert!(above.contains("give 0/3 to 2/3"), "{above}");
        for text in ["0/0", "1", "-1/3", "a/3", "1/", "/", "1/2/3"] {
            assert!(shard(text).is_err(), "{text}");
        }
    }

    #[test]
    fn every_run_is_in_one_shard() {
        for count in [1, 2, 3, 12] {
            let shards = (0..count).map(|index| Shard { index, count });
            let mut numbers: Vec<_> = shards.flat_map(|shard| shard.numbers(10)).collect();
            numbers.sort_unstable();
            assert_eq!(numbers, (0..10).collect::<Vec<_>>(), "{count} shards");
        }
    }
}
