//! Who agrees, over HTTP.

use std::time::Duration;

use serde_json::json;

use super::api::{Api, SOON};
use super::snapshot;
use crate::node::Snapshot;
use crate::protocol::Laggard;

/// n2 is not known to hold the table.
fn differing() -> Snapshot {
    let mut snapshot = snapshot();
    snapshot.agreement.agree = 1;
    snapshot.agreement.converged = false;
    snapshot.agreement.laggards = vec![Laggard {
        name: "n2".parse().expect("valid"),
        heard: Some(Duration::from_millis(730)),
    }];
    snapshot
}

#[tokio::test]
async fn agreement_has_the_promised_shape() {
    let api = Api::serve(snapshot()).await;
    let mut body = api.get("/v1/agreement").await.json();
    let stable = body["stable_for_ms"].take().as_u64().expect("a number");
    assert!(stable >= 1500, "{stable}");
    assert_eq!(
        body,
        json!({"alive": 2, "agree": 2, "laggards": [], "converged": true, "stable_for_ms": null,
            "fingerprint": "00009f86d081884c", "laggard_ages": []})
    );
    let api = Api::serve(differing()).await;
    let body = api.get("/v1/agreement").await.json();
    assert_eq!(body["laggards"], json!(["n2"]));
    assert_eq!(body["converged"], false);
    assert_eq!(
        body["laggard_ages"],
        json!([{"name": "n2", "heard_ms_ago": 730}])
    );
    assert_eq!(api.get("/v1/self").await.json()["agreement"]["agree"], 1);
}

#[tokio::test]
async fn a_wait_ends_when_all_agree_and_asks_the_members_to_hurry() {
    let api = Api::serve(differing()).await;
    let read = api.get("/v1/agreement?wait=10m&pause=100ms");
    let agreed = async {
        while api.node.waits().is_empty() {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        api.node
            .change(|shown| shown.agreement = snapshot().agreement);
    };
    let both = async { tokio::join!(read, agreed).0 };
    let answer = tokio::time::timeout(SOON, both).await.expect("in time");
    assert_eq!(answer.json()["converged"], true);
    let asked = (Duration::from_secs(600), Duration::from_millis(100));
    assert_eq!(api.node.waits(), [asked]);
}

#[tokio::test]
async fn when_the_wait_is_over_who_lags_is_named() {
    let api = Api::serve(differing()).await;
    let answer = api.get("/v1/agreement?wait=20ms").await;
    assert_eq!(
        (answer.status, &answer.json()["laggards"]),
        (200, &json!(["n2"]))
    );
    let agreeing = Api::serve(snapshot()).await;
    assert_eq!(agreeing.get("/v1/agreement?wait=10m").await.status, 200);
    assert_eq!(agreeing.node.waits(), [], "nobody has to hurry");
    for wrong in ["pause=1ms", "pause=2s", "wait=soon", "patience=1"] {
        assert_eq!(
            api.get(&format!("/v1/agreement?{wrong}")).await.status,
            400,
            "{wrong}"
        );
    }
}
