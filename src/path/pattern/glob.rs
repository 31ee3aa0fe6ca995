//! **What this room is for:** one name against one glob without slashes. **Who may enter:** `path::pattern`, the policy's patterns.
//! **Never done here:** regular expressions (nothing to compile at each start, and no pattern that takes exponential
//! time). **Where the proof is:** the tests below, `fuzz/properties/glob_pattern.rs`.

/// A glob for one name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Glob {
    /// Exactly these bytes.
    Literal(Vec<u8>),
    /// `*` and then exactly these bytes (`*.pem`).
    Suffix(Vec<u8>),
    /// Anything else.
    Tokens(Vec<Token>),
}

/// A piece of a glob.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Token {
    /// One byte.
    Byte(u8),
    /// `?`: one character; a byte where the name is not UTF-8.
    One,
    /// `*`: any number of characters.
    Many,
    /// `[a-z]`, `[!a-z]`.
    Class { negated: bool, ranges: Vec<(char, char)> },
}

impl Glob {
    /// Reads a glob; `text` has no slash and no open braces.
    pub(crate) fn parse(text: &str) -> Result<Glob, String> {
        let mut tokens: Vec<Token> = Vec::new();
        let mut chars = text.chars();
        while let Some(c) = chars.next() {
            match c {
                '*' if tokens.last() == Some(&Token::Many) => {}
                '*' => tokens.push(Token::Many),
                '?' => tokens.push(Token::One),
                '[' => {
                    let (class, rest) = class(chars.as_str())?;
                    tokens.push(class);
                    chars = rest.chars();
                }
                '\\' => push(&mut tokens, chars.next().ok_or("a `\\` at the end escapes nothing")?),
                c => push(&mut tokens, c),
            }
        }
        let bytes = |tokens: &[Token]| -> Option<Vec<u8>> {
            tokens.iter().map(|token| if let Token::Byte(b) = token { Some(*b) } else { None }).collect()
        };
        if let Some(literal) = bytes(&tokens) {
            return Ok(Glob::Literal(literal));
        }
        if let Some((Token::Many, rest)) = tokens.split_first()
            && let Some(suffix) = bytes(rest)
        {
            return Ok(Glob::Suffix(suffix));
        }
        Ok(Glob::Tokens(tokens))
    }

    /// Whether the whole name matches.
    pub(crate) fn matches(&self, name: &[u8]) -> bool {
        match self {
            Glob::Literal(literal) => literal == name,
            Glob::Suffix(suffix) => name.ends_with(suffix),
            Glob::Tokens(tokens) => matches(tokens, name),
        }
    }
}

fn push(tokens: &mut Vec<Token>, c: char) {
    let mut buffer = [0; 4];
    tokens.extend(c.encode_utf8(&mut buffer).bytes().map(Token::Byte));
}

/// Reads a class after its `[`; gives what comes after its `]`.
fn class(text: &str) -> Result<(Token, &str), String> {
    let (negated, mut rest) = match text.strip_prefix(['!', '^']) {
        Some(rest) => (true, rest),
        None => (false, text),
    };
    let mut ranges = Vec::new();
    let mut first = true;
    loop {
        let (c, more) = class_char(rest)?;
        if c == ']' && rest.starts_with(']') && !first {
            return Ok((Token::Class { negated, ranges }, more));
        }
        if rest.starts_with("[:") || rest.starts_with("[.") || rest.starts_with("[=") {
            return Err("named classes such as `[:alpha:]` are not known; use ranges".to_owned());
        }
        first = false;
        match more.strip_prefix('-').filter(|after| !after.starts_with(']')) {
            None => {
                ranges.push((c, c));
                rest = more;
            }
            Some(after) => {
                let (end, more) = class_char(after)?;
                if end < c {
                    return Err(format!("the range `{c}-{end}` is empty"));
                }
                ranges.push((c, end));
                rest = more;
            }
        }
    }
}

/// One character of a class, unescaped, and what follows it.
fn class_char(text: &str) -> Result<(char, &str), String> {
    let open = "a `[` is not closed; write `\\[` for the character";
    let mut chars = text.chars();
    let c = match chars.next().ok_or(open)? {
        '\\' => chars.next().ok_or(open)?,
        c => c,
    };
    Ok((c, chars.as_str()))
}

/// The classic match with one place to come back to: linear in practice, name times pattern at worst.
fn matches(tokens: &[Token], name: &[u8]) -> bool {
    let (mut t, mut n) = (0, 0);
    let mut back: Option<(usize, usize)> = None;
    loop {
        let step = match tokens.get(t) {
            Some(Token::Many) => {
                back = Some((t + 1, n));
                t += 1;
                continue;
            }
            Some(token) => one(token, name.get(n..).unwrap_or_default()),
            None if n >= name.len() => return true,
            None => None,
        };
        if let Some(taken) = step {
            t += 1;
            n += taken;
        } else {
            // Let the last `*` take one more character.
            let Some((after, from)) = back else { return false };
            let Some((_, len)) = first_char(name.get(from..).unwrap_or_default()) else { return false };
            back = Some((after, from + len));
            (t, n) = (after, from + len);
        }
    }
}

/// Bytes of `rest` that the token takes.
fn one(token: &Token, rest: &[u8]) -> Option<usize> {
    match token {
        Token::Byte(byte) => (rest.first() == Some(byte)).then_some(1),
        Token::One => first_char(rest).map(|(_, len)| len),
        Token::Class { negated, ranges } => {
            let (c, len) = first_char(rest)?;
            let within = c.is_some_and(|c| ranges.iter().any(|(low, high)| (*low..=*high).contains(&c)));
            (within != *negated).then_some(len)
        }
        Token::Many => None,
    }
}

/// The first character and its bytes; no character and one byte where it is not UTF-8.
fn first_char(bytes: &[u8]) -> Option<(Option<char>, usize)> {
    let len = match bytes.first()? {
        0xc0..=0xdf => 2,
        0xe0..=0xef => 3,
        0xf0..=0xff => 4,
        _ => 1,
    };
    let c = bytes.get(..len).and_then(|part| std::str::from_utf8(part).ok()).and_then(|text| text.chars().next());
    Some((c, if c.is_some() { len } else { 1 }))
}

#[cfg(test)]
mod tests {
    use super::Glob;

    #[test]
    fn globs_match_whole_names_by_characters() {
        let cases = [
            ("*.pem", "a.pem", true),
            ("*.pem", ".pem", true),
            ("*.pem", "a.pem2", false),
            ("a*b*c", "aXbYbZc", true),
            ("a*b*c", "aXbY", false),
            ("?", "é", true),
            ("??", "é", false),
            ("[!a]", "é", true),
            ("[a-cx]*", "b9", true),
            ("[]-]", "-", true),
            ("[]-]", "]", true),
            ("\\*", "*", true),
            ("\\*", "x", false),
            ("***", "", true),
            ("id_*sa", "id_rsa", true),
            ("", "", true),
        ];
        for (glob, name, expected) in cases {
            assert_eq!(Glob::parse(glob).unwrap().matches(name.as_bytes()), expected, "{glob} {name}");
        }
        assert!(Glob::parse("a?c").unwrap().matches(b"a\xffc"));
        for bad in ["[a", "[z-a]", "a\\", "[[:alpha:]]", "[]", "[!]"] {
            assert!(Glob::parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_hostile_glob_is_not_slow() {
        let glob = Glob::parse(&"*a".repeat(100)).unwrap();
        assert!(!glob.matches(&[b'a'; 255].map(|_| b'b')));
        assert!(!glob.matches(&[[b'a'; 250].as_slice(), b"b"].concat()));
    }
}
