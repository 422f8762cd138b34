//! The book against a plain model, and its limits.

use std::collections::BTreeSet;

use super::fleeting::{HELD_MAX, JUMP_MAX};
use super::*;
use crate::member::{EventName, NodeName};

const MS: Duration = Duration::from_millis(1);
const NOW: Instant = Instant::from_nanos(1_000_000_000);

fn event(life: u64, sequence: u64, delivery: Delivery) -> Arc<UserEvent> {
    UserEvent {
        origin: "n1".parse().expect("valid"),
        generation: Generation(life),
        delivery,
        sequence,
        key: None,
        unix_ms: 0,
        name: EventName::new("e").expect("valid"),
        payload: vec![0; 10],
    }
    .into()
}

fn durable(sequence: u64) -> Arc<UserEvent> {
    event(1, sequence, Delivery::AtLeastOnce)
}

fn fleeting(sequence: u64) -> Arc<UserEvent> {
    event(1, sequence, Delivery::AtMostOnce)
}

fn life(generation: u64) -> Life {
    let name: NodeName = "n1".parse().expect("valid");
    (name.hash(), Generation(generation))
}

fn numbers(events: &[Arc<UserEvent>]) -> Vec<u64> {
    events.iter().map(|event| event.sequence).collect()
}

fn taken(book: &mut EventBook, event: &Arc<UserEvent>) -> Result<Vec<u64>, Taken> {
    match book.take(event, NOW) {
        Taken::New(out) => Ok(numbers(&out)),
        other => Err(other),
    }
}

#[test]
fn what_comes_early_waits_for_what_is_missing() {
    let mut book = EventBook::new(50 * MS);
    assert_eq!(taken(&mut book, &durable(2)), Ok(vec![]));
    assert_eq!(taken(&mut book, &durable(3)), Ok(vec![]));
    assert_eq!(taken(&mut book, &durable(3)), Err(Taken::Duplicate));
    assert_eq!((book.upto(life(1)), book.held()), (0, 2));
    assert_eq!(taken(&mut book, &durable(1)), Ok(vec![1, 2, 3]));
    assert_eq!(taken(&mut book, &durable(2)), Err(Taken::Duplicate));
    assert_eq!((book.upto(life(1)), book.held()), (3, 0));
    assert_eq!(book.stored_upto(life(1)), Some(0));
    book.stored(&durable(2).event_ref());
    assert_eq!(book.stored_upto(life(1)), Some(2));
    book.stored(&durable(9).event_ref());
    assert_eq!(
        book.stored_upto(life(1)),
        Some(3),
        "no more than has come out"
    );
}

#[test]
fn far_jumps_and_many_lives_take_no_memory() {
    let mut book = EventBook::new(50 * MS);
    assert_eq!(taken(&mut book, &durable(u64::MAX)), Err(Taken::Beyond));
    assert_eq!(taken(&mut book, &durable(WINDOW + 1)), Err(Taken::Beyond));
    assert_eq!(taken(&mut book, &durable(WINDOW)), Ok(vec![]));
    for generation in 2..100 {
        let first = event(generation, 1, Delivery::AtLeastOnce);
        assert_eq!(taken(&mut book, &first), Ok(vec![1]));
    }
    assert_eq!(book.heads().count(), LIVES_PER_ORIGIN_MAX);
    assert_eq!(book.held(), 0, "what an old life held is gone with it");
    let old = event(3, 2, Delivery::AtLeastOnce);
    assert_eq!(taken(&mut book, &old), Err(Taken::Old));
    assert!(book.is_too_old(life(3)) && !book.is_too_old(life(96)));
}

#[test]
fn what_is_lost_is_passed_over_and_what_waited_comes_out() {
    let mut book = EventBook::new(50 * MS);
    for number in [1, 5, 6, 9] {
        let _ = book.take(&durable(number), NOW);
    }
    let skipped = |it: Option<Skipped>| it.map(|it| (it.first, it.last, numbers(&it.out)));
    let lost = skipped(book.skip(life(1), 4, NOW));
    assert_eq!(lost, Some((2, 4, vec![5, 6])));
    assert_eq!(book.stored_upto(life(1)), Some(0), "1 is not durable yet");
    book.stored(&durable(1).event_ref());
    assert_eq!(book.stored_upto(life(1)), Some(4));
    book.stored(&durable(6).event_ref());
    let lost = skipped(book.skip(life(1), u64::MAX, NOW));
    assert_eq!(lost, Some((7, 8, vec![9])), "not what has come");
    assert_eq!(book.stored_upto(life(1)), Some(8));
    assert!(book.skip(life(1), u64::MAX, NOW).is_none(), "nothing waits");
}

