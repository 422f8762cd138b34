//! Posting an event to an HTTP target.

use std::collections::BTreeMap;
use std::time::Duration;

use ureq::Agent;
use ureq::http::StatusCode;

use super::Call;

/// What is kept of an answer that refuses, in bytes.
const ANSWER_BYTES_MAX: u64 = 1024;

/// Why a post has failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Refusal {
    /// What the target said, or the system.
    pub(super) error: String,
    /// Whether it would say the same again.
    pub(super) is_final: bool,
}

/// Posts the event of `call` to `url`, from a thread that may wait.
pub(super) async fn post(
    url: &str,
    headers: &BTreeMap<String, String>,
    call: &Call,
    timeout: Duration,
) -> Result<(), Refusal> {
    let (url, headers, call) = (url.to_owned(), headers.clone(), call.clone());
    let work = move || post_blocking(&url, &headers, &call, timeout);
    let posted = tokio::task::spawn_blocking(work).await;
    posted.unwrap_or_else(|error| Err(again(error.to_string())))
}

fn post_blocking(
    url: &str,
    headers: &BTreeMap<String, String>,
    call: &Call,
    timeout: Duration,
) -> Result<(), Refusal> {
    let config = Agent::config_builder()
        .http_status_as_error(false)
        .max_redirects(0)
        // The target is what the settings name, whatever the environment says about the web.
        .proxy(None)
        .timeout_global(Some(timeout))
        .user_agent(concat!("rumord/", env!("CARGO_PKG_VERSION")))
        .build();
    let mut request = Agent::from(config)
        .post(url)
        .header("Content-Type", "application/json")
        .header("Idempotency-Key", call.event.to_string());
    for (name, value) in headers {
        request = request.header(name, value);
    }
    let mut answer = request
        .send(call.body.as_bytes())
        .map_err(|error| again(error.to_string()))?;
    let status = answer.status();
    if status.is_success() {
        return Ok(());
    }
    let body = answer.body_mut().with_config().limit(ANSWER_BYTES_MAX);
    let text = body.read_to_string().unwrap_or_default();
    let line = text.lines().next().unwrap_or_default().trim();
    Err(Refusal {
        error: format!("answered {status} {line}").trim_end().to_owned(),
        is_final: is_final(status),
    })
}

fn again(error: String) -> Refusal {
    Refusal {
        error,
        is_final: false,
    }
}

/// Whether the request itself is what the target does not like.
fn is_final(status: StatusCode) -> bool {
    let passing = matches!(
        status,
        StatusCode::REQUEST_TIMEOUT
            | StatusCode::CONFLICT
            | StatusCode::TOO_EARLY
            | StatusCode::TOO_MANY_REQUESTS
    );
    status.is_client_error() && !passing
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpListener;
    use std::thread::{self, JoinHandle};

    use super::*;

    /// A server that gives one answer, and what it was asked.
    fn answering(answer: &'static str) -> (String, JoinHandle<String>) {
        let listener = TcpListener::bind("127.0.0.1:0").expect("loopback");
        let url = format!("http://{}/hook", listener.local_addr().expect("bound"));
        let server = thread::spawn(move || {
            let (mut stream, _) = listener.accept().expect("somebody comes");
            let (mut asked, mut buffer) = (Vec::new(), [0; 4096]);
            while !asked.ends_with(b"}") {
                let read = stream.read(&mut buffer).expect("it is sent");
                assert_ne!(read, 0, "the body is whole");
                asked.extend_from_slice(&buffer[..read]);
            }
            stream.write_all(answer.as_bytes()).expect("it is read");
            String::from_utf8(asked).expect("text")
        });
        (url, server)
    }

    async fn posted(answer: &'static str) -> (Result<(), Refusal>, String) {
        let (url, server) = answering(answer);
        let call = Call {
            id: 1,
            event: 17,
            body: r#"{"id":17}"#.into(),
            attempts: 0,
        };
        let headers = BTreeMap::from([("Authorization".to_owned(), "Bearer t".to_owned())]);
        let outcome = post(&url, &headers, &call, Duration::from_secs(30)).await;
        (outcome, server.join().expect("it has answered"))
    }

    #[tokio::test]
    async fn an_event_is_posted_with_its_id_as_key() {
        let (outcome, asked) = posted("HTTP/1.1 204 No Content\r\n\r\n").await;
        assert_eq!(outcome, Ok(()));
        let asked = asked.to_ascii_lowercase();
        for part in [
            "post /hook http/1.1",
            "idempotency-key: 17\r\n",
            "content-type: application/json\r\n",
            "authorization: bearer t\r\n",
            "\r\n\r\n{\"id\":17}",
        ] {
            assert!(asked.contains(part), "{part} in {asked}");
        }
    }

    #[tokio::test]
    async fn what_the_target_would_say_again_is_told_from_what_passes() {
        let busy = "HTTP/1.1 503 Service Unavailable\r\nContent-Length: 4\r\n\r\nbusy";
        let (outcome, _) = posted(busy).await;
        let refusal = outcome.expect_err("it refused");
        assert_eq!(refusal.error, "answered 503 Service Unavailable busy");
        assert!(!refusal.is_final);
        let (outcome, _) = posted("HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n").await;
        assert!(outcome.is_err_and(|refusal| refusal.is_final));
    }
}
