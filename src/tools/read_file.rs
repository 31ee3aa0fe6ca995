//! `read_file`: numbered lines of one text file, or one picture. Asks: read on one path. Gets the file as a descriptor and
//! opens nothing. Never shows a byte of a binary. Proof: the tests below and `tools/tests.rs`.

use std::fs::File;

use base64::Engine as _;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::access::{Asks, RiskClass};
use crate::call::{Code, Outcome, Programs, Refusal, Truncated};
use crate::confine::Confined;
use crate::limits::{BINARY_PROBE_BYTES, IMAGE_BYTES, READ_CHARS, READ_FILE_BYTES, READ_LINE_CHARS, READ_LINES};
use crate::tools::args::{Arg, Kind, invalid};
use crate::tools::text::{clip_line, escaped, sha256};
use crate::tools::{Given, Need, Plan, Spec, Tool, folder};

pub(super) struct ReadFile;

/// Arguments of `read_file`.
#[derive(Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Args {
    path: String,
    offset: Option<u64>,
    limit: Option<u64>,
    end_line: Option<u64>,
    outline: Option<bool>,
}

impl Tool for ReadFile {
    type Args = Args;
    const SPEC: Spec = Spec {
        name: "read_file",
        aliases: &["read", "file.read"],
        class: RiskClass::ReadOnlyLocal,
        asks: Asks::No,
        profile: "read",
        summary: "Reads a text file as numbered lines, or a picture.",
        example: r#"{"path":"src/main.rs","offset":1,"limit":200}"#,
        args: &[
            Arg::new("path", Kind::Path, "File to read.").required().aliases(&["file_path", "filePath"]),
            Arg::new("offset", Kind::Int { min: 1, max: i64::MAX }, "First line, from 1.").aliases(&[
                "lineStart",
                "line_start",
                "start_line",
            ]),
            Arg::new("limit", Kind::Int { min: 1, max: READ_LINES as i64 }, "Lines at most; 2000 when left out."),
            Arg::new("end_line", Kind::Int { min: 1, max: i64::MAX }, "Last line, instead of limit.")
                .aliases(&["lineEnd", "line_end"]),
            Arg::new("outline", Kind::Bool, "An outline instead of the lines, where one can be made."),
        ],
    };

    fn plan(args: &Args) -> Result<Plan, Refusal> {
        if let Some(end) = args.end_line {
            if args.limit.is_some() {
                return Err(invalid("`limit` and `end_line` exclude each other.", "Give one of them."));
            }
            if end < args.offset.unwrap_or(1) {
                return Err(invalid("`end_line` is before `offset`.", "`end_line` must be at least `offset`."));
            }
        }
        Ok(Plan { paths: vec![(args.path.clone(), Need::ReadFile)], command: None })
    }

    fn run(_: &Confined, args: Args, given: Given, _: &mut dyn Programs) -> Outcome {
        read(&args, given).unwrap_or_else(Outcome::from)
    }
}

fn read(args: &Args, given: Given) -> Result<Outcome, Refusal> {
    let path = given.paths.into_iter().next().ok_or_else(|| unreadable("The file"))?;
    let name = escaped(&path.shown);
    let file = File::from(path.file.ok_or_else(|| unreadable(&name))?);
    let stat = nix::sys::stat::fstat(&file).map_err(|_| unreadable(&name))?;
    match folder::kind_of(&stat) {
        folder::Kind::File => {}
        folder::Kind::Dir => {
            return Err(
                Refusal::new(Code::NotRegular, format!("`{name}` is a folder.")).hint("Use ls to list it, or glob.")
            );
        }
        _ => {
            let what = folder::special_name(&stat);
            return Err(
                Refusal::new(Code::NotRegular, format!("`{name}` is {what}.")).hint("Only regular files are read.")
            );
        }
    }
    let too_large = || {
        Refusal::new(Code::TooLarge, format!("`{name}` is larger than {} MiB.", READ_FILE_BYTES >> 20))
            .hint("Search it with grep, or take a part of it with bash (head, sed, tail).")
    };
    if folder::bytes_of(&stat) > READ_FILE_BYTES {
        return Err(too_large());
    }
    // The size is a claim (a growing file, a file of the kernel): the read is bounded as well.
    let content = folder::read_bounded(&file, READ_FILE_BYTES).map_err(|_| unreadable(&name))?.ok_or_else(too_large)?;
    if let Some(mime) = image_type(&content) {
        return image(&path.shown, mime, &content);
    }
    if is_binary(&content) {
        return Err(binary(&name));
    }
    lines(args, &path.shown, &content)
}

fn unreadable(name: &str) -> Refusal {
    Refusal::new(Code::NotFound, format!("`{name}` cannot be read.")).hint("Check the path with ls or glob.")
}

/// A NUL in the first 8 KiB.
pub(super) fn is_binary(content: &[u8]) -> bool {
    content.iter().take(BINARY_PROBE_BYTES).any(|byte| *byte == 0)
}

