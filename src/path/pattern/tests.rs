//! Patterns by example.

use super::{Bases, PatternSet};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

fn set(patterns: &[&str]) -> PatternSet {
    PatternSet::new(patterns).unwrap()
}

#[test]
fn relative_patterns_follow_gitignore() {
    // pattern, path (with `/` at the end: a folder), expected
    let cases = [
        (".env", ".env", true),
        (".env", "a/b/.env", true),
        (".env", ".env/x", true),
        (".env", ".envrc", false),
        (".env", ".ENV", false),
        ("**/.env", ".env", true),
        ("**/.env", "a/.env", true),
        ("/a", "a", true),
        ("/a", "b/a", false),
        ("a/b", "a/b", true),
        ("a/b", "x/a/b", false),
        ("a/*", "a/b", true),
        ("a/*", "a/b/c", true),
        ("a/*.rs", "a/b/c.rs", false),
        ("a/*", "a/", false),
        ("a/**", "a/b/c", true),
        ("a/**", "a/", true),
        ("a/**", "a", false),
        ("a/**/c", "a/c", true),
        ("a/**/c", "a/x/y/c", true),
        ("a/**/c", "a/x/y/d", false),
        ("**/a/**/b/c", "a/a/b/x/b/c", true),
        ("dir/", "dir", false),
        ("dir/", "x/dir/", true),
        ("dir/", "x/dir/f", true),
        ("*.{pem,key}", "x/a.key", true),
        ("{.env,secret/**}", "x/.env", true),
        ("{.env,secret/**}", "secret/k", true),
        ("{.env,secret/**}", "x/secret/k", false),
        ("a{b,c{d,e}}f", "acef", true),
        ("[{]x", "{x", true),
        ("\\{a,b\\}", "{a,b}", true),
        ("*.tar.gz", "x.tar.gz", true),
        ("*.tar.gz", "x.gz", false),
        ("*rc", "x/.bashrc", true),
        ("**", "anything/at/all", true),
        ("**", "./", true),
        ("*", "./", false),
        ("*", "x/y", true),
        ("./x", "x", true),
        ("./x", "a/x", false),
        ("\\!x", "!x", true),
        ("#x", "#x", true),
        ("a b ", "a b ", true),
    ];
    for (pattern, path, expected) in cases {
        let (name, is_dir) = path.strip_suffix('/').map_or((path, false), |name| (name, true));
        assert_eq!(set(&[pattern]).matched(name, is_dir).is_some(), expected, "{pattern} on {path}");
    }
}

#[test]
fn the_index_is_that_of_the_pattern_and_the_outermost_folder_decides() {
    let set = set(&["*.pem", "vault/**", "{a,b}.key"]);
    assert_eq!(set.matched("vault/x.pem", false), Some(1));
    assert_eq!(set.matched("x.pem", false), Some(0));
    assert_eq!(set.matched("c/b.key", false), Some(2));
    assert_eq!(set.text(1), Some("vault/**"));
    assert!(set.could_match_name(b"vault") && set.could_match_name(b"q.pem") && !set.could_match_name(b"main.rs"));
    assert_eq!(set.matched_entry(Path::new("vault/x"), false), None);
    assert_eq!(set.matched_os(Path::new(OsStr::from_bytes(b"\xff/\xfe.pem")), false), Some(0));
}

#[test]
fn host_patterns_match_absolute_paths_and_reach_into_the_root() {
    let bases = Bases { home: Some(Path::new("/home/u")), root: Some(Path::new("/home/u/work")) };
    let patterns = ["/etc/shadow*", "~/.ssh/**", "~/work/secret", "/home/*/work/**/k.txt", "/**/deep.bin"];
    let set = PatternSet::with_bases(&patterns, bases).unwrap();
    assert_eq!(set.matched_absolute("/etc/shadow-", false), Some(0));
    assert_eq!(set.matched_absolute("/etc/shadows/x", false), Some(0));
    assert_eq!(set.matched_absolute("/home/u/.ssh", true), Some(1));
    assert_eq!(set.matched_absolute("/home/u/.ssh/id", false), Some(1));
    assert_eq!(set.matched_absolute("/home/v/.ssh/id", false), None);
    assert_eq!(set.matched("secret/x", false), Some(2));
    assert_eq!(set.matched("x/secret", false), None);
    assert_eq!(set.matched("a/b/k.txt", false), Some(3));
    assert_eq!(set.matched("a/deep.bin", false), Some(4));
    assert_eq!(set.matched("etc/shadow", false), Some(0), "a leading slash is also the root's");
    assert_eq!(set.matched("src/a.txt", false), None);
    for whole in ["~", "~/**", "/home/u/work", "/home/u/work/", "/home/*"] {
        let set = PatternSet::with_bases(&[whole], bases).unwrap();
        assert_eq!(set.matched("a", false), Some(0), "{whole}");
        assert_eq!(set.matched(".", true), Some(0), "{whole}");
    }
}

#[test]
fn malformed_patterns_are_errors_with_their_place() {
    for bad in ["", "!x", "a\0", "{a", "a}", "[a", "a/../b", "x\\", "~/x", "{a,}", "[[:alpha:]]"] {
        let error = PatternSet::new(&["fine", bad]).unwrap_err();
        assert_eq!(error.index, 1, "{bad}");
        assert!(!error.message.is_empty());
    }
    assert!(PatternSet::new(&["{a,b}".repeat(12)]).is_err());
    assert!(PatternSet::new(&["x".repeat(5000)]).is_err());
    assert!(PatternSet::new(&["{".repeat(4000)]).is_err());
}
