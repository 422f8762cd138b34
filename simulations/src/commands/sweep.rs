//! `sweep` and `merge`: the runs of one command, made on several machines.

use std::io::Write;
use std::path::PathBuf;

use clap::{Args, Subcommand};
use serde_json::{Map, Value, json};

use super::compare::CompareArguments;
use super::converge::ConvergeArguments;
use super::detect::DetectArguments;
use super::interval::IntervalArguments;
use super::measurement::{Found, Measurement, Output, judge, measure};
use super::part::{self, Part};
use super::shard::Shard;
use super::swarm::SwarmArguments;
use super::{Trouble, files};

/// Parts that an error lists; the others it counts.
const LISTED_MAX: usize = 5;

#[derive(Debug, Args)]
pub struct SweepArguments {
    /// Which part, as i/n: i counts from 0 to n-1, as JOB_COMPLETION_INDEX of Kubernetes
    #[arg(long, value_name = "I/N", global = true)]
    shard: Option<Shard>,
    #[command(subcommand)]
    command: Swept,
}

/// Commands that can be made in parts.
#[derive(Debug, Subcommand)]
enum Swept {
    /// Random faults against random clusters
    Swarm(SwarmArguments),
    /// Time until all know one change
    Converge(ConvergeArguments),
    /// How long a crash takes to be found, and mistakes
    Detect(DetectArguments),
    /// Lifeguard's experiment with slow members
    Interval(IntervalArguments),
    /// Changes, crashes, pauses and partitions of several protocols
    Compare(CompareArguments),
}

#[derive(Debug, Args)]
pub struct MergeArguments {
    /// Directories with files that `sweep` wrote, or such files
    #[arg(required = true, value_name = "DIR")]
    parts: Vec<PathBuf>,
    /// Directory for what is written: JSON lines and pictures, named like the command
    #[arg(long)]
    out: Option<PathBuf>,
}

/// Makes the runs of one shard, and leaves them in a file.
///
/// # Errors
/// A promise that these runs have broken, or arguments and files that are of no use.
pub fn sweep(arguments: &SweepArguments, text: &mut impl Write) -> Result<(), Trouble> {
    let Some(shard) = arguments.shard else {
        let text = "which part is to be made? give --shard i/n, as 0/4 for the first of four";
        return Err(Trouble::Usage(text.to_owned()));
    };
    match &arguments.command {
        Swept::Swarm(command) => sweep_part(command, shard, text),
        Swept::Converge(command) => sweep_part(command, shard, text),
        Swept::Detect(command) => sweep_part(command, shard, text),
        Swept::Interval(command) => sweep_part(command, shard, text),
        Swept::Compare(command) => {
            command.refuse_speed()?;
            sweep_part(command, shard, text)
        }
    }
}

fn sweep_part<M: Measurement>(
    measurement: &M,
    shard: Shard,
    text: &mut impl Write,
) -> Result<(), Trouble> {
    let Some(directory) = measurement.running().out.as_deref() else {
        let text = "a shard must leave its findings somewhere; give --out DIR".to_owned();
        return Err(Trouble::Usage(text));
    };
    files::prepare(Some(directory))?;
    let runs = measurement.runs()?;
    let all = runs.len();
    let part: Vec<M::Run> = runs
        .into_iter()
        .skip(shard.index)
        .step_by(shard.count)
        .collect();
    let found = measure(measurement, part, |_, _| Ok(()))?;
    part::write(measurement, shard, &found, directory)?;
    let path = directory.join(part::name(M::NAME, shard));
    let (command, count) = (M::NAME, found.len());
    writeln!(
        text,
        "{command}, shard {shard}: {count} of {all} runs in {}",
        path.display()
    )?;
    judge(measurement, &found)
}

/// Reports on all parts of a sweep as the command itself would have.
///
/// # Errors
/// A promise that the runs have broken, or parts that do not make up one sweep.
pub fn merge(arguments: &MergeArguments, text: &mut impl Write) -> Result<(), Trouble> {
    let paths = paths(&arguments.parts)?;
    let parts: Result<Vec<Part>, Trouble> = paths.iter().map(|path| Part::read(path)).collect();
    let mut parts = parts?;
    parts.sort_by_key(|part| part.header.shard);
    let Some(first) = parts.first() else {
        return Err(Trouble::Usage(
            "nothing to merge; give a sweep's directory".to_owned(),
        ));
    };
    for other in &parts[1..] {
        demand_one_sweep(first, other)?;
    }
    demand_all_shards(&parts)?;
    let mut output = Output {
        text,
        directory: arguments.out.as_deref(),
    };
    match first.header.sweep.as_str() {
        SwarmArguments::NAME => merge_parts::<SwarmArguments>(&parts, &mut output),
        ConvergeArguments::NAME => merge_parts::<ConvergeArguments>(&parts, &mut output),
        DetectArguments::NAME => merge_parts::<DetectArguments>(&parts, &mut output),
        IntervalArguments::NAME => merge_parts::<IntervalArguments>(&parts, &mut output),
        CompareArguments::NAME => merge_parts::<CompareArguments>(&parts, &mut output),
        other => {
            let text = format!("{other:?} is no command that can be swept; see sweep --help");
            Err(part::at(&first.path, 1, &text))
        }
    }
}

