//! What the agent tells of itself: log lines on stderr and metrics.

mod journal;
mod logging;
mod metrics;
mod process;
mod writer;

use std::sync::Arc;
use std::time::Duration;

pub use self::logging::{LogGuard, LoggingError, init as init_logging};
pub use self::metrics::Metrics;

use self::journal::Journal;
use crate::node::Observer;
use crate::protocol::Event;

/// How often histograms are folded, so that their memory stays bounded between scrapes.
const UPKEEP_PERIOD: Duration = Duration::from_secs(5);

/// Counts and logs what the node tells.
///
/// It is called on the protocol's task, so it does no more than count and queue: the lines are
/// written by a thread of their own.
pub struct Telemetry {
    metrics: Arc<Metrics>,
    journal: Journal,
}

impl Telemetry {
    /// Starts the thread that writes the lines.
    ///
    /// # Errors
    /// The system gave no thread.
    pub fn start() -> std::io::Result<Self> {
        Ok(Telemetry {
            metrics: Arc::new(Metrics::new()),
            journal: Journal::start()?,
        })
    }

    /// The metrics this feeds.
    #[must_use]
    pub fn metrics(&self) -> Arc<Metrics> {
        self.metrics.clone()
    }
}

impl Observer for Telemetry {
    fn event(&self, event: &Event) {
        self.metrics.observe(event);
        self.journal.note(event);
    }
}

/// Folds histograms for ever; to be run beside the agent.
pub async fn upkeep(metrics: Arc<Metrics>) {
    let mut ticks = tokio::time::interval(UPKEEP_PERIOD);
    loop {
        ticks.tick().await;
        metrics.upkeep();
    }
}
