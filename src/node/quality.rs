//! How well this node's own detector has done since the start.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use crate::member::{NodeName, Status};
use crate::protocol::{Event, EventKind};

/// Lengths are kept to this share of themselves.
const GRAIN: f64 = 1.02;
/// Shorter ones count as this, longer ones as an hour: 765 counts at most.
const SHORTEST: Duration = Duration::from_millis(1);
const LONGEST: Duration = Duration::from_secs(3600);

/// A suspicion, or a death, that was wrong.
#[derive(Clone, Debug, PartialEq)]
pub struct Mistake {
    /// About whom.
    pub member: NodeName,
    /// Suspect or dead.
    pub status: Status,
    /// How long it was shown.
    pub lasted: Duration,
    /// When it was lifted.
    pub ended: SystemTime,
}

/// How well this node's detector has done since the start. How many suspicions it raised and how
/// many deaths were false is in the counters.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Quality {
    /// Deaths that this node itself declared.
    pub detections: u64,
    /// Half of them were declared within this silence; to 2 %.
    pub detection_p50: Option<Duration>,
    /// 99 in a hundred were.
    pub detection_p99: Option<Duration>,
    /// The latest that was wrong.
    pub last_mistake: Option<Mistake>,
}

/// What [`Quality`] is worked out from.
#[derive(Debug, Default)]
pub(super) struct Record {
    /// Silences until a death, counted by their grain.
    silences: BTreeMap<u32, u64>,
    last_mistake: Option<Mistake>,
}

impl Record {
    /// Takes note of what happened at `now`.
    pub(super) fn note(&mut self, event: &Event, now: SystemTime) {
        match event {
            Event::Member(change) if change.kind == EventKind::MemberDead => {
                let evidence = change.evidence.as_ref();
                if let Some(evidence) = evidence.filter(|evidence| evidence.rule == "own") {
                    *self.silences.entry(grain(evidence.silence)).or_default() += 1;
                }
            }
            Event::Mistake {
                member,
                status,
                lasted,
            } => {
                self.last_mistake = Some(Mistake {
                    member: member.clone(),
                    status: *status,
                    lasted: *lasted,
                    ended: now,
                });
            }
            _ => {}
        }
    }

    /// How it has done by now.
    pub(super) fn quality(&self) -> Quality {
        Quality {
            detections: self.silences.values().sum(),
            detection_p50: self.quantile(0.5),
            detection_p99: self.quantile(0.99),
            last_mistake: self.last_mistake.clone(),
        }
    }

    /// The length that a `share` of the silences does not exceed.
    fn quantile(&self, share: f64) -> Option<Duration> {
        let all: u64 = self.silences.values().sum();
        let rank = ((all as f64 * share).ceil() as u64).max(1);
        let mut counted = 0;
        let mut grains = self.silences.iter();
        let (&found, _) = grains.find(|&(_, &count)| {
            counted += count;
            counted >= rank
        })?;
        Some(SHORTEST.mul_f64(GRAIN.powi(found.cast_signed())))
    }
}

/// The number of the smallest grain that is not below `length`.
fn grain(length: Duration) -> u32 {
    let times = length.clamp(SHORTEST, LONGEST).as_secs_f64() / SHORTEST.as_secs_f64();
    (times.ln() / GRAIN.ln()).ceil() as u32
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::member::{Generation, Incarnation};
    use crate::protocol::{Evidence, MemberEvent};

    fn death(rule: &'static str, silence: Duration) -> Event {
        Event::Member(MemberEvent {
            kind: EventKind::MemberDead,
            member: "n3".parse().expect("valid"),
            address: None,
            rival: None,
            generation: Generation(1),
            incarnation: Incarnation(0),
            from: Some(Status::Suspect),
            to: Status::Dead,
            evidence: Some(Evidence::new(rule, silence)),
        })
    }

    #[test]
    fn quantiles_are_those_of_own_deaths() {
        let mut record = Record::default();
        assert_eq!(record.quality(), Quality::default());
        let now = SystemTime::UNIX_EPOCH;
        for tenths in 1..=100 {
            record.note(&death("own", Duration::from_millis(100 * tenths)), now);
        }
        record.note(&death("told", Duration::from_secs(60)), now);
        let quality = record.quality();
        assert_eq!(quality.detections, 100);
        for (found, expected) in [(quality.detection_p50, 5.0), (quality.detection_p99, 9.9)] {
            let ratio = found.expect("some").as_secs_f64() / expected;
            assert!((1.0..GRAIN).contains(&ratio), "{ratio}");
        }
        for length in [Duration::ZERO, Duration::MAX] {
            record.note(&death("own", length), now);
        }
        assert_eq!(record.quality().detections, 102);
    }
}
