//! Tags, services and maintenance of this node.

use serde_json::json;

use super::api::{Answer, Api};
use super::snapshot;
use crate::daemon::http::Writes;

const JSON: &str = "Content-Type: application/json";

async fn put(api: &Api, path: &str, body: &str) -> Answer {
    api.send("PUT", path, &[JSON], body).await
}

async fn put_if(api: &Api, path: &str, tag: &str, body: &str) -> Answer {
    let condition = format!("If-Match: {tag}");
    api.send("PUT", path, &[JSON, &condition], body).await
}

#[tokio::test]
async fn tags_are_replaced_as_a_whole_and_only_over_the_state_that_was_read() {
    let api = Api::serve(snapshot()).await;
    let read = api.get("/v1/self/tags").await;
    assert_eq!(read.json(), json!({"zone": "a"}));
    let tag = read.header("etag").expect("a tag").to_owned();
    assert_eq!(api.get("/v1/self").await.header("etag"), Some(tag.as_str()));
    let written = put_if(&api, "/v1/self/tags", &tag, r#"{"rack": "1"}"#).await;
    assert_eq!(written.status, 200);
    assert_eq!(written.json(), json!({"rack": "1"}));
    let next = written.header("etag").expect("a tag").to_owned();
    assert_ne!(next, tag);
    let detail = put_if(&api, "/v1/self/tags", &tag, "{}").await.problem(412);
    assert!(detail.contains("GET /v1/self/tags"), "{detail}");
    assert_eq!(
        api.get("/v1/self").await.json()["tags"],
        json!({"rack": "1"})
    );
    for (matching, status) in [
        ("\"0-0\"", 412),
        (format!("W/{next}").as_str(), 412),
        (format!("\"0-0\", {next}").as_str(), 200),
        ("*", 200),
        ("1-2", 400),
        ("", 400),
    ] {
        let answer = put_if(&api, "/v1/self/tags", matching, r#"{"a": "b"}"#).await;
        assert_eq!(answer.status, status, "{matching}: {answer:?}");
    }
}

#[tokio::test]
async fn bad_tags_say_why_and_change_nothing() {
    let api = Api::serve(snapshot()).await;
    let many: Vec<String> = (0..10_000).map(|n| format!("\"{n}\": \"\"")).collect();
    let large = format!("{{\"k\": \"{}\"}}", "v".repeat(70_000));
    let huge = format!("{{\"k\": \"{}\"}}", "v".repeat(600_000));
    for (body, status, reason) in [
        (r#"{"a b": "1"}"#, 400, "tag key \"a b\""),
        (r#"{"": "1"}"#, 400, "1-64 characters"),
        (r#"{"a": 1}"#, 400, "expected a string"),
        (r#"["a"]"#, 400, "expected a map"),
        ("", 400, "is empty"),
        ("{", 400, "EOF"),
        (large.as_str(), 413, "70006 bytes, at most 65536"),
        (huge.as_str(), 413, "524288"),
        (&format!("{{{}}}", many.join(", ")), 413, "10000 tags"),
    ] {
        let detail = put(&api, "/v1/self/tags", body).await.problem(status);
        assert!(detail.contains(reason), "{detail}");
    }
    let plain = api.send("PUT", "/v1/self/tags", &[], r#"{"a": "b"}"#);
    plain.await.problem(415);
    assert_eq!(api.get("/v1/self/tags").await.json(), json!({"zone": "a"}));
}

#[tokio::test]
async fn services_are_added_replaced_and_removed() {
    let api = Api::serve(snapshot()).await;
    let path = "/v1/self/services/api";
    let added = put(&api, path, r#"{"port": 81}"#).await;
    assert_eq!(added.status, 201);
    assert_eq!(added.header("location"), Some(path));
    assert_eq!(added.json(), json!({"name": "api", "port": 81, "tags": {}}));
    let body = r#"{"port": 82, "tags": {"v": "2"}}"#;
    assert_eq!(put(&api, path, body).await.status, 200);
    let services = &api.get("/v1/self").await.json()["services"];
    let has = |port: u16| {
        let list = services.as_array().expect("a list");
        list.iter().any(|service| service["port"] == port)
    };
    assert!(has(82) && has(8080) && !has(81), "{services}");
    assert_eq!(api.send("DELETE", path, &[], "").await.status, 204);
    let detail = api.send("DELETE", path, &[], "").await.problem(404);
    assert!(detail.contains("no service api"), "{detail}");
    for (path, body, reason) in [
        ("/v1/self/services/a%20b", r#"{"port": 1}"#, "a b"),
        (path, r#"{"port": 0}"#, "port 0"),
        (path, r#"{"port": 70000}"#, "70000"),
        (path, "{}", "missing field `port`"),
        (path, r#"{"port": 1, "proto": "udp"}"#, "proto"),
        (path, r#"{"port": 1, "tags": {"a b": ""}}"#, "tag key"),
    ] {
        let detail = put(&api, path, body).await.problem(400);
        assert!(detail.contains(reason), "{detail}");
    }
}

#[tokio::test]
async fn a_service_is_changed_only_over_the_state_it_was_meant_for() {
    let api = Api::serve(snapshot()).await;
    let path = "/v1/self/services/api";
    let body = r#"{"port": 81}"#;
    let with = async |method: &str, path: &str, header: &str, body: &str| {
        api.send(method, path, &[JSON, header], body).await
    };
    with("PUT", path, "If-Match: *", body).await.problem(412);
    with("DELETE", path, "If-Match: *", "").await.problem(412);
    api.get(path).await.problem(404);
    let added = with("PUT", path, "If-None-Match: *", body).await;
    assert_eq!(added.status, 201);
    let detail = with("PUT", path, "If-None-Match: *", body)
        .await
        .problem(412);
    assert!(detail.contains("If-None-Match"), "{detail}");
    let read = api.get(path).await;
    assert_eq!(read.json(), json!({"name": "api", "port": 81, "tags": {}}));
    assert_eq!(read.header("etag"), added.header("etag"));
    let tag = format!("If-Match: {}", read.header("etag").expect("a tag"));
    let replaced = with("PUT", path, &tag, r#"{"port": 82}"#).await;
    assert_eq!(replaced.status, 200);
    with("PUT", path, &tag, r#"{"port": 83}"#)
        .await
        .problem(412);
    with("DELETE", path, &tag, "").await.problem(412);
    assert_eq!(with("PUT", path, "If-Match: *", body).await.status, 200);
    for wrong in ["If-None-Match: \"1-1\"", "If-None-Match: *\r\nIf-Match: *"] {
        with("PUT", path, wrong, body).await.problem(400);
    }
    // There are always tags.
    let tags = with("PUT", "/v1/self/tags", "If-None-Match: *", "{}").await;
    tags.problem(412);
    assert_eq!(api.get("/v1/self/tags").await.json(), json!({"zone": "a"}));
}

#[tokio::test]
async fn a_maintenance_is_begun_and_ended() {
    let api = Api::serve(snapshot()).await;
    let body = r#"{"for": "60s", "reason": "deploy"}"#;
    let begun = api.post("/v1/maintenance", body).await;
    assert_eq!(begun.status, 200);
    let shown = json!({"until": "2025-11-30T15:21:00.000Z", "reason": "deploy"});
    assert_eq!(begun.json(), shown);
    assert_eq!(api.get("/v1/self").await.json()["maintenance"], shown);
    assert_eq!(api.get("/v1/members/n1").await.json()["maintenance"], shown);
    let ended = api.send("DELETE", "/v1/maintenance", &[], "").await;
    assert_eq!(ended.status, 204);
    let member = api.get("/v1/members/n1").await.json();
    assert_eq!(member["maintenance"], json!(null));
    let long = format!(r#"{{"for": "60s", "reason": "{}"}}"#, "x".repeat(257));
    for (body, reason) in [
        (r#"{"for": "soon"}"#, "duration"),
        (r#"{"for": "25h"}"#, "at most 24 h"),
        (r#"{"for": "0s"}"#, "more than 0 s"),
        (r#"{"reason": "deploy"}"#, "missing field `for`"),
        (long.as_str(), "at most 256"),
    ] {
        let detail = api.post("/v1/maintenance", body).await.problem(400);
        assert!(detail.contains(reason), "{detail}");
    }
}

#[tokio::test]
async fn a_stopped_node_and_forbidden_changes_say_so() {
    let api = Api::serve(snapshot()).await;
    api.node.stop();
    put(&api, "/v1/self/tags", "{}").await.problem(503);
    let api = Api::serve_with(snapshot(), Writes::Off, |listener| listener).await;
    for (method, path) in [
        ("PUT", "/v1/self/tags"),
        ("PUT", "/v1/self/services/web"),
        ("DELETE", "/v1/self/services/web"),
        ("POST", "/v1/maintenance"),
        ("DELETE", "/v1/maintenance"),
    ] {
        let detail = api.send(method, path, &[JSON], "{}").await.problem(403);
        assert!(detail.contains("--http-writes"), "{detail}");
    }
    assert_eq!(api.get("/v1/self/tags").await.status, 200);
}
