//! The JSON of an event, as the API serves it and the store keeps it.

use std::borrow::Cow;
use std::net::SocketAddr;
use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};

use super::evidence::EvidenceJson;
use crate::member::{Generation, Incarnation, Status};
use crate::node::{LogEntry, Logged};
use crate::protocol::{EventKind, MemberEvent};

/// One event. Fields that do not apply are absent.
#[derive(Serialize, Deserialize, Clone, Debug, PartialEq)]
pub(super) struct EventJson {
    id: u64,
    time: String,
    kind: Cow<'static, str>,
    member: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    address: Option<SocketAddr>,
    /// For a conflict: where the other process of that name is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    other_address: Option<SocketAddr>,
    generation: u64,
    incarnation: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    from: Option<Cow<'static, str>>,
    to: Cow<'static, str>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    evidence: Option<EvidenceJson>,
}

impl EventJson {
    /// The event of a log entry.
    pub(super) fn new(entry: &LogEntry) -> Self {
        let Logged::Member(event) = &entry.what;
        let evidence = event.evidence.as_ref();
        EventJson {
            id: entry.id,
            time: timestamp(entry.time),
            kind: event.kind.as_str().into(),
            member: event.member.as_str().to_owned(),
            address: event.address,
            other_address: event.rival,
            generation: event.generation.0,
            incarnation: event.incarnation.0,
            from: event.from.map(|status| status.as_str().into()),
            to: event.to.as_str().into(),
            evidence: evidence.map(|evidence| EvidenceJson::new(evidence, entry.time)),
        }
    }

    /// Its kind.
    pub(super) fn kind(&self) -> &str {
        &self.kind
    }

    /// The log entry that it came from; `None` where a field is not what this version writes.
    pub(super) fn into_entry(self) -> Option<LogEntry> {
        let time = humantime::parse_rfc3339(&self.time).ok()?;
        let status = |word: &str| Status::ALL.into_iter().find(|held| held.as_str() == word);
        let mut kinds = EventKind::ALL.iter();
        let event = MemberEvent {
            kind: *kinds.find(|kind| kind.as_str() == self.kind)?,
            member: self.member.parse().ok()?,
            address: self.address,
            rival: self.other_address,
            generation: Generation(self.generation),
            incarnation: Incarnation(self.incarnation),
            from: match self.from {
                Some(word) => Some(status(&word)?),
                None => None,
            },
            to: status(&self.to)?,
            evidence: self.evidence.map(|evidence| evidence.into_evidence(time)),
        };
        Some(LogEntry {
            id: self.id,
            time,
            what: Logged::Member(event),
        })
    }
}

/// RFC 3339 in UTC with milliseconds.
pub(super) fn timestamp(time: SystemTime) -> String {
    // The formatter knows the years 1970 to 9999 only; a clock outside them is shown at the edge.
    let latest = SystemTime::UNIX_EPOCH + Duration::from_secs(253_402_300_799);
    let shown = time.clamp(SystemTime::UNIX_EPOCH, latest);
    humantime::format_rfc3339_millis(shown).to_string()
}

