//! The evidence ledger: what this node remembers of its dealings with members, in rings of fixed
//! sizes, so that a verdict can be explained after the fact.
//!
//! What goes as it should is written into one ring for all members: a slot, and no look-up. A
//! member that was in doubt has a ledger of its own. Nothing is worked out before somebody asks.

mod notes;

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use crate::member::{NameHash, Standing};
use crate::time::Instant;

use super::outbox::Evidence;
use super::stats::ProbeOutcome;

pub use notes::{AccusationNote, PhiNote, ProbeNote, RefutationNote, WitnessNote};

/// Answers in time that are kept, of all members together: the latest.
const ROUTINE_MAX: usize = 128;
/// Members with a ledger of their own; the one written to least lately makes room.
const LEDGERS_MAX: usize = 256;
/// Own verdicts kept, one for each member, also when nothing else is known of it any more.
const VERDICTS_MAX: usize = 64;
/// Changes of status that others told: the latest.
const HEARSAY_MAX: usize = 256;
/// Questions kept for each member.
pub const PROBES_MAX: usize = 32;
/// Samples of phi kept for each member.
pub const PHI_SAMPLES_MAX: usize = 16;
/// Accusations kept for each member.
pub const ACCUSATIONS_MAX: usize = 8;
/// Tellers kept of one accusation: who came first counts, and others make no room for it.
const TELLERS_MAX: usize = 3;
/// Refutations kept for each member.
pub const REFUTATIONS_MAX: usize = 8;
/// Witnesses kept for each case; a round asks no more.
const WITNESSES_MAX: usize = 32;
/// Own latenesses kept, each the sum of those within a second.
const LATENESSES_MAX: usize = 16;
/// The rule that evicts whom most packets fail to reach.
pub const DEGRADED: &str = "degraded";
/// phi is sampled no more often.
const SAMPLE_GAP: Duration = Duration::from_secs(1);

/// The latest `N` of a sequence.
#[derive(Clone, Debug)]
pub struct Ring<T, const N: usize>(VecDeque<T>);

impl<T, const N: usize> Default for Ring<T, N> {
    fn default() -> Self {
        Ring(VecDeque::new())
    }
}

impl<T, const N: usize> Ring<T, N> {
    fn push(&mut self, item: T) {
        if self.0.len() == N {
            self.0.pop_front();
        }
        self.0.push_back(item);
    }

    /// Oldest first.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &T> + ExactSizeIterator {
        self.0.iter()
    }

    /// The newest.
    pub fn last(&self) -> Option<&T> {
        self.0.back()
    }
}

/// An own verdict.
#[derive(Clone, PartialEq, Debug)]
pub struct VerdictNote {
    /// About whom.
    pub member: NameHash,
    /// When.
    pub at: Instant,
    /// What the member was held for from then on.
    pub standing: Standing,
    /// What it rests on.
    pub evidence: Evidence,
    revision: u64,
}

/// A status taken over from somebody.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Hearsay {
    /// Whose.
    pub member: NameHash,
    /// Who told it.
    pub by: Option<NameHash>,
    /// When.
    pub at: Instant,
    /// What the member was held for from then on.
    pub standing: Standing,
    /// Whether that evicted it for losing packets.
    evicted: bool,
    revision: u64,
}

/// What there is beyond questions for a member that is or was in doubt.
#[derive(Debug, Default)]
pub struct Doubt {
    /// phi over the latest case.
    pub phi: Ring<PhiNote, PHI_SAMPLES_MAX>,
    /// Who accused it.
    accusations: Ring<AccusationNote, ACCUSATIONS_MAX>,
    /// What lifted that.
    pub refutations: Ring<RefutationNote, REFUTATIONS_MAX>,
    /// When the case began to which the witnesses belong.
    witnesses_of: Instant,
    witnesses: Vec<WitnessNote>,
}

impl Doubt {
    /// The witnesses of the case that began at `began`.
    #[must_use]
    pub fn witnesses(&self, began: Instant) -> &[WitnessNote] {
        if self.witnesses_of == began {
            &self.witnesses
        } else {
            &[]
        }
    }
}

/// What is kept of one member.
#[derive(Debug, Default)]
pub struct Ledger {
    /// The latest questions, those beside the routine.
    probes: Ring<ProbeNote, PROBES_MAX>,
    /// The rest, for members that have been in doubt.
    pub doubt: Option<Box<Doubt>>,
    revision: u64,
}

/// An answer in time of a member without a ledger.
#[derive(Clone, Copy, Debug)]
struct Routine {
    member: NameHash,
    note: ProbeNote,
    revision: u64,
}