/// The files that these paths are or hold.
fn paths(given: &[PathBuf]) -> Result<Vec<PathBuf>, Trouble> {
    let mut paths = Vec::new();
    for path in given {
        if !path.is_dir() {
            paths.push(path.clone());
            continue;
        }
        let found = files::list(path)?;
        let part = |path: &&PathBuf| {
            let name = path.file_name().and_then(|name| name.to_str());
            name.is_some_and(part::is_name)
        };
        let before = paths.len();
        paths.extend(found.iter().filter(part).cloned());
        if paths.len() == before {
            let path = path.display();
            let text = format!("{path} holds no file of a sweep; give a directory of sweep --out");
            return Err(Trouble::Usage(text));
        }
    }
    Ok(paths)
}

fn demand_one_sweep(one: &Part, other: &Part) -> Result<(), Trouble> {
    let (ours, theirs) = (settled(one), settled(other));
    let mut keys = ours.keys().chain(theirs.keys());
    let Some(key) = keys.find(|&key| ours.get(key) != theirs.get(key)) else {
        return Ok(());
    };
    let [ours, theirs] = [&ours, &theirs].map(|it| it.get(key).cloned().unwrap_or_default());
    let (one, other) = (one.path.display(), other.path.display());
    Err(Trouble::Usage(format!(
        "{one} and {other} are of different sweeps: {key} is {ours} and {theirs}; merge one \
         sweep at a time"
    )))
}

/// What all parts of one sweep have in common.
fn settled(part: &Part) -> Map<String, Value> {
    let header = &part.header;
    let mut settled = header.arguments.as_object().cloned().unwrap_or_default();
    settled.insert("command".to_owned(), json!(header.sweep));
    settled.insert("shards".to_owned(), json!(header.shard.count));
    settled
}

/// `parts` are sorted by their shards, and all of one sweep.
fn demand_all_shards(parts: &[Part]) -> Result<(), Trouble> {
    let doubled = parts
        .windows(2)
        .find(|pair| pair[0].header.shard == pair[1].header.shard);
    if let Some([one, other]) = doubled {
        let (shard, one, other) = (one.header.shard, one.path.display(), other.path.display());
        let text = format!("{one} and {other} are both shard {shard}; give one of them");
        return Err(Trouble::Usage(text));
    }
    let count = parts.first().map_or(0, |part| part.header.shard.count);
    let missing = count - parts.len();
    if missing == 0 {
        return Ok(());
    }
    let there = |index: &usize| parts.binary_search_by_key(index, |part| part.header.shard.index);
    let absent = (0..count).filter(|index| there(index).is_err());
    let listed = absent
        .take(LISTED_MAX)
        .map(|index| Shard { index, count }.to_string());
    let listed = listed.collect::<Vec<_>>().join(", ");
    let more = match missing.saturating_sub(LISTED_MAX) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    Err(Trouble::Usage(format!(
        "{missing} of {count} shards missing: {listed}{more}; give their files too, or make \
         them with sweep --shard"
    )))
}

fn merge_parts<M: Measurement>(parts: &[Part], output: &mut Output) -> Result<(), Trouble> {
    let measurement: M = measurement(&parts[0])?;
    let found = gather(&measurement, parts)?;
    for (run, finding) in &found {
        measurement.show(run, finding, output)?;
    }
    measurement.report(&found, output)?;
    judge(&measurement, &found)
}

/// The command that the part is of.
fn measurement<M: Measurement>(part: &Part) -> Result<M, Trouble> {
    let arguments = &part.header.arguments;
    let measurement = serde_json::from_value(arguments.clone()).ok();
    // An argument that is not known here would be left out of what is written again.
    let known = measurement.filter(|measurement| json!(measurement) == *arguments);
    known.ok_or_else(|| {
        let text = format!(
            "{arguments} are no arguments of {}; merge with the program that \
                            wrote them",
            M::NAME
        );
        part::at(&part.path, 1, &text)
    })
}

/// All runs in the order of the command; `parts` are all shards in their order.
fn gather<M: Measurement>(measurement: &M, parts: &[Part]) -> Result<Vec<Found<M>>, Trouble> {
    let runs = measurement.runs()?;
    let mut columns = Vec::with_capacity(parts.len());
    for part in parts {
        columns.push(part.findings::<M>(runs.len())?.into_iter());
    }
    let count = columns.len();
    let next = |(number, run): (usize, M::Run)| Some((run, columns[number % count].next()?));
    Ok(runs.into_iter().enumerate().filter_map(next).collect())
}