/// Rounded to three decimals: samples carry no more.
pub(super) fn thousandths(value: f64) -> f64 {
    (value * 1000.0).round() / 1000.0
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::member::NodeName;
    use crate::protocol::{
        CasePhase, CaseReport, Evidence, ProbeOutcome, ProbeReport, ProbeWay, Thresholds,
        WitnessReport,
    };

    /// A death, as number `id` of a log.
    pub(in crate::daemon) fn death(id: u64) -> LogEntry {
        let event = MemberEvent {
            kind: EventKind::MemberDead,
            member: "n3".parse().expect("valid"),
            address: "127.0.0.1:7493".parse().ok(),
            rival: None,
            generation: Generation(1_764_516_000),
            incarnation: Incarnation(2),
            from: Some(Status::Suspect),
            to: Status::Dead,
            evidence: Some(Evidence {
                phi: 9.8,
                witnesses: 2,
                ..Evidence::new("own", Duration::from_millis(5_601))
            }),
        };
        LogEntry {
            id,
            time: SystemTime::UNIX_EPOCH + Duration::from_millis(1_764_516_004_512),
            what: Logged::Member(event),
        }
    }

    /// The same with all that it rests on.
    fn explained_death(id: u64) -> LogEntry {
        let ms = Duration::from_millis;
        let name = |text: &str| text.parse::<NodeName>().ok();
        let report = CaseReport {
            phase: CasePhase::Final,
            began: ms(5_600),
            suspected: Some(ms(5_520)),
            phi: 9.8,
            own_misses: 3.4,
            witnessed: 6.4,
            heartbeats: 0.0,
            late_phi: 3.1,
            witness_count: 2,
            witnesses: vec![WitnessReport {
                name: name("n2"),
                decades: 4.0,
                answers: 9,
                miss_rate: 0.02,
                ago: ms(12),
            }],
            reachable: 3,
            cluster: 5,
            lateness: ms(40),
            contact: ms(3),
            thresholds: Thresholds {
                phi_suspect: 4.0,
                phi_late: 3.0,
                phi_dead: 9.4,
                pause_tolerance: ms(5_000),
            },
            probes: vec![
                ProbeReport {
                    way: ProbeWay::AskedFor,
                    observer: name("n1"),
                    asked_by: name("n4"),
                    ago: ms(500),
                    outcome: ProbeOutcome::Late,
                    round_trip: Some(ms(31)),
                },
                ProbeReport {
                    way: ProbeWay::Relayed,
                    observer: None,
                    asked_by: None,
                    ago: ms(30),
                    outcome: ProbeOutcome::Nacked,
                    round_trip: None,
                },
            ],
        };
        let mut entry = death(id);
        let Logged::Member(event) = &mut entry.what;
        if let Some(evidence) = &mut event.evidence {
            evidence.report = Some(report.into());
        }
        entry
    }

    #[test]
    fn the_case_behind_a_death_comes_back_from_the_store() {
        let json = serde_json::to_value(EventJson::new(&explained_death(3))).expect("plain");
        let evidence = &json["evidence"];
        assert_eq!(evidence["witnesses"], 2);
        assert_eq!(evidence["began"], "2025-11-30T15:19:58.912Z");
        assert_eq!(evidence["witnessed_by"][0]["name"], "n2");
        assert_eq!(evidence["probes"][0]["asked_by"], "n4");
        assert_eq!(evidence["probes"][1]["outcome"], "nacked");
        let back: EventJson = serde_json::from_value(json).expect("its own");
        assert_eq!(back.into_entry(), Some(explained_death(3)));
    }

    /// A full report, with the longest names, stays small: the log holds many.
    #[test]
    fn evidence_is_bounded_in_bytes() {
        let mut entry = explained_death(u64::MAX);
        let long = "n".repeat(63).parse::<NodeName>().ok();
        let Logged::Member(event) = &mut entry.what;
        let evidence = event.evidence.as_mut().expect("it has");
        let mut report = (**evidence.report.as_ref().expect("it has")).clone();
        report.witnesses = vec![report.witnesses[0].clone(); 12];
        report
            .witnesses
            .iter_mut()
            .for_each(|it| it.name = long.clone());
        report.probes = vec![report.probes[0].clone(); 16];
        for probe in &mut report.probes {
            (probe.observer, probe.asked_by) = (long.clone(), long.clone());
        }
        evidence.report = Some(report.into());
        let json = serde_json::to_string(&EventJson::new(&entry)).expect("plain");
        assert!(json.len() < 8 * 1024, "{}", json.len());
    }

    #[test]
    fn an_event_is_the_promised_json_and_comes_back() {
        let json = serde_json::to_string(&EventJson::new(&death(17))).expect("plain");
        let expected = concat!(
            r#"{"id":17,"time":"2025-11-30T15:20:04.512Z","kind":"member-dead","member":"n3","#,
            r#""address":"127.0.0.1:7493","generation":1764516000,"incarnation":2,"#,
            r#""from":"suspect","to":"dead","#,
            r#""evidence":{"phi":9.8,"rule":"own","witnesses":2,"silence_ms":5601}}"#
        );
        assert_eq!(json, expected);
        let back: EventJson = serde_json::from_str(&json).expect("its own");
        assert_eq!(back.into_entry(), Some(death(17)));
        let foreign = json.replace("member-dead", "something-else");
        let foreign: EventJson = serde_json::from_str(&foreign).expect("JSON");
        assert_eq!(foreign.into_entry(), None);
    }
}
