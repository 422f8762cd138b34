//! `swarm` and `replay`.

use std::collections::BTreeSet;
use std::io::Write;
use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::{Value, json};

use super::arguments::{Running, Span, fault_numbers, tampering};
use super::{Trouble, files};
use crate::parallel::in_order;
use crate::swarm::{COVERING_SEEDS, Coverage, Failure, Manner, Plan, Report, attempt, try_seed};
use crate::trace::Tracing;
use crate::world::{TAMPERING_WORDS, Tampering};

#[derive(Debug, Args)]
pub struct SwarmArguments {
    /// Seeds, as A..B with both included; everything about a run is drawn from its seed
    #[arg(long, default_value = "1..200")]
    seeds: Span,
    #[command(flatten)]
    running: Running,
    /// How to break the nodes on purpose: the swarm must notice
    #[arg(long, value_parser = tampering, default_value = "none")]
    broken: Tampering,
}

#[derive(Debug, Args)]
pub struct ReplayArguments {
    /// A file that a swarm wrote about a failing seed
    #[arg(required_unless_present = "seed", conflicts_with = "seed")]
    file: Option<PathBuf>,
    /// The seed
    #[arg(long)]
    seed: Option<u64>,
    /// Only these faults, by number: 3,7,9 or none; all where absent
    #[arg(long, value_parser = clap::builder::ValueParser::new(fault_numbers))]
    faults: Option<BTreeSet<usize>>,
    /// How to break the nodes on purpose
    #[arg(long, value_parser = tampering, default_value = "none")]
    broken: Tampering,
}

/// Runs every seed, and fails when one of them does.
pub fn swarm(arguments: &SwarmArguments, out: &mut impl Write) -> Result<(), Trouble> {
    let seeds = arguments.seeds.numbers();
    let manner = Manner {
        tampering: arguments.broken,
        ..Manner::PLAIN
    };
    let mut gathered = Gathered::default();
    let mut written = Ok(());
    let work = |&seed: &u64| try_seed(seed, manner);
    in_order(&seeds, arguments.running.threads, work, |_, report| {
        if written.is_ok() {
            written = gathered.take(&report, arguments, out);
        }
        super::show_progress(gathered.runs, seeds.len());
    });
    written?;
    files::write(
        arguments.running.out.as_deref(),
        "swarm.jsonl",
        &files::lines(&gathered.records),
    )?;
    gathered.conclude(out)
}

#[derive(Default)]
struct Gathered {
    runs: usize,
    coverage: Coverage,
    failed: Vec<u64>,
    slowest: f64,
    records: Vec<Value>,
}

impl Gathered {
    fn take(
        &mut self,
        report: &Report,
        arguments: &SwarmArguments,
        out: &mut impl Write,
    ) -> Result<(), Trouble> {
        self.runs += 1;
        self.coverage.merge(&report.outcome.coverage);
        self.records.push(record(report));
        writeln!(out, "{}", report.plan)?;
        if let Some(failure) = &report.outcome.failure {
            self.failed.push(report.plan.seed);
            return tell_failure(report, failure, arguments, out);
        }
        match report.outcome.agreed {
            Some(agreed) => {
                self.slowest = self.slowest.max(agreed.as_secs_f64());
                writeln!(out, "  agreed after {:.1} s", agreed.as_secs_f64())?;
            }
            None => writeln!(out, "  sound; damaged, so no agreement is demanded")?,
        }
        Ok(())
    }

    fn conclude(&self, out: &mut impl Write) -> Result<(), Trouble> {
        let (runs, failed) = (self.runs, self.failed.len());
        writeln!(out, "{}", self.coverage)?;
        writeln!(
            out,
            "{runs} runs, {failed} failed; slowest agreement {:.1} s",
            self.slowest
        )?;
        if !self.failed.is_empty() {
            let seeds = format!("{:?}", self.failed);
            return Err(Trouble::Broken(format!("failed with the seeds {seeds}")));
        }
        let missing = self.coverage.missing();
        if runs >= COVERING_SEEDS && !missing.is_empty() {
            let missing: Vec<_> = missing
                .iter()
                .map(|(of, word)| format!("{of} {word}"))
                .collect();
            let missing = missing.join(", ");
            return Err(Trouble::Broken(format!("never happened: {missing}")));
        }
        Ok(())
    }
}

