//! The printed table.

/// From here on the figures of 100 agents are nearer than those of 20.
const MANY: usize = 60;

/// Rows of figures beside the reference.
pub struct Report {
    nodes: usize,
    lines: Vec<String>,
}

impl Report {
    /// An empty table about a cluster of `nodes`.
    pub fn new(nodes: usize) -> Self {
        Report {
            nodes,
            lines: Vec::new(),
        }
    }

    /// One figure, its unit, and Serf's with 20 and with 100 agents, of which the nearer is shown.
    pub fn row(&mut self, what: &str, figure: f64, unit: &str, serf: [&str; 2]) {
        let serf = serf[usize::from(self.nodes >= MANY)];
        self.lines.push(format!(
            "{what:<48} {figure:>10.2} {unit:<5} {serf:>8} {unit}"
        ));
    }

    /// The extremes of several figures.
    pub fn spread(&mut self, what: &str, figures: &[f64]) {
        let least = figures.iter().copied().fold(f64::INFINITY, f64::min);
        let most = figures.iter().copied().fold(0.0, f64::max);
        self.lines
            .push(format!("{what:<48} {least:>10.2} to {most:.2} s"));
    }

    /// Prints it.
    pub fn print(&self) {
        println!(
            "{:<48} {:>10} {:<5} {:>8}",
            format!("{} agents", self.nodes),
            "rumord",
            "",
            "Serf"
        );
        for line in &self.lines {
            println!("{line}");
        }
    }
}

/// The middle figure.
pub fn median(figures: &[f64]) -> f64 {
    let mut sorted = figures.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len() / 2).copied().unwrap_or(f64::NAN)
}
