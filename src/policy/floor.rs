//! **What this room is for:** the floor under every policy: `policies/hard-blocks.toml` and how its conditions are read.
//! **Who may enter:** `decide`. **Never done here:** asking, allowing; nothing here can be switched off.
//! **Where the proof is:** the file's own vectors, run by the tests below.

use std::sync::LazyLock;

use serde::Deserialize;

use super::command::{CommandParts, Part, Redirect};

/// The file, as shipped.
pub const TEXT: &str = include_str!("../../policies/hard-blocks.toml");

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Floor {
    block: Vec<Block>,
}

/// One entry of the floor.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Block {
    /// Its name.
    pub id: String,
    /// What the command would do.
    pub what: String,
    /// What to do instead.
    pub instead: String,
    /// Texts that it must stop.
    pub blocks: Vec<String>,
    /// Texts that nothing here may stop.
    pub must_not_block: Vec<String>,
    when: Vec<When>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct When {
    program: Vec<String>,
    sub: Vec<String>,
    flags: Vec<Vec<String>>,
    not_flags: Vec<String>,
    args: Vec<String>,
    last: Option<String>,
    text: Vec<String>,
    redirect: Vec<String>,
    detect: Option<Detect>,
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Detect {
    ForkBomb,
    RunDownload,
    EncodePipe,
}

#[allow(clippy::expect_used, reason = "a file of ours, embedded; the tests read it")]
static FLOOR: LazyLock<Vec<Block>> =
    LazyLock::new(|| toml::from_str::<Floor>(TEXT).expect("hard-blocks.toml parses").block);

/// The entries.
#[must_use]
pub fn blocks() -> &'static [Block] {
    &FLOOR
}

/// The first entry that stops a command. `home` is what `~` stands for.
#[must_use]
pub fn stopped_by(command: &CommandParts, home: Option<&str>) -> Option<&'static Block> {
    FLOOR.iter().find(|block| block.when.iter().any(|when| when.holds(command, home)))
}

impl When {
    fn holds(&self, command: &CommandParts, home: Option<&str>) -> bool {
        match self.detect {
            Some(Detect::ForkBomb) => fork_bomb(&command.parts),
            Some(Detect::RunDownload) => run_download(&command.parts),
            Some(Detect::EncodePipe) => encode_pipe(&command.parts, home),
            None => command.parts.iter().any(|part| self.holds_for(part, &command.parts, home)),
        }
    }

    fn holds_for(&self, part: &Part, all: &[Part], home: Option<&str>) -> bool {
        let program = part.program().unwrap_or_default();
        if !self.program.is_empty() && !self.program.iter().any(|name| stars(name, program)) {
            return false;
        }
        let args: Vec<&str> = part.words.iter().skip(1).map(|word| word.text.as_str()).collect();
        let subs = without_options(&args);
        let fits = |wanted: &[String], given: &str| wanted.iter().any(|want| fits(want, given, home));
        let read = part.redirects.iter().filter(|one| !one.writes()).map(|one| one.target.text.as_str());
        let mut written = part.redirects.iter().filter(|one| Redirect::writes(one)).map(|one| one.target.text.as_str());
        self.sub.iter().enumerate().all(|(at, want)| subs.get(at).is_some_and(|given| given == want))
            && self.flags.iter().all(|group| args.iter().any(|arg| group.iter().any(|flag| is_flag(flag, arg))))
            && !args.iter().any(|arg| self.not_flags.iter().any(|flag| is_flag(flag, arg)))
            && (self.args.is_empty() || args.iter().copied().chain(read).any(|arg| fits(&self.args, arg)))
            && self.last.as_ref().is_none_or(|want| args.len() > 1 && args.last() == Some(&want.as_str()))
            && (self.text.is_empty() || says(&self.text, &args, part, all))
            && (self.redirect.is_empty() || written.any(|to| fits(&self.redirect, to)))
    }
}

/// The words behind a program's global options (`git -C x push`, `terraform -chdir=x destroy`).
fn without_options<'a>(args: &[&'a str]) -> Vec<&'a str> {
    let mut rest = args.iter().copied();
    let mut found = Vec::new();
    while let Some(arg) = rest.next() {
        if found.is_empty()
            && matches!(arg, "-C" | "-c" | "--git-dir" | "--work-tree" | "-n" | "--context" | "--profile" | "--region")
        {
            rest.next();
        } else if !arg.starts_with('-') {
            found.push(arg);
        }
    }
    found
}

