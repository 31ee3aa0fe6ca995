//! **What this room is for:** words for people and models: cutting by characters, sizes, names made harmless, line reading.
//! **Who may enter:** every tool. **Never done here:** I/O. **Where the proof is:** the tests below.

/// The first `chars` characters; never cuts inside one.
#[must_use]
pub fn clip(text: &str, chars: usize) -> &str {
    text.char_indices().nth(chars).map_or(text, |(at, _)| text.get(..at).unwrap_or(text))
}

/// A line of at most `chars` characters: the line itself, or its start and how many characters are left out.
/// The second value is the number of bytes left out.
#[must_use]
pub fn clip_line(line: &str, chars: usize) -> (String, u64) {
    let head = clip(line, chars);
    let rest = line.get(head.len()..).unwrap_or_default();
    if rest.is_empty() {
        return (line.to_owned(), 0);
    }
    (format!("{head} [… {} more characters]", rest.chars().count()), rest.len() as u64)
}

/// A name with its control characters (C0, DEL, C1, line and paragraph separators, direction marks) escaped.
#[must_use]
pub fn escaped(name: &str) -> String {
    let mut out = String::with_capacity(name.len());
    for c in name.chars() {
        let unsafe_mark = matches!(c, '\u{2028}' | '\u{2029}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
        if c.is_control() || unsafe_mark { out.extend(c.escape_default()) } else { out.push(c) }
    }
    out
}

/// A size for people: `5 B`, `1.5 KB`, in steps of 1 024, one decimal from KB up.
#[must_use]
pub fn size(bytes: u64) -> String {
    const STEP: u64 = 1024;
    let mut unit = STEP;
    for name in ["KB", "MB", "GB"] {
        if bytes < unit {
            break;
        }
        if bytes < unit.saturating_mul(STEP) || name == "GB" {
            let tenths = (u128::from(bytes) * 10 + u128::from(unit) / 2) / u128::from(unit);
            return format!("{}.{} {name}", tenths / 10, tenths % 10);
        }
        unit = unit.saturating_mul(STEP);
    }
    format!("{bytes} B")
}

/// Lower-case hexadecimal.
#[must_use]
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().flat_map(|b| [b >> 4, b & 15]).filter_map(|n| char::from_digit(u32::from(n), 16)).collect()
}

/// SHA-256 as lower-case hexadecimal.
#[must_use]
pub fn sha256(bytes: &[u8]) -> String {
    use sha2::Digest as _;
    hex(&sha2::Sha256::digest(bytes))
}

/// `1 line`, `2 lines`.
#[must_use]
pub fn count(number: u64, noun: &str) -> String {
    if number == 1 { format!("1 {noun}") } else { format!("{number} {noun}s") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cuts_by_characters() {
        assert_eq!(clip("žluť", 2), "žl");
        assert_eq!(clip("žluť", 9), "žluť");
        assert_eq!(clip_line("ab", 2), ("ab".to_owned(), 0));
        assert_eq!(clip_line("a中中", 2), ("a中 [… 1 more characters]".to_owned(), 3));
    }

    #[test]
    fn sizes() {
        for (bytes, text) in [
            (0, "0 B"),
            (1023, "1023 B"),
            (1024, "1.0 KB"),
            (1536, "1.5 KB"),
            (1 << 20, "1.0 MB"),
            (5 << 40, "5120.0 GB"),
        ] {
            assert_eq!(size(bytes), text);
        }
    }

    #[test]
    fn names_are_harmless() {
        assert_eq!(escaped("a\x1b[2J\u{9b}\u{202e}ü\n"), "a\\u{1b}[2J\\u{9b}\\u{202e}ü\\n");
        assert_eq!(sha256(b"abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    }
}
