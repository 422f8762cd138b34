//! `GET /v1/members/{name}/explain`: why a member has its status.

mod summary;

use std::borrow::Cow;
use std::net::SocketAddr;
use std::time::{Duration, SystemTime};

use axum::Json;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use axum::response::{IntoResponse, Response};
use serde::Serialize;

use super::super::event::{thousandths, timestamp};
use super::super::evidence::{
    EvidenceJson, PartsJson, ProbeJson, ReportJson, ThresholdsJson, before, millis, probes, text,
};
use super::App;
use super::members::listed;
use super::problem::Problem;
use super::query::Parameters;
use crate::node::{Explained, MemberView, Snapshot};
use crate::protocol::{
    Accusation, Explanation, HeartbeatReport, OwnReport, PhiSample, RefutationReport, VerdictReport,
};

/// Why a member has its status, with all that is known for it.
#[derive(Serialize)]
struct ExplainJson<'a> {
    name: &'a str,
    address: Option<SocketAddr>,
    status: &'static str,
    /// One sentence.
    summary: String,
    rule: Cow<'a, str>,
    rule_time: Option<String>,
    told_by: Option<String>,
    generation: u64,
    incarnation: u32,
    since: String,
    /// As of when the rest is.
    time: Option<String>,
    phi: f64,
    /// Of phi; their sum.
    parts: PartsJson,
    thresholds: Option<ThresholdsJson>,
    case: Option<ReportJson>,
    verdict: Option<VerdictJson>,
    probes: Vec<ProbeJson>,
    phi_history: Vec<PhiJson>,
    accusers: Vec<AccusationJson>,
    refutations: Vec<RefutationJson>,
    heartbeats: Option<HeartbeatsJson>,
    own: Option<OwnJson>,
}

/// The latest verdict of this node, also one that was lifted.
#[derive(Serialize)]
struct VerdictJson {
    status: &'static str,
    generation: u64,
    time: String,
    evidence: EvidenceJson,
}

#[derive(Serialize)]
struct PhiJson {
    time: String,
    phi: f64,
    parts: PartsJson,
    late_phi: f64,
    witnesses: u32,
    heartbeat_phi: f64,
}

#[derive(Serialize)]
struct AccusationJson {
    by: Option<String>,
    status: &'static str,
    incarnation: u32,
    time: String,
}

#[derive(Serialize)]
struct RefutationJson {
    how: &'static str,
    by: Option<String>,
    lifted: &'static str,
    incarnation: u32,
    time: String,
}

#[derive(Serialize)]
struct HeartbeatsJson {
    last: String,
    mean_ms: u64,
    deviation_ms: u64,
    phi: f64,
}

/// How this node itself was.
#[derive(Serialize)]
struct OwnJson {
    isolated: bool,
    local_health: u32,
    miss_rate: f64,
    contact: Option<String>,
    lateness: Vec<LatenessJson>,
}

#[derive(Serialize)]
struct LatenessJson {
    time: String,
    ms: u64,
}

/// Why a member has its status.
pub(super) async fn show(
    State(app): State<App>,
    path: Result<Path<String>, PathRejection>,
    query: Parameters,
) -> Result<Response, Problem> {
    query.allow(&[])?;
    let snapshot = app.node.snapshot();
    let member = listed(&snapshot, path)?;
    let explained = snapshot.explanation(&member.name).map(AsRef::as_ref);
    Ok(Json(ExplainJson::new(&snapshot, member, explained)).into_response())
}

