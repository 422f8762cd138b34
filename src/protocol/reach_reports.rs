//! What observers tell of the members that they do not reach: the newest report of each.
//!
//! An observer counts its reports, tells a new one when something has changed, and the same again
//! now and then as long as it is not empty. A report ends with its age, so that those of observers
//! that have gone vanish, and an old one that comes late is not taken.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::member::NameHash;
use crate::time::Instant;
use crate::wire::{Age, Centiseconds, GenerationLow, ReachReport, Unreached};

/// Observers whose reports are kept.
const OBSERVERS_MAX: usize = 256;
/// Members in one report.
const SUBJECTS_MAX: usize = 16;
/// A report is told again after this, as long as it is not empty.
const REFRESH: Duration = Duration::from_secs(30);
/// Changes are told at most this often.
const CHANGE_GAP: Duration = Duration::from_secs(2);
/// Older reports are not believed: three refreshments have failed to come.
const EXPIRY: Duration = Duration::from_secs(100);
/// Most reports that may have been missed between two that others pass on; an observer itself may
/// say what it likes.
const MISSED_MAX: u32 = 10_000;
/// Messages that a report rides on, and as many more for each doubling of the cluster.
const RIDES: u32 = 3;
const RIDES_PER_DOUBLING: u32 = 2;

/// How this node came to know a report.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Hand {
    /// Another than the observer told it.
    Second,
    /// The observer told it.
    First,
}

/// One report.
#[derive(Clone, Debug)]
pub struct Report {
    /// In which life of the observer.
    pub generation: GenerationLow,
    number: u32,
    hand: Hand,
    made: Instant,
    rides: u32,
    /// Whom it does not reach, and since when.
    pub unreached: Vec<(Unreached, Instant)>,
}

/// The reports of all observers, the own one included.
#[derive(Debug, Default)]
pub struct ReachReports {
    reports: BTreeMap<NameHash, Report>,
    number: u32,
}

/// What became of a report that somebody told.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Heard {
    /// It is kept.
    Kept,
    /// Nothing new.
    Known,
    /// It is not to be believed.
    Refused,
}

impl ReachReports {
    /// The node `own` does not reach `unreached`, each since an instant: its report, when that
    /// differs from the last one or is due again.
    pub fn observe(
        &mut self,
        now: Instant,
        (own, generation): (NameHash, GenerationLow),
        mut unreached: Vec<(Unreached, Instant)>,
        size: usize,
    ) {
        unreached.truncate(SUBJECTS_MAX);
        let wanted = match self.reports.get(&own) {
            None => !unreached.is_empty(),
            Some(told) if told.number < self.number => true,
            Some(told) => {
                let age = now.since(told.made);
                let changed = !told.says(&unreached);
                changed && age >= CHANGE_GAP || !unreached.is_empty() && age >= REFRESH
            }
        };
        if wanted {
            self.number = self.number.saturating_add(1);
            let report = Report {
                generation,
                number: self.number,
                hand: Hand::First,
                made: now,
                rides: rides(size),
                unreached,
            };
            self.reports.insert(own, report);
        }
    }

    /// Somebody told `report` about another observer than this node.
    pub fn hear(&mut self, now: Instant, report: &ReachReport, hand: Hand, size: usize) -> Heard {
        let Some(age) = report.age.duration().filter(|age| *age < EXPIRY) else {
            return Heard::Known;
        };
        if let Some(held) = self.reports.get(&report.observer)
            && held.generation == report.generation
        {
            let corrected = hand > held.hand && report.number < held.number;
            if report.number <= held.number && !corrected {
                return Heard::Known;
            }
            if hand == Hand::Second && report.number - held.number > MISSED_MAX {
                return Heard::Refused;
            }
        }
        if !self.has_room_for(report.observer) {
            return Heard::Refused;
        }
        let since = |told: &Unreached| (*told, now.before(age + told.age.duration()));
        let kept = Report {
            generation: report.generation,
            number: report.number,
            hand,
            made: now.before(age),
            rides: rides(size),
            unreached: report.unreached.iter().map(since).collect(),
        };
        self.reports.insert(report.observer, kept);
        Heard::Kept
    }

    /// Somebody told a report of this node, `number`: an earlier life's, or a made-up one. The next
    /// own one goes beyond it.
    pub fn hear_own(&mut self, number: u32) {
        if number > self.number && number - self.number <= MISSED_MAX {
            self.number = number;
        }
    }

