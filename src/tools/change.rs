//! **What this room is for:** what every edit of one file has in common: is it text, is it what was seen, what changed.
//! **Who may enter:** the editing tools, behind the door. **Never done here:** guessing what was meant.
//! **Where the proof is:** `tools/tests/writing.rs`.

use serde_json::Value;

use crate::call::{Code, Outcome, Refusal, ToolOptions};
use crate::limits::{DIFF_TEXT_CHARS, READ_FILE_BYTES, WRITE_BYTES};
use crate::tools::args::invalid;
use crate::tools::atomic::{Old, Place, stale};
use crate::tools::read_file::{binary, is_binary};
use crate::tools::replace::{Edited, Replaced, replace};
use crate::tools::text::{count, escaped, sha256};
use crate::tools::write_file::with_path;
use crate::tools::{Given, diff};

/// One replacement.
#[derive(Debug, Clone, Copy)]
pub(super) struct Step<'a> {
    pub(super) old: &'a str,
    pub(super) new: &'a str,
    pub(super) all: bool,
}

/// Makes new content from the old one, or says why not. Gets the file's name for messages.
pub(super) type Edit<'a> = dyn Fn(&str, &[u8]) -> Result<Edited, Box<Outcome>> + 'a;

/// Changes the one file that was given: all of it, or nothing.
pub(super) fn change(given: Given, expected_sha256: Option<&str>, edit: &Edit<'_>) -> Outcome {
    let Some(path) = given.paths.into_iter().next() else {
        return Refusal::new(Code::Unavailable, "The file was not opened.").into();
    };
    let shown = path.shown.clone();
    if !path.missing.is_empty() {
        return not_there(&escaped(&shown)).into();
    }
    let changed = Place::take(path).and_then(|place| {
        let old = place.old()?.ok_or_else(|| not_there(&escaped(&shown)))?;
        check(&old, expected_sha256, &shown, &given.options)?;
        let before = old.content.as_deref().unwrap_or_default();
        let edited = match edit(&escaped(&shown), before) {
            Ok(edited) => edited,
            Err(outcome) => return Ok(*outcome),
        };
        if edited.content == before {
            return Err(invalid("The edit changes nothing.", "Give a `new_string` that differs."));
        }
        let notes = place.replace(&edited.content, &old)?;
        Ok(answer(&shown, before, &edited, &notes))
    });
    changed.unwrap_or_else(|refusal| with_path(refusal, &shown))
}

fn not_there(name: &str) -> Refusal {
    Refusal::new(Code::NotFound, format!("`{name}` does not exist.")).hint("Use write_file to make a new file.")
}

/// Whether the file is text and is what the caller saw.
fn check(old: &Old, expected: Option<&str>, shown: &str, options: &ToolOptions) -> Result<(), Refusal> {
    let name = escaped(shown);
    let Some(content) = old.content.as_deref() else {
        return Err(Refusal::new(Code::TooLarge, format!("`{name}` is larger than {} MiB.", READ_FILE_BYTES >> 20))
            .hint("Change it with a program, in bash."));
    };
    if is_binary(content) {
        return Err(binary(&name));
    }
    if std::str::from_utf8(content).is_err() {
        return Err(Refusal::new(Code::NotRegular, format!("`{name}` is not UTF-8 text."))
            .hint("Convert it first, or change it with a program, in bash."));
    }
    match (expected, &options.known_sha256) {
        (Some(expected), _) if !expected.eq_ignore_ascii_case(&old.sha256) => Err(stale(shown)),
        (Some(_), _) => Ok(()),
        (None, Some(known)) if *known != old.sha256 => Err(stale(shown)),
        (None, None) if options.tracked => {
            Err(Refusal::new(Code::Stale, format!("`{name}` was not read in this session."))
                .hint("Read it with read_file first."))
        }
        _ => Ok(()),
    }
}

/// One replacement in a content. `which` names the edit in messages (`Edit 2: `, or nothing).
pub(super) fn step(name: &str, which: &str, before: &[u8], step: &Step<'_>) -> Result<Edited, Box<Outcome>> {
    let (code, message, hint) = match replace(before, step.old, step.new, step.all) {
        Replaced::Done(edited) => return Ok(edited),
        Replaced::NoMatch => (
            Code::NoMatch,
            format!("{which}`old_string` does not occur in `{name}`."),
            "It must match exactly, with all blanks and line ends and without line numbers.",
        ),
        Replaced::Ambiguous(matches) => {
            let refusal =
                Refusal::new(Code::Ambiguous, format!("{which}`old_string` occurs {matches} times in `{name}`."))
                    .hint("Give more of the text around it, or \"replace_all\": true.");
            return Err(Box::new(Outcome::from(refusal).detail("matches", matches)));
        }
        Replaced::TooLarge => (
            Code::TooLarge,
            format!("{which}`{name}` would become larger than {} MiB.", WRITE_BYTES >> 20),
            "Change it with a program, in bash.",
        ),
    };
    Err(Box::new(Refusal::new(code, message).hint(hint).into()))
}

fn answer(shown: &str, before: &[u8], edited: &Edited, notes: &[&str]) -> Outcome {
    let Edited { content, replacements } = edited;
    let changes = diff::unified(shown, Some(before), content);
    let size = count(content.len() as u64, "byte");
    let mut text = format!("Edited {} ({}, {size}).", escaped(shown), count(*replacements, "replacement"));
    for note in notes {
        text.push('\n');
        text.push_str(note);
    }
    text.push('\n');
    text.push_str(&diff::bounded(&changes, DIFF_TEXT_CHARS));
    Outcome::ok(text)
        .detail("path", shown)
        .detail("replacements", *replacements)
        .detail("diff", changes)
        .detail("bytes", content.len())
        .detail("sha256", sha256(content))
        .detail("rejected_hunks", Vec::<Value>::new())
}