fn record(report: &Report) -> Value {
    let Report { plan, outcome, .. } = report;
    json!({
        "seed": plan.seed,
        "nodes": plan.starts.len(),
        "profile": plan.profile,
        "schedule": plan.config.schedule.as_str(),
        "faults": plan.faults.len(),
        "core": plan.core.len(),
        "agreed_seconds": outcome.agreed.map(|length| length.as_secs_f64()),
        "failure": outcome.failure.as_ref().map(ToString::to_string),
    })
}

fn tell_failure(
    report: &Report,
    failure: &Failure,
    arguments: &SwarmArguments,
    out: &mut impl Write,
) -> Result<(), Trouble> {
    let plan = &report.plan;
    writeln!(out, "  FAILED {failure}")?;
    let all = || (0..plan.faults.len()).collect();
    let kept = report.enough.clone().unwrap_or_else(all);
    writeln!(out, "  these faults are enough:")?;
    for number in &kept {
        let planned = &plan.faults[*number];
        writeln!(out, "  #{number} at {:?}: {}", planned.at, planned.fault)?;
    }
    let broken = word_of(arguments.broken);
    let numbers: Vec<_> = kept.iter().map(usize::to_string).collect();
    let numbers = if kept.is_empty() {
        "none".into()
    } else {
        numbers.join(",")
    };
    let also = match arguments.broken {
        Tampering::None => String::new(),
        _ => format!(" --broken {broken}"),
    };
    writeln!(
        out,
        "  rumord-sim replay --seed {} --faults {numbers}{also}",
        plan.seed
    )?;
    let saved = json!({"seed": plan.seed, "faults": kept, "broken": broken});
    let name = format!("seed-{}.json", plan.seed);
    files::write(
        arguments.running.out.as_deref(),
        &name,
        &format!("{saved}\n"),
    )
}

fn word_of(tampering: Tampering) -> &'static str {
    TAMPERING_WORDS[tampering as usize]
}

/// Runs one plan again, and writes its trace.
pub fn replay(arguments: &ReplayArguments, out: &mut impl Write) -> Result<(), Trouble> {
    let (seed, faults, tampering) = match (&arguments.file, arguments.seed) {
        (Some(path), _) => saved(path)?,
        (None, seed) => (
            seed.unwrap_or(1),
            arguments.faults.clone(),
            arguments.broken,
        ),
    };
    let whole = Plan::draw(seed);
    let plan = match &faults {
        Some(kept) => whole.keeping(kept),
        None => whole,
    };
    writeln!(out, "{plan}")?;
    let manner = Manner {
        tracing: Tracing::On,
        tampering,
    };
    let outcome = attempt(&plan, manner);
    out.write_all(outcome.trace.as_bytes())?;
    match (outcome.failure, outcome.agreed) {
        (Some(failure), _) => Err(Trouble::Broken(format!("seed {seed}: {failure}"))),
        (None, Some(agreed)) => Ok(writeln!(out, "agreed after {:.1} s", agreed.as_secs_f64())?),
        (None, None) => Ok(writeln!(out, "sound")?),
    }
}

type Saved = (u64, Option<BTreeSet<usize>>, Tampering);

fn saved(path: &Path) -> Result<Saved, Trouble> {
    let text = files::read(path)?;
    let wrong = || {
        let path = path.display();
        Trouble::Usage(format!(
            "{path} is not a failing seed's file; give one a swarm wrote"
        ))
    };
    let value: Value = serde_json::from_str(&text).map_err(|_| wrong())?;
    let seed = value["seed"].as_u64().ok_or_else(wrong)?;
    let faults = value["faults"].as_array().ok_or_else(wrong)?;
    let number = |value: &Value| value.as_u64().map(|number| number as usize);
    let faults: Option<BTreeSet<usize>> = faults.iter().map(number).collect();
    let broken = value["broken"].as_str().and_then(Tampering::from_word);
    Ok((
        seed,
        Some(faults.ok_or_else(wrong)?),
        broken.ok_or_else(wrong)?,
    ))
}
