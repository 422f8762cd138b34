//! `swarm` and `replay`.

use std::collections::BTreeSet;
use std::io::Write;
use std::path::{Path, PathBuf};

use clap::Args;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::arguments::{Running, Span, fault_numbers, tampering};
use super::measurement::{Measurement, Output};
use super::{Trouble, files};
use crate::swarm::{COVERING_SEEDS, Coverage, Manner, Plan, Report, attempt, try_seed};
use crate::trace::Tracing;
use crate::world::{TAMPERING_WORDS, Tampering};

#[derive(Debug, Args, Serialize, Deserialize)]
pub struct SwarmArguments {
    /// Seeds, as A..B with both included; everything about a run is drawn from its seed
    #[arg(long, default_value = "1..200")]
    seeds: Span,
    #[command(flatten)]
    #[serde(skip)]
    running: Running,
    /// How to break the nodes on purpose: the swarm must notice
    #[arg(long, value_parser = tampering, default_value = "none")]
    broken: Tampering,
}

#[derive(Debug, Args)]
pub struct ReplayArguments {
    /// A file that a swarm wrote about a failing seed; this or --seed
    #[arg(required_unless_present = "seed", conflicts_with_all = ["seed", "faults"])]
    file: Option<PathBuf>,
    /// The seed of a run; instead of a file
    #[arg(long)]
    seed: Option<u64>,
    /// Only these faults, by number: 3,7,9 or none; all where absent
    #[arg(long, value_parser = clap::builder::ValueParser::new(fault_numbers))]
    faults: Option<BTreeSet<usize>>,
    /// How to break the nodes on purpose: none, heartbeats-revive-the-dead, or another that a wrong
    /// word brings up
    #[arg(long, value_parser = tampering, default_value = "none")]
    broken: Tampering,
}

/// What came of one seed. Its plan is drawn from the seed whenever it is needed.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Finding {
    /// What did not hold.
    failure: Option<String>,
    /// The faults that are enough to fail.
    enough: Option<BTreeSet<usize>>,
    /// From the end of all faults until the core agreed, where that was demanded.
    agreed_seconds: Option<f64>,
    coverage: Coverage,
}

impl Measurement for SwarmArguments {
    const NAME: &'static str = "swarm";
    type Run = u64;
    type Finding = Finding;

    fn running(&self) -> &Running {
        &self.running
    }

    fn runs(&self) -> Result<Vec<u64>, Trouble> {
        self.seeds.seeds()
    }

    fn measure(&self, &seed: &u64) -> Finding {
        let manner = Manner {
            tampering: self.broken,
            ..Manner::PLAIN
        };
        let Report {
            outcome, enough, ..
        } = try_seed(seed, manner);
        Finding {
            failure: outcome.failure.as_ref().map(ToString::to_string),
            enough,
            agreed_seconds: outcome.agreed.map(|length| length.as_secs_f64()),
            coverage: outcome.coverage,
        }
    }

    fn show(&self, &seed: &u64, finding: &Finding, output: &mut Output) -> Result<(), Trouble> {
        let plan = Plan::draw(seed);
        writeln!(output.text, "{plan}")?;
        if let Some(failure) = &finding.failure {
            return tell_failure(&plan, failure, finding, self.broken, output);
        }
        match finding.agreed_seconds {
            Some(agreed) => writeln!(output.text, "  agreed after {agreed:.1} s")?,
            None => writeln!(output.text, "  sound; damaged, so no agreement is demanded")?,
        }
        Ok(())
    }

    fn report(&self, found: &[(u64, Finding)], output: &mut Output) -> Result<(), Trouble> {
        let (runs, failed) = (found.len(), failed(found).count());
        let agreed = found
            .iter()
            .filter_map(|(_, finding)| finding.agreed_seconds);
        let slowest = agreed.fold(0.0, f64::max);
        writeln!(output.text, "{}", coverage(found))?;
        writeln!(
            output.text,
            "{runs} runs, {failed} failed; slowest agreement {slowest:.1} s"
        )?;
        let records: Vec<Value> = found.iter().map(record).collect();
        files::write(output.directory, "swarm.jsonl", &files::lines(&records))
    }

    fn broken(&self, found: &[(u64, Finding)]) -> Vec<String> {
        let failed: Vec<u64> = failed(found).collect();
        if !failed.is_empty() {
            return vec![format!("failed with the seeds {failed:?}")];
        }
        let missing = coverage(found).missing();
        if found.len() < COVERING_SEEDS || missing.is_empty() {
            return Vec::new();
        }
        let missing = missing.iter().map(|(of, word)| format!("{of} {word}"));
        let missing = missing.collect::<Vec<_>>().join(", ");
        let runs = found.len();
        vec![format!(
            "{runs} runs should have shown everything once, and never happened: {missing}; \
             take more seeds"
        )]
    }
}

fn failed(found: &[(u64, Finding)]) -> impl Iterator<Item = u64> {
    let failed = found
        .iter()
        .filter(|(_, finding)| finding.failure.is_some());
    failed.map(|&(seed, _)| seed)
}

fn coverage(found: &[(u64, Finding)]) -> Coverage {
    let mut sum = Coverage::default();
    for (_, finding) in found {
        sum.merge(&finding.coverage);
    }
    sum
}

fn record((seed, finding): &(u64, Finding)) -> Value {
    let plan = Plan::draw(*seed);
    json!({
        "seed": seed,
        "nodes": plan.starts.len(),
        "profile": plan.profile,
        "schedule": plan.config.schedule.as_str(),
        "faults": plan.faults.len(),
        "core": plan.core.len(),
        "agreed_seconds": finding.agreed_seconds,
        "failure": finding.failure,
    })
}

fn tell_failure(
    plan: &Plan,
    failure: &str,
    finding: &Finding,
    broken: Tampering,
    output: &mut Output,
) -> Result<(), Trouble> {
    let out = &mut *output.text;
    writeln!(out, "  FAILED {failure}")?;
    let all = || (0..plan.faults.len()).collect();
    let kept: BTreeSet<usize> = finding.enough.clone().unwrap_or_else(all);
    writeln!(out, "  these faults are enough:")?;
    for &number in &kept {
        if let Some(planned) = plan.faults.get(number) {
            writeln!(out, "  #{number} at {:?}: {}", planned.at, planned.fault)?;
        }
    }
    let numbers: Vec<_> = kept.iter().map(usize::to_string).collect();
    let numbers = if kept.is_empty() {
        "none".into()
    } else {
        numbers.join(",")
    };
    let word = word_of(broken);
    let also = match broken {
        Tampering::None => String::new(),
        _ => format!(" --broken {word}"),
    };
    let seed = plan.seed;
    writeln!(
        out,
        "  rumord-sim replay --seed {seed} --faults {numbers}{also}"
    )?;
    let saved = json!({"seed": seed, "faults": kept, "broken": word});
    let name = format!("seed-{seed}.json");
    files::write(output.directory, &name, &format!("{saved}\n"))
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
    let count = whole.faults.len();
    if let Some(wrong) = faults.iter().flatten().find(|&&number| number >= count) {
        let text = format!("seed {seed} has no fault {wrong}; its {count} faults count from 0");
        return Err(Trouble::Usage(text));
    }
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
