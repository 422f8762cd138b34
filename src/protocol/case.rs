//! One case: the evidence that this node has collected against one silent member.
//!
//! The unit of evidence is a *nack*: a witness that reaches us and is reached by us gets no answer
//! from the member. Each adds -log10 of the witness's own miss rate (a likelihood ratio in
//! decades; Wald's sequential test). Loss must be improbable at both ends of the pause tolerance:
//! an early window fixes when the silence began to count, a late one shows that it lasted.
//! Nothing is taken over from other deciders.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::member::NameHash;
use crate::time::Instant;

/// Witnesses a death needs, where so many can be reached.
const WITNESSES_FOR_DEATH: usize = 3;
/// Witnesses a suspicion needs, where so many can be reached.
const WITNESSES_FOR_SUSPICION: usize = 2;
/// Late evidence that a cluster of two needs, where no witness exists.
const LATE_PHI_OF_TWO: f64 = 0.7;
/// Least decades one observer may contribute before it counts no more.
const OBSERVER_DECADES_MIN: f64 = 6.0;
/// Clusters up to this size have so few witnesses that each may speak again sooner while the case
/// is open; in those up to the other, also later.
pub const SMALL_CLUSTER: usize = 9;
/// See [`SMALL_CLUSTER`].
pub const FEW: usize = 5;
/// Relays that must have been asked for their silence to tell how much is lost.
const RELAYS_FOR_SHARE: usize = 6;
/// For how old a miss an answer vouches: that somebody is heard now says nothing about a link that
/// was deaf long before.
const VOUCHED_WITHIN: Duration = Duration::from_secs(1);

/// How far a case has come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Phase {
    /// A ping went unanswered; relays are being asked.
    Open,
    /// Loss no longer explains the silence; waiting whether a pause does.
    Suspect {
        /// When the early window was passed, on the awake clock.
        since: Instant,
    },
    /// The pause tolerance has passed; fresh evidence is being collected.
    Final {
        /// As in `Suspect`.
        since: Instant,
        /// Rounds begun.
        rounds: u32,
    },
}

/// What the decider knows of its own standing when it judges.
#[derive(Clone, Copy, Debug)]
pub struct Circumstances {
    /// Members of the cluster, the decider and the accused included.
    pub cluster: usize,
    /// Members with which the decider has had recent two-way contact; counting stops at three.
    pub reachable: usize,
    /// Decades that make a suspicion.
    pub phi_suspect: f64,
    /// Decades that must come from the late window.
    pub phi_late: f64,
    /// Decades that make a death.
    pub phi_dead: f64,
}

/// What the evidence amounts to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// Not enough.
    Undecided,
    /// Enough to suspect.
    Suspect,
    /// Enough to declare dead.
    Dead,
}

#[derive(Clone, Copy, Debug)]
struct Tally {
    decades: f64,
    counted_at: Instant,
}

/// The evidence against one member, in one life of it: a new life ends the case.
#[derive(Debug)]
pub struct Case {
    /// When the first unanswered ping was sent: later proofs of life close the case.
    pub began: Instant,
    /// When the case was opened, on the awake clock.
    pub opened: Instant,
    /// How far it has come.
    pub phase: Phase,
    /// Stages of relays asked while open.
    pub stages: usize,
    /// Rounds of waiting for the pause tolerance.
    pub rounds: u32,
    /// Whether others suspected the member already when this case came to suspect it.
    pub seconds_others: bool,
    suspected_at: Option<Instant>,
    phi: f64,
    late_phi: f64,
    observers: BTreeMap<NameHash, Tally>,
    witnesses: BTreeSet<NameHash>,
    asked: BTreeSet<NameHash>,
    /// Relays that said they got no answer, and relays of which nothing was heard.
    nacks: usize,
    unheard: usize,
    /// Sum of the shares of misses that the witnesses told.
    witness_misses: f64,
    /// The latest own miss that nobody has vouched for yet.
    pending: Option<(Instant, f64)>,
}

impl Case {
    /// A case against a member whose ping sent at `began` went unanswered.
    #[must_use]
    pub fn new(began: Instant, awake: Instant) -> Self {
        Case {
            began,
            opened: awake,
            phase: Phase::Open,
            stages: 0,
            rounds: 0,
            seconds_others: false,
            suspected_at: None,
            phi: 0.0,
            late_phi: 0.0,
            observers: BTreeMap::new(),
            witnesses: BTreeSet::new(),
            asked: BTreeSet::new(),
            nacks: 0,
            unheard: 0,
            witness_misses: 0.0,
            pending: None,
        }
    }

    /// Whether the member's having answered a question of `asked_at` ends the case. A `stale`
    /// answer does not end a suspicion whose evidence is younger than its question.
    #[must_use]
    pub fn is_disproved_by(&self, asked_at: Instant, stale: bool) -> bool {
        match self.suspected_at {
            Some(suspected_at) if stale => asked_at >= suspected_at,
            _ => asked_at >= self.began,
        }
    }

