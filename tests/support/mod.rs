//! A fresh place for each test, and the binary run in it: as the user of the test and, when that is root, again as nobody.

use std::fs;
use std::io::Write;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::OnceLock;

use serde_json::Value;
use tempfile::TempDir;

/// uid and gid of nobody on every Linux.
const NOBODY: u32 = 65534;
/// What the policy of a bay denies, and what is outside: none of these may ever come out.
pub const SECRETS: [&str; 3] = ["otter42", "walrus77", "petrel31"];

/// Who runs the binary.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum User {
    /// The user of the test run.
    Me,
    /// uid 65534 without any privilege.
    Nobody,
}

/// The users that a test is to be run as.
pub fn users() -> Vec<User> {
    if nix::unistd::geteuid().is_root() { vec![User::Me, User::Nobody] } else { vec![User::Me] }
}

/// Says that this host cannot run a test. With `STOCKADE_MUST_CONFINE=1` that is a failure.
#[track_caller]
#[allow(dead_code, reason = "for tests of hosts that lack something")]
pub fn skip(why: &str) {
    assert!(std::env::var_os("STOCKADE_MUST_CONFINE").is_none_or(|v| v != "1"), "would skip: {why}");
    eprintln!("skipped: {why}");
}

/// ```text
/// BASE/work/            the workspace          BASE/work/.env       denied
/// BASE/work/src/a.txt   "plain"                BASE/work/vault/key  denied
/// BASE/outer/note.txt   outside                BASE/home            HOME of the supervisor
/// BASE/p.toml           mode open, no network, denies **/.env and vault/**
/// ```
#[derive(Debug)]
pub struct Bay {
    dir: TempDir,
    user: User,
    policy: PathBuf,
}

impl Bay {
    /// A fresh one, owned by the user.
    pub fn new(user: User) -> Bay {
        let dir = tempfile::Builder::new().prefix("stockade-bay.").tempdir().unwrap();
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let bay = Bay { policy: dir.path().join("p.toml"), dir, user };
        bay.own(&bay.base());
        for folder in ["work", "work/src", "work/vault", "outer", "home"] {
            let path = bay.base().join(folder);
            fs::create_dir(&path).unwrap();
            bay.own(&path);
        }
        bay.put("work/src/a.txt", "plain\n");
        bay.put("work/.env", "TOKEN=otter42\n");
        bay.put("work/vault/key", "walrus77\n");
        bay.put("outer/note.txt", "petrel31\n");
        bay.put("p.toml", &policy("open", ""));
        bay
    }

    /// The folder of everything.
    pub fn base(&self) -> PathBuf {
        self.dir.path().to_path_buf()
    }

    /// A path in the workspace.
    pub fn work(&self, below: &str) -> PathBuf {
        self.base().join("work").join(below)
    }

    /// Writes a file below the base, with its folders.
    pub fn put(&self, name: &str, content: &str) -> PathBuf {
        let path = self.base().join(name);
        let mut folder = self.base();
        for part in Path::new(name).parent().unwrap().components() {
            folder.push(part);
            if !folder.exists() {
                fs::create_dir(&folder).unwrap();
                self.own(&folder);
            }
        }
        fs::write(&path, content).unwrap();
        self.own(&path);
        path
    }

    /// Uses another policy from now on.
    pub fn with_policy(&mut self, mode: &str, extra: &str) {
        self.put("p.toml", &policy(mode, extra));
    }

    fn own(&self, path: &Path) {
        if self.user == User::Nobody {
            chown(path, Some(NOBODY), Some(NOBODY)).unwrap();
        }
    }

    /// The binary with a command and the options of this bay; nothing of the test's environment but a plain `PATH`.
    pub fn command(&self, what: &str) -> Command {
        let mut command = self.bare();
        command.arg(what).arg("--root").arg(self.work("")).arg("--policy").arg(&self.policy);
        command
    }

