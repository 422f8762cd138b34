//! Keys of the agent itself: who it is, where it listens, what it tells of itself.

use std::net::SocketAddr;
use std::time::Duration;

use crate::daemon::settings::choices::{HttpWrites, LogFormat};
use crate::daemon::settings::values::{Text, join_address, log_directives, put, write_duration};
use crate::member::{NodeName, is_advertisable};

use super::{Key, Kind};

mod labels;

const NODE: &str = "Node";
const NETWORK: &str = "Network";
const HTTP: &str = "HTTP";
const METADATA: &str = "Metadata";
const LOGGING: &str = "Logging";

/// Longest time that leaving may take.
const LEAVE_TIMEOUT_MAX: Duration = Duration::from_secs(600);

pub(super) static KEYS: &[Key] = &[
    Key {
        name: "config",
        value_name: "FILE",
        heading: NODE,
        help: "Settings file in TOML; `rumord config default` prints one",
        kind: Kind::OutsideFiles,
        example: "/etc/rumord/rumord.toml",
        default: |_| None,
        set: |settings, text| put(&mut settings.config, text),
    },
    Key {
        name: "name",
        value_name: "NAME",
        heading: NODE,
        help: "Member name, 1-63 bytes of A-Z a-z 0-9 . _ -; the host's name unless given",
        kind: Kind::Text,
        example: "n1",
        default: |_| None,
        set: |settings, text| put(&mut settings.name, text),
    },
    Key {
        name: "cluster",
        value_name: "NAME",
        heading: NODE,
        help: "Cluster name, spelt like a member name; nodes of another cluster are refused",
        kind: Kind::Text,
        example: "default",
        default: |settings| Some(settings.cluster.clone()),
        set: |settings, text| {
            settings.cluster = NodeName::read(text)?.to_string();
            Ok(())
        },
    },
    Key {
        name: "data_dir",
        value_name: "DIR",
        heading: NODE,
        help: "Where identity, members and events are kept; without it all is in memory",
        kind: Kind::Text,
        example: "/var/lib/rumord",
        default: |_| None,
        set: |settings, text| put(&mut settings.data_dir, text),
    },
    Key {
        name: "leave_timeout",
        value_name: "DURATION",
        heading: NODE,
        help: "How long leaving may wait for acknowledgements, at most 10m",
        kind: Kind::Text,
        example: "5s",
        default: |settings| Some(write_duration(&settings.leave_timeout)),
        set: |settings, text| {
            let timeout = Duration::read(text)?;
            if timeout > LEAVE_TIMEOUT_MAX {
                return Err("is longer than 10m; give 10m or less".into());
            }
            settings.leave_timeout = timeout;
            Ok(())
        },
    },
    Key {
        name: "bind",
        value_name: "ADDR:PORT",
        heading: NETWORK,
        help: "Where gossip listens, UDP and TCP on the same port; port 0 takes any free one",
        kind: Kind::Text,
        example: "0.0.0.0:7480",
        default: |settings| Some(settings.bind.to_string()),
        set: |settings, text| put(&mut settings.bind, text),
    },
    Key {
        name: "advertise",
        value_name: "ADDR:PORT",
        heading: NETWORK,
        help: "The gossip address that other members are told; detected unless given",
        kind: Kind::Text,
        example: "192.0.2.7:7480",
        default: |_| None,
        set: |settings, text| {
            let address = SocketAddr::read(text)?;
            if !is_advertisable(address) {
                return Err("cannot be reached by others; give an address of this host".into());
            }
            settings.advertise = Some(address);
            Ok(())
        },
    },
    Key {
        name: "join",
        value_name: "ADDR[:PORT]",
        heading: NETWORK,
        help: "Member to join through: address, DNS or _SRV name; retried for ever; repeatable",
        kind: Kind::List("join"),
        example: "n1.example.net:7480",
        default: |_| None,
        set: |settings, text| {
            settings.join.push(join_address(text)?);
            Ok(())
        },
    },
    Key {
        name: "http",
        value_name: "ADDR:PORT",
        heading: HTTP,
        help: "Where HTTP listens; port 0 takes any free one; `off` disables it",
        kind: Kind::Text,
        example: "127.0.0.1:7481",
        default: |settings| settings.http.map(|address| address.to_string()),
        set: |settings, text| {
            settings.http = http_address(text)?;
            Ok(())
        },
    },
    Key {
        name: "http_writes",
        value_name: "WHEN",
        heading: HTTP,
        help: "Whether HTTP may change anything; auto: while it listens on loopback",
        kind: Kind::Choice(HttpWrites::WORDS),
        example: "auto",
        default: |settings| Some(settings.http_writes.as_str().into()),
        set: |settings, text| put(&mut settings.http_writes, text),
    },
    Key {
        name: "tag",
        value_name: "K=V",
        heading: METADATA,
        help: "Label of this member; repeatable",
        kind: Kind::List("tags"),
        example: "zone=a",
        default: |_| None,
        set: |settings, text| labels::add_tag(&mut settings.tags, text),
    },
    Key {
        name: "service",
        value_name: "NAME=PORT",
        heading: METADATA,
        help: "Service that this member offers; repeatable",
        kind: Kind::List("services"),
        example: "web=8080",
        default: |_| None,
        set: |settings, text| labels::add_service(&mut settings.services, text),
    },
    Key {
        name: "log_format",
        value_name: "FORMAT",
        heading: LOGGING,
        help: "How log lines look; auto: text on a terminal, else json",
        kind: Kind::Choice(LogFormat::WORDS),
        example: "auto",
        default: |settings| Some(settings.log_format.as_str().into()),
        set: |settings, text| put(&mut settings.log_format, text),
    },
    Key {
        name: "log_level",
        value_name: "LEVEL",
        heading: LOGGING,
        help: "What is logged: a level, or levels by target such as info,rumord::node=debug",
        kind: Kind::Text,
        example: "info",
        default: |settings| Some(settings.log_level.clone()),
        set: |settings, text| {
            settings.log_level = log_directives(text)?;
            Ok(())
        },
    },
];

/// Reads an address or `off`. The client commands read a URL from the same variable, so that form
/// is understood as well.
fn http_address(text: &str) -> Result<Option<SocketAddr>, String> {
    if text == "off" {
        return Ok(None);
    }
    let address = text
        .strip_prefix("http://")
        .map_or(text, |rest| rest.trim_end_matches('/'));
    SocketAddr::read(address)
        .map(Some)
        .map_err(|_| "is no IP address with a port; write it as 127.0.0.1:7481, or off".into())
}
