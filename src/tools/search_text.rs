//! `search_text`: plain text in files, capitals do not matter. A narrower door to the search of `grep`.
//! Proof: `tools/tests/searching.rs`.

use serde::{Deserialize, Serialize};

use crate::access::{Asks, RiskClass};
use crate::call::{Outcome, Programs, Refusal};
use crate::confine::Confined;
use crate::limits::PATTERN_BYTES;
use crate::tools::args::{Arg, Kind};
use crate::tools::{Given, Need, Plan, Spec, Tool, grep, walk};

pub(super) struct SearchText;

/// Arguments of `search_text`.
#[derive(Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Args {
    query: String,
    #[serde(default)]
    regex: bool,
    path: Option<String>,
}

impl Tool for SearchText {
    type Args = Args;
    const SPEC: Spec = Spec {
        name: "search_text",
        aliases: &["file.search"],
        class: RiskClass::ReadOnlyLocal,
        asks: Asks::No,
        profile: "search",
        summary: "Searches file contents for plain text; capitals do not matter.",
        example: r#"{"query":"price list","path":"docs"}"#,
        args: &[
            Arg::new("query", Kind::Text { min: 1, max_bytes: PATTERN_BYTES }, "Text to find.").required(),
            Arg::new("regex", Kind::Bool, "The query is a regular expression."),
            Arg::new("path", Kind::Path, "Folder or file to search; the root when left out."),
        ],
    };

    fn plan(args: &Args) -> Result<Plan, Refusal> {
        Ok(Plan { paths: walk::paths(args.path.as_deref(), Need::Search), command: None })
    }

    fn run(_: &Confined, args: Args, mut given: Given, _: &mut dyn Programs) -> Outcome {
        let asked = grep::Args::plain(args.query, !args.regex);
        grep::run(&asked, &mut given).unwrap_or_else(|mut refusal| {
            refusal.message = refusal.message.replacen("`pattern`", "`query`", 1);
            Outcome::from(Refusal {
                hint: Some("Mend the query, or leave `regex` out for plain text.".to_owned()),
                ..refusal
            })
        })
    }
}
