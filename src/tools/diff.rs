//! **What this room is for:** what changed between two contents, as a unified diff within bounds. **Who may enter:** the
//! writing tools. **Never done here:** I/O. **Where the proof is:** the tests below.

use std::fmt::Write as _;
use std::time::Duration;

use similar::{Algorithm, ChangeTag, DiffOp, TextDiff};

use crate::limits::{DIFF_BYTES, DIFF_CHARS, DIFF_MS};
use crate::tools::text::{clip, escaped};

/// Unchanged lines around a change.
const CONTEXT: usize = 3;

/// A unified diff of at most `DIFF_CHARS` characters and a mark. `old` is `None` for a new file.
pub(super) fn unified(path: &str, old: Option<&[u8]>, new: &[u8]) -> String {
    let name = escaped(path);
    let from = if old.is_some() { format!("a/{name}") } else { "/dev/null".to_owned() };
    let (old, new) = (String::from_utf8_lossy(old.unwrap_or_default()), String::from_utf8_lossy(new));
    if old == new {
        return String::new();
    }
    let mut out = format!("--- {from}\n+++ b/{name}\n");
    // Only what lies between the common ends is compared: edits are local, files may be large.
    let (head, tail) = common_ends(&old, &new);
    let middle = |text: &str| text.get(head..text.len() - tail).unwrap_or_default().to_owned();
    let (a, b) = (middle(&old), middle(&new));
    if a.len() > DIFF_BYTES || b.len() > DIFF_BYTES {
        let _ = writeln!(out, "@@ {} bytes became {} bytes: too much to show @@", a.len(), b.len());
        return out;
    }
    let lines_before = old.get(..head).unwrap_or_default().matches('\n').count();
    let diff = TextDiff::configure()
        .algorithm(Algorithm::Myers)
        .timeout(Duration::from_millis(DIFF_MS))
        .diff_lines(a.as_str(), b.as_str());
    for group in diff.grouped_ops(CONTEXT) {
        hunk(&mut out, &diff, &group, lines_before);
        if out.len() > DIFF_CHARS * 4 {
            break;
        }
    }
    bounded(&out, DIFF_CHARS)
}

/// The diff, or its start and a mark.
pub(super) fn bounded(diff: &str, chars: usize) -> String {
    let head = clip(diff, chars);
    if head.len() == diff.len() { diff.to_owned() } else { format!("{head}\n[diff cut]\n") }
}

/// Bytes at both ends that are whole equal lines, less the context that a hunk shows.
fn common_ends(old: &str, new: &str) -> (usize, usize) {
    let (a, b) = (old.as_bytes(), new.as_bytes());
    let same = a.iter().zip(b).take_while(|(x, y)| x == y).count();
    let head = back_lines(a.get(..same).unwrap_or_default(), CONTEXT + 1);
    let rest = a.len().min(b.len()) - head;
    let same = a.iter().rev().zip(b.iter().rev()).take(rest).take_while(|(x, y)| x == y).count();
    let ending = a.get(a.len() - same..).unwrap_or_default();
    (head, ending.len() - forward_lines(ending, CONTEXT + 1))
}

/// Where the last `lines` line starts of this text are: the position after the newline that is `lines` back from the end.
fn back_lines(text: &[u8], lines: usize) -> usize {
    text.iter().enumerate().rev().filter(|(_, byte)| **byte == b'\n').nth(lines - 1).map_or(0, |(at, _)| at + 1)
}

/// The position after the first `lines` newlines.
fn forward_lines(text: &[u8], lines: usize) -> usize {
    text.iter().enumerate().filter(|(_, byte)| **byte == b'\n').nth(lines - 1).map_or(text.len(), |(at, _)| at + 1)
}

fn hunk(out: &mut String, diff: &TextDiff<'_, '_, str>, group: &[DiffOp], before: usize) {
    let (Some(first), Some(last)) = (group.first(), group.last()) else { return };
    let range = |start: usize, end: usize| {
        let start = start + before;
        let end = end + before;
        match end - start {
            0 => format!("{start},0"),
            1 => format!("{}", start + 1),
            n => format!("{},{n}", start + 1),
        }
    };
    let old = range(first.old_range().start, last.old_range().end);
    let new = range(first.new_range().start, last.new_range().end);
    let _ = writeln!(out, "@@ -{old} +{new} @@");
    for op in group {
        for change in diff.iter_changes(op) {
            out.push(match change.tag() {
                ChangeTag::Equal => ' ',
                ChangeTag::Delete => '-',
                ChangeTag::Insert => '+',
            });
            let line: &str = change.value();
            out.push_str(line);
            if !line.ends_with('\n') {
                out.push_str("\n\\ No newline at end of file\n");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_in_the_middle_has_true_line_numbers() {
        let old: String = (1..=100).map(|n| format!("line {n}\n")).collect();
        let new = old.replace("line 50\n", "LINE 50\n");
        let diff = unified("f", Some(old.as_bytes()), new.as_bytes());
        assert_eq!(
            diff,
            "--- a/f\n+++ b/f\n@@ -47,7 +47,7 @@\n line 47\n line 48\n line 49\n-line 50\n+LINE 50\n line 51\n line 52\n line 53\n"
        );
    }

    #[test]
    fn ends_of_files() {
        assert_eq!(unified("f", None, b"a\n"), "--- /dev/null\n+++ b/f\n@@ -0,0 +1 @@\n+a\n");
        assert_eq!(unified("f", Some(b"a\n"), b""), "--- a/f\n+++ b/f\n@@ -1 +0,0 @@\n-a\n");
        assert!(unified("f", Some(b"a"), b"a\n").contains("-a\n\\ No newline at end of file\n+a\n"));
        assert!(unified("f", Some(b"a\nb\na\n"), b"a\nb\na\nb\na\n").contains("+b\n"));
        assert_eq!(unified("f", Some(b"a\n"), b"a\n"), "");
    }

    #[test]
    fn large_changes_stay_within_bounds() {
        let old = "é\n".repeat(400_000);
        let new = "ü\n".repeat(400_000);
        assert!(unified("f", Some(old.as_bytes()), new.as_bytes()).chars().count() < DIFF_CHARS + 200);
        let new = "ü\n".repeat(40_000);
        assert!(unified("f", Some(b"x\n"), new.as_bytes()).chars().count() < DIFF_CHARS + 200);
    }
}
