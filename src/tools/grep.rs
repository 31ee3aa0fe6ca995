//! `grep`: lines that match a pattern. Asks: search on one folder or file. Reads regular files through the given descriptor,
//! follows no link, takes no option from a pattern, and its engine's time grows with pattern × text only.
//! Proof: `tools/tests.rs`.

use std::fs::File;
use std::io::{self, Read, Seek as _};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use globset::GlobMatcher;
use grep_regex::{RegexMatcher, RegexMatcherBuilder};
use grep_searcher::{BinaryDetection, Searcher, SearcherBuilder};
use ignore::types::{Types, TypesBuilder};
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::access::{Asks, RiskClass};
use crate::call::{Code, Outcome, Programs, Refusal, Truncated};
use crate::confine::Confined;
use crate::limits::{
    BINARY_PROBE_BYTES, GREP_CONTEXT_LINES, GREP_FILE_BYTES, GREP_LINE_CHARS, GREP_RESULT_CHARS, GREP_ROWS,
    GREP_ROWS_MAX, PATTERN_BYTES, REGEX_BYTES, SEARCH_TEXT_CHARS, SEARCH_TEXT_ROWS,
};
use crate::tools::args::{Arg, Kind, invalid};
use crate::tools::folder;
use crate::tools::glob::{check_pattern, matcher as glob_matcher};
use crate::tools::ignores::Rules;
use crate::tools::matches::{FileSink, Format, Mode, Rows};
use crate::tools::text::{clip, escaped};
use crate::tools::walk::{self, Deadline, Start};
use crate::tools::{Given, Need, Plan, Spec, Tool};

pub(super) struct Grep;

/// Arguments of `grep`.
#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Args {
    pattern: String,
    path: Option<String>,
    glob: Option<String>,
    r#type: Option<String>,
    output_mode: Option<String>,
    ignore_case: bool,
    fixed: bool,
    multiline: bool,
    before: Option<usize>,
    after: Option<usize>,
    context: Option<usize>,
    line_numbers: Option<bool>,
    include_hidden: bool,
    include_ignored: bool,
    limit: Option<usize>,
    offset: u64,
    max_line_chars: Option<usize>,
    max_result_chars: Option<usize>,
    max_filesize: Option<u64>,
    engine: Option<String>,
}

impl Args {
    /// What `search_text` asks: capitals do not matter, fewer rows and less text.
    pub(super) fn plain(pattern: String, fixed: bool) -> Args {
        Args {
            pattern,
            fixed,
            ignore_case: true,
            limit: Some(SEARCH_TEXT_ROWS),
            max_result_chars: Some(SEARCH_TEXT_CHARS),
            ..Args::default()
        }
    }
}

const CONTEXT: Kind = Kind::Int { min: 0, max: GREP_CONTEXT_LINES as i64 };
const LINE_CHARS: Kind = Kind::Int { min: GREP_LINE_CHARS[1] as i64, max: GREP_LINE_CHARS[2] as i64 };
const RESULT_CHARS: Kind = Kind::Int { min: GREP_RESULT_CHARS[1] as i64, max: GREP_RESULT_CHARS[0] as i64 };

