//! Writing to stdout, where the reader may go away.

use std::io::{self, Write};

use super::{EXIT_FAILED, Failure};

/// Prints `text` as it is.
///
/// # Errors
/// A quiet one when the reader has gone, as in `rumord members | head -1`.
pub(super) fn print(text: &str) -> Result<(), Failure> {
    let mut stdout = io::stdout().lock();
    match stdout
        .write_all(text.as_bytes())
        .and_then(|()| stdout.flush())
    {
        Ok(()) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Err(Failure::reader_gone()),
        Err(error) => Err(Failure::new(
            EXIT_FAILED,
            format!("cannot write to stdout ({error})"),
        )),
    }
}

/// Text of others, safe to show: control characters, which could drive the terminal, and marks
/// that reorder text are spelt out.
pub(super) fn visible(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for character in text.chars() {
        if character.is_control() || reorders(character) {
            shown.extend(character.escape_unicode());
        } else {
            shown.push(character);
        }
    }
    shown
}

const fn reorders(character: char) -> bool {
    matches!(
        character,
        '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}'
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_of_others_cannot_drive_the_terminal() {
        assert_eq!(visible("zone=a é"), "zone=a é");
        assert_eq!(visible("\u{1b}[2Jx\n"), "\\u{1b}[2Jx\\u{a}");
        assert_eq!(visible("\u{202e}x"), "\\u{202e}x");
    }
}
