//! `Idempotency-Key`: a request that is sent again is not done again.
//!
//! A key belongs to a principal and to one request: its method, target and body. The first to come
//! takes the key, works in a task of its own, which a client that hangs up does not end, and
//! completes the key with its answer; a repeat gets that answer. What may succeed later is not
//! remembered: every 5xx, and 403, 408, 409, 412, 413, 415 and 429.

use std::time::Duration;

use axum::body::{Body, Bytes, to_bytes};
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use super::super::digest::fingerprint;
use super::super::store::{Answer, Keyed, Outcome, Token};
use super::App;
use super::body::collect;
use super::problem::Problem;

/// Names the header that carries the key, and the one that marks a repeat's answer.
const KEY: &str = "idempotency-key";
const REPLAYED: &str = "idempotency-replayed";
/// Longest key, in bytes.
const KEY_BYTES_MAX: usize = 255;
/// How long a repeat waits for the first request.
const PATIENCE: Duration = Duration::from_secs(2);
/// Largest answer that is remembered, in bytes.
const ANSWER_BYTES_MAX: usize = 64 * 1024;
/// Largest answer of a route that changes something, in bytes.
const RESPONSE_BYTES_MAX: usize = 16 * 1024 * 1024;
/// When to ask again while a request runs, and when no key can be remembered, in seconds.
const RUNNING_RETRY_SECONDS: u32 = 1;
const FULL_RETRY_SECONDS: u32 = 60;
/// The headers that a repeat gets too.
const REMEMBERED: [HeaderName; 3] = [header::CONTENT_TYPE, header::LOCATION, header::ETAG];

/// Who asks. Keys of one are none of another's. Requests are not authenticated, so there is one.
#[derive(Clone, Default, Debug)]
pub(super) struct Principal(pub(super) String);

/// How a route does what it was asked for once.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Once {
    /// It is worked on between taking the key and completing it.
    Leased,
    /// It takes its [`Keyed`] into the transaction that has the effect.
    Transacted,
}

/// What the layer of a route knows.
#[derive(Clone)]
pub(super) struct Rule {
    pub(super) app: App,
    pub(super) once: Once,
    /// Largest body that the route takes, in bytes.
    pub(super) body_max: usize,
}

/// Does a request with a key once.
pub(super) async fn once(State(rule): State<Rule>, mut request: Request, next: Next) -> Response {
    let key = match key_of(request.headers()) {
        Ok(Some(key)) => key,
        Ok(None) => return next.run(request).await,
        Err(problem) => {
            rule.app.metrics.keyed("malformed");
            return problem.into_response();
        }
    };
    let principal = request.extensions().get::<Principal>();
    let scope = principal.cloned().unwrap_or_default().0;
    let body = std::mem::take(request.body_mut());
    let bytes = match collect(body, rule.body_max).await {
        Ok(bytes) => bytes,
        Err(problem) => return problem.into_response(),
    };
    let keyed = Keyed {
        scope,
        key,
        fingerprint: of_request(&request, &bytes),
    };
    *request.body_mut() = Body::from(bytes);
    if rule.once == Once::Transacted {
        request.extensions_mut().insert(keyed);
        return next.run(request).await;
    }
    // Whether its client waits or not; the server does not end before.
    let working = rule.app.working.clone().read_owned().await;
    let work = async move {
        let response = lease(rule.app, keyed, request, next).await;
        drop(working);
        response
    };
    let work = tokio::spawn(work);
    work.await.unwrap_or_else(|_| broken().into_response())
}

fn of_request(request: &Request, body: &Bytes) -> [u8; 32] {
    let uri = request.uri();
    let target = uri.path_and_query().map_or(uri.path(), |it| it.as_str());
    fingerprint(request.method().as_str(), target, body)
}

async fn lease(app: App, keyed: Keyed, request: Request, next: Next) -> Response {
    match app.store.begin(keyed.clone(), PATIENCE).await {
        Outcome::Begun(token) => work(app, keyed, token, next.run(request).await).await,
        outcome => respond(&app, outcome),
    }
}

/// Remembers the answer, unless a repeat may get another one.
async fn work(app: App, keyed: Keyed, token: Token, response: Response) -> Response {
    let (parts, body) = response.into_parts();
    // The routes make their answers whole.
    let Ok(bytes) = to_bytes(body, RESPONSE_BYTES_MAX).await else {
        return broken().into_response();
    };
    if is_final(parts.status) {
        app.metrics.keyed("executed");
        let answer = answer(parts.status, &parts.headers, &bytes);
        if !app.store.complete(keyed, token, answer).await {
            tracing::warn!("the answer to a request could not be remembered under its key");
        }
    } else {
        app.metrics.keyed("abandoned");
        app.store.abandon(keyed, token).await;
    }
    Response::from_parts(parts, Body::from(bytes))
}

