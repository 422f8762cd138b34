//! `GET /v1/self`: this node's identity, state and counters.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::SystemTime;

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use serde::Serialize;

use super::super::event::{thousandths, timestamp};
use super::super::evidence::millis;
use super::App;
use super::agreement::AgreementJson;
use super::metadata::{entity_tag, etag_header};
use super::problem::Problem;
use super::query::Parameters;
use super::reachability::PairCountsJson;
use super::view::{CountsJson, MaintenanceJson, ServiceJson, fingerprint};
use crate::member::Tags;
use crate::node::{MemberView, NodeView, Readiness, Snapshot};
use crate::protocol::{Rival, Stats, SuspicionOutcome};

type Numbers = BTreeMap<&'static str, u64>;

#[derive(Serialize)]
struct SelfJson<'a> {
    name: &'a str,
    cluster: &'a str,
    node_id: String,
    generation: u64,
    bound: SocketAddr,
    advertised: Option<SocketAddr>,
    readiness: &'static str,
    conflict: Option<ConflictJson>,
    clock_skew_s: i32,
    isolated: bool,
    local_health: u32,
    miss_rate: f64,
    stream_answered: Option<String>,
    started: String,
    uptime_ms: u64,
    version: &'static str,
    index: u64,
    fingerprint: String,
    counts: CountsJson,
    tags: &'a Tags,
    services: Vec<ServiceJson<'a>>,
    maintenance: Option<MaintenanceJson<'a>>,
    agreement: AgreementJson<'a>,
    /// Of the whole cluster, as far as this node was told.
    unreached_pairs: PairCountsJson,
    queued_updates: usize,
    detection: DetectionJson<'a>,
    counters: CountersJson,
}

/// How well this node's detector has done since the start.
#[derive(Serialize)]
struct DetectionJson<'a> {
    /// Deaths that this node itself declared.
    deaths: u64,
    /// Their silence before.
    p50_ms: Option<u64>,
    p99_ms: Option<u64>,
    suspicions_raised: u64,
    suspicions_refuted: u64,
    /// Dead, and back in the same life.
    false_deaths: u64,
    last_mistake: Option<MistakeJson<'a>>,
}

/// A suspicion, or a death, that was wrong.
#[derive(Serialize)]
struct MistakeJson<'a> {
    member: &'a str,
    status: &'static str,
    lasted_ms: u64,
    ended: String,
}

impl<'a> DetectionJson<'a> {
    fn new(node: &'a NodeView) -> Self {
        let (stats, quality) = (&node.stats, &node.quality);
        let mistake = quality.last_mistake.as_ref();
        DetectionJson {
            deaths: quality.detections,
            p50_ms: quality.detection_p50.map(millis),
            p99_ms: quality.detection_p99.map(millis),
            suspicions_raised: stats.suspicions.get(SuspicionOutcome::Raised),
            suspicions_refuted: stats.suspicions.get(SuspicionOutcome::Refuted),
            false_deaths: stats.false_deaths,
            last_mistake: mistake.map(|mistake| MistakeJson {
                member: mistake.member.as_str(),
                status: mistake.status.as_str(),
                lasted_ms: millis(mistake.lasted),
                ended: timestamp(mistake.ended),
            }),
        }
    }
}

/// Another process runs under this node's name.
#[derive(Serialize)]
struct ConflictJson {
    /// Where this node is reached.
    address: Option<SocketAddr>,
    /// Where the other one is.
    other_address: Option<SocketAddr>,
    other_generation: u64,
    /// The same as this node's for a copied data directory.
    other_node_id: String,
    /// Whether this node gives way.
    silent: bool,
}

impl ConflictJson {
    fn new(rival: Rival, own: Option<&MemberView>) -> Self {
        ConflictJson {
            address: own.and_then(|member| member.address),
            other_address: rival.address,
            other_generation: rival.generation.0,
            other_node_id: rival.node_id.to_string(),
            silent: rival.prevails,
        }
    }
}

/// The core's counters, nested by label.
#[derive(Serialize)]
struct CountersJson {
    /// Direction, kind, transport.
    messages: BTreeMap<&'static str, BTreeMap<&'static str, Numbers>>,
    /// Direction, transport.
    bytes: BTreeMap<&'static str, Numbers>,
    rejected: Numbers,
    /// Kind, outcome.
    probes: BTreeMap<&'static str, Numbers>,
    suspicions: Numbers,
    refutations: u64,
    streams_failed: u64,
    exchanges: u64,
    exchanges_needless: u64,
    metadata_conflicts: u64,
    dropped: Numbers,
}

