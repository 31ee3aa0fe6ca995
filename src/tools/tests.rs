//! Laws over the table of tools, and the bodies on real folders. The door is a stand-in here: what it stops is proved by
//! the tests of the sandbox itself.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use serde_json::{Map, Value, json};

mod reading;
mod searching;
mod writing;

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
        } else if need != Need::Enter {
            // Not for Enter: entering a folder would move every other test of this process along.
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
