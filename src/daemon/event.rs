//! The JSON of an event, as the API serves it and the store keeps it.

use std::borrow::Cow;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use base64::Engine;
use base64::prelude::BASE64_STANDARD as BASE64;
use serde::{Deserialize, Serialize};

use super::evidence::EvidenceJson;
use crate::member::{Delivery, EventKey, EventName, Generation, Incarnation, Status, UserEvent};
use crate::node::{KeyConflict, LogEntry, Logged};
use crate::protocol::{EventKind, MemberEvent};

/// One event. Fields that do not apply are absent.
#[derive(Serialize, Deserialize, Clone, Debug, PartialEq)]
pub(super) struct EventJson {
    id: u64,
    time: String,
    kind: Cow<'static, str>,
    #[serde(flatten)]
    what: WhatJson,
}

/// The rest of it.
#[derive(Serialize, Deserialize, Clone, Debug, PartialEq)]
#[serde(untagged)]
enum WhatJson {
    Member(Box<MemberJson>),
    User(Box<UserJson>),
}

/// A change of the member table.
#[derive(Serialize, Deserialize, Clone, Debug, PartialEq)]
struct MemberJson {
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

/// An event of a client.
#[derive(Serialize, Deserialize, Clone, Debug, PartialEq)]
struct UserJson {
    uid: String,
    name: String,
    /// What it says, where that is text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    payload: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    payload_base64: Option<String>,
    origin: String,
    origin_generation: u64,
    sequence: u64,
    delivery: Cow<'static, str>,
    /// When its origin took it.
    sent: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    overruled: Option<OverruledJson>,
}

/// The event of this log that another one under its key has overruled.
#[derive(Serialize, Deserialize, Clone, Debug, PartialEq)]
struct OverruledJson {
    id: u64,
    origin: String,
    origin_generation: u64,
    sequence: u64,
}

/// What an event of a client is called where its kind is named.
pub(super) const USER_KIND: &str = "user";
/// And one whose key was used for two.
pub(super) const CONFLICT_KIND: &str = "conflict";

/// The kind of an entry.
pub(super) fn kind(what: &Logged) -> &'static str {
    match what {
        Logged::Member(event) => event.kind.as_str(),
        Logged::User(_) => USER_KIND,
        Logged::Conflict(_) => CONFLICT_KIND,
    }
}

impl EventJson {
    /// The event of a log entry.
    pub(super) fn new(entry: &LogEntry) -> Self {
        EventJson {
            id: entry.id,
            time: timestamp(entry.time),
            kind: kind(&entry.what).into(),
            what: match &entry.what {
                Logged::Member(event) => {
                    WhatJson::Member(MemberJson::new(event, entry.time).into())
                }
                Logged::User(event) => WhatJson::User(UserJson::new(event).into()),
                Logged::Conflict(conflict) => WhatJson::User(UserJson::overruling(conflict).into()),
            },
        }
    }

    /// Its kind.
    pub(super) fn kind(&self) -> &str {
        &self.kind
    }

    /// The log entry that it came from; `None` where a field is not what this version writes.
    pub(super) fn into_entry(self) -> Option<LogEntry> {
        let time = humantime::parse_rfc3339(&self.time).ok()?;
        let what = match self.what {
            WhatJson::Member(member) => Logged::Member(member.into_event(&self.kind, time)?),
            WhatJson::User(user) => user.into_logged()?,
        };
        Some(LogEntry {
            id: self.id,
            time,
            what,
        })
    }
}

impl MemberJson {
    fn new(event: &MemberEvent, time: SystemTime) -> Self {
        let evidence = event.evidence.as_ref();
        MemberJson {
            member: event.member.as_str().to_owned(),
            address: event.address,
            other_address: event.rival,
            generation: event.generation.0,
            incarnation: event.incarnation.0,
            from: event.from.map(|status| status.as_str().into()),
            to: event.to.as_str().into(),
            evidence: evidence.map(|evidence| EvidenceJson::new(evidence, time)),
        }
    }

    fn into_event(self, kind: &str, time: SystemTime) -> Option<MemberEvent> {
        let status = |word: &str| Status::ALL.into_iter().find(|held| held.as_str() == word);
        let mut kinds = EventKind::ALL.iter();
        Some(MemberEvent {
            kind: *kinds.find(|known| known.as_str() == kind)?,
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
        })
    }
}

impl UserJson {
    fn new(event: &UserEvent) -> Self {
        let text = std::str::from_utf8(&event.payload).ok();
        UserJson {
            uid: event.uid().to_string(),
            name: event.name.to_string(),
            payload_base64: text.is_none().then(|| BASE64.encode(&event.payload)),
            payload: text.map(str::to_owned),
            origin: event.origin.to_string(),
            origin_generation: event.generation.0,
            sequence: event.sequence,
            delivery: event.delivery.as_str().into(),
            sent: timestamp(sent(event)),
            overruled: None,
        }
    }

