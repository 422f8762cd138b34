//! One cell as a table.

use std::io::Write;

use super::cell::{Cell, Quality};
use crate::commands::Trouble;
use crate::detect::Course;
use crate::fit::Sample;
use crate::svg::short;

/// Wrong accusations that a table tells one by one; deaths come first.
const TOLD_MAX: usize = 20;

/// Writes the table.
pub fn tell(cell: &Cell, out: &mut dyn Write) -> Result<(), Trouble> {
    let (nodes, detector, loss) = (cell.what.nodes, cell.detector(), cell.loss());
    match cell.what.course {
        Course::Healthy(_) => writeln!(out, "nobody crashes in {nodes}, {detector}, {loss}")?,
        Course::Crashes(_) => {
            writeln!(
                out,
                "crash of one in {nodes}, {detector}, {loss}: seconds until"
            )?;
            tell_crashes(cell, out)?;
        }
    }
    tell_mistakes(cell, out)?;
    let (datagrams, bytes) = cell.load();
    writeln!(
        out,
        "sent per member and second: {datagrams:.2} datagrams, {bytes:.0} bytes with headers"
    )?;
    tell_wrong(cell, out)
}

fn tell_crashes(cell: &Cell, out: &mut dyn Write) -> Result<(), Trouble> {
    writeln!(
        out,
        "{:<18} {:>7} {:>8} {:>8} {:>8} {:>8} {:>8}",
        "T_D", "crashes", "mean", "p50", "p99", "p99.9", "max"
    )?;
    tell_times("first suspected", &cell.times(|crash| crash.suspected), out)?;
    tell_times("first declared", &cell.times(|crash| crash.declared), out)?;
    tell_times("known everywhere", &cell.times(|crash| crash.known), out)
}

fn tell_times(what: &str, times: &Sample, out: &mut dyn Write) -> Result<(), Trouble> {
    let [half, p99, p999, most] = [0.5, 0.99, 0.999, 1.0].map(|share| times.quantile(share));
    let (count, mean) = (times.len(), times.mean());
    writeln!(
        out,
        "{what:<18} {count:>7} {mean:>8.3} {half:>8.3} {p99:>8.3} {p999:>8.3} {most:>8.3}"
    )?;
    Ok(())
}

fn tell_mistakes(cell: &Cell, out: &mut dyn Write) -> Result<(), Trouble> {
    let seconds = cell.member_seconds();
    writeln!(
        out,
        "mistakes in {seconds:.0} member-seconds (T_MR, T_M in s; lambda_M per member and hour)"
    )?;
    writeln!(
        out,
        "{:<11} {:>8} {:>8} {:>9} {:>8} {:>8} {:>8} {:>9} {:>13}",
        "", "accused", "mistakes", "T_MR", "T_M mean", "p99", "max", "lambda_M", "P_A"
    )?;
    let suspicions = cell.quality(|finding| &finding.suspicions);
    let deaths = cell.quality(|finding| &finding.deaths);
    tell_quality("suspicions", &suspicions, out)?;
    tell_quality("deaths", &deaths, out)
}

fn tell_quality(what: &str, quality: &Quality, out: &mut dyn Write) -> Result<(), Trouble> {
    let (accused, mistakes) = (quality.accusations, quality.mistakes());
    let recurrence = quality.recurrence();
    let recurrence = recurrence.map_or("-".to_owned(), |seconds| format!("{seconds:.3e}"));
    let lengths = &quality.lengths;
    let length = |seconds: f64| match lengths.is_empty() {
        true => "-".to_owned(),
        false => format!("{seconds:.3}"),
    };
    let [mean, p99, max] = [
        lengths.mean(),
        lengths.quantile(0.99),
        lengths.quantile(1.0),
    ]
    .map(length);
    let (rate, accuracy) = (quality.per_hour(), accuracy(quality.error));
    writeln!(
        out,
        "{what:<11} {accused:>8} {mistakes:>8} {recurrence:>9} {mean:>8} {p99:>8} {max:>8} \
         {rate:>9.2e} {accuracy:>13}"
    )?;
    Ok(())
}

/// P_A: near 1 the share of wrong answers says more than its digits.
fn accuracy(error: f64) -> String {
    match error {
        0.0 => "1".to_owned(),
        ..0.001 => format!("1 - {error:.2e}"),
        _ => format!("{:.5}", 1.0 - error),
    }
}

fn tell_wrong(cell: &Cell, out: &mut dyn Write) -> Result<(), Trouble> {
    let told = cell.runs.iter().flat_map(|(what, finding)| {
        let seed = what.seed;
        finding.told.iter().map(move |wrong| (seed, wrong))
    });
    let mut told: Vec<_> = told.collect();
    told.sort_by_key(|(_, wrong)| !wrong.dead);
    let all = cell.quality(|finding| &finding.suspicions).accusations
        + cell.quality(|finding| &finding.deaths).accusations;
    for (seed, wrong) in told.iter().take(TOLD_MAX) {
        let verb = if wrong.dead { "declared" } else { "suspected" };
        let (observer, subject, why) = (wrong.observer, wrong.subject, &wrong.why);
        let at = short(wrong.at);
        writeln!(
            out,
            "  seed {seed}, {at} s: n{observer} {verb} n{subject}: {why}"
        )?;
    }
    let rest = all.saturating_sub(told.len().min(TOLD_MAX) as u64);
    if rest > 0 {
        writeln!(out, "  and {rest} more")?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accuracy_is_told_by_what_it_lacks() {
        assert_eq!(accuracy(0.0), "1");
        assert_eq!(accuracy(2.5e-7), "1 - 2.50e-7");
        assert_eq!(accuracy(0.25), "0.75000");
    }
}
