//! Runs that differ in their seeds only, and the figures over them.

use serde_json::{Value, json};

use super::Run;
use crate::detect::{Course, Crash, Finding, Mistakes, Watchfulness};
use crate::fit::Sample;

/// IP and UDP headers of one datagram.
const HEADER_BYTES: f64 = 28.0;
const SECONDS_PER_HOUR: f64 = 3600.0;

/// Runs of one kind.
pub struct Cell<'a> {
    /// What was measured; the seed is the first run's.
    pub what: Watchfulness,
    /// The runs.
    pub runs: &'a [Run],
}

/// Mistakes of one kind over all runs of a cell, after Chen, Toueg and Aguilera.
pub struct Quality {
    /// Accusations by own evidence.
    pub accusations: u64,
    /// How long each mistake lasted, in seconds: T_M.
    pub lengths: Sample,
    /// Seconds that observers spent in error, over seconds of all pairs: what P_A lacks to 1.
    pub error: f64,
    member_seconds: f64,
}

impl Quality {
    /// Mistakes about members.
    pub fn mistakes(&self) -> usize {
        self.lengths.len()
    }

    /// Mean seconds from one mistake about a member to the next; `None` where there was none.
    pub fn recurrence(&self) -> Option<f64> {
        (self.mistakes() > 0).then(|| self.member_seconds / self.mistakes() as f64)
    }

    /// Mistakes about one member per hour: lambda_M.
    pub fn per_hour(&self) -> f64 {
        self.mistakes() as f64 / self.member_seconds * SECONDS_PER_HOUR
    }

    fn record(&self) -> Value {
        json!({
            "accusations": self.accusations,
            "mistakes": self.mistakes(),
            "mistake_recurrence_seconds": self.recurrence(),
            "mistake_rate_per_hour": self.per_hour(),
            "mistake_duration_seconds": quantiles(&self.lengths),
            "query_accuracy": 1.0 - self.error,
        })
    }
}

impl<'a> Cell<'a> {
    /// Of these runs; `None` of none.
    pub fn of(runs: &'a [Run]) -> Option<Self> {
        let (what, _) = runs.first()?;
        Some(Cell { what: *what, runs })
    }

    pub fn findings(&self) -> impl Iterator<Item = &Finding> {
        self.runs.iter().map(|(_, finding)| finding)
    }

    /// Crashes, found or not.
    pub fn crashes(&self) -> usize {
        self.findings().map(|finding| finding.crashes.len()).sum()
    }

    /// A time of every crash for which there is one.
    pub fn times(&self, of: impl Fn(&Crash) -> Option<f64>) -> Sample {
        let crashes = self.findings().flat_map(|finding| &finding.crashes);
        Sample::new(crashes.filter_map(of).collect())
    }

    /// Members times the seconds that they ran.
    pub fn member_seconds(&self) -> f64 {
        let seconds = self.findings().map(|finding| finding.member_seconds);
        seconds.fold(0.0, |sum, seconds| sum + seconds)
    }

    /// Mistakes of one kind.
    pub fn quality(&self, of: impl Fn(&Finding) -> &Mistakes) -> Quality {
        let member_seconds = self.member_seconds();
        let (mut accusations, mut lengths, mut in_error) = (0, Vec::new(), 0.0);
        for mistakes in self.findings().map(of) {
            accusations += mistakes.accusations;
            lengths.extend(&mistakes.lengths);
            in_error += mistakes.pair_seconds;
        }
        let others = self.what.nodes.saturating_sub(1) as f64;
        Quality {
            accusations,
            lengths: Sample::new(lengths),
            error: in_error / (member_seconds * others),
            member_seconds,
        }
    }

    /// Datagrams and bytes that a member sends per second, IP and UDP headers included.
    pub fn load(&self) -> (f64, f64) {
        let seconds = self.member_seconds();
        let sum = |of: fn(&Finding) -> u64| self.findings().map(of).sum::<u64>() as f64;
        let datagrams = sum(|finding| finding.datagrams);
        let bytes = sum(|finding| finding.bytes) + HEADER_BYTES * datagrams;
        (datagrams / seconds, bytes / seconds)
    }

    /// The word for who detects.
    pub fn detector(&self) -> &'static str {
        self.what.protocol.word()
    }

    /// The loss, as a reader wants it.
    pub fn loss(&self) -> String {
        let percent = self.what.loss * 100.0;
        match self.what.burst {
            Some(mean) if self.what.loss > 0.0 => {
                format!("loss {percent} % in bursts of {} s", mean.as_secs_f64())
            }
            _ => format!("loss {percent} %"),
        }
    }

    /// The figures.
    pub fn record(&self) -> Value {
        let (datagrams, bytes) = self.load();
        let mut record = place(&self.what);
        let figures = json!({
            "runs": self.runs.len(),
            "crashes": self.crashes(),
            "suspected_seconds": quantiles(&self.times(|crash| crash.suspected)),
            "declared_seconds": quantiles(&self.times(|crash| crash.declared)),
            "known_seconds": quantiles(&self.times(|crash| crash.known)),
            "member_seconds": self.member_seconds(),
            "suspicions": self.quality(|finding| &finding.suspicions).record(),
            "deaths": self.quality(|finding| &finding.deaths).record(),
            "datagrams_per_member_second": datagrams,
            "bytes_per_member_second": bytes,
        });
        extend(&mut record, figures);
        record
    }
}

/// One run as a line of JSON.
pub fn run_record((what, finding): &Run) -> Value {
    let mut record = place(what);
    extend(&mut record, json!({"seed": what.seed}));
    extend(&mut record, json!(finding));
    record
}

fn place(what: &Watchfulness) -> Value {
    let healthy = match what.course {
        Course::Healthy(length) => Some(length.as_secs_f64()),
        Course::Crashes(_) => None,
    };
    json!({
        "detector": what.protocol.word(),
        "profile": what.profile.as_str(),
        "nodes": what.nodes,
        "loss": what.loss,
        "burst_seconds": what.burst.map(|burst| burst.as_secs_f64()),
        "healthy_seconds": healthy,
    })
}

fn extend(record: &mut Value, more: Value) {
    if let (Value::Object(record), Value::Object(more)) = (record, more) {
        record.extend(more);
    }
}

fn quantiles(sample: &Sample) -> Option<Value> {
    let [p50, p99, p999, max] = [0.5, 0.99, 0.999, 1.0].map(|share| sample.quantile(share));
    let figures =
        || json!({"mean": sample.mean(), "p50": p50, "p99": p99, "p99.9": p999, "max": max});
    (!sample.is_empty()).then(figures)
}
