//! **What this room is for:** the environment of programs: empty, then a short list of names, then what is set. **Who may
//! enter:** the supervisor. **Never done here:** reading the process's own environment (the caller hands it over), looking
//! at the disk. **Where the proof is:** tests below.

use std::path::Path;

use super::ProfileError;
use super::file::{self, Switch, ValueKind};
use super::syscalls::counts;
use super::view::HostKind;

/// Where programs are looked for when nothing usable is inherited.
const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Bytes of an inherited word: the longest real one is a list of languages.
const WORD_BYTES: usize = 128;

/// What an environment is made from.
#[derive(Clone, Copy)]
pub struct EnvironmentFacts<'a> {
    /// What the supervisor was started with.
    pub inherited: &'a [(String, String)],
    /// `[env] pass` of the policy: further names that are inherited, whatever their value.
    pub pass: &'a [String],
    /// `[env] set` of the policy.
    pub set: &'a [(String, String)],
    /// The private home of the view.
    pub home: &'a Path,
    /// A person started it on a terminal (`stockade run`): the terminal's variables pass, and nothing is set for silence.
    pub terminal: bool,
    /// Looks at a path of the host, its last component not followed.
    pub kind_of: &'a dyn Fn(&Path) -> Option<HostKind>,
}

impl std::fmt::Debug for EnvironmentFacts<'_> {
    /// Names alone: values may be secrets.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("EnvironmentFacts")
            .field("pass", &self.pass)
            .field("terminal", &self.terminal)
            .finish_non_exhaustive()
    }
}

/// The environment of programs, sorted by name. `PATH` keeps only absolute folders that are there: an empty or relative
/// one would run what lies in the folder one stands in. `HOME` and `TMPDIR` are those of the view, whatever anybody says.
///
/// # Errors
/// A fault of the files.
pub fn environment(facts: &EnvironmentFacts<'_>) -> Result<Vec<(String, String)>, ProfileError> {
    let base = file::base()?;
    let on: &[Switch] = if facts.terminal { &[Switch::Terminal] } else { &[] };
    let mut env = Variables::default();
    let inherited = |name: &str| facts.inherited.iter().rev().find(|(n, _)| n == name).map(|(_, value)| value.as_str());
    env.set("PATH", &clean_path(inherited("PATH").unwrap_or_default(), facts.kind_of));
    for entry in base.pass.iter().filter(|entry| counts(entry.only_if, None, on)) {
        for name in &entry.names {
            match inherited(name) {
                Some(value) if looks_like(entry.kind, value, facts.kind_of) => env.set(name, value),
                _ => {}
            }
        }
    }
    if !facts.terminal {
        for entry in &base.set_shell {
            entry.names.iter().for_each(|name| env.set(name, &entry.value));
        }
    }
    for name in facts.pass {
        if let Some(value) = inherited(name) {
            env.set(name, value);
        }
    }
    facts.set.iter().for_each(|(name, value)| env.set(name, value));
    env.set("HOME", &facts.home.to_string_lossy());
    env.set("TMPDIR", "/tmp");
    env.0.sort();
    Ok(env.0)
}

#[derive(Default)]
struct Variables(Vec<(String, String)>);

impl Variables {
    /// A later value replaces an earlier one. What the kernel could not carry as a variable is left out.
    fn set(&mut self, name: &str, value: &str) {
        if name.is_empty() || name.contains(['=', '\0']) || value.contains('\0') {
            return;
        }
        match self.0.iter_mut().find(|(known, _)| known == name) {
            Some((_, old)) => value.clone_into(old),
            None => self.0.push((name.to_owned(), value.to_owned())),
        }
    }
}

fn clean_path(path: &str, kind_of: &dyn Fn(&Path) -> Option<HostKind>) -> String {
    let mut kept: Vec<&str> = Vec::new();
    for folder in path.split(':') {
        if !kept.contains(&folder) && looks_like(ValueKind::Folder, folder, kind_of) {
            kept.push(folder);
        }
    }
    if kept.is_empty() { PATH.to_owned() } else { kept.join(":") }
}

