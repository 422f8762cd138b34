//! `detect`.

use std::io::Write;
use std::time::Duration;

use clap::Args;
use rumord::protocol::{Config, Schedule};
use serde_json::{Value, json};

use super::arguments::{Seeded, loss, schedule};
use super::{Trouble, files};
use crate::detect::{Finding, Watchfulness, detect};
use crate::fit::Sample;
use crate::parallel::in_order;
use crate::svg::{Chart, Series, Shape};

/// Bars of the histogram, about.
const BARS: f64 = 40.0;
/// Marks below it, about.
const MARKS: usize = 8;

#[derive(Debug, Args)]
pub struct DetectArguments {
    /// Members
    #[arg(long, default_value_t = 128)]
    nodes: usize,
    /// Share of datagrams lost, 0 to 0.9; several as 0,0.1,0.3
    #[arg(long, value_parser = loss, value_delimiter = ',', default_value = "0")]
    loss: Vec<f64>,
    /// Crashes, each in a cluster of its own
    #[arg(long, default_value_t = 100)]
    runs: u64,
    /// Who probes whom: slots or round-robin
    #[arg(long, value_parser = schedule, default_value = "slots")]
    schedule: Schedule,
    #[command(flatten)]
    seeded: Seeded,
}

/// Crashes one member in each run, and tells how long it took to be found.
pub fn detect_all(arguments: &DetectArguments, out: &mut impl Write) -> Result<(), Trouble> {
    if arguments.nodes < 2 {
        let text = "nobody is left to find the crash; give --nodes 2 or more".to_owned();
        return Err(Trouble::Usage(text));
    }
    let (mut records, mut series, mut broken) = (Vec::new(), Vec::new(), Vec::new());
    let mut highest = 0.0_f64;
    for (place, &loss) in arguments.loss.iter().enumerate() {
        let findings = measure(arguments, loss);
        records.extend(
            findings
                .iter()
                .map(|(seed, finding)| record(arguments, loss, *seed, finding)),
        );
        let findings: Vec<Finding> = findings.into_iter().map(|(_, finding)| finding).collect();
        broken.extend(tell(arguments, loss, &findings, out)?);
        let declared = sample(&findings, |finding| finding.declared);
        highest = highest.max(declared.quantile(1.0));
        series.push((place, loss, declared));
    }
    let directory = arguments.seeded.running.out.as_deref();
    files::write(directory, "detect.jsonl", &files::lines(&records))?;
    files::write(
        directory,
        "detect.svg",
        &chart(arguments, highest, &series).draw(),
    )?;
    match broken.is_empty() {
        true => Ok(()),
        false => Err(Trouble::Broken(broken.join("; "))),
    }
}

fn measure(arguments: &DetectArguments, loss: f64) -> Vec<(u64, Finding)> {
    let seeds: Vec<u64> =
        (arguments.seeded.seed..arguments.seeded.seed + arguments.runs.max(1)).collect();
    let work = |&seed: &u64| {
        detect(&Watchfulness {
            nodes: arguments.nodes,
            loss,
            config: config(arguments),
            seed,
        })
    };
    let mut findings = Vec::new();
    in_order(
        &seeds,
        arguments.seeded.running.threads,
        work,
        |&seed, finding| {
            findings.push((seed, finding));
            super::show_progress(findings.len(), seeds.len());
        },
    );
    findings
}

fn config(arguments: &DetectArguments) -> Config {
    Config {
        schedule: arguments.schedule,
        ..Config::lan()
    }
}

fn sample(findings: &[Finding], of: impl Fn(&Finding) -> Option<f64>) -> Sample {
    Sample::new(findings.iter().filter_map(of).collect())
}

/// Writes one table; returns the bounds that were broken.
fn tell(
    arguments: &DetectArguments,
    loss: f64,
    findings: &[Finding],
    out: &mut impl Write,
) -> Result<Vec<String>, Trouble> {
    let schedule = arguments.schedule.as_str();
    writeln!(
        out,
        "crash of one in {}, {schedule}, loss {} %: seconds until",
        arguments.nodes,
        loss * 100.0
    )?;
    writeln!(
        out,
        "{:<18} {:>6} {:>8} {:>8} {:>8} {:>8} {:>8}",
        "", "runs", "mean", "p50", "p99", "p99.9", "max"
    )?;
    let samples = [
        (
            "first suspected",
            sample(findings, |finding| finding.suspected),
        ),
        (
            "first declared",
            sample(findings, |finding| finding.declared),
        ),
        (
            "known everywhere",
            sample(findings, |finding| finding.known),
        ),
    ];
    for (what, times) in &samples {
        let [half, p99, p999, most] = [0.5, 0.99, 0.999, 1.0].map(|share| times.quantile(share));
        let (runs, mean) = (times.len(), times.mean());
        writeln!(
            out,
            "{what:<18} {runs:>6} {mean:>8.3} {half:>8.3} {p99:>8.3} {p999:>8.3} {most:>8.3}"
        )?;
    }
    let lived: f64 = findings.iter().map(|finding| finding.member_seconds).sum();
    let total = |of: fn(&Finding) -> u64| findings.iter().map(of).sum::<u64>();
    let suspicions = total(|finding| finding.false_suspicions);
    let deaths = total(|finding| finding.false_deaths);
    writeln!(
        out,
        "mistakes in {lived:.0} member-seconds: {suspicions} suspicions ({:.1e} per \
         member-second), {deaths} deaths ({:.1e})",
        suspicions as f64 / lived,
        deaths as f64 / lived
    )?;
    Ok(broken(
        arguments,
        loss,
        findings.len(),
        &samples[2].1,
        deaths,
    ))
}

/// What no run may show: a crash that is missed, or the death of a member that runs.
fn broken(
    arguments: &DetectArguments,
    loss: f64,
    runs: usize,
    known: &Sample,
    deaths: u64,
) -> Vec<String> {
    let mut broken = Vec::new();
    let missed = runs - known.len();
    if missed > 0 {
        broken.push(format!(
            "loss {loss}: {missed} crashes were not known everywhere"
        ));
    }
    if deaths > 0 {
        broken.push(format!(
            "loss {loss}: {deaths} healthy members were declared dead"
        ));
    }
    let bound = promised(arguments).as_secs_f64();
    if loss == 0.0 && known.quantile(1.0) > bound {
        broken.push(format!(
            "a crash was known only after {:.3} s",
            known.quantile(1.0)
        ));
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

fn record(arguments: &DetectArguments, loss: f64, seed: u64, finding: &Finding) -> Value {
    json!({
        "nodes": arguments.nodes,
        "schedule": arguments.schedule.as_str(),
        "loss": loss,
        "seed": seed,
        "suspected_seconds": finding.suspected,
        "declared_seconds": finding.declared,
        "known_seconds": finding.known,
        "false_suspicions": finding.false_suspicions,
        "false_deaths": finding.false_deaths,
        "member_seconds": finding.member_seconds,
    })
}

fn chart(arguments: &DetectArguments, highest: f64, series: &[(usize, f64, Sample)]) -> Chart {
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
