//! Laws over the table of tools, and the bodies on real folders. The door is a stand-in here: what it stops is proved by
//! the tests of the sandbox itself.

use std::fs::{self, File};
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};

use serde_json::{Map, Value, json};

use super::args::{Arg, Features, Kind, parse_object, schema, validate};
use super::{Entry, Given, GivenPath, Need, TOOLS, find};
use crate::access::RiskClass;
use crate::call::{Code, Kept, Outcome, Program, ProgramEnd, Programs, Refusal, ToolOptions};
use crate::confine::Confined;

/// A worker's view of programs: real ones, without a sandbox, for a moment.
#[derive(Default)]
struct Fake {
    missing: Vec<&'static str>,
    seen: Vec<Program>,
}

impl Programs for Fake {
    fn run(&mut self, program: &Program) -> ProgramEnd {
        self.seen.push(program.clone());
        if self.missing.contains(&program.argv[0].as_str()) {
            return ProgramEnd { not_started: Some(2), ..ProgramEnd::default() };
        }
        let stdout = Kept { head: program.argv.join("|").into_bytes(), ..Kept::default() };
        ProgramEnd { exit_code: Some(0), stdout, duration_ms: 1, ..ProgramEnd::default() }
    }
}

fn options() -> ToolOptions {
    ToolOptions {
        strict: false,
        overwrite: "flag".to_owned(),
        shrink: "warn".to_owned(),
        exclude_generated: false,
        hidden: vec!["**/.env".to_owned(), "vault/**".to_owned()],
        secret_globs: Vec::new(),
        tracked: false,
        known_sha256: None,
    }
}

/// A workspace of its own.
struct Bay {
    dir: tempfile::TempDir,
    options: ToolOptions,
}

impl Bay {
    fn new() -> Bay {
        let bay = Bay { dir: tempfile::tempdir().unwrap(), options: options() };
        bay.put("src/a.txt", "plain\n");
        bay.put(".env", "TOKEN=otter\n");
        bay.put("vault/key", "walrus\n");
        bay
    }
    fn root(&self) -> &Path {
        self.dir.path()
    }
    fn put(&self, path: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.root().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, content).unwrap();
        path
    }
    fn text(&self, path: &str) -> String {
        String::from_utf8(fs::read(self.root().join(path)).unwrap()).unwrap()
    }

    /// What the supervisor does, without judging: opens what a plan names.
    fn open(&self, claim: &str, need: Need) -> GivenPath {
        let real = self.root().join(claim);
        let shown = if claim == "." { ".".to_owned() } else { claim.trim_end_matches('/').to_owned() };
        let mut given =
            GivenPath { shown, absolute: real.clone(), file: None, parent: None, missing: vec![], name: String::new() };
        if let Need::WriteFile { .. } = need {
            let mut parent = real.parent().unwrap().to_owned();
            while !parent.exists() {
                given.missing.insert(0, parent.file_name().unwrap().to_str().unwrap().to_owned());
                parent = parent.parent().unwrap().to_owned();
            }
            given.name = real.file_name().unwrap().to_str().unwrap().to_owned();
            given.parent = Some(File::open(parent).unwrap().into());
        } else {
            use std::os::unix::fs::OpenOptionsExt as _;
            let nonblocking = nix::fcntl::OFlag::O_NONBLOCK.bits();
            given.file = fs::OpenOptions::new().read(true).custom_flags(nonblocking).open(&real).ok().map(Into::into);
        }
        given
    }

    fn try_call(&self, tool: &str, args: Value) -> Result<Outcome, Refusal> {
        let entry = find(tool).unwrap();
        let args = checked(entry, args.as_object().unwrap().clone())?;
        let plan = (entry.plan)(&args)?;
        let paths = plan.paths.iter().map(|(claim, need)| self.open(claim, *need)).collect();
        let given = Given { paths, options: self.options.clone() };
        Ok((entry.run)(&Confined::for_tests(), args, given, &mut Fake::default()))
    }
    fn call(&self, tool: &str, args: Value) -> Outcome {
        self.try_call(tool, args).unwrap_or_else(Outcome::from)
    }
    fn good(&self, tool: &str, args: Value) -> Outcome {
        let outcome = self.call(tool, args);
        assert!(outcome.ok, "{tool}: {outcome:?}");
        outcome
    }
    fn code(&self, tool: &str, args: Value) -> Code {
        let outcome = self.call(tool, args);
        outcome.refusal.unwrap_or_else(|| panic!("{tool} was not refused: {}", outcome.text)).code
    }
}

