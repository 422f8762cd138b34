//! Values of settings as text, and back.

use std::fmt::Debug;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::LevelFilter;

use crate::member::NodeName;

use super::choices::{HttpWrites, LogFormat, Profile};
use crate::protocol::Schedule;

/// A type of setting.
pub(super) trait Text: Sized {
    /// Reads it; the error says what is wrong and how to write it.
    fn read(text: &str) -> Result<Self, String>;
}

/// Reads `text` into `slot`.
pub(super) fn put<T: Text>(slot: &mut T, text: &str) -> Result<(), String> {
    *slot = T::read(text)?;
    Ok(())
}

impl<T: Text> Text for Option<T> {
    fn read(text: &str) -> Result<Self, String> {
        T::read(text).map(Some)
    }
}

impl Text for Duration {
    fn read(text: &str) -> Result<Self, String> {
        humantime::parse_duration(text)
            .map_err(|error| format!("{error}; write a number and a unit, such as 500ms or 5s"))
    }
}

impl Text for NodeName {
    fn read(text: &str) -> Result<Self, String> {
        text.parse().map_err(|error| format!("{error}"))
    }
}

impl Text for SocketAddr {
    fn read(text: &str) -> Result<Self, String> {
        text.parse().map_err(|_| {
            "is no IP address with a port; write it as 192.0.2.7:7480 or [2001:db8::7]:7480".into()
        })
    }
}

impl Text for PathBuf {
    fn read(text: &str) -> Result<Self, String> {
        if text.is_empty() {
            return Err("is no path; name one, or leave this out".into());
        }
        Ok(text.into())
    }
}

impl Text for f64 {
    fn read(text: &str) -> Result<Self, String> {
        text.parse()
            .map_err(|_| "is no number; write it as 4 or 9.4".into())
    }
}

impl Text for u32 {
    fn read(text: &str) -> Result<Self, String> {
        whole(text)
    }
}

impl Text for usize {
    fn read(text: &str) -> Result<Self, String> {
        whole(text)
    }
}

fn whole<T: FromStr>(text: &str) -> Result<T, String> {
    text.parse()
        .map_err(|_| "is no whole number of 0 or more that fits; write it as 3".into())
}

macro_rules! text_of_choice {
    ($($choice:ident)+) => {$(
        impl Text for $choice {
            fn read(text: &str) -> Result<Self, String> {
                let words = || $choice::WORDS.join(", ");
                $choice::from_word(text).ok_or_else(|| format!("must be one of {}", words()))
            }
        }
    )+};
}
text_of_choice!(Profile HttpWrites LogFormat Schedule);

/// Checks directives of the log filter: a level, or `target=level`, separated by commas.
///
/// The filter itself would take a misspelt level for the name of a target, and log it all.
pub(super) fn log_directives(text: &str) -> Result<String, String> {
    const REMEDY: &str = "write error, warn, info, debug, trace or off, or TARGET=LEVEL,..";
    for directive in text.split(',').map(str::trim) {
        let bare = !directive.contains(['=', '[']);
        let numeric = directive.bytes().all(|byte| byte.is_ascii_digit());
        if bare && (numeric || directive.parse::<LevelFilter>().is_err()) {
            return Err(format!("{directive:?} is no log level; {REMEDY}"));
        }
    }
    EnvFilter::try_new(text).map_err(|error| format!("{error}; {REMEDY}"))?;
    Ok(text.into())
}

/// Checks the form of an address to join through: `HOST`, `HOST:PORT`, an IP address, an IP address
/// with a port, or the name of a service, which begins with `_` and has no port.
pub(super) fn join_address(text: &str) -> Result<String, String> {
    if text.starts_with('_') && text.contains(':') {
        return Err(
            "names a service, whose SRV records name the ports; leave the port away".into(),
        );
    }
    let is_ip = text.parse::<std::net::IpAddr>().is_ok();
    let (host, port) = text
        .rsplit_once(':')
        .map_or((text, None), |(host, port)| (host, Some(port)));
    let is_v6 = text.parse::<std::net::SocketAddrV6>().is_ok();
    let host_fits = !host.is_empty()
        && host
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'-' | b'_'));
    let port_fits = port.is_none_or(|port| port.parse::<u16>().is_ok_and(|port| port != 0));
    if is_ip || (port_fits && (is_v6 || host_fits)) {
        return Ok(text.into());
    }
    Err("is no HOST or HOST:PORT; write it as n1.example.net, 192.0.2.7:7480 or [::1]:7480".into())
}

/// Writes a number; one that may have a fraction shows it, as in `4.0`.
pub(super) fn write_number(number: &impl Debug) -> String {
    format!("{number:?}")
}

/// Writes a length with the largest unit that divides it.
pub(super) fn write_duration(length: &Duration) -> String {
    const UNITS: [(u128, &str); 6] = [
        (3_600_000_000_000, "h"),
        (60_000_000_000, "m"),
        (1_000_000_000, "s"),
        (1_000_000, "ms"),
        (1_000, "us"),
        (1, "ns"),
    ];
    let nanos = length.as_nanos();
    let unit = UNITS
        .iter()
        .find(|(size, _)| nanos > 0 && nanos.is_multiple_of(*size));
    unit.map_or_else(
        || "0s".into(),
        |(size, unit)| format!("{}{unit}", nanos / size),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_are_written_as_they_are_read() {
        for text in ["24h", "90m", "5s", "500ms", "1500ms", "200us", "7ns", "0s"] {
            let length = Duration::read(text).expect(text);
            assert_eq!(write_duration(&length), text);
        }
        assert!(
            Duration::read("5")
                .expect_err("no unit")
                .contains("500ms or 5s")
        );
    }

    #[test]
    fn a_misspelt_log_level_is_not_taken_for_a_target() {
        for good in [
            "info",
            "WARN",
            "info,rumord::node=debug",
            "off",
            "info,rumord[join]=trace",
        ] {
            assert!(log_directives(good).is_ok(), "{good}");
        }
        for bad in ["", "loud", "info,", "rumord=loud", "3", "info,rumord"] {
            let message = log_directives(bad).expect_err(bad);
            assert!(message.contains("trace or off"), "{message}");
        }
    }

    #[test]
    fn join_addresses_are_hosts_or_ips_with_an_optional_port() {
        for good in [
            "n1",
            "n1:7480",
            "a.b-c.net",
            "10.0.0.1",
            "10.0.0.1:1",
            "::1",
            "[::1]:7480",
            "_rumord._tcp.example.org",
        ] {
            assert_eq!(join_address(good).as_deref(), Ok(good));
        }
        for bad in [
            "",
            ":7480",
            "n1:0",
            "n1:x",
            "n1:99999",
            "a b",
            "http://n1",
            "[::1]:0",
            "n1,n2",
            "_rumord._tcp.example.org:7480",
        ] {
            assert!(join_address(bad).is_err(), "{bad}");
        }
    }
}
