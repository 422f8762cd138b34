//! Who cannot see whom, over HTTP.

use std::time::{Duration, SystemTime};

use serde_json::json;

use super::api::Api;
use super::snapshot;
use crate::node::{Snapshot, UnreachedView};
use crate::protocol::{Reach, ReachCause};

/// n1 and n2 do not reach each other by datagram.
fn blocked() -> Snapshot {
    let pair = |observer: &str, subject: &str| UnreachedView {
        observer: observer.parse().expect("valid"),
        subject: subject.parse().expect("valid"),
        datagram: Reach::Unreachable,
        stream: Reach::Reachable,
        heard: false,
        since: SystemTime::UNIX_EPOCH + Duration::from_millis(1500),
        cause: ReachCause::UdpBlocked,
    };
    Snapshot {
        unreached: vec![pair("n1", "n2"), pair("n2", "n1")],
        ..snapshot()
    }
}

#[tokio::test]
async fn a_cluster_that_is_well_has_an_empty_list() {
    let api = Api::serve(snapshot()).await;
    let body = api.get("/v1/reachability").await.json();
    assert_eq!(body, json!({"pairs": []}));
    let text = api.get("/readyz?verbose").await.body;
    assert!(text.contains("[+]reachability ok\n"), "{text}");
}

#[tokio::test]
async fn pairs_have_the_promised_shape_and_are_counted() {
    let api = Api::serve(blocked()).await;
    let body = api.get("/v1/reachability").await.json();
    assert_eq!(body["pairs"].as_array().map(Vec::len), Some(2));
    assert_eq!(
        body["pairs"][0],
        json!({"observer": "n1", "subject": "n2", "datagram": "unreachable",
            "stream": "reachable", "heard": false, "since": "1970-01-01T00:00:01.500Z",
            "cause": "udp-blocked",
            "detail": "UDP blocked: datagrams between n1 and n2 are lost, streams pass; look for \
                       a filter on UDP"})
    );
    let this = api.get("/v1/self").await.json();
    assert_eq!(this["unreached_pairs"], json!({"datagram": 2, "stream": 0}));
    let text = api.get("/readyz?verbose").await.body;
    let line = "[-]reachability 2 pairs of members do not reach each other in every way";
    assert!(text.contains(line), "{text}");
    assert_eq!(api.get("/v1/reachability?x=1").await.status, 400);
}
