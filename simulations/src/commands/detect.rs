//! `detect`.

mod mistakes;

use std::io::Write;
use std::time::Duration;

use clap::{Args, value_parser};
use rumord::protocol::{Config, Schedule};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use self::mistakes::Mistakes;
use super::arguments::{Running, Seeded, cluster, loss, schedule, schedule_word};
use super::measurement::{Measurement, Output};
use super::{Trouble, files};
use crate::detect::{Finding, Watchfulness, detect};
use crate::fit::Sample;
use crate::svg::{Chart, Series, Shape};

/// Bars of the histogram, about.
const BARS: f64 = 40.0;
/// Marks below it, about.
const MARKS: usize = 8;

#[derive(Debug, Args, Serialize, Deserialize)]
pub struct DetectArguments {
    /// Members
    #[arg(long, value_parser = cluster, default_value_t = 128)]
    nodes: usize,
    /// Share of datagrams lost, 0 to 0.9; several as 0,0.1,0.3
    #[arg(long, value_parser = loss, value_delimiter = ',', default_value = "0")]
    loss: Vec<f64>,
    /// Crashes, each in a cluster of its own
    #[arg(long, default_value_t = 100, value_parser = value_parser!(u64).range(1..))]
    runs: u64,
    /// Who probes whom: slots or round-robin
    #[arg(long, value_parser = schedule, default_value = "slots")]
    #[serde(with = "schedule_word")]
    schedule: Schedule,
    #[command(flatten)]
    #[serde(flatten)]
    seeded: Seeded,
}

impl Measurement for DetectArguments {
    const NAME: &'static str = "detect";
    type Run = Watchfulness;
    type Finding = Finding;

    fn running(&self) -> &Running {
        &self.seeded.running
    }

    fn runs(&self) -> Result<Vec<Watchfulness>, Trouble> {
        if self.nodes < 2 {
            let text = "nobody is left to find the crash; give --nodes 2 or more".to_owned();
            return Err(Trouble::Usage(text));
        }
        let seeds = self.seeded.seeds(self.runs, self.loss.len())?;
        let of_loss = |&loss: &f64| seeds.iter().map(move |&seed| (loss, seed));
        let pairs = self.loss.iter().flat_map(of_loss);
        let run = |(loss, seed)| Watchfulness {
            nodes: self.nodes,
            loss,
            config: config(self),
            seed,
        };
        Ok(pairs.map(run).collect())
    }

    fn measure(&self, what: &Watchfulness) -> Finding {
        detect(what)
    }

    fn report(&self, found: &[Crash], output: &mut Output) -> Result<(), Trouble> {
        let mut series = Vec::new();
        for (place, (loss, crashes)) in self.by_loss(found).enumerate() {
            tell(self, loss, crashes, output.text)?;
            let declared = sample(crashes, |finding| finding.declared);
            series.push((place, loss, declared));
        }
        let record = |(what, finding): &Crash| record(self, what, finding);
        let records: Vec<Value> = found.iter().map(record).collect();
        let picture = chart(self, &series).draw();
        files::write(output.directory, "detect.jsonl", &files::lines(&records))?;
        files::write(output.directory, "detect.svg", &picture)?;
        if self.loss.len() == 1 {
            return Ok(());
        }
        let mistakes = self.by_loss(found);
        let mistakes: Vec<_> = mistakes
            .map(|(loss, it)| (loss, Mistakes::of(it)))
            .collect();
        let picture = mistakes::chart(self.nodes, &mistakes).draw();
        files::write(output.directory, "mistakes.svg", &picture)
    }

    fn broken(&self, found: &[Crash]) -> Vec<String> {
        let of_loss = |&loss: &f64| {
            let crashes = found.iter().filter(|(what, _)| what.loss == loss);
            broken(self, loss, crashes)
        };
        self.loss.iter().flat_map(of_loss).collect()
    }
}

/// One run, and what it has shown.
pub type Crash = (Watchfulness, Finding);

fn config(arguments: &DetectArguments) -> Config {
    Config {
        schedule: arguments.schedule,
        ..Config::lan()
    }
}

impl DetectArguments {
    /// Each loss with its runs.
    fn by_loss<'a>(&self, found: &'a [Crash]) -> impl Iterator<Item = (f64, &'a [Crash])> {
        let losses = self.loss.clone().into_iter();
        losses.zip(found.chunks(self.runs.max(1) as usize))
    }
}

fn sample<'a>(
    crashes: impl IntoIterator<Item = &'a Crash>,
    of: impl Fn(&Finding) -> Option<f64>,
) -> Sample {
    let times = crashes.into_iter().filter_map(|(_, finding)| of(finding));
    Sample::new(times.collect())
}

