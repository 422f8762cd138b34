//! Metrics: names, help, histograms as they happen, everything else at the scrape.
//!
//! No label holds a member's name, an address, or anything a peer or client chooses, so the number
//! of series does not depend on the cluster.

use std::time::{Duration, SystemTime};

use metrics::{Counter, Histogram, Unit, counter, gauge, histogram, with_local_recorder};
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusRecorder};

use super::process;
use crate::daemon::event::USER_KIND;
use crate::member::Status;
use crate::node::Snapshot;
use crate::protocol::{
    Event, EventKind, ProbeKind, ProbeOutcome, Rejection, Stats, SuspicionOutcome, Transport,
};

const MEMBERS: &str = "rumord_members";
const PROBES: &str = "rumord_probes_total";
const PROBE_RTT: &str = "rumord_probe_rtt_seconds";
const SUSPICIONS: &str = "rumord_suspicions_total";
const REFUTATIONS: &str = "rumord_refutations_total";
const EVICTIONS: &str = "rumord_evictions_total";
const DETECTION: &str = "rumord_detection_seconds";
const MISTAKE: &str = "rumord_mistake_seconds";
const FALSE_DEATHS: &str = "rumord_false_deaths_total";
const MESSAGES: &str = "rumord_messages_total";
const BYTES: &str = "rumord_bytes_total";
const REJECTED: &str = "rumord_rejected_total";
const STREAMS_FAILED: &str = "rumord_streams_failed_total";
const STREAM_ANSWERED: &str = "rumord_stream_answered_timestamp_seconds";
const LATENESS: &str = "rumord_timer_lateness_seconds";
const LOCAL_HEALTH: &str = "rumord_local_health";
const CLOCK_SKEW: &str = "rumord_clock_skew_seconds";
const AGREEMENT_RATIO: &str = "rumord_agreement_ratio";
const UNREACHED: &str = "rumord_unreachable_pairs";
const QUEUE_LENGTH: &str = "rumord_queue_length";
const EXCHANGES: &str = "rumord_exchanges_total";
const NEEDLESS: &str = "rumord_exchanges_needless_total";
const FAILED: &str = "rumord_exchanges_failed_total";
const EXCHANGED: &str = "rumord_exchanged_records_total";
const BUSY: &str = "rumord_busy_total";
const EVENTS: &str = "rumord_events_total";
const IDEMPOTENCY: &str = "rumord_idempotency_total";
const IDEMPOTENCY_KEYS: &str = "rumord_idempotency_keys";
const STORE_WORK: &str = "rumord_store_work_seconds";
const STORE_COMMIT: &str = "rumord_store_commit_seconds";
const STORE_FAILING: &str = "rumord_store_failing";
const STORE_FAILURES: &str = "rumord_store_failures_total";
const BUILD_INFO: &str = "rumord_build_info";

/// From a local round trip to one between continents.
const RTT_BUCKETS: [f64; 12] = [
    0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0,
];
/// From the shortest pause tolerance to far beyond the longest default.
const DETECTION_BUCKETS: [f64; 12] = [
    1.0, 2.0, 2.5, 3.0, 4.0, 5.0, 5.5, 6.0, 7.0, 10.0, 15.0, 30.0,
];
/// From a suspicion that the next answer lifts to a death that a healed partition lifts.
const MISTAKE_BUCKETS: [f64; 12] = [
    0.01, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 120.0, 600.0,
];
/// From scheduling noise to a process that stood still.
const LATENESS_BUCKETS: [f64; 11] = [
    0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.5, 1.0, 5.0,
];

/// From a commit in memory to a disk that hangs.
const COMMIT_BUCKETS: [f64; 12] = [
    0.000_05, 0.000_1, 0.000_25, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.1, 0.5, 2.5,
];
/// How requests with an idempotency key end.
const KEY_OUTCOMES: [&str; 7] = [
    "executed",
    "replayed",
    "other-request",
    "running",
    "malformed",
    "abandoned",
    "full",
];

