//! **What this room is for:** the scanner behind `command::subjects`: quotes, separators, substitutions, here-documents.
//! **Who may enter:** `command`. **Never done here:** expanding anything; recursion without a bound.
//! **Where the proof is:** the tests below, `fuzz/properties/policy.rs`.

mod quoting;

use super::command::{CommandParts, PARTS, Part, Redirect, Word};

/// Substitutions inside substitutions; a person writes three.
const DEPTH: usize = 24;

/// Where a list of commands ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    Text,
    Paren,
}

/// A here-document whose body comes after the line.
struct Pending {
    delimiter: String,
    quoted: bool,
    tabs: bool,
    owner: Option<usize>,
}

pub(super) struct Splitter {
    chars: Vec<char>,
    at: usize,
    depth: usize,
    out: CommandParts,
    part: Part,
    pending: Vec<Pending>,
    /// For each open `case`: a pattern comes next.
    cases: Vec<bool>,
    function: Option<String>,
    piped: Option<usize>,
    /// The words up to the end of this part are a header (`for x in a b`), not a command.
    header: bool,
}

impl Splitter {
    pub(super) fn new(text: &str, depth: usize) -> Self {
        Splitter {
            chars: text.chars().collect(),
            at: 0,
            depth,
            out: CommandParts::default(),
            part: Part::default(),
            pending: Vec::new(),
            cases: Vec::new(),
            function: None,
            piped: None,
            header: false,
        }
    }

    pub(super) fn read(mut self) -> CommandParts {
        if self.depth > DEPTH {
            return CommandParts { parts: Vec::new(), unclear: true, too_large: true };
        }
        self.list(End::Text);
        self.out.unclear |= !self.pending.is_empty() || !self.cases.is_empty();
        self.out
    }

    fn peek(&self) -> Option<char> {
        self.chars.get(self.at).copied()
    }

    fn ahead(&self, text: &str) -> bool {
        text.chars().enumerate().all(|(i, c)| self.chars.get(self.at + i) == Some(&c))
    }

    fn take(&mut self, text: &str) -> bool {
        let found = self.ahead(text);
        if found {
            self.at += text.chars().count();
        }
        found
    }

    fn finish(&mut self, background: bool, pipes: bool) {
        let mut part = std::mem::take(&mut self.part);
        let header = std::mem::take(&mut self.header);
        part.background = background;
        part.piped_from = self.piped.take();
        part.inside = self.function.clone();
        let empty = part.words.is_empty() && part.assignments.is_empty() && part.redirects.is_empty();
        if header || empty {
            return;
        }
        if self.out.parts.len() >= PARTS {
            self.out.too_large = true;
            return;
        }
        let number = self.out.parts.len();
        self.out.parts.push(part);
        self.pending.iter_mut().filter(|one| one.owner.is_none()).for_each(|one| one.owner = Some(number));
        if pipes {
            self.piped = Some(number);
        }
    }

    /// Adds what a nested text holds.
    fn nest(&mut self, text: &str) {
        let inner = Splitter::new(text, self.depth + 1).read();
        self.absorb(inner);
    }

    fn absorb(&mut self, inner: CommandParts) {
        let shift = self.out.parts.len();
        self.out.unclear |= inner.unclear;
        self.out.too_large |= inner.too_large || shift + inner.parts.len() > PARTS;
        if self.out.too_large {
            return;
        }
        self.out.parts.extend(inner.parts.into_iter().map(|mut part| {
            part.piped_from = part.piped_from.map(|from| from + shift);
            part
        }));
    }

    fn list(&mut self, end: End) {
        while let Some(c) = self.peek() {
            if self.out.too_large {
                return;
            }
            match c {
                ' ' | '\t' | '\r' => self.at += 1,
                '\\' if self.ahead("\\\n") => self.at += 2,
                '#' => self.comment(),
                '\n' => {
                    self.at += 1;
                    self.finish(false, false);
                    self.here_documents();
                }
                ';' => {
                    if self.take(";;&") || self.take(";;") || self.take(";&") {
                        if let Some(expects) = self.cases.last_mut() {
                            *expects = true;
                        }
                    } else {
                        self.at += 1;
                    }
                    self.finish(false, false);
                }
                '&' if self.ahead("&>") => self.redirect(),
                '&' => {
                    let both = self.take("&&");
                    self.at += usize::from(!both);
                    self.finish(!both, false);
                }
                '|' => {
                    let or = self.take("||");
                    if !or && !self.take("|&") {
                        self.at += 1;
                    }
                    self.finish(false, !or);
                }
                ')' => {
                    self.at += 1;
                    self.finish(false, false);
                    if end == End::Paren {
                        return;
                    }
                    self.out.unclear = true;
                }
                '(' => self.open_paren(),
                '<' | '>' if !self.ahead("<(") && !self.ahead(">(") => self.redirect(),
                _ if self.cases.last() == Some(&true) && self.part.words.is_empty() => self.case_pattern(),
                _ => self.command_word(),
            }
        }
        self.finish(false, false);
        if end == End::Paren {
            self.out.unclear = true;
        }
    }

