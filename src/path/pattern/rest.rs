//! **What this room is for:** what is left of a rule behind a link, so that `config/*.key` holds where `config` is a link.
//! **Who may enter:** `path::scan`. **Never done here:** looking at the disk. **Where the proof is:** `tests/path.rs`.

use super::glob::Glob;
use super::parse::{Part, Rule};
use super::{PatternSet, names, reach};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// The last parts of a rule, relative to a folder.
#[derive(Debug, Clone, Copy)]
pub(in crate::path) struct Rest<'a> {
    rule: &'a Rule,
    /// Parts that are done.
    pub(in crate::path) done: usize,
}

/// What the next part asks for.
#[derive(Debug, Clone, Copy)]
pub(in crate::path) enum Next<'a> {
    /// This name.
    Literal(&'a [u8]),
    /// Names that match: ask [`Rest::takes`].
    Names,
    /// Any number of folders.
    Dirs,
    /// Nothing: it is matched.
    Done,
}

impl<'a> Rest<'a> {
    /// The next part.
    pub(in crate::path) fn next(self) -> Next<'a> {
        match self.rule.parts.get(self.done) {
            Some(Part::Dirs) => Next::Dirs,
            Some(Part::Name(Glob::Literal(name))) => Next::Literal(name),
            Some(Part::Name(_)) => Next::Names,
            None => Next::Done,
        }
    }

    /// Whether the next part takes this name.
    pub(in crate::path) fn takes(self, name: &[u8]) -> bool {
        matches!(self.rule.parts.get(self.done), Some(Part::Name(glob)) if glob.matches(name))
    }

    /// The rule with its next part done.
    pub(in crate::path) fn after(self) -> Rest<'a> {
        Rest { done: self.done + 1, ..self }
    }

    /// Only folders are meant.
    pub(in crate::path) fn folders_only(self) -> bool {
        self.rule.folders_only
    }

    /// Index of the pattern.
    pub(in crate::path) fn pattern(self) -> usize {
        self.rule.index
    }
}

impl PatternSet {
    /// Whether some rule speaks of more than one name, so that a link in the middle of a path matters.
    pub(in crate::path) fn has_paths(&self) -> bool {
        !self.relative.paths.is_empty()
    }

    /// A rule that names this path as a folder on its way to what it means (`config` in `config/*.key`), and so speaks of
    /// what stands below it.
    #[must_use]
    pub fn continues(&self, rel: &Path) -> Option<usize> {
        self.behind(rel).first().map(|rest| rest.pattern())
    }

    /// What is left of the rules behind the folder `rel`. A rule that begins with `**` is left out where nothing but that
    /// was used up: it holds in every folder anyway.
    pub(in crate::path) fn behind(&self, rel: &Path) -> Vec<Rest<'_>> {
        let mut left = Vec::new();
        for rule in self.relative.paths.iter().filter_map(|place| self.relative.rules.get(*place)) {
            let floating = rule.parts.first() == Some(&Part::Dirs);
            let mut at = reach(rule, vec![0]);
            for name in names(rel.as_os_str().as_bytes()) {
                let next = at.iter().filter_map(|place| match rule.parts.get(*place) {
                    Some(Part::Dirs) => Some(*place),
                    Some(Part::Name(glob)) if glob.matches(name) => Some(place + 1),
                    _ => None,
                });
                at = reach(rule, next.collect());
            }
            let new = at.into_iter().filter(|place| *place < rule.parts.len() && !(floating && *place <= 1));
            left.extend(new.map(|done| Rest { rule, done }));
        }
        left
    }
}