pub(super) fn binary(name: &str) -> Refusal {
    Refusal::new(Code::NotRegular, format!("`{name}` is a binary file, not text."))
        .hint("Look at it with a program for its format, in bash.")
}

fn image_type(content: &[u8]) -> Option<&'static str> {
    match content {
        [0x89, b'P', b'N', b'G', b'\r', b'\n', 0x1a, b'\n', ..] => Some("image/png"),
        [0xff, 0xd8, 0xff, ..] => Some("image/jpeg"),
        [b'G', b'I', b'F', b'8', b'7' | b'9', b'a', ..] => Some("image/gif"),
        [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'E', b'B', b'P', ..] => Some("image/webp"),
        _ => None,
    }
}

fn image(shown: &str, mime: &str, content: &[u8]) -> Result<Outcome, Refusal> {
    let bytes = content.len() as u64;
    if bytes > IMAGE_BYTES {
        return Err(Refusal::new(
            Code::TooLarge,
            format!("The picture `{}` is larger than {} MiB.", escaped(shown), IMAGE_BYTES >> 20),
        )
        .hint("Make a smaller copy of it first."));
    }
    let data = base64::engine::general_purpose::STANDARD.encode(content);
    Ok(Outcome::ok(format!("{}: {mime}, {bytes} bytes.", escaped(shown)))
        .detail("path", shown)
        .detail("bytes", bytes)
        .detail("sha256", sha256(content))
        .detail("unchanged", false)
        .detail("image", json!({ "mime": mime, "bytes": bytes, "base64": data })))
}

/// What of the file is shown, and why not more.
struct Window {
    text: String,
    last: u64,
    cut_bytes: u64,
    full: bool,
}

fn window(all: &[&[u8]], first: u64, wanted: u64) -> Window {
    let mut out = Window { text: String::new(), last: first.saturating_sub(1), cut_bytes: 0, full: false };
    let mut chars = 0;
    let skip = usize::try_from(first.saturating_sub(1)).unwrap_or(usize::MAX);
    let take = usize::try_from(wanted).unwrap_or(usize::MAX);
    for line in all.iter().skip(skip).take(take) {
        let (line, cut) = clip_line(&String::from_utf8_lossy(line), READ_LINE_CHARS);
        let row = format!("{:>6}\t{line}\n", out.last + 1);
        chars += row.chars().count();
        if chars > READ_CHARS && !out.text.is_empty() {
            out.full = true;
            break;
        }
        out.text.push_str(&row);
        out.last += 1;
        out.cut_bytes += cut;
    }
    out
}

fn lines(args: &Args, shown: &str, content: &[u8]) -> Result<Outcome, Refusal> {
    let body = content.strip_prefix(b"\xef\xbb\xbf").unwrap_or(content);
    let mut all: Vec<&[u8]> = body.split(|byte| *byte == b'\n').collect();
    if all.last().is_some_and(|line| line.is_empty()) {
        all.pop();
    }
    let total = all.len() as u64;
    let first = args.offset.unwrap_or(1);
    if first > total.max(1) {
        return Err(invalid(
            format!("`offset` {first} is past the end: `{}` has {total} lines.", escaped(shown)),
            format!("Give an offset from 1 to {}.", total.max(1)),
        ));
    }
    let wanted = match (args.limit, args.end_line) {
        (Some(limit), _) => limit,
        (None, Some(end)) => (end - first.min(end) + 1).min(u64::from(READ_LINES)),
        (None, None) => u64::from(READ_LINES),
    };
    let part = window(&all, first, wanted);
    let mut text = part.text;
    let mut truncated = None;
    if total == 0 {
        text = format!("{} is empty.", escaped(shown));
    } else if part.last < total {
        let hint = format!("Use offset={} to continue reading.", part.last + 1);
        text.push_str(&format!("[Showing lines {first}-{} of {total}. {hint}]", part.last));
        let reason = if part.full { "result_size" } else { "limit" };
        truncated = Some(Truncated {
            omitted_lines: Some(total - part.last),
            reason: reason.to_owned(),
            hint,
            ..Truncated::default()
        });
    }
    if part.cut_bytes > 0 {
        let cut = truncated.get_or_insert_with(|| Truncated {
            reason: "line_length".to_owned(),
            hint: "Long lines are cut; use grep or bash (cut -c) to see the rest of one.".to_owned(),
            ..Truncated::default()
        });
        cut.omitted_bytes = Some(part.cut_bytes);
    }
    let encoding = if std::str::from_utf8(content).is_ok() { "utf-8" } else { "utf-8-lossy" };
    let mut outcome = Outcome::ok(text)
        .detail("path", shown)
        .detail("total_lines", total)
        .detail("first_line", if total == 0 { 0 } else { first })
        .detail("last_line", part.last)
        .detail("bytes", content.len())
        .detail("sha256", sha256(content))
        .detail("encoding", encoding)
        .detail("unchanged", false)
        .detail("outline", false)
        .detail("image", Value::Null);
    outcome.truncated = truncated;
    Ok(outcome)
}