    /// Decades collected.
    #[must_use]
    pub fn phi(&self) -> f64 {
        self.phi
    }

    /// What each observer has contributed, in decades; together they are phi.
    pub fn tallies(&self) -> impl Iterator<Item = (NameHash, f64)> {
        let tallies = self.observers.iter();
        tallies.map(|(&observer, tally)| (observer, tally.decades))
    }

    /// Decades collected in the late window.
    #[must_use]
    pub fn late_phi(&self) -> f64 {
        self.late_phi
    }

    /// Distinct witnesses heard.
    #[must_use]
    pub fn witnesses(&self) -> usize {
        self.witnesses.len()
    }

    /// Whether `relay` has been asked already.
    #[must_use]
    pub fn has_asked(&self, relay: NameHash) -> bool {
        self.asked.contains(&relay)
    }

    /// Relays asked.
    #[must_use]
    pub fn asked(&self) -> usize {
        self.asked.len()
    }

    /// Notes that `relay` was asked.
    pub fn note_asked(&mut self, relay: NameHash) {
        self.asked.insert(relay);
    }

    /// A witness says that the member does not answer it.
    pub fn witnessed(&mut self, witness: NameHash, decades: f64, now: Instant, c: &Circumstances) {
        self.witnesses.insert(witness);
        self.nacks += 1;
        self.count(witness, decades, now, c);
    }

    /// Relays that said they got no answer, those that said so again counted again.
    #[must_use]
    pub fn nacks(&self) -> usize {
        self.nacks
    }

    /// Notes which share of its own questions goes unanswered, as a witness said.
    pub fn note_witness_misses(&mut self, share: f64) {
        self.witness_misses += share;
    }

    /// The mean of what the witnesses said of their own misses: how much is usually lost, by those
    /// who do not look at this member all the time.
    #[must_use]
    pub fn witness_misses(&self) -> f64 {
        self.witness_misses / self.nacks.max(1) as f64
    }

    /// A relay that was asked was not heard of in time.
    pub fn unheard(&mut self) {
        self.unheard += 1;
    }

    /// In the late window, which share of all relays asked was not heard of: how much is being lost
    /// now, however little it was when it was last measured at leisure. 0 before, and after few.
    #[must_use]
    pub fn unheard_share(&self) -> f64 {
        let asked = self.nacks + self.unheard;
        if asked < RELAYS_FOR_SHARE || !matches!(self.phase, Phase::Final { .. }) {
            return 0.0;
        }
        self.unheard as f64 / asked as f64
    }

    /// The member's heartbeats have failed to come as well, by so many decades: one more observer.
    pub fn missed_heartbeats(&mut self, decades: f64) {
        self.phi += decades;
        self.late_phi += decades;
    }

    /// An own ping, sent at `sent_at`, went unanswered. It counts once somebody else has answered
    /// this node after it was sent (`contact` is the latest such answer): before that the fault may
    /// be this node's own link. In a cluster of two nobody can vouch, and it counts at once.
    pub fn missed(
        &mut self,
        own: NameHash,
        sent_at: Instant,
        decades: f64,
        (now, contact): (Instant, Instant),
        c: &Circumstances,
    ) {
        if contact > sent_at || c.cluster <= 2 {
            self.count(own, decades, now, c);
        } else if self.pending.is_none_or(|(latest, _)| latest <= sent_at) {
            self.pending = Some((sent_at, decades));
        }
    }

    /// Somebody answered this node: its latest miss is vouched for, if it is not old. One answer
    /// vouches for one miss: a node that was deaf has missed many, and the first answer it hears
    /// must not turn them all into evidence.
    pub fn vouched(&mut self, own: NameHash, now: Instant, c: &Circumstances) {
        if let Some((sent_at, decades)) = self.pending.take()
            && now.since(sent_at) <= VOUCHED_WITHIN
        {
            self.count(own, decades, now, c);
        }
    }

    fn count(&mut self, observer: NameHash, decades: f64, now: Instant, c: &Circumstances) {
        if matches!(self.phase, Phase::Final { .. }) {
            // Without cap: few observers have used theirs up by now.
            self.late_phi += decades;
        }
        let gap = observer_gap(self.phase, c.cluster);
        let cap = observer_cap(c);
        let tally = self.observers.entry(observer).or_insert(Tally {
            decades: 0.0,
            counted_at: Instant::ORIGIN,
        });
        let repeated = tally.decades > 0.0 && now.since(tally.counted_at) < gap;
        if !repeated && tally.decades < cap {
            let counted = decades.min(cap - tally.decades);
            tally.decades += counted;
            tally.counted_at = now;
            self.phi += counted;
        }
    }

