//! Words that must not appear, and where.

use super::scan::find_words;
use super::source::Source;
use super::{Offences, hold, offends};

/// What the core must not name, and what it uses instead.
const BANNED_IN_THE_CORE: [(&str, &str); 14] = [
    (
        "tokio",
        "the core is driven by its caller: take an input, fill the outbox",
    ),
    (
        "std::time::Instant",
        "use crate::time::Instant, which the caller supplies",
    ),
    ("Instant::now", "use the `now` that the caller passed in"),
    ("SystemTime", "use the wall clock that the caller passed in"),
    (
        "HashMap",
        "use BTreeMap: its order is the same in every run",
    ),
    (
        "HashSet",
        "use BTreeSet: its order is the same in every run",
    ),
    ("rand::rng", "use the seeded generator of the node"),
    ("thread_rng", "use the seeded generator of the node"),
    ("println!", "put an event into the outbox"),
    ("std::env", "take it from the configuration"),
    ("std::fs", "let the driver read and write"),
    ("std::net::UdpSocket", "put a transmit into the outbox"),
    (
        "tracing",
        "put an event into the outbox; the driver logs it",
    ),
    ("eprintln!", "put an event into the outbox"),
];

fn the_core_is_pure(source: &Source) -> Offences {
    let core = ["src/time", "src/member", "src/wire", "src/protocol"];
    if !core.iter().any(|layer| source.is_within(layer)) {
        return Vec::new();
    }
    let lines = source.product_lines();
    let plain = lines.flat_map(|(line, code)| {
        let named = |(word, _): &&(&str, &str)| find_words(code, word).next().is_some();
        let hits = BANNED_IN_THE_CORE.iter().filter(named);
        hits.map(move |(word, instead)| source.offence(line, &format!("names {word}"), instead))
    });
    plain.chain(listed(source)).collect()
}

/// Banned paths inside a `use` list, as in `use std::{fs, net::{SocketAddr, UdpSocket}}`.
fn listed(source: &Source) -> Offences {
    let mut offences = Offences::new();
    let mut statement: Option<(usize, String)> = None;
    for (line, code) in source.product_lines() {
        if statement.is_none() && find_words(code, "use").next().is_some() {
            statement = Some((line, String::new()));
        }
        if let Some((_, text)) = &mut statement {
            text.push_str(code);
        }
        if code.contains(';')
            && let Some((first, text)) = statement.take()
        {
            let hits = BANNED_IN_THE_CORE
                .iter()
                .filter(|(word, _)| lists(&text, word));
            offences.extend(
                hits.map(|(word, instead)| {
                    source.offence(first, &format!("imports {word}"), instead)
                }),
            );
        }
    }
    offences
}

/// Whether `statement`, a `use` with braces, names the parts of `path` one inside the other.
fn lists(statement: &str, path: &str) -> bool {
    let parts: Vec<_> = path.split("::").collect();
    let whole = find_words(statement, path).next().is_some();
    if parts.len() < 2 || whole || !statement.contains('{') {
        return false;
    }
    let mut rest = statement;
    for part in &parts {
        match find_words(rest, part).next() {
            Some(at) => rest = &rest[at + part.len()..],
            None => return false,
        }
    }
    true
}

fn bincode_stays_in_wire(source: &Source) -> Offences {
    if source.is_within("src/wire") {
        return Vec::new();
    }
    each_line(source, |code| find_words(code, "bincode").next().is_some())
        .map(|line| source.offence(line, "names bincode", "use crate::wire's messages instead"))
        .collect()
}

fn metrics_stay_in_telemetry(source: &Source) -> Offences {
    if source.is_within("src/daemon/telemetry") {
        return Vec::new();
    }
    let macros = ["counter!", "gauge!", "histogram!"];
    let instead = "use a counter of Stats, or an observer in daemon::telemetry, instead";
    each_line(source, |code| {
        macros
            .iter()
            .any(|name| find_words(code, name).next().is_some())
            || names_metrics(code)
    })
    .map(|line| source.offence(line, "uses the metrics crate", instead))
    .collect()
}

/// Whether `code` names the crate, not a module of that name further inside a path.
fn names_metrics(code: &str) -> bool {
    find_words(code, "metrics::").any(|at| !code[..at].ends_with("::"))
}

fn nothing_is_left_to_do(source: &Source) -> Offences {
    let macros = ["todo!", "dbg!", "unimplemented!"];
    let marks = ["FIXME", "TODO"];
    let (code, text) = (source.code.lines(), source.text.lines());
    let lines = code.zip(text).enumerate().filter(|(_, (code, text))| {
        macros
            .iter()
            .any(|word| find_words(code, word).next().is_some())
            || marks
                .iter()
                .any(|word| find_words(text, word).next().is_some())
    });
    let instead = "finish it, or leave it out, instead";
    lines
        .map(|(i, _)| source.offence(i + 1, "leaves something to do", instead))
        .collect()
}

