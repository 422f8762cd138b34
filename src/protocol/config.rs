//! The protocol's parameters, with the reason for each default.

use std::time::Duration;

use thiserror::Error;

/// Parameters of the protocol core. Start from a preset, change what you must, and
/// [`check`](Config::check) it.
///
/// Detection takes about `pause_tolerance` plus one `probe_period`; everything else is fine print.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// Who probes whom, and when.
    pub schedule: Schedule,
    /// How news travels. Anything but the default is for experiments.
    pub spreading: Spreading,
    /// Recurrence of probes: each node pings one member per period (SWIM section 3.1).
    ///
    /// Shorter finds a crash sooner and costs bytes in proportion. Range 100 ms to 1 min.
    pub probe_period: Duration,
    /// How long a healthy process may stand still without being declared dead.
    ///
    /// Detection time is this plus about one period. Too short, and a garbage collection or a
    /// stalled disk becomes a death. Range `probe_period` to 10 min.
    pub pause_tolerance: Duration,
    /// The most by which the tolerance of a member is multiplied that was declared dead and came
    /// back in the same life: it doubles each time, for ten minutes.
    ///
    /// 1 learns nothing. Range 1 to 64.
    pub pause_tolerance_factor_max: u32,
    /// How long to wait for the answer to a ping, at least; the floor under the adaptive timeout.
    ///
    /// About 1.5 times the round trip's 99.9th percentile. Too short, and slow answers open cases
    /// that evidence then has to close. Range 1 ms to `probe_period` / 4.
    pub ack_timeout: Duration,
    /// How long to wait for a relay's answer before asking more relays. At least `ack_timeout`.
    pub relay_timeout: Duration,
    /// Relays asked at the first miss (SWIM's k): a third of them where hardly anything is lost,
    /// and up to eight times as many at later stages. 1 to 16.
    pub relays: usize,
    /// From which lateness of its own timers on a node blames itself rather than its peers.
    pub late_threshold: Duration,
    /// Evidence, in decades, that turns Alive into Suspect. Range 1 to 50.
    pub phi_suspect: f64,
    /// Evidence, in decades, that must arrive after `pause_tolerance` has passed. Range 0.1 to 50.
    pub phi_late: f64,
    /// Least evidence, in decades, for Dead; scaled up with the cluster's size so that the whole
    /// cluster expects one false death a year. Range 1 to 50.
    pub phi_dead: f64,
    /// How long news waits before its first push, so that one batch of datagrams is one push.
    pub push_delay: Duration,
    /// Shortest time between two pushes. A wider window coalesces more changes into a datagram.
    pub push_window: Duration,
    /// Time between the rounds of one update: copies spread in time reach hosts that stalled.
    pub push_gap: Duration,
    /// Bytes of prompt push per second, sustained; beyond it news coalesces. At least 4096.
    pub push_rate: u32,
    /// Bytes of prompt push that may be sent at once. At least `push_rate`.
    pub push_burst: u32,
    /// Bytes of user events, and of what is said of them, pushed per second, sustained; news of
    /// members has a budget of its own. At least 4096.
    pub event_rate: u32,
    /// Bytes of user events that may be pushed at once. At least `event_rate`.
    pub event_burst: u32,
    /// How long user events are kept for members that lack them: dead ones that return, and cut
    /// off ones. Range 1 min to 10,000 h.
    pub event_retention: Duration,
    /// How long one link takes an event, about: who has it is told back after as many of these as
    /// there are links behind (study of dissemination: 2 ms in a data centre). Range 100 us to 1 s.
    pub event_link: Duration,
    /// How long after that the origin waits before it asks whom it has not heard of. Range
    /// `event_link` to 1 min.
    pub event_patience: Duration,
    /// How long a table must be unchanged before a differing fingerprint counts as a miss.
    pub quiet: Duration,
    /// How long fingerprints may differ before the tables are exchanged even under steady change.
    pub mismatch_timeout: Duration,
    /// Largest datagram, sealing included, without IP and UDP headers. Range 1232 to 65000.
    pub datagram_bytes_max: usize,
    /// Heartbeats of other members that ride on each ping and ack. 0 to 32.
    pub heartbeats_per_message: usize,
    /// How long a verdict from the other side of a healing partition is put to the accused before
    /// it is adopted. Too short, and a heal reports deaths that are none; a real death during a
    /// heal is learnt that much later. Range 100 ms to 1 min.
    pub heal_hold: Duration,
    /// Pause before an unanswered join address is tried again; doubles up to 30 s.
    pub join_retry: Duration,
    /// How long dead and left members are listed and told; remembered as long again.
    pub dead_retention: Duration,
}

