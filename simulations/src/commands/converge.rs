//! `converge`.

use std::io::Write;

use clap::{Args, value_parser};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::arguments::{Running, Seeded, Span, clusters, loss};
use super::measurement::{Measurement, Output};
use super::{Trouble, files};
use crate::converge::{KNOWN_LATEST, Spreader, Times, Trial, converge};
use crate::fit::{Line, Sample};
use crate::svg::{Chart, Series, Shape};

/// Points of a curve between the smallest and the largest size.
const CURVE_POINTS: usize = 40;
/// Above so many members the product's first round is wider.
const NARROW_MAX: usize = 2000;

#[derive(Debug, Args, Serialize, Deserialize)]
pub struct ConvergeArguments {
    /// Sizes, as A..B: A and its doubles up to B
    #[arg(long, value_parser = clusters, default_value = "16..4096")]
    nodes: Span,
    /// Share of datagrams lost, 0 to 0.9; several as 0,0.1,0.3
    #[arg(long, value_parser = loss, value_delimiter = ',', default_value = "0,0.1,0.3")]
    loss: Vec<f64>,
    /// Changes of each run
    #[arg(long, default_value_t = 50, value_parser = value_parser!(u32).range(1..=1_000_000))]
    changes: u32,
    /// How many of them start at a time, but never more than half of the members have one
    #[arg(long, default_value_t = 50, value_parser = value_parser!(u32).range(1..=1_000_000))]
    together: u32,
    /// Measure the infection of SWIM alone (no push, no comparing of tables, no failure detection;
    /// round-robin probes whose pings and acks carry everything), in probe periods
    #[arg(long)]
    infection: bool,
    /// Runs, each in a cluster of its own
    #[arg(long, default_value_t = 20, value_parser = value_parser!(u64).range(1..))]
    runs: u64,
    #[command(flatten)]
    #[serde(flatten)]
    seeded: Seeded,
}

impl Measurement for ConvergeArguments {
    const NAME: &'static str = "converge";
    type Run = Trial;
    type Finding = Times;

    fn running(&self) -> &Running {
        &self.seeded.running
    }

    /// The largest first, so that no thread waits for it in the end.
    fn runs(&self) -> Result<Vec<Trial>, Trouble> {
        let sizes = self.nodes.doubles();
        if self.nodes.first < 2 {
            let text = "a change needs two members to spread; give --nodes 2 or more".to_owned();
            return Err(Trouble::Usage(text));
        }
        let seeds = self
            .seeded
            .seeds(self.runs, sizes.len() * self.loss.len())?;
        let mut trials = Vec::new();
        for &nodes in sizes.iter().rev() {
            for &loss in &self.loss {
                trials.extend(seeds.iter().map(|&seed| self.trial(nodes, loss, seed)));
            }
        }
        Ok(trials)
    }

    fn measure(&self, trial: &Trial) -> Times {
        converge(trial)
    }

    /// A table and a fit for each loss.
    fn report(&self, found: &[(Trial, Times)], output: &mut Output) -> Result<(), Trouble> {
        let rows = self.rows(found);
        let mut records: Vec<Value> = rows.iter().map(|row| self.record(row)).collect();
        let mut series = Vec::new();
        for (place, &loss) in self.loss.iter().enumerate() {
            let of_loss: Vec<_> = rows.iter().filter(|row| row.loss == loss).collect();
            let fits = self.tell(loss, &of_loss, output.text)?;
            records.extend(fits.iter().map(|fit| self.fit_record(loss, fit)));
            let line = fits.first().map(|fit| &fit.line);
            series.extend(draw(loss, place, &of_loss, line));
        }
        let picture = self.chart(series).draw();
        files::write(output.directory, "converge.jsonl", &files::lines(&records))?;
        files::write(output.directory, "converge.svg", &picture)
    }

    fn broken(&self, found: &[(Trial, Times)]) -> Vec<String> {
        match found.iter().map(|(_, times)| times.lost).sum::<usize>() {
            0 => Vec::new(),
            lost => {
                let latest = KNOWN_LATEST.as_secs();
                vec![format!(
                    "{lost} changes were not known everywhere in {latest} s"
                )]
            }
        }
    }
}

/// What times are told in.
struct Unit {
    word: &'static str,
    milliseconds: f64,
}

