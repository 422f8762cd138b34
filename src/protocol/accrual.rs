//! Phi accrual over heartbeat arrivals: how improbable is a silence, as a number.
//!
//! phi = -log10 P(silence this long | alive), in decades: phi 3 means one chance in a thousand
//! (Hayashibara, Defago, Yared and Katayama, "The phi accrual failure detector", SRDS 2004).
//! Two things differ from the usual code. The normal tail is evaluated exactly and stably at any
//! distance, where a logistic approximation is off by fourteen decades at ten deviations and
//! `1 - cdf` overflows at eight. And a lost heartbeat is part of the model: without it one lost
//! packet would count as twenty decades.

use std::f64::consts::{LN_10, PI};
use std::time::Duration;

use libm::{erfc, exp, log, log1p};

/// Larger phi values are reported as this one.
pub const PHI_MAX: f64 = 1e6;

/// Terms of the loss series that are summed; silences beyond so many periods are far past any
/// threshold, and the first terms no longer matter there.
const LOSS_TERMS_MAX: usize = 4096;
/// Depth of the continued fraction for the far tail.
const FRACTION_DEPTH: u32 = 60;
/// Arrivals over which the window forgets (Cassandra and Hayashibara use 1,000 samples).
const WINDOW: u16 = 1000;
/// Intervals longer than the mean by so many deviations are outages, or the first of a new rhythm.
const LEARN_DEVIATIONS_MAX: f32 = 6.0;
/// How many arrivals the prior counts for.
const PRIOR_WEIGHT: u16 = 2;

/// -ln Q(z), where Q is the upper tail of the standard normal distribution.
fn neg_ln_tail(z: f64) -> f64 {
    if z < -1.0 {
        -log1p(-0.5 * erfc(-z / std::f64::consts::SQRT_2))
    } else if z < 5.0 {
        -log(0.5 * erfc(z / std::f64::consts::SQRT_2))
    } else {
        // Mills ratio: Q(z) = density(z) / (z + 1/(z + 2/(z + 3/(z + ...)))).
        let fraction = (1..=FRACTION_DEPTH)
            .rev()
            .fold(0.0, |f, k| f64::from(k) / (z + f));
        z * z / 2.0 + log(2.0 * PI) / 2.0 + log(z + fraction)
    }
}

/// phi of a silence of `elapsed` when intervals are normal with `mean` and deviation `sd`; all
/// three in one unit, `sd` above 0. Exact to 1e-14 relative, finite for every finite silence.
#[must_use]
pub fn phi_normal(elapsed: f64, mean: f64, sd: f64) -> f64 {
    neg_ln_tail((elapsed - mean) / sd) / LN_10
}

/// phi of a silence when heartbeats come every `period` with jitter `sd` and each is lost with
/// probability `loss` (below 1): -log10 of sum over j of (1-p) p^j Q((t - (j+1) period) / sd).
///
/// It rises by -log10 `loss` per missed heartbeat, which is what one carries. `loss` = 0 gives
/// [`phi_normal`] exactly.
#[must_use]
pub fn phi_loss_aware(elapsed: f64, period: f64, sd: f64, loss: f64) -> f64 {
    if loss <= 0.0 {
        return phi_normal(elapsed, period, sd);
    }
    let ln_loss = log(loss);
    let due = (elapsed / period).max(0.0);
    if due > LOSS_TERMS_MAX as f64 {
        return (due * -ln_loss / LN_10).min(PHI_MAX);
    }
    // Beyond `last` a heartbeat is not due by forty deviations: Q = 1, and the rest of the
    // geometric series is loss^last.
    let last = (due + 40.0 * sd / period)
        .ceil()
        .min(LOSS_TERMS_MAX as f64 * 2.0) as usize
        + 1;
    let ln_term = |j: usize| {
        let z = (elapsed - (j as f64 + 1.0) * period) / sd;
        log1p(-loss) + j as f64 * ln_loss - neg_ln_tail(z)
    };
    let rest = last as f64 * ln_loss;
    let largest = (0..last).map(ln_term).fold(rest, f64::max);
    let sum: f64 = (0..last).map(|j| exp(ln_term(j) - largest)).sum();
    let ln_survival = largest + log(sum + exp(rest - largest));
    (-ln_survival / LN_10).clamp(0.0, PHI_MAX)
}

/// The arrivals of one member's heartbeats, as moments: mean and variance of the intervals between
/// the instants at which the *owner* counted them. Arrival times would not do: stale beats of a
/// crashed member go on arriving for tens of seconds. Twelve bytes.
#[derive(Clone, Copy, Debug)]
pub struct ArrivalWindow {
    mean: f32,
    variance: f32,
    weight: u16,
}