/// The metrics of one agent. Not the process-wide recorder, so that a program can hold several.
pub struct Metrics {
    recorder: PrometheusRecorder,
    probe_rtt: Histogram,
    detection: Histogram,
    lateness: Histogram,
    mistake_suspect: Histogram,
    mistake_dead: Histogram,
    store_work: Histogram,
    store_commit: Histogram,
    /// One for each kind of event.
    events: Vec<(&'static str, Counter)>,
    /// One for each of `KEY_OUTCOMES`.
    keys: Vec<(&'static str, Counter)>,
}

impl Metrics {
    /// Metrics with nothing counted yet.
    #[must_use]
    pub fn new() -> Self {
        let recorder = recorder();
        let handles = with_local_recorder(&recorder, || {
            describe();
            describe_mistakes();
            describe_store();
            gauge!(BUILD_INFO, "version" => env!("CARGO_PKG_VERSION")).set(1.0);
            let kinds = EventKind::ALL.iter().map(|kind| kind.as_str());
            let kinds = kinds.chain([USER_KIND]);
            let events = kinds.map(|kind| (kind, counter!(EVENTS, "kind" => kind)));
            let outcome = |outcome| (outcome, counter!(IDEMPOTENCY, "outcome" => outcome));
            (
                [histogram!(STORE_WORK), histogram!(STORE_COMMIT)],
                KEY_OUTCOMES.map(outcome).to_vec(),
                histogram!(PROBE_RTT),
                histogram!(DETECTION),
                histogram!(LATENESS),
                [Status::Suspect, Status::Dead]
                    .map(|status| histogram!(MISTAKE, "status" => status.as_str())),
                events.collect::<Vec<_>>(),
            )
        });
        let (store, keys, probe_rtt, detection, lateness, mistakes, events) = handles;
        let [mistake_suspect, mistake_dead] = mistakes;
        let [store_work, store_commit] = store;
        // A counter that is never touched would not be shown as 0.
        for (_, counter) in events.iter().chain(&keys) {
            counter.absolute(0);
        }
        Metrics {
            recorder,
            probe_rtt,
            detection,
            lateness,
            mistake_suspect,
            mistake_dead,
            store_work,
            store_commit,
            events,
            keys,
        }
    }

    /// Records what only shows as it happens.
    pub fn observe(&self, event: &Event) {
        match event {
            Event::ProbeAnswered(rtt) => self.probe_rtt.record(rtt.as_secs_f64()),
            Event::Late(lateness) => self.lateness.record(lateness.as_secs_f64()),
            Event::Mistake { status, lasted, .. } => {
                let lengths = match status {
                    Status::Dead => &self.mistake_dead,
                    _ => &self.mistake_suspect,
                };
                lengths.record(lasted.as_secs_f64());
            }
            Event::Member(change) => {
                self.logged(change.kind.as_str());
                let verdict = change
                    .evidence
                    .as_ref()
                    .filter(|evidence| evidence.rule == "own");
                if let (EventKind::MemberDead, Some(evidence)) = (change.kind, verdict) {
                    self.detection.record(evidence.silence.as_secs_f64());
                }
            }
            Event::Join { .. }
            | Event::GenerationRaised(_)
            | Event::User(_)
            | Event::UserMissed { .. }
            | Event::MetadataSet(_)
            | Event::StartedOver { .. }
            | Event::LeaveCompleted { .. }
            | Event::ClockSkew { .. } => {}
        }
    }

    /// The Prometheus text of everything, as of `snapshot`.
    #[must_use]
    pub fn render(&self, snapshot: &Snapshot) -> String {
        with_local_recorder(&self.recorder, || export(snapshot));
        let mut text = self.recorder.handle().render();
        text.push_str(&process::render());
        text
    }

    /// Folds recorded samples into histograms.
    pub fn upkeep(&self) {
        self.recorder.handle().run_upkeep();
    }

    /// Counts an entry of the log.
    pub(in crate::daemon) fn logged(&self, kind: &str) {
        count(&self.events, kind);
    }

    /// Counts how a request with an idempotency key ended.
    pub(in crate::daemon) fn keyed(&self, outcome: &'static str) {
        count(&self.keys, outcome);
    }

    /// How many calls of handlers and webhooks wait, and how many are parked.
    pub(in crate::daemon) fn measured_calls(&self, (waiting, parked): (u64, u64)) {
        with_local_recorder(&self.recorder, || {
            gauge!(QUEUE_LENGTH, "queue" => "calls").set(waiting as f64);
            gauge!(QUEUE_LENGTH, "queue" => "parked-calls").set(parked as f64);
        });
    }

    /// A transaction of the store: how long its work took, and how long its commit.
    pub(in crate::daemon) fn committed(&self, work: Duration, commit: Duration) {
        self.store_work.record(work.as_secs_f64());
        self.store_commit.record(commit.as_secs_f64());
    }
}

fn count(counters: &[(&'static str, Counter)], label: &str) {
    if let Some((_, counter)) = counters.iter().find(|(counted, _)| *counted == label) {
        counter.increment(1);
    }
}

impl Default for Metrics {
    /// The same as [`Metrics::new`].
    fn default() -> Self {
        Self::new()
    }
}

fn recorder() -> PrometheusRecorder {
    let buckets: [(&str, &[f64]); 6] = [
        (PROBE_RTT, &RTT_BUCKETS),
        (DETECTION, &DETECTION_BUCKETS),
        (LATENESS, &LATENESS_BUCKETS),
        (MISTAKE, &MISTAKE_BUCKETS),
        (STORE_WORK, &COMMIT_BUCKETS),
        (STORE_COMMIT, &COMMIT_BUCKETS),
    ];
    let mut builder = PrometheusBuilder::new();
    for (name, bounds) in buckets {
        // Fails for an empty list only; then the default summary is better than no agent.
        builder = match builder.set_buckets_for_metric(Matcher::Full(name.into()), bounds) {
            Ok(builder) => builder,
            Err(_) => return PrometheusBuilder::new().build_recorder(),
        };
    }
    builder.build_recorder()
}

fn describe_mistakes() {
    use metrics::{describe_counter, describe_histogram};
    describe_histogram!(
        MISTAKE,
        Unit::Seconds,
        "How long a member was shown as suspect or dead that then proved to be alive."
    );
    describe_counter!(
        FALSE_DEATHS,
        "Members shown as dead that came back in the same life."
    );
}

fn describe_store() {
    use metrics::{describe_counter, describe_gauge, describe_histogram};
    describe_counter!(
        IDEMPOTENCY,
        "Requests with an idempotency key, by how they ended."
    );
    describe_gauge!(IDEMPOTENCY_KEYS, "Idempotency keys that are remembered.");
    describe_histogram!(
        STORE_WORK,
        Unit::Seconds,
        "Statements of a transaction that answers clients or takes events, before its commit."
    );
    describe_histogram!(
        STORE_COMMIT,
        Unit::Seconds,
        "Commits of such transactions: with a data directory, the wait for the disk."
    );
    describe_gauge!(STORE_FAILING, "1 while the store cannot be written.");
    describe_counter!(STORE_FAILURES, "Writes to the store that failed.");
}

fn describe() {
    use metrics::{describe_counter, describe_gauge, describe_histogram};
    describe_gauge!(MEMBERS, "Listed members by status, this node included.");
    describe_counter!(PROBES, "Probes ended, by kind and outcome.");
    describe_histogram!(PROBE_RTT, Unit::Seconds, "Round trips of answered probes.");
    describe_counter!(
        SUSPICIONS,
        "Suspicions this node raised, by what became of them."
    );
    describe_counter!(
        REFUTATIONS,
        "Accusations against this node that it refuted."
    );
    describe_counter!(
        EVICTIONS,
        "Members that this node evicted because they lose most packets."
    );
    describe_histogram!(
        DETECTION,
        Unit::Seconds,
        "Silence until this node declared a death."
    );
    describe_counter!(MESSAGES, "Messages by direction, kind and transport.");
    describe_counter!(BYTES, "Payload bytes by direction and transport.");
    describe_counter!(REJECTED, "Received input dropped, by reason.");
    describe_counter!(
        STREAMS_FAILED,
        "Streams this node opened that ended without an answer."
    );
    describe_gauge!(
        STREAM_ANSWERED,
        Unit::Seconds,
        "When a stream this node opened was last answered, since the unix epoch; 0 before."
    );
    describe_histogram!(LATENESS, Unit::Seconds, "How late own timers were handled.");
    describe_gauge!(
        LOCAL_HEALTH,
        "0 is healthy, 8 is a node whose timers are always late."
    );
    describe_gauge!(
        CLOCK_SKEW,
        Unit::Seconds,
        "How far the wall clock is ahead of the middle one of the members' heard of."
    );
    describe_gauge!(
        AGREEMENT_RATIO,
        "Share of the live members that are known to have held this node's table."
    );
    describe_gauge!(
        UNREACHED,
        "Pairs of members of which one does not reach the other, by transport."
    );
    describe_gauge!(QUEUE_LENGTH, "Entries waiting, by queue.");
    describe_counter!(EXCHANGES, "Exchanges of tables this node began.");
    describe_counter!(NEEDLESS, "Those that found nothing to move.");
    describe_counter!(FAILED, "Those that were given up.");
    describe_counter!(EXCHANGED, "Records that exchanges moved, either way.");
    describe_counter!(
        BUSY,
        "Joins and exchanges sent elsewhere: too many were served."
    );
    describe_counter!(EVENTS, "Entries of the log, by kind.");
    describe_gauge!(BUILD_INFO, "Always 1; the label names the version.");
}

/// Sets everything that the snapshot holds. Closed label sets show their zeros, so that rates are
/// defined from the start.
fn export(snapshot: &Snapshot) {
    for status in Status::ALL {
        gauge!(MEMBERS, "status" => status.as_str()).set(snapshot.count(status) as f64);
    }
    let agreement = &snapshot.agreement;
    let ratio = agreement.agree as f64 / agreement.alive.max(1) as f64;
    gauge!(AGREEMENT_RATIO).set(ratio);
    let by_datagram = snapshot.unreached_by_datagram() as f64;
    gauge!(UNREACHED, "transport" => Transport::Datagram.as_str()).set(by_datagram);
    let by_stream = snapshot.unreached_by_stream() as f64;
    gauge!(UNREACHED, "transport" => Transport::Stream.as_str()).set(by_stream);
    gauge!(CLOCK_SKEW).set(f64::from(snapshot.node.clock_skew));
    gauge!(LOCAL_HEALTH).set(f64::from(snapshot.node.local_health));
    gauge!(QUEUE_LENGTH, "queue" => "updates").set(snapshot.node.queued_updates as f64);
    let store = &snapshot.node.store;
    gauge!(QUEUE_LENGTH, "queue" => "store").set(store.unsaved_events as f64);
    gauge!(QUEUE_LENGTH, "queue" => "arrivals").set(store.unsaved_arrivals as f64);
    gauge!(QUEUE_LENGTH, "queue" => "events").set(snapshot.node.backlog.events as f64);
    gauge!(IDEMPOTENCY_KEYS).set(store.keys as f64);
    gauge!(STORE_FAILING).set(f64::from(u8::from(store.failure.is_some())));
    counter!(STORE_FAILURES).absolute(store.failures);
    let stats = &snapshot.node.stats;
    counter!(REFUTATIONS).absolute(stats.refutations);
    counter!(EVICTIONS).absolute(stats.evictions);
    counter!(FALSE_DEATHS).absolute(stats.false_deaths);
    counter!(STREAMS_FAILED).absolute(stats.streams_failed);
    let answered = snapshot
        .node
        .stream_answered
        .unwrap_or(SystemTime::UNIX_EPOCH);
    let answered = answered
        .duration_since(SystemTime::UNIX_EPOCH)
        .unwrap_or_default();
    gauge!(STREAM_ANSWERED).set(answered.as_secs_f64());
    export_traffic(stats);
    export_detection(stats);
    export_exchanges(stats);
}

fn export_exchanges(stats: &Stats) {
    counter!(EXCHANGES).absolute(stats.exchanges);
    counter!(NEEDLESS).absolute(stats.exchanges_needless);
    counter!(FAILED).absolute(stats.exchanges_failed);
    counter!(EXCHANGED).absolute(stats.exchanged_records);
    counter!(BUSY).absolute(stats.busy);
}

fn export_traffic(stats: &Stats) {
    for ((direction, kind, transport), count) in stats.messages.iter() {
        counter!(
            MESSAGES,
            "direction" => direction.as_str(),
            "kind" => kind.as_str(),
            "transport" => transport.as_str(),
        )
        .absolute(count);
    }
    for ((direction, transport), count) in stats.bytes.iter() {
        counter!(
            BYTES, "direction" => direction.as_str(), "transport" => transport.as_str(),
        )
        .absolute(count);
    }
    for &reason in Rejection::ALL {
        let count = stats.rejected.get(reason);
        counter!(REJECTED, "reason" => reason.as_str()).absolute(count);
    }
}

fn export_detection(stats: &Stats) {
    for &kind in ProbeKind::ALL {
        for &outcome in ProbeOutcome::ALL {
            let count = stats.probes.get((kind, outcome));
            counter!(PROBES, "kind" => kind.as_str(), "outcome" => outcome.as_str())
                .absolute(count);
        }
    }
    for &outcome in SuspicionOutcome::ALL {
        let count = stats.suspicions.get(outcome);
        counter!(SUSPICIONS, "outcome" => outcome.as_str()).absolute(count);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::daemon::http::tests::snapshot;
    use crate::member::{Generation, Incarnation};
    use crate::protocol::{Direction, Evidence, MemberEvent};
    use crate::wire::MessageKind;

    fn death(rule: &'static str) -> Event {
        Event::Member(MemberEvent {
            kind: EventKind::MemberDead,
            member: "n3".parse().expect("valid"),
            address: None,
            rival: None,
            generation: Generation(1),
            incarnation: Incarnation(0),
            from: Some(Status::Suspect),
            to: Status::Dead,
            evidence: Some(Evidence {
                phi: 9.8,
                witnesses: 3,
                ..Evidence::new(rule, Duration::from_millis(5600))
            }),
        })
    }

    #[test]
    fn counters_and_gauges_follow_the_snapshot() {
        let metrics = Metrics::new();
        let mut snapshot = snapshot();
        let stats = &mut snapshot.node.stats;
        let key = (Direction::Sent, MessageKind::Ping, Transport::Datagram);
        stats.messages.add(key, 7);
        let key = (ProbeKind::Direct, ProbeOutcome::Acked);
        stats.probes.add(key, 5);
        let text = metrics.render(&snapshot);
        for line in [
            "rumord_members{status=\"alive\"} 2",
            "rumord_members{status=\"left\"} 0",
            "rumord_messages_total{direction=\"sent\",kind=\"ping\",transport=\"datagram\"} 7",
            "rumord_probes_total{kind=\"direct\",outcome=\"acked\"} 5",
            "rumord_probes_total{kind=\"stream\",outcome=\"void\"} 0",
            "rumord_suspicions_total{outcome=\"raised\"} 0",
            "rumord_events_total{kind=\"member-up\"} 0",
            "rumord_events_total{kind=\"user\"} 0",
            "rumord_idempotency_total{outcome=\"replayed\"} 0",
            "rumord_idempotency_keys 0",
            "rumord_queue_length{queue=\"events\"} 0",
            "rumord_queue_length{queue=\"arrivals\"} 0",
            "rumord_queue_length{queue=\"updates\"} 0",
            "rumord_local_health 0",
            "rumord_agreement_ratio 1",
            "rumord_clock_skew_seconds 0",
            "rumord_unreachable_pairs{transport=\"datagram\"} 0",
            "rumord_unreachable_pairs{transport=\"stream\"} 0",
            "rumord_refutations_total 0",
            "rumord_evictions_total 0",
            "rumord_exchanges_needless_total 0",
            "rumord_busy_total 0",
            "rumord_streams_failed_total 0",
            "rumord_stream_answered_timestamp_seconds 1764516060",
        ] {
            assert!(text.lines().any(|held| held == line), "{line} in\n{text}");
        }
        assert!(text.contains("rumord_build_info{version=\"0."), "{text}");
    }

    #[test]
    fn only_own_verdicts_count_as_detections() {
        let metrics = Metrics::new();
        metrics.observe(&death("own"));
        metrics.observe(&death("told"));
        metrics.observe(&Event::ProbeAnswered(Duration::from_micros(300)));
        metrics.observe(&Event::Late(Duration::from_millis(2)));
        metrics.observe(&Event::Mistake {
            member: "n3".parse().expect("valid"),
            status: Status::Dead,
            lasted: Duration::from_secs(20),
        });
        metrics.upkeep();
        let text = metrics.render(&snapshot());
        for line in [
            "rumord_detection_seconds_count 1",
            "rumord_detection_seconds_bucket{le=\"5.5\"} 0",
            "rumord_detection_seconds_bucket{le=\"6\"} 1",
            "rumord_events_total{kind=\"member-dead\"} 2",
            "rumord_probe_rtt_seconds_bucket{le=\"0.0005\"} 1",
            "rumord_timer_lateness_seconds_count 1",
            "rumord_mistake_seconds_bucket{status=\"dead\",le=\"10\"} 0",
            "rumord_mistake_seconds_bucket{status=\"dead\",le=\"30\"} 1",
            "rumord_false_deaths_total 0",
        ] {
            assert!(text.lines().any(|held| held == line), "{line} in\n{text}");
        }
    }

    #[test]
    fn every_metric_has_help_and_no_member_is_named() {
        let text = Metrics::new().render(&snapshot());
        for line in text.lines().filter(|line| line.starts_with("# TYPE ")) {
            let name = line.split_whitespace().nth(2).unwrap_or_default();
            assert!(
                text.contains(&format!("# HELP {name} ")),
                "{name} has no help"
            );
        }
        assert!(
            !text.contains("\"n1\"") && !text.contains("127.0.0.1"),
            "{text}"
        );
    }
}
