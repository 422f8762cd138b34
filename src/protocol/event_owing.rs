//! To whom this node's own events are owed: who has acknowledged up to where, and whom to ask next.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::member::{Generation, NameHash};
use crate::time::Instant;

/// Lives of this node whose events are owed.
pub const OWN_LIVES_MAX: usize = 4;
/// Longest pause before somebody who does not answer is asked again.
const PAUSE_MAX: Duration = Duration::from_secs(10);
/// How often somebody is asked before the pauses grow: under loss the first answers are the ones
/// that are missing.
const EAGER: u32 = 10;

/// What one member has acknowledged of the events of one life.
#[derive(Clone, Copy, Debug)]
struct Acked {
    /// In which of its own lives.
    generation: Generation,
    upto: u64,
}

/// The events of one of this node's lives.
#[derive(Debug, Default)]
struct OwnLife {
    /// The number of the last event.
    head: u64,
    /// Members are asked directly for events up to here.
    asked_upto: u64,
    /// The same, before the last collection.
    asked_before: u64,
    acked: BTreeMap<NameHash, Acked>,
}

/// Who has an event is being collected.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Collecting {
    /// The life that sent it.
    pub generation: Generation,
    /// Its number.
    pub upto: u64,
    /// When those that are not known to have it are asked.
    pub until: Instant,
}

/// Somebody is asked again and again.
#[derive(Clone, Copy, Debug)]
struct Asking {
    times: u32,
    due: Instant,
}

/// Part of what is owed to one member: the events of one life.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Owed {
    /// The life of this node.
    pub generation: Generation,
    /// All up to here were acknowledged.
    pub acked: u64,
    /// It likely has all up to here too, or will not need them.
    pub before: u64,
    /// All up to here are owed.
    pub upto: u64,
}

/// All of it.
#[derive(Debug, Default)]
pub struct EventOwing {
    lives: BTreeMap<Generation, OwnLife>,
    asking: BTreeMap<NameHash, Asking>,
    /// The collection under way.
    pub collecting: Option<Collecting>,
}

impl EventOwing {
    /// This node sent an event in the life `generation`.
    pub fn sent(&mut self, generation: Generation, number: u64) {
        let life = self.lives.entry(generation).or_default();
        life.head = life.head.max(number);
        while self.lives.len() > OWN_LIVES_MAX {
            self.lives.pop_first();
        }
    }

    /// An earlier life sent events up to `number`: everybody is asked for them.
    pub fn restore(&mut self, generation: Generation, number: u64) {
        self.sent(generation, number);
        self.ask_all(generation, number);
    }

    fn ask_all(&mut self, generation: Generation, upto: u64) {
        if let Some(life) = self.lives.get_mut(&generation) {
            life.asked_before = life.asked_upto;
            life.asked_upto = life.asked_upto.max(upto.min(life.head));
        }
    }

    /// The collection is over: from now on everybody who lacks something is asked.
    pub fn end_collection(&mut self) {
        if let Some(ended) = self.collecting.take() {
            self.ask_all(ended.generation, ended.upto);
        }
    }

    /// The newest life that sent something, and its last number.
    #[must_use]
    pub fn newest(&self) -> Option<(Generation, u64)> {
        let (&generation, life) = self.lives.last_key_value()?;
        Some((generation, life.head))
    }

    /// Whether the newest life has sent more than is being collected or asked for.
    #[must_use]
    pub fn is_ahead(&self) -> bool {
        let newest = self.lives.last_key_value();
        self.collecting.is_none() && newest.is_some_and(|(_, life)| life.head > life.asked_upto)
    }

    /// A member's instance has all events of this node's life `generation` up to `upto`. Whether
    /// that was new; `None` when it cannot be.
    pub fn acknowledged(
        &mut self,
        (generation, upto): (Generation, u64),
        (member, instance): (NameHash, Generation),
    ) -> Option<bool> {
        let life = self.lives.get_mut(&generation)?;
        if upto > life.head {
            return None;
        }
        let fresh = Acked {
            generation: instance,
            upto: 0,
        };
        let acked = life.acked.entry(member).or_insert(fresh);
        if acked.generation > instance {
            return Some(false);
        }
        if acked.generation < instance {
            *acked = fresh;
        }
        let new = upto > acked.upto;
        acked.upto = acked.upto.max(upto);
        if new && self.owed(member, instance).next().is_none() {
            self.asking.remove(&member);
        }
        Some(new)
    }

    /// Up to where a member's instance has acknowledged the events of a life.
    #[must_use]
    pub fn acked(&self, generation: Generation, (member, instance): (NameHash, Generation)) -> u64 {
        let acked = self
            .lives
            .get(&generation)
            .and_then(|it| it.acked.get(&member));
        acked
            .filter(|it| it.generation == instance)
            .map_or(0, |it| it.upto)
    }

    /// Up to where each of the newest life's events was acknowledged by all of `members`.
    #[must_use]
    pub fn acked_by_all(
        &self,
        generation: Generation,
        mut members: impl Iterator<Item = (NameHash, Generation)>,
    ) -> u64 {
        let Some(life) = self.lives.get(&generation) else {
            return 0;
        };
        let least = members.try_fold(life.head, |least, member| {
            let upto = self.acked(generation, member).min(least);
            (upto > 0).then_some(upto)
        });
        least.unwrap_or(0)
    }