    fn overruling(conflict: &KeyConflict) -> Self {
        UserJson {
            overruled: Some(OverruledJson {
                id: conflict.overruled,
                origin: conflict.origin.to_string(),
                origin_generation: conflict.generation.0,
                sequence: conflict.sequence,
            }),
            ..UserJson::new(&conflict.event)
        }
    }

    fn into_logged(self) -> Option<Logged> {
        let delivery = delivery(&self.delivery)?;
        let sent = humantime::parse_rfc3339(&self.sent).ok()?;
        let sent = sent.duration_since(SystemTime::UNIX_EPOCH).ok()?;
        let mut event = UserEvent {
            origin: self.origin.parse().ok()?,
            generation: Generation(self.origin_generation),
            delivery,
            sequence: self.sequence,
            key: None,
            unix_ms: u64::try_from(sent.as_millis()).ok()?,
            name: EventName::new(&self.name).ok()?,
            payload: match (self.payload, self.payload_base64) {
                (Some(text), None) => text.into(),
                (None, Some(text)) => BASE64.decode(text).ok()?,
                _ => return None,
            },
        };
        if event.uid().to_string() != self.uid {
            event.key = Some(key(&self.uid)?);
        }
        let event = Arc::new(event);
        Some(match self.overruled {
            None => Logged::User(event),
            Some(overruled) => Logged::Conflict(KeyConflict {
                event,
                overruled: overruled.id,
                origin: overruled.origin.parse().ok()?,
                generation: Generation(overruled.origin_generation),
                sequence: overruled.sequence,
            }),
        })
    }
}

/// What an origin's clock showed; a wrong one may say anything.
fn sent(event: &UserEvent) -> SystemTime {
    let since = Duration::from_millis(event.unix_ms);
    let sent = SystemTime::UNIX_EPOCH.checked_add(since);
    sent.unwrap_or(SystemTime::UNIX_EPOCH)
}

/// The delivery that `word` names.
pub(super) fn delivery(word: &str) -> Option<Delivery> {
    let mut all = Delivery::ALL.into_iter();
    all.find(|delivery| delivery.as_str() == word)
}

/// The key whose uid is written so.
fn key(uid: &str) -> Option<EventKey> {
    let mut bytes = [0; 16];
    if uid.len() != 2 * bytes.len() || !uid.is_ascii() {
        return None;
    }
    for (byte, digits) in bytes.iter_mut().zip(uid.as_bytes().chunks(2)) {
        let digits = std::str::from_utf8(digits).ok()?;
        *byte = u8::from_str_radix(digits, 16).ok()?;
    }
    Some(EventKey(bytes))
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
        let Logged::Member(event) = &mut entry.what else {
            panic!("{entry:?}");
        };
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
        let Logged::Member(event) = &mut entry.what else {
            panic!("{entry:?}");
        };
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

    /// An event of a client, as number `id` of a log.
    pub(in crate::daemon) fn deploy(id: u64, key: Option<EventKey>, payload: &[u8]) -> LogEntry {
        let event = UserEvent {
            origin: "n1".parse().expect("valid"),
            generation: Generation(1_764_516_000),
            delivery: Delivery::AtLeastOnce,
            sequence: 4,
            key,
            unix_ms: 1_764_516_004_500,
            name: EventName::new("deploy").expect("valid"),
            payload: payload.into(),
        };
        LogEntry {
            what: Logged::User(event.into()),
            ..death(id)
        }
    }

    #[test]
    fn an_event_of_a_client_is_the_promised_json_and_comes_back() {
        let text = deploy(18, None, b"v1");
        let json = serde_json::to_string(&EventJson::new(&text)).expect("plain");
        let expected = concat!(
            r#"{"id":18,"time":"2025-11-30T15:20:04.512Z","kind":"user","#,
            r#""uid":"n1/1764516000/4","name":"deploy","payload":"v1","origin":"n1","#,
            r#""origin_generation":1764516000,"sequence":4,"delivery":"at-least-once","#,
            r#""sent":"2025-11-30T15:20:04.500Z"}"#
        );
        assert_eq!(json, expected);
        let bytes = deploy(19, Some(EventKey([0xfe; 16])), &[0, 159, 146, 150]);
        let json = serde_json::to_value(EventJson::new(&bytes)).expect("plain");
        assert_eq!(json["payload_base64"], "AJ+Slg==");
        assert_eq!(json["uid"], "fe".repeat(16));
        let Logged::User(event) = &bytes.what else {
            panic!("{bytes:?}");
        };
        let conflict = LogEntry {
            what: Logged::Conflict(KeyConflict {
                event: Arc::clone(event),
                overruled: 7,
                origin: "n2".parse().expect("valid"),
                generation: Generation(3),
                sequence: 1,
            }),
            ..bytes.clone()
        };
        for entry in [text, bytes, conflict] {
            let json = serde_json::to_string(&EventJson::new(&entry)).expect("plain");
            let back: EventJson = serde_json::from_str(&json).expect("its own");
            assert_eq!(back.into_entry(), Some(entry), "{json}");
        }
    }
}
