//! How this node reaches members: by datagram, by the largest datagram, by stream.
//!
//! A question that is not answered says nothing of the path as long as the member may be dead or
//! stand still. It counts once another path has shown that the member lived at that time, and a
//! path is blocked after a run of such misses that chance does not explain. One answer ends it.
//! Only paths with a miss are remembered: where all is well, this is empty.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::member::NameHash;
use crate::time::Instant;

/// Share of losses assumed before anything was measured, and the weight of one question.
const LOSS_PRIOR: f64 = 0.02;
const LOSS_WEIGHT: f64 = 1.0 / 64.0;
/// Losses in a row that a question that is answered at last can teach.
const LESSONS_MAX: u32 = 64;

/// Members whose paths are watched at a time; a further miss waits for its next question.
const WATCHED_MAX: usize = 64;
/// Misses of one run, at least.
const MISSES: u32 = 3;
/// Decades of evidence in one run, at least: what the misses weigh by the share of answers that go
/// missing anyway.
const EVIDENCE: f64 = 6.0;
/// Misses closer to each other are one: a burst of loss takes all of them.
const GAP: Duration = Duration::from_millis(500);
/// A run is at least this long: no burst of loss takes all of it.
const SPAN: Duration = Duration::from_secs(2);
/// How far a proof of life may be from a miss that it certifies.
const BESIDE: Duration = Duration::from_secs(1);
/// A proof later than this after its question may come from somebody who stood still meanwhile.
const TIMELY: Duration = Duration::from_secs(1);
/// Pace of the questions on a path with misses, and on one that is blocked.
const PACE_DATAGRAMS: Duration = Duration::from_secs(1);
const PACE_STREAMS: Duration = Duration::from_secs(3);
const PACE_BLOCKED: Duration = Duration::from_secs(10);
/// The member hears this node if its datagrams came as lately as this.
const HEARD_WITHIN: Duration = Duration::from_secs(25);
/// Without a miss for so long a path that is not blocked is forgotten.
const QUIET: Duration = Duration::from_secs(60);
/// One in so many members that are asked over a stream in turn gets the largest datagram too.
const LARGE_TURNS: u32 = 5;
/// Time between two questions of one node about the largest datagram on paths that have not lost
/// one.
const SIZE_PACE: Duration = Duration::from_secs(180);

/// What a path carries.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Way {
    /// Datagrams.
    Datagrams,
    /// The largest datagrams.
    LargeDatagrams,
    /// Streams.
    Streams,
}

impl Way {
    const ALL: [Way; 3] = [Way::Datagrams, Way::LargeDatagrams, Way::Streams];
}

/// How a member is reached, when it is not reached in every way.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Blocked {
    /// Since when which ways are blocked, in the order of [`Way`].
    pub since: [Option<Instant>; 3],
    /// Whether streams are known to get through.
    pub streams_pass: bool,
    /// Whether datagrams of the member arrive here.
    pub heard: bool,
}

/// Questions in a row that one way did not answer.
#[derive(Clone, Copy, Debug, Default)]
struct Run {
    /// Asked and found missing at these times, and not certified yet.
    pending: Option<(Instant, Instant)>,
    /// What one miss weighs by now, in decades.
    weight: f64,
    /// All in a row, certified or not.
    unanswered: u32,
    misses: u32,
    /// When the first and the last of the misses were asked.
    first: Instant,
    last: Instant,
    /// Since when the way is blocked.
    blocked: Option<Instant>,
    /// When the latest answered question was asked.
    answered: Option<Instant>,
    /// When this way is next to be asked.
    next: Instant,
}

impl Run {
    fn certify(&mut self, proof: Instant) {
        let Some((asked, missed)) = self.pending else {
            return;
        };
        if proof + BESIDE < asked || proof > missed + BESIDE {
            return;
        }
        self.pending = None;
        if self.misses == 0 {
            self.first = asked;
        } else if asked < self.last + GAP {
            return;
        }
        self.misses = self.misses.saturating_add(1);
        self.last = asked;
        let long = self.last.since(self.first) >= SPAN;
        let enough = f64::from(self.misses) * self.weight >= EVIDENCE;
        if self.misses >= MISSES && enough && long {
            self.blocked = self.blocked.or(Some(self.first));
        }
    }

