//! What SWIM and Lifeguard have in common, and in what they differ: parameters and formulas.

use std::time::Duration;

use crate::compare::contender::Profile;

/// Bytes of a datagram for updates, as in memberlist: what fits into 1400.
const UPDATES_MAX: usize = 76;

/// Parameters. Every part of Lifeguard can be switched off.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Settings {
    /// From one probe to the next, and until a probe has failed.
    pub period: Duration,
    /// How long a direct ping may take before helpers are asked.
    pub direct: Duration,
    /// Members that are asked to ping one that did not answer: k.
    pub helpers: usize,
    /// Highest local health multiplier; 0 switches it off.
    pub health_max: u32,
    /// Whether a helper says that it had no answer.
    pub nacks: bool,
    /// Whether a ping of a suspect carries the suspicion.
    pub buddy: bool,
    /// How long a suspicion lasts.
    pub suspicion: Suspicion,
    /// How often news is sent by itself, and to how many; none but on pings and acks without.
    pub gossip: Option<(Duration, usize)>,
    /// Updates on one message.
    pub piggyback: usize,
    /// How often one update is sent: this times a logarithm of the size.
    pub retransmit: Logarithm,
    /// How often tables are exchanged, at up to 32 members; never without.
    pub exchange: Option<Duration>,
}

/// A factor times a logarithm of the number of members, rounded up.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Logarithm {
    /// Of N + 1, the natural one: SWIM, section 4.1.
    Natural(f64),
    /// Of N + 1, to the base of ten: memberlist.
    Decimal(f64),
}

impl Logarithm {
    /// Its value among so many members.
    #[must_use]
    pub fn of(self, members: usize) -> u32 {
        let more = members as f64 + 1.0;
        let value = match self {
            Logarithm::Natural(factor) => factor * libm::ceil(libm::log(more)),
            Logarithm::Decimal(factor) => factor * libm::ceil(libm::log10(more)),
        };
        value as u32
    }
}

/// How long a suspicion lasts before it is a verdict.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Suspicion {
    /// A number of periods: SWIM, figure 3c.
    Fixed(Logarithm),
    /// From alpha max(1, log10 N) periods, with all confirmations, to beta times that, without any.
    Confirmed {
        /// The factor before the logarithm.
        alpha: f64,
        /// How much longer it lasts without confirmations.
        beta: f64,
        /// Confirmations that count.
        confirmations: usize,
    },
}

impl Settings {
    /// SWIM with suspicion, as its paper has it: three helpers, six updates on a message.
    #[must_use]
    pub fn swim(profile: Profile) -> Self {
        let (period, direct) = match profile {
            Profile::Local | Profile::Lan => (1000, 300),
            Profile::Wan => (1000, 500),
        };
        let logarithm = Logarithm::Natural(3.0);
        Settings {
            period: Duration::from_millis(period),
            direct: Duration::from_millis(direct),
            helpers: 3,
            health_max: 0,
            nacks: false,
            buddy: false,
            suspicion: Suspicion::Fixed(logarithm),
            gossip: None,
            piggyback: 6,
            retransmit: logarithm,
            exchange: None,
        }
    }

    /// Lifeguard with the settings of memberlist for such a network.
    #[must_use]
    pub fn lifeguard(profile: Profile) -> Self {
        let (period, direct, alpha, gossip, exchange) = match profile {
            Profile::Local => (1000, 200, 3.0, (100, 3), 15),
            Profile::Lan => (1000, 500, 4.0, (200, 3), 30),
            Profile::Wan => (5000, 3000, 6.0, (500, 4), 60),
        };
        Settings {
            period: Duration::from_millis(period),
            direct: Duration::from_millis(direct),
            helpers: 3,
            health_max: 7,
            nacks: true,
            buddy: true,
            suspicion: Suspicion::Confirmed {
                alpha,
                beta: 6.0,
                confirmations: alpha as usize - 2,
            },
            gossip: Some((Duration::from_millis(gossip.0), gossip.1)),
            piggyback: UPDATES_MAX,
            retransmit: Logarithm::Decimal(4.0),
            exchange: Some(Duration::from_secs(exchange)),
        }
    }

    /// Confirmations that shorten a suspicion among so many members: none where nobody is left who
    /// could confirm it.
    #[must_use]
    pub fn confirmations(&self, members: usize) -> usize {
        match self.suspicion {
            Suspicion::Fixed(_) => 0,
            Suspicion::Confirmed { confirmations, .. } => {
                let able = members >= confirmations + 2;
                if able { confirmations } else { 0 }
            }
        }
    }

    /// How long a suspicion lasts that so many others have confirmed: Lifeguard, section IV.B,
    /// max - (max - min) log(C + 1) / log(K + 1).
    #[must_use]
    pub fn suspicion_length(&self, members: usize, confirmed: usize) -> Duration {
        let (alpha, beta) = match self.suspicion {
            Suspicion::Fixed(logarithm) => return self.period * logarithm.of(members),
            Suspicion::Confirmed { alpha, beta, .. } => (alpha, beta),
        };
        let shortest = alpha * libm::log10(members.max(1) as f64).max(1.0);
        let counting = self.confirmations(members);
        if counting == 0 {
            return self.period.mul_f64(shortest);
        }
        let longest = beta * shortest;
        let [confirmed, counting] = [confirmed, counting].map(|n| libm::log(n as f64 + 1.0));
        let length = longest - (longest - shortest) * confirmed / counting;
        self.period.mul_f64(length.max(shortest))
    }

    /// How often a table is exchanged among so many members.
    #[must_use]
    pub fn exchange_period(&self, members: usize) -> Option<Duration> {
        let doublings = libm::ceil(libm::log2(members.max(1) as f64) - 5.0).max(0.0);
        Some(self.exchange? * (1 + doublings as u32))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn suspicions_last_as_long_as_the_papers_say() {
        let swim = Settings::swim(Profile::Lan);
        for (members, seconds) in [(19, 9), (20, 12), (128, 15), (1000, 21)] {
            assert_eq!(swim.suspicion_length(members, 0), swim.period * seconds);
        }
        let lifeguard = Settings::lifeguard(Profile::Lan);
        for (members, confirmed, seconds) in [
            (128, 0, 50.57),
            (128, 2, 8.43),
            (128, 5, 8.43),
            (1000, 2, 12.0),
            (1000, 0, 72.0),
            (3, 0, 4.0),
        ] {
            let length = lifeguard.suspicion_length(members, confirmed).as_secs_f64();
            assert!(
                (length - seconds).abs() < 0.01,
                "{members}, {confirmed}: {length}"
            );
        }
    }

    #[test]
    fn updates_and_exchanges_follow_the_size() {
        assert_eq!(Settings::swim(Profile::Lan).retransmit.of(128), 15);
        let lifeguard = Settings::lifeguard(Profile::Lan);
        assert_eq!(lifeguard.retransmit.of(128), 12);
        let every = |members| lifeguard.exchange_period(members).map(|it| it.as_secs());
        assert_eq!([20, 64, 1000].map(every), [30, 60, 180].map(Some));
        assert_eq!(Settings::swim(Profile::Lan).exchange_period(64), None);
    }
}
