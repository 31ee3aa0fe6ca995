//! **What this room is for:** one word of the shell: quotes, substitutions, arithmetic, braces. **Who may enter:** `words`.
//! **Never done here:** expanding anything. **Where the proof is:** the tests of `words`.

use super::super::command::Word;
use super::{DEPTH, End, Splitter, is_name};

impl Splitter {
    /// One word. Always takes at least one character unless it stands before a separator.
    pub(super) fn word(&mut self) -> Word {
        let mut word = Word::default();
        while let Some(c) = self.peek() {
            match c {
                ' ' | '\t' | '\n' | ';' | '&' | '|' | ')' => break,
                '\r' => self.at += 1,
                '(' if word.assigns && word.text.ends_with('=') => self.array(&mut word),
                '(' => break,
                '<' | '>' if self.ahead("<(") || self.ahead(">(") => {
                    self.at += 2;
                    self.substitution(&mut word);
                }
                '<' | '>' => break,
                '\\' => {
                    self.at += 1;
                    match self.peek() {
                        Some('\n') => {}
                        Some(escaped) => word.text.push(escaped),
                        None => self.out.unclear = true,
                    }
                    self.at += 1;
                    word.quoted = true;
                }
                '\'' => {
                    self.at += 1;
                    word.quoted = true;
                    self.until(&mut word, '\'');
                }
                '"' => {
                    self.at += 1;
                    word.quoted = true;
                    self.double_quoted(&mut word);
                }
                '$' => self.dollar(&mut word),
                '`' => self.backticks(&mut word),
                _ => {
                    word.glob |= matches!(c, '*' | '?' | '[') || (c == ',' && word.text.contains('{'));
                    if c == '=' && !word.quoted && !word.dynamic {
                        word.assigns |= is_name(word.text.strip_suffix('+').unwrap_or(&word.text));
                    }
                    word.text.push(c);
                    self.at += 1;
                }
            }
        }
        word
    }

    pub(super) fn until(&mut self, word: &mut Word, close: char) {
        while let Some(c) = self.peek() {
            self.at += 1;
            if c == close {
                return;
            }
            word.text.push(c);
        }
        self.out.unclear = true;
    }

    pub(super) fn double_quoted(&mut self, word: &mut Word) {
        while let Some(c) = self.peek() {
            match c {
                '"' => {
                    self.at += 1;
                    return;
                }
                '\\' => {
                    self.at += 1;
                    match self.peek() {
                        Some(c @ ('$' | '`' | '"' | '\\')) => word.text.push(c),
                        Some('\n') => {}
                        Some(c) => word.text.extend(['\\', c]),
                        None => self.out.unclear = true,
                    }
                    self.at += 1;
                }
                '$' if !self.ahead("$'") && !self.ahead("$\"") => self.dollar(word),
                '`' => self.backticks(word),
                _ => {
                    word.text.push(c);
                    self.at += 1;
                }
            }
        }
        self.out.unclear = true;
    }

    pub(super) fn array(&mut self, word: &mut Word) {
        self.at += 1;
        word.text.push_str("(…)");
        self.depth += 1;
        if self.depth > DEPTH {
            self.out.too_large = true;
            self.at = self.chars.len();
        }
        self.array_words();
        self.depth -= 1;
    }

    fn array_words(&mut self) {
        while let Some(c) = self.peek() {
            match c {
                ')' => {
                    self.at += 1;
                    return;
                }
                ' ' | '\t' | '\n' | ';' | '&' | '|' => self.at += 1,
                '(' | '<' | '>' if !self.ahead("<(") && !self.ahead(">(") => self.at += 1,
                _ => drop(self.word()),
            }
        }
        self.out.unclear = true;
    }

    /// Behind `$(`, `<(`, `>(`: the commands up to the bracket, as parts of their own.
    pub(super) fn substitution(&mut self, word: &mut Word) {
        word.dynamic = true;
        word.text.push_str("$(…)");
        let mut inner = Splitter::new("", self.depth + 1);
        if inner.depth > DEPTH {
            self.out.too_large = true;
            self.at = self.chars.len();
            return;
        }
        inner.chars = std::mem::take(&mut self.chars);
        inner.at = self.at;
        inner.list(End::Paren);
        self.chars = std::mem::take(&mut inner.chars);
        self.at = inner.at;
        inner.out.unclear |= !inner.pending.is_empty() || !inner.cases.is_empty();
        self.absorb(inner.out);
    }

