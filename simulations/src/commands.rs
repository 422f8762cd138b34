//! The commands of `rumord-sim`. Each writes its table to `out`, the same bytes for the same
//! arguments, on any number of threads.

mod arguments;
mod compare;
mod converge;
mod detect;
mod events;
mod exchange;
mod files;
mod interval;
mod measurement;
mod part;
mod progress;
mod scale;
mod scenario;
mod shard;
mod swarm;
mod sweep;

use std::fmt;
use std::io::Write;
use std::path::PathBuf;

use clap::{Parser, Subcommand};

pub use arguments::Span;
use measurement::perform;

/// rumord's protocol in virtual time.
#[derive(Debug, Parser)]
#[command(
    name = "rumord-sim",
    version,
    about = "rumord's protocol core in virtual time"
)]
pub struct CommandLine {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Random faults against random clusters; fails when an invariant does not hold
    Swarm(swarm::SwarmArguments),
    /// One run of a swarm again, with its trace
    Replay(swarm::ReplayArguments),
    /// Time until all know one change, against the size of the cluster
    Converge(converge::ConvergeArguments),
    /// How long one event takes until its sender knows that all have it, and what that costs
    Events(events::EventsArguments),
    /// How long a crash takes to be found, and mistakes
    Detect(detect::DetectArguments),
    /// Lifeguard's experiment: some members are slow again and again, and one that is not crashes
    Interval(interval::IntervalArguments),
    /// One part of swarm, converge, detect, interval or compare, for several machines
    ///
    /// `sweep --shard 0/4 detect --nodes 128 --out DIR` makes every fourth run of that command and
    /// leaves what they showed in DIR/detect-0-of-4.jsonl; `merge DIR` reports on all parts. The
    /// exit code says whether the runs of this part have kept all promises; the file is written
    /// either way.
    Sweep(sweep::SweepArguments),
    /// The report on all parts of a sweep, the same bytes as from one process
    Merge(sweep::MergeArguments),
    /// The same measures on foca 2.0, Lifeguard and SWIM in the same world, and SWIM's formulas
    Compare(compare::CompareArguments),
    /// The memory and time that a large cluster with full tables takes
    Scale(scale::ScaleArguments),
    /// What an exchange of two tables that differ costs, beside both tables in full
    Exchange(exchange::ExchangeArguments),
    /// A story with figures and bounds; lists them without a name
    Scenario(scenario::ScenarioArguments),
}

/// Why a command did not end well.
#[derive(Debug)]
pub enum Trouble {
    /// The protocol did not do what it promises.
    Broken(String),
    /// The operator asked for something impossible; says what and the remedy.
    Usage(String),
    /// A file could not be read or written.
    File(PathBuf, std::io::Error),
    /// The output could not be written.
    Output(std::io::Error),
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Trouble::Broken(text) | Trouble::Usage(text) => f.write_str(text),
            Trouble::File(path, error) => write!(f, "{}: {error}", path.display()),
            Trouble::Output(error) => write!(f, "the output cannot be written: {error}"),
        }
    }
}

impl std::error::Error for Trouble {}

impl From<std::io::Error> for Trouble {
    fn from(error: std::io::Error) -> Self {
        Trouble::Output(error)
    }
}

/// Does what the command line says.
///
/// # Errors
/// A promise of the protocol that does not hold, or arguments, files and outputs that are of no
/// use.
pub fn run(command_line: &CommandLine, out: &mut impl Write) -> Result<(), Trouble> {
    match &command_line.command {
        Command::Swarm(arguments) => perform(arguments, out),
        Command::Replay(arguments) => swarm::replay(arguments, out),
        Command::Converge(arguments) => perform(arguments, out),
        Command::Events(arguments) => perform(arguments, out),
        Command::Detect(arguments) => perform(arguments, out),
        Command::Interval(arguments) => perform(arguments, out),
        Command::Sweep(arguments) => sweep::sweep(arguments, out),
        Command::Merge(arguments) => sweep::merge(arguments, out),
        Command::Compare(arguments) => compare::compare(arguments, out),
        Command::Scale(arguments) => scale::scale_one(arguments, out),
        Command::Exchange(arguments) => exchange::exchange_tables(arguments, out),
        Command::Scenario(arguments) => scenario::scenario(arguments, out),
    }
}
