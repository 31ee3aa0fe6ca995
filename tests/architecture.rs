//! The house rules that a machine can check. A rule that hinders is changed here, with its reason, and nowhere else.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

const VOCABULARY: &[&str] = &["limits", "access", "verdict", "confinement", "call"];

/// Room, rooms it may import (the vocabulary comes on top), crates from outside it may use (`std` comes on top).
#[rustfmt::skip]
const ROOMS: &[(&str, &[&str], &[&str])] = &[
    ("limits",      &[], &["serde"]),
    ("access",      &[], &["serde"]),
    ("verdict",     &[], &["serde"]),
    ("confinement", &[], &["serde"]),
    ("call",        &[], &["serde", "serde_json"]),
    ("sys",         &[], &["libc", "nix"]),
    ("sysnum",      &[], &["libc"]),
    ("path",        &["sys"], &["globset", "libc", "nix", "regex", "similar", "thiserror"]),
    ("policy",      &["path"], &["annotate_snippets", "globset", "nix", "regex", "serde", "serde_json", "serde_spanned", "sha2", "thiserror", "toml"]),
    ("profile",     &["path", "sys", "sysnum"], &["libc", "serde", "serde_json", "thiserror", "toml"]),
    ("confine",     &["sys", "sysnum"], &["caps", "landlock", "libc", "nix", "seccompiler", "thiserror"]),
    ("wire",        &["sys"], &["libc", "nix", "serde", "serde_json", "thiserror"]),
    // Of confine the type that proves the shut door alone; a test below looks.
    ("tools",       &["path", "confine"], &["base64", "globset", "grep_matcher", "grep_regex", "grep_searcher", "ignore", "libc", "memchr", "nix", "regex", "rustix", "serde", "serde_json", "sha2", "similar", "tempfile"]),
    ("launcher",    &["sys", "sysnum", "confine", "wire", "worker"], &["caps", "libc", "nix", "serde", "serde_json", "thiserror"]),
    ("worker",      &["sys", "sysnum", "confine", "wire", "tools", "path"], &["base64", "libc", "nix", "serde", "serde_json", "thiserror"]),
    ("supervisor",  &["sys", "path", "policy", "profile", "confine", "wire", "tools", "launcher"], &["base64", "libc", "nix", "serde", "serde_json", "sha2", "tempfile", "thiserror", "tokio", "tracing"]),
    ("mcp",         &["supervisor", "policy", "profile", "tools"], &["nix", "rmcp", "serde", "serde_json", "tokio", "tracing"]),
    ("cli",         &["mcp", "supervisor", "policy", "profile", "tools"], &["clap", "clap_complete", "clap_mangen", "nix", "serde", "serde_json", "tokio", "tracing", "tracing_subscriber"]),
];

/// Lines of one file, tests included.
const LINES: usize = 600;

