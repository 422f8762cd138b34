//! `detect`.

mod cell;
mod picture;
mod promises;
mod table;

use std::time::Duration;

use clap::{Args, value_parser};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use self::cell::Cell;
use super::arguments::{
    Running, Seeded, Sizes, detector, detectors, loss, positive_seconds, profile,
};
use super::measurement::{Measurement, Output};
use super::{Trouble, files};
use crate::compare::contender::Profile;
use crate::detect::{Course, Finding, Watchfulness, detect};
use crate::link::LOSS_GOOD;

#[derive(Debug, Args, Serialize, Deserialize)]
pub struct DetectArguments {
    /// Members; several as 2,20,128, or as 16..4096 for 16 and its doubles
    #[arg(long, default_value = "128")]
    nodes: Sizes,
    /// Share of datagrams lost, 0 to 0.9; several as 0,0.1,0.3
    #[arg(long, value_parser = loss, value_delimiter = ',', default_value = "0")]
    loss: Vec<f64>,
    /// Loss comes in bursts with this mean, in seconds, for each direction of each link: 90 % are
    /// lost in a burst and 1 % else; it is independent without
    #[arg(long, value_parser = positive_seconds, value_name = "SECONDS")]
    burst: Option<f64>,
    /// Parameters and latency: local, lan or wan
    #[arg(long, value_parser = profile, default_value = "lan")]
    profile: String,
    /// Clusters, each with seeds of its own
    #[arg(long, default_value_t = 100, value_parser = value_parser!(u64).range(1..))]
    runs: u64,
    /// Crashes in each cluster, one after the other; who crashed is back, as a new life, before the
    /// next. It learns the loss around it only in a minute: give 1 to clusters of a few
    #[arg(long, default_value_t = 1, value_parser = value_parser!(u32).range(1..))]
    crashes: u32,
    /// Instead nobody crashes in any cluster for so long, and mistakes are counted
    #[arg(long, value_parser = positive_seconds, value_name = "SECONDS")]
    #[arg(conflicts_with = "crashes")]
    healthy: Option<f64>,
    /// Who detects: rumord with its slots, or with SWIM's shuffled round-robin; lifeguard; swim; or
    /// foca, which tells of deaths only; several as slots,lifeguard
    #[arg(long, visible_alias = "schedule", value_parser = detector, value_delimiter = ',')]
    #[arg(default_value = "slots")]
    detector: Vec<String>,
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
        self.check()?;
        let kinds = self.nodes.0.len() * self.loss.len() * self.detector.len();
        let seeds = self.seeded.seeds(self.runs, kinds)?;
        let mut runs = Vec::new();
        for &nodes in &self.nodes.0 {
            for &loss in &self.loss {
                for protocol in detectors(&self.detector) {
                    runs.extend(seeds.iter().map(|&seed| Watchfulness {
                        protocol,
                        profile: self.profile(),
                        nodes,
                        loss,
                        burst: self.burst.map(Duration::from_secs_f64),
                        course: self.course(),
                        seed,
                    }));
                }
            }
        }
        Ok(runs)
    }

    fn measure(&self, what: &Watchfulness) -> Finding {
        detect(what)
    }

    fn report(&self, found: &[Run], output: &mut Output) -> Result<(), Trouble> {
        let cells = self.cells(found);
        for cell in &cells {
            table::tell(cell, output.text)?;
        }
        let records: Vec<Value> = found.iter().map(cell::run_record).collect();
        files::write(output.directory, "detect.jsonl", &files::lines(&records))?;
        let records: Vec<Value> = cells.iter().map(Cell::record).collect();
        let lines = files::lines(&records);
        files::write(output.directory, "detect-cells.jsonl", &lines)?;
        for (name, chart) in picture::charts(&cells) {
            files::write(output.directory, name, &chart.draw())?;
        }
        Ok(())
    }

    fn broken(&self, found: &[Run]) -> Vec<String> {
        let cells = self.cells(found);
        cells.iter().flat_map(promises::broken).collect()
    }
}

/// One run, and what it has shown.
pub type Run = (Watchfulness, Finding);

impl DetectArguments {
    fn check(&self) -> Result<(), Trouble> {
        if self.nodes.0.iter().any(|&nodes| nodes < 2) {
            let text = "nobody is left to find the crash; give --nodes 2 or more".to_owned();
            return Err(Trouble::Usage(text));
        }
        let mild = |&&loss: &&f64| loss > 0.0 && loss <= LOSS_GOOD;
        if let (Some(_), Some(loss)) = (self.burst, self.loss.iter().find(mild)) {
            let text = format!(
                "loss {loss} cannot come in bursts: {LOSS_GOOD} are lost between them; give a \
                 higher --loss, or no --burst"
            );
            return Err(Trouble::Usage(text));
        }
        Ok(())
    }

    fn profile(&self) -> Profile {
        Profile::from_word(&self.profile).unwrap_or(Profile::Lan)
    }

    fn course(&self) -> Course {
        match self.healthy {
            Some(seconds) => Course::Healthy(Duration::from_secs_f64(seconds)),
            None => Course::Crashes(self.crashes as usize),
        }
    }

    /// The runs that differ in their seeds only, together. A part of a sweep may have none of some.
    fn cells<'a>(&self, found: &'a [Run]) -> Vec<Cell<'a>> {
        found.chunk_by(same_cell).filter_map(Cell::of).collect()
    }
}

fn same_cell((one, _): &Run, (other, _): &Run) -> bool {
    let seedless = |what: &Watchfulness| Watchfulness { seed: 0, ..*what };
    seedless(one) == seedless(other)
}