fn checked(entry: &Entry, args: Map<String, Value>) -> Result<Map<String, Value>, Refusal> {
    validate(entry.spec.name, args, entry.spec.args, &Features::default())
}

fn paths(outcome: &Outcome) -> Vec<String> {
    outcome.details["rows"].as_array().unwrap().iter().map(|row| row["path"].as_str().unwrap().to_owned()).collect()
}

// ---------------------------------------------------------------------------------------------- laws of the table

#[test]
fn names_are_sorted_unique_and_well_formed() {
    let names: Vec<&str> = TOOLS.iter().map(|tool| tool.spec.name).collect();
    assert!(names.is_sorted_by(|a, b| a < b), "{names:?}");
    let mut all: Vec<&str> = names.clone();
    all.extend(TOOLS.iter().flat_map(|tool| tool.spec.aliases));
    all.sort_unstable();
    assert!(all.windows(2).all(|pair| pair[0] != pair[1]), "a name or alias twice: {all:?}");
    for name in names {
        let good = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
        assert!(!name.is_empty() && name.len() <= 64 && name.chars().all(good), "{name}");
    }
    for tool in TOOLS {
        assert!(tool.spec.aliases.iter().all(|alias| find(alias).unwrap().spec.name == tool.spec.name));
        assert!(["read", "search", "write", "shell"].contains(&tool.spec.profile), "{}", tool.spec.name);
        assert!(!tool.spec.summary.is_empty());
    }
    assert!(find("no_such").is_none() && find("").is_none());
}

fn arguments_are_well_formed(tool: &str, table: &[Arg]) {
    let mut spellings: Vec<&str> = table.iter().flat_map(|arg| arg.aliases.iter().copied().chain([arg.name])).collect();
    spellings.sort_unstable();
    assert!(spellings.windows(2).all(|pair| pair[0] != pair[1]), "{tool}: a spelling twice: {spellings:?}");
    for arg in table {
        assert!(arg.about.ends_with('.') && ["", "daemons", "not-strict"].contains(&arg.when), "{tool}.{}", arg.name);
        if let Kind::Objects { fields, .. } = arg.kind {
            arguments_are_well_formed(tool, fields);
        }
    }
}

#[test]
fn every_example_validates_plans_and_is_strict() {
    for tool in TOOLS {
        let spec = tool.spec;
        arguments_are_well_formed(spec.name, spec.args);
        let example = parse_object(spec.example).unwrap();
        let args = checked(tool, example.clone()).unwrap();
        let plan = (tool.plan)(&args).unwrap();
        if spec.class == RiskClass::ReadOnlyLocal {
            assert!(!plan.paths.iter().any(|(_, need)| matches!(need, Need::WriteFile { .. })), "{}", spec.name);
            assert!(plan.command.is_none(), "{}", spec.name);
        }
        let mut more = example;
        more.insert("no_such_argument".to_owned(), json!(1));
        assert_eq!(checked(tool, more).unwrap_err().code, Code::InvalidArguments);
        let schema = schema(spec.args, &Features::default());
        assert_eq!(schema["additionalProperties"], false);
        assert!(!schema.to_string().contains("outside_sandbox"));
    }
}

#[test]
fn every_argument_is_known_to_its_tool() {
    let on = Features { daemons: true, strict: false };
    for tool in TOOLS {
        for arg in tool.spec.args {
            let mut args = parse_object(tool.spec.example).unwrap();
            let value = match arg.kind {
                Kind::Text { min, .. } => Value::from("x".repeat(min.max(1))),
                Kind::Path => Value::from("x"),
                Kind::Int { min, .. } => Value::from(min.max(1)),
                Kind::Bool => Value::from(false),
                Kind::OneOf(words) => Value::from(words[0]),
                Kind::Objects { .. } | Kind::Texts { .. } => continue,
            };
            if arg.name == "end_line" {
                args.remove("limit");
            }
            args.insert(arg.name.to_owned(), value);
            let args = validate(tool.spec.name, args, tool.spec.args, &on).unwrap();
            assert!((tool.plan)(&args).is_ok(), "{}.{}", tool.spec.name, arg.name);
        }
    }
}

// ---------------------------------------------------------------------------------------------- read_file

