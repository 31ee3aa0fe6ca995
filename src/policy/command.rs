//! **What this room is for:** the parts of a shell command, so that a rule is asked about each program that would start.
//! **Who may enter:** `rules` and `floor`. **Never done here:** running, expanding a variable, touching the disk.
//! **Where the proof is:** the tests below, `fuzz/properties/policy.rs`.
//!
//! This is a reader of words and separators, not a shell. Where it is not sure it says so ([`CommandParts::unclear`]),
//! and then no rule allows the command. What confines a command is the sandbox; these parts only decide about questions,
//! `deny` rules and hard blocks.

use super::words::Splitter;

/// Parts of one command; more cannot be judged, and what cannot be judged does not run.
pub(crate) const PARTS: usize = 4096;

/// One word after quotes and escapes.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Word {
    /// Its text; expansions stand in it as they are written.
    pub text: String,
    /// It holds an expansion, so its value is not known here.
    pub dynamic: bool,
    /// It holds an unquoted star, class or brace list.
    pub glob: bool,
    /// Some of it was quoted, so it is no keyword.
    pub quoted: bool,
    /// `NAME=…` in front of a program.
    pub assigns: bool,
}

/// One redirection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Redirect {
    /// `>` `>>` `<` `<>` `>&` …
    pub operator: String,
    /// Its target.
    pub target: Word,
}

impl Redirect {
    /// It changes a file (and not only a descriptor or `/dev/null`).
    #[must_use]
    pub fn writes(&self) -> bool {
        let to = self.target.text.as_str();
        let descriptor = self.operator.ends_with('&') && to.chars().all(|c| c.is_ascii_digit() || c == '-');
        self.operator.contains('>') && !descriptor && !matches!(to, "/dev/null" | "/dev/stdout" | "/dev/stderr")
    }
}

/// One simple command.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Part {
    /// Assignments in front of the program.
    pub assignments: Vec<Word>,
    /// The program and its arguments.
    pub words: Vec<Word>,
    /// Redirections.
    pub redirects: Vec<Redirect>,
    /// Text of here-documents and here-strings.
    pub input: String,
    /// Number of the part whose output this one reads.
    pub piped_from: Option<usize>,
    /// It runs in the background.
    pub background: bool,
    /// Name of the function in whose body it stands.
    pub inside: Option<String>,
    /// It was found behind a wrapper (`env`, `sh -c`, …), not written like this.
    pub derived: bool,
}

impl Part {
    /// The program's word as written, without its folder.
    #[must_use]
    pub fn program(&self) -> Option<&str> {
        let text = self.words.first()?.text.as_str();
        Some(text.rsplit('/').next().unwrap_or(text))
    }

    /// The words with one space between them, for `deny` and hard blocks.
    #[must_use]
    pub fn plain(&self) -> String {
        join(self.words.iter().map(|word| word.text.clone()))
    }

    /// The same without the program's folder.
    #[must_use]
    pub fn plain_by_name(&self) -> String {
        let name = self.program().unwrap_or_default().to_owned();
        join(std::iter::once(name).chain(self.words.iter().skip(1).map(|word| word.text.clone())))
    }

    /// The words for `allow`: one that holds a space stays in quotes, so that it cannot pass for two.
    #[must_use]
    pub fn careful(&self) -> String {
        join(self.words.iter().map(|word| {
            let simple = !word.text.is_empty() && !word.text.contains(char::is_whitespace);
            if simple { word.text.clone() } else { format!("'{}'", word.text) }
        }))
    }

    /// What starts is known: the first word is neither an expansion nor a pattern.
    #[must_use]
    pub fn is_plain_program(&self) -> bool {
        self.words.first().is_some_and(|word| !word.dynamic && !word.glob && !word.text.is_empty())
    }
}

fn join(words: impl Iterator<Item = String>) -> String {
    words.collect::<Vec<_>>().join(" ")
}

/// A command in parts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CommandParts {
    /// The parts, in the order in which they end.
    pub parts: Vec<Part>,
    /// The text does not parse, or holds something that is not read here. What was found up to there is in `parts`.
    pub unclear: bool,
    /// Too deep or too many parts to be judged at all.
    pub too_large: bool,
}

/// The parts of a command text.
#[must_use]
pub fn subjects(text: &str) -> CommandParts {
    Splitter::new(text, 0).read()
}

/// White space outside quotes folded to one space, ends trimmed; newlines stay, they separate commands.
#[must_use]
pub fn fold(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut quote = None;
    let mut gap = false;
    let mut chars = text.trim().chars();
    while let Some(c) = chars.next() {
        if quote.is_none() && matches!(c, ' ' | '\t') {
            gap = true;
            continue;
        }
        if std::mem::take(&mut gap) && c != '\n' && !out.ends_with('\n') {
            out.push(' ');
        }
        out.push(c);
        match (quote, c) {
            (None | Some('"'), '\\') => out.extend(chars.next()),
            (None, '\'' | '"') => quote = Some(c),
            (Some(open), _) if open == c => quote = None,
            _ => {}
        }
    }
    out
}