/// The two probe schedules. Both cost one ping per node and period.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Schedule {
    /// Observers take turns at the start of the member's own periods; one ping in eight periods
    /// goes to a random member besides. A crash meets its first ping after half a period in the
    /// mean and one at most.
    Slots,
    /// SWIM's shuffled round-robin: one period in the mean, without a useful bound.
    RoundRobin,
}

/// A configuration that contradicts itself. The operator's fault; the node was not made.
#[derive(Debug, Clone, PartialEq, Error)]
#[error("{key} = {value} is out of range; it must be {range}")]
pub struct ConfigError {
    /// The parameter's name.
    pub key: &'static str,
    /// What was given.
    pub value: String,
    /// What is allowed.
    pub range: String,
}

/// How news travels.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Spreading {
    /// Pushed at once, in rounds; riding on a few pings and acks besides; and tables that differ
    /// are found by their fingerprints, answered and exchanged.
    #[default]
    Prompt,
    /// Only by riding on pings and acks, on each for as good as ever: the infection of SWIM section
    /// 4.1 alone, as the literature computes it. A missed ping leads to no further questions,
    /// because those would carry news too: such a node detects no failure.
    Infection,
}

impl Spreading {
    /// Pings and acks on which one update rides along.
    #[must_use]
    pub const fn rides(self) -> u8 {
        match self {
            Spreading::Prompt => 2,
            Spreading::Infection => u8::MAX,
        }
    }
}

impl Schedule {
    /// Both, as written in every interface.
    pub const WORDS: &'static [&'static str] = &["slots", "round-robin"];

    /// The word of this schedule.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Schedule::Slots => "slots",
            Schedule::RoundRobin => "round-robin",
        }
    }

    /// The schedule that `word` stands for.
    #[must_use]
    pub fn from_word(word: &str) -> Option<Self> {
        match word {
            "slots" => Some(Schedule::Slots),
            "round-robin" => Some(Schedule::RoundRobin),
            _ => None,
        }
    }
}

impl Config {
    /// One data centre: round trips well under 10 ms. The default.
    #[must_use]
    pub fn lan() -> Self {
        Config {
            schedule: Schedule::Slots,
            spreading: Spreading::Prompt,
            probe_period: Duration::from_secs(1),
            pause_tolerance: Duration::from_secs(5),
            pause_tolerance_factor_max: 8,
            ack_timeout: Duration::from_millis(20),
            relay_timeout: Duration::from_millis(30),
            relays: 3,
            late_threshold: Duration::from_millis(20),
            phi_suspect: 4.0,
            phi_late: 3.0,
            phi_dead: 9.4,
            push_delay: Duration::from_micros(200),
            push_window: Duration::from_millis(10),
            push_gap: Duration::from_millis(120),
            push_rate: 64 * 1024,
            push_burst: 256 * 1024,
            event_rate: 2 << 20,
            event_burst: 4 << 20,
            event_retention: Duration::from_secs(24 * 3600),
            event_link: Duration::from_millis(2),
            event_patience: Duration::from_millis(100),
            quiet: Duration::from_millis(100),
            mismatch_timeout: Duration::from_secs(2),
            datagram_bytes_max: 1400,
            heartbeats_per_message: 4,
            heal_hold: Duration::from_secs(1),
            join_retry: Duration::from_millis(300),
            dead_retention: Duration::from_secs(24 * 3600),
        }
    }

    /// One machine, for trying it out and for tests: quick verdicts, eager pushes.
    #[must_use]
    pub fn local() -> Self {
        Config {
            pause_tolerance: Duration::from_secs(2),
            push_delay: Duration::from_micros(100),
            push_window: Duration::from_millis(5),
            push_rate: 256 * 1024,
            push_burst: 512 * 1024,
            ..Self::lan()
        }
    }

    /// Between sites: round trips of tens to hundreds of milliseconds.
    #[must_use]
    pub fn wan() -> Self {
        Config {
            pause_tolerance: Duration::from_secs(10),
            ack_timeout: Duration::from_millis(200),
            relay_timeout: Duration::from_millis(300),
            late_threshold: Duration::from_millis(100),
            push_delay: Duration::from_millis(5),
            push_window: Duration::from_millis(20),
            push_gap: Duration::from_millis(200),
            event_rate: 512 << 10,
            event_burst: 1 << 20,
            event_link: Duration::from_millis(60),
            event_patience: Duration::from_millis(250),
            quiet: Duration::from_millis(500),
            mismatch_timeout: Duration::from_secs(3),
            heal_hold: Duration::from_secs(2),
            join_retry: Duration::from_millis(500),
            ..Self::lan()
        }
    }