/// `r`: a letter, alone or in a cluster; `force`: a long option, with or without a value; `-delete`: exactly that.
fn is_flag(flag: &str, arg: &str) -> bool {
    if flag.starts_with('-') {
        return arg == flag;
    }
    if flag.len() == 1 {
        return arg.starts_with('-') && !arg.starts_with("--") && arg.contains(flag);
    }
    arg.strip_prefix("--").is_some_and(|name| name.split('=').next() == Some(flag))
}

fn says(wanted: &[String], args: &[&str], part: &Part, all: &[Part]) -> bool {
    let piped =
        part.piped_from.and_then(|from| all.get(from)).filter(|from| matches!(from.program(), Some("echo" | "printf")));
    let piped = piped.map(Part::plain).unwrap_or_default();
    let text = format!("{} {} {piped}", args.join(" "), part.input).to_lowercase();
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    wanted.iter().any(|want| text.contains(want.as_str()))
}

fn fits(want: &str, given: &str, home: Option<&str>) -> bool {
    match want {
        "@everything" => is_everything(given, home),
        "@disk" => is_disk(given),
        "of=@disk" => given.strip_prefix("of=").is_some_and(is_disk),
        "@secret" => is_secret(given),
        _ => stars(want, given),
    }
}

/// A text with `*` at its end, or exactly.
fn stars(pattern: &str, text: &str) -> bool {
    pattern.strip_suffix('*').map_or(pattern == text, |beginning| text.starts_with(beginning))
}

/// The top of the system, one of its main folders, or the whole home folder, however it is spelled.
fn is_everything(given: &str, home: Option<&str>) -> bool {
    const TOPS: &[&str] = &[
        "bin", "boot", "dev", "etc", "home", "lib", "lib32", "lib64", "opt", "proc", "root", "run", "sbin", "srv",
        "sys", "usr", "var", "Users",
    ];
    let given = given.replace("${HOME}", "~").replace("$HOME", "~");
    let (below_home, rest) = match given.strip_prefix('~') {
        Some(rest) => (true, rest),
        None => (false, given.as_str()),
    };
    if !rest.is_empty() && !rest.starts_with('/') {
        return false;
    }
    let mut names: Vec<&str> = Vec::new();
    for name in rest.split('/') {
        match name {
            "" | "." | "*" | ".*" | "{*,.*}" => {}
            ".." => drop(names.pop()),
            name => names.push(name),
        }
    }
    if below_home || given.is_empty() {
        return below_home && names.is_empty();
    }
    let is_home = home.is_some_and(|home| home.split('/').filter(|name| !name.is_empty()).eq(names.iter().copied()));
    is_home || names.is_empty() || matches!(names.as_slice(), [one] if TOPS.contains(one))
}

fn is_disk(given: &str) -> bool {
    const DISKS: &[&str] = &["sd", "hd", "vd", "xvd", "nvme", "mmcblk", "disk", "mapper/", "dm-", "md", "loop"];
    given.strip_prefix("/dev/").is_some_and(|name| DISKS.iter().any(|disk| name.starts_with(disk)))
}

/// The names that searches never show, as far as a file name tells.
fn is_secret(given: &str) -> bool {
    let name = given.rsplit('/').next().unwrap_or(given);
    let example = [".example", ".sample", ".template"].iter().any(|end| name.ends_with(end));
    let env = name == ".env" || name.starts_with(".env.");
    let key = matches!(name, "id_rsa" | "id_ed25519" | "id_ecdsa" | ".netrc" | ".git-credentials")
        || [".pem", ".key", ".p12", ".pfx"].iter().any(|end| name.ends_with(end));
    (env && !example) || key
}

/// A function that starts itself in a pipe or in the background.
fn fork_bomb(parts: &[Part]) -> bool {
    parts.iter().any(|part| {
        let itself = part.inside.is_some() && part.program() == part.inside.as_deref();
        itself && (part.background || part.piped_from.is_some())
    })
}

const DOWNLOADERS: &[&str] = &["curl", "wget", "fetch", "aria2c"];
const INTERPRETERS: &[&str] = &[
    "sh", "bash", "dash", "zsh", "ksh", "ash", "fish", "python", "python2", "python3", "perl", "ruby", "node", "php",
    "source", ".", "eval", "deno", "bun",
];