impl Tool for Grep {
    type Args = Args;
    const SPEC: Spec = Spec {
        name: "grep",
        aliases: &["file.grep"],
        class: RiskClass::ReadOnlyLocal,
        asks: Asks::No,
        profile: "search",
        summary: "Searches file contents by a regular expression.",
        example: r#"{"pattern":"fn main","glob":"**/*.rs","context":2}"#,
        args: &[
            Arg::new("pattern", Kind::Text { min: 1, max_bytes: PATTERN_BYTES }, "Regular expression (Rust syntax).")
                .required(),
            Arg::new("path", Kind::Path, "Folder or file to search; the root when left out."),
            Arg::new(
                "glob",
                Kind::Text { min: 1, max_bytes: PATTERN_BYTES },
                "Only files with such a name; ! in front: not those.",
            )
            .aliases(&["include"]),
            Arg::new(
                "type",
                Kind::Text { min: 1, max_bytes: 64 },
                "Only files of this type, by ripgrep's name (rust, py, js).",
            ),
            Arg::new(
                "output_mode",
                Kind::OneOf(&["content", "files", "count"]),
                "Lines (default), files, or lines per file.",
            )
            .aliases(&["mode", "outputMode"]),
            Arg::new("ignore_case", Kind::Bool, "Capitals do not matter.").aliases(&["ignoreCase", "caseInsensitive"]),
            Arg::new("fixed", Kind::Bool, "The pattern is plain text."),
            Arg::new("multiline", Kind::Bool, "Matches may span lines, and . matches a line end."),
            Arg::new("before", CONTEXT, "Lines before a match."),
            Arg::new("after", CONTEXT, "Lines after a match."),
            Arg::new("context", CONTEXT, "Lines before and after a match.").aliases(&["contextLines", "context_lines"]),
            Arg::new("line_numbers", Kind::Bool, "Show line numbers; true by default.").aliases(&["lineNumbers"]),
            Arg::new("include_hidden", Kind::Bool, "Also names that start with a dot.").aliases(&["includeHidden"]),
            Arg::new("include_ignored", Kind::Bool, "Also what ignore files leave out.").aliases(&["includeIgnored"]),
            Arg::new("limit", Kind::Int { min: 1, max: GREP_ROWS_MAX as i64 }, "Rows at most; 100 when left out."),
            Arg::new("offset", Kind::Int { min: 0, max: i64::MAX }, "Rows to skip."),
            Arg::new("max_line_chars", LINE_CHARS, "Characters of a line that are shown; 500 when left out."),
            Arg::new("max_result_chars", RESULT_CHARS, "Characters of the whole answer; 100000 when left out."),
            Arg::new("max_filesize", Kind::Int { min: 1, max: GREP_FILE_BYTES as i64 }, "Larger files are skipped."),
            Arg::new(
                "engine",
                Kind::OneOf(&["linear", "backtracking"]),
                "linear (default), or backtracking for look-around.",
            ),
        ],
    };

    fn plan(args: &Args) -> Result<Plan, Refusal> {
        if let Some(glob) = &args.glob {
            check_pattern("glob", glob.strip_prefix('!').unwrap_or(glob))?;
        }
        Ok(Plan { paths: walk::paths(args.path.as_deref(), Need::Search), command: None })
    }

    fn run(_: &Confined, args: Args, mut given: Given, _: &mut dyn Programs) -> Outcome {
        run(&args, &mut given).unwrap_or_else(Outcome::from)
    }
}

/// Pattern text → matcher. The engine is linear in the text; its size is bounded.
fn regex(args: &Args) -> Result<RegexMatcher, Refusal> {
    if args.engine.as_deref() == Some("backtracking") {
        return Err(Refusal::new(Code::Unavailable, "The backtracking engine is not part of this version.")
            .hint("Use engine \"linear\" with a pattern without look-around and back-references."));
    }
    let mut builder = RegexMatcherBuilder::new();
    builder
        .multi_line(true)
        .dot_matches_new_line(args.multiline)
        .case_insensitive(args.ignore_case)
        .fixed_strings(args.fixed)
        .size_limit(REGEX_BYTES)
        .dfa_size_limit(REGEX_BYTES);
    if !args.multiline {
        builder.line_terminator(Some(b'\n'));
    }
    builder.build(&args.pattern).map_err(|error| bad_pattern(&error.to_string()))
}

fn bad_pattern(words: &str) -> Refusal {
    let hint = if words.contains("look-around") || words.contains("backreference") {
        "The linear engine has no look-around and no back-references; engine \"backtracking\" does, where it is available."
    } else if words.contains("size limit") {
        "Use smaller repetitions."
    } else if words.contains("not allowed") {
        "Use \"multiline\": true for a pattern with line ends."
    } else {
        "Mend the pattern, or use \"fixed\": true for plain text."
    };
    // The last line of the engine's message says what is wrong; those before repeat the pattern.
    let what = words.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or("it is not a regular expression");
    invalid(
        format!("`pattern` is not usable: {}.", escaped(clip(what.trim().trim_start_matches("error: "), 200))),
        hint,
    )
}

