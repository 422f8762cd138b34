//! The JSON of evidence, in events, in the store and in explanations.

use std::borrow::Cow;
use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};

use super::event::{thousandths, timestamp};
use crate::member::NodeName;
use crate::protocol::{
    CasePhase, CaseReport, Evidence, ProbeOutcome, ProbeReport, ProbeWay, Thresholds, WitnessReport,
};

/// What a verdict rests on. Fields that do not apply are absent.
#[derive(Serialize, Deserialize, Clone, Debug, PartialEq)]
pub(super) struct EvidenceJson {
    phi: f64,
    rule: Cow<'static, str>,
    /// How many.
    witnesses: usize,
    silence_ms: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    told_by: Option<String>,
    #[serde(default, flatten, skip_serializing_if = "Option::is_none")]
    report: Option<ReportJson>,
}

/// One case, with all it rests on.
#[derive(Serialize, Deserialize, Clone, Debug, PartialEq)]
pub(super) struct ReportJson {
    phase: Cow<'static, str>,
    began: String,
    suspected: Option<String>,
    /// Of phi; their sum.
    parts: PartsJson,
    late_phi: f64,
    /// The weightiest.
    witnessed_by: Vec<WitnessJson>,
    reachable: usize,
    cluster: usize,
    own_lateness_ms: u64,
    contact: String,
    thresholds: ThresholdsJson,
    probes: Vec<ProbeJson>,
}

/// What phi is made of, in decades.
#[derive(Serialize, Deserialize, Clone, Copy, Debug, PartialEq)]
pub(super) struct PartsJson {
    pub(super) own_misses: f64,
    pub(super) witnesses: f64,
    pub(super) heartbeats: f64,
}

#[derive(Serialize, Deserialize, Clone, Debug, PartialEq)]
struct WitnessJson {
    name: Option<String>,
    decades: f64,
    answers: u32,
    miss_rate: f64,
    time: String,
}

/// What a verdict needs.
#[derive(Serialize, Deserialize, Clone, Copy, Debug, PartialEq)]
pub(super) struct ThresholdsJson {
    phi_suspect: f64,
    phi_late: f64,
    phi_dead: f64,
    pause_tolerance_ms: u64,
}

/// One question whether a member lives.
#[derive(Serialize, Deserialize, Clone, Debug, PartialEq)]
pub(super) struct ProbeJson {
    kind: Cow<'static, str>,
    observer: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    asked_by: Option<String>,
    sent: String,
    outcome: Cow<'static, str>,
    rtt_ms: Option<f64>,
}

impl EvidenceJson {
    /// `evidence` of a verdict reached at `time`.
    pub(super) fn new(evidence: &Evidence, time: SystemTime) -> Self {
        let report = evidence.report.as_deref();
        EvidenceJson {
            phi: thousandths(evidence.phi),
            rule: evidence.rule.clone(),
            witnesses: evidence.witnesses,
            silence_ms: millis(evidence.silence),
            told_by: text(evidence.told_by.as_ref()),
            report: report.map(|report| ReportJson::new(report, time)),
        }
    }

    /// What it was made from, to the millisecond.
    pub(super) fn into_evidence(self, time: SystemTime) -> Evidence {
        let (phi, witnesses) = (self.phi, self.witnesses);
        let report = self.report;
        Evidence {
            rule: self.rule,
            phi,
            witnesses,
            silence: Duration::from_millis(self.silence_ms),
            told_by: name(self.told_by),
            report: report.and_then(|it| Some(it.into_report(time, phi, witnesses)?.into())),
        }
    }
}

impl ReportJson {
    /// `report` as of `time`.
    pub(super) fn new(report: &CaseReport, time: SystemTime) -> Self {
        let at = |ago: Duration| timestamp(before(time, ago));
        ReportJson {
            phase: report.phase.as_str().into(),
            began: at(report.began),
            suspected: report.suspected.map(at),
            parts: PartsJson::new(report),
            late_phi: thousandths(report.late_phi),
            witnessed_by: report
                .witnesses
                .iter()
                .map(|it| WitnessJson::new(it, time))
                .collect(),
            reachable: report.reachable,
            cluster: report.cluster,
            own_lateness_ms: millis(report.lateness),
            contact: at(report.contact),
            thresholds: ThresholdsJson::new(&report.thresholds),
            probes: probes(&report.probes, time),
        }
    }

