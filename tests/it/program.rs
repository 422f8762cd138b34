//! Exit codes and messages of the program where no cluster is needed.

use std::net::{TcpListener, UdpSocket};
use std::process::{Command, Output};

/// Runs the program with none of the surrounding settings.
fn rumord(arguments: &[&str], environment: &[(&str, &str)]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_rumord"));
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("RUMORD_") {
            command.env_remove(name);
        }
    }
    command.args(arguments).envs(environment.iter().copied());
    command.output().expect("the program runs")
}

/// Checks the exit code and that stderr is one line that holds `words`.
fn assert_fails(output: &Output, code: i32, words: &[&str]) {
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{stderr}");
    assert_eq!(stderr.trim_end().lines().count(), 1, "{stderr}");
    assert!(stderr.starts_with("rumord: "), "{stderr}");
    for word in words {
        assert!(stderr.contains(word), "{word:?} in {stderr}");
    }
}

/// An address where nothing listens: its port was just given back.
fn nobody() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("loopback");
    listener.local_addr().expect("bound").to_string()
}

#[test]
fn every_client_command_says_that_no_daemon_answers() {
    let address = nobody();
    let url = format!("http://{address}");
    for command in [
        vec!["members"],
        vec!["members", "--watch"],
        vec!["info"],
        vec!["watch"],
        vec!["join", "127.0.0.1"],
        vec!["leave"],
        vec!["tags", "set", "zone=a"],
        vec!["tags", "unset", "zone"],
        vec!["service", "add", "web", "--port", "80"],
        vec!["service", "remove", "web"],
        vec!["maintenance", "on", "--for", "60s"],
        vec!["maintenance", "off"],
        vec!["forget", "n3"],
        vec!["event", "deploy", "v1"],
        vec!["bench", "charge", "--seconds", "1"],
    ] {
        let output = rumord(&[command, vec!["--http", &url]].concat(), &[]);
        assert_fails(&output, 69, &[&address, "rumord agent", "--http"]);
        let output = rumord(&["members"], &[("RUMORD_HTTP", &url)]);
        assert_fails(&output, 69, &[&address]);
    }
}

#[test]
fn waiting_for_a_daemon_that_never_comes_times_out() {
    let output = rumord(
        &[
            "wait",
            "--alive",
            "1",
            "--timeout",
            "300ms",
            "--http",
            &nobody(),
        ],
        &[],
    );
    assert_fails(&output, 1, &["timed out after 300ms", "no daemon answers"]);
}

#[test]
fn wrong_usage_and_wrong_environment_are_told_apart() {
    for wrong in [
        vec![],
        vec!["unknown"],
        vec!["join"],
        vec!["wait"],
        vec!["wait", "--alive", "1", "--timeout", "soon"],
        vec!["members", "--status", "gone"],
        vec!["members", "--http", "https://127.0.0.1"],
        vec!["members", "--tag", "=x"],
        vec!["dev", "--nodes", "0"],
        vec!["tags", "set", "zone"],
        vec!["tags", "set", "zone=a", "zone=b"],
        vec!["service", "add", "web"],
        vec!["service", "add", "web", "--port", "0"],
        vec!["service", "add", "a b", "--port", "80"],
        vec!["service", "remove", "a/b"],
        vec!["maintenance", "on"],
        vec!["maintenance", "on", "--for", "soon"],
    ] {
        let output = rumord(&wrong, &[]);
        if wrong.is_empty() {
            assert_eq!(output.status.code(), Some(2), "help, for want of a command");
        } else {
            assert_fails(&output, 2, &[]);
        }
    }
    let output = rumord(&["members"], &[("RUMORD_HTTP", "https://127.0.0.1")]);
    assert_fails(&output, 78, &["RUMORD_HTTP", "http://HOST:PORT"]);
}

#[test]
fn a_taken_http_port_is_named_with_the_remedy() {
    let holder = TcpListener::bind("127.0.0.1:0").expect("loopback");
    let address = holder.local_addr().expect("bound").to_string();
    let agent = [
        "agent",
        "--name",
        "n1",
        "--bind",
        "127.0.0.1:0",
        "--http",
        &address,
    ];
    let output = rumord(&agent, &[]);
    assert_fails(&output, 1, &[&address, "choose another with --http"]);
    assert!(output.stdout.is_empty(), "no ready line");
}

#[test]
fn a_taken_gossip_port_is_named_with_the_remedy() {
    let holder = UdpSocket::bind("127.0.0.1:0").expect("loopback");
    let address = holder.local_addr().expect("bound").to_string();
    let agent = ["agent", "--name", "n1", "--bind", &address, "--http", "off"];
    let output = rumord(&agent, &[]);
    assert_fails(&output, 1, &[&address, "choose another with --bind"]);
}

#[test]
fn the_version_and_the_help_of_every_command_are_there() {
    let version = rumord(&["--version"], &[]);
    assert_eq!(
        String::from_utf8_lossy(&version.stdout),
        concat!("rumord ", env!("CARGO_PKG_VERSION"), "\n")
    );
    for command in [
        vec!["agent"],
        vec!["dev"],
        vec!["members"],
        vec!["info"],
        vec!["join"],
        vec!["leave"],
        vec!["wait"],
        vec!["tags", "set"],
        vec!["tags", "unset"],
        vec!["service", "add"],
        vec!["service", "remove"],
        vec!["maintenance", "on"],
        vec!["maintenance", "off"],
    ] {
        let help = rumord(&[&command[..], &["--help"]].concat(), &[]);
        assert_eq!(help.status.code(), Some(0), "{command:?}");
        assert!(
            String::from_utf8_lossy(&help.stdout).contains("Usage: rumord "),
            "{command:?}"
        );
    }
}
