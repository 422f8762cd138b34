//! SWIM by its formulas; nothing here is simulated.
//!
//! Detection and load: Das, Gupta and Motivala, "SWIM: Scalable Weakly-consistent Infection-style
//! Process Group Membership Protocol", DSN 2002, with a probe per second and three helpers as in
//! Lifeguard's evaluation (Dadgar, Phillips and Currey, DSN 2018, arXiv 1707.00788), whose default
//! time-out of suspicion is used too.

/// Seconds from one probe to the next.
const PERIOD: f64 = 1.0;
/// Members that are asked to ping one that did not answer.
const HELPERS: f64 = 3.0;
/// Lifeguard's default of the factor before log10(N).
const ALPHA: f64 = 5.0;
/// A message without news, in bytes (section 5 of the SWIM paper: at most 15).
pub const MESSAGE_BYTES: f64 = 15.0;

/// Expected seconds from a crash until somebody has probed in vain, when this share of members
/// runs: one period over the probability 1 - e^-share that a member is probed in it (section 3.1).
#[must_use]
pub fn detection_seconds(share: f64) -> f64 {
    PERIOD / (1.0 - libm::exp(-share))
}

/// How long a suspicion lasts before it is a verdict: alpha log10(N) periods, one log at least, as
/// in memberlist.
#[must_use]
pub fn suspicion_seconds(nodes: usize) -> f64 {
    ALPHA * libm::log10(nodes.max(1) as f64).max(1.0) * PERIOD
}

/// Expected seconds until all of `nodes` know what one knows, carried by pings and acks only
/// (section 4.1), each lost with this probability.
///
/// With memoryless clocks the i-th to know is followed by the next at the rate c i (N - i) / (N -
/// 1), where c = q + q^2 is how often a ping carries a thing forth or its ack carries it back: in
/// sum 2 (N - 1) H(N - 1) / (c N) periods, H being the harmonic number.
#[must_use]
pub fn infection_seconds(nodes: usize, loss: f64) -> f64 {
    let through = 1.0 - loss;
    let carried = through + through * through;
    let harmonic: f64 = (1..nodes).map(|i| 1.0 / i as f64).sum();
    let others = nodes.saturating_sub(1) as f64;
    2.0 * others * harmonic / (carried * nodes.max(1) as f64) * PERIOD
}

/// Probability that one probe of a member that runs fails, all members running: the ping or its
/// ack is lost, and so is a message of each helper's way (section 3.1).
#[must_use]
pub fn probe_failure(loss: f64, helpers: f64) -> f64 {
    let through = 1.0 - loss;
    let [there_and_back, by_helper] = [2.0, 4.0].map(|hops| libm::pow(through, hops));
    (1.0 - there_and_back) * libm::pow(1.0 - by_helper, helpers)
}

/// Suspicions of members that run, per member and hour.
#[must_use]
pub fn suspicions_per_hour(loss: f64) -> f64 {
    probe_failure(loss, HELPERS) * 3600.0 / PERIOD
}

/// Datagrams that a member sends per second: ping and ack, and the helpers' four each when the
/// direct probe fails.
#[must_use]
pub fn datagrams_per_second(loss: f64) -> f64 {
    let failed = probe_failure(loss, 0.0);
    (2.0 + 4.0 * HELPERS * failed) / PERIOD
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(value: f64, expected: f64, within: f64) {
        let off = (value / expected - 1.0).abs();
        assert!(off < within, "{value} instead of {expected}");
    }

    #[test]
    fn the_first_detection_takes_e_over_e_minus_one_periods() {
        close(detection_seconds(1.0), 1.582, 1e-3);
        assert!(detection_seconds(0.75) > detection_seconds(1.0));
    }

    #[test]
    fn a_suspicion_lasts_as_long_as_lifeguards_shortest() {
        close(suspicion_seconds(128), 10.536, 1e-4);
        assert_eq!(suspicion_seconds(4), 5.0);
    }

    #[test]
    fn infection_takes_as_long_as_a_sum_of_exponential_waits() {
        let table = [
            (16, [3.111, 3.638, 5.228]),
            (64, [4.654, 5.444, 7.822]),
            (1024, [7.501, 8.773, 12.606]),
            (65_536, [11.667, 13.646, 19.609]),
        ];
        for (nodes, times) in table {
            for (loss, expected) in [0.0, 0.1, 0.3].into_iter().zip(times) {
                close(infection_seconds(nodes, loss), expected, 1e-3);
            }
        }
    }

    #[test]
    fn probes_fail_as_often_as_the_products_say() {
        let table = [
            (0.01, [7.84e-4, 1.218e-6, 1.89e-9]),
            (0.1, [0.06534, 0.007_728, 9.14e-4]),
            (0.3, [0.3875, 0.2238, 0.1292]),
        ];
        for (loss, shares) in table {
            for (helpers, expected) in [1.0, 3.0, 5.0].into_iter().zip(shares) {
                close(probe_failure(loss, helpers), expected, 2e-3);
            }
        }
        close(suspicions_per_hour(0.1), 27.8, 2e-3);
    }

    #[test]
    fn a_member_sends_two_messages_a_period_and_few_more() {
        assert_eq!(datagrams_per_second(0.0), 2.0);
        close(datagrams_per_second(0.01), 2.24, 1e-3);
    }
}