fn nothing_is_unwrapped(source: &Source) -> Offences {
    let instead = "use `?`, a default, or `expect` with the reason why it cannot fail instead";
    each_line(source, |code| {
        find_words(code, ".unwrap()").next().is_some()
    })
    .map(|line| source.offence(line, "unwraps", instead))
    .collect()
}

fn each_line(source: &Source, wrong: impl Fn(&str) -> bool) -> impl Iterator<Item = usize> {
    source
        .product_lines()
        .filter(move |(_, code)| wrong(code))
        .map(|(line, _)| line)
}

#[test]
fn the_core_has_no_clock_no_io_no_chance() {
    hold(the_core_is_pure);
}

#[test]
fn an_impure_core_is_found() {
    let rule = the_core_is_pure;
    for (word, _) in BANNED_IN_THE_CORE {
        offends(
            rule,
            "src/protocol/x.rs",
            &format!("//! x\nfn f() {{ {word}; }}\n"),
            &[2],
        );
        offends(
            rule,
            "src/node/x.rs",
            &format!("fn f() {{ {word}; }}\n"),
            &[],
        );
    }
    offends(
        rule,
        "src/time.rs",
        "use std::time::{Duration, Instant};\n",
        &[1],
    );
    offends(
        rule,
        "src/wire.rs",
        "use std::{\n    fmt,\n    fs,\n};\n",
        &[1],
    );
    offends(
        rule,
        "src/wire.rs",
        "use std::{fmt, net::{SocketAddr, UdpSocket}};\n",
        &[1],
    );
    offends(
        rule,
        "src/wire.rs",
        "use std::time::Duration;\nuse crate::time::Instant;\n",
        &[],
    );
    offends(
        rule,
        "src/member.rs",
        "// tokio\nconst A: &str = \"tokio\";\n",
        &[],
    );
    offends(
        rule,
        "src/member.rs",
        "use rand::rngs::Xoshiro256PlusPlus;\n",
        &[],
    );
    let in_test = "#[cfg(test)]\nmod tests {\n    use std::collections::HashSet;\n}\n";
    offends(rule, "src/member.rs", in_test, &[]);
}

#[test]
fn the_codec_is_known_to_wire_alone() {
    hold(bincode_stays_in_wire);
}

#[test]
fn a_codec_elsewhere_is_found() {
    let text = "use bincode::Encode;\n";
    offends(bincode_stays_in_wire, "src/member/name.rs", text, &[1]);
    offends(bincode_stays_in_wire, "src/wire/codec.rs", text, &[]);
    offends(bincode_stays_in_wire, "src/wire.rs", text, &[]);
}

#[test]
fn metrics_are_known_to_telemetry_alone() {
    hold(metrics_stay_in_telemetry);
}

#[test]
fn metrics_elsewhere_are_found() {
    let rule = metrics_stay_in_telemetry;
    let text =
        "use metrics::Unit;\nfn f() { counter!(\"a\"); gauge!(\"b\"); }\nhistogram!(\"c\");\n";
    offends(rule, "src/node/x.rs", text, &[1, 2, 3]);
    offends(rule, "src/daemon/telemetry/x.rs", text, &[]);
    offends(
        rule,
        "src/daemon/http.rs",
        "use crate::daemon::http::metrics::route;\n",
        &[],
    );
}

#[test]
fn nothing_is_unfinished() {
    hold(nothing_is_left_to_do);
}

#[test]
fn unfinished_work_is_found() {
    let rule = nothing_is_left_to_do;
    let text =
        "fn f() { todo!() }\nfn g() { dbg!(1) }\n// TODO: h\n/* FIXME */\nunimplemented!()\n";
    offends(rule, "src/cli/x.rs", text, &[1, 2, 3, 4, 5]);
    offends(
        rule,
        "src/cli/x.rs",
        "/// Prints `todo!` nowhere.\nfn todo() {}\n",
        &[],
    );
}

#[test]
fn products_do_not_unwrap() {
    hold(nothing_is_unwrapped);
}

#[test]
fn an_unwrap_is_found() {
    let text =
        "fn f() { g().unwrap(); }\n#[cfg(test)]\nmod tests {\n    fn h() { g().unwrap(); }\n}\n";
    offends(nothing_is_unwrapped, "src/node/x.rs", text, &[1]);
    offends(nothing_is_unwrapped, "src/node/x/tests.rs", text, &[]);
    offends(
        nothing_is_unwrapped,
        "src/node/x.rs",
        "fn f() { g().unwrap_or(1); }\n",
        &[],
    );
}
