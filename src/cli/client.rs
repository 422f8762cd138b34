//! A blocking client of the daemon's HTTP API.

use std::time::Duration;

use clap::Args;
use serde::de::DeserializeOwned;
use serde_json::Value;
use ureq::http::Response;
use ureq::{Agent, Body};

use super::{EXIT_CONFIG, EXIT_FAILED, EXIT_UNREACHABLE, EXIT_USAGE, Failure};

/// Where the daemon serves HTTP unless told otherwise.
const DEFAULT_URL: &str = "http://127.0.0.1:7481";
/// The environment variable that says otherwise.
const URL_VARIABLE: &str = "RUMORD_HTTP";
/// How long a connection may take to establish.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// How long an answer may take.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);
/// How long an answer may take beyond the time a blocking read asks the daemon to wait.
const BLOCKING_MARGIN: Duration = Duration::from_secs(5);
/// Largest answer read, in bytes: a table of some hundred thousand members.
const ANSWER_BYTES_MAX: u64 = 256 * 1024 * 1024;

/// The flag that every client command takes.
#[derive(Args, Debug)]
pub(super) struct Target {
    /// The daemon's HTTP address [default: http://127.0.0.1:7481] [env: RUMORD_HTTP]
    #[arg(long, value_name = "URL")]
    http: Option<String>,
}

/// Speaks to one daemon. Cheap to clone.
#[derive(Clone, Debug)]
pub(super) struct Client {
    base: String,
    agent: Agent,
}

/// An answer with the status it came with.
pub(super) struct Answer {
    /// The HTTP status code.
    pub(super) status: u16,
    /// The JSON body; null when it is none.
    pub(super) body: Value,
    /// The tag for `If-Match`, where the daemon gave one.
    pub(super) etag: Option<String>,
}

impl Target {
    /// The client for the flag, else the environment variable, else the default.
    ///
    /// # Errors
    /// The address is no `http://` URL: usage, or configuration when it came from the environment.
    pub(super) fn client(&self) -> Result<Client, Failure> {
        if let Some(url) = &self.http {
            return base(url)
                .map(Client::new)
                .map_err(|why| Failure::new(EXIT_USAGE, format!("--http {url:?} {why}")));
        }
        match std::env::var(URL_VARIABLE) {
            Ok(url) if !url.is_empty() => base(&url)
                .map(Client::new)
                .map_err(|why| Failure::new(EXIT_CONFIG, format!("{URL_VARIABLE}={url:?} {why}"))),
            _ => Ok(Client::new(DEFAULT_URL.into())),
        }
    }
}

/// The URL without a trailing slash; `HOST:PORT` alone is taken as one.
fn base(url: &str) -> Result<String, &'static str> {
    let full = if url.contains("://") {
        url.to_owned()
    } else {
        format!("http://{url}")
    };
    let trimmed = full.trim_end_matches('/');
    let rest = trimmed
        .strip_prefix("http://")
        .ok_or("is not http://; give http://HOST:PORT of the daemon")?;
    let authority = rest.parse::<ureq::http::uri::Authority>();
    match authority {
        Ok(authority) if !authority.host().is_empty() => Ok(trimmed.to_owned()),
        _ => Err("is no address; give http://HOST:PORT of the daemon"),
    }
}

impl Client {
    /// A client of the daemon at `base`, a URL without a trailing slash.
    pub(super) fn new(base: String) -> Self {
        let config = Agent::config_builder()
            .http_status_as_error(false)
            .max_redirects(0)
            // The daemon is asked directly, whatever the environment says about the web.
            .proxy(None)
            .timeout_connect(Some(CONNECT_TIMEOUT))
            .timeout_recv_response(Some(ANSWER_TIMEOUT))
            .timeout_recv_body(Some(ANSWER_TIMEOUT))
            .user_agent(concat!("rumord/", env!("CARGO_PKG_VERSION")))
            .build();
        Client {
            base,
            agent: config.into(),
        }
    }

