//! **What this room is for:** path patterns: gitignore-style below the root, or absolute (`/…`, `~/…`).
//! **Who may enter:** the policy and whoever must cover its names. **Never done here:** touching the disk.
//! **Where the proof is:** the tests below and `fuzz/properties/policy.rs`.
//!
//! `*` and `?` stay in their folder, `**` crosses; no slash means any depth (`./x` is the one at the root); a trailing slash
//! means folders only;
//! `dir/**` is everything below `dir`, and the folder itself as far as tools are concerned. Two things of gitignore are
//! errors here, because a reader could take them for less than they deny: `!` in front, and braces.

use std::path::Path;

use crate::path::pattern::Glob;

/// Bytes of one pattern; longer ones are not written by people.
const PATTERN_BYTES: usize = 1024;

/// One pattern, checked and compiled.
#[derive(Debug, Clone)]
pub struct Pattern {
    text: String,
    absolute: bool,
    folders_only: bool,
    any_depth: bool,
    parts: Vec<Part>,
}

impl Pattern {
    /// Reads one pattern; `home` is what `~` stands for.
    ///
    /// # Errors
    /// One sentence that says what is wrong with it.
    pub fn new(text: &str, home: Option<&Path>) -> Result<Self, String> {
        Self::read(text, home, false)
    }

    /// Reads a pattern that is relative to the root even when it has no slash.
    ///
    /// # Errors
    /// As [`Pattern::new`].
    pub fn new_anchored(text: &str) -> Result<Self, String> {
        Self::read(text, None, true)
    }

    fn read(text: &str, home: Option<&Path>, anchored: bool) -> Result<Self, String> {
        check(text)?;
        let anchored = anchored || text.starts_with("./");
        let (mut glob, absolute) = match text.strip_prefix('~') {
            Some(rest) if rest.is_empty() || rest.starts_with('/') => {
                let home = home.and_then(Path::to_str).ok_or("`~` means nothing here: the home folder is not known")?;
                (format!("{}{rest}", escape(home.trim_end_matches('/'))), true)
            }
            Some(_) => return Err("`~user` is not understood; write the whole path".to_owned()),
            None => (text.trim_start_matches("./").to_owned(), text.starts_with('/')),
        };
        if glob.trim_matches('/').is_empty() {
            return Err("it names the root itself".to_owned());
        }
        let folders_only = glob.ends_with('/');
        if folders_only {
            glob.pop();
        }
        if absolute {
            glob = glob.trim_start_matches('/').to_owned();
        } else if !anchored && !glob.contains('/') && glob != "**" {
            glob = format!("**/{glob}");
        }
        let parts = glob.split('/').map(Part::read).collect::<Result<_, _>>()?;
        Ok(Pattern { text: text.to_owned(), absolute, folders_only, any_depth: glob.starts_with("**/"), parts })
    }

    /// As it was written.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Matches absolute paths; else paths relative to the root.
    #[must_use]
    pub fn is_absolute(&self) -> bool {
        self.absolute
    }

    /// Matches folders alone (a trailing slash).
    #[must_use]
    pub fn folders_only(&self) -> bool {
        self.folders_only
    }

    /// Begins with `**/`: it means a name wherever it stands, in other open trees too.
    #[must_use]
    pub fn any_depth(&self) -> bool {
        !self.absolute && self.any_depth
    }

    /// Matches exactly what it says, without what lies below a matched folder. `path` is relative to the root, or, for
    /// an absolute pattern, without its first slash.
    #[must_use]
    pub fn matches_exactly(&self, path: &str, is_dir: bool) -> bool {
        (is_dir || !self.folders_only) && fits(&self.parts, path)
    }

    /// The folder that is the head of `dir/**`, else the whole pattern.
    fn stem(&self) -> &[Part] {
        match self.parts.split_last() {
            Some((Part::Dirs, stem)) if !stem.is_empty() => stem,
            _ => &self.parts,
        }
    }

    /// Is `path` below what the pattern names?
    fn covers_from_above(&self, path: &str) -> bool {
        let stem = self.stem();
        if stem.len() < self.parts.len() {
            return fits(&self.parts, path);
        }
        path.match_indices('/').any(|(at, _)| path.get(..at).is_some_and(|above| fits(stem, above)))
    }

    /// Does the folder `path` hold, by its name, something that the pattern names?
    fn is_held_by(&self, path: &str) -> bool {
        let stem = self.stem();
        let above = (1..stem.len()).filter_map(|length| stem.get(..length)).skip_while(|above| *above == [Part::Dirs]);
        above.into_iter().any(|above| fits(above, path))
    }
}