struct Source {
    /// Relative to `src`, with slashes.
    name: String,
    room: String,
    /// Without comments, strings and the tests at the end.
    code: String,
    whole: String,
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn files(below: &Path, found: &mut Vec<PathBuf>) {
    let mut entries: Vec<_> = fs::read_dir(below).unwrap().map(|e| e.unwrap().path()).collect();
    entries.sort();
    for path in entries {
        if path.is_dir() {
            files(&path, found);
        } else if path.extension().is_some_and(|e| e == "rs") {
            found.push(path);
        }
    }
}

fn sources() -> Vec<Source> {
    let src = root().join("src");
    let mut found = Vec::new();
    files(&src, &mut found);
    assert!(found.len() > 10, "the sources were not found");
    let read = |path: PathBuf| {
        let name = path.strip_prefix(&src).unwrap().to_str().unwrap().to_owned();
        let room = name.split('/').next().unwrap().trim_end_matches(".rs").to_owned();
        let whole = fs::read_to_string(&path).unwrap();
        let code = bare(whole.split("#[cfg(test)]\nmod ").next().unwrap());
        Source { name, room, code, whole }
    };
    found.into_iter().map(read).collect()
}

/// Code without comments and without the content of strings. Good for rustfmt's layout, which is what we have.
fn bare(text: &str) -> String {
    let bytes: Vec<char> = text.chars().collect();
    let at = |i: usize| bytes.get(i).copied().unwrap_or('\0');
    let (mut out, mut i) = (String::new(), 0);
    while i < bytes.len() {
        match at(i) {
            '/' if at(i + 1) == '/' => {
                while i < bytes.len() && at(i) != '\n' {
                    i += 1;
                }
            }
            'r' if (at(i + 1) == '"' || at(i + 1) == '#') && !ident(at(i.wrapping_sub(1))) => {
                let mut hashes = 0;
                while at(i + 1 + hashes) == '#' {
                    hashes += 1;
                }
                i += 1 + hashes;
                if at(i) == '"' {
                    i += 1;
                    while i < bytes.len() && !(at(i) == '"' && (1..=hashes).all(|n| at(i + n) == '#')) {
                        i += 1;
                    }
                    i += 1 + hashes;
                    out.push_str("\"\"");
                }
            }
            '"' => {
                i += 1;
                while i < bytes.len() && at(i) != '"' {
                    i += if at(i) == '\\' { 2 } else { 1 };
                }
                i += 1;
                out.push_str("\"\"");
            }
            '\'' if at(i + 1) == '\\' || at(i + 2) == '\'' => {
                i += 2;
                while i < bytes.len() && at(i) != '\'' {
                    i += 1;
                }
                i += 1;
                out.push_str("' '");
            }
            c => {
                out.push(c);
                i += 1;
            }
        }
    }
    out
}

fn ident(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// Byte offsets after each occurrence of `word` that is not part of a longer identifier in front.
fn after<'a>(code: &'a str, word: &'a str) -> impl Iterator<Item = &'a str> {
    code.match_indices(word).filter_map(move |(at, _)| {
        let before = code[..at].chars().next_back().unwrap_or(' ');
        (!ident(before) && before != ':').then(|| &code[at + word.len()..])
    })
}

fn has_word(code: &str, word: &str) -> bool {
    after(code, word).any(|rest| !rest.starts_with(ident))
}

/// First names after `crate::`, those in braces too.
fn imports(code: &str) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for rest in after(code, "crate::") {
        let Some(group) = rest.strip_prefix('{') else {
            names.insert(rest.chars().take_while(|c| ident(*c)).collect());
            continue;
        };
        let (mut depth, mut name, mut first) = (0, String::new(), true);
        for c in group.chars() {
            match c {
                '{' => depth += 1,
                '}' if depth == 0 => break,
                '}' => depth -= 1,
                ',' if depth == 0 => {
                    names.insert(std::mem::take(&mut name));
                    first = true;
                    continue;
                }
                c if ident(c) && first && depth == 0 => name.push(c),
                c if !name.is_empty() && !c.is_whitespace() => first = false,
                _ => {}
            }
        }
        names.insert(name);
    }
    names.remove("");
    names
}

fn row(room: &str) -> (&'static [&'static str], &'static [&'static str]) {
    let found = ROOMS.iter().find(|(name, _, _)| *name == room);
    let (_, rooms, crates) = found.unwrap_or_else(|| panic!("the room {room} is not in the table of this test"));
    (rooms, crates)
}

#[track_caller]
fn none(rule: &str, broken: &[String]) {
    assert!(broken.is_empty(), "{rule}:\n  {}", broken.join("\n  "));
}

#[test]
fn rooms_import_only_what_the_table_allows() {
    let known: Vec<&str> = ROOMS.iter().map(|(name, _, _)| *name).collect();
    let mut broken = Vec::new();
    for source in sources().iter().filter(|s| s.room != "lib" && s.room != "main") {
        let (allowed, _) = row(&source.room);
        for name in imports(&source.code) {
            let fine = name == source.room || VOCABULARY.contains(&name.as_str()) || allowed.contains(&name.as_str());
            if known.contains(&name.as_str()) && !fine {
                broken.push(format!("{} uses {name}", source.name));
            }
        }
    }
    none("imports against the table", &broken);
}