/// All ledgers of a node.
#[derive(Debug, Default)]
pub struct LedgerBook {
    routine: Ring<Routine, ROUTINE_MAX>,
    members: BTreeMap<NameHash, Ledger>,
    verdicts: VecDeque<VerdictNote>,
    hearsay: VecDeque<Hearsay>,
    lateness: Ring<(Instant, Duration), LATENESSES_MAX>,
    /// Counts the entries ever written; a ledger is stamped with the one of its latest.
    revision: u64,
}

impl LedgerBook {
    /// A question about `member` has ended, or, if `amended`, ended once more: with an answer after
    /// its time.
    pub fn note_probe(&mut self, member: NameHash, note: ProbeNote, amended: bool) {
        let in_time = note.outcome == ProbeOutcome::Acked && !amended;
        if in_time && (self.members.is_empty() || !self.members.contains_key(&member)) {
            self.revision += 1;
            self.routine.push(Routine {
                member,
                note,
                revision: self.revision,
            });
            return;
        }
        let probes = &mut self.ledger(member).probes;
        let same = |held: &&mut ProbeNote| {
            (held.sent_at, held.other, held.way) == (note.sent_at, note.other, note.way)
        };
        let earlier = match amended {
            true => probes.0.iter_mut().rev().find(same),
            false => None,
        };
        match earlier {
            Some(held) => *held = note,
            None => probes.push(note),
        }
        self.make_room();
    }

    /// Notes phi, if the last time is long enough ago.
    pub fn note_phi(&mut self, member: NameHash, note: PhiNote) {
        let samples = &mut self.doubt(member).phi;
        samples.push(note);
        self.make_room();
    }

    /// Whether phi of `member` may be noted again.
    #[must_use]
    pub fn is_phi_due(&self, member: NameHash, now: Instant) -> bool {
        let doubt = self.get(member).and_then(|held| held.doubt.as_ref());
        let last = doubt.and_then(|doubt| doubt.phi.last());
        last.is_none_or(|last| now.since(last.at) >= SAMPLE_GAP)
    }

    /// `witness` gets no answer of `member`, in the case that began at `began`.
    pub fn note_witness(
        &mut self,
        member: NameHash,
        witness: NameHash,
        miss_rate: f64,
        (began, now): (Instant, Instant),
    ) {
        let doubt = self.doubt(member);
        if doubt.witnesses_of != began {
            doubt.witnesses_of = began;
            doubt.witnesses.clear();
        }
        let mut held = doubt.witnesses.iter_mut();
        if let Some(held) = held.find(|held| held.witness == witness) {
            held.answers = held.answers.saturating_add(1);
            (held.miss_rate, held.at) = (miss_rate, now);
        } else if doubt.witnesses.len() < WITNESSES_MAX {
            doubt.witnesses.push(WitnessNote {
                witness,
                answers: 1,
                miss_rate,
                at: now,
            });
        }
        self.make_room();
    }

    /// Somebody says that `member` is suspect or dead. Kept for members that something else is kept
    /// of, and once for each teller and accusation.
    pub fn note_accusation(&mut self, member: NameHash, note: AccusationNote) {
        if !note.is_doubt() || !self.members.contains_key(&member) {
            return;
        }
        let accusations = &mut self.doubt(member).accusations;
        let told = |held: &&AccusationNote| held.accusation() == note.accusation();
        let repeated = accusations.iter().any(|held| held.repeats(&note));
        if !repeated && accusations.iter().filter(told).count() < TELLERS_MAX {
            accusations.push(note);
        }
    }

    /// Something lifted a suspicion or a verdict.
    pub fn note_refutation(&mut self, member: NameHash, note: RefutationNote) {
        self.doubt(member).refutations.push(note);
        self.make_room();
    }

    /// This node has reached a verdict; it replaces the one before about the same member.
    pub fn note_verdict(
        &mut self,
        member: NameHash,
        standing: Standing,
        evidence: Evidence,
        now: Instant,
    ) {
        self.revision += 1;
        self.verdicts.retain(|held| held.member != member);
        if self.verdicts.len() == VERDICTS_MAX {
            self.verdicts.pop_front();
        }
        self.verdicts.push_back(VerdictNote {
            member,
            at: now,
            standing,
            evidence,
            revision: self.revision,
        });
    }

    /// A status was taken over.
    pub fn note_hearsay(
        &mut self,
        member: NameHash,
        by: Option<NameHash>,
        (standing, evicted): (Standing, bool),
        now: Instant,
    ) {
        self.revision += 1;
        if self.hearsay.len() == HEARSAY_MAX {
            self.hearsay.pop_front();
        }
        self.hearsay.push_back(Hearsay {
            member,
            by,
            at: now,
            standing,
            evicted,
            revision: self.revision,
        });
    }

    /// An own timer was too late.
    pub fn note_lateness(&mut self, now: Instant, lateness: Duration) {
        match self.lateness.0.back_mut() {
            Some((at, sum)) if now.since(*at) < SAMPLE_GAP => *sum += lateness,
            _ => self.lateness.push((now, lateness)),
        }
    }

