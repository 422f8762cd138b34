//! The file that one shard of a sweep leaves: a header, then a line for each of its runs.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::measurement::{Found, Measurement};
use super::shard::Shard;
use super::{Trouble, files};

/// This program's. Another one may draw other runs from the same seeds.
const VERSION: &str = env!("CARGO_PKG_VERSION");
/// Ends the name of every such file.
const EXTENSION: &str = ".jsonl";

/// The first line: all that must be equal in the parts of one sweep, and which part it is.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Header {
    /// The command's word.
    pub sweep: String,
    version: String,
    /// Which part.
    pub shard: Shard,
    /// The command's arguments, those left out of findings excepted.
    pub arguments: Value,
}

/// A line after the header.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Line<F> {
    run: usize,
    finding: F,
}

/// A part as it was read.
pub struct Part {
    /// The file.
    pub path: PathBuf,
    /// Its first line.
    pub header: Header,
    /// The other lines.
    lines: Vec<String>,
}

/// The name of a part's file.
pub fn name(sweep: &str, shard: Shard) -> String {
    format!("{sweep}-{}-of-{}{EXTENSION}", shard.index, shard.count)
}

/// Whether a file of this name is one of [`name`].
pub fn is_name(name: &str) -> bool {
    let shard = || {
        let (rest, count) = name.strip_suffix(EXTENSION)?.rsplit_once("-of-")?;
        let (_, index) = rest.rsplit_once('-')?;
        format!("{index}/{count}").parse::<Shard>().ok()
    };
    shard().is_some()
}

/// Writes the part, all of it or nothing, into `directory`.
///
/// # Errors
/// It cannot be written.
pub fn write<M: Measurement>(
    measurement: &M,
    shard: Shard,
    found: &[Found<M>],
    directory: &Path,
) -> Result<(), Trouble> {
    let header = json!(Header {
        sweep: M::NAME.to_owned(),
        version: VERSION.to_owned(),
        shard,
        arguments: json!(measurement),
    });
    let numbers = shard.numbers(usize::MAX);
    let numbered = numbers.zip(found);
    let line = |(run, (_, finding)): (usize, &Found<M>)| json!({"run": run, "finding": finding});
    let lines: Vec<Value> = std::iter::once(header).chain(numbered.map(line)).collect();
    files::write(
        Some(directory),
        &name(M::NAME, shard),
        &files::lines(&lines),
    )
}

impl Part {
    /// Reads a part. Its findings are looked at later.
    ///
    /// # Errors
    /// It cannot be read, or was not written by `sweep`, or by another version of it.
    pub fn read(path: &Path) -> Result<Self, Trouble> {
        let text = files::read(path)?;
        let mut lines = text.lines().map(str::to_owned);
        let first = lines.next().unwrap_or_default();
        let header: Header = serde_json::from_str(&first).map_err(|error| {
            let what = without_place(&error);
            at(
                path,
                1,
                &format!("no header of a sweep ({what}); give files that sweep wrote"),
            )
        })?;
        if header.version != VERSION {
            let text = format!(
                "written by version {}, but this is {VERSION}; merge with the one that wrote it",
                header.version
            );
            return Err(at(path, 1, &text));
        }
        Ok(Part {
            path: path.to_owned(),
            header,
            lines: lines.collect(),
        })
    }

    /// The findings with the numbers of their runs, of which the whole sweep has `runs`.
    ///
    /// # Errors
    /// The first line that is no finding of the run that belongs there, or none where one should
    /// be.
    pub fn findings<M: Measurement>(&self, runs: usize) -> Result<Vec<M::Finding>, Trouble> {
        let shard = self.header.shard;
        let remedy = format!("make it again with sweep --shard {shard}");
        let numbers: Vec<usize> = shard.numbers(runs).collect();
        let mut findings = Vec::with_capacity(numbers.len());
        for (place, text) in self.lines.iter().enumerate() {
            let number = place + 2;
            let line: Line<M::Finding> = serde_json::from_str(text).map_err(|error| {
                let what = without_place(&error);
                at(
                    &self.path,
                    number,
                    &format!("no finding of {} ({what}); {remedy}", M::NAME),
                )
            })?;
            if numbers.get(place) != Some(&line.run) {
                let text = format!("run {} does not belong here; {remedy}", line.run);
                return Err(at(&self.path, number, &text));
            }
            findings.push(line.finding);
        }
        match numbers.get(findings.len()) {
            None => Ok(findings),
            Some(missing) => {
                let text = format!("ends before run {missing}; {remedy}");
                Err(at(&self.path, findings.len() + 1, &text))
            }
        }
    }
}

/// What is wrong with a line of a file.
pub fn at(path: &Path, line: usize, what: &str) -> Trouble {
    Trouble::Usage(format!("{}:{line}: {what}", path.display()))
}

/// Every value is one line, so that the place in it would only confuse.
fn without_place(error: &serde_json::Error) -> String {
    let text = error.to_string();
    let end = text.find(" at line ").unwrap_or(text.len());
    text[..end].to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_is_known_by_its_name() {
        let shard = Shard {
            index: 2,
            count: 12,
        };
        assert_eq!(name("detect", shard), "detect-2-of-12.jsonl");
        assert!(is_name(&name("detect", shard)));
        for other in [
            "detect.jsonl",
            "detect-2-of-2.jsonl",
            "detect-2-of-12.jsonl.part",
            "x",
        ] {
            assert!(!is_name(other), "{other}");
        }
    }
}