#[test]
fn read_file_numbers_lines_and_says_how_to_go_on() {
    let bay = Bay::new();
    let body: String = (1..=30).map(|n| format!("line {n}\n")).collect();
    bay.put("n.txt", &body);
    let whole = bay.good("read_file", json!({"path": "n.txt"}));
    assert!(whole.text.starts_with("     1\tline 1\n     2\tline 2\n") && whole.truncated.is_none());
    assert_eq!((&whole.details["total_lines"], &whole.details["last_line"]), (&json!(30), &json!(30)));
    let part = bay.good("read_file", json!({"path": "n.txt", "lineStart": 11, "limit": 10}));
    assert!(part.text.ends_with("[Showing lines 11-20 of 30. Use offset=21 to continue reading.]"));
    assert_eq!(part.truncated.unwrap().omitted_lines, Some(10));
    assert!(!bay.good("read_file", json!({"path": "n.txt", "offset": 10, "end_line": 12})).text.contains("line 13"));
    let past = bay.call("read_file", json!({"path": "n.txt", "offset": 31}));
    assert!(past.refusal.unwrap().message.contains("30"));
    assert_eq!(bay.code("read_file", json!({"path": "n.txt", "offset": 5, "end_line": 4})), Code::InvalidArguments);
    bay.put("none", "");
    assert_eq!(bay.good("read_file", json!({"path": "none"})).details["total_lines"], 0);
}

#[test]
fn read_file_cuts_lines_and_text_by_characters() {
    let bay = Bay::new();
    bay.put("long", "é".repeat(2600) + "\n" + &"ü".repeat(2000) + "\nend\n");
    let outcome = bay.good("read_file", json!({"path": "long"}));
    let lines: Vec<&str> = outcome.text.lines().map(|line| line.split_once('\t').unwrap().1).collect();
    assert!(lines[0].starts_with(&"é".repeat(2000)) && lines[0].matches('é').count() == 2000 && lines[0].len() > 4000);
    assert_eq!((lines[1], lines[2]), ("ü".repeat(2000).as_str(), "end"));
    assert_eq!(outcome.truncated.unwrap().omitted_bytes, Some(1200));
    bay.put("wide", (0..1500).map(|n| format!("{n:05} {}\n", "w".repeat(120))).collect::<String>());
    let first = bay.good("read_file", json!({"path": "wide"}));
    assert!(first.text.chars().count() <= 50_300);
    let last = first.details["last_line"].as_u64().unwrap();
    let next = bay.good("read_file", json!({"path": "wide", "offset": last + 1, "limit": 1}));
    assert!(next.text.contains(&format!("{last:05} w")), "line numbers start at one: {}", next.text);
}

#[test]
fn read_file_refuses_what_is_not_text() {
    let bay = Bay::new();
    bay.put("bin", [b"marlin".as_slice(), &[0]].concat());
    let binary = bay.call("read_file", json!({"path": "bin"})).refusal.unwrap();
    assert!(binary.code == Code::NotRegular && binary.message.contains("binary") && !binary.message.contains("marlin"));
    let folder = bay.call("read_file", json!({"path": "src"})).refusal.unwrap();
    assert!(folder.code == Code::NotRegular && folder.hint.unwrap().contains("ls"));
    nix::unistd::mkfifo(&bay.root().join("p"), nix::sys::stat::Mode::S_IRWXU).unwrap();
    assert_eq!(bay.code("read_file", json!({"path": "p"})), Code::NotRegular);
    File::create(bay.root().join("big")).unwrap().set_len(10 * 1024 * 1024 + 1).unwrap();
    assert_eq!(bay.code("read_file", json!({"path": "big"})), Code::TooLarge);
    bay.put("latin", b"caf\xe9 au lait\n");
    let lossy = bay.good("read_file", json!({"path": "latin"}));
    assert!(lossy.text.contains("caf\u{fffd} au lait") && lossy.details["encoding"] == "utf-8-lossy");
    let png = b"\x89PNG\r\n\x1a\n\0\0";
    bay.put("chart.dat", png);
    let image = bay.good("read_file", json!({"path": "chart.dat"}));
    assert!(image.text.contains("image/png") && image.text.contains("10"));
    assert_eq!(image.details["image"]["base64"], "iVBORw0KGgoAAA==");
}

// ---------------------------------------------------------------------------------------------- ls

