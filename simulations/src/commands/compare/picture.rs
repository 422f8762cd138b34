//! The picture: how long a crash takes until all know it, against the size.

use super::outcome::{Outcome, values_of};
use crate::compare::measure::{Measure, Protocol};
use crate::compare::measures;
use crate::fit::Sample;
use crate::svg::{Chart, Series, Shape};

/// The figure of the measure `crash` that is drawn.
const ALL_KNOW: usize = 1;

/// Medians of both protocols, and the formula.
pub fn chart(sizes: &[usize], loss: f64, outcomes: &[Outcome]) -> Chart {
    let mut series = Vec::new();
    for measure in measures::ALL.iter().filter(|each| each.word == "crash") {
        for protocol in Protocol::ALL {
            let points = medians(sizes, loss, protocol, measure, outcomes);
            series.push(line(protocol.as_str(), series.len(), points));
        }
        let points = formula(sizes, loss, measure);
        series.push(line("SWIM formula", series.len(), points));
    }
    Chart {
        title: format!(
            "Crash of one, loss {} %: until all hold it dead",
            loss * 100.0
        ),
        across: "members".to_owned(),
        up: "seconds".to_owned(),
        marks: sizes
            .iter()
            .map(|&nodes| (across(nodes), nodes.to_string()))
            .collect(),
        series,
    }
}

fn line(name: &str, colour: usize, points: Vec<(f64, f64)>) -> Series {
    Series {
        name: name.to_owned(),
        colour,
        shape: Shape::Line(points),
    }
}

fn across(nodes: usize) -> f64 {
    libm::log2(nodes as f64)
}

fn medians(
    sizes: &[usize],
    loss: f64,
    protocol: Protocol,
    measure: &Measure,
    outcomes: &[Outcome],
) -> Vec<(f64, f64)> {
    let median = |&nodes: &usize| {
        let values = values_of(outcomes, protocol, (nodes, loss), measure, ALL_KNOW);
        let times = Sample::new(values.into_iter().flatten().collect());
        (!times.is_empty()).then(|| (across(nodes), times.quantile(0.5)))
    };
    sizes.iter().filter_map(median).collect()
}

fn formula(sizes: &[usize], loss: f64, measure: &Measure) -> Vec<(f64, f64)> {
    let computed = |&nodes: &usize| {
        let values = (measure.formula)(nodes, loss);
        Some((across(nodes), values.get(ALL_KNOW).copied().flatten()?))
    };
    sizes.iter().filter_map(computed).collect()
}