    /// What the evidence amounts to now.
    #[must_use]
    pub fn verdict(&self, c: &Circumstances) -> Verdict {
        let pair = c.cluster <= 2;
        let enough_witnesses = |needed: usize| {
            pair || (c.reachable > 0 && self.witnesses() >= needed.min(c.reachable))
        };
        match self.phase {
            Phase::Open
                if self.phi >= c.phi_suspect && enough_witnesses(WITNESSES_FOR_SUSPICION) =>
            {
                Verdict::Suspect
            }
            Phase::Final { .. }
                if self.phi >= c.phi_dead
                    && self.late_phi >= if pair { LATE_PHI_OF_TWO } else { c.phi_late }
                    && enough_witnesses(WITNESSES_FOR_DEATH) =>
            {
                Verdict::Dead
            }
            _ => Verdict::Undecided,
        }
    }

    /// Moves from Open to Suspect, at `now`, which is `awake` on the awake clock.
    pub fn suspect(&mut self, now: Instant, awake: Instant) {
        self.suspected_at = Some(now);
        self.phase = Phase::Suspect { since: awake };
    }

    /// Begins the late window anew, or its next round.
    pub fn begin_final_round(&mut self) {
        self.phase = match self.phase {
            Phase::Final { since, rounds } => Phase::Final {
                since,
                rounds: rounds + 1,
            },
            Phase::Suspect { since } => {
                self.late_phi = 0.0;
                Phase::Final { since, rounds: 1 }
            }
            Phase::Open => Phase::Open,
        };
    }

    /// This node was late itself: what it was about to conclude is void.
    pub fn fall_back(&mut self) {
        if let Phase::Final { since, .. } = self.phase {
            self.late_phi = 0.0;
            self.phase = Phase::Suspect { since };
        }
    }

    /// How many relays the late window's next round needs when an answer is worth `decades` and
    /// goes missing with probability `miss`: enough for what is still lacking, 3 to `max`.
    #[must_use]
    pub fn relays_needed(&self, c: &Circumstances, decades: f64, miss: f64, max: usize) -> usize {
        let lacking = (c.phi_dead - self.phi)
            .max(c.phi_late - self.late_phi)
            .max(0.0);
        let answers = lacking / decades.max(0.05) / (1.0 - miss.min(0.9));
        (answers.ceil() as usize + 1).clamp(WITNESSES_FOR_DEATH, max)
    }
}

/// How soon one observer may count again.
fn observer_gap(phase: Phase, cluster: usize) -> Duration {
    if phase == Phase::Open && cluster <= SMALL_CLUSTER {
        Duration::from_millis(100)
    } else if cluster <= FEW {
        Duration::from_millis(250)
    } else {
        Duration::from_millis(500)
    }
}

