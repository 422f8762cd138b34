//! Values of arguments that several commands take.

use std::collections::BTreeSet;
use std::str::FromStr;

use rumord::protocol::Schedule;

use crate::compare::measures;
use crate::world::{TAMPERING_WORDS, Tampering};

/// A range of numbers, both ends included: `1..200`, or one number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Span {
    /// The first.
    pub first: u64,
    /// The last.
    pub last: u64,
}

impl Span {
    /// All of them.
    #[must_use]
    pub fn numbers(&self) -> Vec<u64> {
        (self.first..=self.last).collect()
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

/// A probe schedule by its word.
pub fn schedule(word: &str) -> Result<Schedule, String> {
    Schedule::from_word(word)
        .ok_or_else(|| format!("{word:?} is no schedule; take one of {:?}", Schedule::WORDS))
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
        4.. => Ok(count),
        _ => Err(format!("{count} members are too few; give 4 or more")),
    }
}

/// The word of a measure.
pub fn measure(word: &str) -> Result<&'static str, String> {
    let words = measures::ALL.map(|measure| measure.word);
    let known = words.into_iter().find(|&known| known == word);
    known.ok_or_else(|| format!("{word:?} is no measure; take some of {words:?}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_span_is_two_numbers_or_one() {
        let span = |text: &str| text.parse::<Span>();
        assert_eq!(span("3..5").map(|span| span.numbers()), Ok(vec![3, 4, 5]));
        assert_eq!(span("7").map(|span| span.numbers()), Ok(vec![7]));
        assert_eq!(
            span("16..100").map(|span| span.doubles()),
            Ok(vec![16, 32, 64])
        );
        assert!(span("5..3").is_err());
        assert!(span("a..3").is_err());
    }
}
