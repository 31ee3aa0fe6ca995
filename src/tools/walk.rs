//! **What this room is for:** walking the files below a given folder for `glob` and `grep`. **Who may enter:** those two.
//! **Never done here:** following links, opening by an outside name, threads. **Where the proof is:** the tests below.
//!
//! Why not the walker of the crate `ignore`: it opens by path, and opens ignore files as it finds them (a pipe of that
//! name would hang it). Its pattern grammar is used, through `ignores`.

use std::ffi::OsStr;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::{Duration, Instant};

use crate::call::{Code, Refusal};
use crate::limits::{SEARCH_MS, WALK_DEPTH, WALK_ENTRIES};
use crate::tools::folder::{self, Kind};
use crate::tools::ignores::{Level, Rules};
use crate::tools::{Given, GivenPath, Need};

/// Where a search starts.
#[derive(Debug)]
pub(super) struct Start {
    /// The folder (or file) to search.
    pub(super) fd: OwnedFd,
    /// Root-relative path of it; empty is the root.
    pub(super) prefix: PathBuf,
    /// The root, for the ignore files between it and the start; `None` when the start is the root.
    root: Option<OwnedFd>,
    /// It is a folder.
    pub(super) is_dir: bool,
}

impl Start {
    /// What a plan of [`paths`] gave. `None` for a path without a descriptor is a fault of the caller, told as such.
    pub(super) fn take(given: &mut Given) -> Result<Start, Refusal> {
        let mut paths = std::mem::take(&mut given.paths).into_iter();
        let missing = || Refusal::new(Code::Unavailable, "The place to search was not opened.");
        let first: GivenPath = paths.next().ok_or_else(missing)?;
        let fd = first.file.ok_or_else(missing)?;
        let stat = nix::sys::stat::fstat(&fd).map_err(|_| missing())?;
        let is_dir = folder::kind_of(&stat) == Kind::Dir;
        let prefix = if first.shown == "." { PathBuf::new() } else { PathBuf::from(&first.shown) };
        Ok(Start { fd, prefix, root: paths.next().and_then(|path| path.file), is_dir })
    }
}

/// The paths of a search: the place itself, and the root (for ignore files above the place).
pub(super) fn paths(path: Option<&str>, need: Need) -> Vec<(String, Need)> {
    let path = path.unwrap_or(".");
    let mut paths = vec![(path.to_owned(), need)];
    if path != "." {
        paths.push((".".to_owned(), Need::Search));
    }
    paths
}

/// How long a search may take, and whether that time is over.
#[derive(Debug, Clone, Copy)]
pub(super) struct Deadline(Instant);

impl Deadline {
    pub(super) fn start() -> Deadline {
        Deadline(Instant::now() + Duration::from_millis(SEARCH_MS))
    }
    pub(super) fn is_over(self) -> bool {
        Instant::now() >= self.0
    }
}

/// Calls `visit` for every regular file that the rules leave: its folder, its name, its path relative to the start.
/// False when the walk stopped early (time, or a tree beyond the limits).
pub(super) fn files(
    start: &Start,
    rules: &Rules,
    deadline: Deadline,
    visit: &mut dyn FnMut(&OwnedFd, &OsStr, PathBuf),
) -> bool {
    let mut budget = WALK_ENTRIES;
    let mut complete = true;
    let above = if rules.include_ignored { None } else { levels_above(start, rules) };
    let mut waiting: Vec<(PathBuf, Option<Rc<Level>>)> = vec![(PathBuf::new(), above)];
    while let Some((place, above)) = waiting.pop() {
        if deadline.is_over() || budget == 0 {
            return false;
        }
        // Gone, replaced by a link, or masked since it was listed: nothing to see there.
        let Ok(folder) = folder::open_dir_below(&start.fd, &place) else { continue };
        let base = start.prefix.join(&place);
        let level = (!rules.include_ignored).then(|| Level::read(above, &base, &folder, rules));
        let Ok((items, more)) = folder::list(&folder, budget) else { continue };
        complete &= !more;
        budget = budget.saturating_sub(items.len().max(1));
        for item in items {
            let is_dir = item.kind == Kind::Dir;
            let path = base.join(&item.name);
            if !(is_dir || item.kind == Kind::File)
                || rules.never(&path, &item.name, is_dir)
                || level.as_ref().is_some_and(|level| level.ignores(&path, is_dir))
            {
                continue;
            }
            let relative = place.join(&item.name);
            if !is_dir {
                visit(&folder, &item.name, relative);
            } else if relative.components().count() > WALK_DEPTH {
                complete = false;
            } else {
                waiting.push((relative, level.clone()));
            }
        }
    }
    complete
}

/// Ignore files of the root and of the folders between it and the start (the start's own are read by the walk).
pub(super) fn levels_above(start: &Start, rules: &Rules) -> Option<Rc<Level>> {
    let mut folder = folder::open_dir_below(start.root.as_ref()?, Path::new("")).ok()?;
    let mut base = PathBuf::new();
    let mut level = None;
    for part in start.prefix.components() {
        level = Some(Level::read(level, &base, &folder, rules));
        base.push(part);
        match folder::open_dir(&folder, part.as_os_str()) {
            Ok(next) => folder = next,
            Err(_) => break,
        }
    }
    level
}

/// A root-relative path for rows.
pub(super) fn shown(start: &Start, relative: &Path) -> String {
    let path = if relative.as_os_str().is_empty() { start.prefix.clone() } else { start.prefix.join(relative) };
    path.to_string_lossy().into_owned()
}
