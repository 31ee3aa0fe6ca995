//! `glob`: files by name, newest first. Asks: search on one folder. Never reads content, never follows a link.
//! Behind the door it sees descriptors alone. Proof: `tools/tests.rs`.

use std::ffi::OsStr;
use std::os::fd::OwnedFd;
use std::path::PathBuf;

use globset::{GlobBuilder, GlobMatcher};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::access::{Asks, RiskClass};
use crate::call::{Code, Outcome, Programs, Refusal, Truncated};
use crate::confine::Confined;
use crate::limits::{GLOB_ROWS, GLOB_ROWS_MAX, PATTERN_BYTES};
use crate::tools::args::{Arg, Kind, invalid};
use crate::tools::ignores::Rules;
use crate::tools::text::escaped;
use crate::tools::walk::{self, Deadline, Start};
use crate::tools::{Given, Need, Plan, Spec, Tool, folder};

pub(super) struct Glob;

/// Arguments of `glob`.
#[derive(Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Args {
    pattern: String,
    path: Option<String>,
    limit: Option<usize>,
    #[serde(default)]
    offset: usize,
    sort: Option<String>,
    #[serde(default)]
    include_hidden: bool,
    #[serde(default)]
    include_ignored: bool,
}

const MAX: i64 = GLOB_ROWS_MAX as i64;

impl Tool for Glob {
    type Args = Args;
    const SPEC: Spec = Spec {
        name: "glob",
        aliases: &["file.glob"],
        class: RiskClass::ReadOnlyLocal,
        asks: Asks::No,
        profile: "search",
        summary: "Finds files by a name pattern, newest first.",
        example: r#"{"pattern":"**/*.rs","path":"src"}"#,
        args: &[
            Arg::new(
                "pattern",
                Kind::Text { min: 1, max_bytes: PATTERN_BYTES },
                "Name pattern with * ? [..] {a,b} and **, relative to path; without a slash it holds at any depth.",
            )
            .required(),
            Arg::new("path", Kind::Path, "Folder to search; the root when left out."),
            Arg::new("limit", Kind::Int { min: 1, max: MAX }, "Rows at most; 200 when left out."),
            Arg::new("offset", Kind::Int { min: 0, max: i64::MAX }, "Rows to skip after sorting."),
            Arg::new(
                "sort",
                Kind::OneOf(&["modified", "path"]),
                "Order: modified (newest first, the default) or path.",
            ),
            Arg::new("include_hidden", Kind::Bool, "Also names that start with a dot.").aliases(&["includeHidden"]),
            Arg::new("include_ignored", Kind::Bool, "Also what ignore files leave out.").aliases(&["includeIgnored"]),
        ],
    };

    fn plan(args: &Args) -> Result<Plan, Refusal> {
        check_pattern("pattern", &args.pattern)?;
        Ok(Plan { paths: walk::paths(args.path.as_deref(), Need::Search), command: None })
    }

    fn run(_: &Confined, args: Args, mut given: Given, _: &mut dyn Programs) -> Outcome {
        run(&args, &mut given).unwrap_or_else(Outcome::from)
    }
}

/// Refuses what climbs out or starts at the top of the system.
pub(super) fn check_pattern(name: &str, pattern: &str) -> Result<(), Refusal> {
    if pattern.starts_with('/') {
        return Err(invalid(format!("`{name}` starts with a slash."), "Give a pattern relative to `path`."));
    }
    if pattern.split('/').any(|part| part == "..") {
        return Err(invalid(
            format!("`{name}` climbs out with `..`."),
            "Give a pattern without `..`; name the folder in `path`.",
        ));
    }
    Ok(())
}

/// The matcher of a pattern over paths relative to the start of a search.
pub(super) fn matcher(name: &str, pattern: &str) -> Result<GlobMatcher, Refusal> {
    let mut text = pattern;
    while let Some(rest) = text.strip_prefix("./") {
        text = rest;
    }
    let text = if text.contains('/') { text.to_owned() } else { format!("**/{text}") };
    GlobBuilder::new(&text)
        .literal_separator(true)
        .build()
        .map(|glob| glob.compile_matcher())
        .map_err(|error| invalid(format!("`{name}` is not a pattern: {}.", error.kind()), "Use * ? [..] {a,b} and **."))
}

struct Row {
    path: String,
    mtime_ns: i64,
}

fn run(args: &Args, given: &mut Given) -> Result<Outcome, Refusal> {
    let matcher = matcher("pattern", &args.pattern)?;
    let rules = Rules::new(&given.options, args.include_hidden, args.include_ignored)?;
    let start = Start::take(given)?;
    if !start.is_dir {
        return Err(Refusal::new(Code::NotRegular, "The path of a glob must be a folder; this is a file.")
            .hint("Give the folder, or use read_file."));
    }
    let mut rows = Vec::new();
    let shut = rules.shut_start(&start.prefix, true);
    let complete = shut.is_some()
        || walk::files(&start, &rules, Deadline::start(), &mut |folder: &OwnedFd, name: &OsStr, relative: PathBuf| {
            if matcher.is_match(&relative)
                && let Ok(stat) = folder::stat_in(folder, name)
                && folder::kind_of(&stat) == folder::Kind::File
            {
                rows.push(Row { path: walk::shown(&start, &relative), mtime_ns: folder::mtime_ns(&stat) });
            }
        });
    if args.sort.as_deref() == Some("path") {
        rows.sort_by(|a, b| a.path.cmp(&b.path));
    } else {
        rows.sort_by(|a, b| b.mtime_ns.cmp(&a.mtime_ns).then_with(|| a.path.cmp(&b.path)));
    }
    Ok(answer(args, &rows, complete, shut.as_deref()))
}

fn answer(args: &Args, rows: &[Row], complete: bool, shut: Option<&str>) -> Outcome {
    let total = rows.len();
    let part: Vec<&Row> = rows.iter().skip(args.offset).take(args.limit.unwrap_or(GLOB_ROWS)).collect();
    let mut text = part.iter().map(|row| escaped(&row.path)).collect::<Vec<_>>().join("\n");
    if total == 0 {
        text = shut.unwrap_or("No files match.").to_owned();
    } else if part.is_empty() {
        text = format!("Nothing left: offset {} is past the {total} files that match.", args.offset);
    }
    let next = args.offset.saturating_add(part.len());
    let left = total.saturating_sub(next);
    let mut truncated = None;
    if left > 0 {
        let hint = format!("Use offset={next} for the next ones, or a narrower pattern.");
        text.push_str(&format!("\n[{} of {total} files. {hint}]", part.len()));
        truncated = Some(Truncated {
            omitted_results: Some(left as u64),
            reason: "limit".to_owned(),
            hint,
            ..Truncated::default()
        });
    }
    if !complete {
        let hint = "The search stopped early: give a narrower path.".to_owned();
        text.push_str(&format!("\n[{hint}]"));
        truncated.get_or_insert_with(Truncated::default).reason = "timeout".to_owned();
        if let Some(cut) = &mut truncated {
            cut.omitted_results = Some(left as u64);
            cut.hint = hint;
        }
    }
    let list: Vec<Value> =
        part.iter().map(|row| json!({ "path": row.path, "mtime_ms": row.mtime_ns.div_euclid(1_000_000) })).collect();
    let mut outcome = Outcome::ok(text)
        .detail("total", total)
        .detail("returned", list.len())
        .detail("offset", args.offset)
        .detail("rows", list);
    outcome.truncated = truncated;
    outcome
}
