//! **What this room is for:** rows of a content search: collecting them from the search engine, cutting and showing them.
//! **Who may enter:** `grep`. **Never done here:** opening files. **Where the proof is:** `tools/tests.rs`.

use std::io;

use grep_searcher::{Searcher, Sink, SinkContext, SinkContextKind, SinkFinish, SinkMatch};
use serde_json::{Value, json};

use crate::tools::text::{clip_line, escaped};
use crate::tools::walk::Deadline;

/// What is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mode {
    Content,
    Files,
    Count,
}

/// How rows are collected and shown.
#[derive(Debug)]
pub(super) struct Format {
    pub(super) mode: Mode,
    pub(super) line_numbers: bool,
    pub(super) context: bool,
    pub(super) limit: usize,
    pub(super) offset: u64,
    pub(super) line_chars: usize,
    pub(super) result_chars: usize,
}

/// One row.
#[derive(Debug)]
struct Row {
    path: String,
    /// Line number; in mode count the number of lines.
    number: u64,
    text: String,
    is_match: bool,
}

/// All rows of a search, within the limits.
#[derive(Debug)]
pub(super) struct Rows {
    format: Format,
    rows: Vec<Row>,
    text: String,
    chars: usize,
    /// Rows there are (not only those kept).
    pub(super) total: u64,
    /// Bytes left out of long lines.
    pub(super) cut_bytes: u64,
    /// The text is full.
    pub(super) is_full: bool,
}

impl Rows {
    pub(super) fn new(format: Format) -> Rows {
        Rows { format, rows: Vec::new(), text: String::new(), chars: 0, total: 0, cut_bytes: 0, is_full: false }
    }

    pub(super) fn returned(&self) -> u64 {
        self.rows.len() as u64
    }

    pub(super) fn into_text(self) -> String {
        self.text
    }

    /// Rows as data.
    pub(super) fn as_json(&self) -> Vec<Value> {
        let row = |row: &Row| match self.format.mode {
            Mode::Content => {
                let kind = if row.is_match { "match" } else { "context" };
                json!({ "path": row.path, "line": row.number, "text": row.text, "kind": kind })
            }
            Mode::Files => json!({ "path": row.path }),
            Mode::Count => json!({ "path": row.path, "count": row.number }),
        };
        self.rows.iter().map(row).collect()
    }

    fn add(&mut self, path: &str, number: u64, line: &[u8], is_match: bool) {
        let at = self.total;
        self.total += 1;
        if at < self.format.offset || self.rows.len() >= self.format.limit || self.is_full {
            return;
        }
        let line = line.strip_suffix(b"\n").unwrap_or(line);
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        let (text, cut) = clip_line(&String::from_utf8_lossy(line), self.format.line_chars);
        let row = Row { path: path.to_owned(), number, text, is_match };
        let shown = self.shown(&row);
        let chars = shown.chars().count();
        if self.chars + chars > self.format.result_chars && !self.rows.is_empty() {
            self.is_full = true;
            return;
        }
        self.cut_bytes += cut;
        self.chars += chars;
        self.text.push_str(&shown);
        self.rows.push(row);
    }

    fn shown(&self, row: &Row) -> String {
        let path = escaped(&row.path);
        let mark = if row.is_match { ':' } else { '-' };
        let line = match (self.format.mode, self.format.line_numbers) {
            (Mode::Files, _) => path,
            (Mode::Count, _) => format!("{path}:{}", row.number),
            (Mode::Content, true) => format!("{path}{mark}{}{mark}{}", row.number, row.text),
            (Mode::Content, false) => format!("{path}{mark}{}", row.text),
        };
        let follows = |last: &Row| last.path == row.path && last.number + 1 == row.number;
        let is_new_block = self.format.context && self.rows.last().is_some_and(|last| !follows(last));
        let block = if is_new_block { "--\n" } else { "" };
        format!("{block}{line}\n")
    }
}

/// Collects the rows of one file.
#[derive(Debug)]
pub(super) struct FileSink<'a> {
    rows: &'a mut Rows,
    path: &'a str,
    deadline: Deadline,
    lines: u64,
}

impl<'a> FileSink<'a> {
    pub(super) fn new(rows: &'a mut Rows, path: &'a str, deadline: Deadline) -> Self {
        FileSink { rows, path, deadline, lines: 0 }
    }

    /// The row that a whole file makes (modes files and count).
    pub(super) fn finish(self) {
        if self.lines > 0 && self.rows.format.mode != Mode::Content {
            self.rows.add(self.path, self.lines, b"", true);
        }
    }
}

impl Sink for FileSink<'_> {
    type Error = io::Error;

    fn matched(&mut self, _: &Searcher, found: &SinkMatch<'_>) -> Result<bool, io::Error> {
        let first = found.line_number().unwrap_or(1);
        for (number, line) in (first..).zip(found.lines()) {
            self.lines += 1;
            if self.rows.format.mode == Mode::Content {
                self.rows.add(self.path, number, line, true);
            }
        }
        Ok(self.rows.format.mode != Mode::Files && !self.deadline.is_over())
    }

    fn context(&mut self, _: &Searcher, context: &SinkContext<'_>) -> Result<bool, io::Error> {
        if *context.kind() != SinkContextKind::Other && self.rows.format.mode == Mode::Content {
            self.rows.add(self.path, context.line_number().unwrap_or(1), context.bytes(), false);
        }
        Ok(true)
    }

    fn finish(&mut self, _: &Searcher, _: &SinkFinish) -> Result<(), io::Error> {
        Ok(())
    }
}