    fn comment(&mut self) {
        while self.peek().is_some_and(|c| c != '\n') {
            self.at += 1;
        }
    }

    /// A subshell, or the brackets of a function. Read in place, so that here-documents stay with their line.
    fn open_paren(&mut self) {
        if self.cases.last() == Some(&true) && self.part.words.is_empty() {
            self.at += 1;
            return self.case_pattern();
        }
        self.at += 1;
        if self.part.words.len() == 1 {
            let mut after = self.at;
            while self.chars.get(after).is_some_and(|c| matches!(c, ' ' | '\t')) {
                after += 1;
            }
            if self.chars.get(after) == Some(&')') {
                self.at = after + 1;
                self.function = self.part.words.pop().map(|word| word.text);
                return;
            }
        }
        if !self.part.words.is_empty() {
            self.out.unclear = true;
            self.finish(false, false);
        }
        self.inner_list();
    }

    fn inner_list(&mut self) {
        self.depth += 1;
        if self.depth > DEPTH {
            self.out.too_large = true;
        } else {
            let cases = std::mem::take(&mut self.cases);
            self.list(End::Paren);
            self.cases = cases;
        }
        self.depth -= 1;
    }

    /// `word | word)` of a `case`, or `esac`.
    fn case_pattern(&mut self) {
        if let Some(expects) = self.cases.last_mut() {
            *expects = false;
        }
        let mut first = true;
        while let Some(c) = self.peek() {
            match c {
                ' ' | '\t' | '|' => self.at += 1,
                '\n' if first => self.at += 1,
                ')' => {
                    self.at += 1;
                    return;
                }
                ';' | '&' | '<' | '>' | '(' | '\n' => break,
                _ => {
                    let word = self.word();
                    if first && word.text == "esac" && !word.quoted {
                        self.cases.pop();
                        return;
                    }
                    first = false;
                }
            }
        }
        self.out.unclear = true;
    }

    fn command_word(&mut self) {
        let first = self.part.words.is_empty() && !self.header;
        let word = self.word();
        if !first {
            self.part.words.push(word);
            return;
        }
        if word.assigns {
            self.part.assignments.push(word);
            return;
        }
        let keyword = if word.quoted || !self.part.assignments.is_empty() { "" } else { word.text.as_str() };
        match keyword {
            "if" | "then" | "elif" | "else" | "while" | "until" | "do" | "!" | "{" | "fi" | "done" | "coproc" => {}
            "}" => self.function = None,
            "esac" => drop(self.cases.pop()),
            "for" | "select" => self.header = true,
            "case" => self.case_head(),
            "function" => self.function_head(),
            "[[" => self.condition(word),
            _ => self.part.words.push(word),
        }
    }

    fn case_head(&mut self) {
        while self.peek().is_some_and(|c| matches!(c, ' ' | '\t')) {
            self.at += 1;
        }
        self.word();
        while self.peek().is_some_and(|c| matches!(c, ' ' | '\t' | '\n')) {
            self.at += 1;
        }
        if self.word().text == "in" {
            self.cases.push(true);
        } else {
            self.out.unclear = true;
        }
    }

    fn function_head(&mut self) {
        while self.peek().is_some_and(|c| matches!(c, ' ' | '\t')) {
            self.at += 1;
        }
        self.function = Some(self.word().text);
        while self.peek().is_some_and(|c| matches!(c, ' ' | '\t')) {
            self.at += 1;
        }
        self.take("()");
    }

    /// `[[ … ]]`: what separates elsewhere is an operator here.
    fn condition(&mut self, open: Word) {
        self.part.words.push(open);
        while let Some(c) = self.peek() {
            match c {
                ' ' | '\t' | '\n' => self.at += 1,
                '&' | '|' | '(' | ')' | '>' | ';' => self.at += 1,
                '<' if !self.ahead("<(") => self.at += 1,
                _ => {
                    let word = self.word();
                    let closes = word.text == "]]" && !word.quoted;
                    self.part.words.push(word);
                    if closes {
                        return;
                    }
                }
            }
        }
        self.out.unclear = true;
    }

    fn redirect(&mut self) {
        // a number directly in front belongs to the redirection
        let digits = self.at.checked_sub(1).and_then(|at| self.chars.get(at)).is_some_and(char::is_ascii_digit);
        if digits && self.part.words.last().is_some_and(|w| !w.quoted && w.text.chars().all(|c| c.is_ascii_digit())) {
            self.part.words.pop();
        }
        let known = ["&>>", "&>", "<<<", "<<-", "<<", "<>", "<&", "<", ">>", ">&", ">|", ">"];
        let Some(operator) = known.into_iter().find(|text| self.take(text)) else {
            self.at += 1;
            return;
        };
        while self.peek().is_some_and(|c| matches!(c, ' ' | '\t')) {
            self.at += 1;
        }
        let start = self.at;
        let target = self.word();
        if self.at == start {
            self.out.unclear = true;
        }
        match operator {
            "<<" | "<<-" => self.pending.push(Pending {
                delimiter: target.text,
                quoted: target.quoted,
                tabs: operator == "<<-",
                owner: None,
            }),
            "<<<" => self.add_input(None, &target.text),
            _ => self.part.redirects.push(Redirect { operator: operator.to_owned(), target }),
        }
    }