    /// Checks every parameter's range and the relations between them.
    ///
    /// # Errors
    /// Names the first parameter that is out of range, and its range.
    pub fn check(&self) -> Result<(), ConfigError> {
        let second = Duration::from_secs(1);
        let minute = 60 * second;
        length("probe_period", self.probe_period, second / 10, minute)?;
        length(
            "pause_tolerance",
            self.pause_tolerance,
            self.probe_period,
            10 * minute,
        )?;
        length(
            "ack_timeout",
            self.ack_timeout,
            second / 1000,
            self.probe_period / 4,
        )?;
        length(
            "relay_timeout",
            self.relay_timeout,
            self.ack_timeout,
            self.probe_period / 2,
        )?;
        length(
            "late_threshold",
            self.late_threshold,
            second / 1000,
            self.probe_period,
        )?;
        length("push_delay", self.push_delay, Duration::ZERO, second)?;
        length("push_window", self.push_window, second / 1000, second)?;
        length("push_gap", self.push_gap, self.push_window, 10 * second)?;
        length("quiet", self.quiet, second / 100, minute)?;
        length(
            "mismatch_timeout",
            self.mismatch_timeout,
            self.quiet,
            10 * minute,
        )?;
        length("heal_hold", self.heal_hold, second / 10, minute)?;
        length("join_retry", self.join_retry, second / 100, minute)?;
        self.check_events()?;
        length(
            "dead_retention",
            self.dead_retention,
            minute,
            10_000 * 60 * minute,
        )?;
        number(
            "pause_tolerance_factor_max",
            self.pause_tolerance_factor_max,
            1,
            64,
        )?;
        number("relays", self.relays, 1, 16)?;
        number("heartbeats_per_message", self.heartbeats_per_message, 0, 32)?;
        number("datagram_bytes_max", self.datagram_bytes_max, 1232, 65_000)?;
        number("push_rate", self.push_rate, 4096, u32::MAX)?;
        number("push_burst", self.push_burst, self.push_rate, u32::MAX)?;
        number("phi_suspect", self.phi_suspect, 1.0, 50.0)?;
        number("phi_late", self.phi_late, 0.1, 50.0)?;
        number("phi_dead", self.phi_dead, 1.0, 50.0)
    }
}

impl Config {
    fn check_events(&self) -> Result<(), ConfigError> {
        let second = Duration::from_secs(1);
        let (link, minute) = (self.event_link, 60 * second);
        length("event_link", link, second / 10_000, second)?;
        length("event_patience", self.event_patience, link, minute)?;
        let hours = 10_000 * 60 * minute;
        length("event_retention", self.event_retention, minute, hours)?;
        number("event_rate", self.event_rate, 4096, u32::MAX)?;
        number("event_burst", self.event_burst, self.event_rate, u32::MAX)
    }
}

impl Default for Config {
    /// The same as [`Config::lan`].
    fn default() -> Self {
        Self::lan()
    }
}

fn length(
    key: &'static str,
    value: Duration,
    min: Duration,
    max: Duration,
) -> Result<(), ConfigError> {
    if (min..=max).contains(&value) {
        return Ok(());
    }
    Err(ConfigError {
        key,
        value: format!("{value:?}"),
        range: format!("{min:?} to {max:?}"),
    })
}

fn number<T: PartialOrd + std::fmt::Display>(
    key: &'static str,
    value: T,
    min: T,
    max: T,
) -> Result<(), ConfigError> {
    if value >= min && value <= max {
        return Ok(());
    }
    Err(ConfigError {
        key,
        value: value.to_string(),
        range: format!("{min} to {max}"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn presets_are_valid() {
        for preset in [Config::lan(), Config::local(), Config::wan()] {
            assert_eq!(preset.check(), Ok(()));
        }
    }

    #[test]
    fn a_contradiction_names_the_key_and_its_range() {
        let config = Config {
            relay_timeout: Duration::from_millis(5),
            ..Config::lan()
        };
        let message = config.check().expect_err("below ack_timeout").to_string();
        assert_eq!(
            message,
            "relay_timeout = 5ms is out of range; it must be 20ms to 500ms"
        );
        assert!(
            Config {
                phi_dead: f64::NAN,
                ..Config::lan()
            }
            .check()
            .is_err()
        );
    }
}
