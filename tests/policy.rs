//! The room `policy` from outside: files of all layers on a real disk, the decisions of `tests/decisions/`, the laws of
//! layers, and that parser and schema agree.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use stockade::access::{Access, Asks, Right, RiskClass};
use stockade::call::Code;
use stockade::policy::{
    self, LayerText, Mode, Policy, PolicyError, Profile, Request, Sources, access_of, compose_texts, explain, judge,
    keys, load,
};
use stockade::verdict::Layer;
use tempfile::TempDir;

const HEAD: &str = "version = 1\nextends = \"default\"\n";

/// A workspace, a home and files beside them.
struct Bay {
    dir: TempDir,
}

impl Bay {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir_all(dir.path().join("work")).unwrap();
        fs::create_dir_all(dir.path().join("home")).unwrap();
        Bay { dir }
    }

    fn put(&self, name: &str, text: &str) -> PathBuf {
        let path = self.dir.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        path
    }

    /// A `--policy` file that extends the default.
    fn on_default(&self, rest: &str) -> PathBuf {
        self.put("p.toml", &format!("{HEAD}{rest}"))
    }

    fn sources(&self, files: &[PathBuf]) -> Sources {
        Sources {
            root: self.dir.path().join("work"),
            home: Some(self.dir.path().join("home")),
            admin: self.dir.path().join("etc/policy.toml"),
            config_home: Some(self.dir.path().join("home/.config")),
            files: files.to_vec(),
            profile: None,
            mode: None,
        }
    }

    fn load(&self, files: &[PathBuf]) -> Result<Policy, PolicyError> {
        load(&self.sources(files))
    }
}

fn asks_of(tool: &str) -> Asks {
    match tool {
        "read_file" | "ls" | "glob" | "grep" | "search_text" | "todo_write" | "config_status" => Asks::No,
        "plan" | "image_generate" | "browser_navigate" => Asks::Always,
        _ => Asks::Yes,
    }
}

fn asked(policy: &Policy, tool: &str, accesses: &[Access]) -> policy::Judgement {
    judge(policy, &Request { tool, class: RiskClass::WorkspaceWrite, asks: asks_of(tool), accesses })
}

fn command(policy: &Policy, text: &str) -> &'static str {
    asked(policy, "bash", &[Access::Command(text.to_owned())]).verdict.name()
}

fn path(policy: &Policy, tool: &str, name: &str) -> policy::Judgement {
    asked(policy, tool, &[access_of(policy, tool, name).unwrap()])
}

fn code(policy: &Policy, tool: &str, name: &str) -> Option<Code> {
    path(policy, tool, name).refusal.map(|refusal| refusal.code)
}

// ---- decisions as data

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Cases {
    layer: Vec<CaseLayer>,
    case: Vec<Case>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CaseLayer {
    kind: Layer,
    text: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    tool: String,
    command: Option<String>,
    path: Option<String>,
    /// How it was spelled, where a link led elsewhere.
    spelled: Option<String>,
    #[serde(default)]
    dir: bool,
    want: String,
    code: Option<String>,
    rule: Option<String>,
    layer: Option<String>,
    /// Must be in the message.
    says: Option<String>,
}

fn data(folder: &str) -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests").join(folder);
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<_> = entries.filter(|path| path.extension().is_some_and(|ext| ext == "toml")).collect();
    files.sort();
    files
}