/// This node.
pub(super) async fn show(State(app): State<App>, query: Parameters) -> Result<Response, Problem> {
    query.allow(&[])?;
    let snapshot = app.node.snapshot();
    // The tag is that of the tags and services alone; the rest moves without it.
    let etag = entity_tag(&snapshot).map(etag_header);
    Ok((etag, Json(SelfJson::new(&snapshot))).into_response())
}

impl<'a> SelfJson<'a> {
    fn new(snapshot: &'a Snapshot) -> Self {
        let node = &snapshot.node;
        static NO_TAGS: Tags = BTreeMap::new();
        let own = snapshot.members.iter().find(|member| member.local);
        let metadata = own.and_then(|member| member.metadata.as_deref());
        let services = metadata.map_or(&[][..], |metadata| &metadata.services);
        let uptime = SystemTime::now()
            .duration_since(node.started)
            .unwrap_or_default();
        SelfJson {
            name: snapshot.local.as_str(),
            cluster: &snapshot.cluster,
            node_id: node.node_id.to_string(),
            generation: own.map_or(0, |member| member.generation.0),
            bound: node.bound,
            advertised: own.and_then(|member| member.address),
            readiness: readiness_word(node.readiness),
            conflict: node.rival.map(|rival| ConflictJson::new(rival, own)),
            clock_skew_s: node.clock_skew,
            isolated: node.isolated,
            local_health: node.local_health,
            miss_rate: thousandths(node.miss_rate),
            stream_answered: node.stream_answered.map(timestamp),
            started: timestamp(node.started),
            uptime_ms: u64::try_from(uptime.as_millis()).unwrap_or(u64::MAX),
            version: env!("CARGO_PKG_VERSION"),
            index: snapshot.index,
            fingerprint: fingerprint(snapshot),
            counts: CountsJson::new(snapshot),
            tags: metadata.map_or(&NO_TAGS, |metadata| &metadata.tags),
            services: services.iter().map(ServiceJson::new).collect(),
            maintenance: own.and_then(MaintenanceJson::new),
            agreement: AgreementJson::new(snapshot),
            unreached_pairs: PairCountsJson::new(snapshot),
            queued_updates: node.queued_updates,
            detection: DetectionJson::new(node),
            counters: CountersJson::new(&node.stats),
        }
    }
}

impl CountersJson {
    fn new(stats: &Stats) -> Self {
        CountersJson {
            messages: nested_messages(stats),
            bytes: nested(
                stats
                    .bytes
                    .iter()
                    .map(|((direction, by), n)| (direction.as_str(), by.as_str(), n)),
            ),
            rejected: stats
                .rejected
                .iter()
                .map(|(reason, n)| (reason.as_str(), n))
                .collect(),
            probes: nested(
                stats
                    .probes
                    .iter()
                    .map(|((kind, outcome), n)| (kind.as_str(), outcome.as_str(), n)),
            ),
            suspicions: stats
                .suspicions
                .iter()
                .map(|(outcome, n)| (outcome.as_str(), n))
                .collect(),
            refutations: stats.refutations,
            streams_failed: stats.streams_failed,
            exchanges: stats.exchanges,
            exchanges_needless: stats.exchanges_needless,
            metadata_conflicts: stats.metadata_conflicts,
            dropped: stats.dropped.clone(),
        }
    }
}

/// The word for a readiness, as `readiness` shows it.
pub(super) const fn readiness_word(readiness: Readiness) -> &'static str {
    match readiness {
        Readiness::Joining => "joining",
        Readiness::ClockAhead => "clock-ahead",
        Readiness::Conflict => "conflict",
        Readiness::Ready => "ready",
        Readiness::Leaving => "leaving",
        Readiness::Forgotten => "forgotten",
    }
}

fn nested_messages(stats: &Stats) -> BTreeMap<&'static str, BTreeMap<&'static str, Numbers>> {
    let mut messages = BTreeMap::<_, BTreeMap<_, Numbers>>::new();
    for ((direction, kind, transport), count) in stats.messages.iter() {
        let kinds = messages.entry(direction.as_str()).or_default();
        kinds
            .entry(kind.as_str())
            .or_default()
            .insert(transport.as_str(), count);
    }
    messages
}

fn nested(
    counts: impl Iterator<Item = (&'static str, &'static str, u64)>,
) -> BTreeMap<&'static str, Numbers> {
    let mut outer = BTreeMap::<_, Numbers>::new();
    for (first, second, count) in counts {
        outer.entry(first).or_default().insert(second, count);
    }
    outer
}
