//! Figures about figures: mean, quantiles, and a straight line through points.

/// Mean and quantiles of a sample.
#[derive(Clone, Debug, PartialEq)]
pub struct Sample {
    sorted: Vec<f64>,
}

impl Sample {
    /// Of these values; those that are no numbers are left out.
    #[must_use]
    pub fn new(mut values: Vec<f64>) -> Self {
        values.retain(|value| value.is_finite());
        values.sort_by(f64::total_cmp);
        Sample { sorted: values }
    }

    /// How many.
    #[must_use]
    pub fn len(&self) -> usize {
        self.sorted.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.sorted.is_empty()
    }

    /// The values, smallest first.
    #[must_use]
    pub fn sorted(&self) -> &[f64] {
        &self.sorted
    }

    /// The mean; 0 of none.
    #[must_use]
    pub fn mean(&self) -> f64 {
        self.sorted.iter().fold(0.0, |sum, value| sum + value) / self.sorted.len().max(1) as f64
    }

    /// The smallest value below or at which this share of the sample lies; 0 of none. The share
    /// 0.999 of fewer than a thousand values is the largest.
    #[must_use]
    pub fn quantile(&self, share: f64) -> f64 {
        let rank = libm::ceil(share * self.sorted.len() as f64) as usize;
        let place = rank.clamp(1, self.sorted.len().max(1)) - 1;
        self.sorted.get(place).copied().unwrap_or(0.0)
    }
}

/// A line by least squares.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Line {
    /// Where it starts, at x = 0.
    pub start: f64,
    /// How much it rises per unit of x.
    pub slope: f64,
    /// Share of the variation that it explains, 0 to 1.
    pub r_squared: f64,
    /// With 95 % confidence the slope lies within this distance of `slope`.
    pub slope_margin: f64,
    /// Mean of x, sum of its squared distances, standard deviation of what the line misses, the
    /// number of points: what the band needs.
    spread: (f64, f64, f64, usize),
}

impl Line {
    /// Through `points`; `None` for fewer than three, or all at one x.
    #[must_use]
    pub fn through(points: &[(f64, f64)]) -> Option<Self> {
        let count = points.len();
        if count < 3 {
            return None;
        }
        let n = count as f64;
        let (x, y) = points
            .iter()
            .fold((0.0, 0.0), |sum, p| (sum.0 + p.0, sum.1 + p.1));
        let (x, y) = (x / n, y / n);
        let sum = |of: fn(f64, f64) -> f64| -> f64 {
            points
                .iter()
                .map(|point| of(point.0 - x, point.1 - y))
                .sum()
        };
        let (xx, xy, yy) = (sum(|a, _| a * a), sum(|a, b| a * b), sum(|_, b| b * b));
        if xx <= 0.0 {
            return None;
        }
        let slope = xy / xx;
        let missed = (yy - slope * xy).max(0.0);
        let deviation = libm::sqrt(missed / (n - 2.0));
        Some(Line {
            start: y - slope * x,
            slope,
            r_squared: if yy > 0.0 { 1.0 - missed / yy } else { 1.0 },
            slope_margin: student(count - 2) * deviation / libm::sqrt(xx),
            spread: (x, xx, deviation, count),
        })
    }

    /// The line at `x`.
    #[must_use]
    pub fn at(&self, x: f64) -> f64 {
        self.start + self.slope * x
    }

    /// With 95 % confidence the true line at `x` lies within this distance of this one.
    #[must_use]
    pub fn margin(&self, x: f64) -> f64 {
        let (mean, xx, deviation, count) = self.spread;
        let away = (x - mean) * (x - mean) / xx;
        student(count - 2) * deviation * libm::sqrt(1.0 / count as f64 + away)
    }
}

/// The 97.5th percentile of Student's distribution with so many degrees of freedom.
fn student(freedom: usize) -> f64 {
    const TABLE: [f64; 20] = [
        12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160,
        2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086,
    ];
    let place = freedom.clamp(1, TABLE.len()) - 1;
    if freedom > 60 { 1.96 } else { TABLE[place] }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_values_of_the_sample() {
        let sample = Sample::new((1..=100).map(f64::from).collect());
        assert_eq!(sample.mean(), 50.5);
        assert_eq!(sample.quantile(0.5), 50.0);
        assert_eq!(sample.quantile(0.99), 99.0);
        assert_eq!(sample.quantile(0.999), 100.0);
        assert_eq!(Sample::new(vec![]).quantile(0.5), 0.0);
    }

    #[test]
    fn a_line_through_a_line_is_that_line() {
        let line = Line::through(&[(4.0, 9.0), (5.0, 11.0), (7.0, 15.0)]).expect("three points");
        assert!((line.slope - 2.0).abs() < 1e-9 && (line.start - 1.0).abs() < 1e-9);
        assert!(line.r_squared > 0.999_999 && line.slope_margin < 1e-6);
    }

    /// Anscombe's first set: 3.00 + 0.500 x, R squared 0.67, standard error of the slope 0.118.
    #[test]
    fn a_known_set_gives_its_known_line() {
        let x = [10.0, 8.0, 13.0, 9.0, 11.0, 14.0, 6.0, 4.0, 12.0, 7.0, 5.0];
        let y = [
            8.04, 6.95, 7.58, 8.81, 8.33, 9.96, 7.24, 4.26, 10.84, 4.82, 5.68,
        ];
        let points: Vec<_> = x.into_iter().zip(y).collect();
        let line = Line::through(&points).expect("eleven points");
        assert!((line.slope - 0.5001).abs() < 1e-4, "{line:?}");
        assert!((line.start - 3.0001).abs() < 1e-4, "{line:?}");
        assert!((line.r_squared - 0.6665).abs() < 1e-4, "{line:?}");
        assert!(
            (line.slope_margin - 2.262 * 0.1179).abs() < 1e-3,
            "{line:?}"
        );
        assert!(line.margin(14.0) > line.margin(9.0));
    }
}
