//! Sources, precedence and defaults of the settings.

use std::ffi::OsString;
use std::path::Path;
use std::time::Duration;

use clap::{Args, Command, FromArgMatches};

use super::*;

fn flags(args: &[&str]) -> Flags {
    let words = ["agent"].iter().chain(args);
    let matches = Flags::augment_args(Command::new("agent")).get_matches_from(words);
    Flags::from_arg_matches(&matches).expect("the flags were accepted")
}

fn load(args: &[&str], variables: &[(&str, &str)]) -> Result<Settings, SettingsError> {
    Settings::load(&flags(args), |name| {
        variables
            .iter()
            .find(|(key, _)| *key == name)
            .map(|(_, text)| OsString::from(text))
    })
}

fn loaded(args: &[&str], variables: &[(&str, &str)]) -> Settings {
    load(args, variables).expect("these settings are right")
}

fn parsed(text: &str) -> Result<Settings, SettingsError> {
    assemble(&file::parse(Path::new("x.toml"), text)?)
}

fn file_problem(text: &str) -> String {
    parsed(text).expect_err("this file is wrong").to_string()
}

#[test]
fn the_default_file_holds_the_defaults() {
    let settings = parsed(&default_file()).expect("the default file is right");
    assert_eq!(settings, Settings::preset(Profile::Lan));
}

/// The default is read from the settings and stored through the key, so both agree on the form.
#[test]
fn every_default_and_every_example_is_accepted() {
    for profile in [Profile::Local, Profile::Lan, Profile::Wan] {
        for key in keys() {
            let mut settings = Settings::preset(profile);
            let text = key.default_text(profile).unwrap_or(key.example.into());
            (key.set)(&mut settings, &text).expect(key.name);
            if key.default_text(profile).is_some() {
                assert_eq!(settings, Settings::preset(profile), "{}", key.name);
            }
        }
    }
}

#[test]
fn key_names_are_unique_and_the_profile_stands_before_what_it_presets() {
    let names: Vec<_> = keys().map(|key| key.name).collect();
    let mut unique = names.clone();
    unique.sort_unstable();
    unique.dedup();
    assert_eq!(unique.len(), names.len());
    let position = |name| names.iter().position(|other| *other == name);
    assert!(position("profile") < position("probe_period"));
    let preset = |key: &&Key| key.other_defaults().is_some();
    for key in keys().filter(preset) {
        assert!(position("profile") < position(key.name), "{}", key.name);
    }
}

#[test]
fn a_single_key_overrides_the_profile_whatever_its_source() {
    let settings = loaded(&["--profile", "wan"], &[("RUMORD_PAUSE_TOLERANCE", "7s")]);
    assert_eq!(settings.protocol.pause_tolerance, Duration::from_secs(7));
    assert_eq!(settings.protocol.ack_timeout, Duration::from_millis(200));
    let settings = loaded(&["--pause-tolerance", "7s"], &[("RUMORD_PROFILE", "wan")]);
    assert_eq!(settings.protocol.pause_tolerance, Duration::from_secs(7));
    assert_eq!(settings.protocol.push_gap, Duration::from_millis(200));
}

#[test]
fn a_stronger_source_replaces_a_whole_list() {
    let environment = [("RUMORD_JOIN", "a, b:1 ,"), ("RUMORD_TAG", "x=1,y=2")];
    let settings = loaded(&["--join", "c"], &environment);
    assert_eq!(settings.join, ["c"]);
    assert_eq!(settings.tags.len(), 2);
    assert_eq!(loaded(&[], &environment).join, ["a", "b:1"]);
}

#[test]
fn an_empty_variable_counts_as_absent() {
    let settings = loaded(&[], &[("RUMORD_BIND", ""), ("RUMORD_TAG", "")]);
    assert_eq!(settings.bind, Settings::preset(Profile::Lan).bind);
    assert!(settings.tags.is_empty());
}

#[test]
fn services_are_sorted_and_labels_are_unique() {
    let settings = loaded(&["--service", "web=80", "--service", "db=5432"], &[]);
    let names: Vec<_> = settings
        .services
        .iter()
        .map(|service| service.name.as_str())
        .collect();
    assert_eq!(names, ["db", "web"]);
    let error = load(&["--tag", "a=1", "--tag", "a=2"], &[]).expect_err("twice");
    assert_eq!(error.exit_code(), 2);
    assert_eq!(
        error.to_string(),
        "--tag: \"a=2\": tag a is given twice; keep one"
    );
    let error = load(&[], &[("RUMORD_SERVICE", "a=1,a=2")]).expect_err("twice");
    assert_eq!(error.exit_code(), 78);
}

#[test]
fn metadata_that_does_not_fit_is_refused_with_the_limit() {
    let tag = format!("k={}", "v".repeat(70_000));
    let error = load(&[], &[("RUMORD_TAG", &tag)])
        .expect_err("too large")
        .to_string();
    assert!(
        error.starts_with("RUMORD_TAG: ") && error.contains("at most 65536"),
        "{error}"
    );
    let many: Vec<_> = (0..257).map(|n| format!("k{n}=")).collect();
    let error = load(&[], &[("RUMORD_TAG", &many.join(","))])
        .expect_err("too many")
        .to_string();
    assert!(error.contains("at most 256"), "{error}");
}