    /// When own timers were too late, and by how much, oldest first.
    pub fn lateness(&self) -> impl DoubleEndedIterator<Item = (Instant, Duration)> {
        self.lateness.iter().copied()
    }

    /// The latest questions about `member`, in the order of their sending.
    #[must_use]
    pub fn probes(&self, member: NameHash) -> Vec<ProbeNote> {
        let routine = self.routine.iter().filter(|held| held.member == member);
        let own = self.get(member).map(|ledger| ledger.probes.iter());
        let routine = routine.map(|held| held.note);
        let mut notes: Vec<ProbeNote> = routine.chain(own.into_iter().flatten().copied()).collect();
        // They were entered when they ended.
        notes.sort_by_key(|note| note.sent_at);
        let surplus = notes.len().saturating_sub(PROBES_MAX);
        notes.split_off(surplus)
    }

    /// Who told that `member` is suspect or dead, oldest first.
    #[must_use]
    pub fn accusations(&self, member: NameHash) -> Vec<AccusationNote> {
        let doubt = self.get(member).and_then(|held| held.doubt.as_deref());
        let kept = doubt.map(|doubt| doubt.accusations.iter());
        let mut notes: Vec<AccusationNote> = kept.into_iter().flatten().copied().collect();
        for told in self.hearsay.iter().filter(|told| told.member == member) {
            let note = AccusationNote::of(told.by, told.standing, told.at);
            if note.is_doubt() && !notes.iter().any(|held| held.repeats(&note)) {
                notes.push(note);
            }
        }
        notes.sort_by_key(|note| note.at);
        let surplus = notes.len().saturating_sub(ACCUSATIONS_MAX);
        notes.split_off(surplus)
    }

    /// How the question about `member` ended that was entered last.
    #[must_use]
    pub fn last_probe(&self, member: NameHash) -> Option<&ProbeNote> {
        match self.get(member) {
            Some(ledger) => ledger.probes.last(),
            None => {
                let mut routine = self.routine.iter().rev();
                Some(&routine.find(|held| held.member == member)?.note)
            }
        }
    }

    /// What is kept of `member` beside its routine.
    #[must_use]
    pub fn get(&self, member: NameHash) -> Option<&Ledger> {
        self.members.get(&member)
    }

    /// The latest own verdict about `member`.
    #[must_use]
    pub fn verdict(&self, member: NameHash) -> Option<&VerdictNote> {
        self.verdicts.iter().find(|held| held.member == member)
    }

    /// The latest that was taken over about `member`.
    #[must_use]
    pub fn hearsay(&self, member: NameHash) -> Option<&Hearsay> {
        self.hearsay.iter().rev().find(|held| held.member == member)
    }

    /// Whether `member`, held for `standing`, is so because it was evicted for losing packets.
    #[must_use]
    pub fn was_evicted(&self, member: NameHash, standing: Standing) -> bool {
        let own = self.verdict(member).filter(|it| it.standing == standing);
        let told = self.hearsay(member).filter(|it| it.standing == standing);
        own.is_some_and(|it| it.evidence.rule == DEGRADED) || told.is_some_and(|it| it.evicted)
    }

    /// Begins the ledger of `member`.
    pub fn begin(&mut self, member: NameHash) {
        self.doubt(member);
        self.make_room();
    }

    /// Counts the entries ever written.
    #[must_use]
    pub fn revision(&self) -> u64 {
        self.revision
    }

    /// The members with entries later than `revision`; a member may come more than once.
    pub fn changed_since(&self, revision: u64) -> impl Iterator<Item = NameHash> {
        let members = self.members.iter();
        let members = members.map(|(&member, ledger)| (member, ledger.revision));
        let verdicts = self.verdicts.iter().map(|it| (it.member, it.revision));
        let hearsay = self.hearsay.iter().map(|it| (it.member, it.revision));
        let routine = self.routine.iter().map(|it| (it.member, it.revision));
        let all = members.chain(verdicts).chain(hearsay).chain(routine);
        all.filter(move |&(_, at)| at > revision)
            .map(|(member, _)| member)
    }

    fn ledger(&mut self, member: NameHash) -> &mut Ledger {
        self.revision += 1;
        let ledger = self.members.entry(member).or_default();
        ledger.revision = self.revision;
        ledger
    }

    fn doubt(&mut self, member: NameHash) -> &mut Doubt {
        self.ledger(member).doubt.get_or_insert_default()
    }

    fn make_room(&mut self) {
        if self.members.len() <= LEDGERS_MAX {
            return;
        }
        let oldest = self.members.iter().min_by_key(|(_, held)| held.revision);
        if let Some((&member, _)) = oldest {
            self.members.remove(&member);
        }
    }
}

#[cfg(test)]
mod tests;