/// A download that an interpreter reads: by a pipe, in its arguments, or from the file it was stored in.
fn run_download(parts: &[Part]) -> bool {
    let named = |part: &Part, names: &[&str]| part.program().is_some_and(|program| names.contains(&program));
    let loads = |part: &Part| named(part, DOWNLOADERS);
    let reads_pipe = |part: &Part| {
        // `python3 -`, `bash -s x`, `sh`: nothing that is a script of its own
        named(part, INTERPRETERS)
            && part
                .words
                .iter()
                .skip(1)
                .find(|word| word.text != "-")
                .is_none_or(|word| word.text.starts_with('-') && word.text != "-c" && word.text != "-m")
    };
    let comes_from_download = |part: &Part| {
        let mut from = part.piped_from;
        for _ in 0..16 {
            let Some(before) = from.and_then(|number| parts.get(number)) else { return false };
            if loads(before) {
                return true;
            }
            from = before.piped_from;
        }
        false
    };
    let loaded = parts.iter().any(loads);
    let in_arguments = |part: &Part| {
        named(part, INTERPRETERS) && loaded && part.words.iter().skip(1).any(|word| word.text.contains("$(…)"))
    };
    let stored: Vec<&str> = parts.iter().filter(|part| loads(part)).flat_map(stored_in).collect();
    let runs_stored = |part: &Part| {
        let same =
            |text: &str| stored.iter().any(|file| text.trim_start_matches("./") == file.trim_start_matches("./"));
        let program = part.words.first().is_some_and(|word| word.text.contains('/') && same(&word.text));
        program || (named(part, INTERPRETERS) && part.words.iter().skip(1).any(|word| same(&word.text)))
    };
    parts.iter().any(|part| (reads_pipe(part) && comes_from_download(part)) || in_arguments(part) || runs_stored(part))
}

/// Files that a download is written to.
fn stored_in(part: &Part) -> Vec<&str> {
    let args: Vec<&str> = part.words.iter().skip(1).map(|word| word.text.as_str()).collect();
    let mut files: Vec<&str> =
        part.redirects.iter().filter(|one| one.writes()).map(|one| one.target.text.as_str()).collect();
    for (at, arg) in args.iter().enumerate() {
        match *arg {
            "-o" | "--output" | "-O" | "--output-document" => files.extend(args.get(at + 1).copied()),
            arg => files.extend(arg.strip_prefix("--output=").or_else(|| arg.strip_prefix("--output-document="))),
        }
        // by the name in the address: `curl -O`, plain `wget`
        if arg.contains("://") {
            files.extend(
                arg.split(['?', '#']).next().and_then(|url| url.rsplit('/').next()).filter(|name| !name.is_empty()),
            );
        }
    }
    files
}

/// `cat .env | base64`
fn encode_pipe(parts: &[Part], home: Option<&str>) -> bool {
    let encodes = |part: &Part| {
        matches!(part.program(), Some("base64" | "base32" | "basenc" | "xxd" | "od" | "hexdump" | "hd" | "uuencode"))
    };
    parts.iter().filter(|part| encodes(part)).any(|part| {
        let from = part.piped_from.and_then(|number| parts.get(number));
        from.is_some_and(|from| {
            matches!(from.program(), Some("cat" | "head" | "tail" | "tac"))
                && from.words.iter().skip(1).any(|word| fits("@secret", &word.text, home))
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::wrappers::looked_through;

    #[test]
    fn every_vector_of_the_floor() {
        let mut ids = Vec::new();
        for block in blocks() {
            ids.push(block.id.as_str());
            assert!(block.blocks.len() >= 2 && block.must_not_block.len() >= 2, "{}", block.id);
            for text in &block.blocks {
                let command = looked_through(text);
                let hit = block.when.iter().any(|when| when.holds(&command, Some("/home/u")));
                assert!(hit && stopped_by(&command, Some("/home/u")).is_some(), "{}: {text:?}: {command:?}", block.id);
            }
            for text in &block.must_not_block {
                let stopped = stopped_by(&looked_through(text), Some("/home/u")).map(|b| &b.id);
                assert_eq!(stopped, None, "{text:?}");
            }
        }
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), blocks().len());
    }

    #[test]
    fn home_by_its_path() {
        assert!(is_everything("/home/u/", Some("/home/u")) && !is_everything("/home/u/x", Some("/home/u")));
        assert!(!is_everything("~user", None) && !is_everything("", None) && !is_everything("usr", None));
    }
}
