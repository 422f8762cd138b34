//! The system's name servers, as `/etc/resolv.conf` names them (resolv.conf(5)).

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

const PATH: &str = "/etc/resolv.conf";
const DNS_PORT: u16 = 53;
/// What the system's own resolver reads at most.
const SERVERS_MAX: usize = 3;
const SEARCH_MAX: usize = 32;
/// Bounds of what the file may ask for, as the system's resolver has them.
const NDOTS_MAX: usize = 15;
const ATTEMPTS_MAX: u32 = 5;
const TIMEOUT_SECONDS_MAX: u64 = 30;

/// Which servers are asked, how long each may take, and what is appended to short names.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct ResolvConf {
    /// In the order in which they are asked; never empty.
    pub(super) servers: Vec<SocketAddr>,
    /// Domains in which a short name is looked for.
    search: Vec<String>,
    /// A name with fewer dots is looked for in the domains first.
    ndots: usize,
    /// How long one server may take.
    pub(super) timeout: Duration,
    /// How often each server is asked.
    pub(super) attempts: u32,
}

impl ResolvConf {
    /// As it is now: it may have changed since the last lookup. Without a file, a server on this
    /// host is asked.
    pub(super) async fn read() -> Self {
        let text = tokio::task::spawn_blocking(|| std::fs::read_to_string(PATH)).await;
        Self::parse(&text.map_or(String::new(), Result::unwrap_or_default))
    }

    /// Reads the text of the file. What it cannot read it leaves out, like the system.
    pub(super) fn parse(text: &str) -> Self {
        let mut conf = ResolvConf {
            servers: Vec::new(),
            search: Vec::new(),
            ndots: 1,
            timeout: Duration::from_secs(5),
            attempts: 2,
        };
        for line in text.lines() {
            let mut words = line.split_whitespace();
            match words.next() {
                Some("nameserver") => {
                    let server = words.next().and_then(|word| word.parse::<IpAddr>().ok());
                    conf.servers
                        .extend(server.map(|ip| SocketAddr::new(ip, DNS_PORT)));
                }
                Some("search" | "domain") => {
                    conf.search = words.take(SEARCH_MAX).map(str::to_owned).collect();
                }
                Some("options") => words.for_each(|option| conf.set(option)),
                _ => {}
            }
        }
        conf.servers.truncate(SERVERS_MAX);
        if conf.servers.is_empty() {
            let own = IpAddr::from(Ipv4Addr::LOCALHOST);
            conf.servers.push(SocketAddr::new(own, DNS_PORT));
        }
        conf
    }

    fn set(&mut self, option: &str) {
        let Some((name, Ok(number))) = option
            .split_once(':')
            .map(|(name, number)| (name, number.parse::<u32>()))
        else {
            return;
        };
        match name {
            "ndots" => self.ndots = (number as usize).min(NDOTS_MAX),
            "timeout" => {
                let seconds = u64::from(number).clamp(1, TIMEOUT_SECONDS_MAX);
                self.timeout = Duration::from_secs(seconds);
            }
            "attempts" => self.attempts = number.clamp(1, ATTEMPTS_MAX),
            _ => {}
        }
    }

    /// The full names that `name` may stand for, in the order in which they are tried.
    pub(super) fn candidates(&self, name: &str) -> Vec<String> {
        if let Some(full) = name.strip_suffix('.') {
            return vec![full.to_owned()];
        }
        let within = self.search.iter().map(|domain| {
            let domain = domain.trim_matches('.');
            match domain {
                "" => name.to_owned(),
                domain => format!("{name}.{domain}"),
            }
        });
        let mut candidates: Vec<String> = within.collect();
        let first = name.matches('.').count() >= self.ndots;
        let place = if first { 0 } else { candidates.len() };
        candidates.insert(place, name.to_owned());
        candidates
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_is_read_as_the_system_reads_it() {
        let conf = ResolvConf::parse(
            "# generated\n; too\nnameserver 10.0.0.10\nnameserver fd00::a\nnameserver junk\n\
             domain old.example\nsearch ns.svc.cluster.local svc.cluster.local\n\
             options ndots:5 timeout:1 attempts:3 rotate timeout:x\n",
        );
        assert_eq!(
            conf.servers,
            [
                "10.0.0.10:53".parse().expect("valid"),
                "[fd00::a]:53".parse().expect("valid")
            ]
        );
        assert_eq!((conf.timeout, conf.attempts), (Duration::from_secs(1), 3));
        assert_eq!(
            conf.candidates("_gossip._tcp.rumord"),
            [
                "_gossip._tcp.rumord.ns.svc.cluster.local",
                "_gossip._tcp.rumord.svc.cluster.local",
                "_gossip._tcp.rumord"
            ]
        );
    }

    #[test]
    fn a_full_name_is_tried_first_and_one_with_a_dot_alone() {
        let conf = ResolvConf::parse("search example.org .\n");
        assert_eq!(
            conf.candidates("_a._tcp"),
            ["_a._tcp", "_a._tcp.example.org", "_a._tcp"]
        );
        assert_eq!(conf.candidates("_a._tcp.x."), ["_a._tcp.x"]);
    }

    #[test]
    fn absurd_numbers_are_bounded_and_nothing_means_this_host() {
        let conf = ResolvConf::parse("options timeout:0 attempts:99 ndots:99\n");
        assert_eq!((conf.timeout, conf.attempts), (Duration::from_secs(1), 5));
        assert_eq!(conf.ndots, NDOTS_MAX);
        assert_eq!(conf.servers, ["127.0.0.1:53".parse().expect("valid")]);
    }
}