const MILLISECONDS: Unit = Unit {
    word: "ms",
    milliseconds: 1.0,
};

const PERIODS: Unit = Unit {
    word: "periods",
    milliseconds: 1000.0,
};

/// Loss, and by how many periods a doubling of the cluster lengthens the infection: mean times from
/// 16 to 4096 members, each of 10,000 or more simulated infections with round-robin targets at
/// fixed random phases, pushing in the ping and pulling in the ack.
const REFERENCE: [(f64, f64); 3] = [(0.0, 0.582), (0.1, 0.787), (0.3, 1.212)];

/// All runs of one size and loss.
struct Row {
    nodes: usize,
    loss: f64,
    changes: usize,
    sample: Sample,
    lost: usize,
    /// Per member and change.
    datagrams: f64,
}

impl ConvergeArguments {
    /// The smallest size first.
    fn rows(&self, found: &[(Trial, Times)]) -> Vec<Row> {
        let of_size_and_loss = found.chunks(self.runs.max(1) as usize);
        let row = |runs: &[(Trial, Times)]| row(runs, self.unit());
        let mut rows: Vec<Row> = of_size_and_loss.filter_map(row).collect();
        let key = |row: &Row| (row.loss.to_bits(), row.nodes);
        rows.sort_by_key(key);
        rows
    }

    fn unit(&self) -> &'static Unit {
        if self.infection {
            &PERIODS
        } else {
            &MILLISECONDS
        }
    }

    fn trial(&self, nodes: usize, loss: f64, seed: u64) -> Trial {
        Trial {
            nodes,
            loss,
            changes: self.changes as usize,
            together: self.together as usize,
            spreader: if self.infection {
                Spreader::Infection
            } else {
                Spreader::Product
            },
            seed,
        }
    }

    fn tell(&self, loss: f64, rows: &[&Row], out: &mut dyn Write) -> Result<Vec<Fit>, Trouble> {
        let unit = self.unit().word;
        let percent = loss * 100.0;
        writeln!(
            out,
            "time until all know one change, in {unit}, loss {percent} %"
        )?;
        write_rows(rows, out)?;
        let fits = fits(rows);
        for fit in &fits {
            let (start, slope, margin) = (fit.line.start, fit.line.slope, fit.line.slope_margin);
            let (low, high) = (slope - margin, slope + margin);
            writeln!(
                out,
                "{}: {start:.3} + {slope:.3} log2 N {unit}, {slope:.3} {unit} per doubling, 95 % \
                 confidence {low:.3} to {high:.3}, R2 {:.4}",
                fit.of, fit.line.r_squared
            )?;
        }
        let reference = REFERENCE
            .iter()
            .find(|&&(at, _)| self.infection && at == loss);
        if let Some((_, slope)) = reference {
            writeln!(
                out,
                "reference, 16 to 4096 members: {slope:.3} periods per doubling"
            )?;
        }
        Ok(fits)
    }

    fn record(&self, row: &Row) -> Value {
        let unit = self.unit().word;
        let mut record = json!({
            "nodes": row.nodes,
            "loss": row.loss,
            "seed": self.seeded.seed,
            "changes": row.changes,
            "lost": row.lost,
            "datagrams_per_member_and_change": row.datagrams,
        });
        let quantiles = [("p50", 0.5), ("p99", 0.99), ("p999", 0.999), ("max", 1.0)];
        for (name, share) in quantiles {
            record[format!("{name}_{unit}")] = row.sample.quantile(share).into();
        }
        record[format!("mean_{unit}")] = row.sample.mean().into();
        record
    }

    fn fit_record(&self, loss: f64, fit: &Fit) -> Value {
        let (line, unit) = (&fit.line, self.unit().word);
        json!({
            "fit": format!("{} in {unit} = start + slope * log2(nodes)", fit.of),
            "loss": loss,
            "start": line.start,
            "slope": line.slope,
            "slope_margin_95": line.slope_margin,
            "r_squared": line.r_squared,
        })
    }

    fn chart(&self, series: Vec<Series>) -> Chart {
        let mark = |&nodes: &usize| (libm::log2(nodes as f64), nodes.to_string());
        Chart {
            title: "Time until all members know one change".to_owned(),
            across: "members".to_owned(),
            up: if self.infection {
                "probe periods"
            } else {
                "milliseconds"
            }
            .to_owned(),
            marks: self.nodes.doubles().iter().map(mark).collect(),
            series,
        }
    }
}

