//! `edit_file`: one exact text of a file becomes another. Asks: write on one path that exists. Never guesses: no match and
//! several matches are errors. Proof: the tests below and `tools/tests.rs`.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::access::{Asks, RiskClass};
use crate::call::{Code, Outcome, Programs, Refusal, ToolOptions};
use crate::confine::Confined;
use crate::limits::{DIFF_TEXT_CHARS, READ_FILE_BYTES, WRITE_BYTES};
use crate::tools::args::{Arg, Kind, invalid};
use crate::tools::atomic::{Old, Place, stale};
use crate::tools::read_file::{binary, is_binary};
use crate::tools::replace::{Edited, Replaced, replace};
use crate::tools::text::{count, escaped, sha256};
use crate::tools::write_file::with_path;
use crate::tools::{Given, Need, Plan, Spec, Tool, diff};

pub(super) struct EditFile;

/// Arguments of `edit_file`.
#[derive(Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Args {
    path: String,
    old_string: String,
    new_string: String,
    #[serde(default)]
    replace_all: bool,
    expected_sha256: Option<String>,
}

impl Tool for EditFile {
    type Args = Args;
    const SPEC: Spec = Spec {
        name: "edit_file",
        aliases: &["edit", "file.replace"],
        class: RiskClass::WorkspaceWrite,
        asks: Asks::Yes,
        profile: "write",
        summary: "Replaces one exact text of a file.",
        example: r#"{"path":"src/main.rs","old_string":"let a = 1;","new_string":"let a = 2;"}"#,
        args: &[
            Arg::new("path", Kind::Path, "File to change.").required().aliases(&["file_path", "filePath"]),
            Arg::new(
                "old_string",
                Kind::Text { min: 1, max_bytes: WRITE_BYTES },
                "Exact text that is there now, without line numbers.",
            )
            .required()
            .aliases(&["oldString", "oldText", "old_text"]),
            Arg::new(
                "new_string",
                Kind::Text { min: 0, max_bytes: WRITE_BYTES },
                "Text in its place, taken literally.",
            )
            .required()
            .aliases(&["newString", "newText", "new_text"]),
            Arg::new("replace_all", Kind::Bool, "Replace every occurrence; else it must occur exactly once.")
                .aliases(&["replaceAll"]),
            Arg::new(
                "expected_sha256",
                Kind::Text { min: 64, max_bytes: 64 },
                "SHA-256 (hex) that the file must have now.",
            ),
        ],
    };

    fn plan(args: &Args) -> Result<Plan, Refusal> {
        if args.old_string == args.new_string {
            return Err(invalid("`old_string` and `new_string` are the same.", "Give the text as it is to become."));
        }
        Ok(Plan { paths: vec![(args.path.clone(), Need::WriteFile { must_exist: true })], command: None })
    }

    fn run(_: &Confined, args: Args, given: Given, _: &mut dyn Programs) -> Outcome {
        let Some(path) = given.paths.into_iter().next() else {
            return Refusal::new(Code::Unavailable, "The file was not opened.").into();
        };
        let shown = path.shown.clone();
        Place::take(path)
            .and_then(|place| edit(&args, &shown, &place, &given.options))
            .unwrap_or_else(|r| with_path(r, &shown))
    }
}

/// The file as it is now, when it is text and is what the caller saw.
fn current(args: &Args, shown: &str, place: &Place, options: &ToolOptions) -> Result<(Old, Vec<u8>), Refusal> {
    let name = escaped(shown);
    let mut old = place.old()?.ok_or_else(|| {
        Refusal::new(Code::NotFound, format!("`{name}` does not exist.")).hint("Use write_file to make a new file.")
    })?;
    let Some(content) = old.content.take() else {
        return Err(Refusal::new(Code::TooLarge, format!("`{name}` is larger than {} MiB.", READ_FILE_BYTES >> 20))
            .hint("Change it with a program, in bash."));
    };
    old.content = Some(content.clone());
    if is_binary(&content) {
        return Err(binary(&name));
    }
    if std::str::from_utf8(&content).is_err() {
        return Err(Refusal::new(Code::NotRegular, format!("`{name}` is not UTF-8 text."))
            .hint("Convert it first, or change it with a program, in bash."));
    }
    match (&args.expected_sha256, &options.known_sha256) {
        (Some(expected), _) if !expected.eq_ignore_ascii_case(&old.sha256) => Err(stale(shown)),
        (Some(_), _) => Ok((old, content)),
        (None, Some(known)) if *known != old.sha256 => Err(stale(shown)),
        (None, None) if options.tracked => {
            Err(Refusal::new(Code::Stale, format!("`{name}` was not read in this session."))
                .hint("Read it with read_file first."))
        }
        _ => Ok((old, content)),
    }
}

fn edit(args: &Args, shown: &str, place: &Place, options: &ToolOptions) -> Result<Outcome, Refusal> {
    let (old, before) = current(args, shown, place, options)?;
    let name = escaped(shown);
    let Edited { content, replacements } = match replace(&before, &args.old_string, &args.new_string, args.replace_all)
    {
        Replaced::Done(edited) => edited,
        Replaced::NoMatch => {
            return Err(Refusal::new(Code::NoMatch, format!("`old_string` does not occur in `{name}`."))
                .hint("It must match exactly, with all blanks and line ends and without line numbers."));
        }
        Replaced::Ambiguous(matches) => {
            let refusal = Refusal::new(Code::Ambiguous, format!("`old_string` occurs {matches} times in `{name}`."))
                .hint("Give more of the text around it, or \"replace_all\": true.");
            return Ok(Outcome::from(refusal).detail("matches", matches));
        }
        Replaced::TooLarge => {
            return Err(Refusal::new(
                Code::TooLarge,
                format!("`{name}` would become larger than {} MiB.", WRITE_BYTES >> 20),
            ));
        }
    };
    if content == before {
        return Err(invalid("The edit changes nothing.", "Give a `new_string` that differs."));
    }
    let notes = place.replace(&content, &old)?;
    let changes = diff::unified(shown, Some(&before), &content);
    let mut text =
        format!("Edited {name} ({}, {}).", count(replacements, "replacement"), count(content.len() as u64, "byte"));
    for note in notes {
        text.push('\n');
        text.push_str(note);
    }
    text.push('\n');
    text.push_str(&diff::bounded(&changes, DIFF_TEXT_CHARS));
    Ok(Outcome::ok(text)
        .detail("path", shown)
        .detail("replacements", replacements)
        .detail("diff", changes)
        .detail("bytes", content.len())
        .detail("sha256", sha256(&content))
        .detail("rejected_hunks", Vec::<Value>::new()))
}