fn types(args: &Args) -> Result<Option<Types>, Refusal> {
    let Some(name) = &args.r#type else { return Ok(None) };
    let mut builder = TypesBuilder::new();
    builder.add_defaults().select(name);
    builder.build().map(Some).map_err(|_| {
        invalid(
            format!("`type` {} is not a file type.", super::args::shown(name)),
            "Use ripgrep's names: rust, py, js, md.",
        )
    })
}

/// Which files are wanted by name.
struct Names {
    glob: Option<(GlobMatcher, bool)>,
    types: Option<Types>,
}

impl Names {
    fn of(args: &Args) -> Result<Names, Refusal> {
        let glob = match &args.glob {
            None => None,
            Some(text) => {
                let (text, wanted) = text.strip_prefix('!').map_or((text.as_str(), true), |text| (text, false));
                Some((glob_matcher("glob", text)?, wanted))
            }
        };
        Ok(Names { glob, types: types(args)? })
    }

    fn want(&self, relative: &Path) -> bool {
        self.glob.as_ref().is_none_or(|(glob, wanted)| glob.is_match(relative) == *wanted)
            && self.types.as_ref().is_none_or(|types| types.matched(relative, false).is_whitelist())
    }
}

#[derive(Debug, Default)]
struct Skipped {
    binary: u64,
    large: u64,
}

/// A running search.
struct Search<'a> {
    start: &'a Start,
    matcher: RegexMatcher,
    searcher: Searcher,
    max_bytes: u64,
    deadline: Deadline,
    rows: Rows,
    skipped: Skipped,
}

/// Searches what was given.
pub(super) fn run(args: &Args, given: &mut Given) -> Result<Outcome, Refusal> {
    let deadline = Deadline::start();
    let matcher = regex(args)?;
    let names = Names::of(args)?;
    let rules = Rules::new(&given.options, args.include_hidden, args.include_ignored)?;
    let start = Start::take(given)?;
    let format = format(args);
    let mut search = Search {
        start: &start,
        matcher,
        searcher: searcher(args, format.mode),
        max_bytes: args.max_filesize.unwrap_or(GREP_FILE_BYTES),
        deadline,
        rows: Rows::new(format),
        skipped: Skipped::default(),
    };
    let shut = rules.shut_start(&start.prefix, start.is_dir);
    let complete = if shut.is_some() {
        true
    } else if start.is_dir {
        let mut files = Vec::new();
        let complete = walk::files(&start, &rules, deadline, &mut |_, _, relative| {
            if names.want(&relative) {
                files.push(relative);
            }
        });
        files.sort();
        search.files(&files) && complete
    } else {
        let name = start.prefix.file_name().map(PathBuf::from).unwrap_or_default();
        let file = start.fd.try_clone().map(File::from);
        if names.want(&name)
            && let Ok(file) = file
        {
            search.file(file, Path::new(""));
        }
        !deadline.is_over()
    };
    Ok(answer(args, search, complete, shut.as_deref()))
}

fn format(args: &Args) -> Format {
    let mode = match args.output_mode.as_deref() {
        Some("files") => Mode::Files,
        Some("count") => Mode::Count,
        _ => Mode::Content,
    };
    let result_chars = args.max_result_chars.unwrap_or(GREP_RESULT_CHARS[0]);
    Format {
        mode,
        line_numbers: args.line_numbers.unwrap_or(true),
        context: [args.before, args.after, args.context].iter().any(|n| n.is_some_and(|n| n > 0))
            && mode == Mode::Content,
        limit: args.limit.unwrap_or(GREP_ROWS),
        offset: args.offset,
        // The first row is always shown, so it must fit.
        line_chars: args.max_line_chars.unwrap_or(GREP_LINE_CHARS[0]).min(result_chars / 2),
        result_chars,
    }
}

fn searcher(args: &Args, mode: Mode) -> Searcher {
    let lines = |own: Option<usize>| if mode == Mode::Content { own.or(args.context).unwrap_or(0) } else { 0 };
    SearcherBuilder::new()
        .line_number(true)
        .multi_line(args.multiline)
        .before_context(lines(args.before))
        .after_context(lines(args.after))
        // Binary files were told apart before, by their start.
        .binary_detection(BinaryDetection::none())
        .build()
}