/// How much one observer may contribute.
fn observer_cap(c: &Circumstances) -> f64 {
    let others = c.cluster.saturating_sub(1).max(1) as f64;
    OBSERVER_DECADES_MIN.max(1.1 * c.phi_dead / others)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn who(n: u64) -> NameHash {
        NameHash::from_wire(n.to_be_bytes())
    }

    fn circumstances(cluster: usize, reachable: usize) -> Circumstances {
        Circumstances {
            cluster,
            reachable,
            phi_suspect: 4.0,
            phi_late: 3.0,
            phi_dead: 9.4,
        }
    }

    fn at(ms: u32) -> Instant {
        Instant::ORIGIN + ms * MS
    }

    #[test]
    fn silence_must_be_attested_at_both_ends() {
        let c = circumstances(20, 3);
        let mut case = Case::new(at(0), at(20));
        for witness in 1..=3 {
            case.witnessed(who(witness), 2.0, at(50), &c);
        }
        assert_eq!(case.verdict(&c), Verdict::Suspect);
        case.suspect(at(50), at(50));
        for round in 1..=8 {
            case.witnessed(who(10 + round), 2.0, at(500 * round as u32), &c);
        }
        assert!(case.phi() > c.phi_dead);
        assert_eq!(case.verdict(&c), Verdict::Undecided, "no late evidence yet");
        case.begin_final_round();
        case.witnessed(who(1), 2.0, at(5100), &c);
        assert_eq!(case.verdict(&c), Verdict::Undecided);
        case.witnessed(who(2), 2.0, at(5101), &c);
        assert_eq!(case.verdict(&c), Verdict::Dead);
    }

    /// A node was deaf while a case was open. The first answer it hears says nothing about all the
    /// answers that it had not heard before.
    #[test]
    fn one_answer_does_not_vouch_for_a_time_of_deafness() {
        let c = circumstances(14, 3);
        let mut case = Case::new(at(0), at(20));
        for witness in 1..=5 {
            case.witnessed(who(witness), 2.0, at(50), &c);
        }
        case.suspect(at(50), at(50));
        case.begin_final_round();
        for miss in 1..=20 {
            case.missed(who(0), at(5000 + 30 * miss), 2.0, (at(7000), at(60)), &c);
        }
        case.vouched(who(0), at(7000), &c);
        assert_eq!(case.late_phi(), 0.0, "they are old");
        for miss in 1..=20 {
            case.missed(who(0), at(7000 + 10 * miss), 2.0, (at(7300), at(60)), &c);
        }
        case.vouched(who(0), at(7300), &c);
        assert_eq!(case.late_phi(), 2.0, "one answer, one miss");
        assert_eq!(case.verdict(&c), Verdict::Undecided);
    }

    /// The miss is known before anybody can vouch for it: it must wait, not be lost. N = 3.
    #[test]
    fn an_own_miss_counts_once_somebody_answers() {
        let c = circumstances(3, 1);
        let mut case = Case::new(at(0), at(20));
        case.missed(who(0), at(0), 2.0, (at(20), Instant::ORIGIN), &c);
        assert_eq!(case.phi(), 0.0);
        case.vouched(who(0), at(21), &c);
        assert_eq!(case.phi(), 2.0);
        case.vouched(who(0), at(22), &c);
        assert_eq!(case.phi(), 2.0, "vouching twice does not count twice");
    }

    /// Caps used up before the late window must not block it. N = 2: no witness exists.
    #[test]
    fn two_nodes_decide_without_witness() {
        let c = circumstances(2, 0);
        let mut case = Case::new(at(0), at(20));
        for round in 0..12 {
            case.missed(
                who(0),
                at(500 * round),
                1.7,
                (at(500 * round + 20), at(0)),
                &c,
            );
        }
        assert_eq!(case.verdict(&c), Verdict::Suspect);
        case.suspect(at(200), at(200));
        case.begin_final_round();
        assert_eq!(case.verdict(&c), Verdict::Undecided);
        case.missed(who(0), at(7000), 1.7, (at(7020), at(0)), &c);
        assert_eq!(case.verdict(&c), Verdict::Dead);
    }

    #[test]
    fn without_contact_nothing_is_concluded() {
        let c = circumstances(4, 0);
        let mut case = Case::new(at(0), at(20));
        for round in 0..20 {
            case.missed(
                who(0),
                at(500 * round),
                2.0,
                (at(500 * round + 20), at(0)),
                &c,
            );
        }
        assert_eq!((case.phi(), case.verdict(&c)), (0.0, Verdict::Undecided));
    }

    /// One of two that can be reached suffices where only one can be: 2|2 must not freeze.
    #[test]
    fn requirements_shrink_with_what_can_be_reached() {
        let c = circumstances(4, 1);
        let mut case = Case::new(at(0), at(20));
        for round in 0..10 {
            case.witnessed(who(1), 2.0, at(100 * round), &c);
            case.missed(
                who(0),
                at(100 * round),
                2.0,
                (at(100 * round + 20), at(9999)),
                &c,
            );
        }
        assert_eq!(case.verdict(&c), Verdict::Suspect);
        case.suspect(at(1000), at(1000));
        case.begin_final_round();
        case.witnessed(who(1), 2.0, at(6000), &c);
        case.missed(who(0), at(6000), 2.0, (at(6020), at(9999)), &c);
        assert_eq!(case.verdict(&c), Verdict::Dead);
    }

    #[test]
    fn one_observer_counts_once_per_gap_and_up_to_its_cap() {
        let c = circumstances(20, 3);
        let mut case = Case::new(at(0), at(20));
        case.witnessed(who(1), 2.0, at(50), &c);
        case.witnessed(who(1), 2.0, at(60), &c);
        assert_eq!(case.phi(), 2.0);
        for round in 1..20 {
            case.witnessed(who(1), 2.0, at(50 + 500 * round), &c);
        }
        assert_eq!(case.phi(), OBSERVER_DECADES_MIN);
    }

    #[test]
    fn waking_late_voids_the_late_window() {
        let c = circumstances(20, 3);
        let mut case = Case::new(at(0), at(20));
        case.suspect(at(50), at(50));
        case.begin_final_round();
        case.witnessed(who(1), 2.0, at(5100), &c);
        case.fall_back();
        assert_eq!(case.late_phi(), 0.0);
        assert_eq!(case.phase, Phase::Suspect { since: at(50) });
    }

    #[test]
    fn a_round_asks_for_what_is_lacking() {
        let c = circumstances(20, 3);
        let case = Case::new(at(0), at(20));
        assert_eq!(case.relays_needed(&c, 2.0, 0.0, 32), 6);
        assert_eq!(case.relays_needed(&c, 0.1, 0.5, 32), 32);
    }
}
