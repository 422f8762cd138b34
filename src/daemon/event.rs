//! The JSON of an event, as the API serves it and the store keeps it.

use std::borrow::Cow;
use std::net::SocketAddr;
use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};

use crate::member::{Generation, Incarnation, Status};
use crate::node::{LogEntry, Logged};
use crate::protocol::{EventKind, Evidence, MemberEvent};

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

#[derive(Serialize, Deserialize, Clone, Debug, PartialEq)]
struct EvidenceJson {
    phi: f64,
    rule: Cow<'static, str>,
    witnesses: usize,
    silence_ms: u64,
}

impl EventJson {
    /// The event of a log entry.
    pub(super) fn new(entry: &LogEntry) -> Self {
        let Logged::Member(event) = &entry.what;
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
            evidence: event.evidence.as_ref().map(|evidence| EvidenceJson {
                phi: thousandths(evidence.phi),
                rule: evidence.rule.clone(),
                witnesses: evidence.witnesses,
                silence_ms: u64::try_from(evidence.silence.as_millis()).unwrap_or(u64::MAX),
            }),
        }
    }

    /// Its kind.
    pub(super) fn kind(&self) -> &str {
        &self.kind
    }

    /// The log entry that it came from; `None` where a field is not what this version writes.
    pub(super) fn into_entry(self) -> Option<LogEntry> {
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
            evidence: self.evidence.map(|evidence| Evidence {
                rule: evidence.rule,
                phi: evidence.phi,
                witnesses: evidence.witnesses,
                silence: Duration::from_millis(evidence.silence_ms),
                told_by: None,
                report: None,
            }),
        };
        Some(LogEntry {
            id: self.id,
            time: humantime::parse_rfc3339(&self.time).ok()?,
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