impl Search<'_> {
    /// Searches files in order. False when time ran out.
    fn files(&mut self, files: &[PathBuf]) -> bool {
        // Neighbours share their folder: it is opened once.
        let mut place: Option<(PathBuf, OwnedFd)> = None;
        for path in files {
            if self.deadline.is_over() {
                return false;
            }
            let parent = path.parent().unwrap_or(Path::new(""));
            if place.as_ref().is_none_or(|(open, _)| open != parent) {
                place = folder::open_dir_below(&self.start.fd, parent).ok().map(|fd| (parent.to_owned(), fd));
            }
            // Gone, masked or no file any more since it was listed: nothing to read.
            if let (Some((_, folder)), Some(name)) = (&place, path.file_name())
                && let Ok((file, _)) = folder::open_file(folder, name)
            {
                self.file(file, path);
            }
        }
        !self.deadline.is_over()
    }

    fn file(&mut self, mut file: File, relative: &Path) {
        let Ok(stat) = nix::sys::stat::fstat(&file) else { return };
        if folder::kind_of(&stat) != folder::Kind::File {
            return;
        }
        if folder::bytes_of(&stat) > self.max_bytes {
            self.skipped.large += 1;
            return;
        }
        let mut probe = Vec::with_capacity(BINARY_PROBE_BYTES);
        if (&file).take(BINARY_PROBE_BYTES as u64).read_to_end(&mut probe).is_err() || file.rewind().is_err() {
            return;
        }
        if probe.contains(&0) {
            self.skipped.binary += 1;
            return;
        }
        let path = walk::shown(self.start, relative);
        let reader = Timed { inner: file.take(self.max_bytes), deadline: self.deadline };
        let mut sink = FileSink::new(&mut self.rows, &path, self.deadline);
        // An error is a file that cannot be read any further, or time: what was found before it stands.
        let _ = self.searcher.search_reader(&self.matcher, reader, &mut sink);
        sink.finish();
    }
}

/// A reader that ends with an error when time is over.
struct Timed<R> {
    inner: R,
    deadline: Deadline,
}

impl<R: Read> Read for Timed<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.deadline.is_over() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        self.inner.read(buffer)
    }
}

fn answer(args: &Args, search: Search<'_>, complete: bool, shut: Option<&str>) -> Outcome {
    let Search { rows, skipped, .. } = search;
    let (total, returned) = (rows.total, rows.returned());
    let next = args.offset.saturating_add(returned);
    let left = total.saturating_sub(next);
    let mut truncated = None;
    let mut tail = String::new();
    if left > 0 || !complete {
        let (reason, hint) = if !complete {
            ("timeout", "The search stopped early: give a narrower path or glob.".to_owned())
        } else if rows.is_full {
            ("result_size", format!("Use offset={next} to go on, or a narrower pattern."))
        } else {
            ("limit", format!("Use offset={next} to go on, or a narrower pattern."))
        };
        tail = format!("[{returned} of {total} rows. {hint}]");
        truncated =
            Some(Truncated { omitted_results: Some(left), reason: reason.to_owned(), hint, ..Truncated::default() });
    }
    if rows.cut_bytes > 0 {
        let cut = truncated.get_or_insert_with(|| Truncated {
            reason: "line_length".to_owned(),
            hint: "Long lines are cut; use max_line_chars, or read_file.".to_owned(),
            ..Truncated::default()
        });
        cut.omitted_bytes = Some(rows.cut_bytes);
    }
    let list = rows.as_json();
    let mut text = rows.into_text();
    if total == 0 {
        text = shut.unwrap_or("No matches.").to_owned() + "\n";
    } else if returned == 0 {
        text = format!("Nothing left: offset {} is past the {total} rows.\n", args.offset);
    }
    text.push_str(&tail);
    let mut outcome = Outcome::ok(text.trim_end_matches('\n'))
        .detail("total", total)
        .detail("returned", returned)
        .detail("offset", args.offset)
        .detail("skipped", json!({ "binary": skipped.binary, "large": skipped.large }))
        .detail("rows", list);
    outcome.truncated = truncated;
    outcome
}
