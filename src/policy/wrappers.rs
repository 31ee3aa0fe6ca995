//! **What this room is for:** programs that start another program: what they would start, for `deny` and hard blocks.
//! **Who may enter:** `rules` and `floor`. **Never done here:** widening: an `allow` is never looked through a wrapper.
//! **Where the proof is:** the tests below.

use super::command::{CommandParts, PARTS, Part, Word, subjects};

/// Wrappers inside wrappers; a person writes two.
const LEVELS: usize = 8;

/// A program that starts the rest of its arguments.
struct Wrapper {
    names: &'static [&'static str],
    /// Short options that take the next argument.
    valued: &'static str,
    /// Arguments of its own before the program.
    own: usize,
}

const fn wrapper(names: &'static [&'static str], valued: &'static str, own: usize) -> Wrapper {
    Wrapper { names, valued, own }
}

const WRAPPERS: &[Wrapper] = &[
    wrapper(
        &["command", "builtin", "nohup", "setsid", "busybox", "toybox", "unbuffer", "catchsegv", "eatmydata"],
        "",
        0,
    ),
    wrapper(&["exec"], "a", 0),
    wrapper(&["env"], "uCS", 0),
    wrapper(&["nice", "watch"], "n", 0),
    wrapper(&["ionice"], "cnpPu", 0),
    wrapper(&["stdbuf"], "ioe", 0),
    wrapper(&["time"], "fo", 0),
    wrapper(&["timeout"], "ks", 1),
    wrapper(&["sudo"], "ugCDhpRrTtU", 0),
    wrapper(&["doas"], "uC", 0),
    wrapper(&["xargs", "parallel"], "aEILnPsdj", 0),
    wrapper(&["chrt", "taskset", "chroot", "flock", "faketime"], "wE", 1),
    wrapper(&["strace", "ltrace"], "eoEpPsuaIOSXbn", 0),
    wrapper(&["unshare", "nsenter", "setpriv", "prlimit", "systemd-run", "dbus-run-session", "firejail"], "", 0),
];

const SHELLS: &[&str] = &["sh", "bash", "dash", "zsh", "ksh", "ash", "mksh", "fish"];

/// The parts of a command, and behind them what their wrappers would start (marked as derived).
#[must_use]
pub fn looked_through(text: &str) -> CommandParts {
    let mut found = subjects(text);
    let mut from = 0;
    for _ in 0..LEVELS {
        let until = found.parts.len();
        if from == until {
            return found;
        }
        for number in from..until {
            let Some(part) = found.parts.get(number).cloned() else { break };
            for inner in started_by(&part, &found.parts) {
                add(&mut found, inner, &part);
            }
        }
        from = until;
    }
    found.too_large |= from < found.parts.len();
    found
}

enum Started {
    Words(Vec<Word>),
    Script(String),
}

fn add(found: &mut CommandParts, inner: Started, outer: &Part) {
    let shift = found.parts.len();
    match inner {
        Started::Words(words) if !words.is_empty() => {
            let leading = words.iter().take_while(|word| word.assigns).count();
            let (assignments, words) = words.split_at(leading);
            found.parts.push(Part {
                assignments: assignments.to_vec(),
                words: words.to_vec(),
                derived: true,
                ..outer.clone()
            });
        }
        Started::Words(_) => {}
        Started::Script(script) => {
            let inner = subjects(&script);
            found.too_large |= inner.too_large;
            found.parts.extend(inner.parts.into_iter().map(|part| Part {
                piped_from: part.piped_from.map(|from| from + shift),
                derived: true,
                ..part
            }));
        }
    }
    found.too_large |= found.parts.len() > PARTS;
    found.parts.truncate(PARTS);
}

fn started_by(part: &Part, all: &[Part]) -> Vec<Started> {
    let Some(program) = part.program() else { return Vec::new() };
    let rest = part.words.get(1..).unwrap_or_default();
    let texts = || rest.iter().map(|word| word.text.as_str()).collect::<Vec<_>>();
    if SHELLS.contains(&program) {
        return shell(part, rest, all);
    }
    match program {
        "eval" => return vec![Started::Script(texts().join(" "))],
        "trap" => return rest.first().map(|word| Started::Script(word.text.clone())).into_iter().collect(),
        "su" | "script" | "runuser" => return option_value(rest, 'c').map(Started::Script).into_iter().collect(),
        "find" | "fd" => return find(rest),
        _ => {}
    }
    let Some(wrapper) = WRAPPERS.iter().find(|one| one.names.contains(&program)) else { return Vec::new() };
    if program == "command" && rest.iter().any(|word| matches!(word.text.as_str(), "-v" | "-V")) {
        return Vec::new();
    }
    let mut started: Vec<Started> = behind(wrapper, rest).into_iter().map(Started::Words).collect();
    if program == "env" {
        started.extend(option_value(rest, 'S').map(Started::Script));
    }
    if program == "xargs" || program == "parallel" {
        // `echo / | xargs rm -r`: the words that are written out become arguments
        let given = part
            .piped_from
            .and_then(|from| all.get(from))
            .filter(|from| matches!(from.program(), Some("echo" | "printf")));
        let more = given.map(|from| from.words.get(1..).unwrap_or_default().to_vec()).unwrap_or_default();
        for one in &mut started {
            if let Started::Words(words) = one {
                words.extend(more.iter().cloned());
            }
        }
    }
    started
}