/// Takes a `cd ROOT &&` off the front: it changes nothing, the command starts there.
#[must_use]
pub fn without_cd_root<'a>(text: &'a str, root: &str) -> &'a str {
    let rest = text.trim_start();
    let Some(after) = rest.strip_prefix("cd").filter(|after| after.starts_with([' ', '\t'])) else { return text };
    let Some((folder, rest)) = after.split_once("&&") else { return text };
    let folder = folder.trim();
    let unquoted = ['\'', '"'].iter().find_map(|q| folder.strip_prefix(*q)?.strip_suffix(*q)).unwrap_or(folder);
    let same = unquoted == root || unquoted.trim_end_matches('/') == root.trim_end_matches('/');
    if same && !root.is_empty() && !root.contains(['"', '\'', '$', '`', '\\']) { rest.trim_start() } else { text }
}

/// The `match` of a rule for commands: exact text, or a beginning that ends in `*`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommandPattern {
    /// Folded, without the star.
    text: String,
    /// The words, unquoted, where the text is one simple command.
    words: Option<String>,
    prefix: bool,
}

impl CommandPattern {
    /// Reads the text of a rule.
    #[must_use]
    pub fn new(text: &str) -> Self {
        let folded = fold(text);
        match folded.strip_suffix('*') {
            Some(beginning) => CommandPattern { text: beginning.to_owned(), words: None, prefix: true },
            None => {
                let parts = subjects(&folded);
                let words = match parts.parts.as_slice() {
                    [one] if !parts.unclear && one.assignments.is_empty() && one.redirects.is_empty() => {
                        Some(one.careful())
                    }
                    _ => None,
                };
                CommandPattern { text: folded, words, prefix: false }
            }
        }
    }

    /// One form of a command. `git *` needs something behind `git `.
    #[must_use]
    pub fn is_match(&self, text: &str) -> bool {
        if self.prefix {
            let needs_more = self.text.ends_with(' ');
            return text.strip_prefix(&self.text).is_some_and(|rest| !needs_more || !rest.is_empty());
        }
        text == self.text || self.words.as_deref() == Some(text)
    }

    /// For `deny` and hard blocks: any form of the part.
    #[must_use]
    pub fn denies(&self, part: &Part) -> bool {
        !part.words.is_empty()
            && [part.plain(), part.plain_by_name(), part.careful()].iter().any(|text| self.is_match(text))
    }

    /// For `allow`: the program is known, nothing is put into its environment, and no file is written by redirection.
    #[must_use]
    pub fn allows(&self, part: &Part) -> bool {
        part.is_plain_program()
            && part.assignments.is_empty()
            && !part.redirects.iter().any(Redirect::writes)
            && self.is_match(&part.careful())
    }

    /// The whole text, exactly, white space folded.
    #[must_use]
    pub fn is_whole(&self, folded: &str) -> bool {
        !self.prefix && self.text == folded
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folding_spares_quotes_and_lines() {
        assert_eq!(fold("  touch   b "), "touch b");
        assert_eq!(fold("echo 'a  b'  \"c  d\"\t\\  e"), "echo 'a  b' \"c  d\" \\  e");
        assert_eq!(fold("echo x \n  rm y"), "echo x\nrm y");
    }

    #[test]
    fn a_prefix_needs_its_space() {
        let git = CommandPattern::new("git *");
        assert!(git.is_match("git log") && !git.is_match("git") && !git.is_match("git ") && !git.is_match("gitk x"));
        let any = CommandPattern::new("terraform destroy*");
        assert!(any.is_match("terraform destroy") && any.is_match("terraform destroy -auto-approve"));
        assert!(
            CommandPattern::new("echo 'a b'").is_match("echo 'a b'")
                && !CommandPattern::new("date").is_match("date +%s")
        );
    }

    #[test]
    fn an_allow_is_careful() {
        let echo = CommandPattern::new("echo *");
        let allowed = |text: &str| {
            let parts = subjects(text);
            !parts.unclear && parts.parts.iter().all(|part| echo.allows(part))
        };
        for good in
            ["echo a", "echo a; echo b", "echo 'x; y' && echo done", "echo a 2>/dev/null", "echo a 2>&1", "echo $HOME"]
        {
            assert!(allowed(good), "{good}");
        }
        for bad in ["'echo x' y", "FOO=1 echo a", "echo a > f", "e* a", "$E a", "echo \"$(touch t)\"", "echo 'a", "X=1"]
        {
            assert!(!allowed(bad), "{bad}");
        }
    }

    #[test]
    fn cd_to_the_root_is_dropped() {
        assert_eq!(without_cd_root("cd /w && ls", "/w"), "ls");
        assert_eq!(without_cd_root(" cd '/w/' && ls && pwd", "/w"), "ls && pwd");
        for other in ["cd /w/x && ls", "cd /w; ls", "cdx /w && ls", "cd /w || ls && x", "ls"] {
            assert_eq!(without_cd_root(other, "/w"), other);
        }
    }
}