    fn has_room_for(&self, observer: NameHash) -> bool {
        self.reports.len() < OBSERVERS_MAX || self.reports.contains_key(&observer)
    }

    /// The reports that are to ride on the next message, those that have ridden least first.
    #[must_use]
    pub fn riders(&self, now: Instant) -> Vec<ReachReport> {
        let mut riders: Vec<_> = self
            .reports
            .iter()
            .filter(|(_, report)| report.rides > 0)
            .collect();
        riders.sort_by_key(|(_, report)| std::cmp::Reverse(report.rides));
        let tell = |(&observer, report): (&NameHash, &Report)| report.tell(observer, now);
        riders.into_iter().map(tell).collect()
    }

    /// The report of `observer` has ridden on a message.
    pub fn rode(&mut self, observer: NameHash) {
        if let Some(report) = self.reports.get_mut(&observer) {
            report.rides = report.rides.saturating_sub(1);
        }
    }

    /// Forgets reports that are too old, and those of observers that `lives` does not confirm.
    pub fn sweep(&mut self, now: Instant, lives: impl Fn(NameHash, GenerationLow) -> bool) {
        self.reports.retain(|&observer, report| {
            now.since(report.made) < EXPIRY && lives(observer, report.generation)
        });
    }

    /// Whether there is none, which is so where all is well.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.reports.is_empty()
    }

    /// The report of `observer`.
    #[must_use]
    pub fn get(&self, observer: NameHash) -> Option<&Report> {
        self.reports.get(&observer)
    }

    /// All reports, in the order of their observers' hashes.
    pub fn iter(&self) -> impl Iterator<Item = (NameHash, &Report)> {
        self.reports
            .iter()
            .map(|(&observer, report)| (observer, report))
    }
}

impl Report {
    /// Whether it says the same, whatever has grown older.
    fn says(&self, unreached: &[(Unreached, Instant)]) -> bool {
        let key = |(told, _): &(Unreached, Instant)| (told.subject, told.ways);
        self.unreached.iter().map(key).eq(unreached.iter().map(key))
    }

    fn tell(&self, observer: NameHash, now: Instant) -> ReachReport {
        let told = |&(unreached, since): &(Unreached, Instant)| Unreached {
            age: Age::from_duration(self.made.since(since)),
            ..unreached
        };
        ReachReport {
            observer,
            generation: self.generation,
            number: self.number,
            age: Centiseconds::from_duration(now.since(self.made)),
            unreached: self.unreached.iter().map(told).collect::<Vec<_>>().into(),
        }
    }
}

