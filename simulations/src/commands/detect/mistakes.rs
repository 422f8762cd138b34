//! How often members that run are accused, and the picture of it against loss.

use std::fmt;

use super::Crash;
use crate::svg::{Chart, Series, Shape, short};

const SECONDS_PER_HOUR: f64 = 3600.0;

/// Accusations against members that ran, over whole runs.
#[derive(Clone, Copy, Default)]
pub struct Mistakes {
    /// Suspicions, each observer's counted.
    pub suspicions: u64,
    /// Verdicts of death.
    pub deaths: u64,
    /// Members times the seconds they ran.
    pub member_seconds: f64,
}

impl Mistakes {
    /// The sum over these runs.
    pub fn of<'a>(crashes: impl IntoIterator<Item = &'a Crash>) -> Self {
        let add = |mut sum: Mistakes, (_, finding): &Crash| {
            sum.suspicions += finding.false_suspicions;
            sum.deaths += finding.false_deaths;
            sum.member_seconds += finding.member_seconds;
            sum
        };
        crashes.into_iter().fold(Mistakes::default(), add)
    }

    fn per_hour(&self, count: u64) -> f64 {
        count as f64 / self.member_seconds * SECONDS_PER_HOUR
    }
}

impl fmt::Display for Mistakes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (suspicions, deaths, seconds) = (self.suspicions, self.deaths, self.member_seconds);
        write!(
            f,
            "mistakes in {seconds:.0} member-seconds: {suspicions} suspicions ({:.1e} per \
             member-second), {deaths} deaths ({:.1e})",
            suspicions as f64 / seconds,
            deaths as f64 / seconds
        )
    }
}

/// Mistakes per hour of one member against the share of datagrams that is lost.
pub fn chart(nodes: usize, by_loss: &[(f64, Mistakes)]) -> Chart {
    let mut by_loss = by_loss.to_vec();
    by_loss.sort_by(|(one, _), (other, _)| one.total_cmp(other));
    let points = |of: fn(&Mistakes) -> u64| -> Vec<(f64, f64)> {
        let point = |(loss, it): &(f64, Mistakes)| (loss * 100.0, it.per_hour(of(it)));
        by_loss.iter().map(point).collect()
    };
    let named = |name: &str, colour, shape| Series {
        name: name.to_owned(),
        colour,
        shape,
    };
    let (suspicions, deaths) = (points(|it| it.suspicions), points(|it| it.deaths));
    let mark = |(loss, _): &(f64, Mistakes)| (loss * 100.0, short(loss * 100.0));
    Chart {
        title: format!("Accusations of members that run, in clusters of {nodes}"),
        across: "% of datagrams lost".to_owned(),
        up: "per member and hour".to_owned(),
        marks: by_loss.iter().map(mark).collect(),
        series: vec![
            named("", 0, Shape::Line(suspicions.clone())),
            named("wrong suspicions", 0, Shape::Points(suspicions)),
            named("", 1, Shape::Line(deaths.clone())),
            named("wrong deaths", 1, Shape::Points(deaths)),
        ],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mistakes_are_drawn_per_hour_from_the_least_loss_up() {
        let mistakes = |suspicions| Mistakes {
            suspicions,
            deaths: 0,
            member_seconds: 7200.0,
        };
        let chart = chart(8, &[(0.5, mistakes(9)), (0.0, mistakes(0))]);
        let shapes: Vec<_> = chart.series.iter().map(|series| &series.shape).collect();
        assert!(matches!(shapes[0], Shape::Line(line) if line[..] == [(0.0, 0.0), (50.0, 4.5)]));
        assert!(matches!(shapes[3], Shape::Points(dots) if dots.iter().all(|dot| dot.1 == 0.0)));
        let marks: Vec<_> = chart
            .marks
            .iter()
            .map(|(_, label)| label.as_str())
            .collect();
        assert_eq!(marks, ["0", "50"]);
    }
}
