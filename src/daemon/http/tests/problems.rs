//! Every error is a problem document that says what to do.

use super::api::Api;
use super::snapshot;

#[tokio::test]
async fn unknown_routes_and_members_are_told_apart() {
    let api = Api::serve(snapshot()).await;
    for target in [
        "/",
        "/v1",
        "/v1/members/",
        "/v1/members/n1/history",
        "/v2/members",
    ] {
        let detail = api.get(target).await.problem(404);
        assert!(detail.contains("/openapi.json"), "{target}: {detail}");
    }
    let detail = api.get("/v1/members/n9").await.problem(404);
    assert!(detail.contains("\"n9\""), "{detail}");
}

#[tokio::test]
async fn a_name_that_is_no_text_is_refused() {
    let api = Api::serve(snapshot()).await;
    api.get("/v1/members/%ff%fe").await.problem(400);
}

#[tokio::test]
async fn a_wrong_method_names_the_right_ones() {
    let api = Api::serve(snapshot()).await;
    for (method, target, allow) in [
        ("POST", "/v1/members", "GET,HEAD"),
        ("PUT", "/v1/members/n1", "GET,HEAD,DELETE"),
        ("GET", "/v1/join", "POST"),
        ("PUT", "/v1/leave", "POST"),
        ("POST", "/metrics", "GET,HEAD"),
    ] {
        let answer = api.send(method, target, &[], "").await;
        answer.problem(405);
        assert_eq!(answer.header("allow"), Some(allow), "{method} {target}");
    }
    let head = api.send("HEAD", "/v1/members", &[], "").await;
    assert_eq!((head.status, head.body.as_str()), (200, ""));
}

#[tokio::test]
async fn a_bad_query_names_the_parameter() {
    let api = Api::serve(snapshot()).await;
    let long = format!("name={}", "a".repeat(1025));
    for (query, named) in [
        ("status=gone", "status"),
        ("status=", "status"),
        ("tag=", "tag"),
        ("tag=:a", "tag"),
        ("service=", "service"),
        ("name=", "name"),
        ("name=a&name=b", "name"),
        ("index=-1", "index"),
        ("index=1.5", "index"),
        ("index=18446744073709551616", "index"),
        ("index=1&index=2", "index"),
        ("index=1&wait=soon", "wait"),
        ("wait=5", "wait"),
        ("statuss=alive", "statuss"),
        (long.as_str(), "name"),
    ] {
        let detail = api.get(&format!("/v1/members?{query}")).await.problem(400);
        assert!(detail.contains(&format!("{named:?}")), "{query}: {detail}");
    }
    for target in ["/v1/self?x", "/v1/members/n1?x", "/readyz?x", "/livez?x"] {
        assert!(
            api.get(target).await.problem(400).contains("\"x\""),
            "{target}"
        );
    }
    assert!(
        api.post("/v1/leave?x", "{}")
            .await
            .problem(400)
            .contains("\"x\"")
    );
}

#[tokio::test]
async fn a_wait_beyond_every_bound_is_cut_not_refused() {
    let api = Api::serve(snapshot()).await;
    let answer = api.get("/v1/members?index=41&wait=500000000years").await;
    assert_eq!(answer.status, 200);
}
