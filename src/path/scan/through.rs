//! **What this room is for:** denied and protected paths that go through a link: with `config -> settings`, the pattern
//! `config/*.key` means `settings/a.key`, and that is where it must be covered.
//! **Who may enter:** `path::scan`. **Never done here:** a walk of more than the pattern asks for.
//! **Where the proof is:** `tests/path.rs`.

use super::walk::{join, link_target, names, open_folder};
use super::{Found, ScanError};
use crate::path::Root;
use crate::path::pattern::{Next, Rest};
use crate::path::resolve::{Facts, Kind};
use nix::dir::Type;
use std::collections::HashSet;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

/// A link whose name begins what some patterns say.
#[derive(Debug)]
pub(super) struct Through<'a> {
    pub(super) link: PathBuf,
    pub(super) rests: Vec<Rest<'a>>,
}

/// An expansion under way.
struct Expansion<'a, 'r> {
    root: &'r Root,
    link: &'r Through<'a>,
    /// Folders with what is left for them; each pair once, so that circles of links end.
    tasks: Vec<(OsString, Rest<'a>)>,
    seen: HashSet<(OsString, usize, usize)>,
    found: Vec<(Found, Facts)>,
}

/// Finds what the patterns mean behind the link. `budget` is what may still be read of names.
pub(super) fn expand(root: &Root, link: &Through<'_>, budget: &mut u64) -> Result<Vec<(Found, Facts)>, ScanError> {
    let mut expansion = Expansion { root, link, tasks: Vec::new(), seen: HashSet::new(), found: Vec::new() };
    if let Some((target, facts)) = link_target(root, link.link.as_os_str())
        && facts.kind == Kind::Dir
    {
        let target = if target == "." { OsString::new() } else { target };
        for rest in &link.rests {
            expansion.add(target.clone(), *rest);
        }
    }
    while let Some((folder, rest)) = expansion.tasks.pop() {
        match rest.next() {
            Next::Done => {}
            Next::Literal(name) => expansion.take(&folder, OsStr::from_bytes(name), rest.after()),
            Next::Dirs => {
                expansion.add(folder.clone(), rest.after());
                for (name, kind) in list(root, &folder, budget)? {
                    if matches!(kind, Some(Type::Directory)) {
                        expansion.add(join(&folder, &name), rest);
                    }
                }
            }
            Next::Names => {
                for (name, _) in list(root, &folder, budget)? {
                    if rest.takes(name.as_bytes()) {
                        expansion.take(&folder, &name, rest.after());
                    }
                }
            }
        }
    }
    Ok(expansion.found)
}

impl<'a> Expansion<'a, '_> {
    fn add(&mut self, folder: OsString, rest: Rest<'a>) {
        if self.seen.insert((folder.clone(), rest.pattern(), rest.done)) {
            self.tasks.push((folder, rest));
        }
    }

    /// One name that a part took; it may be a link again.
    fn take(&mut self, folder: &OsStr, name: &OsStr, rest: Rest<'a>) {
        let Some((target, facts)) = link_target(self.root, &join(folder, name)) else { return };
        let is_dir = facts.kind == Kind::Dir;
        if !matches!(rest.next(), Next::Done) {
            if is_dir {
                self.add(if target == "." { OsString::new() } else { target }, rest);
            }
            return;
        }
        // As for a denied link: one that shows a folder around itself would hide everything.
        let hides_all = target == "." || self.link.link.starts_with(&target);
        if hides_all || (rest.folders_only() && !is_dir) {
            return;
        }
        let found = Found {
            rel: PathBuf::from(target),
            is_dir,
            is_link: false,
            dev: facts.dev,
            ino: facts.ino,
            pattern: rest.pattern(),
            alias_of: Some(self.link.link.clone()),
        };
        self.found.push((found, facts));
    }
}

/// The names of a folder; none when it cannot be read.
fn list(root: &Root, folder: &OsStr, budget: &mut u64) -> Result<Vec<(OsString, Option<Type>)>, ScanError> {
    let Ok((mut dir, _)) = open_folder(root, folder) else { return Ok(Vec::new()) };
    let mut list = Vec::new();
    names(&mut dir, |entry, name| {
        *budget = budget.checked_sub(1).ok_or(ScanError::TooMany { max: u64::MAX })?;
        list.push((OsStr::from_bytes(name).to_owned(), entry.file_type()));
        Ok(())
    })?;
    Ok(list)
}
