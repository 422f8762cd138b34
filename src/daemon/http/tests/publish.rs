//! Events of clients: taken, numbered, shown, and turned away.

use serde_json::{Value, json};

use super::api::Api;
use super::snapshot;
use crate::node::{BACKLOG_EVENTS_MAX, Durable, Readiness};
use crate::protocol::DeliveryState;

const PATH: &str = "/v1/events";

#[tokio::test]
async fn an_event_is_answered_once_it_is_in_the_log() {
    let mut api = Api::serve(snapshot()).await;
    let answer = api
        .post(PATH, r#"{"name": "deploy", "payload": "v1"}"#)
        .await;
    assert_eq!(answer.status, 201);
    assert_eq!(answer.header("location"), Some("/v1/events/1"));
    let expected = concat!(
        r#"{"uid":"n1/1764516000/1","id":1,"origin":"n1","#,
        r#""origin_generation":1764516000,"sequence":1}"#
    );
    assert_eq!(answer.body, expected);
    let bytes = r#"{"name": "bin", "payload_base64": "AJ+Slg==", "delivery": "at-most-once"}"#;
    let most = api.post(PATH, bytes).await.json();
    // Each delivery is numbered by itself.
    assert_eq!((&most["id"], &most["sequence"]), (&json!(2), &json!(1)));
    assert_eq!(most["uid"], "n1/1764516000/m1");
    let empty = api.post(PATH, r#"{"name": "tick"}"#).await.json();
    assert_eq!((&empty["id"], &empty["sequence"]), (&json!(3), &json!(2)));
    let page = api.get("/v1/events?after=0").await.json();
    let event = &page["events"][0];
    assert_eq!(event["kind"], "user");
    assert_eq!(
        (&event["name"], &event["payload"], &event["delivery"]),
        (&json!("deploy"), &json!("v1"), &json!("at-least-once"))
    );
    assert_eq!(page["events"][1]["payload_base64"], "AJ+Slg==");
    assert_eq!(page["events"][2]["payload"], "");
    let mut told = Vec::new();
    while let Ok(Durable::Own(events)) = api.durable.try_recv() {
        told.extend(events.iter().map(|(event, _)| event.name.to_string()));
    }
    assert_eq!(told, ["deploy", "bin", "tick"]);
}

#[tokio::test]
async fn what_is_no_event_says_why() {
    let api = Api::serve(snapshot()).await;
    let long = format!(r#"{{"name": "{}"}}"#, "n".repeat(129));
    let large = format!(r#"{{"name": "a", "payload": "{}"}}"#, "x".repeat(65_537));
    let huge = format!(r#"{{"name": "a", "payload": "{}"}}"#, "x".repeat(600_000));
    for (body, status, reason) in [
        ("", 400, "is empty"),
        ("{", 400, "EOF"),
        ("{}", 400, "missing field `name`"),
        (r#"{"name": ""}"#, 400, "cannot be empty"),
        (r#"{"name": "a\nb"}"#, 400, "control characters"),
        (r#"{"name": "a", "paylod": "v1"}"#, 400, "paylod"),
        (
            r#"{"name": "a", "delivery": "twice"}"#,
            400,
            "at-least-once",
        ),
        (
            r#"{"name": "a", "payload": "b", "payload_base64": "AA=="}"#,
            400,
            "keep one",
        ),
        (r#"{"name": "a", "payload_base64": "?"}"#, 400, "no base64"),
        (long.as_str(), 400, "at most 128"),
        (large.as_str(), 413, "at most 65536"),
        (huge.as_str(), 413, "524288"),
    ] {
        let detail = api.post(PATH, body).await.problem(status);
        assert!(detail.contains(reason), "{detail}");
    }
    let plain = api.send("POST", PATH, &[], r#"{"name": "a"}"#).await;
    plain.problem(415);
    let detail = api
        .post("/v1/events?x=1", r#"{"name": "a"}"#)
        .await
        .problem(400);
    assert!(detail.contains("\"x\""), "{detail}");
    assert_eq!(api.node.log.head(), 0, "nothing of it is in the log");
    // JSON may spell one byte in six.
    let spelt = format!(
        r#"{{"name": "a", "payload": "{}"}}"#,
        "\\u0001".repeat(65_536)
    );
    assert_eq!(api.post(PATH, &spelt).await.status, 201);
}

#[tokio::test]
async fn a_node_that_is_not_ready_or_has_too_much_to_tell_stores_nothing() {
    let api = Api::serve(snapshot()).await;
    api.node
        .change(|snapshot| snapshot.node.readiness = Readiness::Joining);
    let detail = api.post(PATH, r#"{"name": "a"}"#).await.problem(503);
    assert!(detail.contains("/readyz"), "{detail}");
    api.node
        .change(|snapshot| snapshot.node.readiness = Readiness::Ready);
    let places: Vec<_> = (0..BACKLOG_EVENTS_MAX)
        .map(|_| api.node.backlog.enter(1))
        .collect();
    let answer = api.post(PATH, r#"{"name": "a"}"#).await;
    answer.problem(429);
    assert_eq!(answer.header("retry-after"), Some("1"));
    assert_eq!(api.node.log.head(), 0);
    drop(places);
    assert_eq!(api.post(PATH, r#"{"name": "a"}"#).await.status, 201);
}

#[tokio::test]
async fn one_event_shows_who_has_it() {
    let api = Api::serve(snapshot()).await;
    api.post(PATH, r#"{"name": "a"}"#).await;
    let one = api.get("/v1/events/1").await.json();
    assert!(one.get("delivered").is_none(), "the node does not know");
    let name = |text: &str| text.parse().expect("valid");
    let state = DeliveryState {
        delivered: vec![name("n2"), name("n1")],
        owed: vec![name("n3")],
    };
    *api.node.delivery.lock().expect("unpoisoned") = Some(state);
    let one = api.get("/v1/events/1").await.json();
    assert_eq!(one["delivered"], json!(["n1", "n2"]));
    assert_eq!(
        (&one["owed"], &one["complete"]),
        (&json!(["n3"]), &json!(false))
    );
    assert_eq!(one["name"], "a");
}

#[tokio::test]
async fn events_are_found_by_kind_and_name_and_the_cursor_goes_on() {
    let api = Api::serve(snapshot()).await;
    for name in ["a", "b", "a"] {
        api.post(PATH, &json!({ "name": name }).to_string()).await;
        super::events::append(&api, 1);
    }
    let ids = |page: &Value| -> Vec<u64> {
        let events = page["events"].as_array().expect("a list");
        events
            .iter()
            .filter_map(|event| event["id"].as_u64())
            .collect()
    };
    for (query, found, next) in [
        ("kind=user", vec![1, 3, 5], 6),
        ("kind=member-dead", vec![2, 4, 6], 6),
        ("kind=user,member-dead", vec![1, 2, 3, 4, 5, 6], 6),
        ("kind=user&limit=2", vec![1, 3], 3),
        ("name=a", vec![1, 5], 6),
        ("name=a&after=1", vec![5], 6),
        ("name=none", vec![], 6),
    ] {
        let page = api.get(&format!("/v1/events?{query}")).await.json();
        assert_eq!(
            (ids(&page), page["next"].as_u64()),
            (found, Some(next)),
            "{query}"
        );
    }
    let detail = api.get("/v1/events?kind=userr").await.problem(400);
    assert!(detail.contains("member-up"), "{detail}");
    // What is not wanted ends no wait.
    let read = api.get("/v1/events?name=c&after=6&wait=10m");
    let act = async {
        super::events::append(&api, 3);
        api.post(PATH, r#"{"name": "c"}"#).await;
    };
    let (answer, ()) = tokio::join!(read, act);
    assert_eq!(ids(&answer.json()), [10]);
}
