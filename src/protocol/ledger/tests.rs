//! What ledgers keep, and how little.

use super::super::outbox::{ProbeWay, Refutation};
use super::*;
use crate::member::{Generation, Incarnation, NodeId, Status};

const MS: Duration = Duration::from_millis(1);

fn who(n: u64) -> NameHash {
    NameHash::from_wire(n.to_be_bytes())
}

fn at(ms: u32) -> Instant {
    Instant::ORIGIN + ms * MS
}

fn probe(sent_ms: u32, outcome: ProbeOutcome) -> ProbeNote {
    ProbeNote {
        sent_at: at(sent_ms),
        other: who(0),
        round_trip: 0,
        way: ProbeWay::Direct,
        outcome,
    }
}

fn standing(status: Status) -> Standing {
    Standing::alive(Generation(1), NodeId(1)).with_status(status)
}

fn accusation(by: u64, incarnation: u32, ms: u32) -> AccusationNote {
    let claim = Standing {
        incarnation: Incarnation(incarnation),
        ..standing(Status::Suspect)
    };
    AccusationNote::of(Some(who(by)), claim, at(ms))
}

/// What a book holds on the heap, about.
fn bytes(book: &LedgerBook) -> usize {
    let doubt = |doubt: &Doubt| {
        size_of::<Doubt>()
            + doubt.phi.0.capacity() * size_of::<PhiNote>()
            + doubt.accusations.0.capacity() * size_of::<AccusationNote>()
            + doubt.refutations.0.capacity() * size_of::<RefutationNote>()
            + doubt.witnesses.capacity() * size_of::<WitnessNote>()
    };
    let ledger = |ledger: &Ledger| {
        size_of::<Ledger>()
            + ledger.probes.0.capacity() * size_of::<ProbeNote>()
            + ledger.doubt.as_deref().map_or(0, doubt)
    };
    book.members.values().map(ledger).sum::<usize>()
        + book.routine.0.capacity() * size_of::<Routine>()
        + book.hearsay.capacity() * size_of::<Hearsay>()
        + book.verdicts.capacity() * size_of::<VerdictNote>()
}

/// A table of 16,384 members all of which were in doubt, told of, and asked many times.
#[test]
fn a_book_is_bounded_whatever_happens() {
    let mut book = LedgerBook::default();
    for member in 0..16_384 {
        for n in 0..40 {
            let outcome = [ProbeOutcome::Acked, ProbeOutcome::Missed][n as usize % 2];
            book.note_probe(who(member), probe(n, outcome), false);
            let times = (at(0), at(n));
            book.note_witness(who(member), who(u64::from(n)), 0.02, times);
            book.note_accusation(who(member), accusation(u64::from(n), n, n));
            let phi = PhiNote {
                at: at(n),
                phi: 1.0,
                own_misses: 0.5,
                witnessed: 0.5,
                late_phi: 0.0,
                heartbeat_phi: 0.1,
                witnesses: 1,
            };
            book.note_phi(who(member), phi);
            let refutation = RefutationNote {
                how: Refutation::Answered,
                by: None,
                at: at(n),
                lifted: Status::Suspect,
                incarnation: Incarnation(n),
            };
            book.note_refutation(who(member), refutation);
            book.note_lateness(at(2000 * n), MS);
        }
        book.note_hearsay(who(member), None, (standing(Status::Dead), false), at(0));
        let evidence = Evidence::new("own", MS);
        book.note_verdict(who(member), standing(Status::Dead), evidence, at(0));
    }
    assert_eq!(book.members.len(), LEDGERS_MAX);
    assert_eq!(
        (book.verdicts.len(), book.hearsay.len()),
        (VERDICTS_MAX, HEARSAY_MAX)
    );
    assert_eq!(book.lateness().count(), LATENESSES_MAX);
    let last = who(16_383);
    assert_eq!(book.probes(last).len(), PROBES_MAX);
    assert_eq!(book.accusations(last).len(), ACCUSATIONS_MAX);
    assert!(bytes(&book) < 64 * 16_384, "{}", bytes(&book));
}

