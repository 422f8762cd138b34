//! `GET /v1/reachability`: who cannot see whom, and the likely cause.

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;

use super::super::event::timestamp;
use super::App;
use super::problem::Problem;
use super::query::Parameters;
use crate::node::{Snapshot, UnreachedView};
use crate::protocol::ReachCause;

#[derive(Serialize)]
struct ReachabilityJson<'a> {
    /// Only pairs of which the observer does not reach the subject in every way; sorted.
    pairs: Vec<PairJson<'a>>,
}

#[derive(Serialize)]
struct PairJson<'a> {
    observer: &'a str,
    subject: &'a str,
    datagram: &'static str,
    stream: &'static str,
    /// Whether datagrams of the subject arrive at the observer.
    heard: bool,
    since: String,
    cause: &'static str,
    detail: String,
}

/// How many pairs there are, by transport.
#[derive(Serialize)]
pub(super) struct PairCountsJson {
    datagram: usize,
    stream: usize,
}

/// Who cannot see whom.
pub(super) async fn show(State(app): State<App>, query: Parameters) -> Result<Response, Problem> {
    query.allow(&[])?;
    let snapshot = app.node.snapshot();
    let head = [(header::CACHE_CONTROL, HeaderValue::from_static("no-store"))];
    let pairs = snapshot.unreached.iter().map(PairJson::new).collect();
    Ok((head, Json(ReachabilityJson { pairs })).into_response())
}

impl<'a> PairJson<'a> {
    fn new(pair: &'a UnreachedView) -> Self {
        PairJson {
            observer: pair.observer.as_str(),
            subject: pair.subject.as_str(),
            datagram: pair.datagram.as_str(),
            stream: pair.stream.as_str(),
            heard: pair.heard,
            since: timestamp(pair.since),
            cause: pair.cause.as_str(),
            detail: detail(pair),
        }
    }
}

impl PairCountsJson {
    pub(super) fn new(snapshot: &Snapshot) -> Self {
        PairCountsJson {
            datagram: snapshot.unreached_by_datagram(),
            stream: snapshot.unreached_by_stream(),
        }
    }
}

/// The likely cause, in a sentence that says where to look.
fn detail(pair: &UnreachedView) -> String {
    let (observer, subject) = (&pair.observer, &pair.subject);
    match pair.cause {
        ReachCause::UdpBlocked => format!(
            "UDP blocked: datagrams between {observer} and {subject} are lost, streams pass; \
             look for a filter on UDP"
        ),
        ReachCause::TcpBlocked => format!(
            "TCP blocked: streams from {observer} to {subject} fail, datagrams pass; look for a \
             filter on TCP"
        ),
        ReachCause::OneWayThere => format!(
            "one-way: what {observer} sends does not reach {subject}, what {subject} sends \
             arrives; look at the way from {observer} to {subject}"
        ),
        ReachCause::OneWayBack => format!(
            "one-way: what {observer} sends reaches {subject}, what {subject} sends does not \
             arrive; look at the way from {subject} to {observer}"
        ),
        ReachCause::Mtu => format!(
            "MTU: short datagrams between {observer} and {subject} pass, the largest do not; look \
             for a link with a smaller MTU"
        ),
        ReachCause::NoPath => format!(
            "no path: neither datagrams nor streams pass between {observer} and {subject}, though \
             others reach {subject}; look for a filter or a missing route"
        ),
    }
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use super::*;
    use crate::protocol::Reach;

    #[test]
    fn every_cause_names_both_members() {
        for &cause in ReachCause::ALL {
            let pair = UnreachedView {
                observer: "db1".parse().expect("valid"),
                subject: "web7".parse().expect("valid"),
                datagram: Reach::Unreachable,
                stream: Reach::Reachable,
                heard: false,
                since: SystemTime::UNIX_EPOCH,
                cause,
            };
            let said = detail(&pair);
            assert!(said.contains("db1") && said.contains("web7"), "{said}");
        }
    }
}