fn looks_like(kind: ValueKind, value: &str, kind_of: &dyn Fn(&Path) -> Option<HostKind>) -> bool {
    let there = |file: bool| {
        let path = Path::new(value);
        let right = match kind_of(path) {
            Some(HostKind::Dir) => !file,
            Some(HostKind::File) => file,
            Some(HostKind::Link(_)) => true,
            None => false,
        };
        path.is_absolute() && !value.contains(char::is_control) && right
    };
    match kind {
        ValueKind::Word => {
            let plain = |c: char| c.is_ascii_alphanumeric() || "_.,:+-@/<>=".contains(c);
            value.len() <= WORD_BYTES && value.chars().all(plain)
        }
        ValueKind::Folder => there(false),
        ValueKind::File => there(true),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host(path: &Path) -> Option<HostKind> {
        match path.to_str()? {
            "/usr/bin" | "/opt/go" => Some(HostKind::Dir),
            "/bin" => Some(HostKind::Link("usr/bin".into())),
            "/etc/ca.pem" | "/bin/bash" => Some(HostKind::File),
            _ => None,
        }
    }

    fn pairs(list: &[(&str, &str)]) -> Vec<(String, String)> {
        list.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    fn made(inherited: &[(&str, &str)], pass: &[&str], set: &[(&str, &str)], terminal: bool) -> Vec<(String, String)> {
        let (inherited, set) = (pairs(inherited), pairs(set));
        let pass: Vec<String> = pass.iter().map(|name| (*name).to_owned()).collect();
        let home = Path::new("/home/u");
        let facts = EnvironmentFacts { inherited: &inherited, pass: &pass, set: &set, home, terminal, kind_of: &host };
        environment(&facts).unwrap()
    }

    fn value<'a>(env: &'a [(String, String)], name: &str) -> Option<&'a str> {
        env.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    #[test]
    fn nothing_that_steers_programs_or_holds_keys_is_inherited() {
        let names = "LD_PRELOAD LD_AUDIT LD_LIBRARY_PATH BASH_ENV ENV IFS PROMPT_COMMAND BASH_FUNC_ls%% NODE_OPTIONS PYTHONPATH \
                     PYTHONSTARTUP PYTHONHOME PERL5OPT PERL5LIB RUBYOPT JAVA_TOOL_OPTIONS _JAVA_OPTIONS GIT_SSH_COMMAND \
                     GIT_EXTERNAL_DIFF GIT_CONFIG_COUNT GIT_DIR SSH_AUTH_SOCK GPG_AGENT_INFO DBUS_SESSION_BUS_ADDRESS DOCKER_HOST \
                     DISPLAY WAYLAND_DISPLAY XDG_RUNTIME_DIR XDG_CONFIG_HOME XAUTHORITY KUBECONFIG AWS_SECRET_ACCESS_KEY GH_TOKEN \
                     NPM_CONFIG__AUTH DATABASE_URL OPENAI_API_KEY LC_SECRET CARGO_HOME HTTP_PROXY GCONV_PATH LOCPATH NLSPATH \
                     HOSTALIASES MALLOC_TRACE TERMINFO TERMCAP ZDOTDIR CDPATH GOFLAGS RUSTFLAGS CC MAKEFLAGS LESSOPEN";
        let inherited: Vec<_> = names.split_whitespace().map(|name| (name, "/usr/bin")).collect();
        for terminal in [true, false] {
            let env = made(&inherited, &[], &[], terminal);
            for name in names.split_whitespace() {
                assert_eq!(value(&env, name), None, "{name}");
            }
        }
    }

    #[test]
    fn path_holds_absolute_folders_that_are_there() {
        let env = made(&[("PATH", "/usr/bin::.:bin:/nowhere:/bin:/usr/bin:/etc/ca.pem")], &[], &[], false);
        assert_eq!(value(&env, "PATH"), Some("/usr/bin:/bin"));
        for empty in ["", ":", ".", "../bin"] {
            assert_eq!(value(&made(&[("PATH", empty)], &[], &[], false), "PATH"), Some(PATH));
        }
        assert_eq!(value(&made(&[], &[], &[], false), "PATH"), Some(PATH));
    }

    #[test]
    fn values_must_look_like_their_kind() {
        let good = made(
            &[
                ("LANG", "de_DE.UTF-8"),
                ("GOROOT", "/opt/go"),
                ("SSL_CERT_FILE", "/etc/ca.pem"),
                ("TZ", ":Europe/Berlin"),
            ],
            &[],
            &[],
            false,
        );
        for name in ["LANG", "GOROOT", "SSL_CERT_FILE", "TZ"] {
            assert!(value(&good, name).is_some(), "{name}");
        }
        let long = "x".repeat(WORD_BYTES + 1);
        let bad = made(
            &[
                ("LANG", "() { :; }"),
                ("LC_ALL", &long),
                ("GOROOT", "go"),
                ("JAVA_HOME", "/nowhere"),
                ("SSL_CERT_FILE", "/opt/go"),
            ],
            &[],
            &[],
            false,
        );
        for name in ["LANG", "LC_ALL", "GOROOT", "JAVA_HOME", "SSL_CERT_FILE"] {
            assert_eq!(value(&bad, name), None, "{name}");
        }
    }

    #[test]
    fn silence_is_for_commands_and_the_terminal_for_people() {
        let inherited = [("TERM", "xterm-256color"), ("SHELL", "/bin/bash"), ("EDITOR", "vim")];
        let command = made(&inherited, &[], &[], false);
        assert_eq!(value(&command, "TERM"), Some("dumb"));
        assert_eq!((value(&command, "EDITOR"), value(&command, "SHELL")), (Some("false"), None));
        let person = made(&inherited, &[], &[], true);
        assert_eq!((value(&person, "TERM"), value(&person, "SHELL")), (Some("xterm-256color"), Some("/bin/bash")));
        assert_eq!((value(&person, "EDITOR"), value(&person, "PAGER")), (None, None));
    }

    #[test]
    fn the_policy_passes_and_sets_but_home_and_tmp_are_the_views() {
        let inherited = [("KEY", "k"), ("HOME", "/root"), ("CI", "no"), ("A=B", "x")];
        let set = [("CI", "true"), ("TMPDIR", "/evil"), ("PAGER", "less"), ("", "x"), ("N", "a\0b")];
        let env = made(&inherited, &["KEY", "HOME", "GONE", "A=B"], &set, false);
        assert_eq!(
            (value(&env, "KEY"), value(&env, "CI"), value(&env, "PAGER")),
            (Some("k"), Some("true"), Some("less"))
        );
        assert_eq!((value(&env, "HOME"), value(&env, "TMPDIR")), (Some("/home/u"), Some("/tmp")));
        for name in ["GONE", "", "A=B", "N"] {
            assert_eq!(value(&env, name), None, "{name:?}");
        }
        let mut names: Vec<_> = env.iter().map(|(name, _)| name.clone()).collect();
        names.dedup();
        assert_eq!(names.len(), env.len(), "sorted, each once");
    }
}
