//! What the reading routes show.

use serde_json::{Value, json};

use super::api::Api;
use super::snapshot;
use crate::daemon::http::guard::Hosts;
use crate::daemon::http::{App, OPENAPI, Writes, routes};
use crate::daemon::telemetry::Metrics;
use crate::node::Readiness;
use crate::protocol::{Direction, ProbeKind, ProbeOutcome, Rejection, Transport};
use crate::wire::MessageKind;

#[tokio::test]
async fn the_table_has_the_promised_shape() {
    let api = Api::serve(snapshot()).await;
    let answer = api.get("/v1/members").await;
    assert_eq!(answer.status, 200);
    assert_eq!(answer.header("x-rumord-index"), Some("42"));
    assert_eq!(answer.header("content-type"), Some("application/json"));
    let table = answer.json();
    let head = json!({"cluster": "default", "local": "n1", "index": 42,
        "fingerprint": "00009f86d081884c",
        "counts": {"alive": 2, "suspect": 0, "dead": 1, "left": 0}});
    for (key, value) in head.as_object().expect("object") {
        assert_eq!(&table[key], value, "{key}");
    }
    assert_eq!(
        table["members"][0],
        json!({"name": "n1", "address": "127.0.0.1:7480", "status": "alive", "local": true,
            "generation": 1_764_516_000, "version": 345, "incarnation": 0, "phi": 0.0,
            "rtt_ms": null, "since": "2025-11-30T15:20:00.250Z", "tags": {"zone": "a"},
            "services": [{"name": "web", "port": 8080, "tags": {"v": "2"}}],
            "maintenance": null, "wire_version": 1})
    );
    assert_eq!(table["members"][1]["rtt_ms"], 0.312);
}

#[tokio::test]
async fn what_is_not_known_is_null_and_an_isolated_verdict_is_marked() {
    let mut snapshot = snapshot();
    snapshot.members[2].isolated_verdict = true;
    let api = Api::serve(snapshot).await;
    let answer = api.get("/v1/members/N3").await;
    assert_eq!(answer.header("x-rumord-index"), Some("42"));
    let member = answer.json();
    assert_eq!(member["name"], "n3");
    assert_eq!(member["address"], Value::Null);
    assert_eq!(member["wire_version"], Value::Null);
    assert_eq!(member["tags"], json!({}));
    assert_eq!(member["services"], json!([]));
    assert_eq!(member["phi"], 9.812);
    assert_eq!(member["isolated_verdict"], true);
}

#[tokio::test]
async fn filters_narrow_the_table_and_leave_the_counts() {
    let api = Api::serve(snapshot()).await;
    for (query, names) in [
        ("status=alive", vec!["n1", "n2"]),
        ("status=alive,dead", vec!["n1", "n2", "n3"]),
        ("status=suspect", vec![]),
        ("status=dead&status=left", vec!["n3"]),
        ("tag=zone", vec!["n1", "n2"]),
        ("tag=zone:a", vec!["n1"]),
        ("tag=zone%3Ab&tag=canary", vec!["n2"]),
        ("tag=canary:", vec!["n2"]),
        ("tag=zone:", vec![]),
        ("tag=zone:a&tag=canary", vec![]),
        ("service=WEB", vec!["n1"]),
        ("name=N2", vec!["n2"]),
        ("name=n2&status=dead", vec![]),
    ] {
        let answer = api.get(&format!("/v1/members?{query}")).await;
        assert_eq!(answer.names(), names, "{query}");
        assert_eq!(answer.json()["counts"]["alive"], 2, "{query}");
    }
}

#[tokio::test]
async fn an_unchanged_table_is_not_sent_again() {
    let api = Api::serve(snapshot()).await;
    let first = api.get("/v1/members?status=alive&tag=zone").await;
    let tag = first.header("etag").expect("etag").to_owned();
    assert!(tag.starts_with("W/\""), "{tag}");
    let again = async |target: &str, held: &str| {
        let header = format!("If-None-Match: {held}");
        api.send("GET", target, &[&header], "").await
    };
    let held = again("/v1/members?tag=zone&status=alive", &tag).await;
    assert_eq!((held.status, held.body.as_str()), (304, ""));
    assert_eq!(held.header("etag"), Some(tag.as_str()));
    assert_eq!(held.header("x-rumord-index"), Some("42"));
    let list = format!("\"x\", {tag}");
    assert_eq!(
        again("/v1/members?status=alive&tag=zone", &list)
            .await
            .status,
        304
    );
    assert_eq!(again("/v1/members", "*").await.status, 304);
    assert_eq!(again("/v1/members?status=alive", &tag).await.status, 200);
    api.node.change(|snapshot| snapshot.index += 1);
    assert_eq!(
        again("/v1/members?status=alive&tag=zone", &tag)
            .await
            .status,
        200
    );
}