#[test]
fn small_reorderings_of_events_sent_at_most_once_are_smoothed() {
    let mut book = EventBook::new(50 * MS);
    assert_eq!(taken(&mut book, &fleeting(1)), Ok(vec![1]));
    assert_eq!(taken(&mut book, &fleeting(3)), Ok(vec![]));
    assert_eq!(taken(&mut book, &fleeting(2)), Ok(vec![2, 3]));
    assert_eq!(book.next_release(), None);
    assert_eq!(taken(&mut book, &fleeting(6)), Ok(vec![]));
    assert_eq!(book.next_release(), Some(NOW + 50 * MS));
    assert!(book.release_due(NOW + 49 * MS).is_empty());
    assert_eq!(numbers(&book.release_due(NOW + 50 * MS)), [6]);
    assert_eq!(taken(&mut book, &fleeting(4)), Err(Taken::Late));
    assert_eq!(taken(&mut book, &fleeting(4)), Err(Taken::Duplicate));
    assert_eq!(taken(&mut book, &fleeting(6)), Err(Taken::Duplicate));
    assert_eq!(taken(&mut book, &fleeting(7)), Ok(vec![7]));
}

#[test]
fn one_absurd_number_does_not_silence_an_origin_but_a_long_absence_may_be_true() {
    let mut book = EventBook::new(50 * MS);
    assert_eq!(taken(&mut book, &fleeting(1)), Ok(vec![1]));
    let far = 10 * JUMP_MAX;
    assert_eq!(taken(&mut book, &fleeting(far)), Err(Taken::Beyond));
    assert_eq!(
        taken(&mut book, &fleeting(far)),
        Err(Taken::Beyond),
        "the same lie"
    );
    assert_eq!(taken(&mut book, &fleeting(2)), Ok(vec![2]));
    assert_eq!(taken(&mut book, &fleeting(far + 1)), Ok(vec![]));
    assert_eq!(numbers(&book.release_due(NOW + 50 * MS)), [far + 1]);
}

#[test]
fn a_book_begins_at_heads_and_sums_them() {
    let (mut one, mut other) = (EventBook::new(50 * MS), EventBook::new(50 * MS));
    for number in 1..=3 {
        let _ = one.take(&durable(number), NOW);
        let _ = one.take(&fleeting(number), NOW);
    }
    let all = |_: NameHash| true;
    assert_ne!(one.sum(all), other.sum(all));
    for head in one.heads().chain(one.fleeting_heads()).collect::<Vec<_>>() {
        assert!(other.begin_at(&head, NOW));
        assert!(!other.begin_at(&head, NOW));
    }
    assert_eq!(one.sum(all), other.sum(all));
    assert_eq!(one.sum(|_| false), 0);
    assert_eq!(taken(&mut other, &durable(3)), Err(Taken::Duplicate));
    assert_eq!(taken(&mut other, &fleeting(2)), Err(Taken::Duplicate));
    assert_eq!(taken(&mut other, &fleeting(4)), Ok(vec![4]));
    assert_eq!(other.stored_upto(life(1)), Some(3));
    other.drop_origin(life(1).0);
    assert_eq!((other.heads().count(), other.sum(all)), (0, 0));
}

proptest::proptest! {
    /// In whatever order and however often they come, events sent at least once come out once, in
    /// order, and as soon as nothing is missing before them.
    #[test]
    fn every_order_comes_out_in_order(
        order in proptest::collection::vec(1..20u64, 1..80),
    ) {
        let (mut book, mut come, mut out) = (EventBook::new(50 * MS), BTreeSet::new(), Vec::new());
        for number in order {
            let new = come.insert(number);
            match book.take(&durable(number), NOW) {
                Taken::New(ready) => {
                    assert!(new);
                    out.extend(numbers(&ready));
                }
                other => assert!(!new && other == Taken::Duplicate),
            }
            let whole = (1..).take_while(|number| come.contains(number));
            assert_eq!(out, whole.collect::<Vec<_>>());
            assert_eq!(book.held(), come.len() - out.len());
        }
    }

    /// Events sent at most once never come out twice or out of order, whatever comes.
    #[test]
    fn fleeting_ones_never_go_back(
        order in proptest::collection::vec((1..200u64, 0..20u32), 1..200),
    ) {
        let (mut book, mut now, mut out) = (EventBook::new(50 * MS), NOW, Vec::new());
        for (number, passed) in order {
            now = now + passed * MS;
            out.extend(numbers(&book.release_due(now)));
            if let Taken::New(ready) = book.take(&fleeting(number), now) {
                out.extend(numbers(&ready));
            }
            assert!(book.held() <= HELD_MAX);
        }
        assert!(out.windows(2).all(|pair| pair[0] < pair[1]), "{out:?}");
    }
}