/// Whether a repeat of a request that was answered so is answered the same.
pub(super) fn is_final(status: StatusCode) -> bool {
    !status.is_server_error()
        && !matches!(
            status,
            StatusCode::FORBIDDEN
                | StatusCode::REQUEST_TIMEOUT
                | StatusCode::CONFLICT
                | StatusCode::PRECONDITION_FAILED
                | StatusCode::PAYLOAD_TOO_LARGE
                | StatusCode::UNSUPPORTED_MEDIA_TYPE
                | StatusCode::TOO_MANY_REQUESTS
        )
}

fn answer(status: StatusCode, headers: &HeaderMap, body: &Bytes) -> Answer {
    if body.len() > ANSWER_BYTES_MAX {
        let detail = format!(
            "the request was done, and answered with status {}; the answer was too large to be \
             remembered, so read what it has changed",
            status.as_u16()
        );
        return Answer::problem(410, "Gone", &detail);
    }
    let pair = |name: &HeaderName| {
        let value = headers.get(name)?.to_str().ok()?;
        Some((name.as_str().to_owned(), value.to_owned()))
    };
    Answer {
        status: status.as_u16(),
        headers: REMEMBERED.iter().filter_map(pair).collect(),
        body: body.to_vec(),
    }
}

/// What the store's word is over HTTP.
pub(super) fn respond(app: &App, outcome: Outcome) -> Response {
    let problem = match outcome {
        Outcome::Done(answer) => return shown(answer, Shown::First),
        Outcome::Replayed(answer) => {
            app.metrics.keyed("replayed");
            return shown(answer, Shown::Again);
        }
        Outcome::OtherRequest => {
            app.metrics.keyed("other-request");
            let detail = "this key was used for another request: its method, path or body \
                          differs; take a new key for a new request";
            Problem::new(StatusCode::UNPROCESSABLE_ENTITY, detail)
        }
        Outcome::Running => {
            app.metrics.keyed("running");
            let detail = "the first request with this key still runs; send this one again";
            Problem::new(StatusCode::CONFLICT, detail).with_retry_after(RUNNING_RETRY_SECONDS)
        }
        Outcome::Full => {
            app.metrics.keyed("full");
            let detail = "no further idempotency key can be remembered now; send the request \
                          again later, or without a key";
            let problem = Problem::new(StatusCode::TOO_MANY_REQUESTS, detail);
            problem.with_retry_after(FULL_RETRY_SECONDS)
        }
        Outcome::Failed(reason) => {
            let detail = format!("the store cannot write ({reason}); nothing was done");
            Problem::new(StatusCode::SERVICE_UNAVAILABLE, detail)
        }
        // Only who asked to begin is told so.
        Outcome::Begun(_) => broken(),
    };
    problem.into_response()
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Shown {
    First,
    Again,
}

/// A repeat never sees 201: exactly one request does.
fn shown(answer: Answer, shown: Shown) -> Response {
    let status = StatusCode::from_u16(answer.status).unwrap_or(StatusCode::OK);
    let mut response = Response::new(Body::from(answer.body));
    *response.status_mut() = match (status, shown) {
        (StatusCode::CREATED, Shown::Again) => StatusCode::OK,
        (status, _) => status,
    };
    let headers = response.headers_mut();
    for (name, value) in answer.headers {
        if let (Ok(name), Ok(value)) = (HeaderName::try_from(name), HeaderValue::try_from(value)) {
            headers.insert(name, value);
        }
    }
    if shown == Shown::Again {
        headers.insert(REPLAYED, HeaderValue::from_static("true"));
    }
    response
}

fn broken() -> Problem {
    let detail = "the request ended early, and may have had an effect; see the agent's log";
    Problem::new(StatusCode::INTERNAL_SERVER_ERROR, detail)
}

/// The key of a request. It may be given bare, or as a quoted string; twice, by a proxy, if it is
/// the same.
fn key_of(headers: &HeaderMap) -> Result<Option<String>, Problem> {
    let mut found: Option<String> = None;
    for value in headers.get_all(KEY) {
        let text = value
            .to_str()
            .map_err(|_| wrong("holds other than ASCII"))?;
        for key in parse(text)? {
            match &found {
                Some(other) if *other != key => return Err(wrong("is given twice, differently")),
                _ => found = Some(key),
            }
        }
    }
    Ok(found)
}

/// The keys of one line: a proxy may have joined two.
fn parse(line: &str) -> Result<Vec<String>, Problem> {
    let mut keys = Vec::new();
    let mut rest = line.trim();
    loop {
        let (key, behind) = match rest.strip_prefix('"') {
            Some(quoted) => unquote(quoted)?,
            None => {
                let end = rest.find(',').unwrap_or(rest.len());
                (rest[..end].trim().to_owned(), &rest[end..])
            }
        };
        keys.push(check(key)?);
        let behind = behind.trim();
        match behind.strip_prefix(',') {
            Some(next) => rest = next.trim(),
            None if behind.is_empty() => return Ok(keys),
            None => return Err(wrong("goes on behind its closing quote")),
        }
    }
}

/// A quoted string (RFC 8941) without its quotes, and what is behind it.
fn unquote(quoted: &str) -> Result<(String, &str), Problem> {
    let mut key = String::new();
    let mut characters = quoted.char_indices();
    while let Some((at, character)) = characters.next() {
        match character {
            '"' => return Ok((key, &quoted[at + 1..])),
            '\\' => match characters.next() {
                Some((_, escaped @ ('"' | '\\'))) => key.push(escaped),
                _ => return Err(wrong("has a backslash before neither quote nor backslash")),
            },
            character => key.push(character),
        }
    }
    Err(wrong("has no closing quote"))
}

fn check(key: String) -> Result<String, Problem> {
    if key.is_empty() {
        return Err(wrong("is empty"));
    }
    if key.len() > KEY_BYTES_MAX {
        return Err(wrong("is longer than 255 characters"));
    }
    if !key.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(wrong(
            "holds a space, or another character that is not visible",
        ));
    }
    Ok(key)
}

