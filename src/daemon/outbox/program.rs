//! Running a program for an event.

use std::io;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};
use serde_json::{Map, Value};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, ChildStdin, Command};

use super::Call;

/// What is kept of a program's output, in bytes: enough to say what went wrong.
const OUTPUT_BYTES_MAX: usize = 1024;
/// How long the output of a program that has ended may still come from others that hold its pipes.
const DRAIN_TIMEOUT: Duration = Duration::from_millis(500);
/// A field longer than this is on standard input only: the system bounds an environment.
const VARIABLE_BYTES_MAX: usize = 32 * 1024;

/// Kills a program with all that it started, unless it has been seen to end.
struct Group(Option<Pid>);

impl Group {
    fn of(child: &Child) -> Self {
        let id = child.id().and_then(|id| i32::try_from(id).ok());
        Group(id.and_then(Pid::from_raw))
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        if let Some(group) = self.0 {
            // It may have ended meanwhile.
            let _ = kill_process_group(group, Signal::KILL);
        }
    }
}

/// Runs `command` with the event of `call`; within `timeout` it must end well.
pub(super) async fn run(command: &[String], call: &Call, timeout: Duration) -> Result<(), String> {
    let Some((program, arguments)) = command.split_first() else {
        return Err("no program is named".into());
    };
    let mut child = Command::new(program)
        .args(arguments)
        .envs(variables(&call.body))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .kill_on_drop(true)
        .spawn()
        .map_err(|error| format!("cannot run {program:?} ({error})"))?;
    let mut group = Group::of(&child);
    let work = attend(&mut child, &call.body);
    let Ok(ended) = tokio::time::timeout(timeout, work).await else {
        return Err(format!("did not end within {timeout:?}, and was killed"));
    };
    let (status, output) = ended.map_err(|error| format!("cannot be waited for ({error})"))?;
    if status.success() {
        // What it left running is its own affair.
        group.0 = None;
        return Ok(());
    }
    Err(failure(status, &output))
}

/// Feeds the program, takes its output and waits for its end.
async fn attend(child: &mut Child, body: &str) -> io::Result<(ExitStatus, Vec<u8>)> {
    let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    let feed = tokio::spawn(feed(stdin, body.to_owned()));
    let told = tokio::spawn(drain(stderr));
    let said = tokio::spawn(drain(stdout));
    let status = child.wait().await;
    // It may have ended without having read everything.
    feed.abort();
    said.abort();
    let output = tokio::time::timeout(DRAIN_TIMEOUT, told).await;
    let output = output.ok().and_then(Result::ok).unwrap_or_default();
    Ok((status?, output))
}

async fn feed(stdin: Option<ChildStdin>, body: String) {
    if let Some(mut stdin) = stdin {
        // A program need not read it.
        let _ = stdin.write_all(body.as_bytes()).await;
    }
}

/// Reads to the end, and keeps the beginning.
async fn drain(source: Option<impl AsyncRead + Unpin>) -> Vec<u8> {
    let mut kept = Vec::new();
    let mut buffer = [0; 4096];
    let Some(mut source) = source else {
        return kept;
    };
    while let Ok(read @ 1..) = source.read(&mut buffer).await {
        let room = OUTPUT_BYTES_MAX - kept.len();
        kept.extend_from_slice(&buffer[..read.min(room)]);
    }
    kept
}

fn failure(status: ExitStatus, output: &[u8]) -> String {
    let text = String::from_utf8_lossy(output);
    match text.lines().map(str::trim).find(|line| !line.is_empty()) {
        Some(line) => format!("{status}: {line}"),
        None => status.to_string(),
    }
}

/// The event's plain fields as variables, such as `RUMORD_EVENT_KIND`.
fn variables(body: &str) -> Vec<(String, String)> {
    let fields: Map<String, Value> = serde_json::from_str(body).unwrap_or_default();
    let variable = |(field, value): (String, Value)| {
        let text = match value {
            Value::String(text) => text,
            Value::Number(number) => number.to_string(),
            Value::Bool(yes) => yes.to_string(),
            Value::Null | Value::Array(_) | Value::Object(_) => return None,
        };
        let fits = text.len() <= VARIABLE_BYTES_MAX && !text.contains('\0');
        fits.then(|| (format!("RUMORD_EVENT_{}", field.to_ascii_uppercase()), text))
    };
    fields.into_iter().filter_map(variable).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(body: &str) -> Call {
        Call {
            id: 1,
            event: 17,
            body: body.into(),
            attempts: 0,
        }
    }

    fn shell(script: &str) -> Vec<String> {
        ["sh", "-c", script].map(str::to_owned).to_vec()
    }

    const LONG: Duration = Duration::from_secs(60);

    #[tokio::test]
    async fn a_program_has_the_event_on_its_input_and_in_its_environment() {
        let script = r#"test "$(cat)" = '{"id":17,"kind":"user"}' && \
                        test "$RUMORD_EVENT_KIND/$RUMORD_EVENT_ID" = user/17"#;
        let told = call(r#"{"id":17,"kind":"user"}"#);
        assert_eq!(run(&shell(script), &told, LONG).await, Ok(()));
    }

    #[tokio::test]
    async fn a_failure_tells_what_the_program_said() {
        let failed = run(&shell("echo no disk >&2; exit 3"), &call("{}"), LONG).await;
        assert_eq!(failed, Err("exit status: 3: no disk".into()));
        let absent = run(&["/no/such/program".into()], &call("{}"), LONG).await;
        assert!(absent.is_err_and(|error| error.contains("/no/such/program")));
    }

    /// hashicorp/serf#369: a handler that never ends, and one whose output nobody wants.
    #[tokio::test]
    async fn a_program_that_never_ends_is_killed_with_all_it_started() {
        let dir = std::env::temp_dir().join(format!("rumord-handler-{}", std::process::id()));
        let script = format!("sleep 1000 & echo $! > {}; wait", dir.display());
        let ended = run(&shell(&script), &call("{}"), Duration::from_secs(2)).await;
        assert!(ended.is_err_and(|error| error.contains("was killed")));
        let child = std::fs::read_to_string(&dir).expect("it began");
        let child = child.trim().to_owned();
        let gone = || {
            let status = std::fs::read_to_string(format!("/proc/{child}/stat"));
            // Dead, though perhaps not yet collected by whoever adopted it.
            status.map_or(true, |stat| stat.contains(") Z "))
        };
        for _ in 0..1000 {
            if gone() {
                break;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        assert!(gone(), "process {child} lives");
        let _ = std::fs::remove_file(dir);
    }

    #[tokio::test]
    async fn output_that_nobody_wants_is_read_and_dropped() {
        let script = "head -c 20000000 /dev/zero; head -c 20000000 /dev/zero >&2";
        assert_eq!(run(&shell(script), &call("{}"), LONG).await, Ok(()));
    }

    #[test]
    fn only_what_a_variable_can_hold_becomes_one() {
        let long = "x".repeat(VARIABLE_BYTES_MAX + 1);
        let body = format!(r#"{{"payload":"{long}","name":"a\u0000b","evidence":{{}},"id":3}}"#);
        let expected = vec![("RUMORD_EVENT_ID".to_owned(), "3".to_owned())];
        assert_eq!(variables(&body), expected);
    }
}