/// What stands behind a wrapper's own options and arguments. A long option may or may not take the next word: both.
fn behind(wrapper: &Wrapper, rest: &[Word]) -> Vec<Vec<Word>> {
    let mut own = wrapper.own;
    let mut at = 0;
    let mut found = Vec::new();
    while let Some(word) = rest.get(at) {
        let text = word.text.as_str();
        at += 1;
        if text == "--" && own == wrapper.own {
            continue;
        }
        if text.starts_with("--") {
            if !text.contains('=') && found.len() < 4 && own == 0 {
                found.push(rest.get(at + 1..).unwrap_or_default().to_vec());
            }
        } else if text.len() > 1 && text.starts_with('-') {
            let takes_next =
                text.chars().last().is_some_and(|last| wrapper.valued.contains(last)) && text.chars().count() == 2;
            at += usize::from(takes_next);
        } else if word.assigns && own == 0 {
            // an assignment in front of the program stays in front of it
            found.push(rest.get(at - 1..).unwrap_or_default().to_vec());
            return found;
        } else if own > 0 {
            own -= 1;
        } else {
            found.push(rest.get(at - 1..).unwrap_or_default().to_vec());
            return found;
        }
    }
    found
}

/// `sh -c TEXT`, also `-lc`; without it the text that comes in by a here-document or from `echo`.
fn shell(part: &Part, rest: &[Word], all: &[Part]) -> Vec<Started> {
    let is_c = |word: &&Word| word.text.starts_with('-') && !word.text.starts_with("--") && word.text.ends_with('c');
    if let Some(at) = rest.iter().position(|word| is_c(&word)) {
        let script = rest.get(at + 1..).unwrap_or_default().iter().find(|word| !word.text.starts_with(['-', '+']));
        return script.map(|word| Started::Script(word.text.clone())).into_iter().collect();
    }
    if rest.iter().any(|word| !word.text.starts_with('-')) {
        return Vec::new();
    }
    let mut started = Vec::new();
    if !part.input.is_empty() {
        started.push(Started::Script(part.input.clone()));
    }
    let from =
        part.piped_from.and_then(|from| all.get(from)).filter(|from| matches!(from.program(), Some("echo" | "printf")));
    if let Some(from) = from {
        let words: Vec<&str> = from.words.iter().skip(1).map(|word| word.text.as_str()).collect();
        started.push(Started::Script(words.join(" ")));
    }
    started
}

fn option_value(rest: &[Word], option: char) -> Option<String> {
    let at = rest.iter().position(|word| word.text.starts_with('-') && word.text.ends_with(option))?;
    rest.get(at + 1).map(|word| word.text.clone())
}

fn find(rest: &[Word]) -> Vec<Started> {
    let starts = |word: &Word| matches!(word.text.as_str(), "-exec" | "-execdir" | "-ok" | "-okdir" | "-x" | "-X");
    let ends = |word: &Word| matches!(word.text.as_str(), ";" | "+");
    let begins = rest.iter().enumerate().filter(|(_, word)| starts(word)).map(|(at, _)| at + 1);
    let command =
        |at: usize| rest.get(at..).unwrap_or_default().iter().take_while(|word| !ends(word)).cloned().collect();
    begins.take(16).map(|at| Started::Words(command(at))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sees(text: &str, want: &str) -> bool {
        looked_through(text).parts.iter().any(|part| part.plain() == want)
    }

    #[test]
    fn wrappers_are_looked_through() {
        for text in [
            "touch bad",
            "env touch bad",
            "env -i FOO=1 touch bad",
            "env -u X touch bad",
            "FOO=1 touch bad",
            "nice -n 5 touch bad",
            "nohup touch bad &",
            "timeout 5 touch bad",
            "timeout -k 1 --signal=KILL 5s touch bad",
            "timeout --foreground 5 touch bad",
            "setsid -w touch bad",
            "command touch bad",
            "exec -a x touch bad",
            "sudo -u root touch bad",
            "echo x | xargs -n1 touch bad | cat",
            "sh -c 'touch bad'",
            "bash -lc \"touch bad\"",
            "bash -o pipefail -c 'touch bad'",
            "env sh -c 'nice sh -c \"touch bad\"'",
            "eval touch bad",
            "eval 'touch bad'",
            "find . -exec touch bad \\;",
            "sh <<'E'\ntouch bad\nE\n",
            "bash <<< 'touch bad'",
            "echo touch bad | sh",
            "stdbuf -o0 touch bad",
            "trap 'touch bad' EXIT",
        ] {
            let found = if text.contains("xargs") { sees(text, "touch bad x") } else { sees(text, "touch bad") };
            assert!(found, "{text}: {:?}", looked_through(text).parts.iter().map(Part::plain).collect::<Vec<_>>());
        }
        for text in ["echo touch bad", "command -v touch", "sh script.sh 'touch bad'", "grep 'touch bad' x"] {
            assert!(!sees(text, "touch bad"), "{text}");
        }
    }

    #[test]
    fn nesting_ends() {
        let deep = (0..40).fold("touch bad".to_owned(), |inner, _| format!("env {inner}"));
        assert!(looked_through(&deep).too_large);
    }
}
