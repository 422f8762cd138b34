//! The table of speeds, the one that is not the same every time.

use std::io::Write;

use crate::commands::Trouble;
use crate::compare::speed::{Speeds, speeds};
use crate::fit::Sample;

/// Measures and tells how fast idle clusters of these sizes are simulated.
pub fn tell(sizes: &[usize], turns: u64, seed: u64, out: &mut impl Write) -> Result<(), Trouble> {
    writeln!(
        out,
        "thousands of node-periods per second of wall time, idle, one thread, {turns} turns each; \
         depends on the machine"
    )?;
    writeln!(
        out,
        "{:>7} {:>22} {:>22} {:>13}",
        "members", "rumord median (fastest)", "foca median (fastest)", "rumord / foca"
    )?;
    for &nodes in sizes {
        let Speeds { rumord, foca } = speeds(nodes, turns as usize, seed);
        let [rumord, foca] = [rumord, foca].map(Sample::new);
        let cell = |speeds: &Sample| {
            let [half, most] = [0.5, 1.0].map(|share| speeds.quantile(share) / 1000.0);
            format!("{half:.0} ({most:.0})")
        };
        // The machine slows some turns down and speeds none up.
        let ratio = rumord.quantile(1.0) / foca.quantile(1.0).max(f64::MIN_POSITIVE);
        let [ours, theirs] = [cell(&rumord), cell(&foca)];
        writeln!(out, "{nodes:>7} {ours:>23} {theirs:>22} {ratio:>13.2}")?;
        out.flush()?;
    }
    Ok(())
}