    /// What a member's instance is to be asked for.
    pub fn owed(&self, member: NameHash, instance: Generation) -> impl Iterator<Item = Owed> + '_ {
        self.lives.iter().filter_map(move |(&generation, life)| {
            let acked = self.acked(generation, (member, instance));
            (acked < life.asked_upto).then_some(Owed {
                generation,
                acked,
                before: life.asked_before,
                upto: life.asked_upto,
            })
        })
    }

    /// Whether a life of this node sent events that are still owed or kept.
    #[must_use]
    pub fn knows(&self, generation: Generation) -> bool {
        self.lives.contains_key(&generation)
    }

    /// The lives of this node that sent something.
    pub fn lives(&self) -> impl Iterator<Item = Generation> + '_ {
        self.lives.keys().copied()
    }

    /// Nothing of this life is kept any more.
    pub fn drop_life(&mut self, generation: Generation) {
        self.lives.remove(&generation);
    }

    /// Begins to ask a member at `due`, unless it is being asked.
    pub fn ask(&mut self, member: NameHash, due: Instant) {
        let first = Asking { times: 0, due };
        self.asking.entry(member).or_insert(first);
    }

    /// Whom to ask now, the longest due first, at most `max`; each is asked again after `pause`,
    /// which doubles once it has been asked some times in vain.
    pub fn take_due(&mut self, now: Instant, max: usize, pause: Duration) -> Vec<NameHash> {
        let due = self.asking.iter().filter(|(_, asking)| asking.due <= now);
        let mut due: Vec<_> = due.map(|(&member, asking)| (asking.due, member)).collect();
        due.sort_unstable();
        due.truncate(max);
        for (_, member) in &due {
            if let Some(asking) = self.asking.get_mut(member) {
                asking.times += 1;
                let doublings = asking.times.saturating_sub(EAGER).min(16);
                asking.due = now + pause.saturating_mul(1 << doublings).min(PAUSE_MAX);
            }
        }
        due.into_iter().map(|(_, member)| member).collect()
    }

    /// Does not ask a member any more.
    pub fn stop_asking(&mut self, member: NameHash) {
        self.asking.remove(&member);
    }

    /// When somebody is next to be asked.
    #[must_use]
    pub fn next_due(&self) -> Option<Instant> {
        self.asking.values().map(|asking| asking.due).min()
    }

    /// Members that are being asked.
    #[must_use]
    pub fn asking(&self) -> usize {
        self.asking.len()
    }

    /// A member is forgotten.
    pub fn drop_member(&mut self, member: NameHash) {
        self.asking.remove(&member);
        self.lives.values_mut().for_each(|life| {
            life.acked.remove(&member);
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);
    const LIFE: Generation = Generation(5);

    fn who(n: u64) -> (NameHash, Generation) {
        (NameHash::from_wire(n.to_be_bytes()), Generation(1))
    }

    fn collected(upto: u64) -> EventOwing {
        let mut owing = EventOwing::default();
        owing.sent(LIFE, upto);
        owing.collecting = Some(Collecting {
            generation: LIFE,
            upto,
            until: Instant::ORIGIN,
        });
        assert!(!owing.is_ahead());
        owing.end_collection();
        owing
    }

    #[test]
    fn an_acknowledgement_covers_all_before_it_and_counts_for_one_life_of_the_member() {
        let mut owing = collected(7);
        let (member, instance) = who(2);
        assert_eq!(owing.owed(member, instance).count(), 1);
        assert_eq!(owing.acknowledged((LIFE, 5), who(2)), Some(true));
        assert_eq!(owing.acknowledged((LIFE, 3), who(2)), Some(false));
        assert_eq!(owing.acked(LIFE, who(2)), 5);
        assert_eq!(owing.acknowledged((LIFE, 8), who(2)), None, "never sent");
        assert_eq!(owing.acknowledged((Generation(6), 1), who(2)), None);
        assert_eq!(owing.acknowledged((LIFE, 7), who(2)), Some(true));
        assert_eq!(owing.owed(member, instance).count(), 0);
        let later = (member, Generation(2));
        assert_eq!(owing.acked(LIFE, later), 0);
        assert_eq!(owing.acknowledged((LIFE, 2), later), Some(true));
        assert_eq!(
            owing.acknowledged((LIFE, 7), who(2)),
            Some(false),
            "an old life"
        );
        assert_eq!(owing.acked(LIFE, later), 2);
        assert_eq!(owing.acked_by_all(LIFE, [later].into_iter()), 2);
        assert_eq!(owing.acked_by_all(LIFE, [later, who(3)].into_iter()), 0);
    }

    #[test]
    fn who_does_not_answer_is_asked_again_after_ever_longer_pauses() {
        let (mut owing, mut now) = (collected(1), Instant::ORIGIN);
        let (member, instance) = who(2);
        owing.ask(member, now);
        owing.ask(member, now + MS);
        let mut pauses = Vec::new();
        for _ in 0..18 {
            assert_eq!(owing.take_due(now, 9, 100 * MS), [member]);
            assert_eq!(owing.take_due(now, 9, 100 * MS), []);
            let due = owing.next_due().expect("asked again");
            pauses.push(due.since(now).as_millis());
            now = due;
        }
        assert_eq!(pauses[..10], [100; 10]);
        assert_eq!(
            pauses[10..],
            [200, 400, 800, 1600, 3200, 6400, 10_000, 10_000]
        );
        owing.acknowledged((LIFE, 1), (member, instance));
        assert_eq!(owing.next_due(), None);
    }

    #[test]
    fn earlier_lives_are_asked_for_at_once_and_only_the_newest_few() {
        let mut owing = EventOwing::default();
        for generation in 1..=6 {
            owing.restore(Generation(generation), 3);
        }
        assert_eq!(
            owing.lives().map(|it| it.0).collect::<Vec<_>>(),
            [3, 4, 5, 6]
        );
        let (member, instance) = who(2);
        assert_eq!(owing.owed(member, instance).count(), 4);
        owing.drop_life(Generation(3));
        assert_eq!(owing.owed(member, instance).count(), 3);
    }
}
