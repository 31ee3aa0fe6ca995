//! `glob` and `grep`.

use std::fs::{self, File};
use std::os::unix::fs::symlink;

use serde_json::json;

use super::{Bay, paths};
use crate::call::Code;

#[test]
fn glob_honours_ignore_files_each_in_its_folder() {
    let bay = Bay::new();
    bay.put(".gitignore", "*.tmp\n/top-only.txt\n");
    bay.put("sub/.gitignore", "local.txt\n");
    for name in
        ["a.tmp", "sub/b.tmp", "top-only.txt", "sub/top-only.txt", "local.txt", "sub/local.txt", "sub/deep/local.txt"]
    {
        bay.put(name, "");
    }
    let found = bay.good("glob", json!({"pattern": "**/*", "sort": "path"}));
    assert_eq!(paths(&found), ["local.txt", "src/a.txt", "sub/top-only.txt"]);
    let more = paths(&bay.good("glob", json!({"pattern": "**/*", "include_ignored": true, "include_hidden": true})));
    assert!(
        more.contains(&"a.tmp".to_owned()) && !more.iter().any(|path| path.contains("vault") || path.contains(".env"))
    );
    assert!(paths(&bay.good("glob", json!({"pattern": "*", "path": "sub/deep"}))).is_empty(), "rules from above hold");
    for name in [".ignore", ".stockadeignore", ".shiroignore"] {
        bay.put(name, format!("hide{name}.txt\n"));
        bay.put(&format!("hide{name}.txt"), "");
    }
    assert!(paths(&bay.good("glob", json!({"pattern": "hide*"}))).is_empty());
}

#[test]
fn glob_sorts_pages_and_speaks_the_dialect() {
    let bay = Bay::new();
    for (name, age) in [("b.log", 50), ("a.log", 50), ("old.log", 900), ("new.log", 1)] {
        let time = std::time::SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(1_750_000_000 - age);
        File::options().write(true).open(bay.put(name, "")).unwrap().set_modified(time).unwrap();
    }
    assert_eq!(paths(&bay.good("glob", json!({"pattern": "*.log"}))), ["new.log", "a.log", "b.log", "old.log"]);
    let page = bay.good("glob", json!({"pattern": "*.log", "sort": "path", "offset": 1, "limit": 2}));
    assert_eq!(
        (paths(&page), page.truncated.unwrap().omitted_results),
        (vec!["b.log".into(), "new.log".into()], Some(1))
    );
    for name in ["a1.rs", "ab.rs", "x/y/a1.rs", "k.ts", "x/k.tsx"] {
        bay.put(&format!("d/{name}"), "");
    }
    let found = |pattern: &str| {
        let mut found = paths(&bay.good("glob", json!({"pattern": pattern, "path": "d"})));
        found.sort();
        found.join(" ")
    };
    assert_eq!(found("a?.rs"), "d/a1.rs d/ab.rs d/x/y/a1.rs");
    assert_eq!(found("**/a[0-9].rs"), "d/a1.rs d/x/y/a1.rs");
    assert_eq!(found("**/*.{ts,tsx}"), "d/k.ts d/x/k.tsx");
    assert_eq!(found("x/*"), "d/x/k.tsx");
    for bad in ["../*", "src/../../x", "/etc/*", ""] {
        assert_eq!(bay.code("glob", json!({"pattern": bad})), Code::InvalidArguments, "{bad}");
    }
    assert_eq!(bay.code("glob", json!({"pattern": "*", "path": "src/a.txt"})), Code::NotRegular);
    let none = bay.good("glob", json!({"pattern": "*.zig"}));
    assert!(none.details["total"] == 0 && !none.text.is_empty());
}

#[test]
fn searches_never_show_secrets_version_control_or_places_behind_links() {
    let mut bay = Bay::new();
    bay.options.hidden.clear();
    let secret = [
        ".env",
        ".env.local",
        "conf/server.pem",
        "tls.KEY",
        "id_rsa",
        "keys/me.p12",
        ".git/config",
        "node_modules/p/x.js",
    ];
    for name in secret.iter().chain(&[".env.example", "conf/readme.md"]) {
        bay.put(name, "cobalt\n");
    }
    let outside = tempfile::tempdir().unwrap();
    fs::write(outside.path().join("note.md"), "cobalt\n").unwrap();
    symlink(outside.path(), bay.root().join("door")).unwrap();
    symlink(".", bay.root().join("loop")).unwrap();
    let all = json!({"pattern": "**/*", "include_hidden": true, "include_ignored": true, "sort": "path"});
    assert_eq!(paths(&bay.good("glob", all)), [".env.example", "conf/readme.md", "src/a.txt", "vault/key"]);
    let grep = bay.good("grep", json!({"pattern": "cobalt", "include_hidden": true, "include_ignored": true}));
    assert_eq!(paths(&grep), [".env.example", "conf/readme.md"]);
    for place in [".env", ".git", "node_modules/p", "id_rsa"] {
        let outcome = bay.good("grep", json!({"pattern": "cobalt", "path": place, "include_hidden": true}));
        assert!(outcome.details["total"] == 0 && !outcome.text.contains("cobalt"), "{place}: {}", outcome.text);
    }
    bay.options.secret_globs = vec!["*.md".to_owned()];
    bay.options.exclude_generated = true;
    bay.put("build/gen.rs", "cobalt\n");
    assert!(paths(&bay.good("grep", json!({"pattern": "cobalt"}))).is_empty());
}

