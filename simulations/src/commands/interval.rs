//! `interval`.

use std::io::Write;
use std::time::Duration;

use clap::{Args, value_parser};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::arguments::{Running, Seeded, anomaly, cluster, detector, detectors};
use super::measurement::{Measurement, Output};
use super::{Trouble, files};
use crate::compare::contender::Profile;
use crate::compare::measure::Protocol;
use crate::fit::Sample;
use crate::interval::{Anomaly, Experiment, Finding, interval};
use crate::svg::{Chart, Series, Shape};

/// IP and UDP headers of one datagram.
const HEADER_BYTES: f64 = 28.0;
/// How long after the tolerance a crash is declared in the mean, in probe periods, when one in so
/// many members is slow at most: each of those is as good as no observer.
const VERDICT: f64 = 0.75;
const SLOW_ONE_IN: usize = 8;
/// Crashes from which on the mean must keep its bound.
const MEAN_FROM: usize = 40;
/// What the authors have found over their whole grid.
const PAPER: &str = "\
paper, 128 agents of Consul, its whole grid, alpha 5: SWIM 339,002 FP, 1,326 FP-; Lifeguard 5,193
and 25, with 110.6 % of SWIM's messages and 98.0 % of its bytes
";

#[derive(Debug, Args, Serialize, Deserialize)]
pub struct IntervalArguments {
    /// Members
    #[arg(long, value_parser = cluster, default_value_t = 128)]
    nodes: usize,
    /// How many of them are slow: C; several as 1,4
    #[arg(long, value_delimiter = ',', default_value = "1,4,8,16,32")]
    slow: Vec<usize>,
    /// In what way: pause, and then handle what has come; or blocked, where timers run and nothing
    /// goes in or out; both as pause,blocked
    #[arg(long, value_parser = anomaly, value_delimiter = ',', default_value = "pause,blocked")]
    anomaly: Vec<String>,
    /// How long each time, in milliseconds: D
    #[arg(long, value_delimiter = ',', value_parser = value_parser!(u64).range(1..=3_600_000))]
    #[arg(default_value = "128,512,2048,8192,16384,32768")]
    length: Vec<u64>,
    /// How long they run in between, in milliseconds: I
    #[arg(long, value_delimiter = ',', value_parser = value_parser!(u64).range(1..=3_600_000))]
    #[arg(default_value = "1,4,16,64,1024,4096,16384")]
    between: Vec<u64>,
    /// How long it goes on, in seconds
    #[arg(long, default_value_t = 60, value_parser = value_parser!(u64).range(1..=86_400))]
    lasting: u64,
    /// Each slow member begins at a moment of its own; all begin together without
    #[arg(long)]
    apart: bool,
    /// Runs of each combination of C, D and I
    #[arg(long, default_value_t = 1, value_parser = value_parser!(u64).range(1..))]
    runs: u64,
    /// Who detects, as in detect; several as slots,lifeguard,swim
    #[arg(long, value_parser = detector, value_delimiter = ',', default_value = "slots")]
    detector: Vec<String>,
    #[command(flatten)]
    #[serde(flatten)]
    seeded: Seeded,
}

type Run = (Experiment, Finding);

impl Measurement for IntervalArguments {
    const NAME: &'static str = "interval";
    type Run = Experiment;
    type Finding = Finding;

    fn running(&self) -> &Running {
        &self.seeded.running
    }

    fn runs(&self) -> Result<Vec<Experiment>, Trouble> {
        if let Some(slow) = self.slow.iter().find(|&&slow| slow + 2 > self.nodes) {
            let text = format!(
                "{slow} of {} members cannot be slow: two must be left; give a smaller --slow",
                self.nodes
            );
            return Err(Trouble::Usage(text));
        }
        let grid = self.length.len() * self.between.len() * self.slow.len();
        let repeats = self.anomaly.len() * self.detector.len();
        // Each combination has seeds of its own, and every detector the same ones.
        let count = self.runs.saturating_mul(grid as u64);
        let seeds = self.seeded.seeds(count, repeats)?;
        let mut runs = Vec::new();
        for anomaly in self
            .anomaly
            .iter()
            .filter_map(|word| Anomaly::from_word(word))
        {
            for protocol in detectors(&self.detector) {
                let mut seeds = seeds.iter();
                for (slow, length, between) in self.grid() {
                    runs.extend(
                        seeds
                            .by_ref()
                            .take(self.runs as usize)
                            .map(|&seed| Experiment {
                                protocol,
                                anomaly,
                                nodes: self.nodes,
                                slow,
                                length: Duration::from_millis(length),
                                between: Duration::from_millis(between),
                                lasting: Duration::from_secs(self.lasting),
                                apart: self.apart,
                                seed,
                            }),
                    );
                }
            }
        }
        Ok(runs)
    }

