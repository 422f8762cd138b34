//! What is wrong with the settings, and where.

use std::fmt;
use std::path::PathBuf;

use super::keys::Key;

/// Exit code of a wrong command line.
const USAGE: u8 = 2;
/// Exit code of a wrong environment variable or file.
const BAD_CONFIGURATION: u8 = 78;

/// Where a value was given.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Place {
    /// In a file, at a line counted from 1.
    Line(PathBuf, usize),
    /// In an environment variable.
    Variable(String),
    /// As a flag.
    Flag(String),
}

/// A setting that cannot be used, by the operator's mistake. Displays as one line that says where,
/// what and the remedy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SettingsError {
    origin: Origin,
    problem: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Origin {
    Value(Place),
    WholeFile(PathBuf),
    Host,
}

impl SettingsError {
    /// A wrong `text` for `key`: `reason` says what is wrong and the remedy.
    pub(super) fn value(place: &Place, key: &Key, text: &str, reason: &str) -> Self {
        match place {
            // The place is the flag's or the variable's name already.
            Place::Flag(_) | Place::Variable(_) => Self::at(place, format!("{text:?}: {reason}")),
            Place::Line(..) => Self::at(place, format!("{} = {text:?}: {reason}", key.file_key())),
        }
    }

    /// Something wrong at `place`.
    pub(super) fn at(place: &Place, problem: String) -> Self {
        Self::new(Origin::Value(place.clone()), &problem)
    }

    /// A file that cannot be read at all.
    pub(super) fn file(path: PathBuf, problem: &str) -> Self {
        Self::new(Origin::WholeFile(path), problem)
    }

    /// No usable name of this host.
    pub(super) fn host(problem: String) -> Self {
        Self::new(Origin::Host, &problem)
    }

    fn new(origin: Origin, problem: &str) -> Self {
        // Control characters of a file's text must not break the line apart.
        let problem = problem.replace(char::is_control, " ");
        SettingsError { origin, problem }
    }

    /// The process's exit code: 2 for a wrong flag, 78 for a wrong variable or file.
    #[must_use]
    pub fn exit_code(&self) -> u8 {
        match self.origin {
            Origin::Value(Place::Flag(_)) => USAGE,
            _ => BAD_CONFIGURATION,
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::Flag(name) | Place::Variable(name) => f.write_str(name),
            Place::Line(path, line) => write!(f, "{}:{line}", path.display()),
        }
    }
}

impl fmt::Display for SettingsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let problem = &self.problem;
        match &self.origin {
            Origin::Value(place) => write!(f, "{place}: {problem}"),
            Origin::WholeFile(path) => write!(f, "{}: {problem}", path.display()),
            Origin::Host => write!(f, "{problem}; give the member a name with --name"),
        }
    }
}

impl std::error::Error for SettingsError {}
