//! How far the own wall clock is from those of the other members. Only shown: nothing that decides
//! about anybody reads a wall clock.

use std::time::Duration;

use crate::member::NameHash;
use crate::time::Instant;

/// Members whose clocks are remembered.
const MEMBERS_MAX: usize = 16;
/// A clock that was not heard of for so long says nothing any more.
const HEARD_WITHIN: Duration = Duration::from_secs(120);
/// From so many seconds on a clock is wrong, and below the other number it is right again: between
/// the two it stays what it was, so that it is one warning for entering and one for leaving.
const WRONG_FROM: i32 = 10;
const RIGHT_BELOW: i32 = 5;
/// Other clocks that must have been heard, in a cluster that has as many.
const CLOCKS_MIN: usize = 3;

/// The own clock against the others'.
#[derive(Debug, Default)]
pub struct Skew {
    /// The others', the one least lately heard first.
    clocks: Vec<Clock>,
    /// How many seconds the own one is ahead, which follows from these: a message brings a clock,
    /// but seldom another time.
    seconds: i32,
    wrong: bool,
}

/// Somebody's clock.
#[derive(Clone, Copy, Debug)]
struct Clock {
    member: NameHash,
    /// How many seconds it is ahead of the own.
    ahead: i32,
    heard: Instant,
}

impl Skew {
    /// The clock of `member` shows `theirs` while the own shows `own`: the low 16 bits of seconds.
    pub fn hear(&mut self, now: Instant, member: NameHash, theirs: u16, own: u16) {
        let ahead = i32::from(theirs.wrapping_sub(own) as i16);
        let held = self.clocks.iter().position(|clock| clock.member == member);
        let before = held.map(|place| self.clocks.remove(place));
        let silent = |clock: &Clock| now.since(clock.heard) >= HEARD_WITHIN;
        let expired = self.clocks.iter().take_while(|clock| silent(clock)).count();
        let surplus = (self.clocks.len() + 1).saturating_sub(MEMBERS_MAX);
        let dropped = expired.max(surplus);
        self.clocks.drain(..dropped);
        self.clocks.push(Clock {
            member,
            ahead,
            heard: now,
        });
        if dropped > 0 || before.is_none_or(|before| before.ahead != ahead) {
            self.seconds = self.middle();
        }
    }

    /// The own clock was set: what was measured against it is void.
    pub fn forget(&mut self) {
        self.clocks.clear();
        self.seconds = 0;
    }

    /// How many seconds the own clock is ahead of the middle one of all that are known, the own
    /// included; negative when it is behind. Of two in the middle the farther one counts: then
    /// nobody can say which half is right.
    #[must_use]
    pub fn seconds(&self) -> i32 {
        self.seconds
    }

    fn middle(&self) -> i32 {
        let mut ahead: Vec<i32> = self.clocks.iter().map(|clock| clock.ahead).collect();
        ahead.push(0);
        ahead.sort_unstable();
        let (low, high) = (ahead[(ahead.len() - 1) / 2], ahead[ahead.len() / 2]);
        let middle = if high.abs() >= low.abs() { high } else { low };
        -middle
    }

    /// Whether the own clock has become wrong (true) or right again (false), in a cluster of so
    /// many `others`; `None` while it stays what it was.
    pub fn turned(&mut self, others: usize) -> Option<bool> {
        if self.clocks.len() < others.min(CLOCKS_MIN) {
            return None;
        }
        let seconds = self.seconds.abs();
        let wrong = seconds >= WRONG_FROM || (self.wrong && seconds >= RIGHT_BELOW);
        (std::mem::replace(&mut self.wrong, wrong) != wrong).then_some(wrong)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Instant = Instant::from_nanos(1_000_000_000);

    fn who(n: u64) -> NameHash {
        NameHash::from_wire(n.to_be_bytes())
    }

    fn heard(clocks: &[u16], own: u16) -> Skew {
        let mut skew = Skew::default();
        for (n, &clock) in (0..).zip(clocks) {
            skew.hear(NOW, who(n), clock, own);
        }
        skew
    }

    #[test]
    fn the_one_wrong_clock_knows_it_and_the_others_do_not() {
        assert_eq!(heard(&[100, 100, 100], 130).seconds(), 30);
        assert_eq!(heard(&[100, 100, 130], 100).seconds(), 0);
        assert_eq!(heard(&[65_530, 65_530], 4).seconds(), 10, "around the end");
        assert_eq!(heard(&[100], 130).seconds(), 30, "of two nobody knows");
        assert_eq!(heard(&[130], 100).seconds(), -30, "of two nobody knows");
        assert_eq!(heard(&[], 100).seconds(), 0);
    }

    #[test]
    fn entering_and_leaving_are_told_once_each() {
        let mut skew = heard(&[100, 100, 100], 130);
        let mut said = vec![skew.turned(4), skew.turned(4)];
        for ahead in [9, 6, 4, 9, 10] {
            for n in 0..3 {
                skew.hear(NOW, who(n), 100, 100 + ahead);
            }
            said.push(skew.turned(4));
        }
        let (wrong, right) = (Some(true), Some(false));
        assert_eq!(said, [wrong, None, None, None, right, None, wrong]);
        assert_eq!(heard(&[100, 100], 130).turned(4), None, "too few to say");
        assert_eq!(heard(&[100], 130).turned(1), wrong);
    }

    #[test]
    fn few_clocks_are_remembered_and_not_for_long() {
        let mut skew = Skew::default();
        for n in 0..100 {
            skew.hear(NOW + Duration::from_secs(n), who(n), 100, 130);
        }
        assert_eq!(skew.clocks.len(), MEMBERS_MAX);
        skew.hear(NOW + Duration::from_secs(300), who(200), 100, 130);
        assert_eq!(skew.clocks.len(), 1);
    }

    /// Whatever is heard, told again, dropped or forgotten, it is the middle of what is held.
    #[test]
    fn the_middle_follows_the_clocks() {
        let mut skew = Skew::default();
        let ahead = [0, 0, 7, 0, 3, 40, 7, 0, 0, 12, 5];
        let mut now = NOW;
        for n in 0..400 {
            let pause = if n % 60 == 59 { 130 } else { n % 9 };
            now = now + Duration::from_secs(pause);
            let theirs = 100 + ahead[n as usize % ahead.len()];
            skew.hear(now, who(n * n % 23), theirs, 100);
            if n % 70 == 69 {
                skew.forget();
            }
            assert_eq!(skew.seconds(), skew.middle(), "after {n}");
        }
    }
}
