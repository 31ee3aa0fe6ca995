//! **What this room is for:** gitignore-style patterns of a policy, and the question which of them a path matches.
//! **Who may enter:** policy, tools, the scan. **Never done here:** looking at the disk; negations, since a later line must
//! not lift an earlier one. **Where the proof is:** the tests below, `fuzz/properties/glob_pattern.rs`.
//!
//! | pattern | matches |
//! |---|---|
//! | `.env`, `*.pem` | that name at any depth |
//! | `src/gen`, `./x` | from the root, since there is a slash |
//! | `/etc/shadow*` | on the host; and from the root, as in a gitignore file (both, so that neither reading is left open) |
//! | `~/.ssh/**` | below the home folder |
//! | `dir/` | folders only, with all that is below |
//! | `dir/**` | the same, spelled out |
//! | `**/x`, `a/**/b` | `**` crosses folders, `*` and `?` stay in one name |
//! | `[a-z]`, `{a,b}`, `\*` | a class, alternatives, the character itself |

mod glob;
mod parse;
mod rest;

pub(crate) use glob::Glob;
use parse::{Part, Rule};
pub(super) use rest::{Next, Rest};
use std::collections::HashMap;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Places that patterns speak of beside the root.
#[derive(Debug, Clone, Copy, Default)]
pub struct Bases<'a> {
    /// What `~` means; without it a pattern that begins with `~` is an error.
    pub home: Option<&'a Path>,
    /// The real path of the root: host patterns that reach into it (`~/work/.env`) then match below it as well.
    pub root: Option<&'a Path>,
}

/// A pattern that was not understood.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("pattern {index}: {message}")]
pub struct PatternError {
    /// Its place in the list, from 0.
    pub index: usize,
    /// What is wrong with it.
    pub message: String,
}

/// Patterns in one set. Matching is case-sensitive; what a folder matches, everything below matches.
#[derive(Debug, Clone, Default)]
pub struct PatternSet {
    texts: Vec<String>,
    relative: Table,
    absolute: Table,
}

impl PatternSet {
    /// Reads patterns; `~` is not known here.
    ///
    /// # Errors
    /// The first pattern that is malformed.
    pub fn new(patterns: &[impl AsRef<str>]) -> Result<PatternSet, PatternError> {
        PatternSet::with_bases(patterns, Bases::default())
    }

    /// Reads patterns that may speak of the home folder and of the host.
    ///
    /// # Errors
    /// The first pattern that is malformed.
    pub fn with_bases(patterns: &[impl AsRef<str>], bases: Bases<'_>) -> Result<PatternSet, PatternError> {
        let mut set = PatternSet::default();
        for (index, text) in patterns.iter().enumerate() {
            let text = text.as_ref();
            let meaning = parse::parse(text, index, bases.home).map_err(|message| PatternError { index, message })?;
            for rule in meaning.absolute {
                for below in bases.root.map(|root| below(&rule, root)).unwrap_or_default() {
                    set.relative.add(below);
                }
                set.absolute.add(rule);
            }
            for rule in meaning.relative {
                set.relative.add(rule);
            }
            set.texts.push(text.to_owned());
        }
        Ok(set)
    }

    /// How many patterns.
    #[must_use]
    pub fn len(&self) -> usize {
        self.texts.len()
    }

    /// No patterns.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.texts.is_empty()
    }

    /// The text of pattern `index`.
    #[must_use]
    pub fn text(&self, index: usize) -> Option<&str> {
        self.texts.get(index).map(String::as_str)
    }

    /// Which pattern matches this path from the root (`.` is the root), or a folder above it.
    #[must_use]
    pub fn matched(&self, rel: &str, is_dir: bool) -> Option<usize> {
        self.relative.path(rel.as_bytes(), is_dir)
    }

    /// The same for a name that may not be UTF-8.
    #[must_use]
    pub fn matched_os(&self, rel: &Path, is_dir: bool) -> Option<usize> {
        self.relative.path(rel.as_os_str().as_bytes(), is_dir)
    }

    /// Which host pattern (`/…`, `~/…`) matches this absolute path or a folder above it.
    #[must_use]
    pub fn matched_absolute(&self, abs: &str, is_dir: bool) -> Option<usize> {
        self.absolute.path(abs.as_bytes(), is_dir)
    }

    /// The same for a name that may not be UTF-8.
    #[must_use]
    pub fn matched_absolute_os(&self, abs: &Path, is_dir: bool) -> Option<usize> {
        self.absolute.path(abs.as_os_str().as_bytes(), is_dir)
    }

    /// Which pattern matches this very path from the root, whatever is above it: for a walk that has judged the folders
    /// on its way.
    #[must_use]
    pub fn matched_entry(&self, rel: &Path, is_dir: bool) -> Option<usize> {
        self.relative.entry(rel.as_os_str().as_bytes(), is_dir)
    }

    /// Whether any path that ends in this name could match: the cheap first question of a walk.
    #[must_use]
    pub fn could_match_name(&self, name: &[u8]) -> bool {
        self.relative.could_match(name)
    }
}

/// Rules ordered by what the last name must be, so that most names are dismissed by two lookups.
#[derive(Debug, Clone, Default)]
struct Table {
    rules: Vec<Rule>,
    by_name: HashMap<Vec<u8>, Vec<usize>>,
    by_extension: HashMap<Vec<u8>, Vec<usize>>,
    others: Vec<usize>,
    /// Those that speak of more than one name.
    paths: Vec<usize>,
    /// A rule that matches the base itself, and so everything.
    all: Option<usize>,
}

