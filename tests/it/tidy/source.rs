//! One source file, prepared for the rules.

use std::fs;
use std::path::Path;

use super::scan;

/// A source file.
pub struct Source {
    /// Path from the repository's root, with `/`.
    pub path: String,
    /// The text as it is.
    pub text: String,
    /// The text with comments and the contents of literals blanked; lines stay where they are.
    pub code: String,
    /// For each line, whether only tests compile it.
    pub in_test: Vec<bool>,
    /// For each line, how many inline modules enclose it.
    pub depth: Vec<usize>,
}

impl Source {
    /// Prepares `text` as the file at `path`.
    pub fn new(path: &str, text: &str) -> Self {
        let code = scan::blank(text);
        let count = text.lines().count();
        let mut in_test = vec![is_test_file(path); count];
        let mut depth = vec![0; count];
        for block in scan::inline_modules(&code) {
            for line in block.first_line..=block.last_line.min(count) {
                in_test[line - 1] |= block.cfg_test;
                // The line that opens a module stands outside it.
                depth[line - 1] += usize::from(line > block.first_line);
            }
        }
        Source {
            path: path.into(),
            text: text.into(),
            code,
            in_test,
            depth,
        }
    }

    /// Whether the file is the module at `path` (without `.rs`), or below it.
    pub fn is_within(&self, path: &str) -> bool {
        let rest = self.path.strip_prefix(path);
        rest.is_some_and(|rest| rest == ".rs" || rest.starts_with('/'))
    }

    /// The lines of `code`, counted from 1, that are compiled outside tests.
    pub fn product_lines(&self) -> impl Iterator<Item = (usize, &str)> {
        let numbered = self.code.lines().enumerate();
        numbered
            .filter(|(i, _)| !self.in_test[*i])
            .map(|(i, line)| (i + 1, line))
    }

    /// One offence in the form that every rule reports.
    pub fn offence(&self, line: usize, rule: &str, instead: &str) -> String {
        format!("{}:{line}: {rule}: {instead}", self.path)
    }
}

/// Test modules in files of their own are called `tests`.
fn is_test_file(path: &str) -> bool {
    path.ends_with("/tests.rs") || path.contains("/tests/")
}

/// All files of `src` and `simulations/src`, in the order of their paths.
pub fn all() -> Vec<Source> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut paths = Vec::new();
    for dir in ["src", "simulations/src"] {
        collect(&root.join(dir), &mut paths);
    }
    paths.sort();
    paths.iter().map(|path| read(root, path)).collect()
}

fn collect(dir: &Path, paths: &mut Vec<std::path::PathBuf>) {
    for entry in fs::read_dir(dir).expect("a source directory is readable") {
        let path = entry.expect("a source entry is readable").path();
        if path.is_dir() {
            collect(&path, paths);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            paths.push(path);
        }
    }
}

fn read(root: &Path, path: &Path) -> Source {
    let text = fs::read_to_string(path).expect("a source file is readable");
    let relative = path
        .strip_prefix(root)
        .expect("it was found below the root");
    Source::new(&relative.to_string_lossy(), &text)
}
