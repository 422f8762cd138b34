//! The programs that build networks: required, never silently done without.

use std::io::Write;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio, exit};

/// Program, an argument that does nothing, and the Debian package that holds it.
const PROGRAMS: [(&str, &str, &str); 4] = [
    ("ip", "-V", "iproute2"),
    ("nft", "--version", "nftables"),
    ("unshare", "--version", "util-linux"),
    ("mount", "--version", "mount"),
];
/// Set for the process that runs inside a user namespace, so that it does not make another.
const INSIDE: &str = "NETNS_TESTS_INSIDE_USER_NAMESPACE";

/// Ends the process with the reason when the tests cannot run here. Where the user may not make
/// network namespaces, goes on inside a user namespace, in which it may.
pub fn require() {
    let missing: Vec<String> = PROGRAMS
        .iter()
        .filter(|(program, argument, _)| !succeeds(program, &[argument]))
        .map(|(program, _, package)| format!("`{program}` (apt-get install {package})"))
        .collect();
    if !missing.is_empty() {
        fail(&format!("missing: {}", missing.join(", ")));
    }
    if succeeds("unshare", &["--net", "--mount", "true"]) {
        return;
    }
    if std::env::var_os(INSIDE).is_some() || !succeeds("unshare", &["--user", "true"]) {
        fail(
            "this user may make no network namespaces: run as root (in a container: with \
             CAP_SYS_ADMIN and CAP_NET_ADMIN), or allow unprivileged user namespaces",
        );
    }
    let program = std::env::current_exe().expect("this program has a path");
    let error = command("unshare")
        .args(["--user", "--map-root-user"])
        .arg(program)
        .args(std::env::args_os().skip(1))
        .env(INSIDE, "1")
        .exec();
    fail(&format!("cannot start `unshare`: {error}"));
}

/// A command that is also found where administrators' programs are: others' paths may lack those.
pub fn command(program: &str) -> Command {
    let path = std::env::var("PATH").unwrap_or_default();
    let mut command = Command::new(program);
    command.env("PATH", format!("{path}:/usr/sbin:/sbin"));
    command
}

/// Runs `program` with `input`; fails the test with what it said.
pub fn run(program: &str, arguments: &[&str], input: &str) {
    let mut child = command(program)
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap_or_else(|error| panic!("{program}: {error}"));
    let mut stdin = child.stdin.take().expect("it is piped");
    stdin.write_all(input.as_bytes()).expect("it reads");
    drop(stdin);
    let output = child.wait_with_output().expect("it is ours");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success(),
        "{program} {arguments:?}: {said}\n{input}"
    );
}

fn succeeds(program: &str, arguments: &[&str]) -> bool {
    let mut command = command(program);
    command.args(arguments).stdin(Stdio::null());
    let status = command.stdout(Stdio::null()).stderr(Stdio::null()).status();
    status.is_ok_and(|status| status.success())
}

fn fail(reason: &str) -> ! {
    eprintln!("the tests in network namespaces cannot run: {reason}");
    exit(1)
}