    fn into_report(self, time: SystemTime, phi: f64, witnesses: usize) -> Option<CaseReport> {
        let mut phases = CasePhase::ALL.iter();
        let witnessed = self.witnessed_by.into_iter();
        let probes = self.probes.into_iter();
        Some(CaseReport {
            phase: *phases.find(|phase| phase.as_str() == self.phase)?,
            began: ago(time, &self.began)?,
            suspected: match self.suspected {
                Some(at) => Some(ago(time, &at)?),
                None => None,
            },
            phi,
            own_misses: self.parts.own_misses,
            witnessed: self.parts.witnesses,
            heartbeats: self.parts.heartbeats,
            late_phi: self.late_phi,
            witness_count: witnesses,
            witnesses: witnessed
                .map(|it| it.into_report(time))
                .collect::<Option<_>>()?,
            reachable: self.reachable,
            cluster: self.cluster,
            lateness: Duration::from_millis(self.own_lateness_ms),
            contact: ago(time, &self.contact)?,
            thresholds: self.thresholds.into_thresholds(),
            probes: probes
                .map(|it| it.into_report(time))
                .collect::<Option<_>>()?,
        })
    }
}

impl PartsJson {
    /// Those of a case.
    pub(super) fn new(report: &CaseReport) -> Self {
        PartsJson {
            own_misses: thousandths(report.own_misses),
            witnesses: thousandths(report.witnessed),
            heartbeats: thousandths(report.heartbeats),
        }
    }
}

impl WitnessJson {
    fn new(report: &WitnessReport, time: SystemTime) -> Self {
        WitnessJson {
            name: text(report.name.as_ref()),
            decades: thousandths(report.decades),
            answers: report.answers,
            miss_rate: thousandths(report.miss_rate),
            time: timestamp(before(time, report.ago)),
        }
    }

    fn into_report(self, time: SystemTime) -> Option<WitnessReport> {
        Some(WitnessReport {
            name: name(self.name),
            decades: self.decades,
            answers: self.answers,
            miss_rate: self.miss_rate,
            ago: ago(time, &self.time)?,
        })
    }
}

impl ThresholdsJson {
    /// What a verdict needs.
    pub(super) fn new(thresholds: &Thresholds) -> Self {
        ThresholdsJson {
            phi_suspect: thousandths(thresholds.phi_suspect),
            phi_late: thousandths(thresholds.phi_late),
            phi_dead: thousandths(thresholds.phi_dead),
            pause_tolerance_ms: millis(thresholds.pause_tolerance),
        }
    }

    fn into_thresholds(self) -> Thresholds {
        Thresholds {
            phi_suspect: self.phi_suspect,
            phi_late: self.phi_late,
            phi_dead: self.phi_dead,
            pause_tolerance: Duration::from_millis(self.pause_tolerance_ms),
        }
    }
}

impl ProbeJson {
    fn new(report: &ProbeReport, time: SystemTime) -> Self {
        let trip = report.round_trip;
        ProbeJson {
            kind: report.way.as_str().into(),
            observer: text(report.observer.as_ref()),
            asked_by: text(report.asked_by.as_ref()),
            sent: timestamp(before(time, report.ago)),
            outcome: report.outcome.as_str().into(),
            rtt_ms: trip.map(|trip| thousandths(trip.as_secs_f64() * 1000.0)),
        }
    }

    fn into_report(self, time: SystemTime) -> Option<ProbeReport> {
        let mut ways = ProbeWay::ALL.iter();
        let mut outcomes = ProbeOutcome::ALL.iter();
        let trip = |ms: f64| Duration::try_from_secs_f64(ms / 1000.0).ok();
        Some(ProbeReport {
            way: *ways.find(|way| way.as_str() == self.kind)?,
            observer: name(self.observer),
            asked_by: name(self.asked_by),
            ago: ago(time, &self.sent)?,
            outcome: *outcomes.find(|outcome| outcome.as_str() == self.outcome)?,
            round_trip: self.rtt_ms.and_then(trip),
        })
    }
}

/// Questions, as of `time`.
pub(super) fn probes(reports: &[ProbeReport], time: SystemTime) -> Vec<ProbeJson> {
    let reports = reports.iter();
    reports.map(|it| ProbeJson::new(it, time)).collect()
}

/// `ago` before `time`, at the earliest the epoch.
pub(super) fn before(time: SystemTime, ago: Duration) -> SystemTime {
    time.checked_sub(ago).unwrap_or(SystemTime::UNIX_EPOCH)
}

/// Whole milliseconds.
pub(super) fn millis(length: Duration) -> u64 {
    u64::try_from(length.as_millis()).unwrap_or(u64::MAX)
}

/// A member's name as text.
pub(super) fn text(name: Option<&NodeName>) -> Option<String> {
    name.map(|name| name.as_str().to_owned())
}

fn name(text: Option<String>) -> Option<NodeName> {
    text?.parse().ok()
}

/// How long before `time` the moment `at` lies.
fn ago(time: SystemTime, at: &str) -> Option<Duration> {
    let at = humantime::parse_rfc3339(at).ok()?;
    Some(time.duration_since(at).unwrap_or_default())
}
