//! Keys of the protocol: the profile, and what an operator may tune on top of it.

use crate::daemon::settings::choices::Profile;
use crate::daemon::settings::values::{Text, put, write_duration, write_number};
use crate::protocol::Schedule;

use super::{Key, Kind};

const DETECTION: &str = "Failure detection (preset by the profile)";
const SPREADING: &str = "Spreading (preset by the profile)";

/// A key for a field of the protocol's configuration: its default is what the profile puts there.
macro_rules! field {
    (
        $field:ident: $kind:ident($value_name:literal), $heading:expr,
        $write:expr, $help:literal $(,)?
    ) => {
        Key {
            name: stringify!($field),
            value_name: $value_name,
            heading: $heading,
            help: $help,
            kind: Kind::$kind,
            example: "",
            default: |settings| Some($write(&settings.protocol.$field)),
            set: |settings, text| put(&mut settings.protocol.$field, text),
        }
    };
}

macro_rules! length {
    ($field:ident, $heading:expr, $help:literal) => {
        field!($field: Text("DURATION"), $heading, write_duration, $help)
    };
}

macro_rules! number {
    ($field:ident, $value_name:literal, $heading:expr, $help:literal) => {
        field!($field: Number($value_name), $heading, write_number, $help)
    };
}

pub(super) static KEYS: &[Key] = &[
    Key {
        name: "profile",
        value_name: "PROFILE",
        heading: "Protocol",
        help: "Set of protocol defaults: one machine, one data centre, or between sites",
        kind: Kind::Choice(Profile::WORDS),
        example: "lan",
        default: |settings| Some(settings.profile.as_str().into()),
        set: |settings, text| {
            settings.profile = Profile::read(text)?;
            settings.protocol = settings.profile.config();
            Ok(())
        },
    },
    Key {
        name: "schedule",
        value_name: "SCHEDULE",
        heading: DETECTION,
        help: "Who probes whom: observers in turn, or SWIM's shuffled round-robin",
        kind: Kind::Choice(Schedule::WORDS),
        example: "slots",
        default: |settings| Some(settings.protocol.schedule.as_str().into()),
        set: |settings, text| put(&mut settings.protocol.schedule, text),
    },
    length!(
        probe_period,
        DETECTION,
        "Recurrence of probes: each node pings one member per period"
    ),
    length!(
        pause_tolerance,
        DETECTION,
        "How long a healthy process may stand still and not be dead"
    ),
    number!(
        pause_tolerance_factor_max,
        "FACTOR",
        DETECTION,
        "Longest tolerance of a member that survived being declared dead, in pause tolerances, 1-64"
    ),
    length!(
        ack_timeout,
        DETECTION,
        "Least wait for the answer to a ping; adapts upwards to a member"
    ),
    length!(
        relay_timeout,
        DETECTION,
        "How long relays may take before more of them are asked"
    ),
    number!(
        relays,
        "COUNT",
        DETECTION,
        "Relays asked for an unanswered ping at first; more at each further stage, 1-16"
    ),
    number!(
        phi_suspect,
        "DECADES",
        DETECTION,
        "Evidence that makes a member suspect, 1-50"
    ),
    number!(
        phi_late,
        "DECADES",
        DETECTION,
        "Evidence needed after the pause tolerance, 0.1-50"
    ),
    number!(
        phi_dead,
        "DECADES",
        DETECTION,
        "Least evidence for death, 1-50; grows with the cluster"
    ),
    number!(
        push_rate,
        "BYTES",
        SPREADING,
        "Bytes of news pushed per second, sustained"
    ),
    number!(
        push_burst,
        "BYTES",
        SPREADING,
        "Bytes of news that may be pushed at once"
    ),
    length!(
        push_gap,
        SPREADING,
        "Time between the rounds in which one update is pushed"
    ),
    number!(
        event_rate,
        "BYTES",
        SPREADING,
        "Bytes of user events told per second, sustained, beside the news"
    ),
    number!(
        event_burst,
        "BYTES",
        SPREADING,
        "Bytes of user events that may be told at once"
    ),
    length!(
        event_retention,
        SPREADING,
        "How long user events are kept for members that lack them"
    ),
    number!(
        datagram_bytes_max,
        "BYTES",
        SPREADING,
        "Largest datagram without IP and UDP headers"
    ),
    number!(
        heartbeats_per_message,
        "COUNT",
        SPREADING,
        "Heartbeats of other members on each ping and ack, 0-32"
    ),
    length!(
        join_retry,
        SPREADING,
        "Pause before a join address is tried again; doubles up to 30s"
    ),
    length!(
        dead_retention,
        SPREADING,
        "How long dead and left members are listed and told"
    ),
];
