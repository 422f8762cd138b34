//! The rules of the architecture, as tests over the text of the sources.
//!
//! Comments and the contents of literals are blanked first, `use` lists are spelt out, and what
//! only tests compile is known, so that plain searching finds what is meant. Every rule has a test
//! on the sources and a test that it can fail.

mod imports;
mod scan;
mod shape;
mod source;
mod words;

use source::Source;

/// What a rule finds wrong: `file:line: rule: use X instead`.
type Offences = Vec<String>;

/// Fails with the list of all offences against `rule` in `src` and `simulations/src`.
fn hold(rule: fn(&Source) -> Offences) {
    let sources = source::all();
    assert!(sources.len() > 10, "the sources were not found");
    let offences: Offences = sources.iter().flat_map(rule).collect();
    assert!(offences.is_empty(), "\n{}\n", offences.join("\n"));
}

/// Asserts that `rule` finds `text`, as the file at `path`, wrong in `lines` and nowhere else.
fn offends(rule: fn(&Source) -> Offences, path: &str, text: &str, lines: &[usize]) {
    let found = rule(&Source::new(path, text));
    let expected: Vec<_> = lines
        .iter()
        .map(|line| format!("{path}:{line}: "))
        .collect();
    let same = found.len() == expected.len()
        && found
            .iter()
            .zip(&expected)
            .all(|(found, start)| found.starts_with(start));
    assert!(same, "found {found:#?}\nexpected {expected:?} in\n{text}");
}