    fn is_clean(&self) -> bool {
        self.pending.is_none() && self.misses == 0
    }
}

#[derive(Debug, Default)]
struct Watched {
    runs: [Run; 3],
    /// When the latest question was asked that was answered in time, in whatever way.
    proof: Option<Instant>,
    heard: Option<Instant>,
    /// Until when it is asked because it says that this node does not answer it.
    wanted_until: Instant,
    /// Whether the largest datagram is to be tried.
    large_wanted: bool,
    changed: Instant,
    /// Questions asked about the path.
    asked: u32,
}

impl Watched {
    fn prove(&mut self, asked: Instant) {
        self.proof = self.proof.max(Some(asked));
        for run in &mut self.runs {
            run.certify(asked);
        }
    }
}

/// What is to be asked about a path.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Question {
    /// Whom.
    pub member: NameHash,
    /// How.
    pub way: Way,
    /// How many were asked about its paths before.
    pub number: u32,
}

/// The paths to members that did not answer everything.
#[derive(Debug)]
pub struct Paths {
    watched: BTreeMap<NameHash, Watched>,
    size_at: Instant,
    turns: u32,
    cursor: NameHash,
    /// Share of the questions by datagram that go unanswered on paths that are not blocked.
    loss: f64,
}

impl Default for Paths {
    fn default() -> Self {
        Paths {
            watched: BTreeMap::new(),
            size_at: Instant::ORIGIN,
            turns: 0,
            cursor: NameHash::MIN,
            loss: LOSS_PRIOR,
        }
    }
}

impl Paths {
    /// A question to `member`, asked at `asked`, was not answered in time. It is worth `decades` as
    /// evidence against the path.
    pub fn missed(
        &mut self,
        now: Instant,
        member: NameHash,
        way: Way,
        asked: Instant,
        decades: f64,
    ) {
        let Some(watched) = self.watch(member) else {
            return;
        };
        watched.changed = now;
        let run = &mut watched.runs[way as usize];
        if run.answered.is_some_and(|answered| answered > asked) {
            return;
        }
        run.unanswered = run.unanswered.saturating_add(1);
        run.pending = Some((asked, now));
        run.weight = decades;
        if run.blocked.is_none() {
            run.next = run.next.min(now + pace(way));
        }
        if let Some(proof) = watched.proof {
            watched.runs[way as usize].certify(proof);
        }
    }

    fn watch(&mut self, member: NameHash) -> Option<&mut Watched> {
        if self.watched.len() >= WATCHED_MAX && !self.watched.contains_key(&member) {
            return None;
        }
        Some(self.watched.entry(member).or_default())
    }

    /// `member` has answered a question that went this way and was asked at `asked`.
    pub fn answered(&mut self, now: Instant, member: NameHash, way: Way, asked: Instant) {
        if way != Way::Streams {
            self.loss -= LOSS_WEIGHT * self.loss;
        }
        let Some(watched) = self.watched.get_mut(&member) else {
            return;
        };
        let run = watched.runs[Way::Datagrams as usize];
        if way != Way::Streams && run.blocked.is_none() {
            for _ in 0..run.unanswered.min(LESSONS_MAX) {
                self.loss += LOSS_WEIGHT * (1.0 - self.loss);
            }
        }
        let small = (way == Way::LargeDatagrams).then_some(Way::Datagrams);
        for way in small.into_iter().chain([way]) {
            let run = &mut watched.runs[way as usize];
            *run = Run {
                answered: run.answered.max(Some(asked)),
                next: run.next,
                ..Run::default()
            };
        }
        self.proved(now, member, asked);
    }

    /// `member` has shown, to whom and how ever, that it lived after `asked`.
    pub fn proved(&mut self, now: Instant, member: NameHash, asked: Instant) {
        if let Some(watched) = self.watched.get_mut(&member)
            && now.since(asked) <= TIMELY
        {
            watched.prove(asked);
        }
    }

    /// A datagram of `member` has come.
    pub fn heard(&mut self, now: Instant, member: NameHash) {
        if let Some(watched) = self.watched.get_mut(&member) {
            watched.heard = Some(now);
            watched.prove(now);
        }
    }