    fn add_input(&mut self, owner: Option<usize>, text: &str) {
        let part = match owner {
            Some(number) => self.out.parts.get_mut(number),
            None => Some(&mut self.part),
        };
        if let Some(part) = part {
            part.input.push_str(text);
            if !text.ends_with('\n') {
                part.input.push('\n');
            }
        }
    }

    fn here_documents(&mut self) {
        for one in std::mem::take(&mut self.pending) {
            let mut body = String::new();
            let mut closed = false;
            while self.at < self.chars.len() && !closed {
                let rest = self.chars.get(self.at..).unwrap_or_default();
                let length = rest.iter().position(|&c| c == '\n').unwrap_or(rest.len());
                let line: String = rest.iter().take(length).collect();
                self.at = (self.at + length + 1).min(self.chars.len());
                let line = if one.tabs { line.trim_start_matches('\t') } else { line.as_str() };
                closed = line == one.delimiter;
                if !closed {
                    body.push_str(line);
                    body.push('\n');
                }
            }
            self.out.unclear |= !closed;
            if !one.quoted {
                self.expansions(&body);
            }
            self.add_input(one.owner, &body);
        }
    }

    /// The substitutions of a text in which only `$`, backticks and backslashes mean something.
    fn expansions(&mut self, text: &str) {
        let mut inner = Splitter::new(text, self.depth + 1);
        if inner.depth > DEPTH {
            self.out.too_large = true;
            return;
        }
        let mut word = Word::default();
        while let Some(c) = inner.peek() {
            match c {
                '\\' => inner.at += 2,
                '$' => inner.dollar(&mut word),
                '`' => inner.backticks(&mut word),
                _ => inner.at += 1,
            }
        }
        self.absorb(inner.out);
    }
}

fn is_name(text: &str) -> bool {
    let text = text.split_once('[').map_or(text, |(name, _)| name);
    !text.is_empty()
        && !text.starts_with(|c: char| c.is_ascii_digit())
        && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

#[cfg(test)]
mod tests {
    use crate::policy::command::subjects;

    fn parts(text: &str) -> Vec<String> {
        let mut found: Vec<String> = subjects(text).parts.iter().map(|p| p.plain()).collect();
        found.sort();
        found
    }

    #[test]
    fn separators_make_parts() {
        for text in [
            "a; b",
            "a && b",
            "a || b",
            "a | b",
            "a |& b",
            "a & b",
            "a\nb",
            "(a; b)",
            "{ a; b; }",
            "a $(b)",
            "a `b`",
            "a <(b)",
            "a \"$(b)\"",
            "if a; then b; fi",
            "while a; do b; done",
            "f() { a; }; b",
            "a >(b)",
            "case x in y) a;; z|w) b;; esac",
            "a # b; c\nb",
            "a <<E\n$(b)\nE",
            "x=$(a) b",
            "! a; b",
            "a ${x:-$(b)}",
        ] {
            let found: Vec<_> =
                parts(text).into_iter().map(|p| p.split(' ').next().unwrap_or_default().to_owned()).collect();
            assert_eq!(found, ["a", "b"], "{text}");
            assert!(!subjects(text).unclear, "{text}");
        }
        assert_eq!(parts("for x in $(a); do b; done"), ["a", "b"]);
    }

    #[test]
    fn quotes_comments_and_documents_are_no_commands() {
        for text in ["a 'b; c'", "a \"b; c\"", "a b\\;c", "a # b", "a <<'E'\n$(b)\nE\n", "a $'b;\\x63'", "a $((1 + 2))"]
        {
            assert_eq!(parts(text).len(), 1, "{text}");
            assert!(!subjects(text).unclear, "{text}");
        }
        assert_eq!(parts("t\\ouch 'b'ad"), ["touch bad"]);
        assert_eq!(parts("cat $'.\\x65nv'"), ["cat .env"]);
    }

    #[test]
    fn what_is_not_read_is_unclear() {
        for text in ["a 'b", "a \"b", "a $(b", "a )", "a <<E\nb", "case x in", "a `b", "(a", "a \\"] {
            assert!(subjects(text).unclear, "{text}");
        }
        assert!(subjects(&"$(".repeat(1000)).too_large);
        assert!(subjects(&"(".repeat(100_000)).too_large);
        assert!(subjects(&"x=(".repeat(100_000)).too_large);
        assert!(subjects(&"a;".repeat(100_000)).too_large);
    }

    #[test]
    fn pipes_functions_and_redirections() {
        let found = subjects(":(){ :|:& };:").parts;
        assert_eq!(found.len(), 3);
        assert_eq!((found[1].piped_from, found[1].background, found[1].inside.as_deref()), (Some(0), true, Some(":")));
        let found = subjects("cat x 2>&1 > /dev/sda").parts;
        assert_eq!(found[0].plain(), "cat x");
        assert!(!found[0].redirects[0].writes() && found[0].redirects[1].writes());
        assert_eq!(subjects("sh <<'E'\nrm x\nE\n").parts[0].input, "rm x\n");
    }
}
