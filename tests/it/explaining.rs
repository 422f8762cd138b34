//! What an operator is told who asks why a member has its status.

use serde_json::Value;

use crate::agent::{Agent, count, member};

fn explain(agent: &Agent, name: &str) -> Value {
    let answer = agent.get(&format!("/v1/members/{name}/explain"));
    let answer = answer.expect("it serves");
    assert_eq!(answer.status, 200, "{}", answer.body);
    serde_json::from_str(&answer.body).expect("JSON")
}

fn items<'a>(of: &'a Value, field: &str) -> &'a [Value] {
    of[field].as_array().map_or(&[], Vec::as_slice)
}

fn number(of: &Value, field: &str) -> f64 {
    of[field].as_f64().unwrap_or(f64::NAN)
}

/// The evidence of an own death: the parts are phi, the times are in order, all is there.
fn assert_complete(evidence: &Value, died: &str) {
    assert_eq!(evidence["rule"], "own", "{evidence:#}");
    let parts = &evidence["parts"];
    let sum: f64 = ["own_misses", "witnesses", "heartbeats"]
        .map(|part| number(parts, part))
        .iter()
        .sum();
    assert!((sum - number(evidence, "phi")).abs() < 0.01, "{evidence:#}");
    let thresholds = &evidence["thresholds"];
    assert!(
        number(evidence, "phi") >= number(thresholds, "phi_dead"),
        "{evidence:#}"
    );
    assert!(
        number(evidence, "late_phi") >= number(thresholds, "phi_late"),
        "{evidence:#}"
    );
    let witness = &items(evidence, "witnessed_by")[0]["name"];
    assert!(
        ["n1", "n2"].map(Value::from).contains(witness),
        "{evidence:#}"
    );
    let time = |field: &str| evidence[field].as_str().unwrap_or_default().to_owned();
    assert!(
        !time("began").is_empty() && time("began") <= time("suspected"),
        "{evidence:#}"
    );
    assert!(time("suspected").as_str() <= died, "{evidence:#}");
    let probes = items(evidence, "probes");
    for (kind, outcome) in [("direct", "missed"), ("relayed", "nacked")] {
        let asked = |probe: &Value| probe["kind"] == kind && probe["outcome"] == outcome;
        assert!(probes.iter().any(asked), "{kind} {outcome}: {evidence:#}");
    }
    let sent: Vec<&str> = probes.iter().filter_map(|it| it["sent"].as_str()).collect();
    assert!(
        sent.len() == probes.len() && sent.is_sorted(),
        "{evidence:#}"
    );
}

/// clockworksoul/smudge#8, hashicorp/memberlist#234, consul#19965: a member was shown as failed, and
/// nothing said who had accused it, which way had failed, or whether the fault was one's own.
#[test]
fn a_death_is_explained_on_every_survivor_in_its_events_and_by_the_command() {
    let profile = ["--profile", "local"];
    let first = Agent::start("n1", &profile);
    let join = [&profile[..], &["--join", first.gossip.as_str()]].concat();
    let second = Agent::start("n2", &join);
    let mut third = Agent::start("n3", &join);
    for agent in [&first, &second, &third] {
        agent.wait_for("three alive", |table| count(table, "alive") == 3);
    }
    let alive = explain(&first, "n2");
    assert_eq!(
        (&alive["status"], &alive["case"]),
        (&"alive".into(), &Value::Null)
    );
    assert!(
        alive["rule"] == "answered" || alive["rule"] == "told",
        "{alive:#}"
    );
    assert_eq!(explain(&first, "N1")["rule"], "self");

    third.kill();
    let dead = |table: &Value| member(table, "n3")["status"] == "dead";
    let mut deciders = 0;
    for agent in [&first, &second] {
        agent.wait_for("n3 dead", dead);
        let explained = explain(agent, "n3");
        let page = agent.get("/v1/events?limit=1000").expect("it serves").body;
        let page: Value = serde_json::from_str(&page).expect("JSON");
        let death = items(&page, "events")
            .iter()
            .find(|it| it["kind"] == "member-dead");
        let death = death.expect("it is told");
        assert_eq!(
            explained["rule"], death["evidence"]["rule"],
            "{explained:#}"
        );
        let summary = explained["summary"].as_str().unwrap_or_default();
        assert!(summary.starts_with("n3 is dead"), "{summary}");
        if explained["rule"] == "told" {
            assert!(explained["told_by"].is_string(), "{explained:#}");
            assert_eq!(explained["told_by"], death["evidence"]["told_by"]);
            assert!(!items(&explained, "accusers").is_empty(), "{explained:#}");
            continue;
        }
        deciders += 1;
        let verdict = &explained["verdict"];
        assert_eq!(verdict["status"], "dead");
        assert_complete(
            &verdict["evidence"],
            verdict["time"].as_str().unwrap_or_default(),
        );
        assert_complete(
            &death["evidence"],
            death["time"].as_str().unwrap_or_default(),
        );
        let text = agent.command(&["explain", "n3"]);
        let text = String::from_utf8_lossy(&text.stdout).into_owned();
        let sentence = text.lines().next().unwrap_or_default();
        assert!(
            sentence.starts_with("n3 is dead: this node decided so at"),
            "{text}"
        );
        for heading in ["WITNESS", "PROBE", "PHI", "relayed", "nacked"] {
            assert!(text.contains(heading), "{heading} in\n{text}");
        }
        let own = agent.command(&["info"]);
        let own = String::from_utf8_lossy(&own.stdout).into_owned();
        assert!(own.contains("detection.deaths "), "{own}");
        assert!(own.contains("detection.false_deaths "), "{own}");
    }
    assert!(deciders > 0, "somebody has decided");
}

#[test]
fn nobody_of_that_name_is_an_error_and_json_is_the_api() {
    let agent = Agent::start("n1", &[]);
    let missing = agent.get("/v1/members/n9/explain").expect("it serves");
    assert_eq!(missing.status, 404, "{}", missing.body);
    let output = agent.command(&["explain", "n9"]);
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(
        (output.status.code(), stderr.trim_end().lines().count()),
        (Some(1), 1)
    );
    assert!(stderr.contains("n9"), "{stderr}");
    let output = agent.command(&["explain", "n1", "--format", "json"]);
    let body: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(
        (&body["name"], &body["rule"]),
        (&"n1".into(), &"self".into())
    );
}
