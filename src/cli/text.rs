//! **What this room is for:** the only way to standard output and standard error. Everything that came from a file, a
//! command or a name is made harmless for terminals here, since logs end on terminals too. **Who may enter:** the
//! commands. **Never done here:** deciding what to say. **Where the proof is:** the tests below and `tests/cli.rs`.

use std::borrow::Cow;
use std::io::{self, IsTerminal, Write};

use serde::Serialize;
use serde_json::ser::{CompactFormatter, Formatter};

/// True for the characters that a terminal may act upon: C0, DEL and C1.
fn is_control(c: char) -> bool {
    // C1 as well: U+009B starts a control sequence on many terminals, as ESC [ does.
    matches!(c, '\0'..='\u{1f}' | '\u{7f}'..='\u{9f}')
}

/// Control characters other than line feed and tab in visible form (`\x1b`).
pub(super) fn plain(text: &str) -> Cow<'_, str> {
    let bad = |c: char| is_control(c) && c != '\n' && c != '\t';
    if !text.contains(bad) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        if bad(c) {
            out.push_str(&format!("\\x{:02x}", u32::from(c)));
        } else {
            out.push(c);
        }
    }
    Cow::Owned(out)
}

/// Compact JSON in which DEL and C1 are escaped like the C0 characters.
struct TerminalSafe;

impl Formatter for TerminalSafe {
    fn write_string_fragment<W: ?Sized + Write>(&mut self, writer: &mut W, fragment: &str) -> io::Result<()> {
        // Nearly everything; a pass over bytes alone.
        if fragment.bytes().all(|byte| byte < 0x7f) {
            return CompactFormatter.write_string_fragment(writer, fragment);
        }
        let mut rest = fragment;
        while let Some((at, c)) = rest.char_indices().find(|(_, c)| is_control(*c)) {
            let (before, after) = rest.split_at(at);
            CompactFormatter.write_string_fragment(writer, before)?;
            write!(writer, "\\u{:04x}", u32::from(c))?;
            rest = after.get(c.len_utf8()..).unwrap_or_default();
        }
        CompactFormatter.write_string_fragment(writer, rest)
    }
}

/// One line of JSON with its line feed. A value of ours always serialises; if it ever did not, the line is `null`.
pub(crate) fn json_line<T: Serialize>(value: &T) -> Vec<u8> {
    let mut line = Vec::with_capacity(512);
    if value.serialize(&mut serde_json::Serializer::with_formatter(&mut line, TerminalSafe)).is_err() {
        line = b"null".to_vec();
    }
    line.push(b'\n');
    line
}

/// Writes to standard output. A reader that went away is no error of ours.
pub(super) fn out(bytes: &[u8]) {
    let mut stdout = io::stdout().lock();
    let _ = stdout.write_all(bytes).and_then(|()| stdout.flush());
}

/// Writes text to standard output, harmless, ending in a line feed.
pub(super) fn out_text(text: &str) {
    out(ended(&plain(text)).as_bytes());
}

/// Writes text to standard error, harmless, ending in a line feed.
pub(super) fn err_text(text: &str) {
    let _ = io::stderr().lock().write_all(ended(&plain(text)).as_bytes());
}

/// Writes to standard error as it is: for text that we painted ourselves.
pub(super) fn err_raw(text: &str) {
    let _ = io::stderr().lock().write_all(ended(text).as_bytes());
}

/// `stockade: MESSAGE` on standard error.
pub(super) fn complain(message: &str) {
    err_text(&format!("stockade: {message}"));
}

fn ended(text: &str) -> Cow<'_, str> {
    if text.is_empty() || text.ends_with('\n') { Cow::Borrowed(text) } else { Cow::Owned(format!("{text}\n")) }
}

/// Colour on this stream: a terminal, and `NO_COLOR` is not set to anything.
pub(super) fn colour<S: IsTerminal>(stream: &S) -> bool {
    stream.is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|v| v.is_empty())
}

/// Paints a word green or red, where colour is wanted. The word is one of ours.
pub(super) fn paint(word: &str, good: bool, colour: bool) -> String {
    match (colour, good) {
        (false, _) => word.to_owned(),
        (true, true) => format!("\x1b[32m{word}\x1b[0m"),
        (true, false) => format!("\x1b[31m{word}\x1b[0m"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_control_character_gets_through_and_json_still_says_the_same() {
        let all: String = (0..0x100u32).filter_map(char::from_u32).chain("\u{2028}中😀".chars()).collect();
        let shown = plain(&all);
        assert!(shown.chars().all(|c| !is_control(c) || c == '\n' || c == '\t'));
        assert!(shown.contains("\\x1b") && shown.contains("\\x9b") && shown.contains("\\x7f"));
        let line = String::from_utf8(json_line(&serde_json::json!({ "k\u{9b}": all }))).unwrap();
        assert!(line.trim_end_matches('\n').chars().all(|c| !is_control(c)), "{line}");
        assert_eq!(serde_json::from_str::<serde_json::Value>(&line).unwrap()["k\u{9b}"], all);
        assert!(matches!(plain("a\tb\nc"), Cow::Borrowed(_)));
    }
}