    /// The URL of `path` at this daemon.
    pub(super) fn url(&self, path: &str) -> String {
        format!("{}{path}", self.base)
    }

    /// Reads `path`.
    ///
    /// # Errors
    /// The daemon is not reachable, or answered with a problem.
    pub(super) fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, Failure> {
        self.get_within(path, &[], ANSWER_TIMEOUT)
    }

    /// Reads `path` with query parameters, of which one asks the daemon to wait up to `wait`.
    ///
    /// # Errors
    /// The daemon is not reachable, or answered with a problem.
    pub(super) fn get_blocking<T: DeserializeOwned>(
        &self,
        path: &str,
        query: &[(&str, String)],
        wait: Duration,
    ) -> Result<T, Failure> {
        self.get_within(path, query, wait + BLOCKING_MARGIN)
    }

    fn get_within<T: DeserializeOwned>(
        &self,
        path: &str,
        query: &[(&str, String)],
        timeout: Duration,
    ) -> Result<T, Failure> {
        let request = self.agent.get(self.url(path));
        let request = query
            .iter()
            .fold(request, |request, (name, value)| request.query(name, value));
        let request = request
            .config()
            .timeout_recv_response(Some(timeout))
            .build();
        let answer = self.read(request.call())?.done()?;
        serde_json::from_value(answer.body).map_err(|error| self.foreign(&error.to_string()))
    }

    /// Reads `path`, whatever the status.
    ///
    /// # Errors
    /// The daemon is not reachable.
    pub(super) fn get_answer(&self, path: &str) -> Result<Answer, Failure> {
        self.read(self.agent.get(self.url(path)).call())
    }

    /// Puts a JSON body, only over the state that `if_match` names where one is given, and waits up
    /// to `wait` for the answer, whatever its status.
    ///
    /// # Errors
    /// The daemon is not reachable.
    pub(super) fn put(
        &self,
        path: &str,
        body: &Value,
        if_match: Option<&str>,
        wait: Duration,
    ) -> Result<Answer, Failure> {
        let request = self
            .agent
            .put(self.url(path))
            .content_type("application/json");
        let request = if_match
            .into_iter()
            .fold(request, |request, tag| request.header("If-Match", tag));
        let request = request.config().timeout_recv_response(Some(wait)).build();
        self.read(request.send(body.to_string()))
    }

    /// Deletes `path` and waits up to `wait` for the answer, whatever its status.
    ///
    /// # Errors
    /// The daemon is not reachable.
    pub(super) fn delete(&self, path: &str, wait: Duration) -> Result<Answer, Failure> {
        let request = self.agent.delete(self.url(path));
        let request = request.config().timeout_recv_response(Some(wait)).build();
        self.read(request.call())
    }

    /// Posts a JSON body and waits up to `wait` for the answer, whatever its status.
    ///
    /// # Errors
    /// The daemon is not reachable.
    pub(super) fn post(&self, path: &str, body: &Value, wait: Duration) -> Result<Answer, Failure> {
        let request = self
            .agent
            .post(self.url(path))
            .content_type("application/json");
        let request = request.config().timeout_recv_response(Some(wait)).build();
        self.read(request.send(body.to_string()))
    }

    /// Posts a JSON body under an idempotency key, as the header spells it, and waits up to `wait`
    /// for the answer, whatever its status.
    ///
    /// # Errors
    /// The daemon is not reachable, or did not answer.
    pub(super) fn post_once(
        &self,
        path: &str,
        body: &Value,
        key: &str,
        wait: Duration,
    ) -> Result<Answer, Failure> {
        let request = self
            .agent
            .post(self.url(path))
            .content_type("application/json")
            .header("Idempotency-Key", key);
        let request = request.config().timeout_recv_response(Some(wait)).build();
        self.read(request.send(body.to_string()))
    }

