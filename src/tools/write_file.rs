//! `write_file`: a whole file, new or in place of an old one. Asks: write on one path. Never writes through a link that was
//! not resolved before, never half a file. Proof: `tools/tests.rs`, and `atomic` for what holds on disk.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::access::{Asks, RiskClass};
use crate::call::{Code, Outcome, Programs, Refusal, ToolOptions};
use crate::confine::Confined;
use crate::limits::{SHRINK_BYTES, WRITE_BYTES};
use crate::tools::args::{Arg, Kind, invalid};
use crate::tools::atomic::{Old, Place, stale};
use crate::tools::text::{count, escaped, sha256};
use crate::tools::{Given, Need, Plan, Spec, Tool, diff};

pub(super) struct WriteFile;

/// Arguments of `write_file`.
#[derive(Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Args {
    path: String,
    content: String,
    #[serde(default)]
    overwrite: bool,
    #[serde(default)]
    allow_shrink: bool,
}

impl Tool for WriteFile {
    type Args = Args;
    const SPEC: Spec = Spec {
        name: "write_file",
        aliases: &["write", "file.write"],
        class: RiskClass::WorkspaceWrite,
        asks: Asks::Yes,
        profile: "write",
        summary: "Writes a whole file; makes its folders.",
        example: r#"{"path":"notes/today.md","content":"first line\n"}"#,
        args: &[
            Arg::new("path", Kind::Path, "File to write.").required().aliases(&["file_path", "filePath"]),
            Arg::new("content", Kind::Text { min: 0, max_bytes: WRITE_BYTES }, "The whole new content.").required(),
            Arg::new("overwrite", Kind::Bool, "Needed to replace a file that is there."),
            Arg::new("allow_shrink", Kind::Bool, "The new content may be much shorter than the old one.")
                .aliases(&["allowShrink"]),
        ],
    };

    fn plan(args: &Args) -> Result<Plan, Refusal> {
        Ok(Plan { paths: vec![(args.path.clone(), Need::WriteFile { must_exist: false })], command: None })
    }

    fn run(_: &Confined, args: Args, given: Given, _: &mut dyn Programs) -> Outcome {
        let Some(path) = given.paths.into_iter().next() else {
            return Refusal::new(Code::Unavailable, "The place to write was not opened.").into();
        };
        let shown = path.shown.clone();
        let outcome = Place::take(path).and_then(|place| write(&args, &shown, &place, &given.options));
        outcome.unwrap_or_else(|refusal| with_path(refusal, &shown))
    }
}

/// A refusal as an outcome; `stale` says in details which file.
pub(super) fn with_path(refusal: Refusal, shown: &str) -> Outcome {
    let is_stale = refusal.code == Code::Stale;
    let outcome = Outcome::from(refusal);
    if is_stale { outcome.detail("path", shown) } else { outcome }
}

fn write(args: &Args, shown: &str, place: &Place, options: &ToolOptions) -> Result<Outcome, Refusal> {
    let new = args.content.as_bytes();
    let size = format!("({})", count(new.len() as u64, "byte"));
    let name = escaped(shown);
    let Some(old) = place.old()? else {
        place.create(new)?;
        return Ok(answer(format!("Created {name} {size}."), shown, new, None));
    };
    may_replace(args, &name, options)?;
    if old.content.as_deref() == Some(new) {
        return Ok(answer(format!("Unchanged {name}."), shown, new, Some(&old)));
    }
    if options.known_sha256.as_ref().is_some_and(|known| *known != old.sha256) {
        return Err(stale(shown));
    }
    let warning = shrink(args, &name, &old, options)?;
    let notes = place.replace(new, &old)?;
    let mut text = format!("Updated {name} {size}.");
    for note in notes.into_iter().map(str::to_owned).chain(warning) {
        text.push('\n');
        text.push_str(&note);
    }
    Ok(answer(text, shown, new, Some(&old)))
}

fn may_replace(args: &Args, name: &str, options: &ToolOptions) -> Result<(), Refusal> {
    let exists = |hint: &str| Err(Refusal::new(Code::Exists, format!("`{name}` is there already.")).hint(hint));
    match options.overwrite.as_str() {
        "always" => Ok(()),
        "never" => exists(
            "The policy lets write_file make new files only ([write] overwrite); use edit_file to change this one.",
        ),
        _ if args.overwrite => Ok(()),
        _ => exists("Use edit_file to change a part of it, or \"overwrite\": true to replace it."),
    }
}

/// A rewrite that loses half of a file is often a model that wrote an excerpt.
fn shrink(args: &Args, name: &str, old: &Old, options: &ToolOptions) -> Result<Option<String>, Refusal> {
    let (before, after) = (old.bytes(), args.content.len() as u64);
    let refuses = options.strict || options.shrink == "refuse";
    if args.allow_shrink || before < SHRINK_BYTES || after > before / 2 || (options.shrink == "off" && !refuses) {
        return Ok(None);
    }
    let what = format!("`{name}` would shrink from {before} to {after} bytes");
    if refuses {
        return Err(invalid(
            format!("{what}."),
            "Use edit_file for a part of it, or \"allow_shrink\": true if this is meant.",
        ));
    }
    Ok(Some(format!(
        "Warning: the file did shrink from {before} to {after} bytes. If that was not meant, write it again."
    )))
}

fn answer(text: String, shown: &str, new: &[u8], old: Option<&Old>) -> Outcome {
    // An old content beyond the limit is not compared.
    let changes = match old {
        Some(Old { content: None, .. }) => String::new(),
        Some(old) => diff::unified(shown, old.content.as_deref(), new),
        None => diff::unified(shown, None, new),
    };
    Outcome::ok(text)
        .detail("path", shown)
        .detail("created", old.is_none())
        .detail("bytes", new.len())
        .detail("previous_bytes", old.map_or(Value::Null, |old| Value::from(old.bytes())))
        .detail("sha256", sha256(new))
        .detail("diff", changes)
}
