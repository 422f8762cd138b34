//! `rumord explain`: why a member has its status.

use clap::{Args, ValueEnum};
use serde::Deserialize;
use serde_json::Value;

use super::client::{Target, in_path};
use super::output::visible;
use super::table::align;
use super::{EXIT_FAILED, Failure, print};

/// Arguments of `rumord explain`.
#[derive(Args, Debug)]
pub(super) struct Arguments {
    #[command(flatten)]
    target: Target,
    /// The member's name
    #[arg(value_name = "NAME")]
    name: String,
    /// How to print it
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
}

#[derive(ValueEnum, Clone, Copy, Debug)]
enum Format {
    /// One sentence, then what it rests on
    Text,
    /// The API's JSON
    Json,
}

/// What the API answers, as far as it is shown as text.
#[derive(Deserialize)]
struct Answer {
    status: String,
    summary: String,
    rule: String,
    rule_time: Option<String>,
    since: String,
    phi: f64,
    parts: Parts,
    thresholds: Option<Thresholds>,
    case: Option<Report>,
    verdict: Option<Verdict>,
    probes: Vec<Probe>,
    phi_history: Vec<Sample>,
    accusers: Vec<Accuser>,
    refutations: Vec<Refutation>,
    heartbeats: Option<Heartbeats>,
    own: Option<Own>,
}

#[derive(Deserialize)]
struct Parts {
    own_misses: f64,
    witnesses: f64,
    heartbeats: f64,
}

#[derive(Deserialize)]
struct Thresholds {
    phi_suspect: f64,
    phi_late: f64,
    phi_dead: f64,
    pause_tolerance_ms: u64,
}

#[derive(Deserialize)]
struct Report {
    phase: String,
    began: String,
    parts: Parts,
    late_phi: f64,
    witnessed_by: Vec<Witness>,
    own_lateness_ms: u64,
}

#[derive(Deserialize)]
struct Verdict {
    status: String,
    time: String,
    evidence: Evidence,
}

#[derive(Deserialize)]
struct Evidence {
    phi: f64,
    rule: String,
    silence_ms: u64,
    #[serde(flatten)]
    report: Option<Report>,
}

#[derive(Deserialize)]
struct Witness {
    name: Option<String>,
    decades: f64,
    answers: u64,
    miss_rate: f64,
    time: String,
}

#[derive(Deserialize)]
struct Probe {
    kind: String,
    observer: Option<String>,
    asked_by: Option<String>,
    sent: String,
    outcome: String,
    rtt_ms: Option<f64>,
}

#[derive(Deserialize)]
struct Sample {
    time: String,
    phi: f64,
    parts: Parts,
    late_phi: f64,
    witnesses: u64,
    heartbeat_phi: f64,
}

#[derive(Deserialize)]
struct Accuser {
    by: Option<String>,
    status: String,
    incarnation: u64,
    time: String,
}

#[derive(Deserialize)]
struct Refutation {
    how: String,
    by: Option<String>,
    lifted: String,
    time: String,
}

#[derive(Deserialize)]
struct Heartbeats {
    last: String,
    mean_ms: u64,
    deviation_ms: u64,
    phi: f64,
}

#[derive(Deserialize)]
struct Own {
    isolated: bool,
    local_health: u64,
    miss_rate: f64,
    contact: Option<String>,
    lateness: Vec<Lateness>,
}

#[derive(Deserialize)]
struct Lateness {
    time: String,
    ms: u64,
}

/// Prints why the member has its status.
pub(super) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let path = format!("/v1/members/{}/explain", in_path(&arguments.name));
    let body: Value = arguments.target.client()?.get(&path)?;
    match arguments.format {
        Format::Json => print(&format!("{body:#}\n")),
        Format::Text => print(&text(body)?),
    }
}

fn text(body: Value) -> Result<String, Failure> {
    let answer: Answer = serde_json::from_value(body).map_err(|error| {
        let message = format!("this is no explanation ({error}); check --http");
        Failure::new(EXIT_FAILED, message)
    })?;
    let mut text = format!("{}\n\n{}", visible(&answer.summary), facts(&answer));
    let decided = answer.verdict.as_ref();
    let report = answer.case.as_ref();
    let report = report.or(decided.and_then(|verdict| verdict.evidence.report.as_ref()));
    if let Some(report) = report {
        section(&mut text, witnesses(report));
    }
    section(&mut text, probes(&answer.probes));
    section(&mut text, samples(&answer.phi_history));
    section(&mut text, accusers(&answer.accusers));
    section(&mut text, refutations(&answer.refutations));
    Ok(text)
}

/// A table below an empty line; nothing for a heading alone.
fn section<const N: usize>(text: &mut String, rows: Vec<[String; N]>) {
    if rows.len() > 1 {
        text.push('\n');
        text.push_str(&align(&rows));
    }
}

