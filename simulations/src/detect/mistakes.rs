//! Mistakes: members that are accused though they run, as Chen, Toueg and Aguilera measure them
//! ("On the Quality of Service of Failure Detectors", IEEE Transactions on Computers 51, 2002).
//!
//! One mistake about a member lasts from the first observer's accusation until nobody holds it any
//! more: its length is their T_M, and the time from one to the next their T_MR. A query asks a
//! random observer about a random member; it is answered wrongly while that observer accuses.

use std::collections::BTreeMap;

use rumord::time::Instant;
use serde::{Deserialize, Serialize};

use crate::compare::contender::{Change, Member, View};

/// Wrong accusations that one run tells one by one.
const TOLD_MAX: usize = 20;

/// Mistakes of one kind in one run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Mistakes {
    /// Accusations by an observer's own evidence, each observer's counted.
    pub accusations: u64,
    /// How long each mistake about a member lasted, in seconds.
    pub lengths: Vec<f64>,
    /// Seconds during which one observer held it, added up over all pairs.
    pub pair_seconds: f64,
}

/// One wrong accusation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Wrong {
    /// When, in seconds since the run began.
    pub at: f64,
    /// The number of the member that accused.
    pub observer: usize,
    /// The number of the member that ran.
    pub subject: usize,
    /// Whether it was declared dead, not only suspected.
    pub dead: bool,
    /// The evidence.
    pub why: String,
}

/// What is held wrongly at present.
#[derive(Debug, Default)]
struct Held {
    found: Mistakes,
    /// By subject and observer, since when.
    pairs: BTreeMap<(Member, Member), Instant>,
    /// By subject: since when anybody, and how many.
    about: BTreeMap<Member, (Instant, usize)>,
}

impl Held {
    fn begin(&mut self, subject: Member, observer: Member, at: Instant) {
        if self.pairs.contains_key(&(subject, observer)) {
            return;
        }
        self.pairs.insert((subject, observer), at);
        self.about.entry(subject).or_insert((at, 0)).1 += 1;
    }

    fn end(&mut self, subject: Member, observer: Member, at: Instant) {
        let Some(since) = self.pairs.remove(&(subject, observer)) else {
            return;
        };
        self.found.pair_seconds += at.since(since).as_secs_f64();
        let Some((since, observers)) = self.about.get_mut(&subject) else {
            return;
        };
        *observers -= 1;
        if *observers == 0 {
            self.found.lengths.push(at.since(*since).as_secs_f64());
            self.about.remove(&subject);
        }
    }

    /// Ends all that `ends`.
    fn end_all(&mut self, at: Instant, ends: impl Fn(Member, Member) -> bool) {
        let pairs = self.pairs.keys().copied();
        let ended: Vec<_> = pairs.filter(|pair| ends(pair.0, pair.1)).collect();
        for (subject, observer) in ended {
            self.end(subject, observer, at);
        }
    }
}

/// Follows what all say of each other, and who really runs.
#[derive(Debug, Default)]
pub struct Ledger {
    suspicions: Held,
    deaths: Held,
    down: Option<Member>,
    told: Vec<Wrong>,
}

impl Ledger {
    /// A view has changed. Changes come in the order of time.
    pub fn note(&mut self, change: &Change) {
        let Change {
            at,
            observer,
            subject,
            to,
            ref why,
        } = *change;
        if self.down == Some(subject) || observer == subject {
            return;
        }
        for (held, from) in [
            (&mut self.suspicions, View::Suspect),
            (&mut self.deaths, View::Dead),
        ] {
            if to >= from {
                held.begin(subject, observer, at);
            } else {
                held.end(subject, observer, at);
            }
        }
        let Some(why) = why else { return };
        match to {
            View::Alive => return,
            View::Suspect => self.suspicions.found.accusations += 1,
            View::Dead => self.deaths.found.accusations += 1,
        }
        self.tell(Wrong {
            at: at.since(Instant::ORIGIN).as_secs_f64(),
            observer: observer.0 + 1,
            subject: subject.0 + 1,
            dead: to == View::Dead,
            why: why.clone(),
        });
    }

    /// Keeps it to be told; a death takes the place of a suspicion where there are too many.
    fn tell(&mut self, wrong: Wrong) {
        if self.told.len() == TOLD_MAX {
            let suspicion = self.told.iter().rposition(|told| !told.dead);
            match suspicion {
                Some(place) if wrong.dead => self.told.remove(place),
                _ => return,
            };
        }
        self.told.push(wrong);
    }

    /// A member has crashed: who accuses it is right from now on, and it accuses nobody any more.
    pub fn crashed(&mut self, member: Member, at: Instant) {
        self.down = Some(member);
        for held in [&mut self.suspicions, &mut self.deaths] {
            held.end_all(at, |subject, observer| {
                subject == member || observer == member
            });
        }
    }

    /// The member that had crashed runs again.
    pub fn returned(&mut self) {
        self.down = None;
    }

    /// The run is over, and with it every mistake: suspicions, deaths, and some of them one by one.
    pub fn close(mut self, at: Instant) -> (Mistakes, Mistakes, Vec<Wrong>) {
        for held in [&mut self.suspicions, &mut self.deaths] {
            held.end_all(at, |_, _| true);
        }
        (self.suspicions.found, self.deaths.found, self.told)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Instant {
        Instant::from_nanos(seconds * 1_000_000_000)
    }

    fn change(seconds: u64, observer: usize, subject: usize, to: View) -> Change {
        Change {
            at: at(seconds),
            observer: Member(observer),
            subject: Member(subject),
            to,
            why: (observer == 0).then(String::new),
        }
    }

    #[test]
    fn a_mistake_lasts_from_the_first_accusation_to_the_last_acquittal() {
        let mut ledger = Ledger::default();
        for (seconds, observer, to) in [
            (10, 0, View::Suspect),
            (11, 1, View::Suspect),
            (12, 0, View::Dead),
            (13, 0, View::Alive),
            (15, 1, View::Alive),
            (20, 0, View::Suspect),
        ] {
            ledger.note(&change(seconds, observer, 2, to));
        }
        let (suspicions, deaths, told) = ledger.close(at(21));
        assert_eq!(suspicions.accusations, 2);
        assert_eq!(suspicions.lengths, [5.0, 1.0]);
        assert_eq!(suspicions.pair_seconds, 3.0 + 4.0 + 1.0);
        assert_eq!((deaths.accusations, deaths.lengths), (1, vec![1.0]));
        assert_eq!(told.len(), 3);
    }

    #[test]
    fn an_accusation_of_the_crashed_is_no_mistake() {
        let mut ledger = Ledger::default();
        ledger.note(&change(1, 0, 2, View::Suspect));
        ledger.crashed(Member(2), at(3));
        ledger.note(&change(4, 1, 2, View::Dead));
        ledger.returned();
        let (suspicions, deaths, _) = ledger.close(at(9));
        assert_eq!(suspicions.lengths, [2.0]);
        assert_eq!(deaths, Mistakes::default());
    }

    #[test]
    fn deaths_are_told_before_suspicions() {
        let mut ledger = Ledger::default();
        for second in 0..TOLD_MAX as u64 + 5 {
            ledger.note(&change(second, 0, 2, View::Suspect));
        }
        ledger.note(&change(90, 0, 2, View::Dead));
        let (_, _, told) = ledger.close(at(91));
        assert_eq!(told.len(), TOLD_MAX);
        assert!(told.last().is_some_and(|wrong| wrong.dead));
    }
}