#[tokio::test]
async fn this_node_shows_its_state_and_nested_counters() {
    let mut snapshot = snapshot();
    let stats = &mut snapshot.node.stats;
    let ping = (Direction::Sent, MessageKind::Ping, Transport::Datagram);
    stats.messages.add(ping, 9);
    stats
        .bytes
        .add((Direction::Received, Transport::Stream), 77);
    stats.rejected.add(Rejection::Malformed, 2);
    stats
        .probes
        .add((ProbeKind::Direct, ProbeOutcome::Acked), 8);
    stats.refutations = 1;
    let api = Api::serve(snapshot).await;
    let node = api.get("/v1/self").await.json();
    for (pointer, value) in [
        ("/name", json!("n1")),
        ("/cluster", json!("default")),
        ("/node_id", json!("00000000000000ab")),
        ("/generation", json!(1_764_516_000)),
        ("/bound", json!("127.0.0.1:7480")),
        ("/advertised", json!("127.0.0.1:7480")),
        ("/readiness", json!("ready")),
        ("/isolated", json!(false)),
        ("/miss_rate", json!(0.015)),
        ("/stream_answered", json!("2025-11-30T15:21:00.000Z")),
        ("/counters/streams_failed", json!(0)),
        ("/started", json!("2025-11-30T15:20:00.000Z")),
        ("/version", json!(env!("CARGO_PKG_VERSION"))),
        ("/index", json!(42)),
        ("/counts/dead", json!(1)),
        ("/counters/messages/sent/ping/datagram", json!(9)),
        ("/counters/bytes/received/stream", json!(77)),
        ("/counters/rejected/malformed", json!(2)),
        ("/counters/probes/direct/acked", json!(8)),
        ("/counters/refutations", json!(1)),
    ] {
        assert_eq!(node.pointer(pointer), Some(&value), "{pointer} in {node:#}");
    }
}

#[tokio::test]
async fn readiness_is_a_status_code_and_verbose_names_the_cause() {
    let api = Api::serve(snapshot()).await;
    assert_eq!(api.get("/readyz").await.status, 200);
    for (readiness, line) in [
        (Readiness::Joining, "[-]join "),
        (
            Readiness::ClockAhead,
            "[-]clock this node's own clock is the cause",
        ),
        (Readiness::Leaving, "[-]serving "),
        (Readiness::Forgotten, "[-]membership this node was removed"),
    ] {
        api.node
            .change(|snapshot| snapshot.node.readiness = readiness);
        let detail = api.get("/readyz").await.problem(503);
        let verbose = api.get("/readyz?verbose").await;
        assert_eq!(verbose.status, 503);
        assert!(verbose.body.contains(line), "{}", verbose.body);
        assert!(verbose.body.contains(&detail), "{}", verbose.body);
        assert!(verbose.body.ends_with("readyz check failed\n"));
        assert_eq!(api.get("/livez").await.status, 200);
    }
}

#[tokio::test]
async fn isolation_is_explained_but_stays_ready() {
    let mut snapshot = snapshot();
    snapshot.node.isolated = true;
    let api = Api::serve(snapshot).await;
    let verbose = api.get("/readyz?verbose").await;
    assert_eq!(verbose.status, 200);
    assert!(
        verbose.body.starts_with("[+]join ok\n[+]clock ok\n"),
        "{}",
        verbose.body
    );
    assert!(
        verbose.body.contains("[-]contact no contact"),
        "{}",
        verbose.body
    );
}

#[tokio::test]
async fn metrics_are_prometheus_text() {
    let api = Api::serve(snapshot()).await;
    let answer = api.get("/metrics").await;
    let kind = "text/plain; version=0.0.4; charset=utf-8";
    assert_eq!(answer.header("content-type"), Some(kind));
    assert!(
        answer.body.contains("rumord_members{status=\"alive\"} 2"),
        "{}",
        answer.body
    );
}

#[tokio::test]
async fn the_description_lists_exactly_the_served_routes() {
    let api = Api::serve(snapshot()).await;
    let answer = api.get("/openapi.json").await;
    assert_eq!(answer.header("content-type"), Some("application/json"));
    assert_eq!(answer.body, OPENAPI);
    let document = answer.json();
    assert_eq!(document["openapi"], "3.1.0");
    let mut described = Vec::new();
    for (path, methods) in document["paths"].as_object().expect("paths") {
        for method in methods.as_object().expect("methods").keys() {
            described.push((method.clone(), path.clone()));
        }
    }
    let app = App {
        node: api.node.clone(),
        store: api.store.clone(),
        metrics: Metrics::new().into(),
        writes: Writes::On,
        hosts: Hosts::Any,
        blocked: std::sync::Arc::new(tokio::sync::Semaphore::new(1)),
        working: std::sync::Arc::default(),
        streams: std::sync::Arc::new(tokio::sync::Semaphore::new(1)),
        stop: tokio::sync::watch::channel(()).1,
    };
    let named = |(method, path, _): (&str, &str, _)| (method.to_owned(), path.to_owned());
    let mut served: Vec<_> = routes(&app).into_iter().map(named).collect();
    served.sort();
    described.sort();
    assert_eq!(described, served);
}

#[test]
fn references_in_the_description_resolve() {
    fn check(root: &Value, value: &Value) {
        match value {
            Value::Object(fields) => {
                if let Some(Value::String(target)) = fields.get("$ref") {
                    let pointer = target.trim_start_matches('#');
                    assert!(root.pointer(pointer).is_some(), "{target} leads nowhere");
                }
                fields.values().for_each(|field| check(root, field));
            }
            Value::Array(items) => items.iter().for_each(|item| check(root, item)),
            _ => {}
        }
    }
    let document: Value = serde_json::from_str(OPENAPI).expect("JSON");
    check(&document, &document);
}
