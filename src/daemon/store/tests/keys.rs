//! Idempotency keys: who owns one, for how long, and how many there may be.

use std::time::{Duration, SystemTime};

use super::events::draft;
use super::keeping::Fed;
use super::*;
use crate::node::Backlog;

const PATIENT: Duration = Duration::from_secs(20);
const IMPATIENT: Duration = Duration::from_millis(20);

fn keyed(scope: &str, key: &str, request: u8) -> Keyed {
    Keyed {
        scope: scope.into(),
        key: key.into(),
        fingerprint: [request; 32],
    }
}

fn answer(text: &str) -> Answer {
    Answer {
        status: 201,
        headers: vec![("location".into(), format!("/{text}"))],
        body: text.into(),
    }
}

fn token(outcome: &Outcome) -> Token {
    match outcome {
        Outcome::Begun(token) => *token,
        other => panic!("{other:?}"),
    }
}

fn post(keyed: Keyed, payload: &str) -> Post {
    Post {
        keyed: Some(keyed),
        draft: Ok(draft(None, payload)),
        place: Ok(Backlog::default().enter(1).expect("there is room")),
        render: |verdict| match verdict {
            Verdict::Accepted(accepted) => answer(&accepted.sequence.to_string()),
            Verdict::KeyReused => Answer::key_reused(),
        },
    }
}

/// paveg/hono-idempotency#91, KanishJebaMathewM/Truxify#4623, square1-io/laravel-idempotency#5: a
/// request whose lease had ended freed its successor's lock, or overwrote its answer.
#[tokio::test]
async fn who_is_too_late_can_neither_answer_for_nor_free_its_successor() {
    let dir = TestDir::new();
    let (fed, _) = Fed::open(&dir, "default", NOW);
    let store = &fed.store;
    let key = keyed("", "k", 1);
    let first = store.begin_for(key.clone(), Duration::ZERO, PATIENT).await;
    let second = store.begin_for(key.clone(), PATIENT, PATIENT).await;
    assert_ne!(token(&first), token(&second));
    let done = store.complete(key.clone(), token(&first), answer("first"));
    assert!(!done.await, "its lease is over, and the key in other hands");
    assert!(!store.abandon(key.clone(), token(&first)).await);
    let third = store.begin(key.clone(), IMPATIENT).await;
    assert_eq!(third, Outcome::Running, "not beside the second");
    let done = store.complete(key.clone(), token(&second), answer("second"));
    assert!(done.await);
    assert!(
        !store
            .complete(key.clone(), token(&first), answer("first"))
            .await
    );
    let fourth = store.begin(key, PATIENT).await;
    assert_eq!(fourth, Outcome::Replayed(answer("second")));
}

#[tokio::test]
async fn a_lease_that_is_over_does_not_give_the_key_to_another_request() {
    let dir = TestDir::new();
    let (fed, _) = Fed::open(&dir, "default", NOW);
    let (key, other) = (keyed("", "k", 1), keyed("", "k", 2));
    fed.store
        .begin_for(key.clone(), Duration::ZERO, PATIENT)
        .await;
    assert_eq!(
        fed.store.begin(other.clone(), PATIENT).await,
        Outcome::OtherRequest
    );
    let owner = token(&fed.store.begin(key.clone(), PATIENT).await);
    assert!(fed.store.abandon(key, owner).await);
    token(&fed.store.begin(other, PATIENT).await);
}

#[tokio::test]
async fn who_waits_is_woken_by_the_answer_or_takes_over() {
    let dir = TestDir::new();
    let (fed, _) = Fed::open(&dir, "default", NOW);
    let store = &fed.store;
    let key = keyed("", "k", 1);
    let owner = token(&store.begin(key.clone(), PATIENT).await);
    // Both wait; one of them takes over, and the other one waits for it in turn.
    let wait = async || match store.begin(key.clone(), PATIENT).await {
        Outcome::Begun(token) => {
            assert!(store.complete(key.clone(), token, answer("done")).await);
            None
        }
        outcome => Some(outcome),
    };
    let give_up = async {
        tokio::time::sleep(IMPATIENT).await;
        assert!(store.abandon(key.clone(), owner).await);
    };
    let (one, other, ()) = tokio::join!(wait(), wait(), give_up);
    let told: Vec<Outcome> = [one, other].into_iter().flatten().collect();
    assert_eq!(told, [Outcome::Replayed(answer("done"))]);
}

#[tokio::test]
async fn a_key_that_was_taken_for_somebody_who_has_gone_is_free_again() {
    let dir = TestDir::new();
    let (fed, _) = Fed::open(&dir, "default", NOW);
    let store = &fed.store;
    let key = keyed("", "k", 1);
    let owner = token(&store.begin(key.clone(), PATIENT).await);
    assert_eq!(store.begin(key.clone(), IMPATIENT).await, Outcome::Running);
    // The one that has stopped waiting is passed over.
    assert!(store.abandon(key.clone(), owner).await);
    token(&store.begin(key, PATIENT).await);
}