    fn read(&self, result: Result<Response<Body>, ureq::Error>) -> Result<Answer, Failure> {
        let mut response = result.map_err(|error| self.unreachable(&error))?;
        let status = response.status().as_u16();
        let etag = response.headers().get("ETag");
        let etag = etag.and_then(|tag| tag.to_str().ok()).map(str::to_owned);
        let body = response
            .body_mut()
            .with_config()
            .limit(ANSWER_BYTES_MAX)
            .read_to_vec();
        let bytes = body.map_err(|error| self.unreachable(&error))?;
        Ok(Answer {
            status,
            body: serde_json::from_slice(&bytes).unwrap_or(Value::Null),
            etag,
        })
    }

    fn unreachable(&self, error: &ureq::Error) -> Failure {
        let reason = match error {
            ureq::Error::Io(error) => error.to_string(),
            ureq::Error::Timeout(_) => "no answer in time".into(),
            error => error.to_string(),
        };
        let base = &self.base;
        let message = format!(
            "no daemon answers at {base} ({reason}); start one with `rumord agent`, or name \
             another with --http"
        );
        Failure::new(EXIT_UNREACHABLE, message)
    }

    fn foreign(&self, reason: &str) -> Failure {
        let base = &self.base;
        let message = format!("{base} does not answer as rumord does ({reason}); check --http");
        Failure::new(EXIT_FAILED, message)
    }
}

impl Answer {
    /// The answer if it is a success.
    ///
    /// # Errors
    /// What the daemon's problem document says.
    pub(super) fn done(self) -> Result<Self, Failure> {
        if (200..300).contains(&self.status) {
            return Ok(self);
        }
        Err(Failure::new(EXIT_FAILED, self.problem()))
    }

    /// What a problem document says, in one line.
    pub(super) fn problem(&self) -> String {
        let text = |field: &str| self.body.get(field).and_then(Value::as_str);
        let message = match (text("title"), text("detail")) {
            (_, Some(detail)) => detail.to_owned(),
            (Some(title), None) => title.to_owned(),
            (None, None) => format!("the daemon answered with status {}", self.status),
        };
        super::output::visible(&message)
    }
}

/// A name as a segment of a path: whatever is no name stays one segment, which no member has.
pub(super) fn in_path(name: &str) -> String {
    let plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"._-".contains(byte);
    let dots = !name.is_empty() && name.bytes().all(|byte| byte == b'.');
    let encoded = name.bytes().map(|byte| match plain(&byte) && !dots {
        true => char::from(byte).to_string(),
        false => format!("%{byte:02X}"),
    });
    encoded.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_taken_with_and_without_scheme() {
        assert_eq!(
            base("http://127.0.0.1:7481/"),
            Ok("http://127.0.0.1:7481".into())
        );
        assert_eq!(base("[::1]:7481"), Ok("http://[::1]:7481".into()));
        for wrong in ["https://127.0.0.1", "", "http://", "http://a b"] {
            assert!(base(wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn a_daemon_that_is_not_there_is_named_with_the_remedy() {
        // Nothing listens on a port that was just given back.
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("loopback");
        let address = listener.local_addr().expect("bound");
        drop(listener);
        let client = Client::new(format!("http://{address}"));
        let failure = client
            .get::<Value>("/v1/members")
            .expect_err("nobody there");
        assert_eq!(failure.code, EXIT_UNREACHABLE);
        assert!(
            failure.message.contains(&address.to_string()),
            "{}",
            failure.message
        );
        assert!(
            failure.message.contains("rumord agent"),
            "{}",
            failure.message
        );
    }

    #[test]
    fn a_name_stays_one_segment_of_the_path() {
        assert_eq!(in_path("n-1.a_B"), "n-1.a_B");
        assert_eq!(in_path("../self"), "..%2Fself");
        assert_eq!(in_path(".."), "%2E%2E");
        assert_eq!(in_path("a?b"), "a%3Fb");
    }
}
