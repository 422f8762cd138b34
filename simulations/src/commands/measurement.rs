//! What commands that measure have in common: many runs that know nothing of each other, and a
//! report on all of them. Runs of one command can be made anywhere, as `sweep` does, and be
//! reported together.

use std::io::Write;
use std::ops::ControlFlow;
use std::path::Path;

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::arguments::Running;
use super::progress::Progress;
use super::{Trouble, files};
use crate::parallel::in_order;

/// Where a report goes.
pub struct Output<'a> {
    /// The tables.
    pub text: &'a mut dyn Write,
    /// The directory for files; none are written without one.
    pub directory: Option<&'a Path>,
}

/// A command that measures. Its arguments alone say what all runs are, and all that is reported
/// follows from them and from the findings, so that a report can be made elsewhere and later.
pub trait Measurement: Serialize + DeserializeOwned + Sync {
    /// The command's word.
    const NAME: &'static str;
    /// Everything that one run depends on.
    type Run: Sync;
    /// What one run has shown.
    type Finding: Serialize + DeserializeOwned + Send;

    /// How it is to be run here. No finding depends on it.
    fn running(&self) -> &Running;

    /// All runs, in the order of the report.
    ///
    /// # Errors
    /// The arguments ask for something impossible.
    fn runs(&self) -> Result<Vec<Self::Run>, Trouble>;

    /// Makes one run.
    fn measure(&self, run: &Self::Run) -> Self::Finding;

    /// Shows one run as soon as it and all before it are over.
    ///
    /// # Errors
    /// The output cannot be written.
    fn show(&self, _: &Self::Run, _: &Self::Finding, _: &mut Output) -> Result<(), Trouble> {
        Ok(())
    }

    /// Writes the tables and files about all runs.
    ///
    /// # Errors
    /// The output cannot be written.
    fn report(&self, found: &[Found<Self>], output: &mut Output) -> Result<(), Trouble>;

    /// The promises that these runs, all of them or a part, have broken.
    fn broken(&self, found: &[Found<Self>]) -> Vec<String>;
}

/// A run and what it has shown.
pub type Found<M> = (<M as Measurement>::Run, <M as Measurement>::Finding);

/// Makes all runs and reports on them.
///
/// # Errors
/// A broken promise, or arguments and outputs that are of no use.
pub fn perform<M: Measurement>(measurement: &M, text: &mut dyn Write) -> Result<(), Trouble> {
    let directory = measurement.running().out.as_deref();
    files::prepare(directory)?;
    let mut output = Output { text, directory };
    let found = measure(measurement, measurement.runs()?, |run, finding| {
        measurement.show(run, finding, &mut output)
    })?;
    measurement.report(&found, &mut output)?;
    judge(measurement, &found)
}

/// Makes `runs`, and hands each to `show` in their order.
///
/// # Errors
/// The first of `show`.
pub fn measure<M: Measurement>(
    measurement: &M,
    runs: Vec<M::Run>,
    mut show: impl FnMut(&M::Run, &M::Finding) -> Result<(), Trouble>,
) -> Result<Vec<Found<M>>, Trouble> {
    let threads = measurement.running().threads;
    let progress = Progress::of(M::NAME, runs.len());
    let mut findings = Vec::with_capacity(runs.len());
    let mut shown = Ok(());
    let work = |run: &M::Run| {
        let finding = measurement.measure(run);
        progress.advance();
        finding
    };
    in_order(&runs, threads, work, |run, finding| {
        shown = progress.aside(|| show(run, &finding));
        findings.push(finding);
        match shown {
            Ok(()) => ControlFlow::Continue(()),
            Err(_) => ControlFlow::Break(()),
        }
    });
    shown?;
    Ok(runs.into_iter().zip(findings).collect())
}

/// Whether these runs have kept all promises.
///
/// # Errors
/// The promises that they have broken.
pub fn judge<M: Measurement>(measurement: &M, found: &[Found<M>]) -> Result<(), Trouble> {
    let broken = measurement.broken(found);
    match broken.is_empty() {
        true => Ok(()),
        false => Err(Trouble::Broken(broken.join("; "))),
    }
}
