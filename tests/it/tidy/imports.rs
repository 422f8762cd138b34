//! Which layer may know which.

use super::scan::{closing, find_words, is_word, line_of};
use super::source::Source;
use super::{Offences, hold, offends};

/// A path in the code, resolved from the crate's root: `["crate", "member", "Status"]`.
type ModulePath = Vec<String>;

/// The hubs of `protocol`, which know its leaves.
const HUBS: &[&str] = &[
    "acknowledging",
    "admitting",
    "agreeing",
    "asking",
    "cases",
    "conflict",
    "describing",
    "event_asking",
    "event_pulling",
    "event_repair",
    "event_taking",
    "eventing",
    "evicting",
    "exchanging",
    "explaining",
    "forgetting",
    "healing",
    "heartbeats",
    "isolation",
    "joining",
    "leaving",
    "noting",
    "periodic",
    "probing",
    "pulling",
    "reachability",
    "receive",
    "remembering",
    "scheduling",
    "serving",
    "spreading",
    "streams",
    "unreached",
    "updates",
    "view",
    "waking",
];

/// What every leaf of `protocol` may know of its siblings.
const SHARED: [&str; 3] = ["config", "stats", "outbox"];

/// The layers below `layer`; none where anything may be imported.
fn below(layer: &str) -> Option<&'static [&'static str]> {
    match layer {
        "time" => Some(&[]),
        "member" => Some(&["time"]),
        "wire" => Some(&["time", "member"]),
        "protocol" => Some(&["time", "member", "wire"]),
        "node" => Some(&["time", "member", "wire", "protocol"]),
        _ => None,
    }
}

fn layers_import_only_lower_ones(source: &Source) -> Offences {
    let module = module_of(&source.path);
    let Some(layer) = module.get(1) else {
        return Vec::new();
    };
    let Some(allowed) = below(layer) else {
        return Vec::new();
    };
    let fits = |name: &String| name == layer || allowed.contains(&name.as_str());
    let wrong = paths(source)
        .into_iter()
        .filter(|(_, path)| path[0] == "crate" && path.get(1).is_some_and(|name| !fits(name)));
    wrong
        .map(|(line, path)| {
            let instead = match allowed {
                [] => format!("`{layer}` imports nothing of the crate; move what needs it up"),
                _ => format!(
                    "`{layer}` knows only {}; use their types instead",
                    allowed.join(", ")
                ),
            };
            source.offence(line, &format!("imports {}", path.join("::")), &instead)
        })
        .collect()
}

fn leaves_of_the_protocol_do_not_know_each_other(source: &Source) -> Offences {
    let module = module_of(&source.path);
    let is_leaf = module.get(1).is_some_and(|layer| layer == "protocol")
        && module
            .get(2)
            .is_some_and(|own| module.len() > 3 || !HUBS.contains(&own.as_str()));
    if !is_leaf {
        return Vec::new();
    }
    let own = &module[2];
    let fits = |name: &String| name == own || SHARED.contains(&name.as_str());
    paths(source)
        .into_iter()
        .filter(|(line, path)| {
            !source.in_test[line - 1]
                && path.starts_with(&module[..2])
                && path.get(2).is_some_and(|name| !fits(name))
        })
        .map(|(line, path)| {
            let instead = "use only super::{config, stats, outbox}, member, wire and time; let a \
                           hub pass the value in instead";
            source.offence(line, &format!("names {}", path.join("::")), instead)
        })
        .collect()
}

fn simulations_know_only_the_core(source: &Source) -> Offences {
    if !source.path.starts_with("simulations/") {
        return Vec::new();
    }
    let upper = |path: &ModulePath| {
        path[0] == "rumord"
            && path
                .get(1)
                .is_some_and(|name| ["node", "daemon", "cli"].contains(&name.as_str()))
    };
    let instead = "simulations drive the core: use rumord::{protocol, wire, member, time} instead";
    paths(source)
        .into_iter()
        .filter(|(_, path)| upper(path))
        .map(|(line, path)| source.offence(line, &format!("imports {}", path.join("::")), instead))
        .collect()
}

/// The module that the file at `path` is: `src/node/handle.rs` is `crate::node::handle`.
fn module_of(path: &str) -> ModulePath {
    let inner = path
        .trim_start_matches("simulations/")
        .trim_start_matches("src/");
    let names = inner.trim_end_matches(".rs").split('/').map(str::to_owned);
    let names = names.filter(|name| name != "lib" && name != "main");
    ["crate".to_owned()].into_iter().chain(names).collect()
}

/// Every path that starts at `crate`, `self`, `super` or `rumord`, with its line; `use` lists are
/// spelt out.
fn paths(source: &Source) -> Vec<(usize, ModulePath)> {
    let module = module_of(&source.path);
    let code = &source.code;
    let mut found = Vec::new();
    for root in ["crate", "self", "super", "rumord"] {
        for at in find_words(code, &format!("{root}::")).filter(|at| !code[..*at].ends_with("::")) {
            let line = line_of(code, at);
            let mut base = module.clone();
            base.extend((0..source.depth[line - 1]).map(|_| "(inline)".to_owned()));
            for (within, names) in spelt_out(&code[at..]) {
                found.push((line_of(code, at + within), resolve(&base, names)));
            }
        }
    }
    found.sort();
    found.dedup();
    found
}