#[test]
fn ls_sorts_hides_and_stops() {
    let bay = Bay::new();
    bay.put("zeta/x", "");
    bay.put("alpha.txt", "12345");
    bay.put("mid.bin", vec![0; 1536]);
    symlink("src", bay.root().join("way")).unwrap();
    let outcome = bay.good("ls", json!({}));
    assert_eq!(outcome.text, "src/\nzeta/\nalpha.txt  5 B\nmid.bin  1.5 KB\nway@");
    assert_eq!((&outcome.details["total"], &outcome.details["path"]), (&json!(5), &json!(".")));
    bay.put("a/b/c/deep.txt", "");
    assert!(bay.good("ls", json!({"path": "a", "depth": 3})).text.contains("b/c/deep.txt"));
    assert!(!bay.good("ls", json!({"path": "a"})).text.contains("deep"));
    for n in 0..520 {
        bay.put(&format!("many/f{n:03}"), "");
    }
    let many = bay.good("ls", json!({"dir": "many"}));
    assert!(many.text.contains("f499") && !many.text.contains("f500"));
    assert_eq!((many.details["total"].as_u64(), many.truncated.unwrap().omitted_results), (Some(520), Some(20)));
    assert_eq!(bay.code("ls", json!({"path": "src/a.txt"})), Code::NotRegular);
    bay.put(".gitignore", "alpha*\nc\n");
    assert!(!bay.good("ls", json!({"include_ignored": false})).text.contains("alpha"));
    let below = bay.good("ls", json!({"path": "a/b", "include_ignored": false}));
    assert_eq!(below.details["total"], 0, "rules of the root hold below it");
    bay.put("n\x1b]0;x\x07", "");
    assert!(!bay.good("ls", json!({})).text.contains('\x1b'));
}

// ---------------------------------------------------------------------------------------------- glob and grep

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
    ] {
        let begin = std::time::Instant::now();
        let outcome = bay.call("grep", json!({"pattern": pattern}));
        assert!(outcome.ok || outcome.refusal.is_some_and(|r| r.code == Code::InvalidArguments), "{pattern}");
        println!("{:>6} ms {pattern:.40}", begin.elapsed().as_millis());
        assert!(begin.elapsed().as_secs() < 30, "{pattern}: {:?}", begin.elapsed());
    }
}

// ---------------------------------------------------------------------------------------------- writing

#[test]
fn write_file_makes_replaces_and_refuses() {
    let mut bay = Bay::new();
    let made = bay.good("write_file", json!({"path": "new/deep/ünï.txt", "content": "žluť\n"}));
    assert_eq!((made.text.as_str(), &made.details["created"]), ("Created new/deep/ünï.txt (7 bytes).", &json!(true)));
    assert_eq!(bay.text("new/deep/ünï.txt"), "žluť\n");
    let there = bay.call("write_file", json!({"path": "src/a.txt", "content": "x"})).refusal.unwrap();
    let hint = there.hint.unwrap();
    assert!(there.code == Code::Exists && hint.contains("edit_file") && hint.contains("overwrite"));
    let path = bay.put("tool.sh", "#!/bin/sh\n");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o750)).unwrap();
    let updated =
        bay.good("write_file", json!({"path": "tool.sh", "content": "#!/bin/sh\nexit 0\n", "overwrite": true}));
    assert!(updated.text.starts_with("Updated tool.sh (17 bytes).") && updated.details["previous_bytes"] == 10);
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o750);
    let same = bay.good("write_file", json!({"path": "src/a.txt", "content": "plain\n", "overwrite": true}));
    assert_eq!(same.text, "Unchanged src/a.txt.");
    assert_eq!(bay.code("write_file", json!({"path": "src", "content": "x", "overwrite": true})), Code::NotRegular);
    assert_eq!(bay.code("write_file", json!({"path": "x", "content": "a", "append": true})), Code::InvalidArguments);
    bay.options.overwrite = "never".to_owned();
    assert_eq!(bay.code("write_file", json!({"path": "src/a.txt", "content": "x", "overwrite": true})), Code::Exists);
    bay.options.overwrite = "always".to_owned();
    bay.good("write_file", json!({"path": "src/a.txt", "content": "x"}));
}

#[test]
fn write_file_calls_out_a_loss_and_a_change_of_others() {
    let mut bay = Bay::new();
    bay.put("long", "word\n".repeat(200));
    let args = |n: usize, allow: bool| json!({"path": "long", "content": "word\n".repeat(n), "overwrite": true, "allow_shrink": allow});
    bay.options.strict = true;
    assert_eq!(bay.code("write_file", args(20, false)), Code::InvalidArguments);
    bay.options.strict = false;
    assert!(bay.good("write_file", args(90, false)).text.contains("shrink"));
    bay.put("long", "word\n".repeat(200));
    assert!(!bay.good("write_file", args(1, true)).text.contains("shrink"));
    bay.options.known_sha256 = Some(super::text::sha256(b"something else"));
    let stale = bay.call("write_file", args(2, false));
    assert!(stale.refusal.unwrap().code == Code::Stale && stale.details["path"] == "long");
    assert_eq!(bay.text("long"), "word\n");
}