    pub(super) fn backticks(&mut self, word: &mut Word) {
        self.at += 1;
        word.dynamic = true;
        word.text.push_str("$(…)");
        let mut inner = String::new();
        while let Some(c) = self.peek() {
            self.at += 1;
            match c {
                '`' => return self.nest(&inner),
                '\\' => {
                    match self.peek() {
                        Some(c @ ('`' | '\\' | '$')) => inner.push(c),
                        Some(c) => inner.extend(['\\', c]),
                        None => {}
                    }
                    self.at += 1;
                }
                _ => inner.push(c),
            }
        }
        self.out.unclear = true;
        self.nest(&inner);
    }

    pub(super) fn dollar(&mut self, word: &mut Word) {
        self.at += 1;
        match self.peek() {
            Some('(') => {
                self.at += 1;
                if self.peek() == Some('(') && self.arithmetic(word) {
                    return;
                }
                self.substitution(word);
            }
            Some('{') => {
                self.at += 1;
                self.braces(word);
            }
            Some('\'') => {
                self.at += 1;
                word.quoted = true;
                self.ansi_quoted(word);
            }
            Some('"') => {
                self.at += 1;
                word.quoted = true;
                self.double_quoted(word);
            }
            Some(c) if c.is_alphanumeric() || "_@*#?-$!".contains(c) => {
                word.dynamic = true;
                word.text.extend(['$', c]);
                self.at += 1;
                while c.is_alphabetic() || c == '_' {
                    match self.peek() {
                        Some(c) if c.is_alphanumeric() || c == '_' => word.text.push(c),
                        _ => break,
                    }
                    self.at += 1;
                }
            }
            _ => word.text.push('$'),
        }
    }

    /// `$((…))` without substitutions inside: taken as one value. Else nothing is taken.
    pub(super) fn arithmetic(&mut self, word: &mut Word) -> bool {
        let mut open = 1;
        let mut at = self.at;
        while open > 0 {
            match self.chars.get(at) {
                Some('(') => open += 1,
                Some(')') => open -= 1,
                Some('`' | '$' | '\n' | '\'' | '"' | '\\') | None => return false,
                Some(_) => {}
            }
            at += 1;
        }
        if self.chars.get(at.saturating_sub(2)) != Some(&')') {
            return false;
        }
        self.at = at;
        word.dynamic = true;
        word.text.push_str("$((…))");
        true
    }

    pub(super) fn braces(&mut self, word: &mut Word) {
        word.dynamic = true;
        let mut inner = String::new();
        let mut open = 1;
        while let Some(c) = self.peek() {
            self.at += 1;
            match c {
                '{' => open += 1,
                '}' => open -= 1,
                '\\' => {
                    inner.push(c);
                    if let Some(next) = self.peek() {
                        inner.push(next);
                        self.at += 1;
                    }
                    continue;
                }
                _ => {}
            }
            if open == 0 {
                word.text.push_str(&if is_name(&inner) { format!("${inner}") } else { format!("${{{inner}}}") });
                return self.expansions(&inner);
            }
            inner.push(c);
        }
        self.out.unclear = true;
        self.expansions(&inner);
    }

    pub(super) fn ansi_quoted(&mut self, word: &mut Word) {
        while let Some(c) = self.peek() {
            self.at += 1;
            match c {
                '\'' => return,
                '\\' => {
                    let kind = self.peek().unwrap_or('\\');
                    self.at += 1;
                    let decoded = match kind {
                        'n' => Some('\n'),
                        't' => Some('\t'),
                        'r' => Some('\r'),
                        'e' | 'E' => Some('\u{1b}'),
                        'x' => self.code(16, 2),
                        'u' => self.code(16, 4),
                        'U' => self.code(16, 8),
                        '0'..='7' => {
                            self.at -= 1;
                            self.code(8, 3)
                        }
                        other => Some(other),
                    };
                    word.dynamic |= decoded.is_none();
                    word.text.extend(decoded);
                }
                _ => word.text.push(c),
            }
        }
        self.out.unclear = true;
    }

    pub(super) fn code(&mut self, radix: u32, most: usize) -> Option<char> {
        let mut value = 0_u32;
        let mut taken = 0;
        while let (true, Some(digit)) = (taken < most, self.peek().and_then(|c| c.to_digit(radix))) {
            value = value.saturating_mul(radix).saturating_add(digit);
            self.at += 1;
            taken += 1;
        }
        char::from_u32(value).filter(|&c| taken > 0 && c != '\0')
    }
}