#[test]
fn decisions_as_data() {
    let files = data("decisions");
    assert!(files.len() >= 11, "a file of decisions is missing");
    let mut wrong = Vec::new();
    for file in files {
        let text = fs::read_to_string(&file).unwrap();
        let cases: Cases = toml::from_str(&text).unwrap_or_else(|e| panic!("{}: {e}", file.display()));
        let number = cases.layer.iter().enumerate();
        let texts: Vec<_> = number
            .map(|(i, one)| LayerText { layer: one.kind, name: format!("{i}.toml"), text: one.text.clone() })
            .collect();
        let sources = Sources { home: Some("/home/u".into()), ..Sources::built_in("/w") };
        let policy = compose_texts(&texts, &sources).unwrap_or_else(|e| panic!("{}: {e}", file.display()));
        for case in cases.case {
            if let Err(why) = run(&policy, &case) {
                wrong.push(format!("{}: {why}", file.file_name().unwrap().to_string_lossy()));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

fn run(policy: &Policy, case: &Case) -> Result<(), String> {
    let access = match (&case.command, &case.path) {
        (Some(text), _) => Access::Command(text.clone()),
        (None, Some(resolved)) => Access::Path {
            resolved: resolved.clone(),
            spelled: case.spelled.clone().unwrap_or_else(|| resolved.clone()),
            is_dir: case.dir,
            right: match case.tool.as_str() {
                "read_file" => Right::Read,
                "ls" => Right::List,
                "grep" | "glob" => Right::Search,
                _ => Right::Write,
            },
        },
        (None, None) => Access::Nothing,
    };
    let judged = asked(policy, &case.tool, std::slice::from_ref(&access));
    let what = format!("{} {access:?}", case.tool);
    let check = |name: &str, want: Option<&String>, got: Option<String>| match want {
        Some(want) if got.as_ref() != Some(want) => Err(format!("{what}: {name} is {got:?}, not {want:?}")),
        _ => Ok(()),
    };
    check("verdict", Some(&case.want), Some(judged.verdict.name().to_owned()))?;
    let refusal = judged.refusal.as_ref();
    let code = refusal.map(|one| serde_json::to_value(one.code).unwrap().as_str().unwrap().to_owned());
    check("code", case.code.as_ref(), code)?;
    check("rule", case.rule.as_ref(), Some(judged.reason.rule.clone()))?;
    check("layer", case.layer.as_ref(), Some(judged.reason.layer.name().to_owned()))?;
    if let Some(one) = refusal {
        if one.rule.is_none() || one.layer.is_none() || one.hint.is_none() {
            return Err(format!("{what}: a refusal has a rule, a layer and a hint: {one:?}"));
        }
        if case.says.as_ref().is_some_and(|text| !one.message.contains(text.as_str())) {
            return Err(format!("{what}: it says {:?}", one.message));
        }
    }
    Ok(())
}

// ---- built-ins

#[test]
fn without_any_file_it_is_the_default() {
    let policy = Bay::new().load(&[]).unwrap();
    assert_eq!((policy.profile(), policy.mode()), (Profile::Default, Mode::Ask));
    assert_eq!(command(&policy, "touch b"), "ask");
    assert!(policy.read_trees().is_empty() && policy.env_pass().is_empty() && policy.warnings().is_empty());
    assert_eq!(policy.tool_options().shrink, "warn");
}

#[test]
fn an_empty_policy_is_the_most_restrictive() {
    let bay = Bay::new();
    let policy = bay.load(&[bay.put("p.toml", "version = 1\n")]).unwrap();
    assert_eq!((policy.profile(), policy.mode()), (Profile::Strict, Mode::Unattended));
    assert_eq!(policy.tool_options().shrink, "refuse");
    assert!(bay.load(&[bay.put("p.toml", "")]).is_err());
}

#[test]
fn all_built_ins_load_and_are_what_they_say() {
    let bay = Bay::new();
    for (name, profile, mode) in [
        ("default", Profile::Default, Mode::Ask),
        ("strict", Profile::Strict, Mode::Ask),
        ("ci", Profile::Strict, Mode::Unattended),
        ("audited", Profile::Strict, Mode::Ask),
    ] {
        let policy = bay.load(&[bay.put("p.toml", &format!("version = 1\nextends = \"{name}\"\n"))]).unwrap();
        assert_eq!((policy.profile(), policy.mode()), (profile, mode), "{name}");
        assert_eq!(policy.required().is_empty(), name == "default", "{name}");
    }
    let text = "version = 1\nextends = \"audited\"\nmode = \"open\"\n[[rule]]\ntool = \"bash\"\nverdict = \"allow\"\n";
    assert_eq!(command(&bay.load(&[bay.put("p.toml", text)]).unwrap(), "date"), "ask");
    assert_eq!(bay.load(&[bay.put("p.toml", policy::STARTING_FILE)]).unwrap().mode(), Mode::Ask);
}

const OPEN: &[&str] = &[
    ".env.example",
    ".env.sample",
    ".env.template",
    "conf/.env.example",
    "src/environment.ts",
    "cacert.pem",
    "tests/server.key",
    "id_rsa.pub",
    ".git/HEAD",
    ".git/index",
    ".git/logs/HEAD",
    ".git/objects/ab/cd",
    ".git/refs/heads/main",
    "Makefile",
    ".npmrc",
    ".github/workflows/x.yml",
    ".husky/_/h",
];
const DENIED: &[&str] = &[
    ".env",
    "a/.env",
    ".env.local",
    ".env.production",
    ".env.staging",
    ".env.test",
    ".env.secret",
    ".env.exotic",
    ".env.tempest",
    ".env.temp",
    "id_rsa",
    ".ssh/config",
    "x/.ssh/id_ed25519",
    "keys/me.p12",
    ".netrc",
    ".aws/credentials",
];
const PROTECTED: &[&str] = &[
    ".git/hooks/pre-commit",
    "vendor/sub/.git/hooks/x",
    ".git/config",
    "sub/.git/config",
    ".git/modules/a/b/hooks/x",
    ".git/modules/a/config",
    ".git",
    "wt/.git",
    ".vscode/settings.json",
    ".claude/settings.json",
    ".mcp.json",
    ".cursor/mcp.json",
    ".stockade/policy.toml",
    "x/.stockade/skills/a",
    ".envrc",
    ".bashrc",
    ".husky/pre-commit",
    ".devcontainer/devcontainer.json",
];

#[test]
fn the_lists_close_secrets_and_leave_work_alone() {
    let policy = Bay::new().load(&[]).unwrap();
    for name in OPEN {
        assert_eq!(path(&policy, "read_file", name).verdict.name(), "allow", "{name}");
        assert!(policy.protects_path(name, false).is_none(), "{name}");
    }
    for name in DENIED {
        assert_eq!(code(&policy, "read_file", name), Some(Code::DeniedPath), "{name}");
    }
    for name in PROTECTED {
        assert_eq!(code(&policy, "write_file", name), Some(Code::ProtectedPath), "{name}");
        assert_eq!(code(&policy, "read_file", name), None, "{name} can be read");
    }
    assert!(policy.protects_path(".git", true).is_some() && policy.protects_path("src", true).is_none());
    assert!(policy.denies_absolute(Path::new("/etc/shadow"), false).is_some());
    assert!(policy.denies_absolute(Path::new("/etc/ssl/certs/ca.pem"), false).is_none());
    assert!(policy.protects_outside(Path::new("/srv/m/.git/hooks/pre-commit"), false).is_some());
    assert!(policy.protects_outside(Path::new("/srv/m/.git/HEAD"), false).is_none());
    assert!(policy.denies_outside(Path::new("/opt/x/.env"), false).is_some());
}

// ---- layers on the disk

#[test]
fn a_later_file_tightens_and_cannot_loosen() {
    let bay = Bay::new();
    let one = bay.on_default(
        "mode = \"ask\"\n[limits]\nbash_timeout_ms = 500\n[filesystem]\nread = [\"/opt\"]\n[env]\npass = [\"A\", \"B\"]\n\
         [[rule]]\ntool = \"bash\"\nmatch = \"date*\"\nverdict = \"deny\"\n",
    );
    let two = bay.put(
        "two.toml",
        "version = 1\nmode = \"open\"\n[network]\nmode = \"open\"\n[limits]\nbash_timeout_ms = 60000\npids = 64\n\
         [filesystem]\nread = [\"/opt/x\", \"/srv\"]\nwrite = [\"/srv\"]\nallow_write = [\".vscode/x\"]\n\
         [env]\npass = [\"B\", \"C\"]\nset = { D = \"1\" }\n[[rule]]\ntool = \"bash\"\nmatch = \"date\"\nverdict = \"allow\"\n",
    );
    let policy = bay.load(&[one.clone(), two]).unwrap();
    assert_eq!(policy.mode(), Mode::Ask);
    assert_eq!(policy.network(), stockade::confinement::NetworkMode::None);
    assert_eq!((policy.limits().bash_timeout_ms, policy.limits().pids), (500, 64));
    assert_eq!(policy.read_trees(), [PathBuf::from("/opt/x")]);
    assert!(policy.write_trees().is_empty() && policy.allow_write().is_empty() && policy.env_set().is_empty());
    assert_eq!(policy.env_pass(), ["B"]);
    assert_eq!(command(&policy, "date"), "deny");
    assert_eq!(policy.warnings().len(), 9, "{:#?}", policy.warnings());
    assert!(policy.warnings().iter().all(|w| w.to_string().contains("two.toml:")), "each names its place");
    let third = bay.put("three.toml", HEAD);
    assert_eq!(bay.load(&[one, third]).unwrap_err().line, 2);
}

#[test]
fn the_workspace_only_tightens() {
    let bay = Bay::new();
    bay.put(
        "work/.stockade/policy.toml",
        "version = 1\nmode = \"open\"\n[network]\nmode = \"open\"\n[[rule]]\ntool = \"bash\"\nverdict = \"allow\"\n\
         [[rule]]\ntool = \"bash\"\nmatch = \"uname*\"\nverdict = \"deny\"\n\
         [[deny_path]]\npattern = \"src/**\"\nreason = \"project\"\n",
    );
    let asking = "mode = \"ask\"\n[[rule]]\ntool = \"bash\"\nmatch = \"uname *\"\nverdict = \"allow\"\n";
    let policy = bay.load(&[bay.on_default(asking)]).unwrap();
    assert_eq!((command(&policy, "touch free"), command(&policy, "uname -a")), ("ask", "deny"));
    let refusal = path(&policy, "read_file", "src/a.txt").refusal.unwrap();
    assert_eq!((refusal.code, refusal.layer.as_deref()), (Code::DeniedPath, Some("project")));
}

#[test]
fn the_users_file_counts() {
    let bay = Bay::new();
    let text = "version = 1\n[[rule]]\ntool = \"bash\"\nmatch = \"hostname*\"\nverdict = \"deny\"\n";
    bay.put("home/.config/stockade/policy.toml", text);
    let policy = bay.load(&[bay.on_default("mode = \"open\"\n")]).unwrap();
    let judged = asked(&policy, "bash", &[Access::Command("hostname".into())]);
    assert_eq!(judged.reason.layer, Layer::User);
    assert!(judged.reason.place.unwrap().ends_with("policy.toml:2"));
    assert_eq!(command(&policy, "date"), "allow");
    assert_eq!(bay.load(&[]).unwrap().profile(), Profile::Default);
}

#[test]
fn options_tighten_and_set_a_mode_where_none_is_set() {
    let bay = Bay::new();
    let files = [bay.on_default("profile = \"strict\"\nmode = \"accept_edits\"\n")];
    let with = |files: &[PathBuf], profile: Option<&str>, mode: Option<&str>| {
        let (profile, mode) = (profile.map(str::to_owned), mode.map(str::to_owned));
        load(&Sources { profile, mode, ..bay.sources(files) }).map(|policy| (policy.profile(), policy.mode()))
    };
    assert_eq!(with(&[], None, Some("open")).unwrap(), (Profile::Default, Mode::Open));
    assert_eq!(with(&[], Some("strict"), None).unwrap(), (Profile::Strict, Mode::Ask));
    assert_eq!(with(&files, Some("default"), Some("open")).unwrap(), (Profile::Strict, Mode::AcceptEdits));
    assert_eq!(with(&files, None, Some("plan")).unwrap(), (Profile::Strict, Mode::Plan));
    assert!(with(&[], None, Some("godmode")).is_err() && with(&[], Some("none"), None).is_err());
}

#[test]
fn a_hosts_mode_stays_within_the_other_layers() {
    let bay = Bay::new();
    let ask = bay.load(&[bay.on_default("mode = \"ask\"\n")]).unwrap();
    assert_eq!(ask.with_mode(Mode::AcceptEdits, false).unwrap().mode(), Mode::AcceptEdits);
    let ci = bay.load(&[bay.put("p.toml", "version = 1\nextends = \"ci\"\n")]).unwrap();
    assert!(ci.with_mode(Mode::Ask, false).is_none());
    bay.put("home/.config/stockade/policy.toml", "version = 1\nmode = \"plan\"\n");
    let plan = bay.load(&[]).unwrap();
    assert!(plan.with_mode(Mode::Ask, false).is_none() && plan.with_mode(Mode::Open, true).is_none());
    assert_eq!(plan.with_mode(Mode::Ask, true).unwrap().mode(), Mode::Ask);
}

#[test]
fn a_broken_file_of_any_layer_stops_everything() {
    let bay = Bay::new();
    let good = bay.on_default("mode = \"open\"\n");
    for place in ["work/.stockade/policy.toml", "home/.config/stockade/policy.toml", "etc/policy.toml", "second.toml"] {
        for text in ["version = 1\n[rule\n", "version = 2\n", "colour = 1\nversion = 1\n", "version = 1\n\u{0}\n", ""] {
            let file = bay.put(place, text);
            let more = if place == "second.toml" { Some(file.clone()) } else { None };
            let files: Vec<_> = std::iter::once(good.clone()).chain(more).collect();
            let error = bay.load(&files).unwrap_err();
            assert!(place.ends_with(&error.file) || error.file.ends_with(place), "{}", error.file);
            fs::remove_file(file).unwrap();
        }
    }
    assert!(bay.load(&[good]).is_ok());
    assert!(bay.load(&[bay.dir.path().join("not-there.toml")]).is_err());
}

#[test]
fn only_plain_small_text_files_are_read() {
    let bay = Bay::new();
    let fifo = bay.dir.path().join("fifo");
    nix::unistd::mkfifo(&fifo, nix::sys::stat::Mode::S_IRWXU).unwrap();
    for path in [fifo, bay.dir.path().to_owned(), PathBuf::from("/dev/null"), PathBuf::from("/dev/zero")] {
        assert!(bay.load(&[path]).unwrap_err().message.contains("regular file"));
    }
    let big = bay.put("big.toml", &format!("version = 1\n#{}\n", "x".repeat(1024 * 1024)));
    assert!(bay.load(&[big]).unwrap_err().message.contains("at most"));
    let odd = bay.dir.path().join("odd.toml");
    fs::write(&odd, b"version = 1\n# \xff\n").unwrap();
    assert!(bay.load(&[odd]).unwrap_err().message.contains("UTF-8"));
}

#[test]
fn the_workspaces_file_is_not_reached_by_a_link() {
    let bay = Bay::new();
    let target = bay.put("outer/policy.toml", "version = 1\nmode = \"plan\"\n");
    let folder = bay.dir.path().join("work/.stockade");
    fs::create_dir_all(&folder).unwrap();
    std::os::unix::fs::symlink(target, folder.join("policy.toml")).unwrap();
    assert!(bay.load(&[]).unwrap_err().message.contains("link"));
    fs::remove_dir_all(&folder).unwrap();
    std::os::unix::fs::symlink(bay.dir.path().join("outer"), folder).unwrap();
    assert!(bay.load(&[]).unwrap_err().message.contains("link"));
}

#[test]
fn the_admins_file_belongs_to_the_admin() {
    let bay = Bay::new();
    let file = bay.put("etc/policy.toml", "version = 1\nmode = \"plan\"\n");
    let mode = |bits| fs::set_permissions(&file, fs::Permissions::from_mode(bits)).unwrap();
    mode(0o664);
    assert!(bay.load(&[]).is_err());
    mode(0o646);
    assert!(bay.load(&[]).is_err());
    mode(0o644);
    let loaded = bay.load(&[]);
    if nix::unistd::geteuid().is_root() {
        assert_eq!(loaded.unwrap().mode(), Mode::Plan);
        let open = bay.on_default("mode = \"open\"\n");
        assert_eq!(bay.load(&[open]).unwrap().mode(), Mode::Plan, "the admin's word holds");
        std::os::unix::fs::chown(&file, Some(65534), None).unwrap();
        assert!(bay.load(&[]).is_err());
    } else {
        assert!(loaded.is_err());
    }
}

#[test]
fn an_operator_lifts_one_path_and_no_more() {
    let bay = Bay::new();
    let lift = |path: &str| bay.on_default(&format!("mode = \"open\"\n[filesystem]\nallow_write = [\"{path}\"]\n"));
    let policy = bay.load(&[lift(".vscode/settings.json")]).unwrap();
    assert_eq!(path(&policy, "write_file", ".vscode/settings.json").verdict.name(), "allow");
    assert_eq!(path(&policy, "write_file", ".vscode/tasks.json").verdict.name(), "deny");
    let denied = bay.load(&[lift(".env")]).unwrap();
    assert_eq!(path(&denied, "write_file", ".env").verdict.name(), "deny", "a denied path is not lifted");
    for bad in ["**/x", ".stockade/policy.toml", "/etc/x", "../x", "a/../.git/config", ".vscode/", "", "a//b", "[a]"] {
        assert!(bay.load(&[lift(bad)]).is_err(), "{bad}");
    }
    bay.put("home/.config/stockade/policy.toml", "version = 1\n[filesystem]\nprotect = [\"deploy/**\"]\n");
    let policy = bay.load(&[lift("deploy/x")]).unwrap();
    assert!(policy.allow_write().is_empty() && policy.warnings().len() == 1);
    assert_eq!(path(&policy, "write_file", "deploy/x").verdict.name(), "deny");
}

#[test]
fn a_policy_in_the_workspace_is_protected() {
    let bay = Bay::new();
    let text = format!("{HEAD}mode = \"open\"\n[filesystem]\nallow_write = [\"conf/p.toml\"]\n");
    let policy = bay.load(&[bay.put("work/conf/p[1].toml", &text)]).unwrap();
    assert_eq!(path(&policy, "write_file", "conf/p[1].toml").verdict.name(), "deny");
    assert_eq!(path(&policy, "write_file", "conf/p1.toml").verdict.name(), "allow");
}

#[test]
fn trees_and_names_are_sane() {
    let bay = Bay::new();
    for bad in ["/", "//", "relative", "/a/../etc", "/proc/1", "/sys", "/dev/shm", "~other"] {
        for key in ["read", "write"] {
            assert!(bay.load(&[bay.on_default(&format!("[filesystem]\n{key} = [\"{bad}\"]\n"))]).is_err(), "{bad}");
        }
    }
    let policy = bay.load(&[bay.on_default("[filesystem]\nwrite = [\"~/.cache/x\", \"/opt//y/\"]\n")]).unwrap();
    assert_eq!(policy.write_trees(), [bay.dir.path().join("home/.cache/x"), PathBuf::from("/opt/y")]);
    for bad in ["A=B", "1A", "", "A B", "LD_*", "Ä"] {
        assert!(bay.load(&[bay.on_default(&format!("[env]\npass = [\"{bad}\"]\n"))]).is_err(), "{bad}");
    }
}

// ---- explain, show

#[test]
fn show_and_explain_name_layer_and_rule() {
    let bay = Bay::new();
    let text = format!(
        "{HEAD}mode = \"open\"\n[[deny_path]]\npattern = \"vault/**\"\nreason = \"secrets\"\n\
         [[rule]]\ntool = \"bash\"\nmatch = \"date*\"\nverdict = \"deny\"\n"
    );
    let policy = bay.load(&[bay.put("seed.toml", &text)]).unwrap();
    let shown = policy.show_text();
    assert!(shown.contains("seed.toml") && shown.contains("date") && shown.contains("vault"), "{shown}");
    let told = |tool: &str, subject: &str| match access_of(&policy, tool, subject) {
        Ok(access) => {
            let (class, asks) = (RiskClass::ReadOnlyLocal, asks_of(tool));
            explain(&policy, &Request { tool, class, asks, accesses: &[access] }).text()
        }
        Err(explanation) => explanation.text(),
    };
    let vault = told("read_file", "src/../vault/key");
    assert!(vault.contains("deny") && vault.contains("vault/**") && vault.contains("seed.toml:5"), "{vault}");
    assert!(told("read_file", "/etc/shadow").contains("/etc/shadow*"));
    assert!(told("read_file", "../x").contains("deny"));
    assert!(told("bash", "date +%s").contains("bash(date*)"));
    assert!(told("bash", "ls").contains("mode open") && told("bash", "ls").contains("seed.toml:3"));
}

#[test]
fn the_digest_is_of_what_is_said() {
    let bay = Bay::new();
    let digest = |text: &str| bay.load(&[bay.put("p.toml", text)]).unwrap().digest();
    let one = digest(&format!("{HEAD}mode = \"open\"\n"));
    assert_eq!(one, digest("version = 1\n# a note\nmode   = \"open\"\nextends = \"default\"\n"));
    assert_ne!(one, digest(&format!("{HEAD}mode = \"ask\"\n")));
    assert_ne!(one, digest(&format!("{HEAD}mode = \"open\"\n[[deny_path]]\npattern = \"x\"\n")));
}

// ---- schema and laws

#[test]
fn parser_and_schema_know_the_same_keys() {
    let schema: serde_json::Value = serde_json::from_str(policy::schema()).unwrap();
    let names = |object: &serde_json::Value| {
        let mut names: Vec<String> = object["properties"].as_object().unwrap().keys().cloned().collect();
        names.sort();
        names
    };
    let mut known: Vec<String> = Vec::new();
    for table in keys::TABLES.iter().filter(|table| !table.shipped_only) {
        let mut here: Vec<String> = table.keys.iter().map(|key| key.name.to_owned()).collect();
        here.sort();
        let object = match (table.name, table.many) {
            ("", _) => {
                known.extend(here);
                continue;
            }
            (name, true) => &schema["properties"][name]["items"],
            (name, false) => &schema["properties"][name],
        };
        known.push(table.name.to_owned());
        assert_eq!(names(object), here, "{}", table.name);
        assert_eq!(object["additionalProperties"], false, "{}", table.name);
        let required: Vec<&str> = table.keys.iter().filter(|key| key.required).map(|key| key.name).collect();
        let said = object["required"].as_array().into_iter().flatten();
        assert_eq!(said.filter_map(|one| one.as_str()).collect::<Vec<_>>(), required, "{}", table.name);
        for key in table.keys {
            if let keys::Kind::OneOf(words) = key.kind {
                let said = &object["properties"][key.name]["enum"];
                assert_eq!(said, &serde_json::json!(words), "{} {}", table.name, key.name);
            }
        }
    }
    known.sort();
    assert_eq!(names(&schema), known);
    assert_eq!(schema["additionalProperties"], false);
}

/// A sample's name says what it must be: `good-…` or `bad-…`.
#[test]
fn samples_are_what_their_names_say() {
    let bay = Bay::new();
    let samples = data("decisions/samples");
    assert!(samples.len() >= 22);
    for path in samples {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        match (name.starts_with("good-"), bay.load(&[path])) {
            (true, Err(error)) => panic!("{name}:\n{}", error.render(false)),
            (false, Ok(_)) => panic!("{name} was taken"),
            _ => {}
        }
    }
}
