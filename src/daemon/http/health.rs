//! `GET /livez` and `GET /readyz`: the status code is the answer, `?verbose` explains it.

use std::fmt::Write as _;
use std::net::SocketAddr;

use axum::extract::State;
use axum::http::{HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};

use super::App;
use super::problem::Problem;
use super::query::Parameters;
use crate::member::Status;
use crate::node::{Readiness, Snapshot};

const TEXT: [(HeaderName, HeaderValue); 2] = [
    (
        header::CONTENT_TYPE,
        HeaderValue::from_static("text/plain; charset=utf-8"),
    ),
    (header::CACHE_CONTROL, HeaderValue::from_static("no-store")),
];

const JOINING: &str = "no join address has admitted this node yet; it keeps trying, \
                       check the addresses and that one of them runs";
const CLOCK_AHEAD: &str = "this node's own clock is the cause: every join address refused its \
                           generation as more than a day ahead; set the clock, then restart";
const LEAVING: &str = "this node leaves or has left; start the agent again to rejoin";
const FORGOTTEN: &str = "this node was removed from the cluster (rumord forget) and keeps silent; \
                         to come back restart the agent, or run rumord join ADDRESS";
const ISOLATED: &str = "no contact to any other member; does not affect readiness, \
                        check this host's network";

const EVICTED: &str = "the others evicted this node because it loses most packets; it comes back \
                       by itself once most of its questions are answered again, a minute later at \
                       the earliest; does not affect readiness, check this host's network";

/// The process runs and serves HTTP.
pub(super) async fn live(query: Parameters) -> Result<Response, Problem> {
    query.allow(&["verbose"])?;
    let body = match query.one("verbose")? {
        Some(_) => "[+]process ok\nlivez check passed\n",
        None => "ok\n",
    };
    Ok((TEXT, body).into_response())
}

/// The node is of use to its clients.
pub(super) async fn ready(State(app): State<App>, query: Parameters) -> Result<Response, Problem> {
    query.allow(&["verbose"])?;
    let snapshot = app.node.snapshot();
    let cause = cause(&snapshot);
    let status = match cause {
        Some(_) => StatusCode::SERVICE_UNAVAILABLE,
        None => StatusCode::OK,
    };
    match (query.one("verbose")?, cause) {
        (Some(_), _) => Ok((status, TEXT, explain(&snapshot)).into_response()),
        (None, Some(detail)) => Err(Problem::new(status, detail)),
        (None, None) => Ok((TEXT, "ok\n").into_response()),
    }
}

/// Why the node is not ready.
fn cause(snapshot: &Snapshot) -> Option<String> {
    match snapshot.node.readiness {
        Readiness::Joining => Some(JOINING.into()),
        Readiness::ClockAhead => Some(CLOCK_AHEAD.into()),
        Readiness::Conflict => Some(conflict(snapshot)),
        Readiness::Ready => None,
        Readiness::Leaving => Some(LEAVING.into()),
        Readiness::Forgotten => Some(FORGOTTEN.into()),
    }
}

/// Who else runs under this node's name, and what to do.
fn conflict(snapshot: &Snapshot) -> String {
    let place = |address: Option<SocketAddr>| match address {
        Some(address) => format!("at {address}"),
        None => "at an unknown address".to_owned(),
    };
    let own = snapshot.members.iter().find(|member| member.local);
    let here = place(own.and_then(|member| member.address));
    let there = place(snapshot.node.rival.and_then(|rival| rival.address));
    let name = &snapshot.local;
    let copied = snapshot.node.rival.map(|rival| rival.node_id) == Some(snapshot.node.node_id);
    let remedy = match copied {
        true => "they share one identity, so empty the copied --data-dir or stop one process",
        false => "give one of them another --name or stop it",
    };
    format!(
        "two processes are called {name}, this one {here} and one {there}; {remedy}. It is asked \
         now and then whether the other has gone; `rumord join` asks at once"
    )
}

fn explain(snapshot: &Snapshot) -> String {
    let node = &snapshot.node;
    let readiness = node.readiness;
    let only = |wrong: Readiness| cause(snapshot).filter(|_| readiness == wrong);
    let name = node.rival.map(|rival| match rival.prevails {
        true => conflict(snapshot),
        false => {
            let reason = conflict(snapshot);
            format!("does not affect readiness, the other one has fallen silent: {reason}")
        }
    });
    let mut own = snapshot.members.iter().filter(|member| member.local);
    let evicted = own.any(|member| member.status == Status::Dead);
    let checks = [
        ("join", only(Readiness::Joining)),
        ("clock", only(Readiness::ClockAhead)),
        ("name", name),
        ("serving", only(Readiness::Leaving)),
        ("membership", only(Readiness::Forgotten)),
        ("contact", node.isolated.then(|| ISOLATED.to_owned())),
        ("network", evicted.then(|| EVICTED.to_owned())),
    ];
    let store = node.store.failure.as_ref();
    let mut text = String::new();
    // Writing to a string cannot fail.
    for (name, reason) in checks {
        let _ = match reason {
            Some(reason) => writeln!(text, "[-]{name} {reason}"),
            None => writeln!(text, "[+]{name} ok"),
        };
    }
    let _ = match store {
        Some(reason) => writeln!(
            text,
            "[-]store the data directory cannot be written ({reason}); the node serves from \
             memory, does not affect readiness; free space or repair the disk"
        ),
        None => writeln!(text, "[+]store ok"),
    };
    let agreement = &snapshot.agreement;
    let (sign, advice) = match agreement.converged {
        true => ('+', ""),
        false => (
            '-',
            "; does not affect readiness, /v1/agreement names the others",
        ),
    };
    let (agree, alive) = (agreement.agree, agreement.alive);
    let _ = writeln!(
        text,
        "[{sign}]agreement {agree} of {alive} hold this table{advice}"
    );
    let _ = match snapshot.unreached.len() {
        0 => writeln!(text, "[+]reachability ok"),
        pairs => writeln!(
            text,
            "[-]reachability {pairs} pairs of members do not reach each other in every way; does \
             not affect readiness, `rumord reachability` names them"
        ),
    };
    text.push_str(if cause(snapshot).is_none() {
        "readyz check passed\n"
    } else {
        "readyz check failed\n"
    });
    text
}
