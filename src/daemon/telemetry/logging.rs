//! Log lines: text on a terminal, JSON for machines, always on stderr.

use std::io::IsTerminal;

use thiserror::Error;
use tracing_subscriber::filter::EnvFilter;
use tracing_subscriber::fmt::SubscriberBuilder;
use tracing_subscriber::fmt::format::{DefaultFields, Format};

use super::writer::LineWriter;
use crate::daemon::settings::LogFormat;

/// Words that are a level on their own.
const LEVELS: [&str; 6] = ["off", "error", "warn", "info", "debug", "trace"];

/// Why logging cannot start.
#[derive(Debug, Error)]
pub enum LoggingError {
    /// The level is neither a level nor a list of `target=level`. The operator's fault.
    #[error("log_level = {0:?} is not off, error, warn, info, debug or trace; choose one")]
    Level(String),
    /// The system gave no thread to write lines with.
    #[error("cannot start the log writer ({0})")]
    Thread(#[from] std::io::Error),
}

/// Holds the log open: when dropped, the lines so far get a moment to be written.
#[must_use = "the last lines may be lost when it is dropped early"]
pub struct LogGuard(LineWriter);

impl Drop for LogGuard {
    fn drop(&mut self) {
        self.0.flush();
    }
}

/// Starts logging to stderr. A process that logs already keeps its logger.
///
/// Dropping the result waits briefly for the last lines.
///
/// # Errors
/// The level is unknown, or the system gave no thread.
pub fn init(format: LogFormat, level: &str) -> Result<LogGuard, LoggingError> {
    let filter = filter(level)?;
    let terminal = std::io::stderr().is_terminal();
    let colour = terminal && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    let writer = LineWriter::start(std::io::stderr())?;
    let guard = LogGuard(writer.clone());
    let builder = builder(filter, writer);
    // An error means that the embedding program has a logger; its choice stands.
    let _ = match format {
        LogFormat::Text => set(builder.with_ansi(colour).finish()),
        LogFormat::Auto if terminal => set(builder.with_ansi(colour).finish()),
        LogFormat::Auto | LogFormat::Json => set(builder
            .json()
            .flatten_event(true)
            .with_current_span(false)
            .finish()),
    };
    Ok(guard)
}

fn set(
    subscriber: impl tracing::Subscriber + Send + Sync,
) -> Result<(), tracing::subscriber::SetGlobalDefaultError> {
    tracing::subscriber::set_global_default(subscriber)
}

fn builder(
    filter: EnvFilter,
    writer: LineWriter,
) -> SubscriberBuilder<DefaultFields, Format, EnvFilter, LineWriter> {
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(writer)
}

/// A bare word must be a level: the filter syntax would take any other for a target's name.
fn filter(level: &str) -> Result<EnvFilter, LoggingError> {
    let refuse = || LoggingError::Level(level.to_owned());
    let bare = !level.contains(['=', ',', '[']);
    if bare && !LEVELS.contains(&level.to_ascii_lowercase().as_str()) {
        return Err(refuse());
    }
    EnvFilter::try_new(level).map_err(|_| refuse())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_and_filters_are_accepted_and_typos_are_not() {
        for level in ["info", "WARN", "off", "warn,rumord::node=debug"] {
            assert!(filter(level).is_ok(), "{level}");
        }
        for level in ["", "verbose", "rumord=loud"] {
            let error = filter(level).expect_err("no level");
            assert!(error.to_string().contains("choose one"), "{error}");
        }
    }
}
