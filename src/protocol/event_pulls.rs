//! Events that this node lacks: of whom they may be had, and when they are lost.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use super::outbox::ExchangeId;
use crate::member::{Delivery, EventRef, Generation, NameHash};
use crate::time::Instant;

/// Sequences of which something is lacked at a time.
const WANTED_MAX: usize = 4096;
/// Members that are known to have it and have not been asked.
const SOURCES_MAX: usize = 4;
/// Members that are asked for one thing, before it is left to comparing heads.
const ASKED_MAX: usize = 12;
/// Pause after all that may be asked were asked in vain.
const ROUND_PAUSE: Duration = Duration::from_secs(5);
/// Denials that are remembered of one thing.
const DENIALS_MAX: usize = 64;
/// Pause after somebody could not help.
const PAUSE: Duration = Duration::from_millis(50);

/// What is lacked: a sequence, of which the book says from where on; or one event that is sent at
/// most once.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Lack {
    /// Who sent it.
    pub origin: NameHash,
    /// In which life.
    pub generation: Generation,
    /// The number of an event that is sent at most once; `None` for a sequence of those that are
    /// sent at least once.
    pub single: Option<u64>,
}

impl Lack {
    /// What is lacked when `event` is.
    #[must_use]
    pub fn of(event: &EventRef) -> Self {
        let single = event.delivery == Delivery::AtMostOnce;
        Lack {
            origin: event.origin,
            generation: event.generation,
            single: single.then_some(event.sequence),
        }
    }
}

/// Something that is lacked.
#[derive(Debug)]
struct Wanted {
    /// The last number.
    upto: u64,
    /// The first that is being asked for.
    from: u64,
    since: Instant,
    not_before: Instant,
    sources: VecDeque<NameHash>,
    asked: Vec<NameHash>,
    running: Option<ExchangeId>,
    /// Whether it is certain that it was sent.
    evident: bool,
    /// Who keeps nothing of what is lacked, and from which number on it keeps something.
    denials: BTreeMap<NameHash, Option<u64>>,
}

/// How a pull of one sequence went.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Pulled {
    /// All that was lacked has come.
    All,
    /// Some has come: the same member may have more.
    Some,
    /// Nothing has come: the member had no time, or was not reached.
    Nothing,
    /// Nothing has come: the member keeps only what begins with this number; `None` where it knows
    /// of nothing more than this node has.
    Denied(Option<u64>),
}

/// What members have said that do not keep what is lacked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Denials {
    /// How many members said so.
    pub members: usize,
    /// The least number that one of them keeps.
    pub first: Option<u64>,
    /// What the origin itself keeps, if it was asked.
    pub by_origin: Option<u64>,
    /// For how long it is lacked.
    pub lacked_for: Duration,
}

/// One entry for each sequence.
#[derive(Debug, Default)]
pub struct EventPulls {
    wanted: BTreeMap<Lack, Wanted>,
}

impl EventPulls {
    /// `source` has what is lacked up to `upto`; it is asked from `not_before` on. Whether there
    /// was room to note it.
    pub fn want(&mut self, lack: Lack, upto: u64, source: NameHash, not_before: Instant) -> bool {
        if !self.wanted.contains_key(&lack) && self.wanted.len() >= WANTED_MAX {
            return false;
        }
        let wanted = self.wanted.entry(lack).or_insert_with(|| Wanted {
            upto,
            from: 0,
            since: not_before,
            not_before,
            sources: VecDeque::new(),
            asked: Vec::new(),
            running: None,
            evident: false,
            denials: BTreeMap::new(),
        });
        if upto > wanted.upto {
            wanted.upto = upto;
            // Who was asked in vain may have it by now.
            wanted.asked.clear();
        }
        let known = wanted.sources.contains(&source) || wanted.asked.contains(&source);
        if !known && wanted.sources.len() < SOURCES_MAX {
            wanted.sources.push_back(source);
        }
        true
    }

    /// What is lacked up to where.
    #[must_use]
    pub fn wanted(&self, lack: &Lack) -> Option<u64> {
        self.wanted.get(lack).map(|wanted| wanted.upto)
    }

    /// From where on it was asked for last.
    #[must_use]
    pub fn from(&self, lack: &Lack) -> Option<u64> {
        self.wanted.get(lack).map(|wanted| wanted.from)
    }

    /// Only those are still lacked for which `holds`; what is being asked for stays.
    pub fn retain(&mut self, holds: impl Fn(&Lack, u64) -> bool) {
        self.wanted
            .retain(|lack, wanted| wanted.running.is_some() || holds(lack, wanted.upto));
    }

    /// Nothing of `origin` is lacked any more.
    pub fn drop_origin(&mut self, origin: NameHash) {
        self.wanted.retain(|lack, _| lack.origin != origin);
    }

