//! Turning join addresses into socket addresses.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::timeout;

use super::handle::ResolveError;
use super::options::DEFAULT_GOSSIP_PORT;
use super::resolv_conf::ResolvConf;
use super::srv;

/// How long a lookup may take. The system's resolver grants each name server 5 s: with two that are
/// down, the third still answers.
const RESOLVE_TIMEOUT: Duration = Duration::from_secs(15);
/// Most addresses taken of one name.
const ADDRESSES_MAX: usize = 64;

/// What a join address is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum JoinAddress {
    /// An IP address and port.
    Literal(SocketAddr),
    /// The name of hosts to be looked up (A and AAAA), and a port.
    Hosts(String, u16),
    /// The name of a service to be looked up (SRV): hosts and ports.
    Service(String),
}

impl JoinAddress {
    /// Reads `host[:port]`; an IPv6 address with a port stands in brackets. A name that begins with
    /// `_` is that of a service: no host's name does (RFC 952, RFC 2782).
    pub(super) fn parse(text: &str) -> Self {
        if let Ok(address) = text.parse::<SocketAddr>() {
            return JoinAddress::Literal(address);
        }
        let bare = text.trim_start_matches('[').trim_end_matches(']');
        if let Ok(ip) = bare.parse::<IpAddr>() {
            return JoinAddress::Literal(SocketAddr::new(ip, DEFAULT_GOSSIP_PORT));
        }
        if text.starts_with('_') {
            return JoinAddress::Service(text.to_owned());
        }
        match text
            .rsplit_once(':')
            .map(|(host, port)| (host, port.parse::<u16>()))
        {
            Some((host, Ok(port))) => JoinAddress::Hosts(host.to_owned(), port),
            _ => JoinAddress::Hosts(text.to_owned(), DEFAULT_GOSSIP_PORT),
        }
    }
}

/// The version of IP that a node speaks: its socket has one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Family {
    V4,
    V6,
}

impl Family {
    /// That of an address.
    pub(super) fn of(address: SocketAddr) -> Self {
        match address {
            SocketAddr::V4(_) => Family::V4,
            SocketAddr::V6(_) => Family::V6,
        }
    }

    /// Those of `found` that a node of this family can reach, sorted, each once.
    fn reachable(self, found: Vec<SocketAddr>) -> Result<Vec<SocketAddr>, String> {
        let any = !found.is_empty();
        let mut ours = found;
        ours.retain(|&address| Family::of(address) == self);
        ours.sort();
        ours.dedup();
        ours.truncate(ADDRESSES_MAX);
        match (any, ours.is_empty()) {
            (_, false) => Ok(ours),
            (false, true) => Err("the name has no address".into()),
            (true, true) => Err(match self {
                Family::V4 => {
                    "it has IPv6 addresses only, and this node gossips over IPv4; \
                               use --bind with an IPv6 address"
                }
                Family::V6 => {
                    "it has IPv4 addresses only, and this node gossips over IPv6; \
                               use --bind with an IPv4 address"
                }
            }
            .into()),
        }
    }
}

/// The socket addresses behind `text` that a node of `family` can reach, sorted, each once.
pub(super) async fn resolve(text: &str, family: Family) -> Result<Vec<SocketAddr>, ResolveError> {
    let found = match timeout(RESOLVE_TIMEOUT, look_up(text)).await {
        Ok(found) => found,
        Err(_) => Err("no name server answered in time".into()),
    };
    found
        .and_then(|found| family.reachable(found))
        .map_err(|reason| ResolveError {
            address: text.to_owned(),
            reason,
        })
}

async fn look_up(text: &str) -> Result<Vec<SocketAddr>, String> {
    match JoinAddress::parse(text) {
        JoinAddress::Literal(address) => Ok(vec![address]),
        JoinAddress::Hosts(host, port) => look_up_host(&host, port).await,
        JoinAddress::Service(name) if name.contains(':') => {
            Err("SRV records name the ports; leave the port away".into())
        }
        JoinAddress::Service(name) => look_up_service(&name).await,
    }
}