impl<'a> ExplainJson<'a> {
    fn new(snapshot: &Snapshot, member: &'a MemberView, explained: Option<&'a Explained>) -> Self {
        let at = explained.map_or(SystemTime::UNIX_EPOCH, |it| it.at);
        let what = explained.map(|it| &it.what);
        let report = what.and_then(|what| what.case.as_ref());
        let phi = report.map_or(member.phi, |report| report.phi);
        ExplainJson {
            name: member.name.as_str(),
            address: member.address,
            status: member.status.as_str(),
            summary: summary::of(snapshot, member, explained),
            rule: rule(member, what),
            rule_time: what
                .and_then(|what| what.rule_ago)
                .map(|ago| timestamp(before(at, ago))),
            told_by: text(what.and_then(|what| what.told_by.as_ref())),
            generation: member.generation.0,
            incarnation: member.incarnation.0,
            since: timestamp(member.since),
            time: explained.map(|it| timestamp(it.at)),
            phi: thousandths(phi),
            parts: report.map_or_else(
                // Without a case phi is that of the heartbeats.
                || PartsJson {
                    own_misses: 0.0,
                    witnesses: 0.0,
                    heartbeats: thousandths(phi),
                },
                PartsJson::new,
            ),
            thresholds: what.map(|what| ThresholdsJson::new(&what.thresholds)),
            case: report.map(|report| ReportJson::new(report, at)),
            verdict: what
                .and_then(|what| what.verdict.as_ref())
                .map(|verdict| VerdictJson::new(verdict, at)),
            probes: what.map_or_else(Vec::new, |what| probes(&what.probes, at)),
            phi_history: all(what, |what| &what.phi, |it| PhiJson::new(it, at)),
            accusers: all(
                what,
                |what| &what.accusers,
                |it| AccusationJson::new(it, at),
            ),
            refutations: all(what, |it| &it.refutations, |it| RefutationJson::new(it, at)),
            heartbeats: what
                .and_then(|what| what.heartbeats.as_ref())
                .map(|heartbeats| HeartbeatsJson::new(heartbeats, at)),
            own: what.map(|what| OwnJson::new(&what.own, at)),
        }
    }
}

/// Why the status is what it is, in a word.
fn rule<'a>(member: &MemberView, what: Option<&'a Explanation>) -> Cow<'a, str> {
    match what {
        _ if member.stored => "stored".into(),
        Some(what) => Cow::Borrowed(&*what.rule),
        None if member.local => "self".into(),
        None => "told".into(),
    }
}

/// Every item of a list of an explanation as JSON.
fn all<'a, T: 'a, J>(
    what: Option<&'a Explanation>,
    list: impl Fn(&'a Explanation) -> &'a Vec<T>,
    json: impl Fn(&'a T) -> J,
) -> Vec<J> {
    what.map_or_else(Vec::new, |what| list(what).iter().map(json).collect())
}

impl VerdictJson {
    fn new(verdict: &VerdictReport, at: SystemTime) -> Self {
        let time = before(at, verdict.ago);
        VerdictJson {
            status: verdict.status.as_str(),
            generation: verdict.generation.0,
            time: timestamp(time),
            evidence: EvidenceJson::new(&verdict.evidence, time),
        }
    }
}

impl PhiJson {
    fn new(sample: &PhiSample, at: SystemTime) -> Self {
        PhiJson {
            time: timestamp(before(at, sample.ago)),
            phi: thousandths(sample.phi),
            parts: PartsJson {
                own_misses: thousandths(sample.own_misses),
                witnesses: thousandths(sample.witnessed),
                heartbeats: thousandths(sample.heartbeats),
            },
            late_phi: thousandths(sample.late_phi),
            witnesses: sample.witnesses,
            heartbeat_phi: thousandths(sample.heartbeat_phi),
        }
    }
}

impl AccusationJson {
    fn new(accusation: &Accusation, at: SystemTime) -> Self {
        AccusationJson {
            by: text(accusation.by.as_ref()),
            status: accusation.status.as_str(),
            incarnation: accusation.incarnation.0,
            time: timestamp(before(at, accusation.ago)),
        }
    }
}

impl RefutationJson {
    fn new(refutation: &RefutationReport, at: SystemTime) -> Self {
        RefutationJson {
            how: refutation.how.as_str(),
            by: text(refutation.by.as_ref()),
            lifted: refutation.lifted.as_str(),
            incarnation: refutation.incarnation.0,
            time: timestamp(before(at, refutation.ago)),
        }
    }
}

impl HeartbeatsJson {
    fn new(heartbeats: &HeartbeatReport, at: SystemTime) -> Self {
        HeartbeatsJson {
            last: timestamp(before(at, heartbeats.ago)),
            mean_ms: millis(heartbeats.mean),
            deviation_ms: millis(heartbeats.deviation),
            phi: thousandths(heartbeats.phi),
        }
    }
}

impl OwnJson {
    fn new(own: &OwnReport, at: SystemTime) -> Self {
        let late = |&(ago, by): &(Duration, Duration)| LatenessJson {
            time: timestamp(before(at, ago)),
            ms: millis(by),
        };
        OwnJson {
            isolated: own.isolated,
            local_health: own.local_health,
            miss_rate: thousandths(own.miss_rate),
            contact: own.contact.map(|ago| timestamp(before(at, ago))),
            lateness: own.lateness.iter().map(late).collect(),
        }
    }
}