#[test]
fn a_late_answer_replaces_the_miss_and_routine_is_shown_with_the_rest() {
    use ProbeOutcome::{Acked, Late, Missed};
    let mut book = LedgerBook::default();
    let member = who(1);
    for n in 0..3 {
        book.note_probe(member, probe(n, Acked), false);
        book.note_probe(who(2), probe(n, Acked), false);
    }
    assert!(book.get(member).is_none(), "routine needs no ledger");
    book.note_probe(member, probe(5, Missed), false);
    book.note_probe(member, probe(4, Missed), false);
    book.note_probe(member, probe(5, Late), true);
    book.note_probe(member, probe(6, Acked), false);
    let ends: Vec<_> = book
        .probes(member)
        .iter()
        .map(|it| (it.sent_at, it.outcome))
        .collect();
    let expected = [
        (0, Acked),
        (1, Acked),
        (2, Acked),
        (4, Missed),
        (5, Late),
        (6, Acked),
    ];
    assert_eq!(ends, expected.map(|(ms, outcome)| (at(ms), outcome)));
    assert_eq!(book.last_probe(member), Some(&probe(6, Acked)));
    assert_eq!(book.last_probe(who(2)), Some(&probe(2, Acked)));
}

#[test]
fn many_tellers_of_one_accusation_leave_room_for_the_next() {
    let mut book = LedgerBook::default();
    let member = who(1);
    book.note_accusation(member, accusation(2, 0, 1));
    assert!(book.get(member).is_none(), "hearsay alone opens no ledger");
    book.note_hearsay(
        member,
        Some(who(2)),
        (standing(Status::Suspect), false),
        at(1),
    );
    assert_eq!(book.accusations(member), [accusation(2, 0, 1)]);
    book.note_probe(member, probe(2, ProbeOutcome::Missed), false);
    for teller in 3..30 {
        book.note_accusation(member, accusation(teller, 0, teller as u32));
    }
    book.note_accusation(member, accusation(3, 1, 40));
    let told = book.accusations(member);
    let told: Vec<_> = told
        .iter()
        .map(|note| (note.at, note.incarnation.0))
        .collect();
    assert_eq!(
        told,
        [(at(1), 0), (at(3), 0), (at(4), 0), (at(5), 0), (at(40), 1)]
    );
}

#[test]
fn changes_are_told_once_and_witnesses_belong_to_one_case() {
    let mut book = LedgerBook::default();
    book.note_probe(who(1), probe(0, ProbeOutcome::Acked), false);
    book.note_hearsay(who(2), None, (standing(Status::Left), false), at(0));
    let changed = |book: &LedgerBook, since| {
        let mut members: Vec<_> = book.changed_since(since).collect();
        members.sort();
        members
    };
    let mut both = vec![who(1), who(2)];
    both.sort();
    assert_eq!(changed(&book, 0), both);
    let seen = book.revision();
    assert_eq!(changed(&book, seen), []);
    book.note_witness(who(3), who(4), 0.02, (at(7), at(8)));
    book.note_witness(who(3), who(4), 0.05, (at(7), at(9)));
    assert_eq!(changed(&book, seen), [who(3)]);
    let doubt = book
        .get(who(3))
        .and_then(|held| held.doubt.as_deref())
        .expect("begun");
    let [witness] = doubt.witnesses(at(7)) else {
        panic!("one witness: {doubt:?}");
    };
    assert_eq!((witness.answers, witness.miss_rate), (2, 0.05));
    assert!(doubt.witnesses(at(6)).is_empty());
}

#[test]
fn latenesses_of_one_second_are_one() {
    let mut book = LedgerBook::default();
    for ms in [0, 300, 900, 1000, 2500] {
        book.note_lateness(at(ms), 30 * MS);
    }
    let held: Vec<_> = book.lateness().collect();
    assert_eq!(
        held,
        [(at(0), 90 * MS), (at(1000), 30 * MS), (at(2500), 30 * MS)]
    );
}