#[test]
fn a_nested_repository_does_not_inherit_and_pipes_do_not_hang() {
    let bay = Bay::new();
    bay.put(".gitignore", "*\n!.gitignore\n");
    bay.put("kid/.git/info/exclude", "skip.md\n");
    bay.put("kid/AGENTS.md", "r\n");
    bay.put("kid/skip.md", "r\n");
    bay.put("kid/deep/more.md", "r\n");
    let found = |path: &str| paths(&bay.good("glob", json!({"pattern": "**/*.md", "path": path, "sort": "path"})));
    assert_eq!(found("kid"), ["kid/AGENTS.md", "kid/deep/more.md"]);
    assert_eq!(found("kid/deep"), ["kid/deep/more.md"]);
    assert!(found(".").is_empty());
    fs::remove_file(bay.root().join(".gitignore")).unwrap();
    for name in ["notes.md", "src/.gitignore", ".ignore", "vault2"] {
        nix::unistd::mkfifo(&bay.root().join(name), nix::sys::stat::Mode::S_IRWXU).unwrap();
    }
    assert_eq!(paths(&bay.good("grep", json!({"pattern": "plain"}))), ["src/a.txt"]);
    bay.good("ls", json!({"path": "src", "include_ignored": false}));
}

#[test]
fn grep_rows_context_and_modes() {
    let bay = Bay::new();
    bay.put("c.txt", (1..=20).map(|n| format!("row {n}\n")).collect::<String>());
    let context = bay.good("grep", json!({"pattern": "row (3|15)$", "path": "c.txt", "context": 1}));
    assert_eq!(
        context.text,
        "c.txt-2-row 2\nc.txt:3:row 3\nc.txt-4-row 4\n--\nc.txt-14-row 14\nc.txt:15:row 15\nc.txt-16-row 16"
    );
    assert_eq!(context.details["rows"][0], json!({"path": "c.txt", "line": 2, "text": "row 2", "kind": "context"}));
    let before = bay.good("grep", json!({"pattern": "row 10", "path": "c.txt", "before": 2, "after": 0}));
    assert_eq!(before.text, "c.txt-8-row 8\nc.txt-9-row 9\nc.txt:10:row 10");
    bay.put("p.txt", "hit\nmiss\nhit hit\n");
    bay.put("q.txt", "hit\n");
    assert_eq!(bay.good("grep", json!({"pattern": "hit", "mode": "files"})).text, "p.txt\nq.txt");
    let count = bay.good("grep", json!({"pattern": "hit", "output_mode": "count"}));
    assert_eq!((count.text.as_str(), &count.details["rows"][0]["count"]), ("p.txt:2\nq.txt:1", &json!(2)));
    assert_eq!(bay.good("grep", json!({"pattern": "HIT", "caseInsensitive": true, "limit": 1})).details["total"], 3);
    let page = bay.good("grep", json!({"pattern": "row", "limit": 2, "offset": 5}));
    assert_eq!((page.text.lines().next(), page.truncated.unwrap().omitted_results), (Some("c.txt:6:row 6"), Some(13)));
    bay.put("m.py", "def f(\n    x):\n");
    bay.put("m.rs", "// def f(\n");
    let multi = bay.good("grep", json!({"pattern": r"f\(.*?x\)", "multiline": true, "glob": "*.py"}));
    assert_eq!(multi.details["rows"][0]["line"], 1);
    let typed = bay.good("grep", json!({"pattern": "def f", "type": "py", "line_numbers": false}));
    assert_eq!(typed.text, "m.py:def f(");
    assert_eq!(bay.code("grep", json!({"pattern": "x", "type": "no-such-type"})), Code::InvalidArguments);
    assert_eq!(paths(&bay.good("grep", json!({"pattern": "def f", "glob": "!*.py"}))), ["m.rs"]);
}

