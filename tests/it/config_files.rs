//! Settings files, variables and flags, through the built binary.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::atomic::{AtomicU32, Ordering};

use rumord::daemon::settings::{self, Kind, Profile, check_file, default_file};

/// Runs `rumord` with none of its variables set, except `variables`.
fn rumord(args: &[&str], variables: &[(&str, &str)]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_rumord"));
    for key in settings::keys() {
        command.env_remove(key.variable());
    }
    let command = command.args(args).envs(variables.iter().copied());
    command.output().expect("the binary was built and runs")
}

/// Asserts that `output` is a failure with `code`, and returns what was written to stderr.
fn failure(output: &Output, code: i32) -> String {
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(code), "{stderr}");
    assert!(output.stdout.is_empty(), "errors belong on stderr");
    stderr
}

/// As [`failure`] of a bad configuration, which is told in one line.
fn bad_configuration(output: &Output) -> String {
    let stderr = failure(output, 78);
    assert_eq!(stderr.lines().count(), 1, "{stderr}");
    stderr
}

fn shipped(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("config")
        .join(name)
}

fn shipped_files() -> Vec<PathBuf> {
    let dir = fs::read_dir(shipped("")).expect("config/ is there");
    let paths = dir.map(|entry| entry.expect("readable").path());
    let toml = |path: &PathBuf| {
        path.extension()
            .is_some_and(|extension| extension == "toml")
    };
    let mut files: Vec<_> = paths.filter(toml).collect();
    files.sort();
    files
}

/// A settings file that is removed at the end of its test.
struct TestFile(PathBuf);

impl TestFile {
    fn new(text: &str) -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("rumord-settings-{}-{number}.toml", std::process::id());
        let path = std::env::temp_dir().join(name);
        fs::write(&path, text).expect("written");
        TestFile(path)
    }

    fn path(&self) -> &str {
        self.0.to_str().expect("the path is UTF-8")
    }

    fn check(&self) -> Output {
        rumord(&["config", "check", self.path()], &[])
    }
}

impl Drop for TestFile {
    fn drop(&mut self) {
        // Best effort: a leftover file harms no other test.
        let _ = fs::remove_file(&self.0);
    }
}

#[test]
fn lan_toml_is_the_default_file() {
    let text = fs::read_to_string(shipped("lan.toml")).expect("readable");
    assert_eq!(
        text,
        default_file(),
        "run `rumord config default > config/lan.toml`"
    );
    let printed = rumord(&["config", "default"], &[]);
    assert!(printed.status.success());
    assert_eq!(String::from_utf8_lossy(&printed.stdout), text);
}

#[test]
fn every_shipped_file_is_ok() {
    let files = shipped_files();
    assert!(files.len() >= 3, "{files:?}");
    for file in files {
        let path = file.to_str().expect("the path is UTF-8");
        let output = rumord(&["config", "check", path], &[]);
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(
            String::from_utf8_lossy(&output.stdout),
            format!("{path}: ok\n"),
            "{stderr}"
        );
        assert_eq!(output.status.code(), Some(0));
    }
}

#[test]
fn every_key_stands_in_lan_toml_and_in_the_help() {
    let text = fs::read_to_string(shipped("lan.toml")).expect("readable");
    let help = rumord(&["agent", "--help"], &[]);
    let help = String::from_utf8_lossy(&help.stdout);
    for key in settings::keys() {
        assert!(
            help.contains(&format!("{} <", key.flag())),
            "{} lacks its flag",
            key.name
        );
        assert!(
            help.contains(&key.variable()),
            "{} lacks its variable",
            key.name
        );
        let written = |line: &str| line.trim_start_matches("# ").starts_with(key.file_key());
        let in_file = key.kind != Kind::OutsideFiles;
        assert_eq!(text.lines().any(written), in_file, "{}", key.name);
    }
}

#[test]
fn shipped_profiles_equal_their_presets_and_spell_out_what_differs() {
    let files = [
        ("local.toml", Profile::Local),
        ("lan.toml", Profile::Lan),
        ("wan.toml", Profile::Wan),
    ];
    for (name, profile) in files {
        let settings = check_file(shipped(name)).expect(name);
        assert_eq!(settings.profile, profile);
        assert_eq!(settings.protocol, profile.config());
        let text = fs::read_to_string(shipped(name)).expect("readable");
        let differs =
            |key: &&settings::Key| key.default_text(profile) != key.default_text(Profile::Lan);
        for key in settings::keys().filter(differs) {
            let start = format!("{} = ", key.file_key());
            assert!(
                text.lines().any(|line| line.starts_with(&start)),
                "{name} lacks {}",
                key.name
            );
        }
    }
}

