//! One direction of a link: how long a packet takes, and what may become of it on the way.

use std::f64::consts::TAU;
use std::time::Duration;

use rand::RngExt;
use rand::rngs::Xoshiro256PlusPlus;
use rumord::time::Instant;

/// One-way delay, lognormal: half of the packets are faster than the median.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Latency {
    /// The median.
    pub median: Duration,
    /// Standard deviation of the delay's logarithm; 0 makes every packet take the median.
    pub sigma: f64,
}

impl Latency {
    /// One data centre.
    pub const LAN: Latency = Latency {
        median: Duration::from_micros(250),
        sigma: 0.5,
    };
    /// Between sites.
    pub const WAN: Latency = Latency {
        median: Duration::from_millis(40),
        sigma: 0.25,
    };

    /// The delay of one packet.
    pub fn draw(&self, rng: &mut Xoshiro256PlusPlus) -> Duration {
        // Box and Muller; with libm, so that every machine gets the same bits.
        let radius = libm::sqrt(-2.0 * libm::log(1.0 - rng.random::<f64>()));
        let normal = radius * libm::cos(TAU * rng.random::<f64>());
        self.median.mul_f64(libm::exp(self.sigma * normal))
    }
}

/// How packets are lost.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Loss {
    /// Each with this probability, whatever happened to the others.
    Independent(f64),
    /// In bursts.
    Bursty(Bursts),
}

impl Loss {
    /// The share of packets that is lost in the long run.
    #[must_use]
    pub fn share(&self) -> f64 {
        match self {
            Loss::Independent(share) => *share,
            Loss::Bursty(bursts) => bursts.share,
        }
    }
}

/// Loss after Gilbert and Elliott: a link is either good or bad, for exponential times.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Bursts {
    /// Lost in the long run; between `LOSS_GOOD` and `LOSS_BAD`.
    pub share: f64,
    /// Mean length of a bad time.
    pub bad_mean: Duration,
}

/// Lost while a link is good.
pub const LOSS_GOOD: f64 = 0.01;
/// Lost while a link is bad.
pub const LOSS_BAD: f64 = 0.9;

impl Bursts {
    /// The share of time in which a link is bad.
    #[must_use]
    pub fn bad_share(&self) -> f64 {
        ((self.share - LOSS_GOOD) / (LOSS_BAD - LOSS_GOOD)).clamp(0.0, 0.999)
    }

    fn mean_of(&self, weather: Weather) -> Duration {
        match weather {
            Weather::Bad => self.bad_mean,
            Weather::Good => {
                let bad = self.bad_share().max(1e-9);
                self.bad_mean.mul_f64((1.0 - bad) / bad)
            }
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Weather {
    Good,
    Bad,
}

/// Whether a link with [`Bursts`] is good or bad at present.
#[derive(Clone, Copy, Debug)]
pub struct BurstState {
    weather: Weather,
    until: Instant,
}

impl BurstState {
    /// A link in its long-run state.
    pub fn new(bursts: &Bursts, now: Instant, rng: &mut Xoshiro256PlusPlus) -> Self {
        let weather = if rng.random_bool(bursts.bad_share()) {
            Weather::Bad
        } else {
            Weather::Good
        };
        BurstState {
            weather,
            until: now + exponential(bursts.mean_of(weather), rng),
        }
    }

    /// The probability that a packet sent `now` is lost.
    pub fn loss(&mut self, bursts: &Bursts, now: Instant, rng: &mut Xoshiro256PlusPlus) -> f64 {
        while self.until <= now {
            self.weather = match self.weather {
                Weather::Good => Weather::Bad,
                Weather::Bad => Weather::Good,
            };
            let length = exponential(bursts.mean_of(self.weather), rng);
            self.until = self.until + length.max(Duration::from_micros(1));
        }
        match self.weather {
            Weather::Good => LOSS_GOOD,
            Weather::Bad => LOSS_BAD,
        }
    }
}

pub(crate) fn exponential(mean: Duration, rng: &mut Xoshiro256PlusPlus) -> Duration {
    mean.mul_f64(-libm::log(1.0 - rng.random::<f64>()))
}

/// One direction of a link.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Link {
    /// How long a packet takes.
    pub latency: Latency,
    /// How packets are lost.
    pub loss: Loss,
    /// Share of datagrams that arrive twice.
    pub duplicated: f64,
    /// Share of datagrams that are delayed by up to `reordered_by`, and so overtaken.
    pub reordered: f64,
    /// Longest extra delay of a reordered datagram.
    pub reordered_by: Duration,
    /// Share of datagrams of which one byte is changed.
    pub corrupted: f64,
    /// Longer datagrams are lost.
    pub datagram_bytes_max: usize,
}

impl Link {
    /// A flawless link of one data centre.
    pub const LAN: Link = Link {
        latency: Latency::LAN,
        loss: Loss::Independent(0.0),
        duplicated: 0.0,
        reordered: 0.0,
        reordered_by: Duration::ZERO,
        corrupted: 0.0,
        datagram_bytes_max: 1472,
    };
    /// A flawless link between sites.
    pub const WAN: Link = Link {
        latency: Latency::WAN,
        ..Link::LAN
    };

    /// This link with independent loss.
    #[must_use]
    pub fn losing(self, share: f64) -> Self {
        Link {
            loss: Loss::Independent(share),
            ..self
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::forks::{Consumer, fork};

    #[test]
    fn half_of_the_packets_are_faster_than_the_median() {
        let mut rng = fork(1, Consumer::Latency);
        let mut delays: Vec<_> = (0..10_001).map(|_| Latency::LAN.draw(&mut rng)).collect();
        delays.sort();
        let median = delays[5000].as_secs_f64() / Latency::LAN.median.as_secs_f64();
        assert!((median - 1.0).abs() < 0.03, "{median}");
        // The 97.7th percentile of a lognormal lies two deviations up.
        let high = delays[9772].as_secs_f64() / Latency::LAN.median.as_secs_f64();
        assert!((high - std::f64::consts::E).abs() < 0.2, "{high}");
    }

    #[test]
    fn bursts_lose_the_stated_share_in_long_stretches() {
        let bursts = Bursts {
            share: 0.1,
            bad_mean: Duration::from_secs(1),
        };
        let mut rng = fork(2, Consumer::Bursts);
        let mut state = BurstState::new(&bursts, Instant::ORIGIN, &mut rng);
        let mut now = Instant::ORIGIN;
        let (mut lost, mut bad, mut changes) = (0.0, 0, 0);
        for _ in 0..1_000_000 {
            now = now + Duration::from_millis(10);
            let loss = state.loss(&bursts, now, &mut rng);
            changes += usize::from((loss > 0.5) != (bad > 0));
            bad = usize::from(loss > 0.5);
            lost += loss;
        }
        let share = lost / 1e6;
        assert!((share - 0.1).abs() < 0.01, "{share}");
        // 10,000 s with one bad and one good time every 9.9 s.
        assert!((1800..2200).contains(&changes), "{changes}");
    }
}
