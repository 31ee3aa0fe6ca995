//! Patterns: never a panic, and the answers of gitignore where both know the words.

use ignore::gitignore::GitignoreBuilder;
use std::path::Path;
use stockade::path::{Bases, PatternSet};

/// Input: a pattern, a line end, a path (a `/` at its end makes it a folder).
pub fn check(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let (pattern, path) = text.split_once('\n').unwrap_or((text, "a/b/c.rs"));
    let bases = Bases { home: Some(Path::new("/home/u")), root: Some(Path::new("/home/u/work")) };
    let Ok(set) = PatternSet::with_bases(&[pattern], bases) else { return };
    let (name, is_dir) = path.strip_suffix('/').map_or((path, false), |name| (name, true));
    let answer = set.matched(name, is_dir);
    assert!(matches!(answer, None | Some(0)));
    assert_eq!(answer, set.matched_os(Path::new(name), is_dir));
    let _ = set.matched_absolute(path, is_dir);
    if set.matched_entry(Path::new(name), is_dir).is_some() {
        assert!(answer.is_some(), "an entry that matches is a path that matches");
        let last = name.rsplit('/').next().unwrap_or_default();
        assert!(set.could_match_name(last.as_bytes()), "the first question must not say no: {pattern:?} {name:?}");
    }
    if simple(pattern) && plain(name) {
        let mut builder = GitignoreBuilder::new("/w");
        builder.add_line(None, pattern).expect("a simple pattern");
        let git = builder.build().expect("a simple pattern");
        // Not `matched_path_or_any_parents`: it also asks for the root itself, as a name without characters.
        let mut above = Path::new(name).ancestors().filter(|path| !path.as_os_str().is_empty());
        let theirs = above.any(|path| git.matched(path, is_dir || path != Path::new(name)).is_ignore());
        // `dir/**` covers the folder itself here, which gitignore leaves out.
        let more = pattern.ends_with("/**") && is_dir;
        let ours = PatternSet::new(&[pattern]).expect("the same pattern").matched(name, is_dir).is_some();
        assert!(ours == theirs || (more && ours), "{pattern:?} on {path:?}: ours {ours}, gitignore {theirs}");
    }
}

/// Patterns that mean the same in both: letters, dots, stars, question marks and single slashes.
fn simple(pattern: &str) -> bool {
    let words = pattern.bytes().all(|b| b.is_ascii_lowercase() || matches!(b, b'.' | b'*' | b'?' | b'/'));
    let parts: Vec<&str> = pattern.trim_matches('/').split('/').collect();
    let stars = parts.iter().all(|part| *part == "**" || !part.contains("**"));
    let names = parts.iter().all(|part| !matches!(*part, "" | "." | ".."));
    // Two `**` in a row, and nothing but `**`, are read differently by the two.
    let runs = parts.windows(2).all(|pair| pair != ["**", "**"]);
    words
        && stars
        && names
        && runs
        && parts.iter().any(|part| *part != "**")
        && !pattern.ends_with("**/")
        && !pattern.contains("//")
}

/// Paths of ordinary names.
fn plain(path: &str) -> bool {
    path.split('/').all(|name| !matches!(name, "" | "." | "..")) && path.bytes().all(|b| b.is_ascii_graphic())
}