impl Table {
    fn add(&mut self, rule: Rule) {
        let place = self.rules.len();
        match rule.parts.last() {
            Some(Part::Name(Glob::Literal(name))) => self.by_name.entry(name.clone()).or_default().push(place),
            Some(Part::Name(Glob::Suffix(suffix))) if extension(suffix).is_some() => {
                let key = extension(suffix).unwrap_or_default().to_vec();
                self.by_extension.entry(key).or_default().push(place);
            }
            Some(Part::Name(_)) => self.others.push(place),
            Some(Part::Dirs) | None => self.all = self.all.or(Some(rule.index)),
        }
        if rule.parts.iter().filter(|part| matches!(part, Part::Name(_))).count() > 1 {
            self.paths.push(place);
        }
        self.rules.push(rule);
    }

    fn candidates(&self, name: &[u8]) -> impl Iterator<Item = &Rule> {
        let by_name = self.by_name.get(name).map_or(&[][..], Vec::as_slice);
        let by_extension = match extension(name) {
            Some(key) if !self.by_extension.is_empty() => self.by_extension.get(key).map_or(&[][..], Vec::as_slice),
            _ => &[],
        };
        by_name.iter().chain(by_extension).chain(&self.others).filter_map(|place| self.rules.get(*place))
    }

    fn could_match(&self, name: &[u8]) -> bool {
        self.all.is_some()
            || self
                .candidates(name)
                .any(|rule| matches!(rule.parts.last(), Some(Part::Name(glob)) if glob.matches(name)))
    }

    fn entry(&self, path: &[u8], is_dir: bool) -> Option<usize> {
        if self.all.is_some() {
            return self.all;
        }
        let name = path.rsplit(|b| *b == b'/').next().unwrap_or_default();
        self.candidates(name)
            .filter(|rule| is_dir || !rule.folders_only)
            .find(|rule| fits(rule, path))
            .map(|rule| rule.index)
    }

    /// The outermost folder that matches decides; then the path itself.
    fn path(&self, path: &[u8], is_dir: bool) -> Option<usize> {
        if self.all.is_some() {
            return self.all;
        }
        if self.rules.is_empty() {
            return None;
        }
        let path = path.strip_suffix(b"/").unwrap_or(path);
        let folders = path.iter().enumerate().filter(|(_, b)| **b == b'/').map(|(at, _)| at);
        folders
            .filter_map(|at| path.get(..at))
            .find_map(|folder| self.entry(folder, true))
            .or_else(|| self.entry(path, is_dir))
    }
}

/// From the last dot on.
fn extension(name: &[u8]) -> Option<&[u8]> {
    name.iter().rposition(|b| *b == b'.').and_then(|at| name.get(at..))
}

fn names(path: &[u8]) -> impl Iterator<Item = &[u8]> {
    path.split(|b| *b == b'/').filter(|name| !matches!(*name, b"" | b"."))
}

/// Whether a rule matches this very path.
fn fits(rule: &Rule, path: &[u8]) -> bool {
    if let [Part::Dirs, Part::Name(glob)] = rule.parts.as_slice() {
        return names(path).last().is_some_and(|name| glob.matches(name));
    }
    let names: Vec<&[u8]> = names(path).collect();
    let (mut p, mut n) = (0, 0);
    // As for one name: the last `**` takes one more folder when the rest does not fit.
    let mut back: Option<(usize, usize)> = None;
    loop {
        let step = match (rule.parts.get(p), names.get(n)) {
            (Some(Part::Dirs), _) => {
                back = Some((p + 1, n));
                p += 1;
                continue;
            }
            (None, None) => return true,
            (Some(Part::Name(glob)), Some(name)) => glob.matches(name),
            (_, None) => return false,
            (None, Some(_)) => false,
        };
        if step {
            (p, n) = (p + 1, n + 1);
        } else {
            let Some((after, from)) = back else { return false };
            back = Some((after, from + 1));
            (p, n) = (after, from + 1);
        }
    }
}

/// What a host rule means below `root`: one rule for each way in which its first parts can be the names of the root. A
/// rule that matches the root itself, or a folder above it, gives a rule without parts: everything.
fn below(rule: &Rule, root: &Path) -> Vec<Rule> {
    let everything = Rule { parts: Vec::new(), folders_only: true, index: rule.index };
    let mut at = reach(rule, vec![0]);
    for name in names(root.as_os_str().as_bytes()) {
        let mut next = Vec::new();
        for place in at {
            match rule.parts.get(place) {
                Some(Part::Dirs) => next.push(place),
                Some(Part::Name(glob)) if glob.matches(name) => next.push(place + 1),
                Some(Part::Name(_)) => {}
                None => return vec![everything],
            }
        }
        at = reach(rule, next);
    }
    if at.contains(&rule.parts.len()) {
        return vec![everything];
    }
    let rest = |place: usize| rule.parts.get(place..).unwrap_or_default().to_vec();
    at.into_iter()
        .map(|place| Rule { parts: rest(place), folders_only: rule.folders_only, index: rule.index })
        .collect()
}

/// The places and those that a `**` there lets skip to, each once.
fn reach(rule: &Rule, mut places: Vec<usize>) -> Vec<usize> {
    let mut i = 0;
    while let Some(place) = places.get(i).copied() {
        if rule.parts.get(place) == Some(&Part::Dirs) {
            places.push(place + 1);
        }
        i += 1;
    }
    places.sort_unstable();
    places.dedup();
    places
}

#[cfg(test)]
mod tests;
