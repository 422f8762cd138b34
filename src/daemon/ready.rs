//! The one line an agent prints to stdout, so that scripts can use port 0.

use std::fmt;
use std::net::SocketAddr;
use std::str::FromStr;

use thiserror::Error;

use crate::member::NodeName;

/// Says that an agent serves, and where.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Ready {
    /// The member's name.
    pub name: NodeName,
    /// Where the gossip socket is bound.
    pub gossip: SocketAddr,
    /// Where HTTP is served; `None` when it is off.
    pub http: Option<SocketAddr>,
}

/// A line that is no ready line.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{0:?} is not `ready name=.. gossip=.. http=..`")]
pub struct NotReady(String);

impl fmt::Display for Ready {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ready name={} gossip={} http=", self.name, self.gossip)?;
        match self.http {
            Some(address) => write!(f, "{address}"),
            None => f.write_str("off"),
        }
    }
}

impl FromStr for Ready {
    type Err = NotReady;

    fn from_str(line: &str) -> Result<Self, NotReady> {
        parse(line).ok_or_else(|| NotReady(line.into()))
    }
}

fn parse(line: &str) -> Option<Ready> {
    let mut words = line.split_whitespace();
    if words.next() != Some("ready") {
        return None;
    }
    let name = words.next()?.strip_prefix("name=")?.parse().ok()?;
    let gossip = words.next()?.strip_prefix("gossip=")?.parse().ok()?;
    let http = match words.next()?.strip_prefix("http=")? {
        "off" => None,
        address => Some(address.parse().ok()?),
    };
    // Later releases may append fields.
    Some(Ready { name, gossip, http })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_reads_back() {
        for line in [
            "ready name=n1 gossip=127.0.0.1:7480 http=127.0.0.1:7481",
            "ready name=n1 gossip=[::1]:7480 http=off",
        ] {
            let ready: Ready = line.parse().expect("valid");
            assert_eq!(ready.to_string(), line);
        }
    }

    #[test]
    fn other_lines_are_refused() {
        for line in [
            "",
            "ready",
            "steady name=n1 gossip=127.0.0.1:1 http=off",
            "ready name=n1",
        ] {
            assert!(line.parse::<Ready>().is_err(), "{line:?}");
        }
    }
}
