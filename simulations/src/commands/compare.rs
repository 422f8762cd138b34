//! `compare`.

mod outcome;
mod picture;
mod speed;
mod table;

use std::io::Write;
use std::path::PathBuf;

use clap::Args;
use serde_json::Value;

use super::arguments::{loss, measure, members};
use super::progress::Progress;
use super::{Trouble, files};
use crate::compare::measure::{Measure, Protocol, Trial};
use crate::compare::measures;
use crate::parallel::in_order;
use outcome::Outcome;

/// What a reader of the figures must know.
const NOTES: &str = "\
rumord and foca 2.0 are simulated in the same world: rumord as Config::lan, foca as
Config::new_lan(members), identities that renew themselves, the postcard codec. SWIM is not
simulated: its column is computed from the formulas of its paper, with Lifeguard's time-out.
A change is a refutation in rumord and a change of identity in foca. Bytes include 28 for the IP
and UDP headers of each datagram; those of rumord's streams come without TCP headers. Never means
not within 2 minutes, 3 after the crash of a quarter, 5 after a partition.
";

#[derive(Debug, Args)]
pub struct CompareArguments {
    /// Members, 4 or more; several as 10,100,1000
    #[arg(long, value_parser = members, value_delimiter = ',', default_value = "10,100")]
    nodes: Vec<usize>,
    /// Share of datagrams lost, 0 to 0.9; several as 0,0.1
    #[arg(long, value_parser = loss, value_delimiter = ',', default_value = "0,0.1")]
    loss: Vec<f64>,
    /// Only these measures, as change,crash; all where absent
    #[arg(long, value_parser = measure, value_delimiter = ',')]
    measures: Vec<&'static str>,
    /// Runs of each measure
    #[arg(long, default_value_t = 5)]
    runs: u64,
    /// The seed of the first run
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Threads; the output is the same for every number of them
    #[arg(long, default_value_t = 2)]
    threads: usize,
    /// Where to write compare.jsonl and compare.svg
    #[arg(long)]
    out: Option<PathBuf>,
    /// Instead, how fast idle clusters are simulated, in turns on one thread: the one table that
    /// differs from run to run and from machine to machine
    #[arg(long)]
    speed: bool,
}

impl CompareArguments {
    fn measures(&self) -> Vec<Measure> {
        let wanted =
            |each: &Measure| self.measures.is_empty() || self.measures.contains(&each.word);
        measures::ALL.into_iter().filter(wanted).collect()
    }

    fn runs(&self) -> u64 {
        self.runs.max(1)
    }
}

/// One measure, taken once of one protocol.
struct Job {
    measure: Measure,
    protocol: Protocol,
    trial: Trial,
}

/// Takes every measure of every protocol, and tells the figures side by side.
pub fn compare(arguments: &CompareArguments, out: &mut impl Write) -> Result<(), Trouble> {
    if arguments.speed {
        return speed::tell(&arguments.nodes, arguments.runs(), arguments.seed, out);
    }
    let outcomes = take(arguments);
    write!(out, "{NOTES}")?;
    for &nodes in &arguments.nodes {
        for &loss in &arguments.loss {
            let place = (nodes, loss);
            table::tell(
                place,
                arguments.runs(),
                &arguments.measures(),
                &outcomes,
                out,
            )?;
        }
    }
    let directory = arguments.out.as_deref();
    let records: Vec<Value> = outcomes.iter().map(Outcome::record).collect();
    files::write(directory, "compare.jsonl", &files::lines(&records))?;
    let picture = picture::chart(&arguments.nodes, arguments.loss[0], &outcomes).draw();
    files::write(directory, "compare.svg", &picture)
}

fn take(arguments: &CompareArguments) -> Vec<Outcome> {
    let jobs = jobs(arguments);
    let work = |job: &Job| job.measure.of(job.protocol, &job.trial);
    let mut outcomes = Vec::new();
    let progress = Progress::of("compare", jobs.len());
    in_order(&jobs, arguments.threads, work, |job, values| {
        outcomes.push(Outcome {
            measure: job.measure,
            protocol: job.protocol,
            trial: job.trial,
            values,
        });
        progress.advance();
    });
    outcomes
}

fn jobs(arguments: &CompareArguments) -> Vec<Job> {
    let mut jobs = Vec::new();
    for &nodes in &arguments.nodes {
        for &loss in &arguments.loss {
            for measure in arguments.measures() {
                for protocol in Protocol::ALL {
                    let seeds = arguments.seed..arguments.seed + arguments.runs();
                    jobs.extend(seeds.map(|seed| Job {
                        measure,
                        protocol,
                        trial: Trial { nodes, loss, seed },
                    }));
                }
            }
        }
    }
    jobs
}