#[test]
fn edit_file_is_exact() {
    let mut bay = Bay::new();
    bay.put("e.txt", "one\ntwo\nthree\n");
    let edit = |bay: &Bay, path: &str, old: &str, new: &str| {
        bay.call("edit_file", json!({"path": path, "oldText": old, "new_string": new}))
    };
    let outcome = edit(&bay, "e.txt", "two", "2");
    assert!(outcome.ok && bay.text("e.txt") == "one\n2\nthree\n");
    let diff = outcome.details["diff"].as_str().unwrap();
    assert!(diff.contains("-two\n+2\n") && diff.contains("@@") && outcome.details["replacements"] == 1);
    bay.put("t", "tick tock tick tock tick\n");
    let many = edit(&bay, "t", "tick", "x");
    assert!(many.refusal.as_ref().unwrap().message.contains('3') && many.details["matches"] == 3);
    assert_eq!(edit(&bay, "t", "tack", "x").refusal.unwrap().code, Code::NoMatch);
    bay.put("latin", b"caf\xe9\n");
    assert_eq!(edit(&bay, "latin", "caf", "x").refusal.unwrap().code, Code::NotRegular);
    assert_eq!(edit(&bay, "gone", "a", "b").refusal.unwrap().code, Code::NotFound);
    assert_eq!(edit(&bay, "t", "tick", "tick").refusal.unwrap().code, Code::InvalidArguments);
    assert_eq!(edit(&bay, "t", "", "x").refusal.unwrap().code, Code::InvalidArguments);
    let read_only = bay.put("ro", "one\n");
    fs::set_permissions(&read_only, fs::Permissions::from_mode(0o444)).unwrap();
    assert!(edit(&bay, "ro", "one", "two").ok);
    assert_eq!(fs::metadata(&read_only).unwrap().permissions().mode() & 0o777, 0o444);
    bay.options.tracked = true;
    assert_eq!(edit(&bay, "src/a.txt", "plain", "x").refusal.unwrap().code, Code::Stale);
    let vouched = |sum: &[u8]| json!({"path": "src/a.txt", "old_string": "plain", "new_string": "x", "expected_sha256": super::text::sha256(sum)});
    assert_eq!(bay.code("edit_file", vouched(b"other")), Code::Stale);
    bay.good("edit_file", vouched(b"plain\n"));
    bay.options.known_sha256 = Some(super::text::sha256(b"x\n"));
    assert!(edit(&bay, "src/a.txt", "x", "y").ok);
    let left: Vec<_> = fs::read_dir(bay.root()).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert!(!left.iter().any(|name| name.to_string_lossy().contains(".tmp")), "{left:?}");
}

#[test]
fn two_writers_never_lose_an_edit() {
    let bay = Bay::new();
    bay.put("many", (0..40).map(|n| format!("line{n:02}\n")).collect::<String>());
    let edits = |start: usize| {
        for n in (start..40).step_by(2) {
            let args =
                json!({"path": "many", "old_string": format!("line{n:02}\n"), "new_string": format!("done{n:02}\n")});
            while !bay.call("edit_file", args.clone()).ok {}
        }
    };
    std::thread::scope(|scope| {
        scope.spawn(|| edits(0));
        scope.spawn(|| edits(1));
    });
    assert_eq!(bay.text("many"), (0..40).map(|n| format!("done{n:02}\n")).collect::<String>());
}

// ---------------------------------------------------------------------------------------------- bash

#[test]
fn bash_plans_its_command_and_falls_back_to_sh() {
    let bay = Bay::new();
    let entry = find("terminal.run").unwrap();
    let args = checked(entry, parse_object(r#"{"command":"-x","timeout":400}"#).unwrap()).unwrap();
    let plan = (entry.plan)(&args).unwrap();
    assert_eq!((plan.command.as_deref(), plan.paths[0].1), (Some("-x"), Need::Enter));
    let given = Given { paths: vec![bay.open(".", Need::Enter)], options: options() };
    let mut fake = Fake { missing: vec!["bash"], ..Fake::default() };
    let outcome = (entry.run)(&Confined::for_tests(), args, given, &mut fake);
    assert_eq!(outcome.details["stdout"], "/bin/sh|-c| -x");
    assert_eq!((fake.seen[1].timeout_ms, fake.seen[1].stdin.as_deref()), (Some(400), None));
    assert!(outcome.text.ends_with("[Exit code: 0]") && outcome.details["denials"] == json!([]));
    for bad in [
        json!({"command": ""}),
        json!({"command": "true", "outside_sandbox": true}),
        json!({"command": "true", "background": true}),
        json!({"command": ["true"]}),
        json!({"command": "true", "timeout_ms": 600_001}),
        json!({"command": "x".repeat(200_000)}),
    ] {
        assert_eq!(bay.code("bash", bad), Code::InvalidArguments);
    }
}