fn check(text: &str) -> Result<(), String> {
    let bad = if text.is_empty() {
        "it is empty"
    } else if text.len() > PATTERN_BYTES {
        "it is longer than 1024 bytes"
    } else if text.chars().any(char::is_control) {
        "it holds a control character"
    } else if text.starts_with('!') {
        "a pattern cannot take back another (`!`); a later rule can only deny more"
    } else if text.trim_start_matches("./").contains("//") {
        "it holds an empty name (`//`)"
    } else if text.split('/').any(|name| name == "..") {
        "`..` is not understood in a pattern"
    } else if text.contains("/./") || text.ends_with("/.") || text == "." {
        "`.` is not understood in a pattern"
    } else if text.replace("\\{", "").replace("\\}", "").contains(['{', '}']) {
        "braces are not understood; write one pattern for each"
    } else {
        return Ok(());
    };
    Err(bad.to_owned())
}

fn escape(literal: &str) -> String {
    literal.chars().fold(String::new(), |mut out, c| {
        if matches!(c, '*' | '?' | '[' | ']' | '{' | '}' | '\\' | '!') {
            out.push('\\');
        }
        out.push(c);
        out
    })
}

/// What stands between two slashes.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Part {
    /// `**`: any number of folders; at the end at least one name.
    Dirs,
    /// One name.
    Name(Glob),
}

impl Part {
    fn read(text: &str) -> Result<Part, String> {
        if text == "**" { Ok(Part::Dirs) } else { Glob::parse(text).map(Part::Name) }
    }
}

/// Whether the whole path fits. As for one name, the last `**` takes one more folder when the rest does not fit: at
/// worst names times parts, whatever the pattern.
fn fits(parts: &[Part], path: &str) -> bool {
    let mut names = path.split('/');
    let mut parts = parts;
    let mut back = None;
    loop {
        match parts.split_first() {
            Some((Part::Dirs, [])) => return names.next().is_some(),
            Some((Part::Dirs, rest)) => {
                back = Some((rest, names.clone()));
                parts = rest;
                continue;
            }
            Some((Part::Name(glob), rest)) => match names.next() {
                Some(name) if glob.matches(name.as_bytes()) => {
                    parts = rest;
                    continue;
                }
                Some(_) => {}
                None => return false,
            },
            None if names.next().is_none() => return true,
            None => {}
        }
        let Some((rest, mut from)) = back else { return false };
        if from.next().is_none() {
            return false;
        }
        (parts, names) = (rest, from.clone());
        back = Some((rest, from));
    }
}

/// Many patterns, asked at once. Each covers a path in three ways: itself, as the folder that is the head of `dir/**`, from
/// above. Nothing is compiled: a session begins with these, and a regular expression for each would cost more than all else.
#[derive(Debug, Clone)]
pub struct PatternSet {
    patterns: Vec<Pattern>,
}

impl PatternSet {
    /// Reads patterns.
    ///
    /// # Errors
    /// The number of the pattern at fault and one sentence.
    #[cfg(test)]
    pub fn new(patterns: &[&str], home: Option<&Path>) -> Result<Self, (usize, String)> {
        let read = patterns.iter().enumerate();
        let read = read.map(|(i, text)| Pattern::new(text, home).map_err(|e| (i, e))).collect::<Result<Vec<_>, _>>()?;
        Ok(Self::of(read))
    }

    /// Takes patterns that were read before.
    #[must_use]
    pub fn of(patterns: Vec<Pattern>) -> Self {
        PatternSet { patterns }
    }

    /// The first pattern that covers a path relative to the root (`.` is the root), or everything above it.
    #[must_use]
    pub fn matched(&self, path: &str, is_dir: bool) -> Option<usize> {
        self.first(false, path, is_dir, |_, _| true)
    }

    /// As [`PatternSet::matched`], of the patterns that `counts` takes: it is given the number, and whether the path itself
    /// is meant (else something above it).
    #[must_use]
    pub fn matched_by(&self, path: &str, is_dir: bool, counts: impl Fn(usize, bool) -> bool) -> Option<usize> {
        self.first(false, path, is_dir, counts)
    }

    /// The first absolute pattern that covers an absolute path.
    #[must_use]
    pub fn matched_absolute(&self, path: &str, is_dir: bool) -> Option<usize> {
        self.first(true, path.trim_start_matches('/'), is_dir, |_, _| true)
    }

