//! **What this room is for:** which names programs may not make, move or open. **Who may enter:** `worker::guard`.
//! **Never done here:** asking the policy; following a link. **Where the proof is:** the tests below, `tests/guard.rs`.

use std::collections::HashSet;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::calls::Wish;
use super::place::{Found, Place};
use crate::confinement::GuardPlan;
use crate::path::{Bases, PatternError, PatternSet};

/// Entries of a moved folder that are looked at; a folder with more is not moved to a name that a pattern begins with.
const MOVED_ENTRIES: usize = 2000;

/// The names that programs may not make, ready to be asked. Made once a session, in the launcher: its memory is shared by all
/// workers.
#[derive(Debug)]
pub struct Rules {
    root: PathBuf,
    trees: Vec<PathBuf>,
    deny: Sets,
    protect: Sets,
    lifted: HashSet<PathBuf>,
    pinned: HashSet<PathBuf>,
    pinned_ids: HashSet<(u64, u64)>,
}

/// A list, and those of it that mean a name at any depth: they hold in further trees too.
#[derive(Debug)]
struct Sets {
    all: PatternSet,
    anywhere: PatternSet,
}

impl Sets {
    fn new(patterns: &[String], bases: Bases<'_>) -> Result<Sets, PatternError> {
        let anywhere: Vec<&String> = patterns.iter().filter(|text| text.starts_with("**/")).collect();
        Ok(Sets { all: PatternSet::with_bases(patterns, bases)?, anywhere: PatternSet::new(&anywhere)? })
    }

    fn inside(&self, rel: &Path, folder: bool) -> Option<&str> {
        self.all.text(self.all.matched_os(rel, folder)?)
    }

    fn outside(&self, path: &Path, folder: bool) -> Option<&str> {
        let below = path.strip_prefix("/").unwrap_or(path);
        let named = self.anywhere.matched_os(below, folder).and_then(|at| self.anywhere.text(at));
        named.or_else(|| self.all.matched_absolute_os(path, folder).and_then(|at| self.all.text(at)))
    }
}

impl Rules {
    /// # Errors
    /// A pattern that is not understood; the supervisor has read all of them before.
    pub fn new(root: &Path, plan: &GuardPlan) -> Result<Rules, PatternError> {
        let bases = Bases { home: Some(&plan.home), root: Some(root) };
        let id = |path: &PathBuf| std::fs::symlink_metadata(path).ok().map(|found| (found.dev(), found.ino()));
        Ok(Rules {
            root: root.to_path_buf(),
            trees: plan.trees.clone(),
            deny: Sets::new(&plan.deny, bases)?,
            protect: Sets::new(&plan.protect, bases)?,
            lifted: plan.lifted.iter().map(PathBuf::from).collect(),
            pinned: plan.pinned.iter().cloned().collect(),
            pinned_ids: plan.pinned.iter().filter_map(id).collect(),
        })
    }

    /// The pattern that forbids this.
    pub(super) fn forbids(&self, place: &Place, wish: Wish) -> Option<String> {
        // A link may stand for a folder.
        let folder = match wish {
            Wish::Folder | Wish::Link => true,
            _ => matches!(place.found, Found::Folder | Found::Link),
        };
        self.forbids_path(&place.path, folder, wish).map(str::to_owned)
    }

    fn forbids_path(&self, path: &Path, folder: bool, wish: Wish) -> Option<&str> {
        let changes = !matches!(wish, Wish::Open { write: false, create: false, .. });
        let protect = |rule: Option<&'_ str>| rule.is_some_and(|rule| changes && !self.is_new_git(path, rule));
        if let Ok(rel) = path.strip_prefix(&self.root) {
            if let Some(rule) = self.deny.inside(rel, folder) {
                return Some(rule);
            }
            if self.is_lifted(rel, wish) {
                return None;
            }
            let leads = || if wish == Wish::Link { self.leads_to_protected(rel) } else { None };
            return self.protect.inside(rel, folder).or_else(leads).filter(|rule| protect(Some(rule)));
        }
        if !self.trees.iter().any(|tree| path.starts_with(tree)) {
            return None;
        }
        self.deny
            .outside(path, folder)
            .or_else(|| self.protect.outside(path, folder).filter(|rule| protect(Some(rule))))
    }

    fn leads_to_protected(&self, rel: &Path) -> Option<&str> {
        self.protect.all.continues(rel).and_then(|at| self.protect.all.text(at))
    }

    fn is_lifted(&self, rel: &Path, wish: Wish) -> bool {
        self.lifted.contains(rel) || (wish == Wish::Folder && self.lifted.iter().any(|path| path.starts_with(rel)))
    }

    /// The path is in a folder `.git` that is new, and the rule is one about such folders: git itself makes these names.
    fn is_new_git(&self, path: &Path, rule: &str) -> bool {
        rule.contains(".git/") && outermost_git(path).is_some_and(|git| !self.is_pinned(&git))
    }

    /// By its name, and by what it is when it or a folder above was moved.
    fn is_pinned(&self, git: &Path) -> bool {
        self.pinned.contains(git)
            || std::fs::symlink_metadata(git).is_ok_and(|found| self.pinned_ids.contains(&(found.dev(), found.ino())))
    }

