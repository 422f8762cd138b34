//! Turning join addresses into socket addresses.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use tokio::time::timeout;

use super::handle::ResolveError;
use super::options::DEFAULT_GOSSIP_PORT;

/// How long a name server may take.
const RESOLVE_TIMEOUT: Duration = Duration::from_secs(5);
/// Most addresses taken of one name.
const ADDRESSES_MAX: usize = 32;

/// What a join address is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum JoinAddress {
    /// An IP address and port.
    Literal(SocketAddr),
    /// A name to be looked up, and a port.
    Name(String, u16),
}

impl JoinAddress {
    /// Reads `host[:port]`; an IPv6 address with a port stands in brackets.
    pub(super) fn parse(text: &str) -> Self {
        if let Ok(address) = text.parse::<SocketAddr>() {
            return JoinAddress::Literal(address);
        }
        let bare = text.trim_start_matches('[').trim_end_matches(']');
        if let Ok(ip) = bare.parse::<IpAddr>() {
            return JoinAddress::Literal(SocketAddr::new(ip, DEFAULT_GOSSIP_PORT));
        }
        match text
            .rsplit_once(':')
            .map(|(host, port)| (host, port.parse::<u16>()))
        {
            Some((host, Ok(port))) => JoinAddress::Name(host.to_owned(), port),
            _ => JoinAddress::Name(text.to_owned(), DEFAULT_GOSSIP_PORT),
        }
    }
}

/// The socket addresses behind `text`, sorted, each once.
pub(super) async fn resolve(text: &str) -> Result<Vec<SocketAddr>, ResolveError> {
    let failed = |reason: String| ResolveError {
        address: text.to_owned(),
        reason,
    };
    let (host, port) = match JoinAddress::parse(text) {
        JoinAddress::Literal(address) => return Ok(vec![address]),
        JoinAddress::Name(host, port) => (host, port),
    };
    let lookup = timeout(
        RESOLVE_TIMEOUT,
        tokio::net::lookup_host((host.as_str(), port)),
    );
    let found = match lookup.await {
        Ok(Ok(found)) => found,
        Ok(Err(error)) => return Err(failed(error.to_string())),
        Err(_) => return Err(failed("the name server did not answer".into())),
    };
    let mut addresses: Vec<SocketAddr> = found.take(ADDRESSES_MAX).collect();
    addresses.sort();
    addresses.dedup();
    if addresses.is_empty() {
        return Err(failed("the name has no address".into()));
    }
    Ok(addresses)
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
            JoinAddress::Name("n1.lan".into(), 99)
        );
        assert_eq!(
            JoinAddress::parse("n1.lan"),
            JoinAddress::Name("n1.lan".into(), 7480)
        );
    }

    #[tokio::test]
    async fn names_are_looked_up_and_nonsense_is_named() {
        let found = resolve("localhost:99").await.expect("localhost resolves");
        assert!(
            found
                .iter()
                .all(|address| address.port() == 99 && address.ip().is_loopback())
        );
        let error = resolve("no such host!").await.expect_err("nonsense");
        assert!(error.to_string().contains("no such host!"), "{error}");
    }
}
