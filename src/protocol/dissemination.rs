//! Which news is told next: prompt push in rounds, and piggyback.
//!
//! A change is pushed at once to a few random members, which makes it fast (log N hops), and to
//! the next members on the hash ring, which makes it complete: everybody is the ring target of
//! exactly as many nodes, so nobody is missed by chance. Later rounds go to further ring members:
//! copies apart in time reach hosts that stalled. After its rounds an update is told no more; what
//! was missed is found by comparing fingerprints, not by telling for longer.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use super::config::Spreading;
use crate::member::NameHash;
use crate::time::Instant;

/// Latest changes that answer a differing fingerprint.
const RECENT_MAX: usize = 64;
/// From this size on the first round must be wider, or it leaves somebody out at 10 % loss.
const LARGE_CLUSTER: usize = 2000;
/// From this share of lost packets on more copies are sent.
const LOSSY: f64 = 0.15;

/// Peers of one round.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Round {
    /// Random members.
    pub random: usize,
    /// Next members on the ring.
    pub ring: usize,
    /// Ring members that earlier rounds have covered.
    pub ring_offset: usize,
}

const fn round(random: usize, ring: usize, ring_offset: usize) -> Round {
    Round {
        random,
        ring,
        ring_offset,
    }
}

const DEFAULT_ROUNDS: &[Round] = &[round(2, 3, 0), round(1, 2, 3), round(0, 2, 5)];
const LARGE_ROUNDS: &[Round] = &[round(3, 4, 0), round(0, 2, 4), round(0, 2, 6)];
const LOSSY_ROUNDS: &[Round] = &[round(4, 4, 0), round(2, 4, 4)];

/// Most rounds of any plan.
pub const ROUNDS_MAX: usize = 3;

/// The rounds for a cluster of `active` members at an observed `loss`.
#[must_use]
pub fn rounds(active: usize, loss: f64) -> &'static [Round] {
    if loss >= LOSSY {
        LOSSY_ROUNDS
    } else if active > LARGE_CLUSTER {
        LARGE_ROUNDS
    } else {
        DEFAULT_ROUNDS
    }
}

/// How an update is written.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Form {
    /// The status only, for members that the receivers know.
    Status,
    /// The whole record.
    Record,
}

/// How eagerly an update is told. The order is the order of telling.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Urgency {
    /// Refutations and the own record.
    First,
    /// Deaths and leaves.
    Verdict,
    /// Everything else.
    Normal,
    /// Suspicions: they ride along and go to the accused, but are not pushed.
    Narrow,
}

#[derive(Clone, Copy, Debug)]
struct Item {
    form: Form,
    urgency: Urgency,
    round: usize,
    due: Option<Instant>,
    rides: u8,
}

/// News about members, one item each: the content is read from the table when it is told, so the
/// newest is told and nothing piles up.
#[derive(Debug)]
pub struct Dissemination {
    spreading: Spreading,
    items: BTreeMap<NameHash, Item>,
    /// The items that are due, in order: the earliest is asked for after every message.
    due: BTreeSet<(Instant, NameHash)>,
    recent: VecDeque<NameHash>,
}

impl Dissemination {
    /// No news yet.
    #[must_use]
    pub fn new(spreading: Spreading) -> Self {
        Dissemination {
            spreading,
            items: BTreeMap::new(),
            due: BTreeSet::new(),
            recent: VecDeque::new(),
        }
    }

    /// `member` has changed and is to be told.
    pub fn publish(&mut self, member: NameHash, form: Form, urgency: Urgency, due: Instant) {
        let form = self
            .items
            .get(&member)
            .map_or(form, |item| item.form.max(form));
        let item = Item {
            form,
            urgency,
            round: 0,
            due: None,
            rides: 0,
        };
        self.set_due(member, None);
        self.items.insert(member, item);
        let pushed = urgency != Urgency::Narrow && self.spreading == Spreading::Prompt;
        self.set_due(member, pushed.then_some(due));
        self.note_recent(member);
    }

    fn set_due(&mut self, member: NameHash, due: Option<Instant>) {
        let Some(item) = self.items.get_mut(&member) else {
            return;
        };
        if let Some(at) = std::mem::replace(&mut item.due, due) {
            self.due.remove(&(at, member));
        }
        self.due.extend(due.map(|at| (at, member)));
    }

    /// `member` has changed; remembered for peers whose table differs, but not told by itself.
    pub fn note_recent(&mut self, member: NameHash) {
        self.recent.retain(|&held| held != member);
        self.recent.push_front(member);
        self.recent.truncate(RECENT_MAX);
    }

    /// When the next push is due.
    #[must_use]
    pub fn next_due(&self) -> Option<Instant> {
        self.due.first().map(|&(at, _)| at)
    }

    /// How many updates are being told.
    #[must_use]
    pub fn len(&self) -> usize {
        self.items.len()
    }

    /// What is due up to `until`, most urgent first, all of one round: that round's number and the
    /// updates.
    #[must_use]
    pub fn due_batch(&self, until: Instant) -> Option<(usize, Vec<(NameHash, Form)>)> {
        let mut due: Vec<_> = self
            .due
            .iter()
            .take_while(|&&(at, _)| at <= until)
            .filter_map(|&(at, member)| {
                let item = self.items.get(&member)?;
                Some((item.urgency, item.round, at, member, item.form))
            })
            .collect();
        due.sort_unstable_by_key(|&(urgency, round, at, member, _)| (urgency, round, at, member));
        let number = due.first()?.1;
        let batch = due
            .iter()
            .filter(|item| item.1 == number)
            .map(|item| (item.3, item.4));
        Some((number, batch.collect()))
    }

