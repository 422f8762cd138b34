//! The address that others are told when the operator names none.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use super::options::StartError;

/// The address under which others reach the socket bound to `bound`: itself, or for a wildcard the
/// best address of this host's interfaces. Any kind will do, because hosts exist that have only a
/// public, a carrier-grade or a unique local address (grafana/loki#8634, hashicorp/consul#725).
pub(super) fn detect(bound: SocketAddr) -> Result<SocketAddr, StartError> {
    if !bound.ip().is_unspecified() {
        return Ok(bound);
    }
    let interfaces = if_addrs::get_if_addrs().map_err(StartError::Interfaces)?;
    let addresses = interfaces.into_iter().map(|interface| interface.ip());
    best(addresses.filter(|ip| ip.is_ipv4() == bound.is_ipv4()))
        .map(|ip| SocketAddr::new(ip, bound.port()))
        .ok_or(StartError::NoAddress)
}

/// The most useful address; among equals the smallest, so that a restart finds the same.
fn best(addresses: impl Iterator<Item = IpAddr>) -> Option<IpAddr> {
    addresses
        .filter_map(|ip| Some((rank(ip)?, ip)))
        .min()
        .map(|(_, ip)| ip)
}

/// Smaller is better; `None` for what nobody can send to.
fn rank(ip: IpAddr) -> Option<u8> {
    match ip {
        IpAddr::V4(v4) if v4.is_unspecified() || v4.is_link_local() => None,
        IpAddr::V4(v4) if v4.is_private() => Some(0),
        IpAddr::V4(v4) if is_carrier_grade(v4) => Some(2),
        IpAddr::V6(v6) if v6.is_unspecified() || v6.is_unicast_link_local() => None,
        IpAddr::V6(v6) if v6.is_unique_local() => Some(0),
        ip if ip.is_multicast() => None,
        ip if ip.is_loopback() => Some(3),
        _ => Some(1),
    }
}

/// RFC 6598: 100.64.0.0/10.
fn is_carrier_grade(ip: Ipv4Addr) -> bool {
    let [first, second, ..] = ip.octets();
    first == 100 && (64..128).contains(&second)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chosen(addresses: &[&str]) -> Option<String> {
        let parsed = addresses.iter().filter_map(|text| text.parse().ok());
        best(parsed).map(|ip| ip.to_string())
    }

    #[test]
    fn private_before_public_before_carrier_grade_before_loopback() {
        let all = [
            "127.0.0.1",
            "100.64.1.1",
            "8.8.8.8",
            "10.1.2.3",
            "169.254.1.1",
        ];
        assert_eq!(chosen(&all).as_deref(), Some("10.1.2.3"));
        assert_eq!(chosen(&all[..3]).as_deref(), Some("8.8.8.8"));
        assert_eq!(chosen(&all[..2]).as_deref(), Some("100.64.1.1"));
        assert_eq!(chosen(&all[..1]).as_deref(), Some("127.0.0.1"));
        assert_eq!(chosen(&["169.254.1.1", "fe80::1"]), None);
        assert_eq!(
            chosen(&["fe80::1", "fd00::1", "::1"]).as_deref(),
            Some("fd00::1")
        );
    }

    /// hashicorp/consul#9241, #15823: the wildcard itself was told to others.
    #[test]
    fn a_wildcard_is_resolved_and_anything_else_kept() {
        let wildcard = SocketAddr::from(([0, 0, 0, 0], 7480));
        let found = detect(wildcard).expect("every host has a loopback address");
        assert!(!found.ip().is_unspecified());
        assert_eq!(found.port(), 7480);
        let given = SocketAddr::from(([127, 0, 0, 9], 1));
        assert_eq!(detect(given).ok(), Some(given));
    }
}