/// Writes one table.
fn tell(
    arguments: &DetectArguments,
    loss: f64,
    crashes: &[Crash],
    out: &mut dyn Write,
) -> Result<(), Trouble> {
    let (nodes, schedule) = (arguments.nodes, arguments.schedule.as_str());
    let percent = loss * 100.0;
    writeln!(
        out,
        "crash of one in {nodes}, {schedule}, loss {percent} %: seconds until"
    )?;
    writeln!(
        out,
        "{:<18} {:>6} {:>8} {:>8} {:>8} {:>8} {:>8}",
        "", "runs", "mean", "p50", "p99", "p99.9", "max"
    )?;
    let suspected = sample(crashes, |finding| finding.suspected);
    let declared = sample(crashes, |finding| finding.declared);
    let known = sample(crashes, |finding| finding.known);
    tell_times("first suspected", &suspected, out)?;
    tell_times("first declared", &declared, out)?;
    tell_times("known everywhere", &known, out)?;
    writeln!(out, "{}", Mistakes::of(crashes))?;
    Ok(())
}

fn tell_times(what: &str, times: &Sample, out: &mut dyn Write) -> Result<(), Trouble> {
    let [half, p99, p999, most] = [0.5, 0.99, 0.999, 1.0].map(|share| times.quantile(share));
    let (runs, mean) = (times.len(), times.mean());
    writeln!(
        out,
        "{what:<18} {runs:>6} {mean:>8.3} {half:>8.3} {p99:>8.3} {p999:>8.3} {most:>8.3}"
    )?;
    Ok(())
}

/// What no run may show: a crash that is missed, or the death of a member that runs.
fn broken<'a>(
    arguments: &DetectArguments,
    loss: f64,
    crashes: impl Iterator<Item = &'a Crash> + Clone,
) -> Vec<String> {
    let mut broken = Vec::new();
    let known = sample(crashes.clone(), |finding| finding.known);
    let missed = crashes.clone().count() - known.len();
    if missed > 0 {
        broken.push(format!(
            "loss {loss}: {missed} crashes were not known everywhere"
        ));
    }
    let deaths = Mistakes::of(crashes).deaths;
    if deaths > 0 {
        broken.push(format!(
            "loss {loss}: {deaths} healthy members were declared dead"
        ));
    }
    let (latest, bound) = (known.quantile(1.0), promised(arguments).as_secs_f64());
    if loss == 0.0 && latest > bound {
        broken.push(format!("a crash was known only after {latest:.3} s"));
    }
    broken
}

/// Within which a crash is known everywhere when nothing is lost. With the shuffled round-robin a
/// member may wait long for its first ping.
fn promised(arguments: &DetectArguments) -> Duration {
    let Config {
        pause_tolerance,
        probe_period,
        ..
    } = config(arguments);
    match arguments.schedule {
        Schedule::Slots => pause_tolerance + 2 * probe_period,
        Schedule::RoundRobin => pause_tolerance + 10 * probe_period,
    }
}

fn record(arguments: &DetectArguments, what: &Watchfulness, finding: &Finding) -> Value {
    json!({
        "nodes": what.nodes,
        "schedule": arguments.schedule.as_str(),
        "loss": what.loss,
        "seed": what.seed,
        "suspected_seconds": finding.suspected,
        "declared_seconds": finding.declared,
        "known_seconds": finding.known,
        "false_suspicions": finding.false_suspicions,
        "false_deaths": finding.false_deaths,
        "member_seconds": finding.member_seconds,
    })
}

fn chart(arguments: &DetectArguments, series: &[(usize, f64, Sample)]) -> Chart {
    let highest = series.iter().map(|(_, _, sample)| sample.quantile(1.0));
    let highest = highest.fold(0.0, f64::max);
    let lowest = series.iter().filter(|(_, _, sample)| !sample.is_empty());
    let lowest = lowest.map(|(_, _, sample)| sample.quantile(0.0));
    let lowest = libm::floor(lowest.fold(highest, f64::min));
    let width = ((highest - lowest) / BARS).max(0.001);
    let mark = |place: usize| {
        let x = lowest + (highest - lowest) * place as f64 / MARKS as f64;
        (x, format!("{x:.2}"))
    };
    let bars = |(place, loss, sample): &(usize, f64, Sample)| Series {
        name: format!("loss {} %", loss * 100.0),
        colour: *place,
        shape: Shape::Bars(histogram(sample, lowest, width)),
    };
    Chart {
        title: format!(
            "Crash of one in {}: until it is declared dead",
            arguments.nodes
        ),
        across: "seconds".to_owned(),
        up: "crashes".to_owned(),
        marks: (0..=MARKS).map(mark).collect(),
        series: series.iter().map(bars).collect(),
    }
}

fn histogram(sample: &Sample, lowest: f64, width: f64) -> Vec<(f64, f64, f64)> {
    let mut counts = std::collections::BTreeMap::new();
    for value in sample.sorted() {
        let place = libm::floor((value - lowest) / width) as u64;
        *counts.entry(place).or_insert(0_u64) += 1;
    }
    let bar = |(place, count): (u64, u64)| (lowest + place as f64 * width, width, count as f64);
    counts.into_iter().map(bar).collect()
}