    fn first(&self, absolute: bool, path: &str, is_dir: bool, counts: impl Fn(usize, bool) -> bool) -> Option<usize> {
        let covers = |number: usize, pattern: &Pattern| {
            (counts(number, true) && (pattern.matches_exactly(path, is_dir) || is_dir && fits(pattern.stem(), path)))
                || (counts(number, false) && pattern.covers_from_above(path))
        };
        let of_kind = self.patterns.iter().enumerate().filter(|(_, pattern)| pattern.absolute == absolute);
        of_kind.into_iter().find(|(number, pattern)| covers(*number, pattern)).map(|(number, _)| number)
    }

    /// The first pattern that covers something which stands below this folder by its name: `.git` holds `.git/hooks/**`.
    /// Patterns of any depth (`**/x`) are held by every folder and do not count for that part.
    #[must_use]
    pub fn held_by(&self, path: &str) -> Option<usize> {
        self.patterns.iter().position(|pattern| !pattern.absolute && pattern.is_held_by(path))
    }

    /// The patterns, in order.
    #[must_use]
    pub fn patterns(&self) -> &[Pattern] {
        &self.patterns
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(patterns: &[&str]) -> PatternSet {
        PatternSet::new(patterns, Some(Path::new("/home/a[b]"))).unwrap()
    }

    #[test]
    fn depth_and_stars() {
        for (pattern, path, dir, want) in [
            ("*.tmp", "a/b/x.tmp", false, true),
            ("*.tmp", "x.tmp.txt", false, false),
            ("**/.env", ".env", false, true),
            ("**/.env", "a/.env", false, true),
            ("**/.env", "a/.envrc", false, false),
            ("**/.env", "a/.env/deep/er", false, true),
            ("vault/**", "vault", true, true),
            ("vault/**", "vault", false, false),
            ("vault/**", "vault/a/b", false, true),
            ("vault/**", "x/vault/a", false, false),
            ("vault/**", "vaults/a", false, false),
            ("lib/*", "lib/a", false, true),
            ("lib/*", "library", false, false),
            ("lib/*", "lib/a/b", false, true),
            ("out/", "out", false, false),
            ("out/", "a/out", true, true),
            ("out/", "a/out/x", false, true),
            ("a/**/b", "a/b", false, true),
            ("a/**/b", "a/x/y/b", false, true),
            ("./src/one.pem", "src/one.pem", false, true),
            ("./.profile", ".profile", false, true),
            ("./.profile", "a/.profile", false, false),
            ("[.]env", ".env", false, true),
            ("\\*", "*", false, true),
            ("\\*", "x", false, false),
            ("**", "x", false, true),
            ("vault", "vault/key", false, true),
        ] {
            assert_eq!(set(&[pattern]).matched(path, dir).is_some(), want, "{pattern} {path} {dir}");
        }
    }

    #[test]
    fn exact_is_not_below() {
        let lib = Pattern::new("lib/*", None).unwrap();
        assert!(lib.matches_exactly("lib/a", false) && !lib.matches_exactly("lib/a/b", false));
        let doc = Pattern::new("doc/**", None).unwrap();
        assert!(doc.matches_exactly("doc/a/b", false) && !doc.matches_exactly("doc", true));
    }

    #[test]
    fn absolute_and_home() {
        let set = set(&["**/x", "/etc/shadow*", "~/.ssh/**"]);
        assert_eq!(set.matched_absolute("/etc/shadow-", false), Some(1));
        assert_eq!(set.matched_absolute("/home/a[b]/.ssh/k", false), Some(2));
        assert_eq!(set.matched_absolute("/home/a/.ssh/k", false), None);
        assert_eq!(set.matched("etc/shadow", false), None);
        assert_eq!(set.matched_absolute("/a/x", false), None);
    }

    #[test]
    fn what_a_folder_holds() {
        let set = set(&["**/.git/hooks/**", ".stockade/**", "**/x"]);
        assert_eq!(set.held_by("sub/.git"), Some(0));
        assert_eq!(set.held_by("sub"), None);
        assert_eq!(set.held_by(".git/objects"), None);
    }

    #[test]
    fn what_is_no_pattern() {
        for bad in [
            "",
            "!x",
            "a//b",
            "../x",
            "a/../b",
            "a\0",
            "{a,b}",
            "~root/x",
            ".",
            "a/.",
            "/",
            "./",
            "[a",
            &"x".repeat(2000),
        ] {
            assert!(Pattern::new(bad, None).is_err(), "{bad:?}");
        }
        assert!(Pattern::new("~/x", None).is_err());
        assert_eq!(PatternSet::new(&["a", "!b"], None).unwrap_err().0, 1);
    }
}