    /// The rule against moving `old` to `new` for what the two are together: a repository of the host stays where it is,
    /// since who moves it moves its hooks; and a folder may hold names that only its new name makes protected.
    pub(super) fn forbids_move(&self, old: &Place, new: &Place) -> Option<String> {
        if old.path.file_name().is_some_and(|name| name == ".git") && self.is_pinned(&old.path) {
            return Some("**/.git/hooks/**".to_owned());
        }
        if !matches!(old.found, Found::Folder | Found::Link) {
            return None;
        }
        if let Some(rule) = self.forbids_path(&new.path, true, Wish::New) {
            return Some(rule.to_owned());
        }
        let rel = new.path.strip_prefix(&self.root).ok()?;
        let leads = self.leads_to_protected(rel).filter(|rule| !self.is_new_git(&new.path, rule))?;
        if old.found == Found::Link {
            return Some(leads.to_owned());
        }
        self.forbids_below(&old.path, &new.path, leads).map(str::to_owned)
    }

    fn forbids_below<'a>(&'a self, old: &Path, new: &Path, otherwise: &'a str) -> Option<&'a str> {
        let mut left = vec![PathBuf::new()];
        let mut entries = 0;
        while let Some(below) = left.pop() {
            let Ok(listed) = std::fs::read_dir(old.join(&below)) else { return Some(otherwise) };
            for entry in listed.flatten() {
                entries += 1;
                if entries > MOVED_ENTRIES {
                    return Some(otherwise);
                }
                let below = below.join(entry.file_name());
                let is_dir = entry.file_type().is_ok_and(|kind| kind.is_dir());
                if let Some(rule) = self.forbids_path(&new.join(&below), is_dir, Wish::New) {
                    return Some(rule);
                }
                if is_dir {
                    left.push(below);
                }
            }
        }
        None
    }

    /// From the root where it is below, for people.
    pub(super) fn shown(&self, path: &Path) -> String {
        path.strip_prefix(&self.root).unwrap_or(path).to_string_lossy().into_owned()
    }
}

fn outermost_git(path: &Path) -> Option<PathBuf> {
    let mut git = PathBuf::new();
    for part in path.components() {
        git.push(part);
        if part.as_os_str() == ".git" {
            return Some(git);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules() -> Rules {
        let texts = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
        let plan = GuardPlan {
            home: "/home/u".into(),
            trees: vec!["/tree".into()],
            deny: texts(&["**/.env", "vault/**", "~/.ssh/**", "/tree/x"]),
            protect: texts(&["**/.git/hooks/**", "**/.vscode/**", "**/.mcp.json", "**/.husky/[!_]*"]),
            lifted: texts(&[".vscode/settings.json"]),
            pinned: vec!["/w/.git".into()],
            all_opens: true,
        };
        Rules::new(Path::new("/w"), &plan).expect("rules")
    }

    fn at(path: &str, found: Found) -> Place {
        Place { path: path.into(), found }
    }

    #[test]
    fn names_are_judged() {
        let rules = rules();
        let write = Wish::Open { create: true, exclusive: false, write: true };
        let read = Wish::Open { create: false, exclusive: false, write: false };
        let forbids = |path: &str, wish| rules.forbids(&at(path, Found::Nothing), wish);
        for (path, wish) in [
            ("/w/.env", write),
            ("/w/.env", read),
            ("/w/a/b/.env", Wish::Folder),
            ("/w/.env", Wish::Link),
            ("/w/vault", Wish::Folder),
            ("/w/vault", Wish::Link),
            ("/w/vault/x", Wish::New),
            ("/w/.git/hooks/x", write),
            ("/w/.git/hooks", Wish::Folder),
            ("/w/.vscode/tasks.json", write),
            ("/w/.vscode", Wish::Link),
            ("/w/.husky", Wish::Link),
            ("/w/.mcp.json", Wish::New),
            ("/w/.mcp.json", Wish::Old),
            ("/tree/.env", write),
            ("/tree/x", Wish::Node),
            ("/tree/a/.mcp.json", write),
        ] {
            assert!(forbids(path, wish).is_some(), "{path} {wish:?}");
        }
        for (path, wish) in [
            ("/w/env", write),
            ("/w/vault", write),
            ("/w/sub/vault/x", write),
            ("/w/.mcp.json", read),
            ("/w/.vscode/settings.json", write),
            ("/w/.vscode", Wish::Folder),
            ("/w/fresh/.git/hooks/x", write),
            ("/w/.husky", Wish::Folder),
            ("/w/.git/config", write),
            ("/tmp/.env", write),
            ("/tree/vault/x", write),
            ("/home/u/.ssh/id", write),
        ] {
            assert_eq!(forbids(path, wish), None, "{path} {wish:?}");
        }
    }

    #[test]
    fn moves_are_judged_as_a_whole() {
        let rules = rules();
        let dir = tempfile::tempdir().expect("a folder");
        std::fs::write(dir.path().join("pre-commit"), "x").expect("a file");
        let old = Place { path: dir.path().into(), found: Found::Folder };
        assert!(rules.forbids_move(&old, &at("/w/.husky", Found::Nothing)).is_some());
        assert!(rules.forbids_move(&old, &at("/w/husky", Found::Nothing)).is_none());
        assert!(rules.forbids_move(&at("/w/.git", Found::Folder), &at("/w/g", Found::Nothing)).is_some());
        assert!(rules.forbids_move(&at("/w/l", Found::Link), &at("/w/.husky", Found::Nothing)).is_some());
        assert!(rules.forbids_move(&at("/w/x", Found::Folder), &at("/w/f/.git", Found::Nothing)).is_none());
    }
}
