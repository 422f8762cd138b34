//! The shape of files and functions.

use super::scan::{closing, find_words, is_word, line_of};
use super::source::Source;
use super::{Offences, hold, offends};

const COLUMNS_MAX: usize = 100;
const FUNCTION_LINES_MAX: usize = 70;
const FILE_LINES_MAX: usize = 450;

fn lines_are_short(source: &Source) -> Offences {
    let lines = source
        .text
        .lines()
        .map(|line| line.chars().count())
        .enumerate();
    lines
        .filter(|(_, columns)| *columns > COLUMNS_MAX)
        .map(|(i, columns)| {
            let rule = format!("{columns} columns, at most {COLUMNS_MAX}");
            source.offence(i + 1, &rule, "use a line break or a shorter name instead")
        })
        .collect()
}

fn functions_are_short(source: &Source) -> Offences {
    let code = &source.code;
    let bodies = find_words(code, "fn").filter_map(|at| Some((at, body_end(code, at)?)));
    bodies
        .map(|(start, end)| (line_of(code, start), line_of(code, end)))
        .filter(|(first, last)| last - first + 1 > FUNCTION_LINES_MAX)
        .map(|(first, last)| {
            let lines = last - first + 1;
            let rule = format!("function of {lines} lines, at most {FUNCTION_LINES_MAX}");
            source.offence(
                first,
                &rule,
                "use functions with names for its parts instead",
            )
        })
        .collect()
}

/// Where the function that is declared at `at` ends; none for a type or a declaration.
fn body_end(code: &str, at: usize) -> Option<usize> {
    let rest = code[at + "fn".len()..].trim_start();
    if !rest.starts_with(is_word) {
        return None;
    }
    let next = body_start(&code[at..])?;
    code[at + next..]
        .starts_with('{')
        .then(|| closing(code, at + next))
}

/// The first `{` or `;` outside parentheses and brackets, such as those of `[u8; 4]`.
fn body_start(code: &str) -> Option<usize> {
    let mut depth = 0;
    for (at, c) in code.char_indices() {
        match c {
            '(' | '[' => depth += 1,
            ')' | ']' => depth -= 1,
            '{' | ';' if depth == 0 => return Some(at),
            _ => {}
        }
    }
    None
}

fn files_are_short(source: &Source) -> Offences {
    let lines = source.product_lines().count();
    if lines <= FILE_LINES_MAX {
        return Vec::new();
    }
    let rule = format!("{lines} lines without tests, at most {FILE_LINES_MAX}");
    vec![source.offence(1, &rule, "use a second file for its second subject instead")]
}

fn files_say_what_they_are_for(source: &Source) -> Offences {
    if source.text.starts_with("//! ") {
        return Vec::new();
    }
    vec![source.offence(
        1,
        "no introduction",
        "use a first line `//! What this is for.` instead",
    )]
}

fn lines_end_at_their_last_word(source: &Source) -> Offences {
    let lines = source.text.split('\n').enumerate();
    lines
        .filter(|(_, line)| line.ends_with(|c: char| c.is_whitespace()))
        .map(|(i, _)| source.offence(i + 1, "trailing space", "use `cargo fmt` instead"))
        .collect()
}

fn modules_are_named_files(source: &Source) -> Offences {
    if !source.path.ends_with("/mod.rs") {
        return Vec::new();
    }
    vec![source.offence(1, "mod.rs", "use name.rs beside the folder name/ instead")]
}

#[test]
fn no_line_is_too_long() {
    hold(lines_are_short);
}

#[test]
fn long_lines_are_found() {
    let text = format!("//! {}\n// {}\n", "ü".repeat(96), "x".repeat(98));
    offends(lines_are_short, "src/x.rs", &text, &[2]);
}

#[test]
fn no_function_is_too_long() {
    hold(functions_are_short);
}

#[test]
fn long_functions_are_found() {
    let of = |lines: usize| {
        format!(
            "fn f(a: [u8; 2]) {{\n{}}}\n",
            "    // {\n".repeat(lines - 2)
        )
    };
    let text = format!("trait T {{\n    fn g(h: fn(u8));\n}}\n{}{}", of(70), of(71));
    offends(functions_are_short, "src/x.rs", &text, &[74]);
}

#[test]
fn no_file_is_too_long() {
    hold(files_are_short);
}

#[test]
fn long_files_are_found() {
    let tests = format!("#[cfg(test)]\nmod tests {{\n{}}}\n", "// x\n".repeat(200));
    offends(
        files_are_short,
        "src/x.rs",
        &("// x\n".repeat(450) + &tests),
        &[],
    );
    offends(
        files_are_short,
        "src/x.rs",
        &("// x\n".repeat(451) + &tests),
        &[1],
    );
}

#[test]
fn every_file_is_introduced() {
    hold(files_say_what_they_are_for);
}

#[test]
fn files_without_introduction_are_found() {
    offends(
        files_say_what_they_are_for,
        "src/x.rs",
        "use std::fmt;\n",
        &[1],
    );
    offends(files_say_what_they_are_for, "src/x.rs", "//! What.\n", &[]);
}

#[test]
fn no_line_has_trailing_spaces() {
    hold(lines_end_at_their_last_word);
}

#[test]
fn trailing_spaces_are_found() {
    offends(
        lines_end_at_their_last_word,
        "src/x.rs",
        "a \nb\nc\t\nd\r\n",
        &[1, 3, 4],
    );
}

#[test]
fn no_module_is_called_mod() {
    hold(modules_are_named_files);
}

#[test]
fn a_module_called_mod_is_found() {
    offends(modules_are_named_files, "src/node/mod.rs", "//! x\n", &[1]);
    offends(modules_are_named_files, "src/node/modes.rs", "//! x\n", &[]);
}
