//! `converge`.

use std::io::Write;

use clap::Args;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::arguments::{Running, Seeded, Span, loss};
use super::measurement::{Measurement, Output};
use super::{Trouble, files};
use crate::converge::{Times, Trial, converge};
use crate::fit::{Line, Sample};
use crate::svg::{Chart, Series, Shape};

/// Points of a curve between the smallest and the largest size.
const CURVE_POINTS: usize = 40;
/// Above so many members the product's first round is wider.
const NARROW_MAX: usize = 2000;

#[derive(Debug, Args, Serialize, Deserialize)]
pub struct ConvergeArguments {
    /// Sizes, as A..B: A and its doubles up to B
    #[arg(long, default_value = "16..4096")]
    nodes: Span,
    /// Share of datagrams lost, 0 to 0.9; several as 0,0.1,0.3
    #[arg(long, value_parser = loss, value_delimiter = ',', default_value = "0")]
    loss: Vec<f64>,
    /// Runs, each in a cluster of its own; each has 50 changes, fewer above 81 members
    #[arg(long, default_value_t = 20)]
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
        if sizes.first().is_some_and(|&nodes| nodes < 2) {
            let text = "a change needs two members to spread; give --nodes 2 or more".to_owned();
            return Err(Trouble::Usage(text));
        }
        let seeds = self.seeded.seeds(self.runs)?;
        let mut trials = Vec::new();
        for &nodes in sizes.iter().rev() {
            for &loss in &self.loss {
                trials.extend(seeds.iter().map(|&seed| Trial { nodes, loss, seed }));
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
        let mut records: Vec<Value> = rows.iter().map(|row| record(row, &self.seeded)).collect();
        let mut series = Vec::new();
        for (place, &loss) in self.loss.iter().enumerate() {
            let of_loss: Vec<_> = rows.iter().filter(|row| row.loss == loss).collect();
            let fits = tell(loss, &of_loss, output.text)?;
            records.extend(fits.iter().map(|fit| fit_record(loss, fit)));
            let line = fits.first().map(|fit| &fit.line);
            series.extend(draw(loss, place, &of_loss, line));
        }
        let picture = chart(&self.nodes.doubles(), series).draw();
        files::write(output.directory, "converge.jsonl", &files::lines(&records))?;
        files::write(output.directory, "converge.svg", &picture)
    }

    fn broken(&self, found: &[(Trial, Times)]) -> Vec<String> {
        match found.iter().map(|(_, times)| times.lost).sum::<usize>() {
            0 => Vec::new(),
            lost => vec![format!("{lost} changes were not known everywhere in 30 s")],
        }
    }
}

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
        let mut rows: Vec<Row> = of_size_and_loss.filter_map(row).collect();
        let key = |row: &Row| (row.loss.to_bits(), row.nodes);
        rows.sort_by_key(key);
        rows
    }
}

fn row(runs: &[(Trial, Times)]) -> Option<Row> {
    let (Trial { nodes, loss, .. }, _) = *runs.first()?;
    let changes = runs.iter().map(|(trial, _)| trial.changes()).sum();
    let sent: u64 = runs.iter().map(|(_, times)| times.datagrams).sum();
    let milliseconds = runs.iter().flat_map(|(_, times)| &times.milliseconds);
    Some(Row {
        nodes,
        loss,
        changes,
        sample: Sample::new(milliseconds.copied().collect()),
        lost: runs.iter().map(|(_, times)| times.lost).sum(),
        datagrams: sent as f64 / changes as f64 / nodes as f64,
    })
}

fn tell(loss: f64, rows: &[&Row], out: &mut dyn Write) -> Result<Vec<Fit>, Trouble> {
    writeln!(
        out,
        "time until all know one change, loss {} %",
        loss * 100.0
    )?;
    writeln!(
        out,
        "{:>6} {:>8} {:>10} {:>10} {:>10} {:>10} {:>6} {:>10}",
        "N", "changes", "mean ms", "p50 ms", "p99.9 ms", "max ms", "lost", "datagrams"
    )?;
    for row in rows {
        let Row {
            nodes,
            changes,
            lost,
            datagrams,
            sample,
            ..
        } = row;
        let [half, high, most] = [0.5, 0.999, 1.0].map(|share| sample.quantile(share));
        let mean = sample.mean();
        writeln!(
            out,
            "{nodes:>6} {changes:>8} {mean:>10.3} {half:>10.3} {high:>10.3} {most:>10.3} \
             {lost:>6} {datagrams:>10.1}"
        )?;
    }
    let fits = fits(rows);
    for fit in &fits {
        let (start, slope, margin) = (fit.line.start, fit.line.slope, fit.line.slope_margin);
        writeln!(
            out,
            "{}: {start:.3} + {slope:.3} log2 N ms, {slope:.3} ms per doubling, 95 % confidence \
             {:.3} to {:.3}, R2 {:.4}",
            fit.of,
            slope - margin,
            slope + margin,
            fit.line.r_squared
        )?;
    }
    Ok(fits)
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

fn record(row: &Row, seeded: &Seeded) -> Value {
    json!({
        "nodes": row.nodes,
        "loss": row.loss,
        "seed": seeded.seed,
        "changes": row.changes,
        "mean_ms": row.sample.mean(),
        "p50_ms": row.sample.quantile(0.5),
        "p99_ms": row.sample.quantile(0.99),
        "p999_ms": row.sample.quantile(0.999),
        "max_ms": row.sample.quantile(1.0),
        "lost": row.lost,
        "datagrams_per_member_and_change": row.datagrams,
    })
}

fn fit_record(loss: f64, fit: &Fit) -> Value {
    let line = &fit.line;
    json!({
        "fit": format!("{} in ms = start + slope * log2(nodes)", fit.of),
        "loss": loss,
        "start": line.start,
        "slope": line.slope,
        "slope_margin_95": line.slope_margin,
        "r_squared": line.r_squared,
    })
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

fn chart(sizes: &[usize], series: Vec<Series>) -> Chart {
    let mark = |&nodes: &usize| (libm::log2(nodes as f64), nodes.to_string());
    Chart {
        title: "Time until all members know one change".to_owned(),
        across: "members".to_owned(),
        up: "milliseconds".to_owned(),
        marks: sizes.iter().map(mark).collect(),
        series,
    }
}
