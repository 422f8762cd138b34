//! A bar on the terminal while runs are made; it goes when they are over. Files and pipes see
//! nothing of it, and no output depends on it: it shows the time of the wall.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressFinish, ProgressStyle};

/// Share, count, elapsed time, and the time that the rest will take at the present speed.
const TEMPLATE: &str = "{prefix} [{bar:30}] {percent} %, {pos} of {len}, {elapsed}, {eta} left";
/// How often the elapsed time moves on while no run ends.
const TICK: Duration = Duration::from_secs(1);

/// The bar.
pub struct Progress {
    bar: ProgressBar,
}

impl Progress {
    /// A bar for so many runs, with a word before it. It is drawn on stderr, and not at all where
    /// that is no terminal.
    pub fn of(what: &'static str, runs: usize) -> Self {
        let style = ProgressStyle::with_template(TEMPLATE).expect("a test reads the template");
        let bar = ProgressBar::new(runs as u64)
            .with_style(style.progress_chars("=> "))
            .with_prefix(what)
            .with_finish(ProgressFinish::AndClear);
        if !bar.is_hidden() {
            bar.enable_steady_tick(TICK);
        }
        Progress { bar }
    }

    /// One more run is over.
    pub fn advance(&self) {
        self.bar.inc(1);
    }

    /// Takes the bar away while `write` writes to what may be the same terminal.
    pub fn aside<R>(&self, write: impl FnOnce() -> R) -> R {
        self.bar.suspend(write)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bar_counts_runs() {
        let progress = Progress::of("detect", 3);
        progress.advance();
        assert_eq!(progress.aside(|| "written"), "written");
        assert_eq!(progress.bar.position(), 1);
        assert_eq!(progress.bar.length(), Some(3));
    }
}