#[test]
fn a_wrong_file_is_78_with_its_line() {
    let cases = [
        (
            "\nprobe_perod = \"1s\"\n",
            ":2: unknown key \"probe_perod\"; did you mean probe_period?",
        ),
        (
            "name = \"a\"\n\nbind = \"here\"\n",
            ":3: bind = \"here\": is no IP address with a port",
        ),
        ("relays = 3\nrelays = 4\n", ":2: is no TOML (duplicate key"),
        (
            "[tags]\nzone = \"a\"\n",
            ":1: tags cannot be of type table; write it like tags = [",
        ),
        (
            "http = \"0.0.0.0:7481\"\nhttp_writes = \"on\"\n",
            ":2: http_writes = on would let",
        ),
        (
            "pause_tolerance = \"500ms\"\n",
            ":1: pause_tolerance = 500ms is out of range",
        ),
    ];
    for (text, expected) in cases {
        let file = TestFile::new(text);
        let expected = format!("rumord: {}{expected}", file.path());
        let message = bad_configuration(&file.check());
        assert!(
            message.starts_with(&expected),
            "{message}\nexpected {expected}"
        );
        let agent = rumord(&["agent", "--config", file.path()], &[]);
        assert_eq!(
            bad_configuration(&agent),
            message,
            "the agent says the same"
        );
    }
}

#[test]
fn a_file_that_is_not_there_is_78() {
    for args in [
        ["config", "check", "/nowhere.toml"],
        ["agent", "--config", "/nowhere.toml"],
    ] {
        let message = bad_configuration(&rumord(&args, &[]));
        assert!(
            message.starts_with("rumord: /nowhere.toml: cannot be read"),
            "{message}"
        );
    }
}

#[test]
fn a_wrong_variable_is_78_and_named() {
    let cases = [
        ("RUMORD_PROBE_PERIOD", "5"),
        ("RUMORD_NAME", "a b"),
        ("RUMORD_LOG_LEVEL", "loud"),
        ("RUMORD_TAG", "a=1,b"),
        ("RUMORD_RELAYS", "17"),
    ];
    for (variable, text) in cases {
        let message = bad_configuration(&rumord(&["agent"], &[(variable, text)]));
        assert!(
            message.starts_with(&format!("rumord: {variable}: ")),
            "{message}"
        );
    }
}

#[test]
fn a_wrong_flag_is_2_and_named() {
    let cases = [
        ["--probe-period", "5"],
        ["--name", "a b"],
        ["--log-level", "loud"],
        ["--profile", "moon"],
        ["--relays", "17"],
        ["--advertise", "0.0.0.0:7480"],
        ["--no-such-flag", ""],
    ];
    for [flag, text] in cases {
        let message = failure(&rumord(&["agent", flag, text], &[]), 2);
        assert!(message.contains(flag), "{message}");
    }
}

/// A contradiction shows which source was heard: each adds a wrong value that a stronger one hides.
#[test]
fn flag_wins_over_variable_over_file_over_default() {
    let file = TestFile::new("relays = 17\n");
    let config = ["agent", "--config", file.path()];
    let variable = [("RUMORD_RELAYS", "18")];
    let message = bad_configuration(&rumord(&config, &[]));
    assert!(
        message.contains(":1: relays = 17 "),
        "over the default: {message}"
    );
    let message = bad_configuration(&rumord(&config, &variable));
    assert!(message.contains("RUMORD_RELAYS: relays = 18 "), "{message}");
    let with_flag = [&config[..], &["--relays", "19"]].concat();
    let message = failure(&rumord(&with_flag, &variable), 2);
    assert!(message.contains("--relays: relays = 19 "), "{message}");
}

#[test]
fn the_variable_names_the_file_too_and_the_flag_wins() {
    let (one, other) = (
        TestFile::new("relays = 17\n"),
        TestFile::new("relays = 18\n"),
    );
    let variable = [("RUMORD_CONFIG", one.path())];
    assert!(bad_configuration(&rumord(&["agent"], &variable)).contains("relays = 17"));
    let flag = rumord(&["agent", "--config", other.path()], &variable);
    assert!(bad_configuration(&flag).contains("relays = 18"));
}