impl ArrivalWindow {
    /// A window without arrivals. The prior, some periods wide, makes the silence of a member that
    /// sent a single heartbeat grow improbable too (akka/akka-core PR#526).
    #[must_use]
    pub fn new(probe_period: Duration) -> Self {
        let mean = 4.0 * probe_period.as_secs_f32();
        let variance = (mean / 2.0) * (mean / 2.0);
        ArrivalWindow {
            mean,
            variance,
            weight: PRIOR_WEIGHT,
        }
    }

    /// Records a newer heartbeat, counted `interval` after the one before.
    ///
    /// An interval far beyond the usual counts as if it lay just beyond: a single outage teaches
    /// little patience, and a slower rhythm, as in a grown cluster, is learnt all the same.
    pub fn record(&mut self, interval: Duration) {
        let mut difference = interval.as_secs_f32() - self.mean;
        if difference > 0.0 {
            difference = difference.min(LEARN_DEVIATIONS_MAX * self.deviation());
        }
        self.weight = (self.weight + 1).min(WINDOW);
        let share = 1.0 / f32::from(self.weight);
        self.mean += share * difference;
        self.variance = (1.0 - share) * (self.variance + share * difference * difference);
    }

    /// A perfectly regular sender must not make the detector infinitely sure.
    fn deviation(&self) -> f32 {
        self.variance.sqrt().max(self.mean / 10.0)
    }

    /// A lower bound of phi for silences far beyond the usual, without its series: so many decades
    /// for each heartbeat that is missing, 0 to [`PHI_MAX`].
    #[must_use]
    pub fn phi_far(&self, silence: Duration, decades: f64) -> f64 {
        let missing = silence.as_secs_f64() / f64::from(self.mean).max(0.01);
        (missing * decades).clamp(0.0, PHI_MAX)
    }

    /// Mean and deviation of the intervals.
    #[must_use]
    pub fn intervals(&self) -> (Duration, Duration) {
        let length = |seconds: f32| Duration::try_from_secs_f32(seconds).unwrap_or_default();
        (length(self.mean), length(self.deviation()))
    }

    /// phi of a `silence` since the newest heartbeat was counted, in decades, 0 to [`PHI_MAX`].
    #[must_use]
    pub fn phi(&self, silence: Duration, loss: f64) -> f64 {
        let mean = f64::from(self.mean).max(0.01);
        let sd = f64::from(self.deviation()).max(0.001);
        phi_loss_aware(silence.as_secs_f64(), mean, sd, loss).min(PHI_MAX)
    }
}

#[cfg(test)]
#[allow(
    clippy::excessive_precision,
    clippy::approx_constant,
    reason = "expected values as they were computed elsewhere"
)]
mod tests {
    use super::*;

    fn close(actual: f64, expected: f64, relative: f64) {
        let error = (actual - expected).abs();
        assert!(
            error <= relative * expected.abs(),
            "{actual} is not {expected}"
        );
    }

    /// Computed with 60 digits: mean, deviation, silence, phi.
    const NORMAL: [(f64, f64, f64, f64); 20] = [
        (1000.0, 200.0, 0.0, 1.2449121373882917e-7),
        (1000.0, 200.0, 500.0, 0.0027052313961437212),
        (1000.0, 200.0, 800.0, 0.075026012957818023),
        (1000.0, 200.0, 1000.0, 0.3010299956639812),
        (1000.0, 200.0, 1200.0, 0.7995455414919705),
        (1000.0, 200.0, 1500.0, 2.2069318057953011),
        (1000.0, 200.0, 1600.0, 2.8696990359293691),
        (1000.0, 200.0, 1800.0, 4.4993349075564789),
        (1000.0, 200.0, 2000.0, 6.5426456723906545),
        (1000.0, 200.0, 2100.0, 7.7214850416263147),
        (1000.0, 200.0, 2500.0, 13.49608793935259),
        (1000.0, 200.0, 3000.0, 23.118053405486076),
        (1000.0, 200.0, 5000.0, 88.560095343075592),
        (1000.0, 200.0, 8700.0, 323.85134106847942),
        (1000.0, 200.0, 10000.0, 441.77567957727712),
        (1000.0, 200.0, 60000.0, 18900.107560755716),
        (1000.0, 200.0, 3_600_000.0, 70_316_629.647_878_314),
        (1000.0, 250.0, 3000.0, 15.206142551017155),
        (5000.0, 1250.0, 18000.0, 24.906695317067565),
        (200.0, 20.0, 1000.0, 349.43700645934584),
    ];