/// Messages of one node on which a report rides in a cluster of `size`.
fn rides(size: usize) -> u32 {
    RIDES + RIDES_PER_DOUBLING * size.max(1).ilog2()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::Ways;

    const SECOND: Duration = Duration::from_secs(1);
    const LIFE: GenerationLow = GenerationLow(1);

    fn who(n: u64) -> NameHash {
        NameHash::from_wire(n.to_be_bytes())
    }

    fn begin() -> Instant {
        Instant::ORIGIN + 1000 * SECOND
    }

    fn unreached(subject: u64) -> Unreached {
        Unreached {
            subject: who(subject),
            ways: Ways {
                datagrams_lost: true,
                ..Ways::default()
            },
            age: Age(0),
        }
    }

    fn told(observer: u64, number: u32, subjects: &[u64]) -> ReachReport {
        ReachReport {
            observer: who(observer),
            generation: LIFE,
            number,
            age: Centiseconds(0),
            unreached: subjects
                .iter()
                .map(|&n| unreached(n))
                .collect::<Vec<_>>()
                .into(),
        }
    }

    fn number(reports: &ReachReports, observer: u64) -> Option<u32> {
        reports
            .reports
            .get(&who(observer))
            .map(|report| report.number)
    }

    #[test]
    fn nothing_is_told_where_all_is_well() {
        let mut reports = ReachReports::default();
        reports.observe(begin(), (who(1), LIFE), Vec::new(), 20);
        assert!(reports.is_empty() && reports.riders(begin()).is_empty());
    }

    #[test]
    fn a_report_rides_some_times_and_again_after_a_while_until_it_is_empty() {
        let mut reports = ReachReports::default();
        let mut ridden = Vec::new();
        for second in 0..200 {
            let now = begin() + second * SECOND;
            let all = if second < 100 {
                vec![(unreached(2), begin())]
            } else {
                Vec::new()
            };
            reports.observe(now, (who(1), LIFE), all, 20);
            for rider in reports.riders(now) {
                ridden.push((rider.number, rider.unreached.len()));
                reports.rode(rider.observer);
            }
        }
        let of = |wanted: u32| {
            ridden
                .iter()
                .filter(|(number, _)| *number == wanted)
                .count()
        };
        let each = rides(20) as usize;
        assert_eq!([1, 2, 3, 4, 5, 6].map(of), [each, each, each, 10, each, 0]);
        assert!(ridden.contains(&(5, 0)), "the last one takes all back");
    }

    #[test]
    fn the_newest_report_of_an_observer_replaces_the_others_and_old_ones_vanish() {
        let mut reports = ReachReports::default();
        let now = begin();
        let hear = |reports: &mut ReachReports, report: &ReachReport, hand| {
            reports.hear(now, report, hand, 20)
        };
        assert_eq!(
            hear(&mut reports, &told(1, 5, &[2, 3]), Hand::Second),
            Heard::Kept
        );
        assert_eq!(
            hear(&mut reports, &told(1, 4, &[4]), Hand::Second),
            Heard::Known
        );
        assert_eq!(
            hear(&mut reports, &told(1, 6, &[3]), Hand::Second),
            Heard::Kept
        );
        assert_eq!(reports.reports[&who(1)].unreached.len(), 1);
        let old = ReachReport {
            age: Centiseconds(10_000),
            ..told(1, 7, &[])
        };
        assert_eq!(hear(&mut reports, &old, Hand::Second), Heard::Known);
        reports.sweep(now + EXPIRY, |_, _| true);
        assert!(reports.is_empty());
    }

    /// A peer can speak for others: the observer itself has the last word, and nobody can make a
    /// report that it could not replace.
    #[test]
    fn made_up_reports_are_corrected_by_the_observer() {
        let mut reports = ReachReports::default();
        let now = begin();
        reports.hear(now, &told(1, 5, &[]), Hand::First, 20);
        let absurd = told(1, 5 + MISSED_MAX + 1, &[2]);
        assert_eq!(reports.hear(now, &absurd, Hand::Second, 20), Heard::Refused);
        let made_up = told(1, 500, &[2]);
        assert_eq!(reports.hear(now, &made_up, Hand::Second, 20), Heard::Kept);
        let word = told(1, 6, &[]);
        assert_eq!(reports.hear(now, &word, Hand::Second, 20), Heard::Known);
        assert_eq!(reports.hear(now, &word, Hand::First, 20), Heard::Kept);
        assert_eq!(number(&reports, 1), Some(6));
        // And the observer goes beyond what it hears of itself.
        let mut own = ReachReports::default();
        own.observe(now, (who(1), LIFE), vec![(unreached(2), now)], 20);
        own.hear_own(500);
        own.hear_own(u32::MAX);
        own.observe(now, (who(1), LIFE), vec![(unreached(2), now)], 20);
        assert_eq!(number(&own, 1), Some(501));
    }

    #[test]
    fn reports_are_bounded_and_end_with_the_life_of_the_observer() {
        let mut reports = ReachReports::default();
        for observer in 0..1000 {
            reports.hear(begin(), &told(observer, 1, &[2]), Hand::Second, 20);
        }
        assert_eq!(reports.reports.len(), OBSERVERS_MAX);
        let many = (0..100).map(|n| (unreached(n), begin())).collect();
        let mut own = ReachReports::default();
        own.observe(begin(), (who(1), LIFE), many, 20);
        assert_eq!(own.reports[&who(1)].unreached.len(), SUBJECTS_MAX);
        reports.sweep(begin(), |observer, life| observer == who(3) && life == LIFE);
        assert_eq!(
            reports
                .iter()
                .map(|(observer, _)| observer)
                .collect::<Vec<_>>(),
            [who(3)]
        );
    }

    #[test]
    fn ages_add_up_on_the_way() {
        let mut first = ReachReports::default();
        let since = begin().before(40 * SECOND);
        first.observe(begin(), (who(1), LIFE), vec![(unreached(2), since)], 20);
        let passed_on = first.riders(begin() + 3 * SECOND);
        let mut second = ReachReports::default();
        let now = begin() + 500 * SECOND;
        second.hear(now, &passed_on[0], Hand::First, 20);
        let (_, report) = second.iter().next().expect("one");
        assert_eq!(report.unreached[0].1, now.before(43 * SECOND));
    }
}