fn facts(answer: &Answer) -> String {
    let mut rows = vec![
        fact(
            "status",
            format!("{} since {}", answer.status, answer.since),
        ),
        fact("rule", at(&answer.rule, answer.rule_time.as_deref())),
        fact("phi", format!("{:.1} = {}", answer.phi, sum(&answer.parts))),
    ];
    if let Some(needed) = &answer.thresholds {
        rows.push(fact("needed", needs(needed)));
    }
    if let Some(case) = &answer.case {
        let case = format!("{} since {}, {}", case.phase, case.began, lateness(case));
        rows.push(fact("open case", case));
    }
    if let Some(verdict) = &answer.verdict {
        rows.push(fact("own verdict", decided(verdict)));
    }
    if let Some(beats) = &answer.heartbeats {
        let beats = format!(
            "last {}, every {:.1} s (deviation {:.1} s), phi {:.1}",
            beats.last,
            seconds(beats.mean_ms),
            seconds(beats.deviation_ms),
            beats.phi
        );
        rows.push(fact("heartbeats", beats));
    }
    if let Some(own) = &answer.own {
        rows.push(fact("this node", condition(own)));
    }
    align(&rows)
}

fn fact(name: &str, value: String) -> [String; 2] {
    [name.to_owned(), visible(&value)]
}

fn at(what: &str, time: Option<&str>) -> String {
    match time {
        Some(time) => format!("{what}, at {time}"),
        None => what.to_owned(),
    }
}

fn seconds(ms: u64) -> f64 {
    ms as f64 / 1000.0
}

fn sum(parts: &Parts) -> String {
    format!(
        "own misses {:.1} + witnesses {:.1} + heartbeats {:.1}",
        parts.own_misses, parts.witnesses, parts.heartbeats
    )
}

fn needs(needed: &Thresholds) -> String {
    format!(
        "suspect {:.1}; dead {:.1}, of which {:.1} after {:.1} s",
        needed.phi_suspect,
        needed.phi_dead,
        needed.phi_late,
        seconds(needed.pause_tolerance_ms)
    )
}

fn lateness(case: &Report) -> String {
    match case.own_lateness_ms {
        0 => "this node was never late meanwhile".to_owned(),
        ms => format!("this node was late itself by {:.1} s", seconds(ms)),
    }
}

fn decided(verdict: &Verdict) -> String {
    let evidence = &verdict.evidence;
    let mut text = format!(
        "{} at {}, rule {}, phi {:.1}, after {:.1} s of silence",
        verdict.status,
        verdict.time,
        evidence.rule,
        evidence.phi,
        seconds(evidence.silence_ms)
    );
    if let Some(report) = &evidence.report {
        let more = format!("; {}; {}", sum(&report.parts), lateness(report));
        text.push_str(&more);
        if report.phase == "final" {
            text.push_str(&format!("; late phi {:.1}", report.late_phi));
        }
    }
    text
}

fn condition(own: &Own) -> String {
    let contact = own.contact.as_deref().unwrap_or("never");
    let mut text = format!(
        "health {} of 8, miss rate {:.1} %, last answered {contact}",
        own.local_health,
        100.0 * own.miss_rate
    );
    if own.isolated {
        text.push_str(", ISOLATED");
    }
    if let Some(late) = own.lateness.last() {
        let late = format!(", late by {:.1} s at {}", seconds(late.ms), late.time);
        text.push_str(&late);
    }
    text
}

fn named(name: Option<&str>) -> String {
    visible(name.unwrap_or("-"))
}

fn heading<const N: usize>(words: [&str; N]) -> Vec<[String; N]> {
    vec![words.map(str::to_owned)]
}

fn witnesses(report: &Report) -> Vec<[String; 5]> {
    let mut rows = heading(["WITNESS", "DECADES", "NO ANSWER", "MISS RATE", "LAST"]);
    rows.extend(report.witnessed_by.iter().map(|witness| {
        [
            named(witness.name.as_deref()),
            format!("{:.1}", witness.decades),
            format!("{} x", witness.answers),
            format!("{:.1} %", 100.0 * witness.miss_rate),
            visible(&witness.time),
        ]
    }));
    rows
}

fn probes(probes: &[Probe]) -> Vec<[String; 5]> {
    let mut rows = heading(["PROBE", "BY", "SENT", "OUTCOME", "RTT"]);
    rows.extend(probes.iter().map(|probe| {
        let asker = probe.asked_by.as_deref();
        let asker = asker.map_or_else(String::new, |asker| format!(" for {}", visible(asker)));
        [
            visible(&probe.kind),
            format!("{}{asker}", named(probe.observer.as_deref())),
            visible(&probe.sent),
            visible(&probe.outcome),
            probe
                .rtt_ms
                .map_or_else(|| "-".to_owned(), |ms| format!("{ms:.1} ms")),
        ]
    }));
    rows
}