#[test]
fn files_take_numbers_booleans_and_lists_as_such() {
    let settings = parsed(
        "relays = 0x4\nphi_dead = 10\npush_rate = 100_000\nhttp_writes = true\ntags = ['a=1']\n",
    )
    .expect("right");
    assert_eq!(settings.protocol.relays, 4);
    assert_eq!(settings.protocol.push_rate, 100_000);
    assert_eq!(settings.http_writes, HttpWrites::On);
    assert_eq!(settings.tags["a"], "1");
    assert!(parsed("name = true").is_err());
}

#[test]
fn a_wrong_line_is_named_with_its_value_and_remedy() {
    assert_eq!(
        file_problem("# a comment\n\nprobe_period = \"5\"\n"),
        "x.toml:3: probe_period = \"5\": time unit needed, for example 5sec or 5ms; write a number \
         and a unit, such as 500ms or 5s"
    );
    assert_eq!(
        file_problem("probe_period = 5"),
        "x.toml:1: probe_period cannot be of type integer; write it like probe_period = \"1s\""
    );
    assert_eq!(
        file_problem("tags = [\n \"a=1\",\n \"b\",\n]"),
        "x.toml:3: tags = \"b\": is not KEY=VALUE; write it as zone=a"
    );
    assert_eq!(
        file_problem("name = \"a\"\nname = \"b\"\n")
            .split(' ')
            .next(),
        Some("x.toml:2:"),
        "TOML's own errors have their line too"
    );
}

#[test]
fn unknown_keys_are_refused_and_the_nearest_is_named() {
    let near = |key: &str| file_problem(&format!("{key} = 1"));
    assert_eq!(
        near("probe-period"),
        "x.toml:1: unknown key \"probe-period\"; did you mean probe_period?"
    );
    assert!(near("tag").ends_with("did you mean tags?"));
    assert!(near("encryption").ends_with("`rumord config default` lists all keys"));
    assert!(near("config").contains("remove it from the file"));
}

/// The first wrong line is reported, not the first in the order of the alphabet.
#[test]
fn the_first_wrong_line_is_reported() {
    assert!(file_problem("relays = \"x\"\nbind = \"x\"\n").starts_with("x.toml:1: relays"));
}

#[test]
fn contradictions_blame_the_key_that_made_them() {
    assert_eq!(
        file_problem("name = \"a\"\nprofile = \"wan\"\nprobe_period = \"500ms\"\n"),
        "x.toml:3: probe_period = \"500ms\": ack_timeout = 200ms is out of range; it must be 1ms \
         to 125ms"
    );
    assert_eq!(
        file_problem("\nrelays = 17\n"),
        "x.toml:2: relays = 17 is out of range; it must be 1 to 16"
    );
    let error = load(&["--relays", "0"], &[]).expect_err("no relays");
    assert_eq!(error.exit_code(), 2);
    assert!(
        error
            .to_string()
            .starts_with("--relays: relays = 0 is out of range"),
        "{error}"
    );
}

#[test]
fn writes_beyond_loopback_are_refused() {
    let wide = ["--http", "0.0.0.0:7481"];
    let error = load(&wide, &[("RUMORD_HTTP_WRITES", "on")]).expect_err("open to the network");
    assert_eq!(
        error.exit_code(),
        2,
        "the flag spoilt what was right with the default"
    );
    assert!(error.to_string().starts_with("--http: "), "{error}");
    let error = load(
        &[],
        &[("RUMORD_HTTP", "0.0.0.0:1"), ("RUMORD_HTTP_WRITES", "on")],
    );
    assert_eq!(error.expect_err("open to the network").exit_code(), 78);
    assert!(load(&wide, &[]).is_ok(), "auto does not write there");
    assert!(load(&["--http-writes", "on", "--http", "[::1]:1"], &[]).is_ok());
    assert!(load(&["--http-writes", "on", "--http", "off"], &[]).is_ok());
}

#[test]
fn the_clients_form_of_the_http_variable_is_understood() {
    let settings = loaded(&[], &[("RUMORD_HTTP", "http://127.0.0.1:9000/")]);
    assert_eq!(settings.http, Some(([127, 0, 0, 1], 9000).into()));
}

#[test]
fn a_missing_file_is_a_bad_configuration() {
    let error = load(&["--config", "/nowhere/x.toml"], &[]).expect_err("no such file");
    assert_eq!(error.exit_code(), 78);
    assert!(
        error
            .to_string()
            .starts_with("/nowhere/x.toml: cannot be read"),
        "{error}"
    );
}

#[test]
fn an_error_is_one_line_whatever_was_written() {
    let message = file_problem("log_level = \"a\\nb\\u0007\"");
    assert!(!message.contains(char::is_control), "{message:?}");
    let message = file_problem("\"a\\nb\" = 1");
    assert!(!message.contains(char::is_control), "{message:?}");
}
