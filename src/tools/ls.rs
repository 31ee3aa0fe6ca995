//! `ls`: the entries of one folder, deeper when asked. Asks: list on one folder. Never reads content (but ignore files, when
//! they are to count), never follows a link, never names what the policy hides. Proof: `tools/tests.rs`.

use std::ffi::OsStr;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::rc::Rc;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::access::{Asks, RiskClass};
use crate::call::{Code, Outcome, Programs, Refusal, Truncated};
use crate::confine::Confined;
use crate::limits::{LS_ENTRIES, LS_SCAN_ENTRIES};
use crate::tools::args::{self, Arg};
use crate::tools::folder::{self, Item, Kind};
use crate::tools::ignores::{Hidden, Level, Rules};
use crate::tools::text::{escaped, size};
use crate::tools::walk::{self, Start};
use crate::tools::{Given, Need, Plan, Spec, Tool};

pub(super) struct Ls;

/// Arguments of `ls`.
#[derive(Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Args {
    path: Option<String>,
    depth: Option<usize>,
    include_ignored: Option<bool>,
}

impl Tool for Ls {
    type Args = Args;
    const SPEC: Spec = Spec {
        name: "ls",
        aliases: &["list_dir"],
        class: RiskClass::ReadOnlyLocal,
        asks: Asks::No,
        profile: "search",
        summary: "Lists a folder: folders first, files with their size.",
        example: r#"{"path":"src","depth":2}"#,
        args: &[
            Arg::new("path", args::Kind::Path, "Folder to list; the root when left out.").aliases(&["dir"]),
            Arg::new("depth", args::Kind::Int { min: 1, max: 6 }, "Levels to list; 1 when left out."),
            Arg::new(
                "include_ignored",
                args::Kind::Bool,
                "false leaves out what ignore files leave out; true by default.",
            )
            .aliases(&["includeIgnored"]),
        ],
    };

    fn plan(args: &Args) -> Result<Plan, Refusal> {
        let path = args.path.as_deref();
        let mut paths = walk::paths(path, Need::ListDir);
        if args.include_ignored != Some(false) {
            paths.truncate(1);
        }
        Ok(Plan { paths, command: None })
    }

    fn run(_: &Confined, args: Args, mut given: Given, _: &mut dyn Programs) -> Outcome {
        run(&args, &mut given).unwrap_or_else(Outcome::from)
    }
}

struct Row {
    name: String,
    kind: Kind,
    bytes: Option<u64>,
}

/// A listing while it is made.
struct Listing<'a> {
    start: &'a Start,
    hidden: Hidden,
    rules: Option<Rules>,
    depth: usize,
    rows: Vec<Row>,
    total: u64,
    budget: usize,
    complete: bool,
}

fn run(args: &Args, given: &mut Given) -> Result<Outcome, Refusal> {
    let hidden = Hidden::new(&given.options.hidden)?;
    // Ignore files alone: what starts with a dot is listed either way.
    let rules = if args.include_ignored == Some(false) { Some(Rules::new(&given.options, true, false)?) } else { None };
    let start = Start::take(given)?;
    if !start.is_dir {
        return Err(Refusal::new(
            Code::NotRegular,
            format!("`{}` is not a folder.", escaped(&walk::shown(&start, Path::new("")))),
        )
        .hint("Use read_file for a file."));
    }
    let above = rules.as_ref().and_then(|rules| walk::levels_above(&start, rules));
    let mut listing = Listing {
        start: &start,
        hidden,
        rules,
        depth: args.depth.unwrap_or(1),
        rows: Vec::new(),
        total: 0,
        budget: LS_SCAN_ENTRIES,
        complete: true,
    };
    listing.add(&start.fd, Path::new(""), above, 1).map_err(|_| {
        Refusal::new(Code::NotFound, "The folder cannot be listed.").hint("Check the path with ls of the folder above.")
    })?;
    Ok(answer(listing))
}

impl Listing<'_> {
    /// Adds one folder and, down to the depth asked for, those below it. `place` is relative to the start.
    fn add(
        &mut self,
        fd: &OwnedFd,
        place: &Path,
        above: Option<Rc<Level>>,
        level: usize,
    ) -> Result<(), nix::errno::Errno> {
        let base = self.start.prefix.join(place);
        let ignores = self.rules.as_ref().map(|rules| Level::read(above, &base, fd, rules));
        let (mut items, more) = folder::list(fd, self.budget)?;
        self.budget = self.budget.saturating_sub(items.len());
        self.complete &= !more;
        items.retain(|item| {
            let path = base.join(&item.name);
            let is_dir = item.kind == Kind::Dir;
            !self.hidden.hides(&path, is_dir) && !ignores.as_ref().is_some_and(|ignores| ignores.ignores(&path, is_dir))
        });
        items.sort_by(|a, b| (a.kind != Kind::Dir).cmp(&(b.kind != Kind::Dir)).then_with(|| a.name.cmp(&b.name)));
        for item in items {
            let path = place.join(&item.name);
            self.row(fd, &path, &item);
            if item.kind == Kind::Dir
                && level < self.depth
                && let Ok(below) = folder::open_dir(fd, &item.name)
            {
                // A folder that cannot be read is listed without its content.
                let _ = self.add(&below, &path, ignores.clone(), level + 1);
            }
        }
        Ok(())
    }

    fn row(&mut self, fd: &OwnedFd, path: &Path, item: &Item) {
        self.total += 1;
        if self.rows.len() >= LS_ENTRIES {
            return;
        }
        let bytes = if item.kind == Kind::File { size_of(fd, &item.name) } else { None };
        self.rows.push(Row { name: path.to_string_lossy().into_owned(), kind: item.kind, bytes });
    }
}

fn size_of(fd: &OwnedFd, name: &OsStr) -> Option<u64> {
    folder::stat_in(fd, name).ok().map(|stat| folder::bytes_of(&stat))
}

fn answer(listing: Listing<'_>) -> Outcome {
    let path = walk::shown(listing.start, Path::new(""));
    let path = if path.is_empty() { ".".to_owned() } else { path };
    let mut text = String::new();
    for row in &listing.rows {
        let name = escaped(&row.name);
        match (row.kind, row.bytes) {
            (Kind::Dir, _) => text.push_str(&format!("{name}/\n")),
            (Kind::Link, _) => text.push_str(&format!("{name}@\n")),
            (Kind::File, Some(bytes)) => text.push_str(&format!("{name}  {}\n", size(bytes))),
            (Kind::File, None) => text.push_str(&format!("{name}\n")),
            (Kind::Other, _) => text.push_str(&format!("{name}  (not a regular file)\n")),
        }
    }
    if listing.rows.is_empty() {
        text = "The folder is empty.".to_owned();
    }
    let returned = listing.rows.len() as u64;
    let left = listing.total - returned;
    let rows: Vec<Value> = listing
        .rows
        .iter()
        .map(|row| json!({ "name": row.name, "kind": row.kind.name(), "bytes": row.bytes }))
        .collect();
    let mut truncated = None;
    if left > 0 || !listing.complete {
        let hint = "List a folder below, or use glob with a pattern.".to_owned();
        let more = if listing.complete { "" } else { " or more" };
        text.push_str(&format!("[{returned} of {}{more} entries. {hint}]", listing.total));
        truncated =
            Some(Truncated { omitted_results: Some(left), reason: "limit".to_owned(), hint, ..Truncated::default() });
    }
    let mut outcome = Outcome::ok(text.trim_end())
        .detail("path", path)
        .detail("total", listing.total)
        .detail("returned", returned)
        .detail("rows", rows);
    outcome.truncated = truncated;
    outcome
}