fn wrong(what: &str) -> Problem {
    let detail = format!(
        "Idempotency-Key {what}; give 1-255 visible ASCII characters, bare (without commas) or in \
         double quotes"
    );
    Problem::new(StatusCode::BAD_REQUEST, detail)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(lines: &[&[u8]]) -> Result<Option<String>, ()> {
        let mut headers = HeaderMap::new();
        for line in lines {
            headers.append(KEY, HeaderValue::from_bytes(line).expect("a header"));
        }
        key_of(&headers).map_err(drop)
    }

    /// ietf-wg-httpapi/idempotency PR#10, josipmusa/idempotency4j#20, granit-fx/granit-dotnet
    /// PR#1151: quoted or not, blank, too long, and sent twice by a proxy.
    #[test]
    fn a_key_is_bare_or_quoted_visible_and_one() {
        let long = "k".repeat(256);
        let fits = &long[..255];
        let quoted = format!("\"{fits}\"");
        let one = |text: &str| Ok(Some(text.to_owned()));
        assert_eq!(key(&[]), Ok(None));
        for (lines, expected) in [
            (&[b"k".as_slice()][..], one("k")),
            (&[b"\"k\""], one("k")),
            (&[b" k "], one("k")),
            (&[b"\"a\\\"b\\\\c\""], one("a\"b\\c")),
            (&[b"\"a,b\""], one("a,b")),
            (&[b"k", b"\"k\""], one("k")),
            (&[b"k, k"], one("k")),
            (&[fits.as_bytes()], one(fits)),
            (&[quoted.as_bytes()], one(fits)),
            (&[b""], Err(())),
            (&[b"   "], Err(())),
            (&[b"\"\""], Err(())),
            (&[long.as_bytes()], Err(())),
            (&[b"a", b"b"], Err(())),
            (&[b"a,b"], Err(())),
            (&[b"a,"], Err(())),
            (&[b"a b"], Err(())),
            (&[b"\"a b\""], Err(())),
            (&[b"\"a"], Err(())),
            (&[b"\"a\"b"], Err(())),
            (&[b"\"a\\n\""], Err(())),
            (&["é".as_bytes()], Err(())),
        ] {
            assert_eq!(key(lines), expected, "{lines:?}");
        }
    }

    #[test]
    fn what_may_succeed_later_is_not_remembered() {
        for (status, remembered) in [
            (200, true),
            (201, true),
            (204, true),
            (400, true),
            (404, true),
            (422, true),
            (403, false),
            (408, false),
            (409, false),
            (412, false),
            (413, false),
            (415, false),
            (429, false),
            (500, false),
            (502, false),
            (503, false),
        ] {
            let status = StatusCode::from_u16(status).expect("valid");
            assert_eq!(is_final(status), remembered, "{status}");
        }
    }

    #[test]
    fn an_answer_that_is_too_large_is_remembered_as_done() {
        let body = Bytes::from(vec![b'x'; ANSWER_BYTES_MAX + 1]);
        let remembered = answer(StatusCode::OK, &HeaderMap::new(), &body);
        assert_eq!(remembered.status, 410);
        assert!(String::from_utf8_lossy(&remembered.body).contains("status 200"));
        let mut headers = HeaderMap::new();
        headers.insert(header::LOCATION, HeaderValue::from_static("/v1/events/3"));
        headers.insert(header::SET_COOKIE, HeaderValue::from_static("secret=1"));
        let small = answer(StatusCode::CREATED, &headers, &body.slice(..3));
        let location = ("location".to_owned(), "/v1/events/3".to_owned());
        assert_eq!((small.status, small.headers), (201, vec![location]));
    }
}