    /// Whether nothing is lacked.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.wanted.is_empty()
    }

    /// When somebody is next to be asked.
    #[must_use]
    pub fn next_due(&self) -> Option<Instant> {
        let waiting = self.wanted.values().filter(|it| it.running.is_none());
        waiting.map(|wanted| wanted.not_before).min()
    }

    /// Whom to ask for what: the first that is due, and up to `max` others of the same member.
    /// `usable` says whether a member can be asked; where none is known to have it, `another` names
    /// one that was not asked yet.
    pub fn take_due(
        &mut self,
        now: Instant,
        max: usize,
        usable: impl Fn(NameHash) -> bool,
        mut another: impl FnMut(&Lack, &[NameHash]) -> Option<NameHash>,
    ) -> Option<(NameHash, Vec<(Lack, u64)>)> {
        let mut source = None;
        let mut lacking = Vec::new();
        let mut hopeless = Vec::new();
        for (&lack, wanted) in &mut self.wanted {
            if wanted.running.is_some() || wanted.not_before > now || lacking.len() >= max {
                continue;
            }
            wanted.sources.retain(|&member| usable(member));
            if wanted.sources.is_empty() {
                let more = wanted.asked.len() < ASKED_MAX;
                let found = if more {
                    another(&lack, &wanted.asked)
                } else {
                    None
                };
                wanted.sources.extend(found);
            }
            let Some(&first) = wanted.sources.front() else {
                hopeless.push(lack);
                continue;
            };
            let chosen = *source.get_or_insert(first);
            if wanted.sources.contains(&chosen) {
                lacking.push((lack, wanted.upto));
            }
        }
        for lack in hopeless {
            self.give_up(&lack, now);
        }
        Some((source?, lacking))
    }

    /// All were asked in vain. What is known to exist is asked for again after a while; what
    /// somebody only claimed is forgotten.
    fn give_up(&mut self, lack: &Lack, now: Instant) {
        let exists = |it: &Wanted| it.evident || it.denials.values().any(Option::is_some);
        match self.wanted.get_mut(lack).filter(|it| exists(it)) {
            Some(wanted) => {
                wanted.asked.clear();
                wanted.not_before = now + ROUND_PAUSE;
            }
            None => _ = self.wanted.remove(lack),
        }
    }

    /// Something later than what is lacked is here: it was sent.
    pub fn note_evidence(&mut self, lack: &Lack) {
        if let Some(wanted) = self.wanted.get_mut(lack) {
            wanted.evident = true;
        }
    }

    /// `source` is being asked for these, from the given numbers on.
    pub fn started(&mut self, lacking: &[(Lack, u64)], source: NameHash, exchange: ExchangeId) {
        for (lack, from) in lacking {
            if let Some(wanted) = self.wanted.get_mut(lack) {
                wanted.from = *from;
                wanted.running = Some(exchange);
                wanted.sources.retain(|&member| member != source);
                wanted.asked.push(source);
            }
        }
    }

    /// What is being asked for on this stream.
    #[must_use]
    pub fn running(&self, exchange: ExchangeId) -> Vec<Lack> {
        let running = self
            .wanted
            .iter()
            .filter(|(_, it)| it.running == Some(exchange));
        running.map(|(&lack, _)| lack).collect()
    }

    /// How the pull of one sequence from `source` went; what was said of it so far by those that do
    /// not keep it.
    pub fn ended(
        &mut self,
        lack: &Lack,
        source: NameHash,
        pulled: Pulled,
        now: Instant,
    ) -> Option<Denials> {
        let wanted = self.wanted.get_mut(lack)?;
        wanted.running = None;
        match pulled {
            Pulled::All => _ = self.wanted.remove(lack),
            Pulled::Some => {
                wanted.denials.clear();
                wanted.since = now;
                wanted.asked.retain(|&member| member != source);
                wanted.sources.push_front(source);
                wanted.not_before = now;
            }
            Pulled::Nothing => wanted.not_before = now + PAUSE,
            Pulled::Denied(first) => {
                wanted.not_before = now + PAUSE;
                if wanted.denials.len() < DENIALS_MAX {
                    wanted.denials.insert(source, first);
                }
                return Some(Denials {
                    members: wanted.denials.len(),
                    first: wanted.denials.values().copied().flatten().min(),
                    by_origin: wanted.denials.get(&lack.origin).copied().flatten(),
                    lacked_for: now.since(wanted.since),
                });
            }
        }
        None
    }

    /// Part of what was lacked is given up: the rest is asked for anew.
    pub fn start_anew(&mut self, lack: &Lack) {
        if let Some(wanted) = self.wanted.get_mut(lack) {
            for (member, _) in std::mem::take(&mut wanted.denials) {
                wanted.asked.retain(|&asked| asked != member);
                if wanted.sources.len() < SOURCES_MAX {
                    wanted.sources.push_back(member);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn who(n: u64) -> NameHash {
        NameHash::from_wire(n.to_be_bytes())
    }

    fn lack(n: u64) -> Lack {
        Lack {
            origin: who(n),
            generation: Generation(1),
            single: None,
        }
    }

    fn asked(pulls: &mut EventPulls, now: Instant) -> Option<(NameHash, Vec<(Lack, u64)>)> {
        pulls.take_due(now, 64, |_| true, |_, _| None)
    }

    #[test]
    fn one_member_is_asked_for_all_that_it_has() {
        let (mut pulls, now) = (EventPulls::default(), Instant::ORIGIN);
        pulls.want(lack(1), 5, who(8), now);
        pulls.want(lack(2), 6, who(9), now);
        pulls.want(lack(3), 7, who(8), now);
        let (source, lacking) = asked(&mut pulls, now).expect("due");
        assert_eq!(
            (source, &lacking[..]),
            (who(8), &[(lack(1), 5), (lack(3), 7)][..])
        );
        pulls.started(&lacking, source, ExchangeId(1));
        assert_eq!(pulls.running(ExchangeId(1)), [lack(1), lack(3)]);
        assert_eq!(asked(&mut pulls, now), Some((who(9), vec![(lack(2), 6)])));
        assert_eq!(pulls.ended(&lack(1), who(8), Pulled::All, now), None);
        assert_eq!(pulls.wanted(&lack(1)), None);
        pulls.ended(&lack(3), who(8), Pulled::Some, now);
        let (source, _) = asked(&mut pulls, now).expect("goes on");
        assert_eq!(source, who(9), "in the order of what is lacked");
    }

    #[test]
    fn nobody_is_asked_before_its_time_and_who_cannot_be_asked_is_passed_over() {
        let (mut pulls, now) = (EventPulls::default(), Instant::ORIGIN + PAUSE);
        pulls.want(lack(1), 5, who(8), now + PAUSE);
        assert_eq!(
            (asked(&mut pulls, now), pulls.next_due()),
            (None, Some(now + PAUSE))
        );
        let later = now + PAUSE;
        let found = pulls.take_due(
            later,
            1,
            |_| false,
            |_, asked| asked.is_empty().then_some(who(7)),
        );
        assert_eq!(found, Some((who(7), vec![(lack(1), 5)])));
        pulls.started(&[(lack(1), 5)], who(7), ExchangeId(1));
        pulls.ended(&lack(1), who(7), Pulled::Nothing, later);
        assert_eq!(asked(&mut pulls, later), None, "a pause");
        assert_eq!(asked(&mut pulls, later + PAUSE), None);
        assert!(pulls.is_empty(), "given up");
    }

    fn denied(pulls: &mut EventPulls, n: u64, first: Option<u64>, now: Instant) -> Denials {
        pulls.want(lack(1), 9, who(n), now);
        pulls.started(&[(lack(1), 1)], who(n), ExchangeId(n));
        let denials = pulls.ended(&lack(1), who(n), Pulled::Denied(first), now);
        denials.expect("wanted")
    }

    #[test]
    fn what_members_deny_is_put_together() {
        let (mut pulls, now) = (EventPulls::default(), Instant::ORIGIN);
        denied(&mut pulls, 2, None, now);
        denied(&mut pulls, 3, Some(7), now);
        let denials = denied(&mut pulls, 1, Some(8), now + PAUSE);
        let expected = Denials {
            members: 3,
            first: Some(7),
            by_origin: Some(8),
            lacked_for: PAUSE,
        };
        assert_eq!(denials, expected);
        pulls.start_anew(&lack(1));
        assert_eq!(denied(&mut pulls, 2, None, now).members, 1);
    }

    #[test]
    fn what_is_only_claimed_is_given_up_and_what_was_sent_is_asked_for_again() {
        let (mut pulls, now) = (EventPulls::default(), Instant::ORIGIN);
        for (n, evident) in [(1, false), (2, true)] {
            pulls.want(lack(n), 9, who(8), now);
            if evident {
                pulls.note_evidence(&lack(n));
            }
        }
        let (source, lacking) = asked(&mut pulls, now).expect("due");
        pulls.started(&lacking, source, ExchangeId(1));
        for n in [1, 2] {
            pulls.ended(&lack(n), source, Pulled::Nothing, now);
        }
        assert_eq!(asked(&mut pulls, now + PAUSE), None);
        assert_eq!(
            (pulls.wanted(&lack(1)), pulls.wanted(&lack(2))),
            (None, Some(9))
        );
        assert_eq!(pulls.next_due(), Some(now + PAUSE + ROUND_PAUSE));
    }

    #[test]
    fn what_is_lacked_has_a_limit() {
        let mut pulls = EventPulls::default();
        let wanted =
            (0..2 * WANTED_MAX as u64).filter(|&n| pulls.want(lack(n), 1, who(1), Instant::ORIGIN));
        assert_eq!(wanted.count(), WANTED_MAX);
        for source in 0..9 {
            pulls.want(lack(1), 1, who(source), Instant::ORIGIN);
        }
        assert_eq!(pulls.wanted[&lack(1)].sources.len(), SOURCES_MAX);
    }
}
