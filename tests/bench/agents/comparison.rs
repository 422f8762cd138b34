//! Clusters of several sizes: how long a death takes, that pauses are none, and what it costs.

use std::time::Duration;

use crate::cluster::Cluster;
use crate::report::median;

/// Serf's seconds from the kill until all call the member failed, by number of agents: profile lan,
/// medians, measured on the same class of machine.
const SERF_LAN: [(usize, &str); 5] = [
    (5, "5.8"),
    (20, "6.8"),
    (50, "8.7"),
    (100, "10.0"),
    (200, "11.1"),
];
/// The same with profile local.
const SERF_LOCAL: [(usize, &str); 1] = [(20, "5.7")];
/// Agents that stand still, one after another.
const PAUSES: usize = 3;
/// How much less than the pause tolerance they stand still.
const BELOW_TOLERANCE: Duration = Duration::from_millis(500);

/// What to compare.
pub struct Comparison {
    /// Sizes of the clusters.
    pub sizes: Vec<usize>,
    /// Kills in each.
    pub kills: usize,
    /// The agents' profile.
    pub profile: String,
    /// For how long a cluster is left alone to see what it sends.
    pub idle: Duration,
}

impl Comparison {
    /// The pause that nobody may be declared dead for.
    fn pause(&self) -> Duration {
        let tolerance = match self.profile.as_str() {
            "local" => Duration::from_secs(2),
            "lan" => Duration::from_secs(5),
            "wan" => Duration::from_secs(10),
            other => panic!("--profile {other}? local, lan or wan"),
        };
        tolerance - BELOW_TOLERANCE
    }

    fn serf(&self, nodes: usize) -> &'static str {
        let figures: &[(usize, &'static str)] = match self.profile.as_str() {
            "local" => &SERF_LOCAL,
            "lan" => &SERF_LAN,
            _ => &[],
        };
        let figure = figures.iter().find(|(size, _)| *size == nodes);
        figure.map_or("-", |(_, seconds)| seconds)
    }

    /// Measures each size and prints its line when it is done.
    pub fn run(&self) {
        let pause = self.pause();
        let (kills, profile) = (self.kills, &self.profile);
        println!(
            "kill -9 until dead in all tables, profile {profile}, {kills} kills each, seconds"
        );
        println!(
            "{:>6} {:>8} {:>8} {:>8} {:>8}   {:<18} {:>18}",
            "agents",
            "median",
            "least",
            "worst",
            "Serf",
            format!("pauses of {pause:.1?}"),
            "sent per agent"
        );
        for &nodes in &self.sizes {
            self.measure(nodes, pause);
        }
    }

    fn measure(&self, nodes: usize, pause: Duration) {
        let (mut cluster, _) = Cluster::start(nodes, &self.profile);
        // Settled members, killed at different points of their periods.
        let age = |kill| Duration::from_millis(10_000 + 370 * kill as u64);
        let deaths: Vec<f64> = (0..self.kills)
            .map(|kill| cluster.kill_one(age(kill)))
            .collect();
        let least = deaths.iter().copied().fold(f64::INFINITY, f64::min);
        let worst = deaths.iter().copied().fold(0.0, f64::max);
        let died: u64 = (0..PAUSES).map(|n| cluster.pause_one(n, pause)).sum();
        let pauses = match died {
            0 => "all survived".to_owned(),
            died => format!("{died} verdicts of death"),
        };
        let idle = cluster.idle(self.idle);
        println!(
            "{nodes:>6} {:>8.2} {least:>8.2} {worst:>8.2} {:>8}   {pauses:<18} {:>14.0} B/s",
            median(&deaths),
            self.serf(nodes),
            idle.udp_bytes_per_second + idle.tcp_bytes_per_second,
        );
    }
}