    /// The updates of `members` were pushed; their next round of `rounds` comes `gap` later.
    pub fn pushed(&mut self, members: &[NameHash], now: Instant, gap: Duration, rounds: usize) {
        for member in members {
            if let Some(item) = self.items.get_mut(member) {
                item.round += 1;
                let again = item.round < rounds;
                self.set_due(*member, again.then(|| now + gap));
                self.drop_if_told(*member);
            }
        }
    }

    /// Updates that may ride along, those that have ridden least first.
    #[must_use]
    pub fn riders(&self) -> Vec<(NameHash, Form)> {
        let mut riders: Vec<_> = self
            .items
            .iter()
            .filter(|(_, item)| item.rides < self.spreading.rides())
            .map(|(&member, item)| (item.rides, item.urgency, member, item.form))
            .collect();
        riders.sort_unstable();
        riders
            .into_iter()
            .map(|(_, _, member, form)| (member, form))
            .collect()
    }

    /// The update of `member` rode along.
    pub fn rode(&mut self, member: NameHash) {
        if let Some(item) = self.items.get_mut(&member) {
            item.rides += 1;
            self.drop_if_told(member);
        }
    }

    /// The members that changed last, newest first.
    pub fn recent(&self) -> impl Iterator<Item = NameHash> {
        self.recent.iter().copied()
    }

    fn drop_if_told(&mut self, member: NameHash) {
        if let Some(item) = self.items.get(&member)
            && item.due.is_none()
            && item.rides >= self.spreading.rides()
        {
            self.items.remove(&member);
        }
    }
}

/// A byte budget that refills steadily. It may be overdrawn by one datagram; then it must refill
/// before the next.
#[derive(Debug)]
pub struct ByteBucket {
    rate: f64,
    burst: f64,
    level: f64,
    filled_at: Instant,
}

impl ByteBucket {
    /// A full bucket of `burst` bytes that refills at `rate` bytes per second.
    #[must_use]
    pub fn new(rate: u32, burst: u32, now: Instant) -> Self {
        let burst = f64::from(burst);
        ByteBucket {
            rate: f64::from(rate),
            burst,
            level: burst,
            filled_at: now,
        }
    }

    /// Takes `bytes` out.
    pub fn take(&mut self, now: Instant, bytes: usize) {
        self.level = self.level_at(now) - bytes as f64;
        self.filled_at = now;
    }

    /// How long until something may be sent; zero when it may be sent now.
    #[must_use]
    pub fn wait(&self, now: Instant) -> Duration {
        Duration::from_secs_f64((-self.level_at(now) / self.rate).max(0.0))
    }

    fn level_at(&self, now: Instant) -> f64 {
        (self.level + self.rate * now.since(self.filled_at).as_secs_f64()).min(self.burst)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn who(n: u64) -> NameHash {
        NameHash::from_wire(n.to_be_bytes())
    }

    #[test]
    fn an_update_is_told_in_its_rounds_and_rides_twice() {
        let mut news = Dissemination::new(Spreading::Prompt);
        let now = Instant::ORIGIN;
        news.publish(who(1), Form::Record, Urgency::Normal, now);
        for number in 0..3 {
            let later = now + number as u32 * 120 * MS;
            assert_eq!(
                news.due_batch(later),
                Some((number, vec![(who(1), Form::Record)]))
            );
            news.pushed(&[who(1)], later, 120 * MS, 3);
        }
        assert_eq!(news.next_due(), None);
        for _ in 0..Spreading::Prompt.rides() {
            assert_eq!(news.riders(), vec![(who(1), Form::Record)]);
            news.rode(who(1));
        }
        assert_eq!(news.len(), 0);
    }

    #[test]
    fn refutations_go_before_deaths_before_the_rest() {
        let mut news = Dissemination::new(Spreading::Prompt);
        let now = Instant::ORIGIN;
        news.publish(who(3), Form::Record, Urgency::Normal, now);
        news.publish(who(2), Form::Status, Urgency::Verdict, now + MS);
        news.publish(who(1), Form::Status, Urgency::First, now + MS);
        news.publish(who(4), Form::Status, Urgency::Narrow, now);
        let (_, batch) = news.due_batch(now + MS).expect("due");
        let order: Vec<_> = batch.into_iter().map(|(member, _)| member).collect();
        assert_eq!(order, [who(1), who(2), who(3)]);
        assert_eq!(news.riders().len(), 4, "a suspicion rides along");
    }

    #[test]
    fn a_newer_change_starts_its_rounds_anew_and_keeps_the_fuller_form() {
        let mut news = Dissemination::new(Spreading::Prompt);
        let now = Instant::ORIGIN;
        news.publish(who(1), Form::Record, Urgency::Normal, now);
        news.pushed(&[who(1)], now, 120 * MS, 3);
        news.publish(who(1), Form::Status, Urgency::First, now + MS);
        assert_eq!(
            news.due_batch(now + MS),
            Some((0, vec![(who(1), Form::Record)]))
        );
    }

    #[test]
    fn rounds_continue_on_the_ring_where_the_last_one_stopped() {
        for (active, loss) in [(10, 0.0), (3000, 0.0), (10, 0.3)] {
            let mut covered = 0;
            for round in rounds(active, loss) {
                assert_eq!(round.ring_offset, covered);
                covered += round.ring;
            }
            assert!(rounds(active, loss).len() <= ROUNDS_MAX);
        }
    }

    #[test]
    fn the_bucket_bounds_bytes_per_second() {
        let mut bucket = ByteBucket::new(1000, 2000, Instant::ORIGIN);
        bucket.take(Instant::ORIGIN, 2500);
        assert_eq!(bucket.wait(Instant::ORIGIN), 500 * MS);
        assert_eq!(bucket.wait(Instant::ORIGIN + 600 * MS), Duration::ZERO);
    }
}