fn samples(samples: &[Sample]) -> Vec<[String; 7]> {
    let mut rows = heading([
        "PHI",
        "AT",
        "OWN",
        "WITNESSES",
        "HEARTBEATS",
        "LATE",
        "HEARTBEATS ALONE",
    ]);
    rows.extend(samples.iter().map(|sample| {
        [
            format!("{:.1}", sample.phi),
            visible(&sample.time),
            format!("{:.1}", sample.parts.own_misses),
            format!("{:.1} of {}", sample.parts.witnesses, sample.witnesses),
            format!("{:.1}", sample.parts.heartbeats),
            format!("{:.1}", sample.late_phi),
            format!("{:.1}", sample.heartbeat_phi),
        ]
    }));
    rows
}

fn accusers(accusers: &[Accuser]) -> Vec<[String; 4]> {
    let mut rows = heading(["TOLD BY", "SAYS", "INCARNATION", "AT"]);
    rows.extend(accusers.iter().map(|accuser| {
        [
            named(accuser.by.as_deref()),
            visible(&accuser.status),
            accuser.incarnation.to_string(),
            visible(&accuser.time),
        ]
    }));
    rows
}

fn refutations(refutations: &[Refutation]) -> Vec<[String; 4]> {
    let mut rows = heading(["REFUTED", "HOW", "THROUGH", "AT"]);
    rows.extend(refutations.iter().map(|refutation| {
        [
            visible(&refutation.lifted),
            visible(&refutation.how),
            named(refutation.by.as_deref()),
            visible(&refutation.time),
        ]
    }));
    rows
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const AT: &str = "2026-11-30T15:20:04.512Z";

    fn answer() -> Value {
        let parts = json!({"own_misses": 4.0, "witnesses": 10.0, "heartbeats": 0.0});
        let report = json!({
            "phase": "final", "began": AT, "parts": parts, "late_phi": 3.5,
            "witnessed_by": [
                {"name": "n\u{1b}2", "decades": 2.0, "answers": 3, "miss_rate": 0.01, "time": AT},
            ],
            "own_lateness_ms": 1200,
        });
        let mut evidence = json!({"phi": 14.0, "rule": "own", "witnesses": 5, "silence_ms": 5600});
        let fields = evidence.as_object_mut().expect("an object");
        fields.extend(report.as_object().expect("an object").clone());
        json!({
            "name": "n3", "status": "dead", "summary": "n3 is dead: it is silent.", "rule": "own",
            "rule_time": AT, "since": AT, "phi": 0.0, "parts": parts, "case": null,
            "thresholds": {"phi_suspect": 4.0, "phi_late": 3.0, "phi_dead": 9.4,
                           "pause_tolerance_ms": 5000},
            "verdict": {"status": "dead", "generation": 1, "time": AT, "evidence": evidence},
            "probes": [{"kind": "asked-for", "observer": "n1", "asked_by": "n2", "sent": AT,
                        "outcome": "missed", "rtt_ms": null}],
            "phi_history": [{"time": AT, "phi": 6.0, "parts": parts, "late_phi": 0.0,
                             "witnesses": 3, "heartbeat_phi": 0.4}],
            "accusers": [], "refutations": [],
            "heartbeats": {"last": AT, "mean_ms": 1500, "deviation_ms": 400, "phi": 0.4},
            "own": {"isolated": true, "local_health": 1, "miss_rate": 0.02, "contact": AT,
                    "lateness": [{"time": AT, "ms": 1200}]},
        })
    }

    #[test]
    fn the_sentence_comes_first_and_the_evidence_below() {
        let text = text(answer()).expect("an explanation");
        let mut lines = text.lines();
        assert_eq!(lines.next(), Some("n3 is dead: it is silent."));
        for part in [
            "status       dead since 2026-11-30T15:20:04.512Z",
            "needed       suspect 4.0; dead 9.4, of which 3.0 after 5.0 s",
            "rule own, phi 14.0, after 5.6 s of silence; own misses 4.0 + witnesses 10.0",
            "this node was late itself by 1.2 s; late phi 3.5",
            "health 1 of 8, miss rate 2.0 %",
            "ISOLATED",
            "n\\u{1b}2  2.0      3 x        1.0 %",
            "asked-for  n1 for n2",
            "10.0 of 3",
        ] {
            assert!(text.contains(part), "{part} in\n{text}");
        }
        assert!(!text.contains("TOLD BY"), "no empty tables\n{text}");
        assert!(super::text(json!({"status": "dead"})).is_err());
    }
}