#[test]
fn rooms_use_only_the_outside_crates_of_the_table() {
    let manifest = fs::read_to_string(root().join("Cargo.toml")).unwrap();
    let table = manifest.split("\n[dependencies]\n").nth(1).unwrap().split("\n[").next().unwrap();
    let crates: Vec<String> =
        table.lines().filter_map(|l| l.split_once(" =")).map(|(name, _)| name.trim().replace('-', "_")).collect();
    assert!(crates.iter().any(|c| c == "tokio"), "the dependencies were not found");
    let all = sources();
    let mut broken = Vec::new();
    for source in all.iter().filter(|s| s.room != "lib" && s.room != "main") {
        let (_, allowed) = row(&source.room);
        for name in crates.iter().filter(|name| !allowed.contains(&name.as_str())) {
            let own = all.iter().any(|s| s.room == source.room && has_word(&s.code, &format!("mod {name}")));
            if !own && after(&source.code, &format!("{name}::")).next().is_some() {
                broken.push(format!("{} uses the crate {name}", source.name));
            }
        }
    }
    none("crates against the table", &broken);
}

#[test]
fn unsafe_lives_in_one_house() {
    let bad = |s: &&Source| s.name != "sys.rs" && !s.name.starts_with("sys/") && has_word(&s.code, "unsafe");
    none("unsafe outside src/sys.rs", &sources().iter().filter(bad).map(|s| s.name.clone()).collect::<Vec<_>>());
}

#[test]
fn processes_are_made_in_three_places() {
    // Each word and the only files that may say it: one place asks for the launcher, one forks, one starts programs.
    let rules: &[(&str, &[&str])] = &[
        ("Command::new", &["supervisor/spawn.rs", "worker/child.rs"]),
        ("fork", &["sys.rs", "launcher/"]),
        ("vfork", &[]),
        ("posix_spawn", &["sys.rs", "worker/child.rs"]),
        ("execve", &["sys.rs", "worker/child.rs"]),
        ("execveat", &["sys.rs", "worker/child.rs", "supervisor/spawn.rs"]),
        ("fexecve", &["sys.rs", "supervisor/spawn.rs"]),
        // The filter of the name guard goes on a program between fork and exec.
        ("pre_exec", &["sys/notify.rs"]),
    ];
    let mut broken = Vec::new();
    for source in &sources() {
        for (word, places) in rules {
            let called = source.code.match_indices(word).any(|(at, _)| {
                let before = source.code[..at].chars().next_back().unwrap_or(' ');
                !ident(before) && source.code[at + word.len()..].starts_with('(')
            });
            if called && !places.iter().any(|place| source.name.starts_with(place)) {
                broken.push(format!("{} calls {word}", source.name));
            }
        }
    }
    none("processes made elsewhere", &broken);
}

#[test]
fn tool_bodies_run_in_the_worker_alone() {
    let bad = |s: &&Source| !["worker", "tools"].contains(&s.room.as_str()) && s.code.contains(".run)(");
    none(
        "run pointers called outside worker",
        &sources().iter().filter(bad).map(|s| s.name.clone()).collect::<Vec<_>>(),
    );
    // The supervisor may look at what this kernel offers; the door itself is for workers.
    let enters = |s: &&Source| !["worker", "confine"].contains(&s.room.as_str()) && s.code.contains("confine::enter");
    let more = |s: &&Source| s.room == "tools" && s.code.replace("confine::Confined", "").contains("confine::");
    none("tools take the type alone", &sources().iter().filter(more).map(|s| s.name.clone()).collect::<Vec<_>>());
    none("confine::enter outside worker", &sources().iter().filter(enters).map(|s| s.name.clone()).collect::<Vec<_>>());
}