/// The paths of the tree that `code` begins with, each with the byte where its last part begins.
fn spelt_out(code: &str) -> Vec<(usize, ModulePath)> {
    let mut prefix = ModulePath::new();
    let mut at = 0;
    loop {
        let skipped = code[at..].len() - code[at..].trim_start().len();
        let start = at + skipped;
        if code[start..].starts_with('{') {
            return branches(code, start, &prefix);
        }
        let word: String = code[start..]
            .chars()
            .take_while(|&c| is_word(c) || c == '*')
            .collect();
        at = start + word.len();
        if !word.is_empty() {
            prefix.push(word);
        }
        if !code[at..].starts_with("::") || code[start..].starts_with('<') {
            return vec![(start, prefix)];
        }
        at += 2;
    }
}

fn branches(code: &str, open: usize, prefix: &ModulePath) -> Vec<(usize, ModulePath)> {
    let close = closing(code, open);
    let mut found = Vec::new();
    for (start, end) in split_at_commas(&code[..close], open + 1) {
        for (within, names) in spelt_out(&code[start..end]) {
            let names = names.into_iter().filter(|name| name != "self");
            found.push((
                start + within,
                prefix.iter().cloned().chain(names).collect(),
            ));
        }
    }
    found
}

/// The ranges between the commas of the outermost level of `list` from `from` on.
fn split_at_commas(list: &str, from: usize) -> Vec<(usize, usize)> {
    let mut ranges = Vec::new();
    let (mut start, mut depth) = (from, 0);
    for (at, c) in list.char_indices().skip_while(|(at, _)| *at < from) {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 0 => {
                ranges.push((start, at));
                start = at + 1;
            }
            _ => {}
        }
    }
    ranges.push((start, list.len()));
    ranges.retain(|(start, end)| !list[*start..*end].trim().is_empty());
    ranges
}

/// Replaces leading `self` and `super` of `names`, which stand in the module `base`.
fn resolve(base: &ModulePath, names: ModulePath) -> ModulePath {
    if !["self", "super"].contains(&names[0].as_str()) {
        return names;
    }
    let mut resolved = base.clone();
    let mut names = names.into_iter().peekable();
    while let Some(step) = names.next_if(|name| name == "self" || name == "super") {
        if step == "super" && resolved.len() > 1 {
            resolved.pop();
        }
    }
    resolved.extend(names);
    resolved
}

#[test]
fn imports_run_only_downwards() {
    hold(layers_import_only_lower_ones);
}

#[test]
fn imports_upwards_are_found() {
    let rule = layers_import_only_lower_ones;
    offends(rule, "src/time.rs", "use crate::member::Status;\n", &[1]);
    offends(
        rule,
        "src/member/name.rs",
        "use super::NameHash;\nuse crate::wire;\n",
        &[2],
    );
    offends(
        rule,
        "src/wire.rs",
        "use crate::{\n    time,\n    protocol::{Config},\n};\n",
        &[3],
    );
    offends(
        rule,
        "src/protocol/x.rs",
        "fn f() { super::super::node::start() }\n",
        &[1],
    );
    offends(
        rule,
        "src/node.rs",
        "use super::daemon::X;\nuse self::handle::Y;\n",
        &[1],
    );
    offends(
        rule,
        "src/node/a.rs",
        "use crate::protocol::Config; // crate::cli\n",
        &[],
    );
    offends(rule, "src/daemon/a.rs", "use crate::cli::Failure;\n", &[]);
    offends(
        rule,
        "src/time.rs",
        "mod tests {\n    use super::*;\n    use super::Instant;\n}\n",
        &[],
    );
}

#[test]
fn protocol_leaves_are_leaves() {
    hold(leaves_of_the_protocol_do_not_know_each_other);
}

#[test]
fn leaves_that_know_each_other_are_found() {
    let rule = leaves_of_the_protocol_do_not_know_each_other;
    let siblings = "use super::{config::Config, accrual::Window, stats, probe};\n";
    offends(rule, "src/protocol/health.rs", siblings, &[1, 1]);
    offends(rule, "src/protocol/health.rs", "use super::Node;\n", &[1]);
    offends(
        rule,
        "src/protocol/health/late.rs",
        "use super::super::probe::X;\n",
        &[1],
    );
    offends(
        rule,
        "src/protocol/health/late.rs",
        "use super::Late;\nuse super::super::stats::X;\n",
        &[],
    );
    offends(rule, "src/protocol/receive.rs", siblings, &[]);
    offends(rule, "src/protocol.rs", "use self::accrual::Window;\n", &[]);
    offends(rule, "src/node/x.rs", "use super::handle;\n", &[]);
}

#[test]
fn simulations_use_the_core_alone() {
    hold(simulations_know_only_the_core);
}

#[test]
fn simulations_that_use_more_are_found() {
    let rule = simulations_know_only_the_core;
    let text = "use rumord::protocol::Config;\nuse rumord::{member, node::Options};\n";
    offends(rule, "simulations/src/lib.rs", text, &[2]);
    offends(rule, "simulations/src/lib.rs", "use crate::node::X;\n", &[]);
    offends(rule, "src/main.rs", "fn f() { rumord::cli::run() }\n", &[]);
}
