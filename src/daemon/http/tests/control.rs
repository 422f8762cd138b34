//! Join and leave, and who may ask for them.

use serde_json::{Value, json};

use super::api::Api;
use super::snapshot;
use crate::daemon::http::Writes;

#[tokio::test]
async fn join_answers_for_every_address() {
    let api = Api::serve(snapshot()).await;
    let body = r#"{"addresses": ["joined", "refused", "elsewhere", "unresolvable", "itself"]}"#;
    let answer = api.post("/v1/join", body).await;
    assert_eq!(answer.status, 200);
    let json = answer.json();
    let results = json["results"].as_array().expect("results");
    let outcomes: Vec<&Value> = results.iter().map(|result| &result["outcome"]).collect();
    assert_eq!(
        outcomes,
        ["joined", "refused", "unreachable", "unresolvable", "itself"]
    );
    assert_eq!(
        results[0],
        json!({"address": "joined", "outcome": "joined", "members": 3})
    );
    let detail = results[1]["detail"].as_str().expect("detail");
    assert!(detail.contains("--cluster"), "{detail}");
}

#[tokio::test]
async fn a_join_that_nobody_admitted_is_a_problem_with_the_results() {
    let api = Api::serve(snapshot()).await;
    let answer = api
        .post("/v1/join", r#"{"addresses": ["elsewhere", "itself"]}"#)
        .await;
    answer.problem(502);
    assert_eq!(answer.json()["results"][0]["outcome"], "unreachable");
    assert_eq!(answer.json()["results"][1]["outcome"], "itself");
    assert_eq!(
        api.post("/v1/join", r#"{"addresses": ["itself"]}"#)
            .await
            .status,
        200
    );
}

#[tokio::test]
async fn unusable_join_bodies_say_why() {
    let api = Api::serve(snapshot()).await;
    let many = format!("{{\"addresses\": [{}\"a\"]}}", "\"a\",".repeat(64));
    for (body, reason) in [
        ("", "missing field `addresses`"),
        ("{", "EOF"),
        ("[]", "expected a map"),
        (r#"[["a"]]"#, "expected a map"),
        (r#"{"addresses": []}"#, "is empty"),
        (r#"{"addresses": [" "]}"#, "empty one"),
        (r#"{"addresses": ["a"], "force": true}"#, "force"),
        (r#"{"addresses": [7]}"#, "string"),
        (many.as_str(), "64"),
    ] {
        let detail = api.post("/v1/join", body).await.problem(400);
        assert!(detail.contains(reason), "{body}: {detail}");
    }
}

#[tokio::test]
async fn leave_reports_who_knows_and_a_stopped_node_says_so() {
    let api = Api::serve(snapshot()).await;
    let answer = api.send("POST", "/v1/leave", &[], "").await;
    assert_eq!(answer.status, 202);
    assert_eq!(answer.json(), json!({"acknowledged": 1, "expected": 2}));
    assert_eq!(api.post("/v1/leave", "{}").await.status, 202);
    api.post("/v1/leave", r#"{"now": true}"#).await.problem(400);
    api.node.stop();
    api.post("/v1/leave", "{}").await.problem(503);
    assert_eq!(api.get("/v1/members").await.status, 200);
}

#[tokio::test]
async fn a_body_needs_its_type_and_a_modest_size() {
    let api = Api::serve(snapshot()).await;
    let body = r#"{"addresses": ["joined"]}"#;
    for wrong in [
        "Accept: */*",
        "Content-Type: text/plain",
        "Content-Type: application/jsonx",
    ] {
        let detail = api
            .send("POST", "/v1/join", &[wrong], body)
            .await
            .problem(415);
        assert!(
            detail.contains("Content-Type: application/json"),
            "{detail}"
        );
    }
    let charset = "Content-Type: Application/JSON; charset=utf-8";
    assert_eq!(
        api.send("POST", "/v1/join", &[charset], body).await.status,
        200
    );
    let huge = format!("{{\"addresses\": [\"{}\"]}}", "a".repeat(64 * 1024));
    let detail = api.post("/v1/join", &huge).await.problem(413);
    assert!(detail.contains("65536"), "{detail}");
}

#[tokio::test]
async fn changes_can_be_off_while_reads_are_served() {
    let api = Api::serve_with(snapshot(), Writes::Off, |listener| listener).await;
    for route in ["/v1/join", "/v1/leave"] {
        let detail = api
            .post(route, r#"{"addresses": ["joined"]}"#)
            .await
            .problem(403);
        assert!(detail.contains("--http-writes"), "{detail}");
    }
    assert_eq!(api.get("/v1/members").await.status, 200);
    assert_eq!(api.get("/v1/leave").await.status, 405);
}

#[tokio::test]
async fn a_foreign_page_can_neither_rebind_nor_post() {
    let api = Api::serve(snapshot()).await;
    for host in [
        "Host: evil.example",
        "Host: localhost.evil.example:80",
        "Host: 10.0.0.1",
    ] {
        api.send("GET", "/v1/members", &[host], "")
            .await
            .problem(403);
    }
    for host in ["Host: localhost", "Host: 127.0.0.2:9", "Host: [::1]:7481"] {
        assert_eq!(
            api.send("GET", "/v1/members", &[host], "").await.status,
            200,
            "{host}"
        );
    }
    let absolute = "GET http://evil.example/v1/members HTTP/1.1\r\nHost: localhost\r\n\
                    Connection: close\r\n\r\n";
    api.exchange(absolute).await.problem(403);
    let old = "GET /livez HTTP/1.0\r\n\r\n";
    assert_eq!(api.exchange(old).await.status, 200);
    for origin in ["Origin: http://evil.example", "Origin: null"] {
        api.send("POST", "/v1/leave", &[origin], "")
            .await
            .problem(403);
    }
    let own = format!("Origin: http://{}", api.address);
    assert_eq!(api.send("POST", "/v1/leave", &[&own], "").await.status, 202);
}

/// The state, and how many of how many know.
#[tokio::test]
async fn forgetting_says_how_far_it_has_come() {
    let api = Api::serve(snapshot()).await;
    for (name, expected) in [
        (
            "n3",
            json!({"name": "n3", "state": "spreading", "known": 1, "alive": 2, "complete": false}),
        ),
        (
            "gone",
            json!({"name": "gone", "state": "spreading", "known": 2, "alive": 2, "complete": true}),
        ),
        (
            "n2",
            json!({"name": "n2", "state": "asking", "answer_within_ms": 2000}),
        ),
    ] {
        let answer = forget(&api, name).await;
        assert_eq!((answer.status, answer.json()), (202, expected), "{name}");
    }
}

/// hashicorp/serf PR#504: removing a member that does not exist was a success.
#[tokio::test]
async fn what_cannot_be_forgotten_says_why_and_what_to_do() {
    let api = Api::serve(snapshot()).await;
    let long = "a".repeat(64);
    for (name, status, words) in [
        ("nosuch", 404, "GET /v1/members lists them"),
        ("no%20name", 404, "no member \"no name\""),
        (long.as_str(), 404, "no member"),
        ("n1", 400, "rumord leave"),
        ("running", 409, "it answered 1 s ago"),
        ("busy", 503, "ask again"),
        ("early", 503, "/readyz"),
    ] {
        let detail = forget(&api, name).await.problem(status);
        assert!(detail.contains(words), "{name}: {detail}");
    }
    let refused = forget(&api, "running").await.json();
    assert_eq!(refused["state"], "refused");
    let detail = forget(&api, "n3?force=true").await.problem(400);
    assert!(detail.contains("force"), "{detail}");
}

async fn forget(api: &Api, name: &str) -> super::api::Answer {
    api.send("DELETE", &format!("/v1/members/{name}"), &[], "")
        .await
}