#[test]
fn files_stay_small() {
    let mut all = Vec::new();
    files(&root().join("src"), &mut all);
    files(&root().join("tests"), &mut all);
    let mut broken = Vec::new();
    for path in all {
        let lines = fs::read_to_string(&path).unwrap().lines().count();
        if lines > LINES {
            broken.push(format!("{} has {lines} lines", path.strip_prefix(root()).unwrap().display()));
        }
    }
    none("files over the limit", &broken);
}

#[test]
fn only_the_ways_in_print() {
    let words = ["println!", "print!", "eprintln!", "eprint!", "dbg!"];
    let mut broken = Vec::new();
    for source in &sources() {
        // `run` hands the three streams on as descriptors; nothing is written to them.
        let outside = !["cli", "mcp"].contains(&source.room.as_str()) && source.name != "supervisor/run.rs";
        for word in words.into_iter().filter(|_| !source.name.contains("tests")) {
            if after(&source.code, word).next().is_some() {
                broken.push(format!("{} says {word}", source.name));
            }
        }
        if outside && source.code.contains("io::stdout()") {
            broken.push(format!("{} writes to standard output", source.name));
        }
    }
    none("printing", &broken);
}

#[test]
fn nothing_that_confines_has_a_default() {
    let mut broken = Vec::new();
    for source in &sources() {
        for name in ["Policy", "Profile", "Confinement", "SessionPlan"] {
            if has_word(&source.code, &format!("Default for {name}")) {
                broken.push(format!("{}: impl Default for {name}", source.name));
            }
            let Some(at) = source.code.find(&format!("pub struct {name} {{")) else { continue };
            let attributes = source.code[..at].rsplit("\n\n").next().unwrap_or_default();
            if attributes.rsplit('}').next().unwrap_or_default().contains("Default") {
                broken.push(format!("{}: {name} derives Default", source.name));
            }
        }
    }
    none("a default would permit", &broken);
}

#[test]
fn the_map_names_every_file() {
    let map = fs::read_to_string(root().join("src/README.md")).unwrap();
    let map = map.split("## Code map").nth(1).unwrap_or_default().split("\n## ").next().unwrap_or_default().to_owned();
    let named = |room: &str, stem: &str| {
        let line = map.lines().find(|l| l.trim_start().starts_with(&format!("{room}:"))).unwrap_or_default();
        line.split(|c: char| !ident(c)).any(|word| word == stem)
    };
    let (mut missing, mut whole) = (Vec::new(), std::collections::BTreeMap::<String, Vec<String>>::new());
    for source in sources() {
        let name = source.name.trim_end_matches(".rs");
        let (room, stem) = name.rsplit_once('/').unwrap_or(("src", name));
        whole.entry(room.to_owned()).or_default().push(stem.to_owned());
        if !named(room, stem) {
            missing.push(source.name.clone());
        }
    }
    let whole: String = whole.iter().map(|(room, stems)| format!("{room}: {}\n", stems.join(" "))).collect();
    assert!(missing.is_empty(), "src/README.md misses {missing:?}; below \"## Code map\" it should say\n{whole}");
}

#[test]
fn every_file_says_what_it_is_for() {
    let bad = |s: &&Source| s.room != "main" && !s.whole.starts_with("//!");
    none("no module doc", &sources().iter().filter(bad).map(|s| s.name.clone()).collect::<Vec<_>>());
}

#[test]
fn the_reader_of_sources_sees_what_it_should() {
    let code =
        bare("let a = \"unsafe // \\\" fork(\"; // unsafe\nlet b = r#\"unsafe \"x\"#; let c = '\"'; crate::x::y();");
    assert!(!code.contains("unsafe") && code.contains("let b") && code.contains("crate::x"), "{code}");
    let names = imports("use crate::{call::{A, B}, sys, limits::C as D};\nuse crate::path::X;\n");
    assert_eq!(names.into_iter().collect::<Vec<_>>(), ["call", "limits", "path", "sys"]);
    assert!(
        has_word("x = unsafe {", "unsafe") && !has_word("unsafe_code", "unsafe") && !has_word("notunsafe ", "unsafe")
    );
}