#[test]
fn grep_is_bounded_and_skips() {
    let bay = Bay::new();
    bay.put("min.js", "pelican".to_owned() + &"z".repeat(3000) + "\n");
    let text = bay.good("grep", json!({"pattern": "pelican"})).details["rows"][0]["text"].to_string();
    assert_eq!(text.matches('z').count(), 493);
    bay.put("wide", ("heron ".to_owned() + &"h".repeat(400) + "\n").repeat(400));
    let wide = bay.good("grep", json!({"pattern": "heron", "limit": 400, "max_result_chars": 10_000}));
    let cut = wide.truncated.unwrap();
    assert!(wide.text.len() <= 10_400 && cut.reason == "result_size" && cut.omitted_results.unwrap() > 300);
    bay.put("bin.dat", b"condor\0condor\n");
    bay.put("large", b"condor\n".iter().copied().chain(vec![b'y'; 2 << 20]).collect::<Vec<u8>>());
    bay.put("fits", b"condor\n".iter().copied().chain(vec![b'y'; (2 << 20) - 7]).collect::<Vec<u8>>());
    let outcome = bay.good("grep", json!({"pattern": "condor"}));
    assert_eq!(
        (paths(&outcome), &outcome.details["skipped"]),
        (vec!["fits".into()], &json!({"binary": 1, "large": 1}))
    );
}

#[test]
fn search_text_is_literal_and_bounded() {
    let bay = Bay::new();
    bay.put("t.txt", "Price: 3.50 (net)\nprice: 3x50\n");
    assert_eq!(bay.good("search_text", json!({"query": "PRICE: 3.50 (NET)"})).text, "t.txt:1:Price: 3.50 (net)");
    assert_eq!(bay.good("search_text", json!({"query": "price: 3.50", "regex": true})).details["total"], 2);
    assert!(bay.call("search_text", json!({"query": "(", "regex": true})).refusal.unwrap().message.contains("`query`"));
    bay.good("search_text", json!({"query": "("}));
    bay.put("rows", "plover\n".repeat(200));
    assert_eq!(bay.good("search_text", json!({"query": "plover"})).details["returned"], 80);
    bay.put("wide", format!("osprey {}\n", "o".repeat(300)).repeat(200));
    assert!(bay.good("search_text", json!({"query": "osprey"})).text.chars().count() <= 12_300);
}

#[test]
fn patterns_are_data_and_stay_quick() {
    let bay = Bay::new();
    bay.put("lit", "x --pre=./p.sh y\n--files\n");
    for pattern in ["--pre=./p.sh", "--files"] {
        assert_eq!(paths(&bay.good("grep", json!({"pattern": pattern}))), ["lit"]);
    }
    for bad in ["(open", r"(\w+) \1", "(?=x)", "[", "(?P<n", "a{99999999}", "a\nb"] {
        let refusal = bay.call("grep", json!({"pattern": bad})).refusal.unwrap_or_else(|| panic!("{bad}"));
        assert_eq!(refusal.code, Code::InvalidArguments, "{bad}");
        assert!(
            bad.len() < 5
                || !["\\1", "(?="].iter().any(|w| bad.contains(w))
                || refusal.hint.unwrap().contains("engine")
        );
    }
    assert_eq!(bay.code("grep", json!({"pattern": "x", "engine": "backtracking"})), Code::Unavailable);
    bay.put("big", "a".repeat(200_000) + "!\n");
    bay.put("flat", ("key".to_owned() + &"x".repeat(997)).repeat(1500) + "\n");
    let letters = r"\p{L}{1000}".repeat(20);
    for pattern in [
        "(a+)+$",
        "(a|aa)+$",
        r"(?:\w{1,200}){1,200}",
        "(?:(?:(?:a{1,99}){1,99}){1,99}){1,99}",
        ".*.*.*=.*",
        "(.*)*(.*)*(.*)*=",
        "(x+x+)+y",
        &letters,
        r"\w{1,200}!",
        "x{1,900}y",
        r"(?:.{1,90}){1,5}Q",
        r"[^b]{1,900}b\b",
    ] {
        let begin = std::time::Instant::now();
        let outcome = bay.call("grep", json!({"pattern": pattern}));
        assert!(outcome.ok || outcome.refusal.is_some_and(|r| r.code == Code::InvalidArguments), "{pattern}");
        println!("{:>6} ms {pattern:.40}", begin.elapsed().as_millis());
        assert!(begin.elapsed().as_secs() < 30, "{pattern}: {:?}", begin.elapsed());
    }
}