    /// The share of questions by datagram that go unanswered anyway, as high as it may well be: two
    /// deviations above the estimate. What a path that may be blocked loses is not part of it.
    #[must_use]
    pub fn loss(&self) -> f64 {
        let samples = 2.0 / LOSS_WEIGHT;
        self.loss + 2.0 * (self.loss * (1.0 - self.loss) / samples).sqrt()
    }

    /// Whether anything is remembered of `member`.
    #[must_use]
    pub fn is_watched(&self, member: NameHash) -> bool {
        self.watched.contains_key(&member)
    }

    /// Whether a miss of a datagram to `member` counts, and it has not answered since.
    #[must_use]
    pub fn has_missed(&self, member: NameHash) -> bool {
        let run = |watched: &Watched| watched.runs[Way::Datagrams as usize].misses > 0;
        self.watched.get(&member).is_some_and(run)
    }

    /// Whether datagrams to `member` are known not to be answered.
    #[must_use]
    pub fn is_blocked(&self, member: NameHash) -> bool {
        let run = |watched: &Watched| watched.runs[Way::Datagrams as usize].blocked.is_some();
        self.watched.get(&member).is_some_and(run)
    }

    /// `member` says that this node does not answer it: it is to be asked for `length`, so that it
    /// can tell whether it hears nothing, or is not heard.
    pub fn want(&mut self, now: Instant, member: NameHash, length: Duration) {
        if let Some(watched) = self.watch(member) {
            watched.wanted_until = now + length;
            watched.changed = now;
        }
    }

    /// The largest datagram is to be tried on the path to `member`.
    pub fn want_large(&mut self, now: Instant, member: NameHash) {
        if now < self.size_at {
            return;
        }
        if let Some(watched) = self.watch(member) {
            watched.changed = now;
            watched.large_wanted = true;
            self.size_at = now + SIZE_PACE;
        }
    }

    /// A member is asked over a stream in its turn: whether it is the turn of the largest datagram
    /// too.
    pub fn is_large_turn(&mut self) -> bool {
        let turn = self.turns;
        self.turns = turn.wrapping_add(1);
        turn.is_multiple_of(LARGE_TURNS)
    }

    /// Forgets the paths to those that are not `active`, and those that are well.
    pub fn sweep(&mut self, now: Instant, active: impl Fn(NameHash) -> bool) {
        self.watched.retain(|&member, watched| {
            for run in &mut watched.runs {
                // What nothing has certified by now was silence.
                run.pending = run.pending.filter(|(_, missed)| now <= *missed + BESIDE);
            }
            let blocked = watched.runs.iter().any(|run| run.blocked.is_some());
            let quiet = watched.runs.iter().all(Run::is_clean)
                && !watched.large_wanted
                && watched.wanted_until <= now;
            let idle = quiet || now.since(watched.changed) > QUIET;
            active(member) && (blocked || !idle || now.since(watched.changed) < BESIDE)
        });
    }

    /// The next question that is due about any path, in turn; it counts as asked.
    pub fn take_due(&mut self, now: Instant) -> Option<Question> {
        let cursor = self.cursor;
        let due = |(&member, watched): (&NameHash, &Watched)| {
            let way = Way::ALL
                .into_iter()
                .find(|&way| is_due(watched, way, now))?;
            Some((member, way))
        };
        let after = self
            .watched
            .range(cursor..)
            .filter(|(member, _)| **member > cursor);
        let before = self.watched.range(..=cursor);
        let (member, way) = after.chain(before).find_map(due)?;
        self.cursor = member;
        let watched = self.watched.get_mut(&member)?;
        let run = &mut watched.runs[way as usize];
        // Until it is not answered: then the next one comes sooner.
        let doubtful = run.blocked.is_none() && run.misses > 0;
        run.next = now + if doubtful { pace(way) } else { PACE_BLOCKED };
        watched.large_wanted &= way != Way::LargeDatagrams;
        watched.asked = watched.asked.wrapping_add(1);
        Some(Question {
            member,
            way,
            number: watched.asked,
        })
    }

    /// Members that are not reached in every way, in the order of their hashes.
    pub fn blocked(&self, now: Instant) -> impl Iterator<Item = (NameHash, Blocked)> + '_ {
        self.watched.iter().filter_map(move |(&member, watched)| {
            let blocked = watched.blocked(now);
            let any = blocked.since.iter().any(Option::is_some);
            any.then_some((member, blocked))
        })
    }
}

