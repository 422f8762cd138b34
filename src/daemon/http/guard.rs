//! Who may ask: defences that need no configuration.
//!
//! A server on loopback is safe from other hosts, but not from a browser on its own: a page can
//! point its host name at 127.0.0.1 (DNS rebinding; betrayed by `Host`), or post to it across
//! origins (betrayed by `Origin`).

use std::net::{IpAddr, SocketAddr};

use axum::extract::{ConnectInfo, Request, State};
use axum::http::uri::Authority;
use axum::http::{HeaderMap, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use super::App;
use super::connections::Activity;
use super::problem::Problem;
use crate::daemon::settings::HttpWrites;

/// Whether routes that change something are served.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Writes {
    /// They are.
    On,
    /// They answer 403.
    Off,
}

/// Whose names for this server are believed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Hosts {
    /// Only names of the loopback interface: the server listens there.
    Loopback,
    /// Any.
    Any,
}

impl Writes {
    /// What `setting` means for a server on `address`: `auto` is on for loopback only.
    #[must_use]
    pub fn decide(setting: HttpWrites, address: SocketAddr) -> Self {
        match setting {
            HttpWrites::On => Writes::On,
            HttpWrites::Off => Writes::Off,
            HttpWrites::Auto if is_loopback(address.ip()) => Writes::On,
            HttpWrites::Auto => Writes::Off,
        }
    }
}

impl Hosts {
    /// The rule for a server on `address`.
    pub(super) fn of(address: SocketAddr) -> Self {
        if is_loopback(address.ip()) {
            Hosts::Loopback
        } else {
            Hosts::Any
        }
    }
}

/// Lets a request through to the routes, and marks its connection as busy meanwhile.
pub(super) async fn admit(
    State(app): State<App>,
    ConnectInfo(activity): ConnectInfo<Activity>,
    request: Request,
    next: Next,
) -> Response {
    let _busy = activity.busy();
    match check_host(app.hosts, &request) {
        Ok(()) => next.run(request).await,
        Err(problem) => problem.into_response(),
    }
}

/// Lets a request that changes something through.
pub(super) async fn admit_write(State(app): State<App>, request: Request, next: Next) -> Response {
    match check_write(app.writes, request.headers()) {
        Ok(()) => next.run(request).await,
        Err(problem) => problem.into_response(),
    }
}

fn check_host(hosts: Hosts, request: &Request) -> Result<(), Problem> {
    if hosts == Hosts::Any {
        return Ok(());
    }
    // Browsers always send Host, so its absence (HTTP/1.0 health checks) is no rebinding.
    let named = request
        .headers()
        .get_all(header::HOST)
        .iter()
        .map(|host| host.to_str().ok());
    let target = request
        .uri()
        .authority()
        .map(|authority| Some(authority.as_str()));
    let mut hosts = named.chain(target);
    if hosts.all(|host| host.is_some_and(is_loopback_host)) {
        return Ok(());
    }
    let detail = "Host names another server; on loopback ask for localhost, 127.0.0.1 or [::1]";
    Err(Problem::new(StatusCode::FORBIDDEN, detail))
}

fn check_write(writes: Writes, headers: &HeaderMap) -> Result<(), Problem> {
    if writes == Writes::Off {
        let detail = "changes over HTTP are off on this address; ask on loopback, or see \
                      --http-writes";
        return Err(Problem::new(StatusCode::FORBIDDEN, detail));
    }
    if is_cross_origin(headers) {
        let detail = "a page of another origin may not change this node; use the command line";
        return Err(Problem::new(StatusCode::FORBIDDEN, detail));
    }
    Ok(())
}

/// Whether a browser says that a page of another origin sent this.
fn is_cross_origin(headers: &HeaderMap) -> bool {
    let host = headers
        .get(header::HOST)
        .and_then(|host| host.to_str().ok());
    headers.get_all(header::ORIGIN).iter().any(|origin| {
        let origin = origin
            .to_str()
            .ok()
            .and_then(|origin| origin.strip_prefix("http://"));
        origin.is_none() || origin != host
    })
}

fn is_loopback_host(host: &str) -> bool {
    let Ok(authority) = host.parse::<Authority>() else {
        return false;
    };
    if authority.as_str().contains('@') {
        return false;
    }
    let name = authority.host();
    let bare = name
        .strip_prefix('[')
        .and_then(|name| name.strip_suffix(']'))
        .unwrap_or(name);
    name.eq_ignore_ascii_case("localhost") || bare.parse().is_ok_and(is_loopback)
}

fn is_loopback(ip: IpAddr) -> bool {
    ip.to_canonical().is_loopback()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_hosts_are_told_from_others() {
        for host in [
            "localhost",
            "LOCALHOST:7481",
            "127.0.0.1",
            "127.8.9.1:80",
            "[::1]:7481",
        ] {
            assert!(is_loopback_host(host), "{host}");
        }
        for host in [
            "",
            "evil.example",
            "localhost.evil.example",
            "127.0.0.1.nip.io",
            "10.0.0.1",
        ] {
            assert!(!is_loopback_host(host), "{host}");
        }
        assert!(!is_loopback_host("localhost@evil.example"));
    }

    #[test]
    fn auto_writes_follow_the_address() {
        let loopback = "127.0.0.1:7481".parse().expect("valid");
        let public = "192.0.2.1:7481".parse().expect("valid");
        assert_eq!(Writes::decide(HttpWrites::Auto, loopback), Writes::On);
        assert_eq!(Writes::decide(HttpWrites::Auto, public), Writes::Off);
        assert_eq!(Writes::decide(HttpWrites::On, public), Writes::On);
        assert_eq!(Writes::decide(HttpWrites::Off, loopback), Writes::Off);
    }
}
