//! What a member does that was evicted for losing packets: it waits, and then tries itself.
//!
//! An eviction raises the member's strikes. Only the member may claim that number for itself, and
//! it does so after a time that doubles with every strike, once it has convinced itself that most
//! of its questions are answered again.

use std::time::Duration;

use crate::time::Instant;

/// The first quarantine; each further one is twice as long, up to the longest.
const SHORTEST: Duration = Duration::from_secs(60);
const DOUBLINGS_MAX: u16 = 5;
/// Questions of one try, how many are asked at a time, and how many must be answered.
const QUESTIONS: usize = 40;
const QUESTIONS_AT_ONCE: usize = 4;
const ANSWERS_MIN: usize = 27;
/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(2);

/// The time of an evicted member, from the eviction to its return.
#[derive(Debug)]
pub struct Quarantine {
    ends: Instant,
    asked: usize,
    answered: usize,
    last_asked: Instant,
}

/// What is to be done now.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Step {
    /// Wait.
    Wait,
    /// Ask so many members.
    Ask(usize),
    /// Enough questions were answered: come back.
    Return,
}

impl Quarantine {
    /// The quarantine after so many strikes.
    #[must_use]
    pub fn new(strikes: u16, now: Instant) -> Self {
        let doublings = strikes.saturating_sub(1).min(DOUBLINGS_MAX);
        Quarantine {
            ends: now + SHORTEST * (1 << doublings),
            asked: 0,
            answered: 0,
            last_asked: now,
        }
    }

    /// When it ends; after that the member tries itself.
    #[must_use]
    pub fn ends(&self) -> Instant {
        self.ends
    }

    /// A question of the try was answered.
    pub fn answered(&mut self) {
        self.answered += 1;
    }

    /// What is to be done, once a period.
    pub fn step(&mut self, now: Instant) -> Step {
        if now < self.ends {
            return Step::Wait;
        }
        if self.asked < QUESTIONS {
            let questions = QUESTIONS_AT_ONCE.min(QUESTIONS - self.asked);
            self.asked += questions;
            self.last_asked = now;
            return Step::Ask(questions);
        }
        if now.since(self.last_asked) < PATIENCE {
            return Step::Wait;
        }
        if self.answered >= ANSWERS_MIN {
            return Step::Return;
        }
        (self.asked, self.answered) = (0, 0);
        Step::Wait
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    /// Runs a quarantine with so many answers of ten; when it ended.
    fn run(strikes: u16, answered: usize, most: u32) -> Option<u32> {
        let mut quarantine = Quarantine::new(strikes, Instant::ORIGIN);
        let mut asked = 0;
        for second in 0..most {
            match quarantine.step(Instant::ORIGIN + second * SECOND) {
                Step::Wait => {}
                Step::Ask(questions) => {
                    for _ in 0..questions {
                        asked += 1;
                        if asked % 10 < answered {
                            quarantine.answered();
                        }
                    }
                }
                Step::Return => return Some(second),
            }
        }
        None
    }

    #[test]
    fn it_lasts_longer_after_every_strike_up_to_half_an_hour() {
        assert_eq!(run(1, 10, 4000), Some(71));
        assert_eq!(run(2, 10, 4000), Some(131));
        assert_eq!(run(6, 10, 4000), Some(32 * 60 + 11));
        assert_eq!(run(u16::MAX, 10, 4000), Some(32 * 60 + 11));
    }

    #[test]
    fn who_still_loses_most_stays_out() {
        assert_eq!(run(1, 4, 4000), None);
        assert_eq!(run(1, 7, 4000), Some(71));
    }
}