    #[test]
    fn the_normal_tail_is_exact_and_stable() {
        for (mean, sd, elapsed, expected) in NORMAL {
            close(phi_normal(elapsed, mean, sd), expected, 1e-14);
        }
    }

    #[test]
    fn thresholds_are_crossed_where_the_normal_quantiles_say() {
        let quantiles = [
            (1.0, 1.28155156554),
            (2.0, 2.32634787404),
            (3.0, 3.09023230617),
            (5.0, 4.26489079392),
            (8.0, 5.61200124417),
            (10.0, 6.3613409024),
            (12.0, 7.0344838253),
        ];
        for (phi, z) in quantiles {
            close(phi_normal(1000.0 + 200.0 * z, 1000.0, 200.0), phi, 1e-10);
        }
    }

    /// Period 1, jitter 0.05: per loss rate, phi at the silences of the first row.
    const SILENCES: [f64; 8] = [1.0, 1.2, 1.5, 2.5, 3.5, 5.5, 8.5, 10.5];
    const LOSS_AWARE: [(f64, [f64; 8]); 5] = [
        (
            0.0,
            [
                0.30103, 4.49933, 23.118, 197.3, 545.0, 1761.0, 4888.0, 7842.0,
            ],
        ),
        (0.001, [0.30060, 2.98647, 3.0, 6.0, 9.0, 15.0, 24.0, 30.0]),
        (0.01, [0.29671, 1.99864, 2.0, 4.0, 6.0, 10.0, 16.0, 20.0]),
        (0.1, [0.25964, 0.99988, 1.0, 2.0, 3.0, 5.0, 8.0, 10.0]),
        (
            0.3,
            [
                0.18709, 0.52285, 0.52288, 1.04576, 1.56864, 2.61439, 4.18303, 5.22879,
            ],
        ),
    ];

    #[test]
    fn a_lost_heartbeat_costs_what_it_carries() {
        for (loss, row) in LOSS_AWARE {
            for (elapsed, expected) in SILENCES.into_iter().zip(row) {
                close(phi_loss_aware(elapsed, 1.0, 0.05, loss), expected, 5e-4);
            }
        }
        assert_eq!(
            phi_loss_aware(1500.0, 1000.0, 200.0, 0.0),
            phi_normal(1500.0, 1000.0, 200.0)
        );
    }

    #[test]
    fn phi_is_finite_monotone_and_continuous() {
        for loss in [0.0, 1e-6, 0.01, 0.3, 0.9] {
            let mut before = -1.0;
            for step in 0..4000 {
                let elapsed = f64::from(step) * f64::from(step) * 0.01;
                let phi = phi_loss_aware(elapsed, 1.0, 0.3, loss);
                assert!(phi.is_finite(), "phi({elapsed}) at {loss}");
                assert!(
                    phi >= before - 1e-9,
                    "phi({elapsed}) at {loss} falls below {before}"
                );
                before = phi;
            }
        }
        for branch in [-1.0, 5.0] {
            let jump = neg_ln_tail(branch + 1e-15) - neg_ln_tail(branch - 1e-15);
            assert!(jump.abs() < 1e-13, "{jump} at {branch}");
        }
    }

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn silence_after_a_single_heartbeat_grows_improbable() {
        let window = ArrivalWindow::new(SECOND);
        assert!(window.phi(SECOND, 0.01) < 1.0);
        assert!(window.phi(60 * SECOND, 0.01) > 8.0);
    }

    /// A window after `count` heartbeats, one each `interval`.
    fn rhythm(interval: Duration, count: usize) -> ArrivalWindow {
        let mut window = ArrivalWindow::new(SECOND);
        for _ in 0..count {
            window.record(interval);
        }
        window
    }

    #[test]
    fn an_outage_teaches_little() {
        let mut window = rhythm(SECOND, 200);
        let before = window.phi(20 * SECOND, 0.01);
        window.record(300 * SECOND);
        let after = window.phi(20 * SECOND, 0.01);
        assert!(before > 8.0 && after > 0.9 * before, "{before} to {after}");
    }

    /// In a cluster of a thousand, news of one member comes every other minute.
    #[test]
    fn a_slow_rhythm_is_learnt() {
        let interval = 100 * SECOND;
        let phi = rhythm(interval, 20).phi(interval, 0.01);
        assert!(phi < 1.0, "{phi}");
    }
}
