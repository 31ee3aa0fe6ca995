//! `edit_file`: one exact text of a file becomes another. Asks: write on one path that exists. Never guesses: no match and
//! several matches are errors. Proof: `tools/tests/writing.rs`, and `replace` for the rule of line ends.

use serde::{Deserialize, Serialize};

use crate::access::{Asks, RiskClass};
use crate::call::{Outcome, Programs, Refusal};
use crate::confine::Confined;
use crate::limits::WRITE_BYTES;
use crate::tools::args::{Arg, Kind, invalid};
use crate::tools::change::{Step, change, step};
use crate::tools::{Given, Need, Plan, Spec, Tool};

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
        change(given, args.expected_sha256.as_deref(), &|name, before| {
            step(name, "", before, &Step { old: &args.old_string, new: &args.new_string, all: args.replace_all })
        })
    }
}
