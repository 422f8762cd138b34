//! `scale`.

use std::io::Write;
use std::time::Duration;

use clap::{Args, value_parser};

use super::Trouble;
use super::arguments::{cluster, gibibytes};
use crate::scale::{Scale, scale};

const GIBIBYTE: f64 = (1_u64 << 30) as f64;

#[derive(Debug, Args)]
pub struct ScaleArguments {
    /// Members; each knows all others from the start
    #[arg(long, value_parser = cluster, default_value_t = 16_384)]
    nodes: usize,
    /// Virtual seconds; a member crashes 15 seconds before the end
    #[arg(long, default_value_t = 30, value_parser = value_parser!(u64).range(16..=1_000_000))]
    seconds: u64,
    /// The seed
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Fail above so many GiB of memory
    #[arg(long, value_parser = gibibytes)]
    memory_max: Option<f64>,
}

/// Runs one large cluster, and tells what it takes. Alone among the commands it prints other
/// figures each time: seconds and bytes are the machine's.
pub fn scale_one(arguments: &ScaleArguments, out: &mut impl Write) -> Result<(), Trouble> {
    let ScaleArguments { nodes, seconds, .. } = *arguments;
    if nodes < 3 {
        let text = "one crashes and two must agree; give --nodes 3 or more".to_owned();
        return Err(Trouble::Usage(text));
    }
    let found = scale(nodes, Duration::from_secs(seconds), arguments.seed);
    tell(arguments, &found, out)?;
    judge(arguments, &found)
}

fn tell(arguments: &ScaleArguments, found: &Scale, out: &mut impl Write) -> Result<(), Trouble> {
    let ScaleArguments { nodes, seconds, .. } = *arguments;
    writeln!(out, "{nodes} members, {seconds} virtual seconds, one crash")?;
    let mut line = |what: &str, figure: String| writeln!(out, "  {what:<34} {figure}");
    line("set up in", format!("{:.1} s", found.setup))?;
    line("run in", format!("{:.1} s", found.wall))?;
    let rate = found.events as f64 / found.wall.max(f64::MIN_POSITIVE);
    line("events", found.events.to_string())?;
    line("events per second", format!("{rate:.0}"))?;
    let periods = nodes as f64 * seconds as f64 / found.wall.max(f64::MIN_POSITIVE);
    line("node-periods per second", format!("{periods:.0}"))?;
    if let (Some(empty), Some(peak)) = (found.empty, found.peak) {
        let pairs = nodes as f64 * nodes as f64;
        let each = peak.saturating_sub(empty) as f64 / pairs;
        line(
            "memory at most",
            format!("{:.2} GiB", peak as f64 / GIBIBYTE),
        )?;
        line("bytes per member known by a node", format!("{each:.1}"))?;
    }
    let buried = found
        .buried
        .map_or("never".to_owned(), |s| format!("{s:.2} s"));
    line("crash known everywhere after", buried)?;
    line(
        "all tables equal",
        if found.agreed { "yes" } else { "no" }.to_owned(),
    )?;
    Ok(())
}

fn judge(arguments: &ScaleArguments, found: &Scale) -> Result<(), Trouble> {
    let peak = found.peak.map(|peak| peak as f64 / GIBIBYTE);
    let broken = match (peak, arguments.memory_max) {
        (Some(peak), Some(most)) if peak > most => format!("{peak:.2} GiB are above {most} GiB"),
        _ if found.buried.is_none() => "the crash was not known everywhere".to_owned(),
        _ if !found.agreed => "the tables differ".to_owned(),
        _ => return Ok(()),
    };
    Err(Trouble::Broken(broken))
}
