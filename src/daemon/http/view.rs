//! The JSON of members, as the API promises it.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use serde::Serialize;

use super::super::event::{thousandths, timestamp};
use super::filter::Filter;
use crate::member::{Service, Status, Tags};
use crate::node::{MemberView, Snapshot};

/// The member table, or the part of it that a filter left.
#[derive(Serialize)]
pub(super) struct TableJson<'a> {
    cluster: &'a str,
    local: &'a str,
    index: u64,
    fingerprint: String,
    counts: CountsJson,
    members: Vec<MemberJson<'a>>,
}

/// How many members of the whole table have each status.
#[derive(Serialize)]
pub(super) struct CountsJson {
    alive: usize,
    suspect: usize,
    dead: usize,
    left: usize,
}

/// One member.
#[derive(Serialize)]
pub(super) struct MemberJson<'a> {
    name: &'a str,
    address: Option<SocketAddr>,
    status: &'static str,
    local: bool,
    generation: u64,
    version: u64,
    incarnation: u32,
    phi: f64,
    rtt_ms: Option<f64>,
    since: String,
    tags: &'a Tags,
    services: Vec<ServiceJson<'a>>,
    maintenance: Option<MaintenanceJson<'a>>,
    wire_version: Option<u8>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    isolated_verdict: bool,
    /// `stored` for a member that only an earlier run has seen.
    #[serde(skip_serializing_if = "Option::is_none")]
    rule: Option<&'static str>,
}

/// A planned absence that is not over.
#[derive(Serialize)]
pub(super) struct MaintenanceJson<'a> {
    until: String,
    reason: &'a str,
}

/// A service.
#[derive(Serialize)]
pub(super) struct ServiceJson<'a> {
    name: &'a str,
    port: u16,
    tags: &'a Tags,
}

/// How one join address answered.
#[derive(Debug, Serialize)]
pub(super) struct JoinJson {
    /// The address as given.
    pub(super) address: String,
    /// `joined`, `itself`, `refused`, `unreachable` or `unresolvable`.
    pub(super) outcome: &'static str,
    /// Why, and what to do, unless it joined.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) detail: Option<String>,
    /// Members in the table it told.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) members: Option<usize>,
}

impl<'a> TableJson<'a> {
    /// The members of `snapshot` that `filter` leaves, under the head of the whole table.
    pub(super) fn new(snapshot: &'a Snapshot, filter: &Filter) -> Self {
        let kept = snapshot
            .members
            .iter()
            .filter(|member| filter.matches(member));
        TableJson {
            cluster: &snapshot.cluster,
            local: snapshot.local.as_str(),
            index: snapshot.index,
            fingerprint: fingerprint(snapshot),
            counts: CountsJson::new(snapshot),
            members: kept.map(MemberJson::new).collect(),
        }
    }
}

impl CountsJson {
    /// Counts the members of `snapshot`.
    pub(super) fn new(snapshot: &Snapshot) -> Self {
        CountsJson {
            alive: snapshot.count(Status::Alive),
            suspect: snapshot.count(Status::Suspect),
            dead: snapshot.count(Status::Dead),
            left: snapshot.count(Status::Left),
        }
    }
}

impl<'a> MemberJson<'a> {
    /// One row.
    pub(super) fn new(member: &'a MemberView) -> Self {
        static NO_TAGS: Tags = BTreeMap::new();
        let metadata = member.metadata.as_deref();
        MemberJson {
            name: member.name.as_str(),
            address: member.address,
            status: member.status.as_str(),
            local: member.local,
            generation: member.generation.0,
            version: member.version.0,
            incarnation: member.incarnation.0,
            phi: thousandths(member.phi),
            rtt_ms: member
                .rtt
                .map(|rtt| thousandths(rtt.as_secs_f64() * 1000.0)),
            since: timestamp(member.since),
            tags: metadata.map_or(&NO_TAGS, |metadata| &metadata.tags),
            services: metadata
                .map(|metadata| metadata.services.iter().map(ServiceJson::new).collect())
                .unwrap_or_default(),
            maintenance: MaintenanceJson::new(member),
            wire_version: metadata.map(|metadata| metadata.wire.max),
            isolated_verdict: member.isolated_verdict,
            rule: member.stored.then_some("stored"),
        }
    }
}

impl<'a> MaintenanceJson<'a> {
    /// What `member` has announced; `None` without one or after its end.
    pub(super) fn new(member: &'a MemberView) -> Option<Self> {
        let lease = member.metadata.as_deref()?.maintenance.as_ref()?;
        Some(MaintenanceJson {
            until: timestamp(member.maintenance_until?),
            reason: &lease.reason,
        })
    }
}

impl<'a> ServiceJson<'a> {
    /// One service.
    pub(super) fn new(service: &'a Service) -> Self {
        ServiceJson {
            name: service.name.as_str(),
            port: service.port,
            tags: &service.tags,
        }
    }
}

/// The table's fingerprint as 16 hex digits.
pub(super) fn fingerprint(snapshot: &Snapshot) -> String {
    format!("{:016x}", snapshot.fingerprint)
}
