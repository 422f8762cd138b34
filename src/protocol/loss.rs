//! How often this node's probes of live members go unanswered in time.

/// Share assumed before anything was measured.
const PRIOR: f64 = 0.02;
/// Weight of one probe.
const WEIGHT: f64 = 1.0 / 32.0;
/// Least share used as evidence: no answer is worth more than two decades.
const SHARE_MIN: f64 = 0.01;

/// An exponential average of misses per probe, charged only with misses of members that later
/// proved alive: a dead member must not teach the node that the network is bad.
#[derive(Clone, Copy, Debug)]
pub struct MissEstimate {
    share: f64,
}

impl Default for MissEstimate {
    fn default() -> Self {
        MissEstimate { share: PRIOR }
    }
}

impl MissEstimate {
    /// The estimate of a node that has seen this `share` of answers go missing for long.
    #[must_use]
    pub fn of(share: f64) -> Self {
        MissEstimate { share }
    }

    /// A probe was answered in time.
    pub fn answered(&mut self) {
        self.share -= WEIGHT * self.share;
    }

    /// A probe of a live member was not answered.
    pub fn missed(&mut self) {
        self.share += WEIGHT * (1.0 - self.share);
    }

    /// The share, 0 to 1.
    #[must_use]
    pub fn share(&self) -> f64 {
        self.share
    }
}

/// Decades of evidence in one missing answer when `share` of the answers go missing anyway:
/// -log10 of it, 0 to 2.
#[must_use]
pub fn decades(share: f64) -> f64 {
    -libm::log10(share.clamp(SHARE_MIN, 1.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_worth_less_the_more_go_missing() {
        assert_eq!(decades(0.0), 2.0);
        assert_eq!(decades(0.01), 2.0);
        assert!((decades(0.1) - 1.0).abs() < 1e-12);
        assert_eq!(decades(1.0), 0.0);
    }

    #[test]
    fn the_estimate_follows_the_network() {
        let mut estimate = MissEstimate::default();
        for _ in 0..300 {
            estimate.missed();
            estimate.answered();
        }
        assert!(
            (estimate.share() - 0.5).abs() < 0.05,
            "{}",
            estimate.share()
        );
        for _ in 0..300 {
            estimate.answered();
        }
        assert!(estimate.share() < 0.001);
    }
}
