//! `multi_edit`: several replacements in one file, all or none. Asks: write on one path that exists. Never writes when one of
//! them fails. Proof: `tools/tests/writing.rs`.

use serde::{Deserialize, Serialize};

use crate::access::{Asks, RiskClass};
use crate::call::{Outcome, Programs, Refusal};
use crate::confine::Confined;
use crate::limits::{MULTI_EDITS, WRITE_BYTES};
use crate::tools::args::{Arg, Kind, invalid};
use crate::tools::change::{Step, change, step};
use crate::tools::replace::Edited;
use crate::tools::{Given, Need, Plan, Spec, Tool};

pub(super) struct MultiEdit;

/// Arguments of `multi_edit`.
#[derive(Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Args {
    path: String,
    edits: Vec<Edit>,
}

/// One of the edits.
#[derive(Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct Edit {
    old_string: String,
    new_string: String,
    #[serde(default)]
    replace_all: bool,
}

const FIELDS: &[Arg] = &[
    Arg::new(
        "old_string",
        Kind::Text { min: 1, max_bytes: WRITE_BYTES },
        "Exact text that is there after the edits before.",
    )
    .required()
    .aliases(&["oldString", "oldText", "old_text"]),
    Arg::new("new_string", Kind::Text { min: 0, max_bytes: WRITE_BYTES }, "Text in its place, taken literally.")
        .required()
        .aliases(&["newString", "newText", "new_text"]),
    Arg::new("replace_all", Kind::Bool, "Replace every occurrence; else it must occur exactly once.")
        .aliases(&["replaceAll"]),
];

impl Tool for MultiEdit {
    type Args = Args;
    const SPEC: Spec = Spec {
        name: "multi_edit",
        aliases: &["multiedit"],
        class: RiskClass::WorkspaceWrite,
        asks: Asks::Yes,
        profile: "write",
        summary: "Makes several exact replacements in one file, all or none.",
        example: r#"{"path":"src/main.rs","edits":[{"old_string":"alpha","new_string":"beta"}]}"#,
        args: &[
            Arg::new("path", Kind::Path, "File to change.").required().aliases(&["file_path", "filePath"]),
            Arg::new(
                "edits",
                Kind::Objects { min: 1, max: MULTI_EDITS, fields: FIELDS },
                "The edits; each sees the one before.",
            )
            .required(),
        ],
    };

    fn plan(args: &Args) -> Result<Plan, Refusal> {
        if let Some(n) = args.edits.iter().position(|edit| edit.old_string == edit.new_string) {
            let message = format!("Edit {}: `old_string` and `new_string` are the same.", n + 1);
            return Err(invalid(message, "Give the text as it is to become."));
        }
        Ok(Plan { paths: vec![(args.path.clone(), Need::WriteFile { must_exist: true })], command: None })
    }

    fn run(_: &Confined, args: Args, given: Given, _: &mut dyn Programs) -> Outcome {
        change(given, None, &|name, before| {
            let mut all = Edited { content: before.to_vec(), replacements: 0 };
            for (n, edit) in args.edits.iter().enumerate() {
                let one = Step { old: &edit.old_string, new: &edit.new_string, all: edit.replace_all };
                let edited = step(name, &format!("Edit {}: ", n + 1), &all.content, &one)?;
                all = Edited { content: edited.content, replacements: all.replacements + edited.replacements };
            }
            Ok(all)
        })
    }
}
