//! Just enough of Rust's grammar to tell code from comments, literals and tests.

/// Blanks comments and the contents of literals; every line keeps its length in characters.
pub fn blank(text: &str) -> String {
    let mut scanner = Scanner {
        chars: text.chars().collect(),
        at: 0,
        out: String::new(),
    };
    while scanner.at < scanner.chars.len() {
        scanner.step();
    }
    scanner.out
}

struct Scanner {
    chars: Vec<char>,
    at: usize,
    out: String,
}

impl Scanner {
    fn peek(&self, ahead: usize) -> char {
        self.chars.get(self.at + ahead).copied().unwrap_or('\0')
    }

    fn step(&mut self) {
        match (self.peek(0), self.peek(1)) {
            ('/', '/') => self.skip_while(|scanner| scanner.peek(0) != '\n'),
            ('/', '*') => self.skip_block_comment(),
            ('"', _) => self.skip_string(),
            ('r', '"' | '#') if !self.after_word() => self.skip_raw_string(),
            ('\'', _) => self.skip_char(),
            _ => self.keep(),
        }
    }

    fn keep(&mut self) {
        self.out.push(self.peek(0));
        self.at += 1;
    }

    fn skip(&mut self) {
        self.out.push(if self.peek(0) == '\n' { '\n' } else { ' ' });
        self.at += 1;
    }

    fn skip_while(&mut self, go_on: impl Fn(&Self) -> bool) {
        while self.at < self.chars.len() && go_on(self) {
            self.skip();
        }
    }

    /// Whether the character before is part of a word, as the `r` of `for` is; `b` and `c` may
    /// precede a raw string.
    fn after_word(&self) -> bool {
        let mut before = self.chars[..self.at].iter().rev();
        match before.next() {
            Some('b' | 'c') => before.next().is_some_and(|&c| is_word(c)),
            Some(&c) => is_word(c),
            None => false,
        }
    }

    fn skip_block_comment(&mut self) {
        let mut depth = 0;
        while self.at < self.chars.len() {
            let pair = (self.peek(0), self.peek(1));
            depth += i32::from(pair == ('/', '*')) - i32::from(pair == ('*', '/'));
            let both = matches!(pair, ('/', '*') | ('*', '/'));
            self.skip();
            if both {
                self.skip();
            }
            if depth == 0 {
                return;
            }
        }
    }

    fn skip_string(&mut self) {
        self.keep();
        while self.at < self.chars.len() && self.peek(0) != '"' {
            if self.peek(0) == '\\' {
                self.skip();
            }
            self.skip();
        }
        self.keep_closing();
    }

    fn skip_raw_string(&mut self) {
        let hashes = self.chars[self.at + 1..]
            .iter()
            .take_while(|&&c| c == '#')
            .count();
        if self.peek(1 + hashes) != '"' {
            return self.keep(); // a raw identifier
        }
        (0..hashes + 2).for_each(|_| self.keep());
        self.skip_while(|scanner| {
            scanner.peek(0) != '"' || (1..=hashes).any(|i| scanner.peek(i) != '#')
        });
        (0..hashes + 1).for_each(|_| self.keep_closing());
    }

    /// A character literal, or the quote of a lifetime.
    fn skip_char(&mut self) {
        let escaped = self.peek(1) == '\\';
        if !escaped && self.peek(2) != '\'' {
            return self.keep();
        }
        self.keep();
        self.skip();
        if escaped {
            self.skip();
        }
        self.skip_while(|scanner| scanner.peek(0) != '\'');
        self.keep_closing();
    }

    fn keep_closing(&mut self) {
        if self.at < self.chars.len() {
            self.keep();
        }
    }
}

