//! **What this room is for:** the literal replacement of a text, with the rule for Windows line ends. **Who may enter:** the
//! editing tools. **Never done here:** I/O, patterns. **Where the proof is:** the tests below.
//!
//! Bytes are matched exactly first. Only when that finds nothing, most lines of the file end in CRLF and the old text has a
//! bare LF, line ends are matched as line ends, and the new text takes those of the file. Nothing else changes: a stray LF
//! elsewhere stays.

use std::ops::Range;

use crate::limits::WRITE_BYTES;

/// A new content.
#[derive(Debug)]
pub(super) struct Edited {
    pub(super) content: Vec<u8>,
    pub(super) replacements: u64,
}

/// What came of it.
#[derive(Debug)]
pub(super) enum Replaced {
    Done(Edited),
    NoMatch,
    /// So many matches, counted from left to right without overlap.
    Ambiguous(u64),
    TooLarge,
}

/// Replaces `old` by `new`: once, or everywhere with `all`.
pub(super) fn replace(content: &[u8], old: &str, new: &str, all: bool) -> Replaced {
    let ends = Ends::of(content);
    let mut matches = exact(content, old.as_bytes());
    let mut by_lines = false;
    // A leading LF must not tear a CRLF apart.
    let tears =
        |found: &Range<usize>| old.starts_with('\n') && found.start > 0 && content.get(found.start - 1) == Some(&b'\r');
    if ends.crlf > ends.lf && has_bare_lf(old) && (matches.is_empty() || matches.iter().any(tears)) {
        matches = by_line_ends(content, old);
        by_lines = true;
    }
    match matches.len() as u64 {
        0 => return Replaced::NoMatch,
        n if n > 1 && !all => return Replaced::Ambiguous(n),
        _ => {}
    }
    // An inserted line takes the ends of a file that has one kind only, unless the old text names line ends itself.
    let adapt = by_lines || (ends.crlf > 0 && ends.lf == 0 && !old.contains('\n'));
    let mut out = Vec::with_capacity(content.len());
    let mut at = 0;
    for found in &matches {
        out.extend_from_slice(content.get(at..found.start).unwrap_or_default());
        let replaced = content.get(found.clone()).unwrap_or_default();
        if adapt {
            push_adapted(&mut out, new, replaced)
        } else {
            out.extend_from_slice(new.as_bytes())
        }
        if out.len() as u64 > WRITE_BYTES {
            return Replaced::TooLarge;
        }
        at = found.end;
    }
    out.extend_from_slice(content.get(at..).unwrap_or_default());
    if out.len() as u64 > WRITE_BYTES {
        return Replaced::TooLarge;
    }
    Replaced::Done(Edited { content: out, replacements: matches.len() as u64 })
}

struct Ends {
    crlf: usize,
    lf: usize,
}

impl Ends {
    fn of(content: &[u8]) -> Ends {
        let all = content.iter().filter(|byte| **byte == b'\n').count();
        let crlf = content.windows(2).filter(|pair| *pair == b"\r\n").count();
        Ends { crlf, lf: all - crlf }
    }
}

fn has_bare_lf(text: &str) -> bool {
    let bytes = text.as_bytes();
    bytes.iter().enumerate().any(|(n, byte)| *byte == b'\n' && (n == 0 || bytes.get(n - 1) != Some(&b'\r')))
}

fn exact(content: &[u8], old: &[u8]) -> Vec<Range<usize>> {
    // An empty text would match between all characters; the argument table refuses it before.
    if old.is_empty() {
        return Vec::new();
    }
    memchr::memmem::find_iter(content, old).map(|at| at..at + old.len()).collect()
}

