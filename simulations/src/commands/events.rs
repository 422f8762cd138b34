//! `events`.

use clap::{Args, value_parser};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::arguments::{Running, Seeded, loss};
use super::measurement::{Measurement, Output};
use super::{Trouble, files};
use crate::events::{KNOWN_LATEST, Spread, Trial, spread};
use crate::fit::Sample;

/// What is promised of a thousand members, up to a share of lost datagrams: a median in
/// milliseconds.
const MEDIANS: [(f64, f64); 2] = [(0.0, 100.0), (0.1, 500.0)];
/// Most bytes of one event for a member, in the mean.
const BYTES_MEAN_MAX: f64 = 10_000.0;
/// Members up to which the promises are given.
const PROMISED_NODES: usize = 1000;

#[derive(Debug, Args, Serialize, Deserialize)]
pub struct EventsArguments {
    /// Members of the cluster, 2 to 100000
    #[arg(long, default_value_t = 1000, value_parser = value_parser!(u32).range(2..=100_000))]
    nodes: u32,
    /// Share of datagrams lost, 0 to 0.9; several as 0,0.1,0.3
    #[arg(long, value_parser = loss, value_delimiter = ',', default_value = "0,0.1,0.3")]
    loss: Vec<f64>,
    /// Runs for each loss, each in a cluster of its own
    #[arg(long, default_value_t = 50, value_parser = value_parser!(u64).range(1..))]
    runs: u64,
    #[command(flatten)]
    #[serde(flatten)]
    seeded: Seeded,
}

impl Measurement for EventsArguments {
    const NAME: &'static str = "events";
    type Run = Trial;
    type Finding = Spread;

    fn running(&self) -> &Running {
        &self.seeded.running
    }

    fn runs(&self) -> Result<Vec<Trial>, Trouble> {
        let seeds = self.seeded.seeds(self.runs, self.loss.len())?;
        let nodes = self.nodes as usize;
        let trials = self.loss.iter().flat_map(|&loss| {
            let trial = move |&seed: &u64| Trial { nodes, loss, seed };
            seeds.iter().map(trial)
        });
        Ok(trials.collect())
    }

    fn measure(&self, trial: &Trial) -> Spread {
        spread(trial)
    }

    fn report(&self, found: &[(Trial, Spread)], output: &mut Output) -> Result<(), Trouble> {
        let cells = self.cells(found);
        writeln!(
            output.text,
            "until the sender knows that all {} members have one event\n\
             {:>6} {:>5} {:>9} {:>9} {:>7} {:>7} {:>10} {:>10} {:>6}",
            self.nodes,
            "loss",
            "runs",
            "p50 ms",
            "max ms",
            "asked",
            "acks",
            "B/node",
            "busiest",
            "failed"
        )?;
        for cell in &cells {
            let [half, most] = [0.5, 1.0].map(|share| cell.times.quantile(share));
            writeln!(
                output.text,
                "{:>5}% {:>5} {half:>9.1} {most:>9.1} {:>7.1} {:>7.1} {:>10.0} {:>10} {:>6}",
                cell.loss * 100.0,
                cell.runs,
                cell.asked,
                cell.acks,
                cell.bytes_mean,
                cell.bytes_busiest,
                cell.failed
            )?;
        }
        let records: Vec<Value> = cells.iter().map(|cell| self.record(cell)).collect();
        files::write(output.directory, "events.jsonl", &files::lines(&records))
    }

    fn broken(&self, found: &[(Trial, Spread)]) -> Vec<String> {
        let cells = self.cells(found);
        cells.iter().flat_map(|cell| self.broken_in(cell)).collect()
    }
}

/// All runs at one loss.
struct Cell {
    loss: f64,
    runs: usize,
    times: Sample,
    failed: usize,
    asked: f64,
    acks: f64,
    bytes_mean: f64,
    bytes_busiest: u64,
}

impl EventsArguments {
    fn cells(&self, found: &[(Trial, Spread)]) -> Vec<Cell> {
        let at = |&loss: &f64| {
            let of_loss = found.iter().filter(|(trial, _)| trial.loss == loss);
            let runs: Vec<&Spread> = of_loss.map(|(_, spread)| spread).collect();
            (!runs.is_empty()).then(|| cell(loss, &runs))
        };
        self.loss.iter().filter_map(at).collect()
    }

    fn broken_in(&self, cell: &Cell) -> Vec<String> {
        let (nodes, percent) = (self.nodes, cell.loss * 100.0);
        let mut broken = Vec::new();
        if cell.failed > 0 {
            broken.push(format!(
                "at {percent} % loss {} events were not acknowledged by all in {} s",
                cell.failed,
                KNOWN_LATEST.as_secs()
            ));
        }
        if nodes as usize > PROMISED_NODES {
            return broken;
        }
        let median = cell.times.quantile(0.5);
        let promised = MEDIANS.iter().find(|(loss, _)| cell.loss <= *loss);
        if let Some((_, most)) = promised.filter(|(_, most)| median > *most) {
            broken.push(format!(
                "at {percent} % loss the median is {median:.1} ms, above {most} ms"
            ));
        }
        if promised.is_some() && cell.bytes_mean > BYTES_MEAN_MAX {
            broken.push(format!(
                "at {percent} % loss an event takes {:.0} bytes of each, above {BYTES_MEAN_MAX}",
                cell.bytes_mean
            ));
        }
        broken
    }

    fn record(&self, cell: &Cell) -> Value {
        json!({
            "nodes": self.nodes,
            "loss": cell.loss,
            "seed": self.seeded.seed,
            "runs": cell.runs,
            "failed": cell.failed,
            "p50_ms": cell.times.quantile(0.5),
            "max_ms": cell.times.quantile(1.0),
            "asked": cell.asked,
            "acks": cell.acks,
            "bytes_mean": cell.bytes_mean,
            "bytes_busiest": cell.bytes_busiest,
        })
    }
}

fn cell(loss: f64, runs: &[&Spread]) -> Cell {
    let count = runs.len() as f64;
    let mean = |of: &dyn Fn(&Spread) -> f64| runs.iter().map(|it| of(it)).sum::<f64>() / count;
    let times: Vec<f64> = runs.iter().filter_map(|it| it.milliseconds).collect();
    Cell {
        loss,
        runs: runs.len(),
        failed: runs.len() - times.len(),
        times: Sample::new(times),
        asked: mean(&|it| it.asked as f64),
        acks: mean(&|it| it.acks as f64),
        bytes_mean: mean(&|it| it.bytes_mean),
        bytes_busiest: runs.iter().map(|it| it.bytes_busiest).max().unwrap_or(0),
    }
}