/// Whether `c` can be part of an identifier.
pub fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// Where `needle` stands in `line` as whole words, in bytes.
pub fn find_words<'a>(line: &'a str, needle: &'a str) -> impl Iterator<Item = usize> + 'a {
    line.match_indices(needle)
        .map(|(at, _)| at)
        .filter(move |&at| {
            let before = line[..at].chars().next_back();
            let after = line[at + needle.len()..].chars().next();
            let inner = |edge: Option<char>, own: Option<char>| {
                edge.is_some_and(is_word) && own.is_some_and(is_word)
            };
            !inner(before, needle.chars().next()) && !inner(after, needle.chars().next_back())
        })
}

/// The line, counted from 1, of the byte at `at`.
pub fn line_of(code: &str, at: usize) -> usize {
    1 + code[..at].matches('\n').count()
}

/// The byte of the bracket that closes the one at `open`; the end where none does.
pub fn closing(code: &str, open: usize) -> usize {
    let mut depth = 0_usize;
    for (at, c) in code[open..].char_indices() {
        match c {
            '{' => depth += 1,
            '}' if depth <= 1 => return open + at,
            '}' => depth -= 1,
            _ => {}
        }
    }
    code.len().saturating_sub(1)
}

/// A `mod name { .. }`.
pub struct InlineModule {
    /// The line of its attributes, or of `mod`.
    pub first_line: usize,
    /// The line of its closing bracket.
    pub last_line: usize,
    /// Whether only tests compile it.
    pub cfg_test: bool,
}

/// The inline modules of `code`, which has been blanked.
pub fn inline_modules(code: &str) -> Vec<InlineModule> {
    find_words(code, "mod")
        .filter_map(|at| inline_module(code, at))
        .collect()
}

fn inline_module(code: &str, at: usize) -> Option<InlineModule> {
    let rest = &code[at + "mod".len()..];
    let open = rest.find('{')?;
    let name = rest[..open].trim();
    if name.is_empty() || !name.chars().all(is_word) {
        return None;
    }
    let start = code[..at].rfind(['}', ';', '{']).map_or(0, |end| end + 1);
    let attributes = &code[start..at];
    let cfg_test = attributes.find("#[cfg(test)]");
    Some(InlineModule {
        first_line: line_of(code, cfg_test.map_or(at, |within| start + within)),
        last_line: line_of(code, closing(code, at + "mod".len() + open)),
        cfg_test: cfg_test.is_some(),
    })
}

#[test]
fn comments_and_literals_are_blanked() {
    let blanked = |text: &str| blank(text).split_whitespace().collect::<Vec<_>>().join(" ");
    assert_eq!(blanked("a // b\nc /* d /* e */ f */ g"), "a c g");
    assert_eq!(
        blanked(r#"f("a\"b", 'x', '\'', b'{')"#),
        r#"f(" ", ' ', ' ', b' ')"#
    );
    assert_eq!(
        blanked("r#\"{ \" }\"# + br\"x\" + r#type"),
        "r#\" \"# + br\" \" + r#type"
    );
    assert_eq!(
        blanked("fn f<'a>(x: &'a str) {}"),
        "fn f<'a>(x: &'a str) {}"
    );
    assert_eq!(blank("é // ü\n\"\\\nx\";").lines().count(), 3);
}

#[test]
fn words_are_whole() {
    let count = |line, needle| find_words(line, needle).count();
    assert_eq!(count("HashMap FxHashMap HashMaps (HashMap)", "HashMap"), 2);
    assert_eq!(count("rand::rng() rand::rngs::X", "rand::rng"), 1);
    assert_eq!(count("x.unwrap() x.unwrap_or(y)", ".unwrap()"), 1);
}

#[test]
fn test_modules_are_found() {
    let code =
        "fn a() {}\n#[cfg(test)]\n#[allow(x)]\nmod tests {\n  fn b() {}\n}\nmod c { }\nmod d;\n";
    let modules = inline_modules(code);
    let lines: Vec<_> = modules
        .iter()
        .map(|m| (m.first_line, m.last_line, m.cfg_test))
        .collect();
    assert_eq!(lines, [(2, 6, true), (7, 7, false)]);
}