/// Matches where each line end of the old text stands for LF or CRLF of the file.
fn by_line_ends(content: &[u8], old: &str) -> Vec<Range<usize>> {
    let mut flat = Vec::with_capacity(content.len());
    // Where each byte of the flat text stands in the file; the end of a match is the start of what follows.
    let mut places = Vec::with_capacity(content.len() + 1);
    for (at, byte) in content.iter().enumerate() {
        if *byte == b'\r' && content.get(at + 1) == Some(&b'\n') {
            continue;
        }
        // A line end starts at its CR.
        let starts = if *byte == b'\n' && at > 0 && content.get(at - 1) == Some(&b'\r') { at - 1 } else { at };
        flat.push(*byte);
        places.push(u32::try_from(starts).unwrap_or(u32::MAX));
    }
    places.push(u32::try_from(content.len()).unwrap_or(u32::MAX));
    let place = |n: usize| places.get(n).map_or(content.len(), |at| *at as usize);
    exact(&flat, old.replace("\r\n", "\n").as_bytes())
        .into_iter()
        .map(|found| place(found.start)..place(found.end))
        .collect()
}

/// Appends the new text with the file's line ends: those of the replaced lines one by one when the number is the same,
/// else CRLF.
fn push_adapted(out: &mut Vec<u8>, new: &str, replaced: &[u8]) {
    let new = new.replace("\r\n", "\n");
    let mut ends: Vec<&[u8]> = Vec::new();
    for (at, byte) in replaced.iter().enumerate() {
        if *byte == b'\n' {
            ends.push(if at > 0 && replaced.get(at - 1) == Some(&b'\r') { b"\r\n" } else { b"\n" });
        }
    }
    let same_number = ends.len() == new.matches('\n').count();
    for (n, line) in new.split('\n').enumerate() {
        if n > 0 {
            let end: &[u8] = if same_number { ends.get(n - 1).copied().unwrap_or(b"\r\n") } else { b"\r\n" };
            out.extend_from_slice(end);
        }
        out.extend_from_slice(line.as_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn once(content: &str, old: &str, new: &str) -> String {
        match replace(content.as_bytes(), old, new, false) {
            Replaced::Done(edited) => String::from_utf8(edited.content).unwrap(),
            other => format!("{other:?}"),
        }
    }

    #[test]
    fn exact_bytes_first() {
        assert_eq!(once("a$b\n", "a$b", "$1\\0"), "$1\\0\n");
        assert_eq!(once("if x:\n\treturn\r\n", "return\n", "pass\n"), "NoMatch");
        assert_eq!(once("if x:\n\treturn\r\n", "\treturn", "\tpass"), "if x:\n\tpass\r\n");
        assert_eq!(once("a\nb\n", "a\r\nb", "c"), "NoMatch");
        assert_eq!(once("one\r\ntwo\r\n", "one\r\n", "1\n"), "1\ntwo\r\n", "named line ends are literal");
    }

    #[test]
    fn windows_line_ends() {
        assert_eq!(once("one\r\nTWO\r\nthree\nfour\r\n", "one\nTWO", "1\n2"), "1\r\n2\r\nthree\nfour\r\n");
        assert_eq!(once("a\r\nb\r\nc\nd\r\n", "b\nc\n", "B\nC\n"), "a\r\nB\r\nC\nd\r\n", "a stray LF stays");
        assert_eq!(once("a\r\nb\r\n", "a\nb", "a\nx\nb"), "a\r\nx\r\nb\r\n");
        assert_eq!(once("a\r\nb\r\n", "b", "b\nc"), "a\r\nb\r\nc\r\n");
        assert_eq!(once("a\r\nb\r\n", "\nb", "\nc"), "a\r\nc\r\n");
        assert_eq!(once("a\r\nb\r\n", "\nb", "c"), "ac\r\n", "no CR is left alone");
        assert_eq!(once("a\r\nb\r\n", "a\nb\n", ""), "");
        assert_eq!(once("\u{feff}a\r\nb\r\n", "a\nb", "x\ny"), "\u{feff}x\r\ny\r\n");
    }

    #[test]
    fn counts_from_left_to_right() {
        assert_eq!(once("dup dup", "dup", "x"), "Ambiguous(2)");
        let Replaced::Done(edited) = replace(b"aaa\n", "aa", "b", true) else { panic!() };
        assert_eq!((edited.content, edited.replacements), (b"ba\n".to_vec(), 1));
        assert!(matches!(replace(b"x", "", "Z", true), Replaced::NoMatch));
        let wide = "x".repeat(1 << 20);
        assert!(matches!(replace(wide.as_bytes(), "x", &"y".repeat(64), true), Replaced::TooLarge));
    }
}
