//! **What this room is for:** what is wrong with a policy file: which file, which line, which word, what would be right.
//! **Who may enter:** whoever loads a policy. **Never done here:** printing.
//! **Where the proof is:** the tests below and `tests/policy.rs`.

use std::fmt;
use std::ops::Range;

use annotate_snippets::{AnnotationKind, Group, Level, Renderer, Snippet};

/// Characters of a line that a message shows around the fault.
const SHOWN_CHARS: usize = 160;

/// A policy that cannot be used. Nothing runs under it: there is no partial policy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PolicyError {
    /// The file, as it was named.
    pub file: String,
    /// Line, from 1; 0 when the file as a whole is meant.
    pub line: usize,
    /// Column in characters, from 1; 0 when the file as a whole is meant.
    pub column: usize,
    /// One sentence: what is wrong.
    pub message: String,
    /// One sentence: what would be right.
    pub help: Option<String>,
    /// The line at fault and the bytes of it that are meant.
    shown: Option<(String, Range<usize>)>,
}

impl PolicyError {
    /// The file as a whole is at fault.
    #[must_use]
    pub fn whole(file: impl Into<String>, message: impl Into<String>) -> Self {
        PolicyError { file: file.into(), line: 0, column: 0, message: message.into(), help: None, shown: None }
    }

    /// A range of bytes of the file's text is at fault. A range that is not in the text counts as its end.
    #[must_use]
    pub fn at(file: impl Into<String>, text: &str, span: &Range<usize>, message: impl Into<String>) -> Self {
        let start = floor_boundary(text, span.start);
        let before = text.get(..start).unwrap_or_default();
        let line_start = before.rfind('\n').map_or(0, |at| at + 1);
        let line_end = text.get(start..).and_then(|rest| rest.find('\n')).map_or(text.len(), |at| start + at);
        let end = floor_boundary(text, span.end).clamp(start, line_end);
        let column = text.get(line_start..start).unwrap_or_default().chars().count() + 1;
        PolicyError {
            file: file.into(),
            line: before.matches('\n').count() + 1,
            column,
            message: message.into(),
            help: None,
            shown: Some(window(text, line_start..line_end, start..end)),
        }
    }

    /// The same with a sentence on what would be right.
    #[must_use]
    pub fn help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }

    /// The error with the line at fault and a mark below it; with colours when `ansi`.
    #[must_use]
    pub fn render(&self, ansi: bool) -> String {
        let renderer = if ansi { Renderer::styled() } else { Renderer::plain() };
        let mut group = Group::with_title(Level::ERROR.primary_title(self.message.as_str()));
        if let Some((text, span)) = &self.shown {
            let mark = AnnotationKind::Primary.span(span.clone());
            let snippet =
                Snippet::source(text.as_str()).path(self.file.as_str()).line_start(self.line).annotation(mark);
            group = group.element(snippet);
        } else {
            group = group.element(Level::NOTE.message(format!("in {}", self.file)));
        }
        if let Some(help) = &self.help {
            group = group.element(Level::HELP.message(help.as_str()));
        }
        renderer.render(&[group])
    }
}

impl fmt::Display for PolicyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => write!(f, "{}: {}", self.file, self.message)?,
            line => write!(f, "{}:{line}:{}: {}", self.file, self.column, self.message)?,
        }
        self.help.as_ref().map_or(Ok(()), |help| write!(f, " ({help})"))
    }
}

impl std::error::Error for PolicyError {}

/// Line (from 1) of a byte of a text.
pub(crate) fn line_of(text: &str, at: usize) -> usize {
    text.as_bytes().get(..at).unwrap_or(text.as_bytes()).iter().filter(|&&b| b == b'\n').count() + 1
}

fn floor_boundary(text: &str, at: usize) -> usize {
    let mut at = at.min(text.len());
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    at
}

/// The part of a line around the fault, and the fault's place in it. A line of a megabyte stays a line of a message.
fn window(text: &str, line: Range<usize>, fault: Range<usize>) -> (String, Range<usize>) {
    let half = SHOWN_CHARS / 2;
    let from = floor_boundary(text, fault.start.saturating_sub(half).max(line.start)).max(line.start);
    let to = floor_boundary(text, (fault.start + half).min(line.end)).max(fault.start);
    let shown: String =
        text.get(from..to).unwrap_or_default().chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    // a control character may be wider than the space that stands for it, so the mark is counted anew
    let width = |range: Range<usize>| {
        text.get(range)
            .unwrap_or_default()
            .chars()
            .map(|c| if c.is_control() { 1 } else { c.len_utf8() })
            .sum::<usize>()
    };
    let start = width(from..fault.start);
    let end = (start + width(fault.start..fault.end.min(to))).min(shown.len()).max(start);
    (shown, start..end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fault_has_a_place_and_a_mark() {
        let text = "version = 1\nmode = \"opn\"\n";
        let error = PolicyError::at("p.toml", text, &(19..24), "no such mode").help("one of ask, open");
        assert_eq!((error.line, error.column), (2, 8));
        let plain = error.render(false);
        assert!(plain.contains("p.toml:2:8") && plain.contains("^^^^^") && plain.contains("one of ask"), "{plain}");
        assert!(!plain.contains('\u{1b}') && error.render(true).contains('\u{1b}'));
        assert_eq!(error.to_string(), "p.toml:2:8: no such mode (one of ask, open)");
    }

    #[test]
    fn places_that_are_not_there_do_no_harm() {
        for (text, span) in [("", 5..9), ("é", 1..1), ("a\u{1}\u{85}b", 2..3), ("x\n", 2..2), ("x", 1..0)] {
            let error = PolicyError::at("f", text, &span, "m");
            assert!(error.line >= 1 && !error.render(false).is_empty());
        }
        let long = "é".repeat(100_000);
        assert!(PolicyError::at("f", &long, &(100_000..100_004), "m").render(false).len() < 2000);
    }
}