    fn measure(&self, what: &Experiment) -> Finding {
        interval(what)
    }

    fn report(&self, found: &[Run], output: &mut Output) -> Result<(), Trouble> {
        let together = if self.apart {
            "each for itself"
        } else {
            "together"
        };
        writeln!(
            output.text,
            "some of {} members slow {together} for {} s; verdicts about members that ran: FP, \
             about those that were never slow: FP-",
            self.nodes, self.lasting
        )?;
        writeln!(
            output.text,
            "{:<8} {:<11} {:>3} {:>5} {:>8} {:>7} {:>9} {:>9} {:>7} {:>7} {:>7} {:>6} {:>9} {:>6}",
            "slow by",
            "detector",
            "C",
            "runs",
            "FP",
            "FP-",
            "told FP-",
            "suspected",
            "T_D",
            "p50",
            "p99",
            "missed",
            "datagrams",
            "bytes"
        )?;
        for cell in cells(found) {
            cell.tell(output.text)?;
        }
        write!(output.text, "{PAPER}")?;
        let records: Vec<Value> = found.iter().map(record).collect();
        files::write(output.directory, "interval.jsonl", &files::lines(&records))?;
        let picture = chart(self.nodes, &self.slow, &cells(found)).draw();
        files::write(output.directory, "interval.svg", &picture)
    }

    fn broken(&self, found: &[Run]) -> Vec<String> {
        cells(found).iter().flat_map(Cell::broken).collect()
    }
}

impl IntervalArguments {
    /// Every combination of C, D and I.
    fn grid(&self) -> impl Iterator<Item = (usize, u64, u64)> {
        let of_length = |&slow: &usize, &length: &u64| {
            let combination = move |&between: &u64| (slow, length, between);
            self.between.iter().map(combination)
        };
        let of_slow = move |slow| {
            let lengths = self.length.iter();
            lengths.flat_map(move |length| of_length(slow, length))
        };
        self.slow.iter().flat_map(of_slow)
    }
}

/// Runs of one detector with the same anomaly at as many members.
struct Cell<'a> {
    what: Experiment,
    runs: &'a [Run],
}

fn cells(found: &[Run]) -> Vec<Cell<'_>> {
    let kind = |what: &Experiment| (what.anomaly, what.protocol, what.slow);
    let chunks = found.chunk_by(|(one, _), (other, _)| kind(one) == kind(other));
    let cell = |runs: &'_ [Run]| runs.first().map(|(what, _)| *what);
    chunks
        .filter_map(|runs| {
            Some(Cell {
                what: cell(runs)?,
                runs,
            })
        })
        .collect()
}

