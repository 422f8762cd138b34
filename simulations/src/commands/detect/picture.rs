//! Pictures: times of detection, and mistakes against loss.

use std::collections::BTreeMap;

use super::cell::Cell;
use crate::fit::Sample;
use crate::svg::{Chart, Series, Shape, short};

/// Bars of a histogram, about.
const BARS: f64 = 40.0;
/// Marks below it, about.
const MARKS: usize = 8;
/// Cells that one histogram shows, at most; more cannot be told apart.
const HISTOGRAMS_MAX: usize = 5;

/// The pictures that these cells are enough for, with their names.
pub fn charts(cells: &[Cell]) -> Vec<(&'static str, Chart)> {
    let mut charts = Vec::new();
    let mut sizes: Vec<usize> = cells.iter().map(|cell| cell.what.nodes).collect();
    sizes.dedup();
    if cells.iter().any(|cell| cell.crashes() > 0) {
        let chart = match sizes[..] {
            [nodes] => histograms(nodes, cells),
            _ => against_size(&sizes, cells),
        };
        charts.push(("detect.svg", chart));
    }
    let mut losses: Vec<f64> = cells.iter().map(|cell| cell.what.loss).collect();
    losses.sort_by(f64::total_cmp);
    losses.dedup();
    if losses.len() > 1 {
        charts.push(("mistakes.svg", mistakes(&losses, cells)));
    }
    charts
}

fn declared(cell: &Cell) -> Sample {
    cell.times(|crash| crash.declared)
}

/// How often a crash was found after so many seconds.
fn histograms(nodes: usize, cells: &[Cell]) -> Chart {
    let cells = &cells[..cells.len().min(HISTOGRAMS_MAX)];
    let samples: Vec<Sample> = cells.iter().map(declared).collect();
    let found = || samples.iter().filter(|sample| !sample.is_empty());
    let highest = found()
        .map(|sample| sample.quantile(1.0))
        .fold(0.0, f64::max);
    let lowest = found().map(|sample| sample.quantile(0.0));
    let lowest = libm::floor(lowest.fold(highest, f64::min));
    let width = ((highest - lowest) / BARS).max(0.001);
    let mark = |place: usize| {
        let x = lowest + (highest - lowest) * place as f64 / MARKS as f64;
        (x, format!("{x:.2}"))
    };
    let bars = |(place, cell): (usize, &Cell)| Series {
        name: format!("{}, {}", cell.detector(), cell.loss()),
        colour: place,
        shape: Shape::Bars(histogram(&samples[place], lowest, width)),
    };
    Chart {
        title: format!("Crash of one in {nodes}: until it is declared dead"),
        across: "seconds".to_owned(),
        up: "crashes".to_owned(),
        marks: (0..=MARKS).map(mark).collect(),
        series: cells.iter().enumerate().map(bars).collect(),
    }
}

fn histogram(sample: &Sample, lowest: f64, width: f64) -> Vec<(f64, f64, f64)> {
    let mut counts = BTreeMap::new();
    for value in sample.sorted() {
        let place = libm::floor((value - lowest) / width) as u64;
        *counts.entry(place).or_insert(0_u64) += 1;
    }
    let bar = |(place, count): (u64, u64)| (lowest + place as f64 * width, width, count as f64);
    counts.into_iter().map(bar).collect()
}

/// Cells that differ in size or in loss only, by what they have in common, in their order.
fn grouped<'a>(
    cells: &'a [Cell<'a>],
    named: impl Fn(&Cell) -> String,
) -> Vec<(String, Vec<&'a Cell<'a>>)> {
    let mut groups: Vec<(String, Vec<&Cell>)> = Vec::new();
    for cell in cells {
        let name = named(cell);
        match groups.iter_mut().find(|(known, _)| *known == name) {
            Some((_, group)) => group.push(cell),
            None => groups.push((name, vec![cell])),
        }
    }
    groups
}

/// Means as dots on lines, and the 99.9th percentiles above them.
fn against_size(sizes: &[usize], cells: &[Cell]) -> Chart {
    let across = |nodes: usize| libm::log2(nodes as f64);
    let mut series = Vec::new();
    let groups = grouped(cells, |cell| {
        format!("{}, {}", cell.detector(), cell.loss())
    });
    for (colour, (name, group)) in groups.into_iter().enumerate() {
        let points = |of: fn(&Sample) -> f64| -> Vec<(f64, f64)> {
            let found = group.iter().filter(|cell| !declared(cell).is_empty());
            let point = |cell: &&Cell| (across(cell.what.nodes), of(&declared(cell)));
            found.map(point).collect()
        };
        let (mean, tail) = (
            points(Sample::mean),
            points(|sample| sample.quantile(0.999)),
        );
        series.extend(
            [
                (format!("{name}: mean"), Shape::Points(mean.clone())),
                (String::new(), Shape::Line(mean)),
                (format!("{name}: p99.9"), Shape::Line(tail)),
            ]
            .map(|(name, shape)| Series {
                name,
                colour,
                shape,
            }),
        );
    }
    let mark = |&nodes: &usize| (across(nodes), nodes.to_string());
    Chart {
        title: "Crash of one: until it is declared dead".to_owned(),
        across: "members".to_owned(),
        up: "seconds".to_owned(),
        marks: sizes.iter().map(mark).collect(),
        series,
    }
}

/// Mistakes per hour of one member against the share of datagrams that is lost.
fn mistakes(losses: &[f64], cells: &[Cell]) -> Chart {
    let mut series = Vec::new();
    let groups = grouped(cells, |cell| {
        format!("{}, {} members", cell.detector(), cell.what.nodes)
    });
    for (place, (name, mut group)) in groups.into_iter().enumerate() {
        group.sort_by(|one, other| one.what.loss.total_cmp(&other.what.loss));
        let points = |of: fn(&Cell) -> f64| -> Vec<(f64, f64)> {
            let point = |cell: &&Cell| (cell.what.loss * 100.0, of(cell));
            group.iter().map(point).collect()
        };
        let suspicions = points(|cell| cell.quality(|it| &it.suspicions).per_hour());
        let deaths = points(|cell| cell.quality(|it| &it.deaths).per_hour());
        for (offset, what, points) in [(0, "suspicions", suspicions), (1, "deaths", deaths)] {
            let colour = 2 * place + offset;
            let dots = Shape::Points(points.clone());
            series.push(Series {
                name: format!("wrong {what}, {name}"),
                colour,
                shape: dots,
            });
            series.push(Series {
                name: String::new(),
                colour,
                shape: Shape::Line(points),
            });
        }
    }
    let mark = |loss: &f64| (loss * 100.0, short(loss * 100.0));
    Chart {
        title: "Accusations of members that run".to_owned(),
        across: "% of datagrams lost".to_owned(),
        up: "per member and hour".to_owned(),
        marks: losses.iter().map(mark).collect(),
        series,
    }
}