impl Watched {
    fn blocked(&self, now: Instant) -> Blocked {
        let [small, large, streams] = &self.runs;
        // Only beside small ones that pass does a large one that is lost tell of a size.
        let passes = small.blocked.is_none() && small.answered >= Some(large.first);
        let begun = small.blocked.or(streams.blocked);
        let heard = self.heard.is_some_and(|at| {
            now.since(at) <= HEARD_WITHIN && begun.is_none_or(|begun| at > begun + BESIDE)
        });
        Blocked {
            since: [
                small.blocked,
                large.blocked.filter(|_| passes),
                streams.blocked,
            ],
            streams_pass: streams.blocked.is_none() && streams.answered.is_some(),
            heard,
        }
    }
}

/// Time between questions on a path that may be blocked.
const fn pace(way: Way) -> Duration {
    match way {
        Way::Streams => PACE_STREAMS,
        Way::Datagrams | Way::LargeDatagrams => PACE_DATAGRAMS,
    }
}

/// Whether a way has to be asked: after a second miss in a row, to learn whether it is blocked;
/// later now and then, to learn whether it is blocked still.
fn is_due(watched: &Watched, way: Way, now: Instant) -> bool {
    let run = &watched.runs[way as usize];
    let wanted = watched.wanted_until > now;
    let asked = match way {
        Way::Datagrams => (run.misses > 0 && run.unanswered > 1) || wanted,
        Way::LargeDatagrams => {
            let small = &watched.runs[Way::Datagrams as usize];
            let lost = run.misses > 0 || run.pending.is_some();
            small.blocked.is_none() && (lost || watched.large_wanted)
        }
        Way::Streams => run.misses > 0,
    };
    asked && now >= run.next
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);
    const MS: Duration = Duration::from_millis(1);

    fn member() -> NameHash {
        NameHash::from_wire([7; 8])
    }

    fn begin() -> Instant {
        Instant::ORIGIN + 1000 * SECOND
    }

    /// A question at `at` that goes unanswered, while another path answers in time.
    fn miss_beside_proof(paths: &mut Paths, way: Way, at: Instant, decades: f64) {
        paths.missed(at + 20 * MS, member(), way, at, decades);
        paths.proved(at + 40 * MS, member(), at + 20 * MS);
    }

    fn ways(paths: &Paths, now: Instant) -> Vec<[bool; 3]> {
        let blocked = paths.blocked(now);
        blocked
            .map(|(_, it)| it.since.map(|since| since.is_some()))
            .collect()
    }

    #[test]
    fn a_run_of_certified_misses_blocks_a_path_and_one_answer_mends_it() {
        let mut paths = Paths::default();
        let mut now = begin();
        for _ in 0..8 {
            miss_beside_proof(&mut paths, Way::Datagrams, now, 0.7);
            now = now + SECOND;
        }
        assert!(!paths.is_blocked(member()), "5.6 decades");
        miss_beside_proof(&mut paths, Way::Datagrams, now, 0.7);
        assert!(paths.is_blocked(member()));
        let (_, blocked) = paths.blocked(now).next().expect("one");
        assert_eq!(blocked.since, [Some(begin()), None, None]);
        assert!(!blocked.heard && !blocked.streams_pass);
        paths.heard(now + SECOND, member());
        assert!(paths.blocked(now + SECOND).next().expect("one").1.heard);
        paths.answered(now + 2 * SECOND, member(), Way::Datagrams, now + 2 * SECOND);
        assert_eq!(ways(&paths, now), [[false; 3]; 0]);
    }

    /// Who is dead or stands still answers nobody: no path is to blame.
    #[test]
    fn silence_is_no_blocked_path() {
        let mut paths = Paths::default();
        let mut now = begin();
        paths.proved(now, member(), now);
        for _ in 0..60 {
            paths.missed(now + 20 * MS, member(), Way::Datagrams, now, 2.0);
            now = now + SECOND;
            paths.sweep(now, |_| true);
        }
        // It wakes up and answers, through a relay, what it was asked a while ago.
        paths.proved(now, member(), now.before(2 * SECOND));
        assert_eq!(ways(&paths, now), [[false; 3]; 0]);
    }

    /// Misses of one burst are one.
    #[test]
    fn a_burst_is_one_miss() {
        let mut paths = Paths::default();
        for n in 0..40 {
            miss_beside_proof(&mut paths, Way::Datagrams, begin() + n * 10 * MS, 2.0);
        }
        assert_eq!(ways(&paths, begin() + SECOND), [[false; 3]; 0]);
    }

    #[test]
    fn only_beside_short_ones_that_pass_is_a_large_one_lost_by_its_size() {
        let lose_large = |answers: bool| {
            let mut paths = Paths::default();
            let mut now = begin();
            for _ in 0..6 {
                miss_beside_proof(&mut paths, Way::LargeDatagrams, now, 1.7);
                if answers {
                    paths.answered(now + 30 * MS, member(), Way::Datagrams, now);
                }
                now = now + SECOND;
            }
            ways(&paths, now)
        };
        assert_eq!(lose_large(true), [[false, true, false]]);
        assert_eq!(lose_large(false), [[false; 3]; 0]);
    }

    #[test]
    fn questions_are_paced_and_end_with_the_doubt() {
        let mut paths = Paths::default();
        let mut asked = 0;
        miss_beside_proof(&mut paths, Way::Datagrams, begin(), 0.7);
        assert_eq!(
            paths.take_due(begin()),
            None,
            "one miss is no reason to ask"
        );
        paths.missed(
            begin() + 60 * MS,
            member(),
            Way::Datagrams,
            begin() + 40 * MS,
            0.7,
        );
        for tenth in 10..1000 {
            let now = begin() + tenth * 100 * MS;
            if let Some(question) = paths.take_due(now) {
                assert_eq!((question.member, question.way), (member(), Way::Datagrams));
                asked += 1;
                miss_beside_proof(&mut paths, Way::Datagrams, now, 0.7);
            }
        }
        // One a second until it is blocked, then one in ten seconds.
        assert!((15..20).contains(&asked), "{asked}");
        let end = begin() + 200 * SECOND;
        paths.answered(end, member(), Way::Datagrams, end);
        assert_eq!(paths.take_due(end + 100 * SECOND), None);
        paths.sweep(end + 100 * SECOND, |_| true);
        assert!(!paths.is_watched(member()));
    }

    #[test]
    fn who_complains_is_asked_for_a_while() {
        let mut paths = Paths::default();
        paths.want(begin(), member(), 50 * SECOND);
        let due = |paths: &mut Paths, seconds: u32| {
            let asked = (0..seconds).filter_map(|n| paths.take_due(begin() + n * SECOND));
            asked.count()
        };
        assert_eq!(due(&mut paths, 100), 5, "every ten seconds");
    }

    #[test]
    fn the_largest_datagram_is_tried_every_three_minutes_at_most() {
        let mut paths = Paths::default();
        let tried = (0..600).filter(|n| {
            let now = begin() + *n * SECOND;
            paths.want_large(now, member());
            paths.take_due(now).is_some()
        });
        assert_eq!(tried.count(), 4);
    }

    #[test]
    fn what_is_watched_is_bounded_and_active() {
        let mut paths = Paths::default();
        let who = |n: u64| NameHash::from_wire(n.to_be_bytes());
        for n in 0..1000 {
            paths.missed(begin(), who(n), Way::Datagrams, begin(), 2.0);
        }
        assert_eq!(paths.watched.len(), WATCHED_MAX);
        paths.sweep(begin(), |member| member == who(3));
        assert_eq!(paths.watched.keys().collect::<Vec<_>>(), [&who(3)]);
    }

    #[test]
    fn losses_teach_once_an_answer_shows_that_they_were_losses() {
        let mut paths = Paths::default();
        let mut now = begin();
        for _ in 0..60 {
            miss_beside_proof(&mut paths, Way::Datagrams, now, 0.7);
            now = now + SECOND;
        }
        assert!(paths.loss() < 0.05, "a blocked path teaches nothing");
        paths.answered(now, member(), Way::Datagrams, now);
        assert!(paths.loss() < 0.05);
        for _ in 0..300 {
            miss_beside_proof(&mut paths, Way::Datagrams, now, 0.7);
            paths.answered(now, member(), Way::Datagrams, now + SECOND);
            now = now + 2 * SECOND;
        }
        assert!((0.5..0.65).contains(&paths.loss()), "{}", paths.loss());
    }
}