    /// The binary alone.
    pub fn bare(&self) -> Command {
        let mut command = match self.user {
            User::Me => Command::new(env!("CARGO_BIN_EXE_stockade")),
            User::Nobody => {
                let mut command = Command::new("setpriv");
                let id = NOBODY.to_string();
                command.args(["--reuid", &id, "--regid", &id, "--clear-groups", "--"]).arg(public_binary());
                command
            }
        };
        command.env_clear().env("PATH", "/usr/local/bin:/usr/bin:/bin").env("HOME", self.base().join("home"));
        command.env("LANG", "C.UTF-8").current_dir(self.work(""));
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// `stockade call --json`: the result object and the exit status.
    pub fn call(&self, tool: &str, args: &Value) -> (Value, i32) {
        let output = self.command("call").arg("--json").arg(tool).arg(args.to_string()).output().unwrap();
        let result = serde_json::from_slice(&output.stdout)
            .unwrap_or_else(|e| panic!("{tool} {args}: no result object ({e}): {}", shown(&output)));
        (result, output.status.code().unwrap())
    }

    /// `stockade run -- sh -c TEXT`.
    pub fn run(&self, text: &str) -> Output {
        self.command("run").args(["--", "sh", "-c", text]).output().unwrap()
    }

    /// A command that speaks in lines, fed with all of `lines`; its answers.
    pub fn lines(&self, what: &str, lines: &str) -> Vec<Value> {
        let output = fed(self.command(what), lines.as_bytes());
        assert!(output.status.success(), "{}", shown(&output));
        let text = String::from_utf8(output.stdout).unwrap();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }
}

fn policy(mode: &str, extra: &str) -> String {
    format!(
        "version = 1\nextends = \"default\"\nmode = \"{mode}\"\n\n[network]\nmode = \"none\"\n\n\
         [[deny_path]]\npattern = \"**/.env\"\nreason = \"secrets\"\n\n\
         [[deny_path]]\npattern = \"vault/**\"\nreason = \"secrets\"\n\n{extra}"
    )
}

/// A copy of the binary that nobody may execute: the build folder is often below a closed home.
fn public_binary() -> &'static Path {
    static COPY: OnceLock<(TempDir, PathBuf)> = OnceLock::new();
    let (_, path) = COPY.get_or_init(|| {
        let dir = tempfile::Builder::new().prefix("stockade-bin.").tempdir().unwrap();
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let path = dir.path().join("stockade");
        fs::copy(env!("CARGO_BIN_EXE_stockade"), &path).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        (dir, path)
    });
    path
}

/// Starts a command, feeds it and waits for its end.
pub fn fed(mut command: Command, input: &[u8]) -> Output {
    let mut child: Child = command.stdin(Stdio::piped()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let input = input.to_vec();
    // A thread, since both pipes may fill up. The command may well end before it has read everything.
    let feeder = std::thread::spawn(move || drop(stdin.write_all(&input)));
    let output = child.wait_with_output().unwrap();
    feeder.join().unwrap();
    output
}

/// Both streams and the status, for messages.
pub fn shown(output: &Output) -> String {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).chars().take(2000).collect::<String>();
    format!("{}; stdout {:?}; stderr {:?}", output.status, text(&output.stdout), text(&output.stderr))
}

/// No secret of a bay in what came out.
#[track_caller]
pub fn assert_sealed(output: &[u8]) {
    let text = String::from_utf8_lossy(output);
    for secret in SECRETS {
        assert!(!text.contains(secret), "{secret} came out: {text:.300}");
    }
}

/// The same command as the argument of another program.
#[must_use]
pub fn wrapped(command: &Command, by: &[&str]) -> Command {
    let mut outer = Command::new(by[0]);
    outer.args(&by[1..]).arg(command.get_program()).args(command.get_args());
    outer.env_clear().env("PATH", "/usr/local/bin:/usr/bin:/bin");
    for (name, value) in command.get_envs() {
        outer.env(name, value.unwrap_or_default());
    }
    if let Some(folder) = command.get_current_dir() {
        outer.current_dir(folder);
    }
    outer.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    outer
}