fn write_rows(rows: &[&Row], out: &mut dyn Write) -> Result<(), Trouble> {
    writeln!(
        out,
        "{:>6} {:>8} {:>10} {:>10} {:>10} {:>10} {:>6} {:>10}",
        "N", "changes", "mean", "p50", "p99.9", "max", "lost", "datagrams"
    )?;
    for row in rows {
        let (nodes, changes, lost, datagrams) = (row.nodes, row.changes, row.lost, row.datagrams);
        let [half, high, most] = [0.5, 0.999, 1.0].map(|share| row.sample.quantile(share));
        let mean = row.sample.mean();
        writeln!(
            out,
            "{nodes:>6} {changes:>8} {mean:>10.3} {half:>10.3} {high:>10.3} {most:>10.3} \
             {lost:>6} {datagrams:>10.1}"
        )?;
    }
    Ok(())
}

fn row(runs: &[(Trial, Times)], unit: &Unit) -> Option<Row> {
    let (Trial { nodes, loss, .. }, _) = *runs.first()?;
    let changes = runs.iter().map(|(trial, _)| trial.changes).sum();
    let sent: u64 = runs.iter().map(|(_, times)| times.datagrams).sum();
    let milliseconds = runs.iter().flat_map(|(_, times)| &times.milliseconds);
    Some(Row {
        nodes,
        loss,
        changes,
        sample: Sample::new(milliseconds.map(|time| time / unit.milliseconds).collect()),
        lost: runs.iter().map(|(_, times)| times.lost).sum(),
        datagrams: sent as f64 / changes as f64 / nodes as f64,
    })
}

/// A line, and what it was fitted to.
struct Fit {
    of: &'static str,
    line: Line,
}

/// The mean over all sizes first. Above some size the product sends more copies at once, which is
/// a step down: the sizes below it are fitted by themselves too. Under loss a few changes wait for
/// their second round and rule the mean; the median shows the first.
fn fits(rows: &[&Row]) -> Vec<Fit> {
    let narrow: Vec<&Row> = rows
        .iter()
        .copied()
        .filter(|row| row.nodes <= NARROW_MAX)
        .collect();
    let mut fits = Vec::new();
    let mut fit = |of, points: &[(f64, f64)]| {
        fits.extend(Line::through(points).map(|line| Fit { of, line }));
    };
    fit("mean", &points(rows, Sample::mean));
    if narrow.len() < rows.len() {
        fit("mean up to 2000", &points(&narrow, Sample::mean));
    }
    fit("median", &points(rows, |sample| sample.quantile(0.5)));
    fits
}

fn points(rows: &[&Row], of: impl Fn(&Sample) -> f64) -> Vec<(f64, f64)> {
    let point = |row: &&Row| (libm::log2(row.nodes as f64), of(&row.sample));
    rows.iter().map(point).collect()
}

fn draw(loss: f64, place: usize, rows: &[&Row], line: Option<&Line>) -> Vec<Series> {
    let colour = 2 * place;
    let named = |name: String, colour, shape| Series {
        name,
        colour,
        shape,
    };
    let mut series = Vec::new();
    if let Some(line) = line {
        let ends = points(rows, Sample::mean);
        let (low, high) = (ends[0].0, ends[ends.len() - 1].0);
        let at = |n: usize| low + (high - low) * n as f64 / CURVE_POINTS as f64;
        let curve: Vec<f64> = (0..=CURVE_POINTS).map(at).collect();
        let band = curve.iter().map(|&x| {
            let (middle, margin) = (line.at(x), line.margin(x));
            (x, middle - margin, middle + margin)
        });
        series.push(named(String::new(), colour, Shape::Band(band.collect())));
        let curve = curve.iter().map(|&x| (x, line.at(x))).collect();
        series.push(named(String::new(), colour, Shape::Line(curve)));
    }
    let percent = loss * 100.0;
    let mean = Shape::Points(points(rows, Sample::mean));
    series.push(named(format!("mean, loss {percent} %"), colour, mean));
    let high = Shape::Points(points(rows, |sample| sample.quantile(0.999)));
    series.push(named(format!("p99.9, loss {percent} %"), colour + 1, high));
    series
}
