//! The figures side by side.

use std::io::Write;

use super::outcome::{Outcome, values_of};
use crate::commands::Trouble;
use crate::compare::measure::{Measure, Protocol, Unit};
use crate::compare::swim;
use crate::fit::Sample;

/// Writes the table of one size and share of loss.
pub fn tell(
    place: (usize, f64),
    runs: u64,
    measures: &[Measure],
    outcomes: &[Outcome],
    out: &mut dyn Write,
) -> Result<(), Trouble> {
    let (nodes, loss) = place;
    let percent = loss * 100.0;
    writeln!(
        out,
        "\n{nodes} members, loss {percent} %, {runs} runs: medians (worst), of counts the sums"
    )?;
    let names = Protocol::ALL.map(|protocol| protocol.as_str().to_owned());
    tell_row("", &names, "SWIM formula", out)?;
    for measure in measures {
        let formula = (measure.formula)(nodes, loss);
        for (number, figure) in measure.figures.iter().enumerate() {
            let cells = Protocol::ALL.map(|protocol| {
                let values = values_of(outcomes, protocol, place, measure, number);
                cell(figure.unit, &values)
            });
            let computed = formula.get(number).copied().flatten();
            let computed = computed.map_or("-".to_owned(), |value| plain(figure.unit, value));
            tell_row(figure.what, &cells, &computed, out)?;
        }
    }
    writeln!(
        out,
        "SWIM formula: {:.2} false suspicions per member and hour",
        swim::suspicions_per_hour(loss)
    )?;
    Ok(())
}

fn tell_row(
    what: &str,
    cells: &[String],
    formula: &str,
    out: &mut dyn Write,
) -> Result<(), Trouble> {
    write!(out, "{what:<36}")?;
    for cell in cells {
        write!(out, " {cell:>18}")?;
    }
    writeln!(out, " {formula:>13}")?;
    Ok(())
}

/// What several runs have shown.
fn cell(unit: Unit, values: &[Option<f64>]) -> String {
    let happened = Sample::new(values.iter().copied().flatten().collect());
    if unit == Unit::Count {
        return plain(unit, happened.sorted().iter().sum());
    }
    let never = values.len() - happened.len();
    let half = plain(unit, happened.quantile(0.5));
    match (never, happened.is_empty()) {
        (_, true) => "never".to_owned(),
        (0, _) => format!("{half} ({})", plain(unit, happened.quantile(1.0))),
        _ => format!("{half} (never {never}x)"),
    }
}

fn plain(unit: Unit, value: f64) -> String {
    match unit {
        Unit::Seconds => format!("{value:.3}"),
        Unit::Count => format!("{value:.0}"),
        Unit::Rate => format!("{value:.2}"),
        Unit::Share => format!("{value:.1e}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_never_happened_is_told_beside_what_did() {
        let seconds = |values: &[Option<f64>]| cell(Unit::Seconds, values);
        assert_eq!(seconds(&[Some(1.0), Some(3.0), Some(2.0)]), "2.000 (3.000)");
        assert_eq!(seconds(&[Some(1.0), None, None]), "1.000 (never 2x)");
        assert_eq!(seconds(&[None, None]), "never");
        assert_eq!(cell(Unit::Count, &[Some(2.0), Some(3.0)]), "5");
    }
}
