//! Ways out, really tried. Each test first shows that the attempt works outside of the fence (or that only the powers of
//! this user are missing there), then makes it inside, by `run` and by `bash`, as the user of the test and as nobody, and
//! looks at the kernel's answer. What cannot be tried fails; nothing is skipped.

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

use serde_json::json;

use crate::support::{Bay, User, assert_sealed, shown, users};

mod denied;
mod devices;
mod files;
mod host;
mod kernel;
mod metadata;
mod processes;
mod protected;
mod sockets;
mod tools;

/// What the attempt does outside.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Outside {
    /// It works as the same user.
    Works,
    /// It works as root; an ordinary user has not the power. Without root the control cannot be made and is left out.
    WorksAsRoot,
    /// This kernel may lack it, or it would do damage: outside it is not tried. The reason is for readers.
    NotTried(&'static str),
}

/// One way out.
#[derive(Debug, Clone)]
struct Way {
    attempts: Vec<&'static str>,
    refused: &'static [&'static str],
    outside: Outside,
    policy: &'static str,
    before: &'static str,
    after: &'static str,
}

/// Attempts (Python, see `inside.py`) and the answers that mean "refused". `{outer}`, `{work}`, `{base}`, `{victim}`, `{tcp}`,
/// `{udp}`, `{name}` stand for what the host has.
fn way(attempts: &[&'static str], refused: &'static [&'static str]) -> Way {
    Way { attempts: attempts.to_vec(), refused, outside: Outside::Works, policy: "", before: "", after: "" }
}

impl Way {
    fn outside(self, outside: Outside) -> Way {
        Way { outside, ..self }
    }

    /// More lines of the policy.
    fn policy(self, policy: &'static str) -> Way {
        Way { policy, ..self }
    }

    /// Python that the host runs before and after, as the user of the test.
    fn host(self, before: &'static str, after: &'static str) -> Way {
        Way { before, after, ..self }
    }
}

/// Makes a test of each way.
macro_rules! ways {
    ($($name:ident: $way:expr;)*) => { $( #[test] fn $name() { $crate::escape::prove(stringify!($name), &$way); } )* };
}
pub(crate) use ways;

/// Ends its process when dropped.
struct Victim(Child);

impl Drop for Victim {
    fn drop(&mut self) {
        let _ = (self.0.kill(), self.0.wait());
    }
}

/// A bay, what the host has beside it, and the words for the attempts.
struct Scene {
    bay: Bay,
    host: host::Host,
    victim: Victim,
}

impl Scene {
    fn new(user: User, policy: &str) -> Scene {
        let mut bay = Bay::new(user);
        let host = host::Host::new(&bay);
        let mut command = as_user(user);
        command.args(["sleep", "120"]).env("MARK", "petrel31").stdin(Stdio::null()).stdout(Stdio::null());
        let victim = Victim(command.spawn().unwrap());
        let policy = policy.replace("{outer}", &bay.base().join("outer").display().to_string());
        bay.with_policy("open", &policy);
        Scene { bay, host, victim }
    }

    fn fill(&self, text: &str) -> String {
        let base = self.bay.base().display().to_string();
        text.replace("{outer}", &format!("{base}/outer"))
            .replace("{work}", &format!("{base}/work"))
            .replace("{base}", &base)
            .replace("{victim}", &self.victim.0.id().to_string())
            .replace("{tcp}", &self.host.tcp.to_string())
            .replace("{udp}", &self.host.udp.to_string())
            .replace("{name}", &self.host.name)
    }

    fn put_attempts(&self, attempts: &[&str]) {
        let filled: Vec<String> = attempts.iter().map(|attempt| self.fill(attempt)).collect();
        self.bay.put("work/t.py", include_str!("inside.py"));
        self.bay.put("work/t.json", &json!(filled).to_string());
    }

    /// The attempts without any fence, as `user`.
    fn outside(&self, user: User, attempts: &[&str]) -> Vec<String> {
        self.put_attempts(attempts);
        let mut command = as_user(user);
        command.args(["/usr/bin/python3", "t.py", "t.json"]).current_dir(self.bay.work(""));
        answers(&command.output().unwrap())
    }

    /// The attempts inside; `bash`: as the command of that tool.
    fn inside(&self, bash: bool, attempts: &[&str]) -> Output {
        self.put_attempts(attempts);
        let program = ["/usr/bin/python3", "t.py", "t.json"];
        let mut command = self.bay.command(if bash { "call" } else { "run" });
        command.env("STOCKADE_TEST_TOKEN", "petrel31").env("AWS_SECRET_ACCESS_KEY", "petrel31");
        if bash {
            command.arg("bash").arg(json!({ "command": program.join(" ") }).to_string());
        } else {
            command.arg("--").args(program);
        }
        command.output().unwrap()
    }
}

/// A command as a user, with nothing of the test's environment but a plain `PATH`.
fn as_user(user: User) -> Command {
    let mut command = Command::new(if user == User::Nobody { "setpriv" } else { "env" });
    if user == User::Nobody {
        command.args(["--reuid", "65534", "--regid", "65534", "--clear-groups", "--"]);
    }
    command.env_clear().env("PATH", "/usr/local/bin:/usr/bin:/bin");
    command
}

/// The lines that `inside.py` printed.
fn answers(output: &Output) -> Vec<String> {
    let text = String::from_utf8_lossy(&output.stdout);
    text.lines().filter(|line| *line == "OK" || line.starts_with("ERR ")).map(str::to_owned).collect()
}

/// Everything that a program could change in a tree: names, kinds, modes, owners, times, content.
fn state(tree: &Path) -> Vec<String> {
    let mut rows = Vec::new();
    let mut left = vec![tree.to_path_buf()];
    while let Some(path) = left.pop() {
        let found = fs::symlink_metadata(&path).unwrap();
        let content = if found.is_file() { fs::read(&path).unwrap() } else { Vec::new() };
        let (seconds, nanos) = (found.mtime(), found.mtime_nsec());
        let attributes: Vec<String> = attribute_names(&path);
        rows.push(format!(
            "{} {:o} {} {} {} {seconds}.{nanos} {attributes:?} {content:?}",
            path.display(),
            found.permissions().mode(),
            found.uid(),
            found.gid(),
            found.nlink()
        ));
        if found.is_dir() {
            left.extend(fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
        }
    }
    rows.sort();
    rows
}

/// Names of a file's extended attributes.
fn attribute_names(path: &Path) -> Vec<String> {
    let mut names = vec![0; 4096];
    let length = rustix::fs::llistxattr(path, &mut names[..]).unwrap_or(0);
    names[..length].split(|b| *b == 0).map(|name| String::from_utf8_lossy(name).into_owned()).collect()
}

/// Tries a way as everybody, by every road.
#[track_caller]
fn prove(name: &str, way: &Way) {
    for user in users() {
        control(name, way, user);
        for bash in [false, true] {
            let scene = Scene::new(user, way.policy);
            scene.host.python(&scene.fill(way.before));
            let outer = scene.bay.base().join("outer");
            let before = state(&outer);
            let output = scene.inside(bash, &way.attempts);
            scene.host.python(&scene.fill(way.after));
            let what = format!("{name} as {user:?}, bash: {bash}");
            let answers = answers(&output);
            assert_eq!(answers.len(), way.attempts.len(), "{what}: an attempt was not made: {}", shown(&output));
            for (attempt, answer) in way.attempts.iter().zip(&answers) {
                let refused = answer.strip_prefix("ERR ").is_some_and(|error| way.refused.contains(&error));
                assert!(refused, "{what}: {attempt}\nwas answered with {answer}: {}", shown(&output));
            }
            assert_sealed(&output.stdout);
            assert_sealed(&output.stderr);
            assert_eq!(state(&outer), before, "{what}: something outside changed");
        }
    }
}

/// The attempt is a real one: outside it works.
fn control(name: &str, way: &Way, user: User) {
    let user = match way.outside {
        Outside::NotTried(why) => {
            assert!(!why.is_empty());
            return;
        }
        Outside::Works => user,
        Outside::WorksAsRoot if nix::unistd::geteuid().is_root() => User::Me,
        Outside::WorksAsRoot => return,
    };
    let scene = Scene::new(user, way.policy);
    scene.host.python(&scene.fill(way.before));
    let answers = scene.outside(user, &way.attempts);
    scene.host.python(&scene.fill(way.after));
    assert_eq!(answers, vec!["OK"; way.attempts.len()], "{name}: outside, as {user:?}, it must work");
}

/// A path's bytes as text, for messages and policies.
fn text(path: &Path) -> String {
    String::from_utf8_lossy(path.as_os_str().as_bytes()).into_owned()
}