impl Cell<'_> {
    fn sum(&self, of: fn(&Finding) -> u64) -> u64 {
        self.runs.iter().map(|(_, finding)| of(finding)).sum()
    }

    fn declared(&self) -> Sample {
        let times = self.runs.iter().filter_map(|(_, finding)| finding.declared);
        Sample::new(times.collect())
    }

    fn missed(&self) -> usize {
        self.runs.len() - self.declared().len()
    }

    fn tell(&self, out: &mut dyn Write) -> Result<(), Trouble> {
        let seconds = self.runs.iter().map(|(_, finding)| finding.member_seconds);
        let seconds: f64 = seconds.sum();
        let datagrams = self.sum(|finding| finding.datagrams) as f64;
        let bytes = self.sum(|finding| finding.bytes) as f64 + HEADER_BYTES * datagrams;
        let declared = self.declared();
        writeln!(
            out,
            "{:<8} {:<11} {:>3} {:>5} {:>8} {:>7} {:>9} {:>9} {:>7.3} {:>7.3} {:>7.3} {:>6} \
             {:>9.2} {:>6.0}",
            self.what.anomaly.as_str(),
            self.what.protocol.word(),
            self.what.slow,
            self.runs.len(),
            self.sum(|finding| finding.wrong),
            self.sum(|finding| finding.wrong_healthy),
            self.sum(|finding| finding.held_healthy),
            self.sum(|finding| finding.suspected_healthy),
            declared.mean(),
            declared.quantile(0.5),
            declared.quantile(0.99),
            self.missed(),
            datagrams / seconds,
            bytes / seconds
        )?;
        Ok(())
    }

    /// What no run of our own core may show.
    fn broken(&self) -> Vec<String> {
        if self.what.protocol != Protocol::Rumord {
            return Vec::new();
        }
        let mut broken = Vec::new();
        let held = self.sum(|finding| finding.held_healthy);
        if held > 0 {
            broken.push(format!(
                "members that were never slow were held for dead {held} times"
            ));
        }
        if self.missed() > 0 {
            broken.push(format!("{} crashes were missed", self.missed()));
        }
        broken.extend(self.late());
        let place = format!("{} slow by {}", self.what.slow, self.what.anomaly.as_str());
        broken
            .iter()
            .map(|what| format!("{place}: {what}"))
            .collect()
    }
}

impl Cell<'_> {
    /// Whether crashes are declared later than promised.
    fn late(&self) -> Option<String> {
        let (declared, config) = (self.declared(), Profile::Lan.config());
        let bound = config.pause_tolerance + config.probe_period.mul_f64(VERDICT);
        let few = self.what.slow * SLOW_ONE_IN <= self.what.nodes;
        let late = declared.mean() > bound.as_secs_f64() && declared.len() >= MEAN_FROM;
        let mean = declared.mean();
        (few && late).then(|| format!("crashes were declared after {mean:.3} s in the mean"))
    }
}

fn record((what, finding): &Run) -> Value {
    json!({
        "detector": what.protocol.word(),
        "anomaly": what.anomaly.as_str(),
        "nodes": what.nodes,
        "slow": what.slow,
        "length_seconds": what.length.as_secs_f64(),
        "between_seconds": what.between.as_secs_f64(),
        "lasting_seconds": what.lasting.as_secs_f64(),
        "apart": what.apart,
        "seed": what.seed,
        "wrong": finding.wrong,
        "wrong_healthy": finding.wrong_healthy,
        "held_healthy": finding.held_healthy,
        "suspected_healthy": finding.suspected_healthy,
        "declared_seconds": finding.declared,
        "datagrams": finding.datagrams,
        "bytes": finding.bytes,
        "member_seconds": finding.member_seconds,
    })
}

/// FP- against the number of slow members.
fn chart(nodes: usize, slow: &[usize], cells: &[Cell]) -> Chart {
    let mut lines: Vec<(String, Vec<(f64, f64)>)> = Vec::new();
    for cell in cells {
        let name = format!(
            "{}, {}",
            cell.what.protocol.word(),
            cell.what.anomaly.as_str()
        );
        let wrong = cell.sum(|finding| finding.wrong_healthy) as f64;
        let point = (cell.what.slow as f64, wrong / cell.runs.len() as f64);
        match lines.iter_mut().find(|(known, _)| *known == name) {
            Some((_, line)) => line.push(point),
            None => lines.push((name, vec![point])),
        }
    }
    let mark = |&slow: &usize| (slow as f64, slow.to_string());
    let series = lines.into_iter().enumerate();
    let series = series.map(|(colour, (name, points))| Series {
        name,
        colour,
        shape: Shape::Line(points),
    });
    Chart {
        title: format!("Verdicts about members of {nodes} that were never slow"),
        across: "slow members".to_owned(),
        up: "per run".to_owned(),
        marks: slow.iter().map(mark).collect(),
        series: series.collect(),
    }
}