/// josipmusa/idempotency4j#9, arun0009/idempotent PR#217: two callers with one key saw each other's
/// answers.
#[tokio::test]
async fn keys_of_two_principals_are_two_keys() {
    let dir = TestDir::new();
    let (fed, _) = Fed::open(&dir, "default", NOW);
    let (alice, bob) = (keyed("alice", "k", 1), keyed("bob", "k", 2));
    let first = fed.store.post(post(alice.clone(), "a")).await;
    let second = fed.store.post(post(bob, "b")).await;
    assert_eq!(
        (first, second),
        (Outcome::Done(answer("1")), Outcome::Done(answer("2")))
    );
    let again = fed.store.post(post(alice, "a")).await;
    assert_eq!(again, Outcome::Replayed(answer("1")));
    // Scope and key do not run into each other.
    assert!(matches!(
        fed.store.begin(keyed("alicek", "", 3), PATIENT).await,
        Outcome::Begun(_)
    ));
}

#[tokio::test]
async fn an_answer_survives_a_crash_and_who_worked_does_not() {
    let dir = TestDir::new();
    let (fed, _) = Fed::open(&dir, "default", NOW);
    let (done, running) = (keyed("", "done", 1), keyed("", "running", 2));
    let first = fed.store.post(post(done.clone(), "a")).await;
    token(&fed.store.begin(running.clone(), PATIENT).await);
    drop(fed);
    let (fed, restored) = Fed::open(&dir, "default", NOW);
    assert_eq!(restored.user_events.len(), 1);
    let Outcome::Done(first) = first else {
        panic!("{first:?}");
    };
    assert_eq!(
        fed.store.post(post(done, "a")).await,
        Outcome::Replayed(first)
    );
    token(&fed.store.begin(running, PATIENT).await);
    assert_eq!(fed.store.condition().keys, 2);
    assert_eq!(fed.kept.events.read(0, 10).entries.len(), 1, "one event");
}

#[tokio::test]
async fn an_answer_is_remembered_for_a_day() {
    let dir = TestDir::new();
    let (fed, _) = Fed::open(&dir, "default", NOW);
    let key = keyed("", "k", 1);
    fed.store.post(post(key.clone(), "a")).await;
    age(&dir, key_rows::LIFETIME - Duration::from_secs(60));
    assert_eq!(
        fed.store.post(post(key.clone(), "a")).await,
        Outcome::Replayed(answer("1"))
    );
    age(&dir, Duration::from_secs(120));
    // What has expired may be another request.
    let other = keyed("", "k", 2);
    assert_eq!(
        fed.store.post(post(other, "b")).await,
        Outcome::Done(answer("2"))
    );
}

/// Has every key be older.
fn age(dir: &TestDir, by: Duration) {
    let file = Connection::open(dir.file()).expect("opened");
    file.busy_timeout(PATIENT).expect("set");
    file.execute(
        "update idempotency set expires_ms = expires_ms - ?1",
        [i64::try_from(by.as_millis()).expect("small")],
    )
    .expect("written");
}

/// productdevbook/unemail#107, paveg/hono-idempotency#26, membrane/api-gateway PR#1862: a flood of
/// keys took all memory, or threw out those that were in use.
#[tokio::test]
async fn a_flood_of_keys_is_bounded_and_harms_no_key_in_use() {
    let dir = TestDir::new();
    let store = SqliteStore::open(&dir.data(), "default", NOW, || 1).expect("opened");
    drop(store);
    let mut file = Connection::open(dir.file()).expect("opened");
    let transaction = file.transaction().expect("begun");
    for n in 1..KEYS_MAX {
        let key = keyed("", &format!("flood-{n}"), 1);
        let now = SystemTime::now();
        let taken = key_rows::take(&transaction, &key, Token(0), now, PATIENT);
        assert!(taken.expect("written"));
        let done = key_rows::complete(&transaction, &key, Token(0), &answer("x"), None);
        assert!(done.expect("written"));
    }
    transaction.commit().expect("written");
    drop(file);
    let (fed, _) = Fed::open(&dir, "default", NOW);
    let running = keyed("", "running", 1);
    let owner = token(&fed.store.begin(running.clone(), PATIENT).await);
    assert_eq!(fed.store.condition().keys, KEYS_MAX);
    assert_eq!(
        fed.store.begin(keyed("", "new", 1), PATIENT).await,
        Outcome::Full
    );
    assert_eq!(
        fed.store.post(post(keyed("", "new", 1), "a")).await,
        Outcome::Full
    );
    assert_eq!(fed.kept.events.read(0, 10).entries.len(), 0);
    // Those that are there go on.
    let old = fed.store.begin(keyed("", "flood-1", 1), PATIENT).await;
    assert_eq!(old, Outcome::Replayed(answer("x")));
    assert!(
        fed.store
            .complete(running.clone(), owner, answer("y"))
            .await
    );
    // What has expired makes room, a part at a time.
    age(&dir, key_rows::LIFETIME + Duration::from_secs(1));
    token(&fed.store.begin(keyed("", "new", 1), PATIENT).await);
    assert!(fed.store.condition().keys < KEYS_MAX);
}
