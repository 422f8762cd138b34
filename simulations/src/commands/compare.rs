//! `compare`.

mod outcome;
mod picture;
mod speed;
mod table;

use std::io::Write;

use clap::{Args, value_parser};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::arguments::{Running, Seeded, loss, measure, members};
use super::measurement::{Measurement, Output, perform};
use super::{Trouble, files};
use crate::compare::measure::{Measure, Protocol, Trial, Values};
use crate::compare::measures;
use outcome::Outcome;

/// What a reader of the figures must know.
const NOTES: &str = "\
All are simulated in the same world: rumord as Config::lan; foca 2.0 as Config::new_lan(members),
identities that renew themselves, the postcard codec; Lifeguard with memberlist's settings, and SWIM
as its paper has it, both without pings over streams, their bytes estimated. The last column is
computed from the formulas of SWIM's paper, with Lifeguard's time-out.
A change is a refutation, in foca a change of identity. Bytes include 28 for the IP and UDP headers
of each datagram; those of streams come without TCP headers. Never means not within 2 minutes, 3
after the crash of a quarter, 5 after a partition. T_MR, T_M and P_A are those of Chen, Toueg and
Aguilera: time from one mistake to the next, how long it lasts, how often a query is answered right.
foca does not tell of suspicions.
";

#[derive(Debug, Args, Serialize, Deserialize)]
pub struct CompareArguments {
    /// Members, 4 or more; several as 10,100,1000
    #[arg(long, value_parser = members, value_delimiter = ',', default_value = "10,100")]
    nodes: Vec<usize>,
    /// Share of datagrams lost, 0 to 0.9; several as 0,0.1
    #[arg(long, value_parser = loss, value_delimiter = ',', default_value = "0,0.1")]
    loss: Vec<f64>,
    /// Only these measures, as change,crash; all where absent
    #[arg(long, value_parser = measure, value_delimiter = ',')]
    measures: Vec<String>,
    /// Runs of each measure
    #[arg(long, default_value_t = 5, value_parser = value_parser!(u64).range(1..=100_000))]
    runs: u64,
    #[command(flatten)]
    #[serde(flatten)]
    seeded: Seeded,
    /// Instead, how fast idle clusters are simulated, in turns on one thread: the one table that
    /// differs from run to run and from machine to machine
    #[arg(long)]
    #[serde(skip)]
    speed: bool,
}

/// Takes every measure of every protocol, and tells the figures side by side.
pub fn compare(arguments: &CompareArguments, out: &mut impl Write) -> Result<(), Trouble> {
    if arguments.speed {
        return speed::tell(&arguments.nodes, arguments.runs, arguments.seeded.seed, out);
    }
    perform(arguments, out)
}

/// One measure, to be taken once of one protocol.
#[derive(Clone, Copy)]
pub struct Job {
    measure: Measure,
    protocol: Protocol,
    trial: Trial,
}

impl Measurement for CompareArguments {
    const NAME: &'static str = "compare";
    type Run = Job;
    type Finding = Values;

    fn running(&self) -> &Running {
        &self.seeded.running
    }

    fn runs(&self) -> Result<Vec<Job>, Trouble> {
        let kinds =
            self.nodes.len() * self.loss.len() * self.measures().len() * Protocol::ALL.len();
        let seeds = self.seeded.seeds(self.runs, kinds)?;
        let mut jobs = Vec::new();
        for &nodes in &self.nodes {
            for &loss in &self.loss {
                for measure in self.measures() {
                    for protocol in Protocol::ALL {
                        jobs.extend(seeds.iter().map(|&seed| Job {
                            measure,
                            protocol,
                            trial: Trial { nodes, loss, seed },
                        }));
                    }
                }
            }
        }
        Ok(jobs)
    }

    fn measure(&self, job: &Job) -> Values {
        job.measure.of(job.protocol, &job.trial)
    }

    /// A table for each size and loss.
    fn report(&self, found: &[(Job, Values)], output: &mut Output) -> Result<(), Trouble> {
        let outcome = |(job, values): &(Job, Values)| Outcome {
            measure: job.measure,
            protocol: job.protocol,
            trial: job.trial,
            values: values.clone(),
        };
        let outcomes: Vec<Outcome> = found.iter().map(outcome).collect();
        write!(output.text, "{NOTES}")?;
        for &nodes in &self.nodes {
            for &loss in &self.loss {
                let (place, measures) = ((nodes, loss), self.measures());
                table::tell(place, self.runs, &measures, &outcomes, output.text)?;
            }
        }
        let records: Vec<Value> = outcomes.iter().map(Outcome::record).collect();
        files::write(output.directory, "compare.jsonl", &files::lines(&records))?;
        let picture = picture::chart(&self.nodes, self.loss[0], &outcomes).draw();
        files::write(output.directory, "compare.svg", &picture)
    }

    /// The figures are the result, whatever they are.
    fn broken(&self, _: &[(Job, Values)]) -> Vec<String> {
        Vec::new()
    }
}

impl CompareArguments {
    /// A sweep is of what is the same on every machine.
    ///
    /// # Errors
    /// Speed is asked for.
    pub fn refuse_speed(&self) -> Result<(), Trouble> {
        if self.speed {
            let text = "--speed measures one machine and cannot be swept; leave it out".to_owned();
            return Err(Trouble::Usage(text));
        }
        Ok(())
    }

    fn measures(&self) -> Vec<Measure> {
        let wanted = |each: &Measure| {
            self.measures.is_empty() || self.measures.iter().any(|word| word == each.word)
        };
        measures::ALL.into_iter().filter(wanted).collect()
    }
}
