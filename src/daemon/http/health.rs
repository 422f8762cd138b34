//! `GET /livez` and `GET /readyz`: the status code is the answer, `?verbose` explains it.

use std::fmt::Write as _;

use axum::extract::State;
use axum::http::{HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};

use super::App;
use super::problem::Problem;
use super::query::Parameters;
use crate::node::{NodeView, Readiness};

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
const ISOLATED: &str = "no contact to any other member; does not affect readiness, \
                        check this host's network";

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
    let cause = cause(snapshot.node.readiness);
    let status = match cause {
        Some(_) => StatusCode::SERVICE_UNAVAILABLE,
        None => StatusCode::OK,
    };
    match (query.one("verbose")?, cause) {
        (Some(_), _) => Ok((status, TEXT, explain(&snapshot.node)).into_response()),
        (None, Some(detail)) => Err(Problem::new(status, detail)),
        (None, None) => Ok((TEXT, "ok\n").into_response()),
    }
}

/// Why the node is not ready.
const fn cause(readiness: Readiness) -> Option<&'static str> {
    match readiness {
        Readiness::Joining => Some(JOINING),
        Readiness::ClockAhead => Some(CLOCK_AHEAD),
        Readiness::Ready => None,
        Readiness::Leaving => Some(LEAVING),
    }
}

fn explain(node: &NodeView) -> String {
    let readiness = node.readiness;
    let only = |wrong: Readiness| cause(readiness).filter(|_| readiness == wrong);
    let checks = [
        ("join", only(Readiness::Joining)),
        ("clock", only(Readiness::ClockAhead)),
        ("serving", only(Readiness::Leaving)),
        ("contact", node.isolated.then_some(ISOLATED)),
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
    text.push_str(if cause(readiness).is_none() {
        "readyz check passed\n"
    } else {
        "readyz check failed\n"
    });
    text
}