async fn look_up_host(host: &str, port: u16) -> Result<Vec<SocketAddr>, String> {
    let found = tokio::net::lookup_host((host, port)).await;
    found
        .map(Iterator::collect)
        .map_err(|error| error.to_string())
}

/// A host without an address does not hide the others.
async fn look_up_service(name: &str) -> Result<Vec<SocketAddr>, String> {
    let targets = srv::look_up(name, &ResolvConf::read().await).await?;
    let mut lookups = JoinSet::new();
    for target in targets {
        lookups.spawn(async move {
            // The dot: it is a full name, not one to be searched for.
            let host = format!("{}.", target.host);
            let found = look_up_host(&host, target.port).await;
            found.map_err(|error| format!("{}: {error}", target.host))
        });
    }
    let (mut addresses, mut reason) = (Vec::new(), String::new());
    while let Some(done) = lookups.join_next().await {
        match done {
            Ok(Ok(found)) => addresses.extend(found),
            Ok(Err(error)) => reason = error,
            Err(error) => reason = error.to_string(),
        }
    }
    if addresses.is_empty() {
        Err(reason)
    } else {
        Ok(addresses)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_with_and_without_port() {
        let literal = |text: &str| JoinAddress::Literal(text.parse().expect("valid"));
        assert_eq!(JoinAddress::parse("10.0.0.1:99"), literal("10.0.0.1:99"));
        assert_eq!(JoinAddress::parse("10.0.0.1"), literal("10.0.0.1:7480"));
        assert_eq!(JoinAddress::parse("[fd00::1]:99"), literal("[fd00::1]:99"));
        assert_eq!(JoinAddress::parse("fd00::1"), literal("[fd00::1]:7480"));
        assert_eq!(JoinAddress::parse("[fd00::1]"), literal("[fd00::1]:7480"));
        assert_eq!(
            JoinAddress::parse("n1.lan:99"),
            JoinAddress::Hosts("n1.lan".into(), 99)
        );
        assert_eq!(
            JoinAddress::parse("n1.lan"),
            JoinAddress::Hosts("n1.lan".into(), 7480)
        );
    }

    #[tokio::test]
    async fn names_are_looked_up_and_nonsense_is_named() {
        let found = resolve("localhost:99", Family::V4)
            .await
            .expect("localhost resolves");
        assert_eq!(found, ["127.0.0.1:99".parse().expect("valid")]);
        let error = resolve("no such host!", Family::V4)
            .await
            .expect_err("nonsense");
        assert!(error.to_string().contains("no such host!"), "{error}");
        let error = resolve("_rumord._tcp.x:1", Family::V4)
            .await
            .expect_err("a port");
        assert!(error.to_string().contains("leave the port"), "{error}");
    }

    #[test]
    fn a_name_with_an_underscore_in_front_is_a_service() {
        let service = |text: &str| JoinAddress::Service(text.into());
        for text in ["_rumord._tcp.example.org", "_rumord._tcp.example.org."] {
            assert_eq!(JoinAddress::parse(text), service(text));
        }
        let host = JoinAddress::Hosts("web_1".into(), 7480);
        assert_eq!(
            JoinAddress::parse("web_1"),
            host,
            "containers have such names"
        );
    }

    /// grafana/dskit#185, hashicorp/consul#6531: the addresses of the other family timed out, each
    /// time anew.
    #[test]
    fn only_addresses_of_the_own_family_are_asked() {
        let parsed = |texts: &[&str]| -> Vec<SocketAddr> {
            texts
                .iter()
                .map(|text| text.parse().expect("valid"))
                .collect()
        };
        let both = ["[fd00::2]:1", "10.0.0.1:1", "[fd00::1]:1", "[fd00::1]:1"];
        assert_eq!(
            Family::V6.reachable(parsed(&both)),
            Ok(parsed(&["[fd00::1]:1", "[fd00::2]:1"]))
        );
        assert_eq!(
            Family::V4.reachable(parsed(&both)),
            Ok(parsed(&["10.0.0.1:1"]))
        );
        let error = Family::V6.reachable(parsed(&["10.0.0.1:1"]));
        assert!(error.is_err_and(|reason| reason.contains("--bind")));
    }
}
